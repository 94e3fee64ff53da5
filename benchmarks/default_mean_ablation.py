"""The default mean with each of its rules taken out: what every rule earns.

Ratio of the error to an oracle's (`default_mean_laws.py`): the geometric means over the tuning
columns and over laws that are hard, and the law that suffers most from losing the rule.

    python benchmarks/default_mean_ablation.py [--runs 100]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from default_mean_laws import EPSILON, MORE, NINE, Law, best_of, columns_of
from plans import planned
from privmean.central import default_bounds as default_limits
from privmean.central import find_region as locate
from privmean.central import log_histogram as log_segments
from privmean.central import overlooked_group as left_behind
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.inference import missing_count as missing
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table
from study_laws import COLUMNS, DATA, OTHER_COLUMNS

HARD = (
    "N(0, 1)", "lognormal 1", "N(1990, 10)", "stars 80/12/4/2/2", "two groups 1e6 apart",
    "2 % of lognormal missing", "93 % ones", "1 and 2, 75/25", "minority 5 % at 1000", "ones 10 %",
    "counts, 90 % zeros", "offset 1e6", "two-sided skew", "100 - 20 Gamma(.5)",
    "half of N(50, 5) missing", "80 % at 40 hours", "year, 3 % coded 9999",
    "1990 and 2010, 70/30",
)  # fmt: skip
SIZES, FEW = (300, 1500, 5000), (300, 590, 1000)


def _no_inner(histogram, safety, evidence=log_segments.LAPLACE):
    found = READ(histogram, safety, evidence)
    if found.lower > 0:
        return replace(found, lower=0.0)
    return replace(found, upper=0.0) if found.upper < 0 else found


READ, LIMITS, MOVED = log_segments.read_reach, default_limits.first_step, default_limits.moved


def _not_hidden(place, persons, left):
    return LIMITS(replace(place, hidden=0.0), persons, left)


def _farther_only(origin, limits, factor):
    lower, upper = limits
    moved = MOVED(origin, limits, factor)
    if not lower <= origin <= upper:  # an inner limit goes back all the same
        return moved
    return (lower, moved[1]) if upper - origin >= origin - lower else (moved[0], upper)


RULES = {
    "nothing (all rules)": (),
    "rounds (choices instead)": ((locate, "PARTS_TO", 10**12),),
    "second look": ((locate, "AGAIN", 2.0**-30),),
    "new start": ((locate, "lies_far", lambda *_: False),),
    "choices below N = 1100": ((locate, "FEWEST_LEFT", 10**9),),
    "choices, not rounds, from N = 600": (
        (locate, "PARTS_TO", 600), (locate, "AT_ONCE_TO", 0),
    ),
    "new start: at most 6 scales beside": ((log_segments, "SPARED", 10**9),),
    "choices at once from N = 1100 to 1600": ((locate, "AT_ONCE_TO", 0),),
    "back from these choices": (
        (default_limits, "THICK", 2.0), (default_limits, "AT_ONCE", (2.0, 3.0)),
    ),
    "inner limit": ((locate, "read_reach", _no_inner), (default_limits, "read_reach", _no_inner)),
    "gap of .35 (1 instead)": ((log_segments.LAPLACE, "gap", 1.0),),
    "hidden side opened": ((default_limits, "first_step", _not_hidden),),
    "nearer limit moves too": ((default_limits, "moved", _farther_only),),
    "second count": ((default_limits, "falls_slowly", lambda *_: False),),
    "what rounds leave behind": ((left_behind, "find_overlooked", lambda *_: None),),
    "step back": ((default_limits, "LEFT_BEHIND", 10.0),),
    "widening": ((default_limits, "WIDEN", 0.0),),
    "trust 2 scales below N = 1500 (1)": ((default_limits, "LEAN_TRUST", 1.0),),
    "firm belief in nulls (a step)": ((missing.MissingCount, "believed", property(
        lambda self: self.number if self.number > missing.FIRM * self.scale else 0.0
    )),),
}  # fmt: skip


OF_FEW = (
    "nothing (all rules)", "new start", "choices below N = 1100",
    "choices, not rounds, from N = 600", "new start: at most 6 scales beside",
    "back from these choices",
    "trust 2 scales below N = 1500 (1)", "nearer limit moves too",
)  # fmt: skip


@contextmanager
def without(changes) -> Iterator[None]:
    """The estimator with these names replaced."""
    patches = []
    for where, name, value in changes:
        if isinstance(where, log_segments.DetectionRule):  # a frozen value
            made = replace(where, **{name: value})
            patches.append(mock.patch.object(log_segments.read_reach, "__defaults__", (made,)))
        else:
            patches.append(mock.patch.object(where, name, value))
    for item in patches:
        item.start()
    try:
        yield
    finally:
        for item in patches:
            item.stop()


def ratio(law: Law, n: int, epsilon: float, best: float, runs: int) -> float:
    """Root mean square error over the oracle's; a failure counts as an answer 0."""
    plan, errors = planned(DefaultMean(), Budget(epsilon=epsilon), persons=n), []
    se = law.sd / np.sqrt(n * law.share)
    for run in range(runs):
        g = np.random.default_rng([5, n, run])
        x = law.draw(g, n)
        value = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g)).estimate[0]
        errors.append(((0.0 if np.isnan(value) else value) - np.nanmean(x)) / se)
    return float(np.sqrt(1 + np.mean(np.square(errors))) / np.sqrt(1 + best**2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="releases a cell")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--few", action="store_true", help="rules of few persons")
    a = parser.parse_args()
    cells = []
    for name in HARD:
        law = Law.of(*{**NINE, **MORE}[name])
        sizes = FEW if a.few else SIZES
        cells += [(f"{name}, N = {s}", law, round(s / EPSILON), EPSILON, "hard") for s in sizes]
    if a.data.exists():
        for name, x in columns_of(a.data, (*COLUMNS, *OTHER_COLUMNS)).items():
            kind = "tuning" if name in COLUMNS else "other"
            law = Law.among(x)
            if a.few:
                cells += [(f"{name}, N = {s}", law, 2 * s, EPSILON, kind) for s in FEW]
            else:
                cells += [(f"{name}, epsilon {e}", law, len(x), e, kind) for e in (0.5, 1.0)]
    best = [best_of(law, n, epsilon) for _, law, n, epsilon, _ in cells]
    rows, full = [], None
    chosen = {k: v for k, v in RULES.items() if not a.few or k in OF_FEW}
    for rule, changes in chosen.items():
        with without(changes):
            found = np.array([
                ratio(law, n, epsilon, b, a.runs)
                for (_, law, n, epsilon, _), b in zip(cells, best, strict=True)
            ])  # fmt: skip
        full = found if full is None else full
        means = [
            float(np.exp(np.log(found[[c[4] == kind for c in cells]]).mean()))
            for kind in ("tuning", "other", "hard")
        ]
        worst, gains = int(np.argmax(found / full)), int(np.argmin(found / full))
        rows.append([rule, *(f"{m:.3f}" for m in means),
                     f"{cells[worst][0]}: {full[worst]:.2f} -> {found[worst]:.2f}",
                     f"{cells[gains][0]}: {full[gains]:.2f} -> {found[gains]:.2f}"])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    head = ["without", "tuning columns", "other columns", "hard laws", "loses most", "gains most"]
    text = "Geometric means of the error over an oracle's, real answers; columns at epsilon .5 and "
    text += f"1, laws at N = 300, 1500, 5000; {a.runs} releases a cell; a failure counts as 0.\n\n"
    name, title = "default-mean-ablation", "Default mean: what each rule earns"
    command = f"python benchmarks/default_mean_ablation.py --runs {a.runs}"
    if a.few:
        name, title, command = f"{name}-few", f"{title} with few persons", f"{command} --few"
        text = f"As above, columns and laws at N = 300, 590 and 1000; {a.runs} releases a cell.\n\n"
    publish(name, title, text + table(head, rows), command=command)


if __name__ == "__main__":
    main()
