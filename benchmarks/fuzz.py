"""Explores with fresh seeds, for as long as it is given; `make test` draws the same cases each run.

    python benchmarks/fuzz.py [--minutes M] [--seed S]

Round after round: every Hypothesis test of tests/, then every `benchmarks/fuzz_*.py`, which takes
`--cases N --seed S`, ends with status 0 where all held, and else prints what did not. A round once
begun is finished. What is found is printed with the way to keep it; the exit status then is 1.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
HOUSE = FOLDER.parent
FIRST_CASES = 200  # of a script's first call; four times as many while a call is below SHORT
SHORT = 30.0  # seconds

KEEP_EXAMPLE = """
Found with `--hypothesis-seed={seed}`. To keep it, copy the arguments printed after "Falsifying
example" above the test, and mend the cause:

    from hypothesis import example

    @example(answers=[(8.1e26, 0, 1.2e-27)])  # the arguments as printed, by name
    @given(...)
    def test_...
"""
KEEP_CASE = """
Found by `{command}`. To keep it, write the printed case as a test of its own under tests/.
"""


def property_tests() -> list[str]:
    """The files of tests/ that use Hypothesis."""
    return [
        str(path)
        for path in sorted((HOUSE / "tests").rglob("test_*.py"))
        if "from hypothesis" in path.read_text()
    ]


def explore_tests(seed: int) -> bool:
    chosen = ["-m", "hypothesis", "-n", "2", f"--hypothesis-seed={seed}"]
    status = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, *property_tests()],
        cwd=HOUSE,
        env={**os.environ, "HYPOTHESIS_PROFILE": "fuzz"},
        check=False,
    ).returncode
    if status:
        print(KEEP_EXAMPLE.format(seed=seed), flush=True)
    return status == 0


def explore_script(path: Path, cases: int, seed: int) -> bool:
    command = [sys.executable, str(path), "--cases", str(cases), "--seed", str(seed)]
    status = subprocess.run(command, cwd=HOUSE, check=False).returncode
    if status:
        print(KEEP_CASE.format(command=" ".join(["python", *command[1:]])), flush=True)
    return status == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="of round 1")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    cases = dict.fromkeys(sorted(FOLDER.glob("fuzz_*.py")), FIRST_CASES)
    held, seed, rounds = True, arguments.seed, 0
    while rounds == 0 or time.monotonic() < end:
        print(f"== round {rounds + 1}, seed {seed}: tests", flush=True)
        held &= explore_tests(seed)
        for path in cases:
            if rounds and time.monotonic() >= end:
                break
            print(f"== round {rounds + 1}, seed {seed}: {path.name}, {cases[path]}", flush=True)
            start = time.monotonic()
            held &= explore_script(path, cases[path], seed)
            if time.monotonic() - start < SHORT:
                cases[path] *= 4
        rounds, seed = rounds + 1, seed + 1
    print(f"{rounds} rounds, seeds {arguments.seed} to {seed - 1}:", "held" if held else "found")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
