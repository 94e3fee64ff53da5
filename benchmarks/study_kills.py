"""Runs of `study run` that are killed (SIGKILL) at random moments, and go on until they are done.

Every run is a fork of this process that charges a ledger, asks a study and writes its folder. It is
killed at a random moment of the time that a whole run takes, or as something is made durable;
another process goes on, and may be killed too. Looked for: a place with two noises, a number that
was drawn or shown before its charge, a second charge, a charge that counts less than was drawn, a
result that is not that of the kept answers.

PYTHONPATH=src python benchmarks/study_kills.py --kills 150
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import privmean as pm
import report
from privmean.errors import PrivmeanError
from privmean.mechanisms.curator import AnswerStore
from privmean.privacy.ledger_charges import LedgerAmount
from privmean.storage.durable_log import DurableLog
from privmean.storage.entry_chain import Chain
from privmean.storage.witness import Witness
from privmean.study.run_folder import LOG, RECEIPT, RESULT, held, run_in
from privmean.study.stored_answers import AnswerLog
from privmean.study.study import Study, run

DURABLE: tuple[tuple[Any, str], ...] = (
    (os, "fsync"), (os, "replace"), (Chain, "add"), (Chain, "replace"),
    (DurableLog, "_committed"), (Witness, "note"),
)  # fmt: skip
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
    settled: int = 0


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


def child(act: Callable[[], object], moment: float | int) -> bool:
    """Run `act` in a fork; SIGKILL after so many seconds, or (a whole number) at that step of
    making something durable. Whether it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            with at_steps(lambda step: step == moment and os.kill(os.getpid(), signal.SIGKILL)):
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


@contextmanager
def at_steps(told: Callable[[int], object]) -> Iterator[None]:
    """Meanwhile `told` hears the number of each step: before and after a call of `DURABLE`."""
    steps = itertools.count()

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            told(next(steps))
            found = call(*arguments, **options)
            told(next(steps))
            return found

        return made

    before = [(owner, name, getattr(owner, name)) for owner, name in DURABLE]
    for owner, name, call in before:
        setattr(owner, name, counted(call))
    try:
        yield
    finally:
        for item in before:
            setattr(*item)


def kept_in(out: Path) -> dict[str, tuple[str, str]]:
    """The answers that are kept, by their places. A copy is read: the log stays as it was left."""
    with tempfile.TemporaryDirectory() as copy:
        for file in out.glob(f"{LOG}*"):
            shutil.copy(file, copy)
        if not (Path(copy) / LOG).exists():
            return {}
        with held(copy) as folder:
            return dict(folder.answers)


def state(out: Path) -> str:
    """How far a run was."""
    if (out / RESULT).exists():
        return "done"
    if kept_in(out):
        settled = any(entry.settlement for entry in pm.Ledger.open(out.parent / "ledger").entries)
        return "settled" if settled else "answers drawn"
    if (out / RECEIPT).exists():
        return "charged"
    return "folder claimed" if (out / LOG).exists() else "reading, planning"


def one(place: Path, length: float, steps: int, found: Found, most: int) -> None:
    """One folder and one ledger, killed up to `ALWAYS` times, then run to its end."""
    out, book = place / "out", place / "ledger"
    pm.Ledger(book, epsilon=4.0)
    seen: dict[str, str] = {}
    counted: list[tuple[LedgerAmount, int]] = []
    found.runs += 1

    def act() -> None:
        run_in(study(), out, ledger=pm.Ledger.open(book))

    def look() -> None:
        charges = pm.Ledger.open(book).entries
        entries, kept = len(charges), kept_in(out)
        counted.extend((entry.counted, len(kept)) for entry in charges)
        found.wrong["charged twice"] += entries > 1
        found.wrong["drawn or shown before its charge"] += not entries and (
            bool(kept) or (out / RESULT).exists()
        )
        for at, (_, answer) in kept.items():
            found.wrong["two noises at a place"] += seen.setdefault(at, answer) != answer
        found.wrong["an answer lost"] += len(kept) < len(seen)

    for _ in range(ALWAYS):
        if found.kills >= most:
            break
        moment = (
            random.uniform(0, 1.1 * length) if random.random() < 0.5
            else random.randrange(steps)
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
    charges = pm.Ledger.open(book).entries
    found.wrong["not one charge"] += len(charges) != 1
    found.settled += charges[0].settlement is not None
    ends = {(charges[0].counted, len(seen))}
    found.wrong["neither whole nor what was drawn"] += any(
        item[0] != charges[0].amount and item not in ends for item in counted
    )
    try:  # the result is that of the kept answers, and needs no other
        again = run(study(), draws=_kept_only(out), run_id=stored["run"]).to_dict()
    except PrivmeanError:
        again = {}
    for name in ("questions", "guarantee", "plan", "shared_locations"):
        found.wrong["not the result of the kept answers"] += _plain(stored[name]) != _plain(
            again.get(name)
        )


def _kept_only(out: Path) -> Callable[[str], AnswerStore]:
    """The answers that are kept; PrivmeanError where another is asked for."""

    def refuse(*_: object) -> None:
        raise PrivmeanError("an answer was never kept")

    return AnswerLog(kept_in(out), refuse).of


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
        steps: list[int] = []
        start = time.perf_counter()
        with at_steps(steps.append):
            run_in(study(), place / "second", ledger=pm.Ledger(place / "book", epsilon=4.0))
        length = time.perf_counter() - start
        while found.kills < kills:
            (place / str(found.runs)).mkdir()
            one(place / str(found.runs), length, len(steps), found, kills)
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
        f"its end, and {found.settled} were settled below their charge."
    )
    command = f"python benchmarks/study_kills.py --kills {given.kills}"
    report.publish("study-kills", "Studies that are killed", text, command=command)
    if any(found.wrong.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
