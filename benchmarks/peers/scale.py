"""Time and memory of one person-level mean from Parquet, as whole processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import report
from peers import answers
from peers.accuracy import NAMES
from peers.environments import PEERS

WORK = "scale"
SIZES = ((10**6, 10**5), (10**7, 10**6), (5 * 10**7, 10**6))
LIMIT = 200.0  # seconds of one process; a peer that needs more is not asked for larger tables
MAKE = """
import duckdb
duckdb.execute('''COPY (
    SELECT (hash(i) % {persons})::BIGINT AS person,
           10 + 3 * sqrt(-2 * ln(random() + 1e-12)) * cos(2 * pi() * random()) AS y
    FROM range({records}) AS r(i)) TO '{path}' (FORMAT parquet)''')
"""
PLAIN = """
import duckdb, json, time
start = time.perf_counter()
query = "SELECT avg(m) FROM (SELECT avg(y) AS m FROM '{path}' GROUP BY person) AS t"
found = duckdb.execute(query).fetchall()[0][0]
print(json.dumps({{"estimate": found, "inside": time.perf_counter() - start}}))
"""
PRIVATE = """
import json, time
import privmean as pm
start = time.perf_counter()
release = pm.mean(pm.read("{path}", person="person", values="y"), epsilon=1.0)
print(json.dumps({{"estimate": float(release), "inside": time.perf_counter() - start}}))
"""
DUCKDB = "duckdb"
TITLES = {DUCKDB: "DuckDB, not private", **NAMES}


def tree_memory(process: int) -> int:
    """Resident bytes of a process and its descendants (children are listed a thread each)."""
    total, waiting = 0, [process]
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        try:
            pages = int((folder / "statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
    return total


def measure(command: list[str]) -> dict[str, Any]:
    """Wall and processor seconds, peak memory of the process tree (sampled), and what the process
    prints. Processes that it does not wait for itself count for memory alone."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as problems:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=problems, start_new_session=True)
        peak, ended = 0, 0
        while not ended:
            peak = max(peak, tree_memory(child.pid))
            if time.perf_counter() - start > LIMIT:
                os.killpg(child.pid, signal.SIGKILL)  # the group that was started above
                child.wait()
                return {"error": f"not finished in {LIMIT:.0f} s"}
            time.sleep(0.02)
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        problems.seek(0)
        if child.returncode:
            tail = problems.read().strip().splitlines()[-1:] or [""]
            return {"error": f"ended with {child.returncode}: {tail[0][:200]}"}
        answer = json.loads(out.read().strip().splitlines()[-1])
    busy = usage.ru_utime + usage.ru_stime
    return {"wall": wall, "cpu": busy, "peak": peak / 2**20, **answer}


def command_of(name: str, path: Path) -> list[str]:
    if name == DUCKDB:
        return [sys.executable, "-c", PLAIN.format(path=path)]
    if name == "privmean":
        return [sys.executable, "-c", PRIVATE.format(path=path)]
    peer = next(item for item in PEERS if item.name == name)
    return [str(peer.python), str(peer.adapter), "--whole", str(path)]


def run(names: list[str], repeats: int, sizes: tuple[tuple[int, int], ...] = SIZES) -> None:
    asked = [
        name
        for name in names
        if name == "privmean" or any(peer.name == name and peer.ready for peer in PEERS)
    ]
    if "privmean" in asked:
        asked.insert(0, DUCKDB)
    for name in asked:
        answers.forget(name, WORK)
    with tempfile.TemporaryDirectory() as folder:
        for records, persons in sizes:
            path = Path(folder) / f"{records}.parquet"
            code = MAKE.format(records=records, persons=persons, path=path)
            subprocess.run([sys.executable, "-c", code], check=True)
            for name in list(asked):
                print(f"== scale: {TITLES[name]}, {records:.0e} records", flush=True)
                found: list[dict[str, Any]] = []
                for _ in range(repeats):
                    found.append(measure(command_of(name, path)))
                    if "error" in found[-1] or found[-1]["wall"] > LIMIT / 5:
                        break
                fine = [item for item in found if "error" not in item]
                best = min(fine, key=lambda item: item["wall"]) if fine else found[-1]
                answers.add(name, WORK, {"key": str(records), "repeats": len(fine), **best})
                if "error" in best:
                    asked.remove(name)
            path.unlink()


def publish() -> None:
    kept = {name: answers.load(name, WORK) for name in TITLES}
    lines: list[list[object]] = []
    for name, title in TITLES.items():
        line: list[object] = [title]
        for records, _ in SIZES:
            answer, plain = kept[name].get(str(records)), kept[DUCKDB].get(str(records))
            if answer is None:
                line.append("")
            elif "error" in answer:
                line.append(answer["error"])
            else:
                busy = f" ({answer['cpu'] / plain['cpu']:.1f})" if plain else ""
                line.append(f"{answer['cpu']:.1f} s{busy}, {answer['peak']:.0f} MB")
        if any(line[1:]):
            lines.append(line)
    head = ["", *(f"{r:.0e} records of {p:.0e} persons" for r, p in SIZES)]
    text = (
        "One person-level mean of a column of a Parquet file: processor seconds of the whole "
        "process (times the plain DuckDB query; without Spark's Java), and the peak memory of it "
        "and its children (sampled). The peers know the range -20 to 40, privmean nothing. "
        "PipelineDP and diffprivlib get person means from pandas (counted), OpenDP and Tumult "
        "Analytics average by themselves. Least of the repetitions; a process is stopped after "
        f"{LIMIT:.0f} s, and its peer is then not asked for larger tables. An empty cell was not "
        "run.\n\n" + report.table(head, lines)
    )
    report.publish(
        "peers-scale", "Time and memory against other packages", text, command="make peers"
    )
