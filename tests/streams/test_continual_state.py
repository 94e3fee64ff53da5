"""Restarts: whatever happens between two steps, nothing changes and nothing is forgotten."""

import contextlib
import gc
import itertools
import json
import os
import random
import resource
from functools import partial

import numpy as np
import pytest
from continual_reference import BASE, QUICK, Scripted, lines

import killing
from altered_noise import NoAddedNoise
from forked_process import forked
from killing import Count, Running, Withholding
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.published.continual import BandedInverse
from privmean.streams import GroupMeanStream, MeanStream, WithholdRelease
from privmean.streams import record_sources as sources
from privmean.streams.strategies import Banded, MeanToeplitz
from privmean.streams.stream_base import StateFile

SETTINGS = {**BASE, "max_participations": 5, "min_separation": 4, "steps": 200, "strategy": None}
STRATEGIES = {
    "buffers": QUICK,
    "banded": Banded(MeanToeplitz(), 4),
    "inverse": BandedInverse(MeanToeplitz(), 5),
    "chosen": None,
}


def events(count=120):
    rng = np.random.default_rng(0)
    return rng.integers(0, 9, count).tolist(), rng.normal(5, 3, count)


def some(count, people, seed, columns=()):
    """Ids and values of arrivals."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, people, count).tolist(), rng.normal(5, 3, (count, *columns))


def crowded(seed):
    """More rows may pass than one step takes; those that could pass first still do."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.4, 150), 6).tolist(), rng.normal(5, 3, 150)


