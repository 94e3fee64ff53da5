"""Whether epsilon and the values go together: the test, and what it says in words.

Source: Cochran (1954) for the test. What choosing by it does to the radius is in
docs/proofs/local-scalar.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from privmean.array_types import Floats
from privmean.local.aggregators.level_weights import UNIFORM

ALARM = 0.05  # how often the test suspects levels that agree
MISSED = 0.1  # how often it misses a relation of the size that is named


@dataclass(frozen=True)
class Heterogeneity:
    """Cochran's test that all levels estimate the same value.

    degrees: of freedom, 0 if only one level reported. A small p_value means that epsilon and the
    value are related: then weights by epsilon estimate something else than the mean of the
    population. numbers: how many such tests were made; p_value is the least times that.
    """

    statistic: float
    degrees: int
    p_value: float
    numbers: int = 1

    @property
    def related(self) -> bool:
        return self.p_value < ALARM

    @property
    def reach(self) -> float:
        """What the test sees, in standard deviations of weighted minus unweighted estimate.

        A relation that moves the weighted estimate by so much is found with probability
        1 - MISSED at least; a smaller one may not be.
        """
        return _reach(self.degrees, ALARM / self.numbers) if self.degrees else 0.0


ALONE = Heterogeneity(0.0, 0, 1.0)  # nothing to compare


@lru_cache(maxsize=256)
def _reach(degrees: int, alarm: float) -> float:
    from scipy import special

    limit = special.chdtri(degrees, alarm)
    return float(np.sqrt(special.chndtrinc(limit, degrees, MISSED)))


def cochran(estimates: Floats, variances: Floats, *, each: bool = False) -> Heterogeneity:
    """The test. estimates and variances: shape (levels, width), NaN where a level is empty.

    The numbers of a level are tested together (they must be independent), or, with `each`, one by
    one, and then the least p-value counts as often as there are numbers (Bonferroni): for numbers
    whose errors are bounded one by one.
    """
    known = ~np.isnan(estimates)
    w = np.where(known, 1.0 / np.where(known, variances, 1.0), 0.0)
    theta = np.where(known, estimates, 0.0)
    degrees = np.maximum(known.sum(axis=0) - 1, 0)
    center = (w * theta).sum(axis=0) / np.maximum(w.sum(axis=0), np.finfo(float).tiny)
    statistics = (w * (theta - center) ** 2).sum(axis=0)
    if not each:
        degrees, statistics = degrees.sum(keepdims=True), statistics.sum(keepdims=True)
    degrees, statistics = degrees[degrees > 0], statistics[degrees > 0]
    if not len(degrees):
        return ALONE
    from scipy import special

    # of equal degrees the largest statistic has the least tail: there may be millions
    kinds = np.unique(degrees)
    largest = np.array([statistics[degrees == kind].max() for kind in kinds])
    tails = special.chdtrc(kinds, largest)
    least, number = int(tails.argmin()), len(degrees)
    return Heterogeneity(
        float(largest[least]),
        int(kinds[-1]),
        min(1.0, number * float(tails[least])),
        number,
    )


def worst(tests: list[Heterogeneity]) -> Heterogeneity:
    """Several such tests at once: the least p-value, as often as there are tests."""
    real = [test for test in tests if test.degrees]
    if not real:
        return ALONE
    least = min(real, key=lambda test: test.p_value)
    number = len(real)
    return Heterogeneity(
        least.statistic,
        least.degrees,
        min(1.0, number * least.p_value),
        number * least.numbers,
    )


def words(test: Heterogeneity, asked: str, used: str, unseen: float) -> str:
    """What was seen, what was done about it, and what it means. "" if one level alone reported."""
    if not test.degrees:
        return ""
    seen = (
        f"the levels of epsilon {'disagree' if test.related else 'agree'} (p = {test.p_value:.2g})"
    )
    if used == UNIFORM and asked == UNIFORM:
        return f"every report counts the same, as asked for; {seen}"
    if used == UNIFORM:
        return (
            f"{seen}: epsilon and the values seem related, so every report counts the same; "
            "weighted by epsilon the answer would be about other persons"
        )
    if test.related:
        return (
            f"{seen}: epsilon and the values seem related, and the answer, weighted by epsilon as "
            'asked for, may be off by far more than its radius; use weights "tested" or "uniform"'
        )
    return (
        f"{seen}: reports count by what their level tells. A relation of epsilon and the values "
        f"that moves the answer by {unseen:.2g} is found nine times in ten; a smaller one may stay "
        'unseen, and only weights "uniform" do not mind it'
    )


def to_dict(test: Heterogeneity, asked: str, used: str, unseen: float) -> dict[str, Any] | None:
    """Plain data, ready for JSON; None if one level alone reported."""
    if not test.degrees:
        return None
    return {
        "p_value": test.p_value,
        "alarm": ALARM,
        "found": test.related,
        "unseen": unseen if np.isfinite(unseen) else None,
        "words": words(test, asked, used, unseen),
    }
