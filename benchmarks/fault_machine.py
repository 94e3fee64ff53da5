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
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from killing import Charging, Collecting, Reporting, Running, Studying, Withholding, Work
from privmean.errors import PrivmeanError
from report import publish, table

HERE = Path(__file__).parent
MOMENTS = ("before", "amid", "after")
ENOUGH = 3  # new results of one piece of work
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


def tried(work: Work, folder: Path, *, power: bool, step: int = 1, first: int = 0) -> Found:
    """Every `step`-th fault of one piece of work."""
    faults, found = ctypes.CDLL(None), Found()
    shutil.rmtree(folder, ignore_errors=True)
    start, place = folder.with_name("start"), folder / "files" / "state"
    place.parent.mkdir(parents=True)
    worked(work, place, {})
    published = work.contents(place, False)
    shutil.rmtree(start, ignore_errors=True)
    shutil.copytree(folder.parent, start, ignore=lambda *_: [start.name])
    for moment in range(len(MOMENTS)):
        at, whole = first, False
        while not whole:
            for item in folder.parent.iterdir():
                if item != start:
                    shutil.rmtree(item)
            shutil.copytree(start, folder.parent, dirs_exist_ok=True)
            arm = partial(faults.fault_arm, at, moment, int(power))
            new, status = worked(work, place, published, arm)
            whole = status == 0
            assert status in (0, DEAD), "the work failed"
            found += _checked(work, place, {**published, **new}, published, new)
            found.faults += not whole
            at += step
    return found


def worked(
    work: Work, place: Path, known: dict[str, str], armed: Callable[[], object] = lambda: None
) -> tuple[dict[str, str], int]:
    """What a fork published until there were `ENOUGH` new results, and its exit status."""
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            armed()
            left = ENOUGH

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is None:
        with tempfile.TemporaryDirectory() as folder:
            done = preloaded(["--quick"] * arguments.quick, Path(folder))
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
    step, results = 5 if arguments.quick else 1, []
    for work in works(arguments.work.with_name("input")):
        (arguments.work.with_name("warm")).mkdir(exist_ok=True)
        work.warm(arguments.work.with_name("warm") / work.name.replace(" ", "-"))
        for power in (False, True):
            found = tried(work, arguments.work / "here", power=power, step=step)
            results.append([work.name, "power cut" if power else "killed", vars(found)])
            print(*results[-1][:2], found, file=sys.stderr, flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
