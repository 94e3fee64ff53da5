"""Windows, decayed means, calendar periods and groups."""

import datetime as dt
import itertools
import math

import numpy as np
import pytest
from continual_reference import BASE, QUICK, dense_of, exact, patterns, true_sensitivity

from altered_noise import NoAddedNoise
from privmean.errors import ArgumentError, InfeasibleError, PrivmeanError
from privmean.noise.noise_source import SimulatedNoise
from privmean.published.continual import BandedInverse
from privmean.streams import GroupMeanStream, MeanStream, plan
from privmean.streams.compare_strategies import norms_of
from privmean.streams.fit_strategies import fit_target
from privmean.streams.participation import period_of
from privmean.streams.strategies import (
    Banded,
    Buffered,
    Identity,
    MeanToeplitz,
    PrefixRoot,
    ScaledBuffered,
    Toeplitz,
)
from privmean.streams.strategy_error import AveragingTarget, ErrorGoal
from privmean.streams.toeplitz_matrices import ColumnNorms, Participation
from statistics_kit import assert_variance

TARGETS = (
    AveragingTarget(1),
    AveragingTarget(4),
    AveragingTarget(50),
    AveragingTarget(factor=0.8),
    AveragingTarget.of(half_life=3),
)


# --- privacy: the noisy rows are those of a running mean --------------------------------------


def fitted(participation, n):
    """The strategies that a window or a decayed mean is offered."""
    goal = ErrorGoal()
    yield Identity()
    for target in (AveragingTarget(3), AveragingTarget(factor=0.7)):
        for buffers in (1, 2):
            yield fit_target(participation, n, goal, target, buffers=buffers)
    for p in {1, min(3, participation.separation), participation.separation}:
        yield Banded(PrefixRoot(), p)
        yield BandedInverse(PrefixRoot(), p)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "b"), [(12, 2, 4), (12, 3, 3), (11, 5, 2), (9, 9, 1), (12, 1, 1)]
)
def test_no_pattern_and_no_signs_move_a_window_by_more_than_is_claimed(n, k, b):
    for strategy in fitted(Participation(k, b), n):
        truth = true_sensitivity(dense_of(strategy, n), min(k, n), b)
        assert truth <= strategy.sensitivity(Participation(k, b), n) * (1 + 1e-9)


@pytest.mark.parametrize("target", TARGETS)
def test_windows_and_decay_are_functions_of_the_noisy_rows(target):
    # whatever is released is a linear map of Y = C X + Z: as exact inputs differ, so do outputs
    n, strategy = 12, QUICK
    c = dense_of(strategy, n)
    weights = target.weights(n)
    a = np.array([[weights[t - s] if s <= t else 0.0 for s in range(n)] for t in range(n)])
    a /= a.sum(axis=1, keepdims=True)
    b = a @ np.linalg.inv(c)
    assert np.sqrt((b**2).sum(axis=1)) == pytest.approx(norms_of(strategy, n, target), rel=1e-9)


def group_patterns(lengths, most, separation):
    """Every choice of steps in several groups, at most `most` together, apart within a group."""
    each = [[(), *patterns(n, most, separation)] for n in lengths]
    for chosen in itertools.product(*each):
        if 0 < sum(map(len, chosen)) <= most:
            yield chosen


def worst_over_groups(strategy, lengths, most, separation):
    """The largest ||C x|| over all groups, patterns and signs, C block-diagonal."""
    total = sum(lengths)
    whole, starts = np.zeros((total, total)), np.cumsum([0, *lengths])
    for start, n in zip(starts, lengths, strict=False):
        whole[start : start + n, start : start + n] = dense_of(strategy, n)
    best = 0.0
    for chosen in group_patterns(lengths, most, separation):
        steps = [start + s for start, part in zip(starts, chosen, strict=False) for s in part]
        for signs in itertools.product((1.0, -1.0), repeat=len(steps) - 1):
            best = max(best, float(np.linalg.norm(whole[:, steps] @ np.array([1.0, *signs]))))
    return best


