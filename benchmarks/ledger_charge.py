"""Time of a charge to a ledger in a file, beside another version of the code in the same run.

Both versions take turns. Each fills a ledger, and then says what a charge takes: of a ledger that
stays open, of one that is opened for each charge, and within a mean of 5,000 people that names the
ledger's path. The witness reaches the disk once a second, and when a ledger was opened; the last
columns are those of one that reaches it with each charge.

    git worktree add ../before COMMIT
    python benchmarks/ledger_charge.py --before ../before [--publish]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import few, publish, table

CHARGE = """
import statistics, sys, time
import numpy as np
import privmean as pm
place, charges, way, synced = sys.argv[1], *map(int, sys.argv[2:])
if synced:
    from privmean.storage import witness
    witness.EVERY = 0.0
ledger, values, walls = pm.Ledger(place, epsilon=100.0), np.linspace(0.0, 10.0, 5000), []

def charge(ledger):
    ledger.charge(pm.Budget(0.01), "replace-one", label="mean", about={"analyst": "ann"})

def opened():
    ledger = pm.Ledger.open(place)
    charge(ledger)
    ledger.close()

def mean():
    pm.mean(values, bounds=(0.0, 10.0), epsilon=0.01, ledger=place)

act = (lambda: charge(ledger), opened, mean)[way]
if way:
    ledger.close()
    act()
cpu = time.process_time()
for _ in range(charges):
    wall = time.perf_counter()
    act()
    walls.append(time.perf_counter() - wall)
print((time.process_time() - cpu) / max(charges, 1), statistics.median(walls or [0.0]))
"""
WAYS = ("a charge, ledger open", "a charge, opened for it", "a mean, by the ledger's path")


def run(source: Path, folder: Path, *numbers: int) -> tuple[float, float]:
    """Milliseconds of a charge to the ledger in a folder: of the processor, and by the clock."""
    done = subprocess.run(
        [sys.executable, "-c", CHARGE, f"{folder}/ledger", *(str(int(item)) for item in numbers)],
        env=os.environ | {"PYTHONPATH": str(source), "XDG_STATE_HOME": f"{folder}/state"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    cpu, wall = (1000 * float(item) for item in done.stdout.split())
    return cpu, wall


def in_turn(
    sides: list[tuple[Path, bool]], filled: int, way: int, charges: int, repeats: int
) -> list[list[tuple[float, float]]]:
    """What each side takes in each turn, for copies of one ledger with so many charges."""
    with tempfile.TemporaryDirectory() as name:
        full = {source: Path(name) / f"{number}" for number, (source, _) in enumerate(sides)}
        for source, folder in full.items():
            folder.mkdir()
            run(source, folder, filled, 0, 0)
        found = []
        for _ in range(repeats):
            found.append([])
            for source, synced in sides:
                copy = Path(name) / "copy"
                shutil.copytree(full[source], copy)
                found[-1].append(run(source, copy, charges, way, synced))
                shutil.rmtree(copy)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="checkout of the other version")
    parser.add_argument("--repeats", type=int, default=few(7))
    parser.add_argument("--charges", type=int, default=few(50))
    parser.add_argument("--publish", action="store_true", help="store the results")
    options = parser.parse_args()
    ours = Path(__file__).resolve().parent.parent / "src"
    sides = [(options.before.resolve() / "src", False), (ours, False), (ours, True)]
    rows: list[list[object]] = []
    for filled in (0, few(100), few(500)):
        for way, name in enumerate(WAYS):
            runs = in_turn(sides, filled, way, options.charges, options.repeats)
            said: list[object] = [filled, name]
            for part in (1, 0):
                before, now, synced = (
                    statistics.median(turn[side][part] for turn in runs) for side in range(3)
                )
                ratio = statistics.median(turn[1][part] / turn[0][part] for turn in runs)
                said += [f"{before:.2f}", f"{now:.2f}", f"{ratio:.2f}", f"{synced:.2f}"]
            rows.append(said)
    header = ["charges before", "what is timed"]
    for clock in ("clock", "processor"):
        header += [f"{clock}: before, ms", "now, ms", "ratio", "witness synced, ms"]
    text = (
        f"The median of {options.repeats} runs in turn of {options.charges} charges each; load "
        f"{os.getloadavg()[0]:.1f}.\n\n" + table(header, rows)
    )
    title = "A charge to a ledger in a file, beside the journal before"
    if options.publish:
        command = "python benchmarks/ledger_charge.py --before BEFORE --publish"
        publish("ledger-charge", title, text, command=command)
    else:
        print(text)


if __name__ == "__main__":
    main()
