"""Time and memory of every main job against the obvious computation without privacy, in one run.

pytest-benchmark times the jobs (benchmarks/bench_speed.py), by the wall clock and again by the
processor's; the ratio of the least times is what counts. Memory is what a job needs beyond its
input, in a fresh process each.

    python benchmarks/speed.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from speed_cases import CASES, PLAIN, PRIVATE, Job

FOLDER = Path(__file__).resolve().parent
CLOCKS = {"wall": "time.perf_counter", "processor": "time.process_time"}


def least(names: list[str], clock: str, part: int) -> dict[tuple[str, str], float]:
    """Least seconds of every job with and without privacy, by pytest-benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [
            sys.executable, "-m", "pytest", str(FOLDER / "bench_speed.py"), "-q", "-o", "addopts=",
            "-o", "filterwarnings=default", "-p", "no:cacheprovider",
            "-k", " or ".join(f"[{name}-" for name in names),
            f"--benchmark-timer={CLOCKS[clock]}", "--benchmark-min-rounds=5",
            "--benchmark-max-time=2", f"--benchmark-json={found}",
            "--benchmark-columns=min,median,rounds", "--benchmark-sort=name",
        ]  # fmt: skip
        # inside another pytest its workers' marks would turn the clocks off
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        environment = kept | {"PRIVMEAN_BENCH_PART": str(part)}
        subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
        items = json.loads(found.read_text())["benchmarks"]
    return {
        (item["extra_info"]["case"], item["extra_info"]["part"]): item["stats"]["min"]
        for item in items
    }


def _status(field: str) -> float:
    """Megabytes of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def memory(job: Job) -> float:
    """Peak megabytes of a job beyond what the process holds before it."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS")
    job()
    return _status("VmHWM") - before


def peak(name: str, size: int, part: str) -> float:
    """`memory` of one job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--inside", name, str(size), folder, part]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        name, size, folder, part = options.inside
        private, plain = CASES[name].make(int(size), Path(folder))
        print(json.dumps(memory(private if part == PRIVATE else plain)))
        return
    from report import publish, table

    part = 10 if options.quick else 1
    times = {clock: least(options.only, clock, part) for clock in CLOCKS}
    rows: list[list[object]] = []
    for name in options.only:
        case, wall, busy = CASES[name], times["wall"], times["processor"]
        size = case.size_of(part)
        mine, plain = wall[name, PRIVATE], wall[name, PLAIN]
        rows.append([
            case.title, f"{size:.0e}", case.plain, f"{1000 * mine:.3g}", f"{1000 * plain:.3g}",
            f"**{mine / plain:.3g}**", f"{busy[name, PRIVATE] / busy[name, PLAIN]:.3g}",
            f"{peak(name, size, PRIVATE):.0f}", f"{peak(name, size, PLAIN):.0f}",
        ])  # fmt: skip
    head = [
        "job", "size", "without privacy", "privmean, ms", "plain, ms", "ratio", "of processor time",
        "privmean, MB", "plain, MB",
    ]  # fmt: skip
    text = (
        f"Least times by pytest-benchmark in one run, at load {os.getloadavg()[0]:.1f}. Memory: "
        "beyond the input, a fresh process each (a first run: libraries loaded late count). Where "
        "the plain job takes microseconds, the ratio says little: read the milliseconds. At a load "
        "above 2 other work shares the processors: read the ratio of processor time.\n\n"
        + table(head, rows)
    )
    publish("speed", "Speed of the main jobs", text, command="make bench")


if __name__ == "__main__":
    main()
