"""Restarts: whatever happens between two steps, nothing changes and nothing is forgotten."""

import json
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter

import numpy as np
import pytest
from continual_reference import Scripted, Silent

from privmean.continual import MeanStream, WithholdRelease
from privmean.continual.buffered import Buffered
from privmean.continual.events import Reader, run
from privmean.continual.state import StateFile
from privmean.continual.strategies import Banded, BandedInverse, MeanToeplitz
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.exact import ExactNoise
from privmean.noise.simulated import SimulatedNoise

SETTINGS = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "max_participations": 5,
    "min_separation": 4,
    "steps": 200,
    "bounds": (0.0, 10.0),
}
STRATEGIES = [
    Buffered((0.25, 0.07), (0.6, 0.96)),
    Banded(MeanToeplitz(), 4),
    BandedInverse(MeanToeplitz(), 5),
    None,
]


def events(count=120):
    rng = np.random.default_rng(0)
    return rng.integers(0, 9, count).tolist(), rng.normal(5, 3, count)


def lines(released):
    return [json.dumps(item.to_dict()) for item in released]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["buffers", "banded", "inverse", "chosen"])
@pytest.mark.parametrize("extra", [{}, {"filler": True}, {"release_every": 5, "filler": True}])
def test_stopping_anywhere_changes_no_bit(tmp_path, strategy, extra):
    settings = {**SETTINGS, "strategy": strategy, **extra}
    ids, values = events()
    whole = MeanStream(noise=Scripted(1), **settings)
    expected = lines(whole.extend(ids, values))
    noise, got = Scripted(1), []
    for cut in range(0, 120, 17):
        with MeanStream(noise=noise, state=tmp_path / "s", **settings) as part:
            got += lines(part.extend(ids[cut : cut + 17], values[cut : cut + 17]))
            assert lines(part.releases()) == got
            assert part.waiting <= 40
    assert got == expected
    with MeanStream(noise=noise, state=tmp_path / "s", **settings) as last:
        assert last.steps == whole.steps
        assert last.records == whole.records
        assert json.dumps(last.latest.to_dict()) == expected[-1]
        assert lines(last.releases(after=whole.steps - 2)) == expected[-2:]


def test_rows_of_many_columns_come_back_bit_for_bit(tmp_path):
    settings = {**SETTINGS, "bounds": None, "clip_radius": 2.0, "dimension": 33}
    settings["strategy"] = STRATEGIES[0]
    rng = np.random.default_rng(3)
    ids, rows = rng.integers(0, 9, 40).tolist(), rng.normal(size=(40, 33))
    noise, got = Scripted(4), []
    for cut in (0, 13, 14):
        upto = {0: 13, 13: 14, 14: 40}[cut]
        with MeanStream(noise=noise, state=tmp_path / "s", **settings) as part:
            got += lines(part.extend(ids[cut:upto], rows[cut:upto]))
    with MeanStream(noise=noise, state=tmp_path / "s", **settings) as last:
        assert lines(last.releases()) == got
    assert got == lines(MeanStream(noise=Scripted(4), **settings).extend(ids, rows))


def test_a_stop_before_the_radius_is_found(tmp_path):
    settings = {**SETTINGS, "bounds": None, "search_persons": 30, "min_separation": 1}
    settings["strategy"] = STRATEGIES[0]
    ids, values = list(range(60)), np.random.default_rng(1).normal(0, 8, 60)
    expected = lines(MeanStream(noise=Scripted(2), **settings).extend(ids, values))
    noise, got = Scripted(2), []
    for cut in (0, 13, 29, 30, 31, 47):
        upto = {0: 13, 13: 29, 29: 30, 30: 31, 31: 47, 47: 60}[cut]
        with MeanStream(noise=noise, state=tmp_path / "s", **settings) as part:
            got += lines(part.extend(ids[cut:upto], values[cut:upto]))
    assert got == expected
    assert len(got) == 60


class Crash(BaseException):
    pass


