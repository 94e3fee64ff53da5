"""One person-level mean at equal epsilon on every table: the rows, their tasks, the tables."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

import report
from peers import answers, baselines, ours
from peers.environments import PEERS
from peers.tables import Table, tables
from peers.wire import Task

WORK = "accuracy"
DELTA = 1e-6
CHEAP_RUNS = 400  # releases a cell of the baselines, at least
REPLACE, ADD_REMOVE = "replace, n public", "add-remove, n private"
NOTHING, BOUNDS, BOUNDS_SD = "nothing", "bounds", "bounds, sd"


@dataclass(frozen=True)
class Row:
    """A line of the table. `told` is what the method must be given beside the budget."""

    peer: str
    route: str
    neighbors: str
    told: str = BOUNDS
    delta: float = 0.0
    records: bool = False  # answers the mean of records, and is judged by that
    slow: bool = False  # epsilon = 1 only

    @property
    def title(self) -> str:
        return f"{NAMES[self.peer]}: {self.route}"


NAMES = {"privmean": "privmean", "baseline": "baseline", **{p.name: p.title for p in PEERS}}
CAPPED = "records, at most 10 each"
ROWS = (
    Row("privmean", "epsilon alone", REPLACE, NOTHING),
    Row("privmean", "epsilon and delta", REPLACE, NOTHING, DELTA),
    Row("privmean", "epsilon alone, add-remove", ADD_REMOVE, NOTHING),
    Row("opendp", "person means", ADD_REMOVE),
    Row("opendp", "person means, centred by the user", ADD_REMOVE),
    Row("opendp", "person means, size public", REPLACE),
    Row("opendp", CAPPED, ADD_REMOVE, records=True, slow=True),
    Row("diffprivlib", "person means", REPLACE),
    Row("diffprivlib", "private quantiles first", REPLACE),
    Row("pipelinedp", "person means", ADD_REMOVE),
    Row("pipelinedp", CAPPED, ADD_REMOVE, records=True, slow=True),
    Row("tumult", "person means", ADD_REMOVE, slow=True),
    Row("baseline", "clip and Laplace", REPLACE),
    Row("baseline", "group privacy on records", REPLACE, records=True),
    Row("baseline", "CoinPress style", REPLACE, BOUNDS_SD, DELTA),
)
OURS = ROWS[0]


def tasks_of(row: Row, found: list[Table], runs: int, epsilons: tuple[float, ...]) -> list[Task]:
    """Generous bounds at every epsilon; the true bounds, for information, at epsilon = 1."""
    cells = [(epsilon, "generous") for epsilon in epsilons if epsilon == 1 or not row.slow]
    if row.told != NOTHING:
        cells.append((1.0, "true"))
    return [
        Task(table.name, row.route, epsilon, kind, *table.bounds(kind), runs)
        for epsilon, kind in cells
        for table in found
    ]


def _baseline(task: Task, table: Table) -> list[float]:
    noise = np.random.default_rng(zlib.crc32(task.key.encode()))
    means, limits = table.means, (task.lower, task.upper)
    values, most = table.records.value, table.most_records

    def one() -> float:
        if task.route == "clip and Laplace":
            return baselines.clipped_laplace(means, *limits, task.epsilon, noise)
        if task.route == "group privacy on records":
            return baselines.group_privacy(values, most, *limits, task.epsilon, noise)
        # told the standard deviation: three times too large with generous bounds, else the true one
        sd = float(means.std(ddof=1)) * (3 if task.bounds == "generous" else 1)
        middle, half = (task.lower + task.upper) / 2, (task.upper - task.lower) / 2
        center = np.array([middle])
        found = baselines.coin_press(
            means[:, np.newaxis], center, half, sd, task.epsilon, DELTA, noise
        )
        return float(found[0])

    return [one() for _ in range(task.runs)]


def _privmean(row: Row, task: Task, people: object) -> np.ndarray:
    relation = "replace-one" if row.neighbors == REPLACE else "add-remove"
    return ours.answers(people, task.epsilon, row.delta, relation, task.runs)[:, 0]


def run(
    names: list[str],
    runs: int,
    epsilons: tuple[float, ...],
    only: list[str] | None = None,
    bounds: tuple[str, ...] = ("generous", "true"),
    routes: list[str] | None = None,
) -> None:
    """Ask the named peers about all tables, or about those named `only`; answers are kept."""
    found = tables(only)
    by_name = {table.name: table for table in found}
    arrays = {
        table.name: {"person": table.records.person, "value": table.records.value}
        for table in found
    }
    for name in names:
        print(f"== accuracy: {NAMES[name]}", flush=True)
        if only is None:
            answers.forget(name, WORK)
        rows = [row for row in ROWS if row.peer == name]
        if name == "baseline":
            for row in rows:
                tasks = tasks_of(row, found, max(runs, CHEAP_RUNS), epsilons)
                answers.answer_here(name, WORK, tasks, lambda t: _baseline(t, by_name[t.table]))
        elif name == "privmean":
            people = {table.name: ours.people_of(table) for table in found}
            for row in rows:
                tasks = tasks_of(row, found, runs, epsilons)
                answers.answer_here(
                    name,
                    WORK,
                    tasks,
                    lambda t, row=row, people=people: _privmean(row, t, people[t.table]),
                )
        else:
            peer = next(item for item in PEERS if item.name == name)
            wanted = [
                task
                for row in rows
                for task in tasks_of(row, found, runs, epsilons)
                if task.bounds in bounds and (routes is None or row.route in routes)
            ]
            answers.ask(peer, WORK, wanted, arrays)


@dataclass(frozen=True)
class Cell:
    """Root mean square privacy error over the standard error, and its own standard error."""

    ratio: float
    wobble: float
    runs: int
    failed: int = 0

    @classmethod
    def of(cls, estimates: list[float], truth: float, se: float) -> Cell:
        errors = (np.asarray(estimates, dtype=float) - truth) / se
        kept = errors[~np.isnan(errors)]
        ratio = float(np.sqrt(np.mean(kept**2))) if len(kept) else math.nan
        if not ratio > 0:  # no answer, or no noise
            return cls(ratio, math.nan, len(errors), len(errors) - len(kept))
        wobble = float(np.std(kept**2)) / math.sqrt(len(kept)) / (2 * ratio)
        return cls(ratio, wobble, len(errors), len(errors) - len(kept))

    def __str__(self) -> str:
        digits = 2 if self.ratio < 9.95 else (1 if self.ratio < 99.5 else 0)
        failed = f" ({self.failed} failed)" if self.failed else ""
        return f"{self.ratio:.{digits}f}{failed}"


def cells(found: list[Table]) -> tuple[dict[tuple[Row, str, float, str], Cell], dict[str, str]]:
    """All cells with an answer, and the versions of the peers."""
    result: dict[tuple[Row, str, float, str], Cell] = {}
    versions: dict[str, str] = {}
    for row in ROWS:
        for answer in answers.load(row.peer, WORK).values():
            table_name, route, epsilon, bounds = answer["key"].split("|")
            table = next((item for item in found if item.name == table_name), None)
            if route != row.route or table is None or "estimates" not in answer:
                continue
            truth = table.record_mean if row.records else table.truth
            cell = Cell.of(answer["estimates"], truth, table.standard_error)
            result[row, table_name, float(epsilon), bounds] = cell
            for package, number in answer.get("versions", {}).items():
                versions[package] = number
    return result, versions


def publish() -> None:
    found = tables()
    values, versions = cells(found)
    names = [table.name for table in found]

    def lines(bounds: str, epsilon: float, rows: tuple[Row, ...] = ROWS) -> list[list[object]]:
        made: list[list[object]] = []
        for row in rows:
            kind = "generous" if row.told == NOTHING else bounds
            got = [values.get((row, name, epsilon, kind)) for name in names]
            if any(got):
                middle = f"**{np.median([c.ratio for c in got if c]):.2f}**" if all(got) else ""
                made.append(
                    [row.title, row.told, row.neighbors, *(str(c or "") for c in got), middle]
                )
        return made

    head = ["method", "told beside the budget", "neighbours", *names, "**median**"]
    sizes = [
        [t.name, len(t.means), len(t.records.value), t.most_records, f"{t.standard_error:.4g}",
         "{:.4g} to {:.4g}".format(*t.bounds("true")),
         "{:.4g} to {:.4g}".format(*t.bounds("generous"))]
        for t in found
    ]  # fmt: skip
    runs = sorted({cell.runs for cell in values.values()})
    text = [
        "Privacy error (root mean square, around the non-private mean of the persons' means) over "
        "that mean's standard error: 1 is privacy noise as large as sampling error. Rows that "
        "answer the mean of *records* are judged by the mean of records. privmean is told nothing "
        "but the budget, and its noise is the exact noise of every release.",
        f"{' or '.join(map(str, runs))} releases a cell; a cell's own standard error is about "
        f"{100 * np.median([c.wobble / c.ratio for c in values.values() if c.ratio]):.0f} percent. "
        f"Delta is {DELTA:g} for rows that need one (privmean: epsilon and delta; CoinPress) "
        "and 0 for all others. The relations differ: replace-one, privmean's default for one mean, "
        "is the stronger and costlier promise at the same epsilon; for equals take privmean's row "
        "with the same neighbours, add-remove. An empty cell was not run; its row then has "
        "no median.",
        "**Epsilon = 1, bounds ten times as wide as the records, off centre** (CoinPress "
        "style: also a standard deviation three times too large; its promise is (epsilon, delta))",
        report.table(head, lines("generous", 1.0)),
        _verdict(values, names),
        "**For information, epsilon = 1, the exact range of the records as bounds** (and the exact "
        "standard deviation for CoinPress style): what nobody knows who has not looked at the data",
        report.table(head, lines("true", 1.0)),
    ]
    for epsilon in sorted({key[2] for key in values} - {1.0}):
        text += [
            f"**Epsilon = {epsilon:g}, the same wide bounds**",
            report.table(head, lines("generous", epsilon)),
        ]
    text += [
        "**The tables**",
        report.table(
            ["table", "persons", "records", "most of one person", "standard error",
             "range of the records", "generous bounds"],
            sizes,
        ),
        "Versions: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".",
    ]  # fmt: skip
    problems = answers.problems(WORK)
    if problems:
        text.append("Left out: " + "; ".join(problems) + ".")
    report.publish(
        "peers-accuracy",
        "One person-level mean against other packages",
        "\n\n".join(text),
        command="make peers",
    )


def _verdict(values: dict[tuple[Row, str, float, str], Cell], names: list[str]) -> str:
    """Ours against the best row that is told bounds, and against those told a deviation too."""
    lines: list[list[object]] = []
    count = {BOUNDS: [0, 0], BOUNDS_SD: [0, 0]}
    for name in names:
        line: list[object] = [name]
        for told, mine_row in ((BOUNDS, ROWS[0]), (BOUNDS_SD, ROWS[1])):
            mine = values.get((mine_row, name, 1.0, "generous"))
            others = [
                (cell.ratio, row.title, cell)
                for (row, table, epsilon, bounds), cell in values.items()
                if (table, epsilon, bounds, row.told) == (name, 1.0, "generous", told)
            ]
            if mine is None or not others:
                line += ["", "", ""]
                continue
            ratio, title, cell = min(others, key=lambda item: item[0])
            gap = math.hypot(mine.wobble, cell.wobble)
            count[told][0] += mine.ratio < ratio
            count[told][1] += 1
            line += [
                f"{mine} ± {mine.wobble:.2f}",
                f"{cell} ± {cell.wobble:.2f}, {title}",
                f"{ratio / mine.ratio:.2f} ({(ratio - mine.ratio) / gap:+.0f} standard errors)",
            ]
        lines.append(line)
    head = [
        "table", "privmean, epsilon alone", "best of those told bounds", "times ours",
        "privmean, epsilon and delta", "told bounds and a deviation", "times ours",
    ]  # fmt: skip
    (won, tables_), (won_sd, tables_sd) = count[BOUNDS], count[BOUNDS_SD]
    summary = (
        f"privmean's error is below that of every row told bounds on {won} of {tables_} tables, "
        "and below that of CoinPress style, told a standard deviation too, on "
        f"{won_sd} of {tables_sd}."
    )
    return f"{summary}\n\n{report.table(head, lines)}"
