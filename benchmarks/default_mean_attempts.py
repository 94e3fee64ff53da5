"""What was tried for the default mean and is not its default: errors, and the share of the sum.

Every way answers for the same fresh tables: the tuning columns at epsilon .5 and 1, hard laws at
n*epsilon of 300, 600, 1500 and 2800, two minorities at 5000. Geometric means of the error
over an oracle's (a failure counts as an answer 0); the cell that loses and the one that gains most
against the default; the median part of epsilon that the last stage gets.

    python benchmarks/default_mean_attempts.py [--runs 60]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np

from default_mean_ablation import HARD
from default_mean_laws import EPSILON, MORE, NINE, Law, best_of, columns_of
from plans import planned
from privmean.central import choose_bounds as selected_limits
from privmean.central import default_column
from privmean.central import find_region as locate
from privmean.central.bisect_region import RegionBisection
from privmean.central.bound_pairs import choice, is_tight, limits_of, scored
from privmean.central.default_mean import DefaultMean
from privmean.central.log_histogram import (
    ATOM_ONLY,
    BEYOND,
    FOUND,
    LAPLACE,
    NOTHING,
    all_around,
    cells_of,
    concentrated,
    lies_far,
)
from privmean.central.pure_budget import floor_epsilon
from privmean.data.array_table import ArrayPersonTable
from privmean.inference.missing_count import MissingCount
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import REPLACE_ONE, Budget
from report import publish, table
from study_laws import COLUMNS, DATA

SIZES = (300, 600, 1500, 2800)
MINORITIES, LATE = ("minority 5 % at 1000", "refunds of -5x, 3 %"), 5000
READ, LOCATE = locate.read_reach, locate.find_region


class _NothingSeen(Exception):
    def __init__(self, seen):
        self.seen = seen


def _chosen_where_nothing_is_seen(curator, column, schedule, safety, spender, relation):
    """The second look is a choice of both limits instead."""
    first = [True]

    def read(histogram, safety, *more):
        found = READ(histogram, safety, *more)
        if first and found.outcome in (ATOM_ONLY, NOTHING):
            raise _NothingSeen(histogram)
        first.clear()
        return found

    try:
        with mock.patch.object(locate, "read_reach", read):
            return LOCATE(curator, column, schedule, safety, spender, relation)
    except _NothingSeen as seen:
        price = spender.share(locate.AGAIN)
        people, mechanism = curator.people, choice("limits", spender.take(price), relation)
        cells = cells_of(people.log_counts(column, 0.0), people.missing(column))
        index = curator.ask(mechanism, scored(cells, price, schedule.n, 1.0))
        lower, upper = limits_of(index)
        inside = math.inf, math.inf
        nulls = ((seen.seen.missing, seen.seen.scale),)
        return locate.ClippingRegion(
            FOUND, 0.0, lower, upper, 0, 2, 0, 0.0, seen.seen.scale, inside, nulls
        )


LOOKED_FROM = 1100  # n*epsilon from which one look leads to a choice
LOOK, LOOK_PART = 80, 0.05  # n*epsilon of it, and part of epsilon
DEEPEST = RegionBisection(levels=8, shifts=4, narrow=2.0)


def _chosen_after_a_look(curator, column, schedule, safety, spender, relation):
    """One cheap histogram around 0 tells the size of values and who has none; then both limits are
    chosen, and parts of them where they are narrow or all values seem to lie far away."""
    persons, epsilon = schedule.n, spender.total
    if float(persons * epsilon) < LOOKED_FROM:
        return LOCATE(curator, column, schedule, safety, spender, relation)
    moved = 2 if relation == REPLACE_ONE else 1
    price = floor_epsilon(max(Fraction(LOOK) / persons, epsilon * Fraction(LOOK_PART)))
    seen = locate.histogram(
        curator, column, 0.0, spender.counts("origin", price, moved, spread=moved)
    )
    nulls = ((seen.missing, seen.scale),)
    missing = MissingCount.pooled(nulls)
    there = persons - missing.believed
    place = selected_limits._place
    if locate.is_nearly_empty(missing, persons, epsilon):
        return place(locate.NOBODY, 0.0, (0.0, 0.0), nulls)
    window = concentrated(seen, locate.FAR_WINDOW)
    everybody = all_around(
        seen, window, max(there, locate.CLEAR * seen.scale), relation == REPLACE_ONE
    )
    far = lies_far(seen, window, everybody, LAPLACE)
    reach = READ(seen, 1.0)
    near = max(abs(reach.lower), abs(reach.upper)) if reach.outcome == FOUND else 1.0
    prices = selected_limits.Prices(persons, epsilon, False)
    chosen = selected_limits._chosen
    index = chosen(
        curator, column, 0.0, prices.limits(spender.left, there), there, near, spender, "limits"
    )
    wide = limits = limits_of(index)
    origin, parts, again = 0.0, 0, 0
    narrow = is_tight(index) or (far and limits[0] * limits[1] > 0)
    while narrow and parts < selected_limits.CELLS and spender.left > 2 * prices.cell:
        parts += 1
        lower, upper, level = DEEPEST.choose(curator, column, limits, prices.cell, spender)
        if level < 2:
            break
        origin, half = (lower + upper) / 2, upper - lower
        limits = max(limits[0], origin - half), min(limits[1], origin + half)
        narrow = level >= selected_limits.FAR and selected_limits._wide_enough(limits)
    if limits != wide and spender.left > selected_limits.AGAIN_LEFT * prices.again:
        again = 1
        size = max((limits[1] - limits[0]) / selected_limits.MIDDLE, selected_limits.NOTHING)
        index = chosen(curator, column, origin, prices.again, there, size, spender, "limits again")
        limits = tuple(origin + edge for edge in limits_of(index))
    lower, upper = limits
    small = origin == 0 and max(-lower, upper) < selected_limits.NOTHING
    outcome = ATOM_ONLY if not lower < upper or small else FOUND
    if not -locate.LAST < lower < upper < locate.LAST:
        outcome = BEYOND if outcome == FOUND else outcome
    return place(outcome, origin, limits, nulls, (parts, 1 + again), wide)


WAYS = {
    "the default": (DefaultMean(), ()),
    "a first look for .6 of its price": (DefaultMean(), "look"),
    "one for .24 (4000/N)^.4 from N = 1500": (DefaultMean(), "falling"),
    "a count for half its price": (DefaultMean(), ((default_column, "CHECK", 0.1),)),
    "a count for half as much more": (DefaultMean(), ((default_column, "CHECK", 0.3),)),
    "chosen where nothing is seen": (
        DefaultMean(), ((default_column, "find_region", _chosen_where_nothing_is_seen),),
    ),
    "one look, then chosen, from N = 1100": (
        DefaultMean(), ((default_column, "find_region", _chosen_after_a_look),),
    ),
    "chosen first": (DefaultMean(limits="selection"), ()),
    "chosen first, all have a value": (DefaultMean(limits="selection", complete=True), ()),
}  # fmt: skip


@contextmanager
def changed(changes) -> Iterator[None]:
    with ExitStack() as stack:
        if isinstance(changes, str):
            own = locate.RoundSchedule.of.__func__

            def cheaper(cls, persons, epsilon, doubt=0.0, **words):
                made = own(cls, persons, epsilon, doubt, **words)
                size = float(persons * epsilon)
                share = 0.6 * made.share
                if changes == "falling":
                    share = 0.4 if size < 1500 else max(0.1, min(0.4, 0.24 * (4000 / size) ** 0.4))
                return replace(made, share=share)

            stack.enter_context(mock.patch.object(locate.RoundSchedule, "of", classmethod(cheaper)))
        else:
            for where, name, value in changes:
                stack.enter_context(mock.patch.object(where, name, value))
        yield


def cell(method, law: Law, n: int, epsilon: float, best: float, runs: int) -> tuple[float, float]:
    """Error over the oracle's, and the median share of the last stage."""
    plan, errors, shares = planned(method, Budget(epsilon=epsilon), persons=n), [], []
    se = law.sd / math.sqrt(n * law.share)
    for run in range(runs):
        g = np.random.default_rng([6, n, run])
        x = law.draw(g, n)
        release = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g))
        value = release.estimate[0]
        errors.append(((0.0 if math.isnan(value) else value) - np.nanmean(x)) / se)
        shares.append(release.shares.get("mean and square", 0.0))
    error = math.sqrt(1 + float(np.mean(np.square(errors)))) / math.sqrt(1 + best**2)
    return error, float(np.median(shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=60, help="releases a cell")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--publish", action="store_true")
    a = parser.parse_args()
    cells = []
    for name in HARD:
        law = Law.of(*{**NINE, **MORE}[name])
        cells += [(f"{name}, N = {s}", law, round(s / EPSILON), EPSILON, "hard") for s in SIZES]
    for name in MINORITIES:
        law = Law.of(*MORE[name])
        cells.append((f"{name}, N = {LATE}", law, round(LATE / EPSILON), EPSILON, "late"))
    for name, x in columns_of(a.data, tuple(COLUMNS)).items():
        law = Law.among(x)
        cells += [(f"{name}, epsilon {e}", law, len(x), e, f"at {e}") for e in (0.5, 1.0)]
    best = [best_of(law, n, epsilon) for _, law, n, epsilon, _ in cells]
    kinds = ("at 0.5", "at 1.0", "hard", "late")
    rows, full = [], None
    for name, (method, changes) in WAYS.items():
        with changed(changes):
            found = np.array([
                cell(method, law, n, epsilon, b, a.runs)
                for (_, law, n, epsilon, _), b in zip(cells, best, strict=True)
            ])  # fmt: skip
        error, share = found.T
        full = error if full is None else full
        of = {kind: np.array([c[4] == kind for c in cells]) for kind in kinds}
        means = [f"{np.exp(np.log(error[of[kind]]).mean()):.3f}" for kind in kinds]
        worst, gains = int(np.argmax(error / full)), int(np.argmin(error / full))
        rows.append([name, *means, *(f"{np.median(share[of[k]]):.2f}" for k in kinds),
                     f"{cells[worst][0]}: {full[worst]:.2f} -> {error[worst]:.2f}",
                     f"{cells[gains][0]}: {full[gains]:.2f} -> {error[gains]:.2f}",
                     int((error > 1.1 * full).sum()), int((error < full / 1.1).sum())])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    if a.publish:
        head = ["way", "columns, epsilon .5", "epsilon 1", "hard laws", "minorities",
                "share, .5", "share, 1",
                "share, hard", "share, minorities", "loses most", "gains most", "worse by a tenth",
                "better by a tenth"]  # fmt: skip
        words = (
            f"Error over an oracle's, geometric means; {a.runs} releases a cell; "
            f"{len(cells)} cells; share: part of epsilon that reaches the sum (median)."
        )
        publish(
            "default-mean-attempts", "Default mean: what was tried", f"{words}\n\n"
            f"{table(head, rows)}",
            command=f"python benchmarks/default_mean_attempts.py --runs {a.runs} --publish",
        )  # fmt: skip


if __name__ == "__main__":
    main()