class Dying:
    """The operating system, until the process dies at its call number `at` that changes a file."""

    CHANGES = ("write", "pwrite", "fsync", "ftruncate", "rename")

    def __init__(self, at, kind):
        self.left, self.kind, self.dead = at, kind, False

    def __getattr__(self, name):
        call = getattr(os, name)
        return (lambda *a: self._change(name, call, a)) if name in self.CHANGES else call

    def _change(self, name, call, arguments):
        if self.dead:
            raise Crash
        self.left -= 1
        self.dead = self.left == -1
        if self.dead and self.kind == "before":
            raise Crash
        if self.dead and self.kind == "within" and name == "write":
            arguments = (arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        result = call(*arguments)
        if self.dead:
            raise Crash
        return result


@pytest.mark.parametrize("kind", ["before", "within", "after"])
@pytest.mark.parametrize("slack", [10**9, -(10**9)], ids=["appended", "written anew"])
def test_a_crash_at_any_change_of_the_file(tmp_path, monkeypatch, kind, slack):
    """Die before, within or after every single call of a batch: all or nothing is on disk."""
    monkeypatch.setattr("privmean.continual.state.SLACK", slack)
    settings = {**SETTINGS, "strategy": STRATEGIES[0]}
    ids, values = events(30)
    at, found = 0, set()
    crashed = True
    while crashed:
        path = tmp_path / f"s{at}"
        with MeanStream(noise=Silent(), state=path, **settings) as running:
            first = lines(running.extend(ids[:15], values[:15]))
        running = MeanStream(noise=Silent(), state=path, **settings)
        crashed = False
        with monkeypatch.context() as patched:
            patched.setattr("privmean.durable.os", Dying(at, kind))
            try:
                second = lines(running.extend(ids[15:], values[15:]))
            except Crash:
                crashed = True
        if crashed:
            with pytest.raises(PrivmeanError, match="open its state file again"):
                running.update("x", 1.0)
        running.close()
        with MeanStream(noise=Silent(), state=path, **settings) as again:
            stored = lines(again.releases())
            assert stored[: len(first)] == first
            found.add(again.arrivals)
            if again.arrivals == 30:
                assert len(stored) == again.steps > len(first)
            else:
                assert again.arrivals == 15
                assert stored == first
                again.extend(ids[15:], values[15:])
            used = {name: person.used for name, person in again._schedule.queue.people.items()}
            final = lines(again.releases())
        if not crashed:
            assert stored == first + second
        if at == 0:
            reference_final, reference_used = final, used
        assert final == reference_final
        assert used == reference_used
        at += 1
    assert found == ({30} if kind == "after" else {15, 30})
    assert at > (3 if slack > 0 else 12)


def test_wrong_arguments_leave_no_file(tmp_path):
    with pytest.raises(ArgumentError):
        MeanStream(noise=Silent(), state=tmp_path / "s", **{**SETTINGS, "epsilon": -1.0})
    assert list(tmp_path.iterdir()) == []


def test_one_process_at_a_time(tmp_path):
    first = MeanStream(noise=Silent(), state=tmp_path / "s", **SETTINGS)
    with pytest.raises(ArgumentError, match="is in use"):
        MeanStream(noise=Silent(), state=tmp_path / "s", **SETTINGS)
    first.close()
    MeanStream(noise=Silent(), state=tmp_path / "s", **SETTINGS).close()


def test_other_settings_and_other_files_are_refused(tmp_path):
    MeanStream(noise=Silent(), state=tmp_path / "s", **SETTINGS).close()
    with pytest.raises(ArgumentError, match="other settings"):
        MeanStream(noise=Silent(), state=tmp_path / "s", **{**SETTINGS, "epsilon": 2.0})
    with pytest.raises(ArgumentError, match="same kind"):
        MeanStream(noise=ExactNoise(), state=tmp_path / "s", **SETTINGS)
    (tmp_path / "text").write_text("not a state file, only text that is long enough to be seen")
    with pytest.raises(ArgumentError, match="not a stream file"):
        MeanStream(noise=Silent(), state=tmp_path / "text", **SETTINGS)
    kwargs = {"max_records": 4, "bounds": (0.0, 1.0), "epsilon": 1.0, "delta": 1e-6}
    WithholdRelease(noise=Silent(), state=tmp_path / "w", **kwargs).close()
    with pytest.raises(ArgumentError, match="not a stream file"):
        StateFile.open(tmp_path / "w")


def test_a_plan_can_be_resumed_and_must_be_the_same(tmp_path):
    from privmean.continual import plan

    a = plan(**SETTINGS, strategy=STRATEGIES[0])
    MeanStream.from_plan(a, noise=Silent(), state=tmp_path / "s").close()
    MeanStream.from_plan(a, noise=Silent(), state=tmp_path / "s").close()
    MeanStream.resume(tmp_path / "s", noise=Silent()).close()
    with pytest.raises(ArgumentError, match="does not exist"):
        MeanStream.resume(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").touch()
    with pytest.raises(ArgumentError, match="is empty"):
        MeanStream.resume(tmp_path / "empty")
    b = plan(**{**SETTINGS, "epsilon": 0.5}, strategy=STRATEGIES[0])
    with pytest.raises(ArgumentError, match="another plan"):
        MeanStream.from_plan(b, noise=Silent(), state=tmp_path / "s")


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
        settings["strategy"] = STRATEGIES[0]
        with MeanStream(noise=Silent(), state=path, history=history, **settings) as running:
            for _ in range(2):
                running.extend(list(range(10)) * 100, np.ones(1000))
            assert len(list(running.releases())) == (2000 if history else 1)
        sizes[history] = path.stat().st_size
    assert sizes[False] < 60_000 < sizes[True]


# --- killed from outside --------------------------------------------------------------------------


def start(path, source):
    """The command's loop in a forked process: (process id, its standard output)."""
    ends = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(ends[1])
        return child, os.fdopen(ends[0], "rb")
    status = 1
    try:
        sys.stdin = open(source, "rb")  # noqa: SIM115 (this process ends with os._exit)
        sys.stdout = os.fdopen(ends[1], "w")
        settings = {**SETTINGS, "steps": None, "max_participations": 16, "min_separation": 64}
        with MeanStream(state=path, strategy=STRATEGIES[0], **settings) as running:
            run(running, Reader("p", ("v",)), append=False, replay=True)
        sys.stdout.flush()
        status = 0
    finally:
        os._exit(status)


KILLS = 12


def test_killed_again_and_again(tmp_path, monkeypatch):
    """kill -9 at random moments: published values never change, no participation is lost."""
    rng = random.Random(5)
    monkeypatch.setattr("privmean.continual.events.CHUNK", 400)  # many small batches
    source = tmp_path / "events.jsonl"
    rows = [{"p": f"u{rng.randrange(300)}", "v": rng.gauss(5, 2)} for _ in range(4000)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen: dict[int, bytes] = {}
    killed = 0
    while True:
        child, output = start(tmp_path / "state", source)
        # killed by progress, not by the clock: a fast machine must not finish between two kills
        stop = len(seen) + rng.randrange(1, 60) if killed < KILLS else None
        written = []
        with output:
            for line in output:
                written.append(line)
                if len(written) == stop:
                    time.sleep(rng.uniform(0, 0.004))
                    os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        for line in written:
            if line.endswith(b"\n"):
                assert seen.setdefault(json.loads(line)["step"], line) == line
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            break
        killed += 1
    assert killed == KILLS
    final = [json.loads(line) for line in written]
    assert [item["step"] for item in final] == list(range(1, len(final) + 1)) == sorted(seen)
    assert final[-1]["arrivals"] == 4000
    counts = Counter(row["p"] for row in rows)
    accepted = sum(min(16, count) for count in counts.values())
    assert final[-1]["records"] + final[-1]["waiting"] == accepted
