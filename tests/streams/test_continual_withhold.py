"""Withhold-release: schedule, intervals, joint bill, restarts."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from continual_reference import QUICK, Scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from altered_noise import NoAddedNoise
from privmean.errors import ArgumentError, PrivmeanError
from privmean.mechanisms.histograms import LocationSearch
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Gaussian, Laplace, Threshold
from privmean.streams import WithholdRelease
from privmean.streams.withhold_release import bin_averages, cover, plan_levels
from statistics_kit import assert_variance

BASE = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "max_records": 8,
    "persons": 50,
    "bounds": (0.0, 10.0),
    "strategy": QUICK,
}


def stream(noise=None, **changes):
    return WithholdRelease(noise=noise or NoAddedNoise(), **{**BASE, **changes})


def schedule(ids, max_records):
    """Records in the mean, and those that wait, after each arrival, written out plainly."""
    last = 1 << (max_records.bit_length() - 1)
    used, held, taken, out = {}, 0, 0, []
    for person in ids:
        used[person] = used.get(person, 0) + 1
        n = used[person]
        taken += n <= max_records
        if n <= last and n & (n - 1) == 0:
            held += max(1, n // 2)
        out.append((held, taken - held))
    return out


def test_without_noise_it_is_the_mean_of_the_submitted_records():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, 100).tolist()
    values = rng.uniform(0, 10, 100)
    released = stream(max_records=16).extend(ids, values)
    assert [(item.records, item.waiting) for item in released] == schedule(ids, 16)
    taken, by_person = [], {}
    for index, person in enumerate(ids):
        by_person.setdefault(person, []).append(values[index])
        n = len(by_person[person])
        if n <= 16 and n & (n - 1) == 0:
            taken += by_person[person][n // 2 :] if n > 1 else by_person[person]
        assert float(released[index]) == pytest.approx(np.mean(taken), abs=1e-4)


@pytest.mark.slow
def test_noise_has_the_stated_deviation():
    ids = list(range(12)) * 4
    plan = plan_levels(**{**BASE, "bounds": (-1e6, 1e6), "epsilon": 50.0})
    found = []
    for seed in range(400):
        last = WithholdRelease(plan=plan, noise=SimulatedNoise(seed)).extend(ids, [5.0] * 48)[-1]
        found.append(float(last) - 5.0)
    assert max(abs(item) for item in found) < 1e6  # clamping did not touch them
    assert_variance(found, last.noise_sd**2)
    with pytest.raises(AssertionError):
        assert_variance(found, (0.7 * last.noise_sd) ** 2)


# --- the plan and its bill ------------------------------------------------------------------------


def test_levels_are_billed_together():
    plan = plan_levels(**{**BASE, "max_records": 8, "bounds": (0.0, 1.0)})
    assert [level.width for level in plan.levels] == [1, 1, 2, 4]
    mu = gaussian_mu(1.0, 1e-6)
    parts = [loss.mu for loss in plan.events]
    assert math.sqrt(sum(part**2 for part in parts)) == pytest.approx(mu, rel=1e-6)
    assert parts == pytest.approx([mu / 2] * 4, rel=1e-6)  # equal sigma = sqrt(L+1)/mu
    assert all(isinstance(loss, Gaussian) for loss in plan.events)
    assert plan.guarantee.verify()
    assert "fixed public times" in plan.guarantee.note  # values, not participation


def test_late_emphasis():
    plan = plan_levels(**{**BASE, "late": 1.0})
    parts = np.array([loss.mu**2 for loss in plan.events])
    assert parts / parts[0] == pytest.approx([1, 1, 2, 4], rel=1e-6)


@pytest.mark.slow
def test_intervals_are_on_the_bill_once_a_level_and_column():
    plan = plan_levels(
        **{**BASE, "sd": 0.1, "max_records": 64, "bounds": [(0, 10)] * 2, "persons": 9000}
    )
    with_search = [level for level in plan.levels if level.searches]
    assert with_search
    kinds = [type(loss) for loss in plan.events]
    assert kinds.count(Laplace) == kinds.count(Threshold) == 2 * len(with_search)
    assert kinds.count(Gaussian) == len(plan.levels)
    guarantee = plan.guarantee
    assert Guarantee.from_dict(guarantee.to_dict()).verify()
    assert 0.9 < guarantee.spent() <= 1.0
    radii = [float(level.radius[0]) for level in with_search]
    assert radii == sorted(radii, reverse=True)
    assert max(radii) < 5.0


def test_rows_move_by_at_most_the_billed_amount():
    plan = plan_levels(**{**BASE, "bounds": [(0.0, 1.0)] * 3})
    mechanism = plan.levels[0].mechanism
    steps = 1 << mechanism.lattice.row_bits
    corner = np.full(3, steps)
    assert np.linalg.norm(2 * corner) <= mechanism.movement
    assert mechanism.movement <= np.linalg.norm(2 * corner) + 1
    unit = mechanism.lattice.unit_sensitivity
    assert mechanism.loss.sensitivity >= unit * np.linalg.norm(2 * corner)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"delta": 0.0}, "delta"),
        ({"max_records": 0}, "max_records"),
        ({"bounds": (1.0, 1.0)}, "bounds"),
        ({"bounds": []}, "bounds"),
        ({"persons": 0}, "persons"),
        ({"late": 2.0}, "late"),
        ({"sd": -1.0}, "sd"),
        ({"epsilon": None, "delta": 0.0, "rho": 0.1, "sd": 0.1}, "rho"),
    ],
)
def test_arguments(changes, argument):
    with pytest.raises(ArgumentError) as problem:
        plan_levels(**{**BASE, **changes})
    assert problem.value.argument == argument


# --- intervals ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_level_tries_once_and_opens_for_good():
    calls = []

    class Counting(NoAddedNoise):
        def laplace(self, size, scale):
            calls.append(size)
            return np.full(size, -(10**6))  # every attempt fails

    running = stream(Counting(), sd=0.01, persons=4000, max_records=4)
    searching = [level for level in running.plan.levels if level.searches]
    ids = list(range(3000)) * 4
    released = running.extend(ids, np.full(len(ids), 3.0))
    assert len(calls) == len(searching) > 0
    # the public bounds serve, and nothing is lost
    assert float(released[-1]) == pytest.approx(3.0, abs=1e-3)
    assert released[-1].records == 3000 * 4


def test_a_found_interval_is_used_and_projects():
    running = stream(NoAddedNoise(), sd=0.05, persons=4000, max_records=1, bounds=(0.0, 10.0))
    level = running.plan.levels[0]
    assert level.searches
    count = level.averages
    values = np.full(count + 10, 3.0)
    values[-1] = 10.0
    released = running.extend(list(range(count + 10)), values)
    assert released[0].arrivals == count  # nothing before there are enough averages
    middle, radius = float(running._levels[0].middle[0]), float(level.radius[0])
    assert abs(middle - 3.0) <= level.searches[0].radius
    expected = (3.0 * (count + 9) + middle + radius) / (count + 10)
    assert float(released[-1]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_opening_depends_on_counts_alone():
    seen = []
    for values in (
        np.full(3000, 3.0),
        np.full(3000, np.nan),
        np.random.default_rng(0).random(3000),
    ):
        running = stream(Scripted(4), sd=0.05, persons=4000, max_records=2)
        released = running.extend(list(range(1500)) * 2, values)
        seen.append([(item.step, item.records) for item in released])
    assert seen[0] == seen[1] == seen[2]


def test_location_threshold_against_the_exact_tail():
    for epsilon, delta in ((Fraction(1, 2), 1e-6), (Fraction(1, 20), 1e-9), (Fraction(2), 1e-4)):
        search = LocationSearch.priced("x", 1.0, epsilon, delta)
        a = math.exp(-float(epsilon) / 2)
        tail = a ** (search.threshold - 1) / (1 + a)
        assert tail <= delta
        assert a ** (search.threshold - 5) / (1 + a) > delta  # not needlessly high
        laplace, threshold = search.events
        assert laplace.pure == epsilon
        assert threshold.added_delta == delta


@settings(max_examples=80)
@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 8))
def test_bins_cover(counts, capacity):
    people = {str(i): count for i, count in enumerate(counts)}
    groups = cover(people, capacity)
    used = [person for group in groups for person, _ in group]
    assert len(used) == len(set(used))  # every person in at most one bin
    for group in groups:
        held = [lent for _, lent in group]
        assert capacity <= sum(held) < 2 * capacity
        assert all(0 < lent <= min(capacity, people[who]) for who, lent in group)
    best = sum(min(count, capacity) for count in counts) // capacity
    assert len(groups) >= (best - 1) / 2


def test_bin_averages():
    records = {"a": [np.array([1.0]), np.array([2.0])], "b": [np.array([6.0])]}
    assert bin_averages([[("a", 2), ("b", 1)], [("a", 1)]], records)[:, 0] == pytest.approx([3, 1])


# --- limits and restarts ------------------------------------------------------------------------


def test_more_persons_and_more_records_than_planned_are_ignored():
    running = stream(persons=3, max_records=2)
    released = running.extend(["a", "b", "c", "d", "a", "a", "a", None], [1.0] * 8)
    assert released[-1].records == 4
    assert running.arrivals == 7
    assert released[-1].waiting == 0


@pytest.mark.slow
@pytest.mark.parametrize("sd", [None, 0.05])
def test_stopping_anywhere_changes_no_bit(tmp_path, sd):
    rng = np.random.default_rng(5)
    ids, values = rng.integers(0, 900, 1800).tolist(), rng.normal(4, 0.05, 1800)
    kwargs = {"sd": sd, "persons": 1000, "epsilon": 8.0}
    noise, got = Scripted(6), []
    for cut in range(0, 1800, 900):
        part = stream(noise, state=tmp_path / "s", **kwargs)
        assert [item.to_dict() for item in part.releases()] == got
        got += [
            item.to_dict() for item in part.extend(ids[cut : cut + 900], values[cut : cut + 900])
        ]
        part.close()
        with pytest.raises(PrivmeanError, match="closed"):
            part.update("x", 1.0)
    assert json.dumps(got)
    assert got[-1]["arrivals"] == 1800


def test_a_state_with_other_draws_is_refused(tmp_path):
    part = stream(NoAddedNoise(), state=tmp_path / "s")
    part._recorder.take_drawn = list  # nothing of what was drawn is written down
    part.extend(["a", "b"], [1.0, 2.0])
    part.close()
    with pytest.raises(PrivmeanError, match="draws noise differently"):
        stream(NoAddedNoise(), state=tmp_path / "s")


@pytest.mark.slow
def test_a_stream_that_goes_on_searches_no_strategy(tmp_path, monkeypatch):
    settings = {
        "max_records": 4, "bounds": (0, 1), "epsilon": 1.0, "delta": 1e-6, "persons": 20,
        "state": tmp_path / "s", "noise": SimulatedNoise(1),
    }  # fmt: skip
    with WithholdRelease(**settings) as first:
        first.extend(["a", "b"], [0.5, 0.25])
        plan = first.plan

    def searched(*_: object, **__: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr("privmean.streams.withhold_release.fit_scaled", searched)
    with WithholdRelease(**settings) as again:
        assert again.arrivals == 2
        assert again.plan.levels[0].mechanism == plan.levels[0].mechanism
        assert again.plan.events == plan.events
    monkeypatch.undo()
    with pytest.raises(ArgumentError, match="other settings"):
        WithholdRelease(**{**settings, "epsilon": 2.0})


# --- levels that wait for an interval -----------------------------------------------------------


def searching(plan):
    return [level.width for level in plan.levels if level.searches]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("persons", [1, 100, 700, 2500, 10_000])
def test_a_level_that_could_never_open_has_no_search(persons, epsilon):
    """A person lends at most one whole block to a level, so there are at most so many averages."""
    asked = {**BASE, "max_records": 64, "bounds": (0.0, 5.0), "epsilon": epsilon, "sd": 0.05}
    plan = plan_levels(**{**asked, "persons": persons})
    assert all(level.averages <= persons for level in plan.levels)
    for level in plan.levels:
        assert bool(level.searches) == bool(level.averages)
        assert level.searches or level.radius == pytest.approx(2.5)
    kept, gaining = searching(plan), [1, 1, 2, 4, 8, 16, 32]
    assert kept == gaining[len(gaining) - len(kept) :]  # the largest blocks gain most
    if not kept:  # nothing is spent on what cannot be
        assert plan.events == plan_levels(**{**asked, "persons": persons, "sd": None}).events
    assert ("public bounds" in plan.rationale) == (len(kept) < len(gaining))


def test_a_stream_of_few_persons_releases_with_a_spread_too():
    running = stream(max_records=64, persons=100, bounds=(0.0, 5.0), sd=0.05)
    released = running.extend([i % 100 for i in range(6400)], [2.0] * 6400)
    assert len(released) == 6400
    assert released[-1].records == 6400
    assert not running.awaited


@pytest.mark.slow
def test_a_level_opens_when_the_last_of_all_persons_lends():
    """Bins are looked at again after 2 % more records: of all that can come, there may be fewer."""
    few = {"max_records": 4, "bounds": (0.0, 5.0), "sd": 0.05}
    needed = stream(**few, persons=2000).plan.levels[-1].averages
    persons = needed + 3
    running = stream(**few, persons=persons)
    assert running.plan.levels[-1].averages == needed
    ids = list(range(persons))
    late = ids[::50]  # who still lends one record at the first look shares a bin with the next
    for group in (ids, [who for who in ids if who % 50], late):
        assert [level.width for level in running.awaited][-1] == 2
        running.extend(group, [2.0] * len(group))
    assert not running.awaited


def test_what_is_awaited_is_public():
    running = stream(max_records=4, bounds=(0.0, 5.0), sd=0.05, persons=None)
    running.extend(["a", "b", "a", "b"], [1.0, 2.0, math.nan, 4.0])
    assert [level.width for level in running.awaited] == [1, 1, 2]
    assert running.n == 2
