"""Prints a benchmark's tables and stores its last run in benchmarks/results/.

The site renders the stored runs as an appendix: docs/site-tools/appendix.py.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
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


def cells(line: str) -> list[str]:
    """Return the cells of one line of a Markdown table."""
    return [cell.strip() for cell in line.strip()[1:-1].split(" | ")]


def parts(text: str) -> list[Any]:
    """Split Markdown into texts and tables; a table has columns and rows of cells."""
    made: list[Any] = []
    for block in text.strip().split("\n\n"):
        lines = block.strip().splitlines()
        if len(lines) > 1 and re.fullmatch(r"\|[-| :]+\|", lines[1]):
            made.append({"columns": cells(lines[0]), "rows": [cells(row) for row in lines[2:]]})
        else:
            made.append(block.strip())
    return made


def encoded(part: Any) -> str:
    """Return JSON of a part, one line per row of a table."""
    if isinstance(part, str):
        return json.dumps(part, ensure_ascii=False)
    columns = json.dumps(part["columns"], ensure_ascii=False)
    rows = ",\n   ".join(json.dumps(row, ensure_ascii=False) for row in part["rows"])
    return f'{{"columns": {columns}, "rows": [\n   {rows}]}}'


def store(record: dict[str, Any], path: Path) -> None:
    """Write a record; its `content` is a list of parts."""
    fields = {key: json.dumps(item, indent=1, ensure_ascii=False) for key, item in record.items()}
    fields["content"] = "[\n  " + ",\n  ".join(map(encoded, record["content"])) + "\n ]"
    lines = ",\n".join(f' "{key}": {item}' for key, item in fields.items())
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{{\n{lines}\n}}\n")


def publish(name: str, title: str, text: str, *, command: str, data: Any = None) -> None:
    """Print `text` and store it as benchmarks/results/`name`.json, with `data` if given."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {date.today()}"
    print(f"## {title}\n\n`{command}` ({machine})\n\n{text.strip()}\n")
    record: dict[str, Any] = {"title": title, "command": command, "machine": machine}
    record["content"] = parts(text)
    if data is not None:
        record["data"] = data
    store(record, RESULTS / f"{name}.json")
