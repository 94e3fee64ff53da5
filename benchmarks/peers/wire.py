"""What an adapter and the suite say to each other. Runs in every environment: NumPy alone.

The suite writes a folder with `tasks.json` (a list of tasks) and one `NAME.npz` a table (`person`,
`value` and, where there are groups, `group`, in the order of the records). The adapter appends one
JSON line a task to its answer file.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Task:
    """`runs` releases of one route on one table with public bounds."""

    table: str
    route: str
    epsilon: float
    bounds: str  # "generous" or "true": which of the table's bounds the numbers below are
    lower: float
    upper: float
    runs: int
    radius: float = 0.0  # vectors: of a public ball around 0
    delta: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.table}|{self.route}|{self.epsilon:g}|{self.bounds}"

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Records:
    """A table of records: `person` are whole numbers, `value` floats (vectors: a row each), and
    `group`, where there are groups, whole numbers from 0."""

    person: np.ndarray
    value: np.ndarray
    group: np.ndarray | None = None

    @property
    def means(self) -> np.ndarray:
        """One mean a person, in the order of the ids."""
        _, index = np.unique(self.person, return_inverse=True)
        return np.bincount(index, self.value) / np.bincount(index)

    @property
    def counts(self) -> np.ndarray:
        """Records a person, in the order of the ids."""
        return np.unique(self.person, return_counts=True)[1]


def serve(routes, whole_job, packages: tuple[str, ...]) -> None:
    """The adapter's main program.

    routes: {name: f(task, records) -> estimates}. whole_job: f(path) -> estimate, one person-level
    mean of column `y` by `person` from a Parquet file, range -20 to 40, epsilon = 1.
    Arguments: FOLDER ANSWERS, or --whole PATH.
    """
    if sys.argv[1] == "--whole":
        start = time.perf_counter()
        estimate = float(whole_job(sys.argv[2]))
        print(json.dumps({"estimate": estimate, "inside": time.perf_counter() - start}))
        return
    folder, answers = Path(sys.argv[1]), Path(sys.argv[2])
    versions = {name: version(name) for name in packages}
    tables: dict[str, Records] = {}
    with answers.open("a") as out:
        for item in json.loads((folder / "tasks.json").read_text()):
            task = Task(**item)
            if task.table not in tables:
                with np.load(folder / f"{task.table}.npz") as file:
                    group = file.get("group")
                    tables[task.table] = Records(file["person"], file["value"], group)
            start = time.perf_counter()
            answer = {"key": task.key, "versions": versions}
            try:
                found = routes[task.route](task, tables[task.table])
                answer["estimates"] = [float(x) for x in found]
            except Exception as problem:
                traceback.print_exc()
                answer["error"] = f"{type(problem).__name__}: {problem}"[:300]
            answer["seconds"] = time.perf_counter() - start
            out.write(json.dumps(answer) + "\n")
            out.flush()
