"""Population intervals of streams count people: their weights, restarts, and coverage."""

import math

import numpy as np
import pytest
from continual_reference import Scripted, lines

from altered_noise import NoAddedNoise
from privmean.errors import ArgumentError
from privmean.noise.noise_source import SimulatedNoise
from privmean.streams import GroupMeanStream, MeanStream, plan
from privmean.streams import schedule_steps as storage
from privmean.streams import stream_release as bands
from privmean.streams.participation import PersonWeights, heaviest
from privmean.streams.strategies import Buffered
from privmean.streams.strategy_error import RUNNING, AveragingTarget
from privmean.streams.toeplitz_matrices import Participation
from statistics_kit import assert_rate_at_least

TARGETS = {
    "running": RUNNING,
    "window": AveragingTarget(7),
    "half-life": AveragingTarget.of(half_life=5),
}
KEYWORDS = {"running": {}, "window": {"window": 7}, "half-life": {"half_life": 5.0}}
BASE = {
    "epsilon": 30.0,
    "delta": 1e-6,
    "bounds": (0.0, 10.0),
    "strategy": Buffered((0.25, 0.07), (0.6, 0.96)),
}


def dense(target, steps):
    """The two sums of `PersonWeights` after the last step, from their definition."""
    weights = target.weights(len(steps))[::-1]
    mass, rows = {}, 0.0
    for weight, names in zip(weights.tolist(), steps, strict=True):
        for name in names:
            mass[name] = mass.get(name, 0.0) + weight
            rows += weight**2
    return sum(item**2 for item in mass.values()), rows


def random_steps(rng, count, people=6):
    """Steps of 0 to 3 different people."""
    return [
        tuple(f"u{i}" for i in rng.choice(people, size=rng.integers(0, 4), replace=False))
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", TARGETS)
def test_sums_follow_their_definition(name):
    steps = random_steps(np.random.default_rng(1), 60)
    weights = PersonWeights(TARGETS[name])
    for index, names in enumerate(steps):
        weights.advance(names)
        people, rows = dense(TARGETS[name], steps[: index + 1])
        assert weights.people == pytest.approx(people, rel=1e-9)
        assert weights.rows == pytest.approx(rows, rel=1e-9)


@pytest.mark.parametrize("name", TARGETS)
def test_heaviest_bounds_any_person(name):
    target, rng = TARGETS[name], np.random.default_rng(2)
    for _ in range(50):
        most, apart = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        places = np.cumsum(apart + rng.integers(0, 3, most))
        steps = [("u",) if s in places else () for s in range(int(places[-1]) + 1)]
        bound = heaviest(target, Participation(most, apart))
        assert math.sqrt(dense(target, steps)[0]) <= bound * (1 + 1e-12)
    tight = heaviest(target, Participation(3, 2))
    held = dense(target, [("u",), (), ("u",), (), ("u",)])[0]
    assert math.sqrt(held) == pytest.approx(tight)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("how", [{}, {"sd": 2.0}, {"sd": 2.0, "icc": 0.3}])
def test_intervals_are_those_of_the_weights(name, how):
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 5, 40)
    settings = {**BASE, **KEYWORDS[name], "max_participations": 40, "min_separation": 1}
    stream = MeanStream(noise=SimulatedNoise(1), **settings, **how)
    for item in stream.extend(ids.tolist(), rng.uniform(0, 10, 40)):
        people, rows = dense(TARGETS[name], [(i,) for i in ids[: item.step].tolist()])
        size = float(TARGETS[name].sizes(item.step)[-1])
        icc = how.get("icc", 1.0)
        squares = ((1 - icc) * rows + icc * people) / size**2
        if "sd" in how:
            expected = bands.pointwise(0.95) * math.hypot(item.noise_sd, 2.0 * math.sqrt(squares))
        else:
            expected = bands.pointwise(0.975) * item.noise_sd
            expected += 5.0 * math.sqrt(2 * math.log(2 / 0.025) * squares)
        assert item.population == pytest.approx(expected, rel=1e-9)


def test_intervals_say_what_they_assume():
    settings = {**BASE, "max_participations": 2, "min_separation": 1}
    plain = MeanStream(noise=NoAddedNoise(), **settings).update("a", 3.0)[0]
    assert plain.to_dict()["population_interval"]["assumes"] == "people are independent"
    told = MeanStream(noise=NoAddedNoise(), **settings, sd=1.5, icc=0.25).update("a", 3.0)[0]
    assumed = "people are independent; sd <= 1.5; icc <= 0.25"
    assert told.to_dict()["population_interval"]["assumes"] == assumed
    assert "assumes" not in told.to_dict()["noise_interval"]
    ball = {**settings, "bounds": None, "clip_radius": 2.0, "dimension": 2}
    rows = MeanStream(noise=NoAddedNoise(), **ball).update("a", [1.0, 1.0])[0]
    assert rows.to_dict()["population_radius"]["assumes"] == "people are independent"
    assert plain.population < rows.population * 5  # of another region, and both are numbers


