"""Where a release says "ok", does its interval hold? Every question, on laws with long tails.

    python benchmarks/ok_stands.py [--runs 20] [--questions mean groups] [--laws ...] [--print]

Every release answers for a fresh table of its law, with simulated noise, at level .95; the truth is
that of the law. Held: of the rows that say "ok", the part whose interval holds the truth.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

Draw = Callable[[np.random.Generator, int], np.ndarray]
LEAST, RARE = 0.9, 0.1  # coverage below which a cell is listed, if so much of it says "ok"


@dataclass(frozen=True)
class Law:
    """How values are drawn, their mean and their variance."""

    draw: Draw
    mean: float
    variance: float


def _pareto(a: float) -> Law:
    return Law(lambda g, n: g.random(n) ** (-1 / a), a / (a - 1), a / ((a - 1) ** 2 * (a - 2)))


def _lognormal(s: float) -> Law:
    square = math.exp(s * s)
    return Law(lambda g, n: g.lognormal(0, s, n), math.exp(s * s / 2), square * (square - 1))


E = math.e
LAWS = {
    "normal(3, 1)": Law(lambda g, n: 3 + g.standard_normal(n), 3.0, 1.0),
    "lognormal 1": _lognormal(1.0),
    "lognormal 1.5": _lognormal(1.5),
    "Pareto 2.2": _pareto(2.2),
    "t3": Law(lambda g, n: g.standard_t(3, n), 0.0, 3.0),
    "1 % at 50 sd": Law(
        lambda g, n: g.standard_normal(n) + 50 * (g.random(n) < 0.01), 0.5, 1 + 2500 * 0.0099
    ),
    "95 % zeros": Law(
        lambda g, n: g.lognormal(0, 1, n) * (g.random(n) < 0.05),
        0.05 * E**0.5, 0.05 * E**2 - 0.0025 * E,
    ),
    "Poisson 0.2": Law(lambda g, n: g.poisson(0.2, n) * 1.0, 0.2, 0.2),
    "geometric, 90 % zeros": Law(lambda g, n: g.geometric(0.9, n) - 1.0, 1 / 9, 0.1 / 0.81),
    "10 % ones": Law(lambda g, n: (g.random(n) < 0.1) * 1.0, 0.1, 0.09),
}  # fmt: skip
PERSONS, EPSILONS = (500, 2000, 10_000), (0.5, 1.0, 4.0)
Rows = list[tuple[str, float, float, float]]  # status, ends, truth


def _table(columns: dict[str, np.ndarray], who: np.ndarray) -> pm.Table:
    return pm.Table(pl.DataFrame({"who": who, **columns}), person="who")


def _rows(release: object, truths: list[float]) -> Rows:
    rows = release.rows()  # type: ignore[attr-defined]
    return [(r.status, r.lower, r.upper, t) for r, t in zip(rows, truths, strict=False)]


def _mean(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    people = ArrayPersonTable(law.draw(g, n)[:, None], ("x",))
    return _rows(pm.mean(people, epsilon=epsilon, noise=SimulatedNoise(g)), [law.mean])


def _records(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    number = np.minimum(1 + g.geometric(0.12, n), 60)
    people = ArrayPersonTable(law.draw(g, n)[:, None], ("x",), number[:, None], 20)
    return _rows(pm.mean(people, epsilon=epsilon, noise=SimulatedNoise(g)), [law.mean])


def _variance(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    people = ArrayPersonTable(law.draw(g, n)[:, None], ("x",))
    return _rows(pm.variance(people, epsilon=epsilon, noise=SimulatedNoise(g)), [law.variance])


def _arms(law: Law, g: np.random.Generator, n: int) -> pm.Table:
    arm = g.integers(0, 2, n)
    return _table({"x": law.draw(g, n) * (1 + arm / 2), "arm": arm}, np.arange(n))


def _compare(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    release = pm.compare(
        _arms(law, g, n), "x", arms="arm", levels=[1, 0], epsilon=epsilon, noise=SimulatedNoise(g)
    )
    row = release.rows()[-1]  # the difference, below the arms
    return [(row.status, row.lower, row.upper, law.mean / 2)]


def _public_arms(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    release = pm.compare(
        _arms(law, g, n), "x", arms="arm", levels=[1, 0], membership="public", epsilon=epsilon,
        noise=SimulatedNoise(g),
    )  # fmt: skip
    row = release.rows()[-1]
    return [(row.status, row.lower, row.upper, law.mean / 2)]


def _groups(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    source = _table({"x": law.draw(g, n), "key": g.choice(list("abc"), n)}, np.arange(n))
    release = pm.mean(
        source, "x", by="key", keys=list("abc"), epsilon=epsilon, noise=SimulatedNoise(g)
    )
    return _rows(release, [law.mean] * 3)


def _contrast(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    release = pm.mean(
        _arms(law, g, n), "x", by="arm", keys=[0, 1], epsilon=epsilon, noise=SimulatedNoise(g)
    )
    row = release.contrast("1 - 0")
    return [(row.status, row.lower, row.upper, law.mean / 2)]


def _curve(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    time_, own = np.tile([0.5, 1.5, 2.5], n), np.repeat(law.draw(g, n), 3)
    source = _table({"x": own, "t": time_}, np.repeat(np.arange(n), 3))
    release = pm.curve(
        source, "x", time="t", bins=[0, 1, 2, 3], epsilon=epsilon, noise=SimulatedNoise(g)
    )
    return _rows(release, [law.mean] * 3)


def _own(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    """Persons' own lines: the mean of their slopes."""
    t = np.tile(np.arange(4.0), n)
    y = np.repeat(g.standard_normal(n), 4) + np.repeat(law.draw(g, n), 4) * t
    source = _table({"y": y, "t": t}, np.repeat(np.arange(n), 4))
    release = pm.regress(
        source, "y ~ t", effect="per_person", epsilon=epsilon, noise=SimulatedNoise(g)
    )
    return [item for item, row in zip(_rows(release, [0.0, law.mean]), release.rows(), strict=False)
            if row.term != "Intercept"]  # fmt: skip


