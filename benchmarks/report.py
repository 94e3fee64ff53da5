"""Prints a benchmark's table and keeps its last run in docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


TRIAL = bool(os.environ.get("BENCHMARKS_TRIAL"))  # whether scripts show only that they still run


def few(number: int, least: int = 2) -> int:
    """A number of runs, or the least that a script runs with where this is a trial."""
    return least if TRIAL else number


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def as_installed() -> dict[str, str]:
    """The environment of a process that finds compiled modules, as those of an installed package
    are: else each run would compile them again."""
    kept = {key: item for key, item in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    prefix = Path(tempfile.gettempdir()) / f"privmean-compiled-{os.getuid()}"
    return kept | {"PYTHONPYCACHEPREFIX": str(prefix)}


def whole_process(command: Sequence[str]) -> tuple[float, float]:
    """Seconds of one process, by the clock and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=as_installed())
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, list[float]]:
    """What the table of several commands says of each, run in turns `runs` times: the least time by
    the clock, the least processor time, and the median ratio of processor time to the first command
    of the same turn. One turn before them is not counted."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, command in commands.items():
            found[name].append(whole_process(command))
    plain = next(iter(found.values()))[1:]
    said = {}
    for name, all_runs in found.items():
        taken = all_runs[1:]
        ratios = [mine[1] / other[1] for mine, other in zip(taken, plain, strict=True)]
        clock, used = (min(item[k] for item in taken) for k in (0, 1))
        said[name] = [clock, used, statistics.median(ratios)]
    return said


def python(code: str) -> list[str]:
    """The command that runs a program in this Python."""
    return [sys.executable, "-c", code]


def publish(section: str, title: str, text: str, *, command: str, on: Path = PAGE) -> None:
    """Print `text` and replace the section named `section` of docs/benchmarks.md (or the page `on`)
    by it."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {date.today()}"
    body = f"## {title}\n\n`{command}` ({machine})\n\n{text.strip()}\n"
    print(body)
    start, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    page = on.read_text() if on.exists() else "# Benchmarks\n\nThe last run of each script.\n"
    if start in page:
        head, rest = page.split(start, 1)
        page = head + start + "\n" + body + end + rest.split(end, 1)[1]
    else:
        page = page.rstrip() + f"\n\n{start}\n{body}{end}\n"
    on.write_text(page)