@pytest.mark.parametrize("wrong", [{"icc": 0.5}, {"icc": -0.1, "sd": 1.0}, {"icc": 2, "sd": 1.0}])
def test_a_wrong_icc_is_refused(wrong):
    with pytest.raises(ArgumentError, match="icc"):
        MeanStream(**BASE, max_participations=2, min_separation=1, **wrong)


@pytest.mark.parametrize("name", TARGETS)
def test_a_state_without_the_sums_is_never_too_short(tmp_path, name, monkeypatch):
    """A state of before they were kept: exact for running means, and not below for the others."""
    rng = np.random.default_rng(5)
    ids, values = rng.integers(0, 6, 60).tolist(), rng.uniform(0, 10, 60)
    settings = {**BASE, **KEYWORDS[name], "max_participations": 20, "min_separation": 2}
    true = MeanStream(noise=Scripted(1), sd=2.0, **settings).extend(ids, values)
    pack, person, noise = storage.packed_releases, storage.StepRun._person, Scripted(1)

    def older(releases):
        return {key: it for key, it in pack(releases).items() if key not in ("weights", "names")}

    monkeypatch.setattr(storage, "packed_releases", older)
    monkeypatch.setattr(storage.StepRun, "_person", lambda *facts: person(*facts)[:4])
    with MeanStream(noise=noise, state=tmp_path / "s", sd=2.0, **settings) as stream:
        stream.extend(ids[:33], values[:33])
        before = stream.steps
    monkeypatch.undo()
    got = []
    for cut in (33, 37, 50):
        upto = {33: 37, 37: 50, 50: 60}[cut]
        with MeanStream(noise=noise, state=tmp_path / "s", sd=2.0, **settings) as stream:
            got += stream.extend(ids[cut:upto], values[cut:upto])
            again = list(stream.releases())
    assert [float(item) for item in again] == [float(item) for item in true]
    for item, exact in zip(again, true, strict=True):
        assert item.population >= exact.population * (1 - 1e-12)
    assert before > 10
    assert len(got) > 10
    for item, exact in zip(got, true[before:], strict=True):
        assert item.population <= 1.5 * exact.population
        if name == "running":
            assert item.population == exact.population


def test_groups_count_their_own_people(tmp_path):
    settings = {**BASE, "max_participations": 20, "min_separation": 1}
    ids = [0, 0, 1, 0, 0, 1, 2, 0]
    keys = ["x", "y", "x", "x", "y", "y", "x", "x"]
    with GroupMeanStream(
        groups=2, sd=2.0, state=tmp_path / "s", noise=Scripted(1), **settings
    ) as it:
        first = it.extend(ids[:4], keys[:4], [5.0] * 4)
    with GroupMeanStream(
        groups=2, sd=2.0, state=tmp_path / "s", noise=Scripted(2), **settings
    ) as it:
        again = list(it.releases())
        last = {item.group: item for item in it.extend(ids[4:], keys[4:], [5.0] * 4)}
    assert lines(first) == lines(again)
    for key, squares in (("x", (9 + 1 + 1) / 25), ("y", (4 + 1) / 9)):
        item = last[key]
        expected = bands.pointwise(0.95) * math.hypot(item.noise_sd, 2.0 * math.sqrt(squares))
        assert item.population == pytest.approx(expected)


# --- coverage ----------------------------------------------------------------------------------

NUMBERS = {
    "1": np.ones(400, dtype=int),
    "10": np.full(200, 10),
    "unequal": np.array([1] * 300 + [2] * 80 + [5] * 40 + [20] * 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
def test_intervals_hold_whatever_the_number_of_records(name):
    """Between people .8, within .3: intervals that count records held in half of the runs."""
    numbers, runs, held, held_icc = NUMBERS[name], 300, 0, 0
    rng = np.random.default_rng(7)
    ids = rng.permutation(np.repeat(np.arange(len(numbers)), numbers))
    chosen = plan(  # little noise: what is tested is sampling
        epsilon=100.0, delta=1e-6, bounds=(1.0, 9.0), steps=len(ids), goal="final",
        max_participations=int(numbers.max()), min_separation=1,
    )  # fmt: skip
    sd, icc = math.hypot(0.8, 0.3), 0.64 / 0.73
    for seed in range(runs):
        values = 5 + rng.normal(0, 0.8, len(numbers))[ids] + rng.normal(0, 0.3, len(ids))
        stream = MeanStream.from_plan(chosen, noise=SimulatedNoise(seed), sd=sd, history=False)
        last = stream.extend(ids.tolist(), values)[-1]
        assert last.records == len(ids)
        assert last.noise_sd < 0.5 * sd * math.sqrt((numbers**2).sum()) / len(ids)
        held += abs(float(last) - 5) <= last.population
        rest = (1 - icc) * len(ids) + icc * (numbers**2).sum()
        half = bands.pointwise(0.95) * math.hypot(last.noise_sd, sd * math.sqrt(rest) / len(ids))
        held_icc += abs(float(last) - 5) <= half
    assert_rate_at_least(held, runs, 0.95)
    assert_rate_at_least(held_icc, runs, 0.95)