@pytest.mark.parametrize("lengths", [(12,), (6, 6), (8, 4), (4, 4, 4), (3, 3, 3, 3), (1,) * 12])
@pytest.mark.parametrize(("k", "b"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_no_pattern_over_groups_moves_more_than_is_claimed(lengths, k, b):
    for strategy in (
        QUICK,
        Buffered((0.5,), (0.9,)),
        Banded(PrefixRoot(), b),
        Toeplitz((1.0, -0.4, 0.3)[:b]),
        ScaledBuffered((0.3, 0.2), (0.6, 0.95), 0.6),
    ):
        claimed = strategy.sensitivity(Participation(k, b))  # without a horizon, as groups need it
        assert worst_over_groups(strategy, lengths, k, b) <= claimed * (1 + 1e-9)


def test_a_horizon_or_front_loading_would_understate_groups():
    # one participation in each of four groups: neither counts on that
    horizon = QUICK.sensitivity(Participation(4, 4), 4)
    assert worst_over_groups(QUICK, (1, 1, 1, 1), 4, 4) > 1.5 * horizon
    loaded = ScaledBuffered((0.16, 0.3), (0.3, 0.95), 0.5, ColumnNorms(1.5, 0.1, 3, 4))
    claimed = loaded.sensitivity(Participation(4, 3))
    assert worst_over_groups(loaded, (3, 3, 3, 3), 4, 3) > 1.3 * claimed
    with pytest.raises(ArgumentError, match="cannot be used for groups"):
        plan(**{**BASE, "strategy": loaded}, groups=4)
    p = plan(**{**BASE, "strategy": None}, groups=4, steps=40)
    assert p.lattice.steps is None
    assert p.horizon == 40
    assert getattr(p.strategy, "loading", None) is None


def test_the_bill_of_a_window_is_that_of_a_running_mean():
    running = plan(**BASE)
    for settings in ({"window": 5}, {"half_life": 9.0}):
        assert plan(**BASE, **settings).events == running.events


# --- the released numbers ---------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_without_noise_they_are_weighted_means_of_rows(target):
    rng = np.random.default_rng(5)
    values = rng.uniform(0, 10, 30)
    settings = (
        {"window": target.window} if target.window else {"half_life": -1 / math.log2(target.factor)}
    )
    stream = MeanStream(noise=NoAddedNoise(), **BASE, **settings)
    released = stream.extend(list(range(30)), values)
    weights = target.weights(30)
    for t, item in enumerate(released):
        w = weights[: t + 1][::-1]
        assert float(item) == pytest.approx(w @ values[: t + 1] / w.sum(), abs=2e-4)
    if target.window:
        assert [item.records for item in released] == [min(t, target.window) for t in range(1, 31)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"window": 6}, {"half_life": 4.0}, {}, {"strategy": Banded(MeanToeplitz(), 3)}],
)
def test_the_noise_is_as_large_as_it_says(settings):
    n, runs = 24, 600
    chosen = plan(**{**BASE, "max_participations": 100, **settings}, steps=n)
    planned = chosen.noise_sd(n)
    ends = np.empty((runs, 2))
    for seed in range(runs):
        stream = MeanStream.from_plan(chosen, noise=SimulatedNoise(seed), clamp=False)
        released = stream.extend(list(range(n)), np.full(n, 5.0))
        ends[seed] = [float(released[9]), float(released[-1])]
    assert [item.noise_sd for item in released] == pytest.approx(planned, rel=1e-9)
    for column, step in enumerate((10, n)):
        assert_variance(ends[:, column], planned[step - 1] ** 2)
        with pytest.raises(AssertionError):  # a scale that is 30 % off would be noticed
            assert_variance(ends[:, column], (1.3 * planned[step - 1]) ** 2)


def test_a_window_is_chosen_for_and_needs_its_history():
    chosen = plan(**{**BASE, "strategy": None}, window=40, steps=400, goal="rmse")
    assert "mean of the last 40 steps" in chosen.estimator
    errors = [item.rmse_goal for item in chosen.found]
    assert errors[0] <= min(errors)
    best = chosen.found[0]
    for strategy in (Identity(), PrefixRoot()):
        p = Participation(4, 3)
        assert best.rmse_goal <= ErrorGoal().of_norms(
            norms_of(strategy, 400, AveragingTarget(40)) * strategy.sensitivity(p, 400)
        )
    with pytest.raises(ArgumentError, match="history"):
        MeanStream(**BASE, window=3, history=False)
    with pytest.raises(ArgumentError, match="Toeplitz"):
        plan(**{**BASE, "strategy": ScaledBuffered((0.3, 0.2), (0.6, 0.95), 0.6)}, window=3)
    for wrong in ({"window": 0}, {"half_life": 0.0}, {"window": 3, "half_life": 2.0}):
        with pytest.raises(ArgumentError):
            plan(**BASE, **wrong)


# --- periods ----------------------------------------------------------------------------------


