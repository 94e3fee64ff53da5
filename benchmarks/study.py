"""A study of eight questions on nlswork beside eight calls that split the budget by hand.

PYTHONPATH=src python benchmarks/study.py nlswork.parquet
"""

from __future__ import annotations

import math
import sys

import privmean as pm
import report
from privmean.study.allocation import noise_of

EPSILON, DELTA, PERSONS = 2.0, 1e-6, 4711
YEARS = list(range(1968, 1990, 3))


def questions() -> dict[str, object]:
    """Eight questions of a page about wages."""
    return {
        "wage": pm.Mean("ln_wage"),
        "hours": pm.Mean("hours"),
        "age": pm.Mean("age"),
        "tenure": pm.Mean("tenure"),
        "wage by year": pm.Curve("ln_wage", "year", bins=YEARS, assume=(0, 5)),
        "hours by year": pm.Curve("hours", "year", bins=YEARS, assume=(0, 100)),
        "returns": pm.Regression("ln_wage ~ ttl_exp + tenure"),
        "median wage": pm.Quantile("ln_wage", bounds=(0, 6)),
    }


def main() -> None:
    table = pm.Table(sys.argv[1], person="person_id")
    study = pm.Study(table, epsilon=EPSILON, delta=DELTA)
    for name, question in questions().items():
        study.add(name, question)
    plan = study.plan(PERSONS)
    found = study.release()
    rows, ratios = [], []
    for item, part in zip(plan.items, plan.parts, strict=True):
        alone = pm.plan(item.question, persons=PERSONS, epsilon=EPSILON / 8, delta=DELTA / 8)
        ratio = noise_of(part.plan, 1.0) / noise_of(alone, 1.0)
        ratios.append(ratio)
        first = found[item.name].rows()[0]
        noise = float(found[item.name].noise_sd[0])
        total = first.std_error
        sampling = math.sqrt(max(total**2 - noise**2, 0.0)) if math.isfinite(total) else math.nan
        rows.append(
            [item.name, part.budget.describe(), f"{ratio:.2f}", f"{first.estimate:.4g}",
             f"{noise:.3g}", f"{sampling:.3g}", first.status]
        )  # fmt: skip
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    head = ["question", "its part", "noise over a call alone", "first estimate", "noise sd",
            "sampling sd (noisy)", "status"]  # fmt: skip
    text = report.table(head, rows)
    text += (
        f"\n\nComposition: {plan.allotment.way}, free parts {plan.allotment.factor:.3g} times what "
        f"adding up allows. Noise over eight calls at ({EPSILON / 8:g}, {DELTA / 8:g}), planned, "
        f"geometric mean: {mean:.3f}; largest {max(ratios):.2f}. Locations are found by each "
        "question for itself, and a default mean is one line of its whole part: sharing a column's "
        "location, and fixed prices for its stages, are not done."
    )
    title = "A study of eight questions beside eight calls"
    report.publish("study", title, text, command="python benchmarks/study.py nlswork.parquet")


if __name__ == "__main__":
    main()
