"""The default goal: what is shown of a run, clamped, with a limit on its last step."""

import json
import math

import numpy as np
import pytest

from cli_runner import shell
from privmean.errors import ArgumentError
from privmean.streams.compare_strategies import candidates, choose, norms_of
from privmean.streams.fit_strategies import fit
from privmean.streams.strategy_error import (
    FINAL,
    ClampedError,
    ErrorGoal,
    clamped_square,
    first_usable,
)
from privmean.streams.stream_plan import plan
from privmean.streams.toeplitz_matrices import Participation
from statistics_kit import assert_mean

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 1.0)}


@pytest.mark.parametrize("dimension", [1, 2, 7])
@pytest.mark.parametrize("sd", [0.05, 0.4, 1.3, 3.0])
def test_the_closed_form_is_the_mean_squared_error_at_the_centre(sd, dimension):
    noise = np.random.default_rng(7).normal(0, sd, (200_000, dimension))
    assert_mean(np.minimum(np.sum(noise**2, axis=1), 1.0), float(clamped_square(sd, dimension)))


def test_both_forms_of_one_dimension_agree_and_have_their_limits():
    from scipy.special import gammainc, gammaincc

    sd = np.geomspace(1e-6, 1e4, 300)
    half = 0.5 / sd**2
    general = sd**2 * gammainc(1.5, half) + gammaincc(0.5, half)
    assert clamped_square(sd) == pytest.approx(general, rel=1e-9)
    assert clamped_square(np.array([1e-9]))[0] == pytest.approx(1e-18)
    assert clamped_square(np.array([1e9]))[0] == pytest.approx(1.0)


@pytest.mark.parametrize("sd", [0.1, 0.8, 5.0])
def test_wherever_the_truth_lies_the_error_is_at_most_twice_that_of_the_centre(sd):
    # root mean square, so four times the closed form
    noise = np.random.default_rng(3).normal(0, sd, 200_000)
    for truth in (0.0, 0.5, 1.0):
        error = np.clip(truth + noise, -1, 1) - truth
        assert np.mean(error**2) <= 4 * clamped_square(sd)


def test_first_usable_step():
    sds = np.array([3.0, 0.1, 0.3, 0.19, 0.18])
    assert first_usable(sds, 1.0) == 4
    assert first_usable(sds, 0.8) is None
    assert first_usable(sds, 100.0) == 1
    assert first_usable(sds, 1.0, dimension=4) is None


def both(sds):
    """(last step, root mean squared clamped error) for the region [0, 1]."""
    return float(sds[-1]), 0.5 * math.sqrt(float(np.mean(clamped_square(2 * sds))))


# the limits are what the best goal gave that one could choose by hand; the table has all rows
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "b", "last", "shown"),
    [(8192, 16, 512, 0.0222, 0.0519), (1000, 10, 30, 0.0910, 0.2036)],
)
def test_the_default_is_at_least_as_good_as_the_best_goal_by_hand(n, k, b, last, shown):
    chosen = plan(**BUDGET, max_participations=k, min_separation=b, steps=n)
    found = both(chosen.noise_sd(n))
    assert found[0] <= last + 5e-5
    assert found[1] <= shown + 5e-5
    outlook = chosen.outlook
    assert (outlook.last_sd, outlook.shown_rmse) == pytest.approx(found)
    assert outlook.steps == n
    assert outlook.small_from == first_usable(chosen.noise_sd(n), 0.5)
    assert f"from step {outlook.small_from} on" in str(outlook)


@pytest.mark.slow
@pytest.mark.parametrize("within", [1.0, 1.4, 3.0])
def test_the_last_step_keeps_its_limit(within):
    n, p = 600, Participation(4, 100)
    chosen = plan(**BUDGET, max_participations=4, min_separation=100, steps=n, last_within=within)
    least = fit(p, n, FINAL, buffers=2).rmse(p, n, FINAL)
    norms = norms_of(chosen.strategy, n) * chosen.strategy.sensitivity(p, n)
    assert norms[-1] <= within * least * 1.002
    if within == 1.4:  # the limit binds, and is used
        assert norms[-1] >= 0.95 * within * least


def test_a_looser_limit_never_shows_a_larger_error():
    settings = {**BUDGET, "max_participations": 4, "min_separation": 100, "steps": 600}
    errors = [plan(**settings, last_within=item).outlook.shown_rmse for item in (1.2, 1.75, 4.0)]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.slow
def test_a_limit_excludes_what_is_better_on_the_whole():
    p, goal = Participation(4, 50), ErrorGoal(shown=ClampedError(8.4494))
    found = candidates(p, 200, goal)
    free = choose(found, endless=False, memory=10**6, slack=0.0)
    bound = choose(found, endless=False, memory=10**6, slack=0.0, within=1.0)
    assert free.rmse_goal < bound.rmse_goal
    assert bound.rmse_final <= 1.002 * min(item.rmse_final for item in found)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(("k", "b"), [(1, 1), (3, 1), (9, 4)])
def test_short_runs_have_plans_too(steps, k, b):
    chosen = plan(**BUDGET, max_participations=k, min_separation=b, steps=steps)
    assert chosen.outlook.shown_rmse <= 0.5


def test_an_endless_stream_and_a_radius_to_be_found():
    chosen = plan(epsilon=1.0, delta=1e-6, max_participations=2, min_separation=60)
    assert chosen.outlook.in_radii
    assert "clip radii" in str(chosen.outlook)
    assert 0 < chosen.outlook.shown_rmse < 1


def test_what_is_refused():
    with pytest.raises(ArgumentError, match="requires a budget"):
        ErrorGoal.of("shown")
    for factor in (0.5, float("nan")):
        with pytest.raises(ArgumentError, match="last_within"):
            plan(**BUDGET, max_participations=2, min_separation=9, steps=20, last_within=factor)


@pytest.mark.slow
def test_the_command_prints_both_columns_and_the_first_small_step():
    arguments = ["--steps", "300", "--max-participations", "2", "--min-separation", "150"]
    command = ["stream", "plan", *arguments, "--epsilon", "1", "--delta", "1e-6", "--clip", "0.5"]
    made = json.loads(shell(*command, "--json").stdout)
    assert made["goal"] == "shown"
    errors = [item["rmse_goal"] for item in made["strategies"]]
    assert errors == sorted(errors)
    best = plan(**BUDGET, max_participations=2, min_separation=150, steps=300).outlook
    same = [
        item
        for item in made["strategies"]
        if item["error_shown"] == pytest.approx(best.shown_rmse, rel=1e-3)
    ]
    assert same[0]["error_final"] == pytest.approx(best.last_sd, rel=1e-3)
    assert same[0]["small_from"] == best.small_from
    text = shell(*command, "--window", "50", "--json").stdout
    window = json.loads(text)
    assert window["target"] == "mean of the last 50 steps"
    small = plan(**BUDGET, max_participations=2, min_separation=150, steps=300, window=50).outlook
    assert window["strategies"][0]["error_shown"] == pytest.approx(small.shown_rmse, rel=5e-3)
    header = shell(*command).stdout
    for name in ("error shown", "error final", "below 10%"):
        assert name in header
