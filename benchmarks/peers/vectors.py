"""A mean of many columns: Gaussian clouds, told a ball ten times too large or nothing at all."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

import report
from peers import answers, baselines, ours
from peers.accuracy import DELTA, NAMES
from peers.environments import PEERS
from peers.wire import Task

WORK = "vectors"
EPSILON = 1.0
CENTER = 5.0  # the true mean of every column; the public balls are around 0


@dataclass(frozen=True)
class Cloud:
    """n persons with independent Gaussian columns: "even" (deviation 1 each) or "spike" (10 in the
    first column, 0.1 in all others)."""

    kind: str
    n: int
    d: int

    @property
    def name(self) -> str:
        return f"{self.kind} n={self.n} d={self.d}"

    def rows(self) -> np.ndarray:
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        sd = np.ones(self.d)
        if self.kind == "spike":
            sd[:] = 0.1
            sd[0] = 10.0
        return CENTER + rng.normal(size=(self.n, self.d)) * sd


CLOUDS = tuple(
    Cloud(kind, n, d)
    for kind in ("even", "spike")
    for n, d in ((2000, 10), (2000, 100), (2000, 1000), (20000, 100), (20000, 1000))
)
ROUTES = {
    "privmean": ("epsilon and delta",),
    "opendp": ("vectors, clipped to a ball by the user",),
    "diffprivlib": ("mean over an axis, bounds a column",),
    "baseline": ("CoinPress style",),
}
TOLD = {
    "privmean": "nothing",
    "opendp": "ball",
    "diffprivlib": "box",
    "baseline": "ball, sd 3 times too large",
}


def radius(rows: np.ndarray) -> float:
    """Ten times the largest distance of a person from the mean, for a ball around 0."""
    return 10 * float(np.linalg.norm(rows - rows.mean(axis=0), axis=1).max())


def side(rows: np.ndarray) -> float:
    """Ten times the largest distance of one coordinate from its mean, for a box around 0."""
    return 10 * float(np.abs(rows - rows.mean(axis=0)).max())


def _task(cloud: Cloud, rows: np.ndarray, route: str, runs: int) -> Task:
    ball, box = radius(rows), side(rows)
    return Task(cloud.name, route, EPSILON, "generous", -box, box, runs, ball, DELTA)


def _errors(found: np.ndarray, rows: np.ndarray) -> list[float]:
    """Euclidean distances from the non-private mean over the root of the summed squared standard
    errors."""
    se = float(np.sqrt(rows.var(axis=0, ddof=1).sum() / len(rows)))
    return [float(x) for x in np.linalg.norm(found - rows.mean(axis=0), axis=1) / se]


def _baseline(task: Task, rows: np.ndarray) -> list[float]:
    noise = np.random.default_rng(zlib.crc32(task.key.encode()))
    sd = 3 * float(rows.std(axis=0).max())
    center = np.zeros(rows.shape[1])
    found = [
        baselines.coin_press(rows, center, task.radius, sd, task.epsilon, DELTA, noise)
        for _ in range(task.runs)
    ]
    return _errors(np.array(found), rows)


def _privmean(task: Task, rows: np.ndarray) -> list[float]:
    found = ours.answers(rows, task.epsilon, DELTA, "replace-one", task.runs)
    return _errors(found, rows)


def run(names: list[str], runs: int, only: list[str] | None = None) -> None:
    """Ask the named peers about all clouds, or about those named `only`; answers are kept."""
    chosen = [cloud for cloud in CLOUDS if only is None or cloud.name in only]
    clouds = {cloud.name: cloud.rows() for cloud in chosen}
    for name in names:
        if name not in ROUTES:
            continue
        print(f"== vectors: {NAMES[name]}", flush=True)
        if only is None:
            answers.forget(name, WORK)
        tasks = [
            _task(cloud, clouds[cloud.name], route, max(10, runs // 5) if cloud.d > 100 else runs)
            for cloud in chosen
            for route in ROUTES[name]
        ]
        if name in ("privmean", "baseline"):
            make = _privmean if name == "privmean" else _baseline
            answers.answer_here(name, WORK, tasks, lambda t, make=make: make(t, clouds[t.table]))
        else:
            peer = next(item for item in PEERS if item.name == name)
            arrays = {
                key: {"person": np.arange(len(rows)), "value": rows} for key, rows in clouds.items()
            }
            answers.ask(peer, WORK, tasks, arrays)


def publish() -> None:
    lines: list[list[object]] = []
    for name, routes in ROUTES.items():
        kept = answers.load(name, WORK)
        for route in routes:
            cells: list[str] = []
            for cloud in CLOUDS:
                answer = kept.get(_key(cloud, route), {})
                if "error" in answer:
                    cells.append("refused: " + answer["error"].split(";")[0])
                elif "estimates" in answer:
                    errors = np.asarray(answer["estimates"])
                    fine = errors[~np.isnan(errors)]
                    ratio = float(np.sqrt(np.mean(fine**2))) if len(fine) else float("nan")
                    lost = len(errors) - len(fine)
                    cells.append(
                        f"{ratio:.3g}" + (f" ({lost}/{len(errors)} failed)" if lost else "")
                    )
                else:
                    cells.append("not run")
            lines.append([f"{NAMES[name]}: {route}", TOLD[name], *cells])
    text = (
        "Euclidean privacy error (root mean square) over the standard error, "
        f"epsilon = {EPSILON:g}, delta = {DELTA:g}, replace-one, n public. Even: all columns with "
        "deviation 1; spike: 10 in one column, 0.1 in the others; the mean is 5 in every column. "
        "The ball (its radius ten times the largest distance from the mean) and the box (likewise "
        "for a coordinate) are around 0. PipelineDP and Tumult Analytics have no mean of a vector. "
        "A release of privmean fails when a column was not seen in the noise; its status says so."
        "\n\n" + report.table(["method", "told", *(cloud.name for cloud in CLOUDS)], lines)
    )
    report.publish(
        "peers-vectors", "Means of many columns against other packages", text,
        command="make peers",
    )  # fmt: skip


def _key(cloud: Cloud, route: str) -> str:
    return Task(cloud.name, route, EPSILON, "generous", 0, 0, 1).key