def test_periods_of_times():
    moment = dt.datetime(2026, 3, 5, 14, 30, tzinfo=dt.UTC)
    forms = (moment, "2026-03-05T14:30:00", "2026-03-05 14:30", moment.timestamp())
    for form in (*forms, str(moment.timestamp())):
        assert period_of(form, "day") == "2026-03-05"
        assert period_of(form, "hour") == "2026-03-05T14"
        assert period_of(form, "month") == "2026-03"
        assert period_of(form, "week") == "2026-W10"
    assert period_of(dt.date(2026, 3, 5), "day") == "2026-03-05"
    for wrong in (None, "soon", float("nan"), float("inf"), 1e300, [], "2026-13-01"):
        assert period_of(wrong, "day") is None


def days(**changes):
    settings = {**BASE, "min_separation": 1, "strategy": Identity(), "period": "day", "window": 1}
    return MeanStream(noise=NoAddedNoise(), **{**settings, **changes})


def test_each_day_is_the_mean_over_its_persons():
    stream = days()
    ids = ["a", "b", "a", "a", "c", "b"]
    when = ["2026-01-01"] * 4 + ["2026-01-02", "2026-01-05"]
    released = stream.extend(ids, [2.0, 9.0, 4.0, 6.0, 1.0, 7.0], times=when)
    # on the first day a gave 2, 4, 6 and b gave 9
    assert exact(released) == pytest.approx([6.5, 1.0], abs=1e-3)
    assert [item.period for item in released] == ["2026-01-01", "2026-01-02"]
    assert [item.records for item in released] == [2, 1]
    assert stream.waiting == 1
    assert exact(stream.flush()) == pytest.approx([7.0], abs=1e-3)
    assert released[0].to_dict()["period"] == "2026-01-01"


def test_a_person_takes_part_in_so_many_days_and_never_late():
    stream = days(max_participations=2, min_separation=2)
    when = [f"2026-01-0{day}" for day in (1, 2, 3, 2, 4, 5, 6)]
    ids = ["a", "a", "a", "b", "b", "a", "b"]
    released = stream.extend(ids, [1.0, 2.0, 3.0, 8.0, 5.0, 6.0, 7.0], times=when) + stream.flush()
    # days on which nobody may take part are empty steps; b's record of the 2nd came too late
    assert [item.period for item in released] == [f"2026-01-0{day}" for day in (1, 3, 4, 6)]
    assert [item.step for item in released] == [1, 3, 4, 6]


def test_values_never_decide_in_periods():
    ids, when = ["a", "b", "a"], ["2026-01-01", "2026-01-01", "2026-01-02"]
    facts = []
    for values in ([1.0, 2.0, 3.0], [None, math.inf, -1e300], ["x", math.nan, 5.0]):
        stream = days()
        released = stream.extend(ids, values, times=when) + stream.flush()
        facts.append([(item.step, item.records, item.noise_sd, item.period) for item in released])
    assert facts[0] == facts[1] == facts[2]


def test_a_row_of_a_period_stays_in_the_ball():
    stream = days(bounds=None, clip_radius=1.0, center=[0.0, 0.0], dimension=2)
    ball = stream.region
    stream.extend(["a"] * 3, [[5.0, 5.0], [5.0, 5.0], [9.0, 9.0]], times=["2026-01-01"] * 3)
    batch = stream._core.schedule.flush()
    row = batch.steps[0].row
    assert float(np.sum(row**2)) <= ball.steps**2
    assert float(np.sum(row**2)) >= 0.99 * ball.steps**2


def test_what_periods_refuse():
    for wrong in (
        {"period": "year"},
        {"release_every": 2},
        {"filler": True},
        {"bounds": None},
        {"n_per_period": 0},
    ):
        with pytest.raises(ArgumentError):
            days(**wrong)
    with pytest.raises(ArgumentError, match="times"):
        days().extend(["a"], [1.0])
    with pytest.raises(ArgumentError, match="times"):
        MeanStream(**BASE).extend(["a"], [1.0], times=["2026-01-01"])
    with pytest.raises(ArgumentError, match="n_per_period"):
        plan(**BASE, n_per_period=5)


# --- flush, and the order after a restart ------------------------------------------------------


def test_flush_releases_all_that_waits():
    stream = MeanStream(noise=NoAddedNoise(), **{**BASE, "min_separation": 5})
    stream.extend(["a", "a", "a", "b"], [1.0, 2.0, 3.0, 4.0])
    assert stream.waiting == 2
    released = stream.flush()
    assert stream.waiting == 0
    assert released[-1].records == 4
    assert float(released[-1]) == pytest.approx(2.5, abs=1e-3)
    # a's steps are 5 apart still
    assert [item.step for item in released][-1] == 11
    assert stream.flush() == []


