"""Two studies of eight questions on nlswork beside eight calls that split the budget by hand.

What is compared is the noise of real answers: both ways are run again and again on the same table,
and the deviations of the answers from those without any noise are set side by side.

PYTHONPATH=src python benchmarks/study.py nlswork.parquet --runs 40
"""

from __future__ import annotations

import argparse
import math
from itertools import pairwise

import numpy as np
import polars as pl

import privmean as pm
import report
from privmean.noise.noise_source import SimulatedNoise

EPSILON, DELTA, PERSONS = 2.0, 1e-6, 4711
YEARS = list(range(1968, 1990, 3))


def questions(limits: bool) -> dict[str, object]:
    """Eight questions of a page about wages; limits: with public limits where one may know them."""
    wage = {"assume": (0, 5)} if limits else {}
    hours = {"assume": (0, 100)} if limits else {}
    quantile = {"bounds": (0, 6)} if limits else {}
    return {
        "wage": pm.Mean("ln_wage"),
        "hours": pm.Mean("hours"),
        "age": pm.Mean("age"),
        "tenure": pm.Mean("tenure"),
        "wage by year": pm.Curve("ln_wage", "year", bins=YEARS, **wage),
        "hours by year": pm.Curve("hours", "year", bins=YEARS, **hours),
        "returns": pm.Regression("ln_wage ~ ttl_exp + tenure"),
        "median wage": pm.Quantile("ln_wage", **quantile),
    }


def exact(path: str) -> dict[str, np.ndarray]:
    """The answers without noise, computed here from the records, and their standard errors."""
    table = pl.read_parquet(path)
    found = {}

    def told(name: str, values: np.ndarray, errors: np.ndarray) -> None:
        found[name] = np.array([values, errors])

    def means(column: str, rows: pl.DataFrame) -> np.ndarray:
        kept = rows.filter(pl.col(column).is_not_null())
        return kept.group_by("person_id").agg(pl.col(column).mean())[column].to_numpy()

    for name, column in (("wage", "ln_wage"), ("hours", "hours"), ("age", "age"),
                         ("tenure", "tenure")):  # fmt: skip
        x = means(column, table)
        told(name, np.array([x.mean()]), np.array([x.std(ddof=1) / math.sqrt(len(x))]))
        if name == "wage":
            density = 1 / (2 * np.diff(np.quantile(x, [0.45, 0.55]))[0] / 0.2)
            error = 0.5 / (2 * density * math.sqrt(len(x)))
            told("median wage", np.array([np.median(x)]), np.array([error]))
    for name, column in (("wage by year", "ln_wage"), ("hours by year", "hours")):
        bins = [
            means(column, table.filter(pl.col("year").is_between(a, b, closed="left")))
            for a, b in pairwise(YEARS)
        ]
        told(name, np.array([x.mean() for x in bins]),
             np.array([x.std(ddof=1) / math.sqrt(len(x)) for x in bins]))  # fmt: skip
    told("returns", *pooled(table))
    return found


def pooled(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """One regression, each person one vote, and its standard errors by person."""
    kept = table.select("person_id", "ln_wage", "ttl_exp", "tenure").drop_nulls()
    _, person = np.unique(kept["person_id"].to_numpy(), return_inverse=True)
    weight = 1 / np.bincount(person)[person]
    x = np.column_stack([np.ones(len(kept)), kept["ttl_exp"], kept["tenure"]])
    y = kept["ln_wage"].to_numpy()
    inverse = np.linalg.inv((x * weight[:, None]).T @ x)
    found = inverse @ ((x * weight[:, None]).T @ y)
    scores = x * (weight * (y - x @ found))[:, None]
    by_person = np.zeros((person.max() + 1, 3))
    np.add.at(by_person, person, scores)
    return found, np.sqrt(np.diag(inverse @ (by_person.T @ by_person) @ inverse))


def off(answers: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Root mean square distance of noisy answers from the exact one, a number a row; answers that
    were not given are left out."""
    return np.sqrt(np.nanmean((np.array(answers) - truth) ** 2, axis=0))


def compared(path: str, limits: bool, runs: int) -> tuple[str, float, float]:
    """The table of one study, the geometric mean of its ratios and the largest."""
    table, truth = pm.Table(path, person="person_id"), exact(path)
    asked = questions(limits)
    study = pm.Study(table, epsilon=EPSILON, delta=DELTA)
    for name, question in asked.items():
        study.add(name, question)
    plan = study.plan(PERSONS)
    together: dict[str, list[np.ndarray]] = {name: [] for name in asked}
    alone: dict[str, list[np.ndarray]] = {name: [] for name in asked}
    for run in range(runs):
        found = study.release(noise=SimulatedNoise(1000 + run))
        for number, (name, question) in enumerate(asked.items()):
            rows = truth[name].shape[1]
            told = next(item for item in found.answers if item.item.name == name).release
            together[name].append(np.full(rows, np.nan) if told is None else told.estimate)
            one = pm.ask(
                table, question, epsilon=EPSILON / 8, delta=DELTA / 8,
                noise=SimulatedNoise(5000 + 100 * run + number),
            )  # fmt: skip
            alone[name].append(one.estimate)
    rows, ratios = [], []
    for part, name in zip(plan.parts, asked, strict=True):
        one, two = off(together[name], truth[name][0]), off(alone[name], truth[name][0])
        ratio = float(np.exp(np.mean(np.log(one / two))))
        ratios.append(ratio)
        lost = sum(bool(np.isnan(x).any()) for x in together[name])
        lost_alone = sum(bool(np.isnan(x).any()) for x in alone[name])
        rows.append(
            [name, part.own.describe(), f"{ratio:.2f}", f"{one[0]:.3g}", f"{two[0]:.3g}",
             f"{truth[name][1][0]:.3g}", f"{lost} / {lost_alone}"]
        )  # fmt: skip
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    head = ["question", "its own part", "noise over a call alone", "noise, first row",
            "alone", "standard error without privacy", "runs with a gap, alone"]  # fmt: skip
    looks = "; ".join(
        f"{look.column} ({share:.1%} of the cost) for {', '.join(serves)}"
        for look, share, serves in plan.looked()
    )
    text = report.table(head, rows)
    text += (
        f"\n\nComposition: {plan.allotment.way}. Shared location queries: {looks}. Geometric mean "
        f"of the eight ratios: {mean:.3f}; "
        f"largest {max(ratios):.2f}."
    )
    return text, mean, max(ratios)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    texts = []
    for limits, words in ((True, "Limits of curves and the median are public:"),
                          (False, "No limits are given:")):  # fmt: skip
        text, _, _ = compared(given.path, limits, given.runs)
        texts.append(f"{words}\n\n{text}")
    said = (
        f"Noise: root mean square distance of {given.runs} answers from the one without noise "
        "(ratios: geometric mean over the rows of a question); eight calls are each at "
        f"({EPSILON / 8:g}, {DELTA / 8:g}).\n\n"
    )
    title = "A study of eight questions beside eight calls"
    command = f"python benchmarks/study.py nlswork.parquet --runs {given.runs}"
    report.publish("study", title, said + "\n\n".join(texts), command=command)


if __name__ == "__main__":
    main()
