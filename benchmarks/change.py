"""Speed of this tree against another tree of privmean (an earlier commit, say), in one run.

The jobs are those of benchmarks/speed_cases.py, and `privmean mean FILE` as a whole process, with
its imports. Each runs in a process of its own with either tree in turn; the ratio of the least
times is what counts.

    git worktree add ../before COMMIT
    python benchmarks/change.py ../before [--repeats 5] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import publish, table
from speed_cases import CASES

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "command"
SECONDS = 0.5  # at least, of a process: the least time of a short job needs many runs
JOBS = {
    "file": 5_000_000, "records": 1_000_000, "array": 1_000_000, "items": 1_000_000,
    "local-mean": 1_000_000, "stream": 2_000, "anisotropic": 4_000, "columns": 100_000,
    "clients": 100_000, "variance": 1_000_000, "regress": 80_000, COMMAND: 73_000,
}  # fmt: skip
ONE = """
import sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
from speed_cases import CASES
job, _ = CASES[{name!r}].make({size}, Path({scratch!r}))
job()
times = []
while len(times) < {repeats} or sum(wall for wall, _ in times) < {seconds}:
    wall, cpu = time.perf_counter(), time.process_time()
    job()
    times.append((time.perf_counter() - wall, time.process_time() - cpu))
print(min(wall for wall, _ in times), min(cpu for _, cpu in times))
"""


def least(tree: Path, name: str, size: int, scratch: str, repeats: int) -> tuple[float, float]:
    """Wall and processor seconds of a job with the package of `tree`."""
    code = ONE.format(
        folder=str(ROOT / "benchmarks"), name=name, size=size, scratch=scratch, repeats=repeats,
        seconds=SECONDS,
    )  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    wall, cpu = map(float, done.stdout.split()[-2:])
    return wall, cpu


def command(tree: Path, size: int, scratch: str, repeats: int) -> tuple[float, float]:
    """Wall and processor seconds of `privmean mean FILE` from start to end, imports included."""
    path = Path(scratch) / "command.parquet"
    if not path.exists():
        import duckdb

        duckdb.sql(
            f"COPY (SELECT i // 25 AS who, 1 + (i * 7919 % 1000) / 250 AS x FROM range({size}) "
            f"t(i)) TO '{path}' (FORMAT parquet)"
        )
    said = ["mean", str(path), "--person", "who", "--value", "x", "--epsilon", "1"]
    # compiled once, as an installed package is
    own = {"PYTHONPATH": str(tree / "src"), "PYTHONPYCACHEPREFIX": f"{scratch}/compiled"}
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(repeats + 1):
        wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "privmean", *said],
            env=kept | own, check=True, capture_output=True,
        )  # fmt: skip
        wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append((wall, used))
    return min(wall for wall, _ in times[1:]), min(used for _, used in times[1:])


def commit(tree: Path) -> str:
    told = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, nargs="?", help="the other tree")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(JOBS))
    options = parser.parse_args()
    if options.before is None:
        print("no other tree named: left out")
        return
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only:
            size = JOBS[name] // (10 if options.quick else 1)
            found: dict[Path, list[tuple[float, float]]] = {options.before: [], ROOT: []}
            for _ in range(options.turns):
                for tree, runs in found.items():
                    if name == COMMAND:
                        runs.append(command(tree, size, scratch, options.repeats))
                    else:
                        runs.append(least(tree, name, size, scratch, options.repeats))
            before, now = (
                [min(column) for column in zip(*runs, strict=True)] for runs in found.values()
            )
            rows.append(
                [
                    "the whole command" if name == COMMAND else CASES[name].title,
                    f"{size:,}", f"{1000 * before[0]:.1f}",
                    f"{1000 * now[0]:.1f}", f"{now[0] / before[0]:.2f}",
                    f"{now[1] / before[1]:.2f}",
                ]
            )  # fmt: skip
    text = (
        f"Before: commit {commit(options.before)}. Least of {options.turns} processes of "
        f"{options.repeats} runs each (more where these take less than "
        f"{SECONDS} s), load {os.getloadavg()[0]:.1f}\n\n"
        + table(["job", "size", "before ms", "now ms", "wall ratio", "processor ratio"], rows)
    )
    publish(
        "change", "Speed against an earlier commit", text, command="python benchmarks/change.py DIR"
    )


if __name__ == "__main__":
    main()