def _line(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    """One regression for all, the law's values as regressor of a true line."""
    x = law.draw(g, n)
    source = _table({"x": x, "y": x + g.standard_normal(n)}, np.arange(n))
    release = pm.regress(source, "y ~ x", epsilon=epsilon, noise=SimulatedNoise(g))
    return _rows(release, [0.0, 1.0])


def _curved(law: Law, g: np.random.Generator, n: int, epsilon: float) -> Rows:
    """One line for all through a logarithm or a square: of exp(z/2), whatever the law, with errors
    of the law about its mean; the truth is the line of least squares of everybody."""
    s = 0.5
    m1, m2, m3 = (math.exp(k * k * s * s / 2) for k in (1, 2, 3))
    slope = (m3 - m1 * m2) / (m2 - m1**2)
    x = g.lognormal(0, s, n)
    source = _table({"x": x, "y": x * x + law.draw(g, n) - law.mean}, np.arange(n))
    release = pm.regress(source, "y ~ x", epsilon=epsilon, noise=SimulatedNoise(g))
    return _rows(release, [m2 - slope * m1, slope])


QUESTIONS: dict[str, Callable[[Law, np.random.Generator, int, float], Rows]] = {
    "mean": _mean, "mean over records": _records, "variance": _variance,
    "compare, private arms": _compare, "compare, public arms": _public_arms,
    "means by group": _groups, "contrast of groups": _contrast, "curve": _curve,
    "own lines": _own, "one line": _line, "one line through a square": _curved,
}  # fmt: skip


@dataclass
class Tally:
    """Rows, those that say "ok", and those of them that hold the truth."""

    rows: int = 0
    fine: int = 0
    held: int = 0
    words: dict[str, int] = field(default_factory=dict)

    def add(self, found: Rows) -> None:
        for status, lower, upper, truth in found:
            self.rows += 1
            self.fine += status == "ok"
            self.held += status == "ok" and lower <= truth <= upper
            self.words[status] = self.words.get(status, 0) + 1

    def plus(self, other: Tally) -> Tally:
        return Tally(self.rows + other.rows, self.fine + other.fine, self.held + other.held)

    def __str__(self) -> str:
        held = f"{self.held / self.fine:.2f}" if self.fine else "-"
        return f"{self.fine / max(self.rows, 1):.2f} / {held}"


def measured(question: str, law: str, n: int, epsilon: float, runs: int) -> Tally:
    found = Tally()
    for run in range(runs):
        g = np.random.default_rng([run, n, int(10 * epsilon)])
        try:
            found.add(QUESTIONS[question](LAWS[law], g, n, epsilon))
        except InfeasibleError:  # refused before anything is spent
            found.add([("refused", math.nan, math.nan, 0.0)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--questions", nargs="*", default=list(QUESTIONS), choices=list(QUESTIONS))
    parser.add_argument("--laws", nargs="*", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    said = parser.parse_args()
    rows: list[list[object]] = []
    low: list[list[object]] = []
    for question in said.questions:
        for law in said.laws:
            of = [Tally() for _ in EPSILONS]
            for n in PERSONS:
                for i, epsilon in enumerate(EPSILONS):
                    cell = measured(question, law, n, epsilon, said.runs)
                    of[i] = of[i].plus(cell)
                    if cell.fine > RARE * cell.rows and cell.held < LEAST * cell.fine:
                        low.append([question, law, n, epsilon, str(cell)])
            rows.append([question, law, *map(str, of)])
            if said.print:
                print(*rows[-1], f"{time.process_time():.0f} s", sep=" | ", flush=True)
    words = (
        f'Part of the rows that say "ok" / part of these whose 95 % interval holds the truth; '
        f"{said.runs} releases each of {', '.join(map(str, PERSONS))} persons, pure epsilon. A few "
        "persons far out whom a count at that budget cannot tell from noise (1 % are 5 to 100 "
        "here) leave no trace: intervals say how many may go unseen."
    )
    head = ["question", "law", *(f"epsilon {e:g}" for e in EPSILONS)]
    worst = (
        f'Cells where more than {RARE:.0%} say "ok" and fewer than {LEAST:.0%} of these hold the '
        f"truth: {len(low)} of {len(rows) * len(PERSONS) * len(EPSILONS)}."
    )
    text = "\n\n".join([
        words, table(head, rows), worst,
        table(["question", "law", "persons", "epsilon", "ok / held"], low) if low else "",
    ])  # fmt: skip
    if said.print:
        print(text)
    else:
        publish("ok-stands", 'Where "ok" is said', text,
                command=f"python benchmarks/ok_stands.py --runs {said.runs}")  # fmt: skip


if __name__ == "__main__":
    main()