def test_flush_ends_at_the_horizon_and_with_release_every():
    stream = MeanStream(noise=NoAddedNoise(), **{**BASE, "steps": 3})
    stream.extend(["a", "a"], [1.0, 2.0])
    stream.flush()
    assert stream.finished
    assert stream.steps == 3
    stream = MeanStream(noise=NoAddedNoise(), **BASE, release_every=4)
    assert stream.extend(["a", "b"], [1.0, 2.0]) == []
    assert [item.records for item in stream.flush()] == [2]


# --- groups -----------------------------------------------------------------------------------


def grouped(noise=None, **changes):
    return GroupMeanStream(groups=3, noise=noise or NoAddedNoise(), **{**BASE, **changes})


def test_each_group_has_its_mean():
    stream = grouped()
    released = stream.extend([1, 2, 3, 4], ["x", "y", "x", 7], [2.0, 9.0, 4.0, 1.0])
    means = {item.group: float(item) for item in released}
    assert means == pytest.approx({"x": 3.0, "y": 9.0, "7": 1.0}, abs=1e-3)
    assert stream.groups == ("x", "y", "7")
    assert stream.update(5, None, 3.0) == []
    assert [item.step for item in stream.releases("x")] == [1, 2]
    assert released[0].to_dict()["group"] == "x"


def test_a_person_is_bounded_over_all_groups():
    stream = grouped(min_separation=1)
    stream.extend(["a"] * 6, ["x", "y", "z", "x", "y", "z"], [1.0] * 6)
    assert stream.steps == 4
    limited = grouped(steps=2)
    limited.extend(["a", "b", "c"], ["x", "y", "z"], [1.0] * 3)
    assert limited.steps == 2
    with pytest.raises(InfeasibleError):
        limited.update("d", "x", 1.0)


def test_separation_is_kept_within_a_group():
    stream = grouped(min_separation=3)
    stream.extend(["a", "a"], ["x", "x"], [1.0, 2.0])
    assert stream.steps == 1
    stream.extend(["b", "c"], ["x", "x"], [3.0, 4.0])
    assert stream.steps == 4  # b, c, then a again
    assert [item.records for item in stream.flush()] == []


@pytest.mark.parametrize("settings", [{}, {"window": 2}, {"period": "day", "window": 1}])
def test_groups_go_on_after_a_stop(settings, tmp_path):
    rng = np.random.default_rng(4)
    ids, keys = rng.integers(0, 8, 40).tolist(), rng.integers(0, 3, 40).tolist()
    values = rng.uniform(0, 10, 40)
    days = [f"2026-01-{1 + i // 5:02d}" for i in range(40)]
    if "period" in settings:
        settings = {**settings, "strategy": Identity(), "min_separation": 1}

    def fed(stream, part):
        times = days[part] if "period" in settings else None
        return stream.extend(ids[part], keys[part], values[part], times=times)

    noise, path, made = SimulatedNoise(6), tmp_path / "groups", []
    for part in (slice(0, 13), slice(13, 14), slice(14, 40)):
        with grouped(noise, state=path, **settings) as stream:
            made += fed(stream, part)
    with grouped(noise, state=path, **settings) as stream:
        assert [item.to_dict() for item in stream.releases()] == [item.to_dict() for item in made]
        flushed = stream.flush()
    with grouped(noise, state=path, **settings) as stream:
        kept = list(stream.releases())
        assert kept[len(made) :] == [] if not flushed else len(kept) == len(made) + len(flushed)
        stream.close()
        with pytest.raises(PrivmeanError):
            stream.update(1, "x", 2.0)
    with pytest.raises(ArgumentError, match="other settings"):
        grouped(noise, state=path, **{**settings, "epsilon": 2.0})


def test_a_group_is_as_noisy_as_a_stream_of_its_own_length():
    stream = grouped(SimulatedNoise(1))
    released = stream.extend(list(range(9)), ["x"] * 6 + ["y"] * 3, [5.0] * 9)
    alone = plan(**BASE).noise_sd(6)
    assert [item.noise_sd for item in released] == pytest.approx([*alone, *alone[:3]], rel=1e-6)
    assert stream.guarantee.epsilon == 1.0
    assert any("group" in item for item in stream.guarantee.public)


# --- the population interval -------------------------------------------------------------------


def test_population_intervals_are_in_the_output():
    item = MeanStream(noise=NoAddedNoise(), **BASE).update("a", 3.0)[0]
    shown = item.to_dict()["population_interval"]
    assert shown["level"] == 0.95
    assert shown["upper"][0] - shown["lower"][0] == pytest.approx(2 * item.population)
    for wrong in (0.0, -1.0):
        with pytest.raises(ArgumentError, match="sd"):
            MeanStream(**BASE, sd=wrong)
