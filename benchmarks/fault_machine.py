"""Kill a store at every single write, sync and rename, and cut the power there.

A store opens its file and does a few steps of work in a fork of this process that dies at its n-th
call of the system that changes a file, for every n: before the call, amid it, or after it. With the
power cut, whatever was not synced until then is undone. Then the store must open its own file, hold
everything that was published, go on, and give nothing that was published another value.

    python benchmarks/fault_machine.py [--quick]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

from killing import Charging, Collecting, Reporting, Running, Studying, Withholding, Work
from privmean.errors import PrivmeanError
from privmean.storage.durable_log import DurableLog
from report import publish, table

HERE = Path(__file__).parent
MOMENTS = ("before", "amid", "after")
ENOUGH = 8  # new results of one piece of work
REFUSED, DEAD = 3, -signal.SIGKILL  # how a piece of work ends that does not come to its end


@dataclass
class Found:
    """How often the store was killed, and what was wrong then."""

    faults: int = 0
    refused: int = 0  # its own file
    lost: int = 0  # results that were published
    two: int = 0  # results with two values

    def __iadd__(self, other: Found) -> Found:
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))
        return self


def library(folder: Path) -> Path | None:
    """The compiled library of faults; None where there is no C compiler."""
    compiler, made = shutil.which("cc") or shutil.which("gcc"), folder / "faults.so"
    if compiler is None:
        return None
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(HERE / "faults.c"), "-ldl"]
    subprocess.run(command, check=True)
    return made


def preloaded(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run this script again with the library in place; None where it cannot be made."""
    made = library(folder)
    if made is None:
        return None
    work = folder / "work"
    work.mkdir()
    environment = {
        **os.environ, "LD_PRELOAD": str(made), "FAULT_FOLDER": str(work),
        "XDG_STATE_HOME": str(work / "state"),
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", __file__, "--work", str(work), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def tried(work: Work, folder: Path, *, power: bool, every: bool) -> Found:
    """The faults of one piece of work: every one, or a few that lie farther and farther apart."""
    faults, found = ctypes.CDLL(None), Found()
    shutil.rmtree(folder, ignore_errors=True)
    start, place = folder.with_name("start"), folder / "files" / "state"
    place.parent.mkdir(parents=True)
    worked(work, place, {})
    published = work.contents(place, False)
    shutil.rmtree(start, ignore_errors=True)
    shutil.copytree(folder.parent, start, ignore=lambda *_: [start.name])
    for moment in range(len(MOMENTS)):
        at, whole = 0, False
        while not whole:
            _again(folder.parent, start)
            arm = partial(faults.fault_arm, at, moment, int(power))
            new, status = worked(work, place, published, arm)
            whole = status == 0
            assert status in (0, DEAD), "the work failed"
            found += _checked(work, place, {**published, **new}, published, new)
            found.faults += not whole
            at = at + 1 if every else 2 * at + 3
    return found


def interleaved(work: Any, folder: Path, *, every: bool) -> Found:
    """Two threads of one process, at every pair of places, or a few: the first is held at a call
    that changes a file, the second goes on until one of its own, and there the process dies."""
    found, place = Found(), folder / "files" / "state"
    place.parent.mkdir(parents=True)
    worked(work, place, {})
    before = len(work.contents(place, False))
    start = folder.with_name("start")
    shutil.rmtree(start, ignore_errors=True)
    shutil.copytree(folder.parent, start, ignore=lambda *_: [start.name])
    calls = _threads(work, place, before, None, None)
    places = range(0, calls, 1 if every else max(1, calls // 2))
    for held in places:
        for died in places:
            _again(folder.parent, start)
            acknowledged = _threads(work, place, before, held, died)
            found.faults += 1
            try:
                found.lost += len(work.contents(place, False)) < before + acknowledged
            except PrivmeanError as problem:
                print("refused:", problem, file=sys.stderr)
                found.refused += 1
    return found


def _threads(work: Any, place: Path, number: int, held_at: int | None, dies_at: int | None) -> int:
    """How many results of two threads were acknowledged before they died; without places, how many
    calls one of them makes."""
    faults, ends = ctypes.CDLL(None), os.pipe()
    child = os.fork()
    if child == 0:
        shared, done = work.shared(place), threading.Event()
        if held_at is None:
            faults.fault_arm(10**6, 0, 0)
            work.act(shared, number)
            os.write(ends[1], b"." * faults.fault_calls())
            os._exit(0)

        def first() -> None:
            faults.fault_hold_own(held_at)
            work.act(shared, number)
            os.write(ends[1], b".")

        def second() -> None:
            while not (faults.fault_held() or done.is_set()):
                time.sleep(0.001)
            faults.fault_arm_own(dies_at)
            work.act(shared, number + 1)
            os.write(ends[1], b".")

        threads = [threading.Thread(target=act, daemon=True) for act in (first, second)]
        for thread in threads:
            thread.start()
        threads[0].join(0.1)
        done.set()
        threads[1].join(0.1)  # it may have to wait for the other one
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(ends[1])
    with open(ends[0], "rb") as results:
        told = len(results.read())
    os.waitpid(child, 0)
    return told


def _again(folder: Path, start: Path) -> None:
    """Everything as it was kept in `start`."""
    for item in folder.iterdir():
        if item != start:
            shutil.rmtree(item)
    shutil.copytree(start, folder, dirs_exist_ok=True)


def worked(
    work: Work,
    place: Path,
    known: dict[str, str],
    armed: Callable[[], object] = lambda: None,
    enough: int = ENOUGH,
) -> tuple[dict[str, str], int]:
    """What a fork published until there were `enough` new results, and its exit status."""
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            armed()
            left = enough

            def say(key: str, value: str) -> None:
                nonlocal left
                os.write(ends[1], json.dumps([key, value]).encode() + b"\n")
                left -= key not in known
                if not left:
                    os._exit(0)

            work.go_on(place, say)
        except PrivmeanError:
            os._exit(REFUSED)
        except BaseException as problem:
            print(type(problem).__name__, problem, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(ends[1])
    with open(ends[0], "rb") as results:
        new = dict(json.loads(line) for line in results)
    _, status = os.waitpid(child, 0)
    return new, os.waitstatus_to_exitcode(status)


def _checked(
    work: Work, place: Path, published: dict[str, str], before: dict[str, str], new: dict[str, str]
) -> Found:
    """What the store says of itself after a fault."""
    found = Found(two=sum(before.get(key, value) != value for key, value in new.items()))
    if not place.exists() and not published:
        return found
    try:
        held = work.contents(place, False)
    except PrivmeanError as problem:
        print("refused:", problem, file=sys.stderr)
        found.refused += 1
        return found
    again, status = worked(work, place, published)
    found.refused += status == REFUSED
    found.lost += sum(key not in held for key in published)
    for values in (held, again):
        found.two += sum(published.get(key, value) != value for key, value in values.items())
    return found


def works(folder: Path) -> list[Work]:
    """One of each kind, small."""
    rng = random.Random(1)
    folder.mkdir(exist_ok=True)
    return [
        Running(folder, rng, 300, 1), Withholding(folder, rng, 300), Reporting(folder, rng, 80),
        Charging(200), Studying(40), Collecting(folder, rng, 200, 2),
    ]  # fmt: skip


def careless(log: DurableLog, connect: Callable[[DurableLog], None]) -> None:
    """The twin: a log that leaves it to the system when its entries reach the disk."""
    connect(log)
    log._execute("PRAGMA synchronous = OFF")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="one store")
    parser.add_argument("--twin", action="store_true", help="a log that syncs nothing")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is None:
        with tempfile.TemporaryDirectory() as folder:
            done = preloaded(sys.argv[1:], Path(folder))
        if done is None:
            raise SystemExit("a C compiler is needed: install one, such as gcc")
        sys.stderr.write(done.stderr)
        if done.returncode:
            raise SystemExit("the machine of faults failed")
        results = json.loads(done.stdout)
        rows = [[name, cut, *item.values()] for name, cut, item in results]
        head = ["store", "fault", "faults", "own file refused", "lost", "second values"]
        publish(
            "fault-machine",
            "Faults at every call that changes a file",
            table(head, rows),
            command="python benchmarks/fault_machine.py",
        )
        return
    every, results = not arguments.quick, []
    if arguments.twin:
        DurableLog._connect = partialmethod(careless, DurableLog._connect)  # type: ignore[assignment]
    for work in works(arguments.work.with_name("input")):
        if arguments.only not in ("", work.name):
            continue
        (arguments.work.with_name("warm")).mkdir(exist_ok=True)
        work.warm(arguments.work.with_name("warm") / work.name.replace(" ", "-"))
        for power in (False, True):
            found = tried(work, arguments.work / "here", power=power, every=every)
            results.append([work.name, "power cut" if power else "killed", vars(found)])
            print(*results[-1][:2], found, file=sys.stderr, flush=True)
        if hasattr(work, "act"):
            for item in arguments.work.iterdir():
                shutil.rmtree(item)
            found = interleaved(work, arguments.work / "here", every=every)
            results.append([work.name, "killed, two threads", vars(found)])
            print(*results[-1][:2], found, file=sys.stderr, flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