CROWD = {"release_every": 3, "min_separation": 2, "max_participations": 30}
DAYS = {"period": "day", "min_separation": 1, "max_participations": 20, "sd": 2.0}
TOLD = {"max_participations": 30, "min_separation": 2, "sd": 2.0, "icc": 0.5}
# settings, (ids, values), where the stream stops
RESTARTS = {
    **{f"crowd {seed}": (CROWD, crowded(seed), range(5, 150, 5)) for seed in range(4)},
    "many columns": (
        {"bounds": None, "clip_radius": 2.0, "dimension": 33}, some(40, 9, 3, (33,)), (13, 14),
    ),
    "radius to be found": (
        {"bounds": None, "search_persons": 30, "min_separation": 1},
        (list(range(60)), some(60, 1, 1)[1]), (13, 29, 30, 31, 47),
    ),
    "running": (TOLD, some(60, 6, 4), range(9, 60, 9)),
    "window": ({**TOLD, "window": 7}, some(60, 6, 4), (1, 5, 17, 33)),
    "half-life": ({**TOLD, "half_life": 5.0}, some(60, 6, 4), (1, 5, 17, 33)),
    "window, empty steps": ({"window": 3, "filler": True}, some(40, 6, 8), (1, 5, 17, 33)),
    "window, batches": (
        {**TOLD, "window": 7, "release_every": 3, "filler": True}, some(60, 6, 4), range(9, 60, 9),
    ),
    "days": (DAYS, some(80, 8, 6), (1, 11, 22, 23, 61)),
    "days in a window": ({**DAYS, "window": 2}, some(80, 8, 6), (1, 11, 22, 23, 61)),
    "days with a half-life": ({**DAYS, "half_life": 5.0}, some(80, 8, 6), range(11, 80, 11)),
}  # fmt: skip
SLOW = {
    f"{name}, {how}": ({"strategy": strategy, **extra}, events(), range(17, 120, 17))
    for name, strategy in STRATEGIES.items()
    for how, extra in (
        ("plain", {}), ("filled", {"filler": True}), ("fives", {"release_every": 5, "filler": True})
    )
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [*RESTARTS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_stopping_anywhere_changes_no_bit(tmp_path, name):
    changes, (ids, values), cuts = (RESTARTS | SLOW)[name]
    settings = {**SETTINGS, "strategy": QUICK, **changes}
    times = [f"2026-03-{1 + index // 6:02d}" for index in range(len(ids))]

    def fed(stream, part):
        how = {"times": times[part]} if "period" in changes else {}
        last = stream.flush if part.stop is None else list
        return lines(stream.extend(ids[part], values[part], **how) + last())

    whole = MeanStream(noise=Scripted(1), **settings)
    expected = fed(whole, slice(0, None))
    later = [line for line in expected if json.loads(line)["step"] > 7]
    assert lines(whole.releases(after=7)) == later != expected
    noise, got = Scripted(1), []
    for start, stop in itertools.pairwise([0, *cuts, None]):
        with MeanStream(noise=noise, state=tmp_path / "s", **settings) as part:
            got += fed(part, slice(start, stop))
            assert lines(part.releases()) == got
    assert got == expected
    with MeanStream(noise=noise, state=tmp_path / "s", **settings) as last:
        assert (last.steps, last.records) == (whole.steps, whole.records)
        if json.loads(expected[-1])["step"] == last.steps:  # else its window holds no record
            assert lines([last.latest]) == expected[-1:]


def test_one_process_at_a_time(tmp_path):
    first = MeanStream(noise=NoAddedNoise(), state=tmp_path / "s", **SETTINGS)
    with pytest.raises(ArgumentError, match="is in use"):
        MeanStream(noise=NoAddedNoise(), state=tmp_path / "s", **SETTINGS)
    first.close()
    MeanStream(noise=NoAddedNoise(), state=tmp_path / "s", **SETTINGS).close()


@pytest.mark.parametrize(
    "make",
    [
        partial(MeanStream, **{**SETTINGS, "strategy": QUICK}),
        partial(GroupMeanStream, **{**SETTINGS, "strategy": QUICK, "groups": 2}),
        partial(WithholdRelease, epsilon=1.0, delta=1e-6, bounds=(0.0, 1.0), max_records=4),
    ],
    ids=["stream", "groups", "withhold"],
)
def test_a_state_is_let_go_with_the_last_reference(tmp_path, make):
    """Whoever drops a stream can go on with its file at once: no garbage collection is needed."""
    gc.disable()
    try:
        for _ in range(2):
            make(state=tmp_path / "state")
    finally:
        gc.enable()


def test_other_settings_and_other_files_are_refused(tmp_path):
    MeanStream(noise=NoAddedNoise(), state=tmp_path / "s", **SETTINGS).close()
    with pytest.raises(ArgumentError, match="other settings"):
        MeanStream(noise=NoAddedNoise(), state=tmp_path / "s", **{**SETTINGS, "epsilon": 2.0})
    with pytest.raises(ArgumentError, match="same kind"):
        MeanStream(noise=ExactNoise(), state=tmp_path / "s", **SETTINGS)
    (tmp_path / "text").write_text("not a state file, only text that is long enough to be seen")
    with pytest.raises(ArgumentError, match="not a stream file"):
        MeanStream(noise=NoAddedNoise(), state=tmp_path / "text", **SETTINGS)
    kwargs = {"max_records": 4, "bounds": (0.0, 1.0), "epsilon": 1.0, "delta": 1e-6}
    WithholdRelease(noise=NoAddedNoise(), state=tmp_path / "w", **kwargs).close()
    with pytest.raises(ArgumentError, match="not a stream file"):
        StateFile(tmp_path / "w")


def test_a_plan_can_be_resumed_and_must_be_the_same(tmp_path):
    from privmean.streams import plan

    a = plan(**{**SETTINGS, "strategy": QUICK})
    MeanStream.from_plan(a, noise=NoAddedNoise(), state=tmp_path / "s").close()
    MeanStream.from_plan(a, noise=NoAddedNoise(), state=tmp_path / "s").close()
    MeanStream.resume(tmp_path / "s", noise=NoAddedNoise()).close()
    with pytest.raises(ArgumentError, match="does not exist"):
        MeanStream.resume(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").touch()
    with pytest.raises(ArgumentError, match="is empty"):
        MeanStream.resume(tmp_path / "empty")
    b = plan(**{**SETTINGS, "epsilon": 0.5, "strategy": QUICK})
    with pytest.raises(ArgumentError, match="another plan"):
        MeanStream.from_plan(b, noise=NoAddedNoise(), state=tmp_path / "s")


def test_the_state_is_for_its_owner_alone_and_marks_simulation(tmp_path):
    path = tmp_path / "s"
    with MeanStream(noise=SimulatedNoise(1), state=path, **SETTINGS) as running:
        assert not running.update("a", 3.0)[0].secure
        running.mark = {"read": 3}
    assert os.stat(path).st_mode & 0o077 == 0
    with MeanStream(noise=SimulatedNoise(1), state=path, **SETTINGS) as running:
        assert running.mark == {"read": 3}
        assert running.latest.to_dict()["secure"] is False


def test_state_does_not_grow_with_the_stream_unless_history_is_kept(tmp_path):
    sizes = {}
    for history in (True, False):
        path = tmp_path / str(history)
        settings = {**SETTINGS, "steps": None, "max_participations": 1000}
        settings["strategy"] = QUICK
        with MeanStream(noise=NoAddedNoise(), state=path, history=history, **settings) as running:
            for _ in range(2):
                running.extend(list(range(10)) * 100, np.ones(1000))
            assert len(list(running.releases())) == (2000 if history else 1)
        sizes[history] = path.stat().st_size
    assert sizes[False] < 60_000 < sizes[True]


# --- forces from outside ------------------------------------------------------------------------


def until_full(stream, person, value):
    try:
        return stream.update(person, value)
    except PrivmeanError as problem:
        if "the disk is full or cannot be written. What was to be written" not in str(problem):
            raise
        raise StopIteration from None


def test_a_full_disk_is_named_and_the_state_stays_good(tmp_path):
    settings = {**SETTINGS, "strategy": QUICK}
    ids, values = events()
    with MeanStream(state=tmp_path / "s", **settings) as stream:
        first = lines(stream.extend(ids[:20], values[:20]))

    def child():
        limit = (tmp_path / "s").stat().st_size + 2000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        with MeanStream(state=tmp_path / "s", **settings) as stream:
            with contextlib.suppress(StopIteration):
                for person, value in zip(ids[20:], values[20:], strict=True):
                    shown.extend(lines(until_full(stream, person, value)))
            with pytest.raises(PrivmeanError, match="Open its state file again"):
                stream.update("x", 1.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        (tmp_path / "shown").write_text("\n".join(shown))

    shown = first
    with forked(child):
        pass
    shown = (tmp_path / "shown").read_text().split("\n")
    assert len(shown) > len(first)
    with MeanStream(state=tmp_path / "s", **settings) as stream:
        assert lines(stream.releases()) == shown
        at = stream.arrivals
        assert 20 < at < 120
        shown += lines(stream.extend(ids[at:], values[at:]))
        assert [json.loads(line)["step"] for line in shown] == list(range(1, stream.steps + 1))


KILLS = 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda folder, rng: Running(folder, rng, 40 * KILLS, 1),
        lambda folder, rng: Running(folder, rng, 60 * KILLS, 5),
        lambda folder, rng: Withholding(folder, rng, 40 * KILLS),
    ],
    ids=["each", "every fifth", "withhold"],
)
def test_killed_again_and_again(tmp_path, monkeypatch, make):
    """kill -9 at random moments: the state and its copies keep what was published, unchanged."""
    monkeypatch.setattr(sources, "CHUNK", sources.CHUNK)  # as it was, afterwards
    rng, count = random.Random(5), Count()
    killing.run(make(tmp_path, rng), tmp_path, rng, KILLS, count)
    assert count.kills >= 1  # a quick machine is done before most of them
    assert count.steps > 20
    assert sum(count.copies.values()) > 2 * count.kills
    assert not count.refused["all files"]  # of the file alone, what its -wal file held is missing
    assert (count.ahead, count.two, count.lost) == (0, 0, 0)
