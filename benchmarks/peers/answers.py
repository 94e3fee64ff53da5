"""Estimates of all rows, kept under `.peers/answers/`: a table can be made of several runs."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from peers.environments import FOLDER, PEERS, Peer
from peers.wire import Task
from privmean.errors import InfeasibleError

ANSWERS = FOLDER / "answers"


def path_of(peer: str, work: str) -> Path:
    ANSWERS.mkdir(parents=True, exist_ok=True)
    return ANSWERS / f"{work}-{peer}.jsonl"


def forget(peer: str, work: str) -> None:
    path_of(peer, work).unlink(missing_ok=True)


def load(peer: str, work: str) -> dict[str, dict[str, Any]]:
    """The last answer to every task."""
    path = path_of(peer, work)
    if not path.exists():
        return {}
    return {item["key"]: item for item in map(json.loads, path.read_text().splitlines())}


def add(peer: str, work: str, answer: dict[str, Any]) -> None:
    with path_of(peer, work).open("a") as out:
        out.write(json.dumps(answer) + "\n")


def problems(work: str, asked: Container[str] | None = None) -> list[str]:
    """Peers that are absent and tasks that failed, one line each; of the peers `asked` (all)."""
    lines = []
    for peer in PEERS:
        if asked is not None and peer.name not in asked:
            continue
        if not peer.ready:
            lines.append(f"{peer.title} is not installed (python benchmarks/peers.py --setup)")
        for key, item in load(peer.name, work).items():
            if "error" in item:
                lines.append(f"{peer.title}, {key}: {item['error']}")
    return lines


def ask(peer: Peer, work: str, tasks: Iterable[Task], arrays: dict[str, dict[str, Any]]) -> None:
    """Run the peer's adapter on the tasks; arrays: {table: {"person": ..., "value": ...}}."""
    wanted = list(tasks)
    if not peer.ready:
        print(f"{peer.title} is not installed: left out")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in {task.table for task in wanted}:
            np.savez(folder / f"{table}.npz", **arrays[table])
        (folder / "tasks.json").write_text(json.dumps([task.to_dict() for task in wanted]))
        command = [str(peer.python), str(peer.adapter), name, str(path_of(peer.name, work))]
        status = subprocess.run(command, check=False).returncode
    answered = load(peer.name, work)
    for task in wanted:
        if task.key not in answered:
            error = f"no answer, its process ended with {status}"
            add(peer.name, work, {"key": task.key, "error": error})


def answer_here(
    peer: str, work: str, tasks: Iterable[Task], answer: Callable[[Task], Iterable[float]]
) -> None:
    """The same for rows that run in this environment."""
    for task in tasks:
        start = time.perf_counter()
        found: dict[str, Any] = {"key": task.key}
        try:
            found["estimates"] = [float(x) for x in answer(task)]
        except InfeasibleError as refusal:
            found["error"] = str(refusal)[:300]
        found["seconds"] = time.perf_counter() - start
        add(peer, work, found)
