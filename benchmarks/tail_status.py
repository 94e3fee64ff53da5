"""From how many noise scales on a release of the default mean says what its counts show.

    python benchmarks/tail_status.py [--runs 40]

Two rules read the same releases. Earlier: people beyond the limits are named from five noise
scales on, or where the counts before the limit fall off slowly; people far beyond never by
themselves. Now: from three noise scales on, for both counts. Ok: the part of the shown releases
that say "ok". Silent: the release says "ok", and its 95 % interval misses the mean of the very
table. False alarm: the release does not say "ok", though fewer people than one noise scale lie
beyond the limits. True alarm: it does not say "ok", and more people lie there. The second table
counts each status among the releases without people beyond the limits, and with them.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from unittest import mock

import numpy as np

from privmean.central import default_column
from privmean.central.default_bounds import WidenedBounds, indices
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.data.public_shape import PublicShape
from privmean.errors import InfeasibleError
from privmean.inference.outlier_check import OutlierCheck
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table
from study_laws import COLUMNS, DATA, OTHER_COLUMNS, person_means

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
LATE, THINNEST, EXCESS = 5.0, 0.8, 1.0  # of the earlier rule
Draw = Callable[[np.random.Generator], np.ndarray]


def classes(g: np.random.Generator) -> np.ndarray:
    """Income classes 1 to 15 of 9,626 people, 3.7 % of whom have a code, 77 or 99."""
    part = np.array([2.5, 4, 6.5, 6.5, 7.5, 11, 8.5, 7, 6, 5, 0, 0, 0, 9, 16.0])
    x = g.choice(np.arange(1.0, 16.0), 9626, p=part / part.sum())
    x[g.permutation(9626)[:356]] = np.repeat([77.0, 99.0], [228, 128])
    return x


def body_mass(g: np.random.Generator) -> np.ndarray:
    """Body mass index of 9,626 people, coded 999 for 2 % of them."""
    return np.where(g.random(9626) < 0.02, 999.0, g.gamma(14.0, 2.0, 9626))


HELD_OUT = {
    "cells": (
        "angle_ch_1", "area_ch_1", "avg_inten_ch_1", "avg_inten_ch_3",
        "convex_hull_area_ratio_ch_1",
        "entropy_inten_ch_1", "eq_circ_diam_ch_1", "eq_sphere_vol_ch_1", "fiber_length_ch_1",
        "kurt_inten_ch_4", "length_ch_1", "neighbor_avg_dist_ch_1", "shape_lwr_ch_1",
        "skew_inten_ch_3", "spot_fiber_count_ch_4", "total_inten_ch_2", "var_inten_ch_1",
        "width_ch_1",
    ),
    "randhie": (
        "coins", "income", "xage", "educdec", "drugdol", "meddol", "mdvis", "disea", "ghindx",
        "mhi", "physlm", "lpi", "linc", "num", "outpdol",
    ),
    "cdnow": ("quantity", "amount"),
}  # fmt: skip
LAWS: dict[str, Draw] = {
    "normal": lambda g: g.normal(50, 10, 5000),
    "uniform": lambda g: g.random(5000),
    "exponential": lambda g: g.exponential(1.0, 5000),
}
CODED: dict[str, Draw] = {
    "income classes, 3.7 % coded": classes,
    "body mass, 2 % coded": body_mass,
}


def is_slow(wide: WidenedBounds) -> bool:
    """Whether the counts before the limit fall off too slowly for the tail assumption."""
    if not wide.counts or wide.counts[0].beyond <= wide.counts[0].scale:
        return False
    return indices(wide.place, wide.counts[0])[0] <= THINNEST * (1 + 1 / EXCESS)


def earlier(check: OutlierCheck | None, slow: bool) -> bool:
    """Whether the earlier rule says "ok"."""
    if check is None:
        return True
    certain = check.outside > LATE * check.beyond_scale
    return not (check.doubted or check.seen or slow or certain)


@dataclass
class Tally:
    """Shown releases, and of these by rule: "ok", and "ok" with a miss; other statuses of the rule
    now, without and with people beyond the limits."""

    shown: int = 0
    ok_before: int = 0
    ok_now: int = 0
    silent_before: int = 0
    silent_now: int = 0
    false_alarms: int = 0
    true_alarms: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def measured(
    draw: Draw, epsilon: float, runs: int, seed: int, statuses: Counter[tuple[bool, str]]
) -> Tally:
    """What both rules say of the same releases; `statuses` counts those of the rule now, by whether
    people lie beyond the limits."""
    found, tally = default_column._found, Tally()
    seen: list[WidenedBounds] = []

    def kept(course, wide, *rest):  # type: ignore[no-untyped-def]
        seen[:] = [wide]
        return found(course, wide, *rest)

    with mock.patch.object(default_column, "_found", kept):
        for run in range(runs):
            g = np.random.default_rng([seed, run, int(100 * epsilon)])
            x = draw(g)
            try:
                plan = DefaultMean().plan(Budget(epsilon=epsilon), PublicShape(("v",), len(x)))
            except InfeasibleError:
                return tally
            seen.clear()
            release = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g))
            if not math.isfinite(release.estimate[0]) or not seen:
                continue
            ends = release.interval()
            miss = not ends.lower[0] <= x.mean() <= ends.upper[0]
            now, last = release.status == "ok", seen[0].last
            ok = earlier(release.intervals.check, is_slow(seen[0])), now
            beyond = int(((x < last.limits[0]) | (x > last.limits[1])).sum())
            statuses[beyond >= last.scale, release.status] += 1
            alarms = (not now and beyond < last.scale, not now and beyond >= last.scale)
            tally = tally.plus(Tally(1, *ok, *(item and miss for item in ok), *alarms))
    return tally


def columns_of(data: Path, wanted: dict[str, tuple[str, str]]) -> dict[str, Draw]:
    """The person means of columns; none where the tables are not there."""
    if not data.exists():
        return {}
    return {name: lambda g, x=x: x for name, x in person_means(data, wanted).items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="releases a cell")
    parser.add_argument("--data", type=Path, default=DATA)
    said = parser.parse_args()
    other = {f"{t} {c}": (t, c) for t, columns in HELD_OUT.items() for c in columns}
    kinds = {
        "columns the rules were tuned on": columns_of(said.data, {**COLUMNS, **OTHER_COLUMNS}),
        "other columns": columns_of(said.data, other),
        "laws without a long tail": LAWS,
        "coded columns": CODED,
    }
    rows, stored = [], []
    by_status: list[list[object]] = []
    for kind, draws in kinds.items():
        for epsilon in EPSILONS:
            whole, statuses = Tally(), Counter[tuple[bool, str]]()
            for place, (name, draw) in enumerate(draws.items()):
                cell = measured(draw, epsilon, said.runs, place, statuses)
                whole = whole.plus(cell)
                stored.append({"kind": kind, "column": name, "epsilon": epsilon, **asdict(cell)})
            n = max(whole.shown, 1)
            rows.append([
                kind, epsilon, whole.shown,
                *(f"{x / n:.1%}" for x in (whole.ok_before, whole.ok_now)),
                *(f"{x / n:.2%}" for x in (whole.silent_before, whole.silent_now)),
                *(f"{x / n:.1%}" for x in (whole.false_alarms, whole.true_alarms)),
            ])  # fmt: skip
            for seen in (False, True):
                shares = {name: x for (there, name), x in statuses.items() if there == seen}
                total = sum(shares.values())
                words = [f"{name} {x / total:.1%}" for name, x in sorted(shares.items())]
                by_status.append([kind, epsilon, "yes" if seen else "no", total, ", ".join(words)])
    head = ["columns", "epsilon", "shown", "ok, earlier", "ok, now", "silent, earlier",
            "silent, now", "false alarms", "true alarms"]  # fmt: skip
    publish(
        "tail-status",
        f"Statuses of the default mean, {said.runs} releases per cell",
        table(head, rows)
        + "\n\n"
        + table(["columns", "epsilon", "people beyond the limits", "shown", "statuses"], by_status),
        command=f"python benchmarks/tail_status.py --runs {said.runs}",
        data={"runs": said.runs, "cells": stored},
    )


if __name__ == "__main__":
    main()
