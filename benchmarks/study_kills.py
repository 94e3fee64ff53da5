"""Runs of `study run` that are killed (SIGKILL) at random moments, and go on until they are done.

Every run is a fork of this process that charges a ledger, asks a study and writes its folder. It is
killed at a random moment of the time that a whole run takes, or as something is made durable;
another process goes on, and may be killed too. Looked for: a place with two noises, a number that
was drawn or shown before its charge, a second charge, a result that is not that of the kept
answers.

PYTHONPATH=src python benchmarks/study_kills.py --kills 150
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import privmean as pm
import report
from privmean.errors import PrivmeanError
from privmean.study.answer_log import AnswerLog
from privmean.study.run_folder import DRAWS, RECEIPT, RESULT, RUN
from privmean.study.run_study import run
from privmean.study.study import Study
from privmean.study.write_outputs import run_in

PERSONS = 1500
ALWAYS = 3  # a folder is killed in at most so often


@dataclass
class Found:
    """What was seen. at: how far runs were when they were killed."""

    kills: int = 0
    runs: int = 0
    at: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    answers: int = 0


def study() -> Study:
    """Two questions that share a look, one with limits, one that fails for want of values."""
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(PERSONS), 2)
    y = np.repeat(rng.normal(50, 8, PERSONS), 2)
    empty = np.full(who.size, np.nan)
    table = pm.Table(
        {"who": who, "t": rng.uniform(0, 2, who.size), "y": y, "z": empty}, person="who"
    )
    made = pm.Study(table, epsilon=4.0, name="killed")
    made.add("level", pm.Mean("y")).add("trend", pm.Curve("y", "t", bins=[0, 1, 2]))
    made.add("times", pm.Mean("t", assume=(0, 2)))
    return made.add("nobody", pm.Mean("z", assume=(0, 1)))


def child(act: Callable[[], None], moment: float | int) -> bool:
    """Run `act` in a fork; SIGKILL after so many seconds, or (a whole number) at that step of
    making something durable. Whether it was killed."""
    pid = os.fork()
    if pid == 0:
        if isinstance(moment, int):
            _at_step(moment)
        try:
            act()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
    if isinstance(moment, float):
        time.sleep(moment)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError("a run stopped by itself")
    return os.WIFSIGNALED(status)


def _at_step(step: int) -> None:
    """Kill this process before (even) or after (odd) a call of fsync."""
    left, sync = [step], os.fsync

    def fsync(handle: int) -> None:
        left[0] -= 2
        if left[0] < 0 and step % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(handle)
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = fsync


def lines(path: Path) -> list[str]:
    """The answers that are kept: whole lines."""
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1].decode().splitlines()


def state(out: Path) -> str:
    """How far a run was."""
    if (out / RESULT).exists():
        return "done"
    if (out / DRAWS).exists():
        return "answers drawn"
    if (out / RECEIPT).exists():
        return "charged"
    return "folder claimed" if (out / RUN).exists() else "reading, planning"


def one(place: Path, length: float, steps: int, found: Found, most: int) -> None:
    """One folder and one ledger, killed up to `ALWAYS` times, then run to its end."""
    out, book = place / "out", place / "ledger"
    pm.Ledger(book, epsilon=4.0)
    seen: dict[str, str] = {}
    found.runs += 1

    def act() -> None:
        run_in(study(), out, ledger=pm.Ledger.open(book))

    def look() -> None:
        entries = len(pm.Ledger.open(book).entries)
        kept = [json.loads(line) for line in lines(out / DRAWS)]
        found.wrong["charged twice"] += entries > 1
        found.wrong["drawn or shown before its charge"] += not entries and (
            bool(kept) or (out / RESULT).exists()
        )
        for at, _, answer, _ in kept:
            found.wrong["two noises at a place"] += seen.setdefault(at, answer) != answer
        found.wrong["an answer lost"] += len(kept) < len(seen)

    for _ in range(ALWAYS):
        if found.kills >= most:
            break
        moment = (
            random.uniform(0, 1.1 * length) if random.random() < 0.5
            else random.randrange(2 * steps)
        )  # fmt: skip
        if not child(act, moment):
            break
        found.kills += 1
        found.at[state(out)] += 1
        look()
    child(act, 600 * 10**9)
    look()
    stored = json.loads((out / RESULT).read_text())
    found.answers += len(seen)
    found.wrong["does not verify"] += not pm.verify(stored, ledger=pm.Ledger.open(book))
    found.wrong["not one charge"] += len(pm.Ledger.open(book).entries) != 1
    try:  # the result is that of the kept answers, and needs no other
        again = run(study(), draws=_kept_only(out / DRAWS), run_id=stored["run"]).to_dict()
    except PrivmeanError:
        again = {}
    for name in ("questions", "guarantee", "plan", "shared_locations"):
        found.wrong["not the result of the kept answers"] += _plain(stored[name]) != _plain(
            again.get(name)
        )


def _kept_only(path: Path) -> Callable[[str], AnswerLog]:
    kept = AnswerLog(path)

    class Only:
        def __init__(self, name: str) -> None:
            self._name = name

        def answer(self, mechanism: object, draw: object) -> object:
            def refuse() -> None:
                raise AssertionError("an answer was never kept")

            return kept.answer(self._name, mechanism, refuse)

    return Only  # type: ignore[return-value]


def _plain(stored: object) -> object:
    """Without times and digests over them."""
    if isinstance(stored, dict):
        return {key: _plain(value) for key, value in stored.items() if key != "provenance"}
    return [_plain(item) for item in stored] if isinstance(stored, list) else stored


def measured(kills: int, seed: int) -> Found:
    """So many kills, on as many runs as that takes."""
    random.seed(seed)
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "first").mkdir()
        run_in(study(), place / "first" / "out")  # everything is loaded, the length is known
        start, (calls, sync) = time.perf_counter(), ([], os.fsync)
        os.fsync = lambda handle: (calls.append(handle), sync(handle))[1]  # type: ignore[assignment]
        run_in(study(), place / "second", ledger=pm.Ledger(place / "book", epsilon=4.0))
        os.fsync = sync
        length = time.perf_counter() - start
        while found.kills < kills:
            (place / str(found.runs)).mkdir()
            one(place / str(found.runs), length, len(calls), found, kills)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = measured(given.kills, given.seed)
    rows = [[name, number] for name, number in sorted(found.at.items())]
    text = report.table(["killed while the run was at", "times"], rows)
    bad = [[name, number] for name, number in found.wrong.items()]
    text += "\n\n" + report.table(["looked for", "found"], bad)
    text += (
        f"\n\n{found.kills} kills (SIGKILL; half at random moments, half as something was made "
        f"durable) of {found.runs} runs, which drew {found.answers} answers; every run went on to "
        "its end."
    )
    command = f"python benchmarks/study_kills.py --kills {given.kills}"
    report.publish("study-kills", "Studies that are killed", text, command=command)
    if any(found.wrong.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
