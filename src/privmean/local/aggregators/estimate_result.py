"""The result of a round: numbers with radii, and whether epsilon and the values go together.

Source: Cochran (1954) for the test. What choosing by it does to the radius is in
docs/proofs/local-scalar.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.inference.interval import UNSAFE, Interval
from privmean.local.aggregators.round_law import UNIFORM
from privmean.output import HasOutput, Output, TableRow, decimals, number, percent
from privmean.plain_data import plain_tree

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


SHOWN = 10  # numbers that a print lists
LISTED = (  # fields that stand in the plain data as they are
    "value", "radius", "norm", "target", "beta", "mechanism", "raw", "raw_radius", "radii",
    "spread", "noise", "effective", "reports", "largest_influence", "weights", "trivial", "secure",
)  # fmt: skip


@dataclass(frozen=True)
class Level:
    """One level of the menu: its reports, the weight of each, and what they say alone."""

    epsilon: float
    reports: int
    weight: float
    estimate: Floats


@dataclass(frozen=True)
class Estimate(HasOutput):
    """An estimate from private reports, with a radius that holds at every epsilon.

    Attributes
    ----------
    value : array
        Shape (coordinates,), (dimension,) or (coordinates, items).
    radius : float
        With probability at least 1 - beta the error is at most this, in `norm`.
    norm : {"absolute", "l2", "sup"}
        Each coordinate at once, L2, or all items at once.
    beta : float
        Failure probability of the radius.
    mechanism, target : str
        The mechanism, and what the radius is about.
    raw, raw_radius : array, float
        Unbiased estimate before clipping and projection, and its radius.
    radii : array
        Radii per coordinate or item, if they differ.
    spread : array
        Approximate standard error, shaped like `raw`.
    noise : array
        Standard error about the mean of the people who reported.
    effective : float
        Effective number of reports: sum of tanh^2(epsilon/2), or 1/(sum w^2 v).
    reports : int
        Number of reports.
    rejected : dict
        Refused reports by reason.
    levels : tuple of Level
        The epsilon levels with their weights.
    largest_influence : float
        How far one report can move the estimate, in `norm`.
    heterogeneity : Heterogeneity
        Test that all levels agree, and `relation` in words.
    weights : str
        The weights that were asked.
    trivial : bool
        Whether the radius is at least the public range, and the value is its center.
    secure : bool
        False for simulated noise.
    notes : tuple of str
        Remarks.
    details : dict
        Further numbers of the mechanism.
    persons : dict, optional
        Of a protocol of several rounds: n by total epsilon.
    freedom : float
        Degrees of freedom of `spread` and `noise`.
    messages : int
        Reports that the protocol asks of each person.
    used : {"minimax", "uniform"}
        The weights that were used.
    unseen : float
        A relation of epsilon and value that moves the answer by this much is found nine times in
        ten; 0 for equal weights.
    candidates : int
        Number of answers for which radius and intervals hold, since the test chose one.
    proved : callable, optional
        Proved radius of each number at a failure probability, which no interval exceeds.
    """

    value: Floats
    radius: float
    norm: str
    beta: float
    mechanism: str
    target: str
    raw: Floats
    raw_radius: float
    radii: Floats
    spread: Floats
    noise: Floats
    effective: float
    reports: int
    rejected: Mapping[str, int]
    levels: tuple[Level, ...]
    largest_influence: float
    heterogeneity: Heterogeneity
    weights: str
    trivial: bool = False
    secure: bool = True
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    persons: Mapping[str, int] | None = None
    freedom: float = 50.0
    messages: int = 1
    used: str = ""
    unseen: float = 0.0
    candidates: int = 1
    proved: Callable[[float], Floats] | None = field(default=None, repr=False, compare=False)

    def __float__(self) -> float:
        if self.value.size != 1:
            raise TypeError("only an estimate of one number converts to a float")
        return float(self.value.reshape(-1)[0])

    def poisoning(self, clients: int) -> float:
        """How far this many colluding clients can move the raw estimate, at most.

        No local protocol withstands a constant fraction of corrupt clients; this says how much.
        """
        return clients * self.largest_influence

    @property
    def relation(self) -> str:
        """Whether epsilon and the values go together, what was done about it, and what it means.

        "" if only one level reported.
        """
        test = self.heterogeneity
        if not test.degrees:
            return ""
        agree = "disagree" if test.related else "agree"
        seen = f"the levels of epsilon {agree} (p = {test.p_value:.2g})"
        if self.used == UNIFORM and self.weights == UNIFORM:
            return f"every report counts the same, as asked for; {seen}"
        if self.used == UNIFORM:
            return (
                f"{seen}: epsilon and the values seem related, so every report counts the same; "
                "weighted by epsilon the answer would be about other persons"
            )
        if test.related:
            return (
                f"{seen}: epsilon and the values seem related, and the answer, weighted by epsilon "
                "as asked for, may be off by far more than its radius; use weights "
                '"tested" or "uniform"'
            )
        return (
            f"{seen}: reports count by what their level tells. A relation of epsilon and the "
            f"values that moves the answer by {self.unseen:.2g} is found nine times in ten; a "
            'smaller one may stay unseen, and only weights "uniform" do not mind it'
        )

    def interval(self, level: float = 0.95) -> Interval:
        """Approximate confidence intervals for the population, one per number.

        They assume the central limit theorem (Student's distribution with the standard deviation of
        the reports). They are mostly shorter than the radius, which is proved for every number of
        reports, and never longer than the radius proved for this number. Pointwise, around `raw`.
        """
        half = self._half(self.spread, level)
        if self.proved is not None and self.reports:
            half = np.minimum(half, self.proved((1 - level) / self.candidates))
        return self._interval(half, level, "interval", "normal approximation over many reports")

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Approximate interval for the mean of the very people who reported.

        Privacy noise only, and what uneven weights make of the differences between people.
        """
        half = self._half(self.noise, level)
        return self._interval(half, level, "noise_interval", "the known law of the reports")

    def _half(self, error: Floats, level: float) -> Floats:
        """Half the length: where a test chose the weights, each candidate's misses its share.

        Bernstein's term is added: sums in which a few reports weigh much are far from normal. Not
        of vectors: one report moves a single coordinate far less than the vector.
        """
        from scipy import special

        tail = (1 - validate.level("level", level)) / self.candidates
        few, jump = 0.0, self.largest_influence
        if self.norm != "l2" and math.isfinite(jump):
            few = jump * math.log(2 / tail) / 3
        return np.asarray(special.stdtrit(self.freedom, 1 - tail / 2) * error + few)

    def _interval(self, half: Floats, level: float, kind: str, assumption: str) -> Interval:
        low, high = (self.raw - half).reshape(-1), (self.raw + half).reshape(-1)
        return Interval(
            tuple(low.tolist()), tuple(high.tolist()), level, kind, self.target, assumption
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        test, relation = self.heterogeneity, None  # None if one level alone reported
        if test.degrees:
            relation = {
                "p_value": test.p_value,
                "alarm": ALARM,
                "found": test.related,
                "unseen": self.unseen,
                "words": self.relation,
            }
        result = {
            **{name: getattr(self, name) for name in LISTED},
            "rejected": dict(sorted(self.rejected.items())),
            "levels": [
                {
                    "epsilon": item.epsilon,
                    "reports": item.reports,
                    "weight": item.weight,
                    "estimate": item.estimate if item.estimate.size <= 64 else None,
                }
                for item in self.levels
            ],
            "weights_used": self.used,
            "relation": relation,
            "notes": self.notes,
            "guarantee": self.guarantee(),
            **({} if self.secure else {"warning": UNSAFE}),
        }
        return dict(plain_tree(result))

    def guarantee(self) -> dict[str, Any]:
        """What protects each person, whatever the server does.

        epsilon: how many at each level, of reports or, after several rounds, of people.
        """
        unit = "one report"
        if self.persons is not None:
            unit = "all reports of one person in these rounds"
        elif self.messages > 1:
            unit = f"one of {self.messages} reports of each person"
        return {
            "model": "local",
            "unit": f"{unit}, whatever the person's records are",
            "epsilon": {f"{item.epsilon:g}": item.reports for item in self.levels}
            if self.persons is None
            else dict(self.persons),
            "public": ["the level of epsilon", "that a report was sent", "its nonce"],
            "trusts": "nobody but the person's own device",
        }

    def output(self) -> Output:
        """What `print` shows: a row per number, with its error that is proved for every number of
        reports (radius) and the shorter interval of many reports."""
        interval = self.interval()
        flat = [item.reshape(-1).tolist() for item in (self.value, self.spread, self.radii)]
        rows = []
        for k, (value, error, radius) in enumerate(list(zip(*flat, strict=True))[:SHOWN]):
            least = error if error > 0 else radius
            values = value, error, interval.lower[k], interval.upper[k], radius
            cells = tuple(number(item, decimals(least), least) for item in values)
            rows.append(TableRow("mean" if self.value.size == 1 else str(k), cells))
        left = self.value.size - len(rows)
        lines = [f"{left:,} more rows; every error is at most {self.radius:.3g}."] if left else []
        if self.trivial:
            lines.append("Too few reports: the estimate is the center of the public range.")
        lines.append(f"One report can move the estimate by at most {self.largest_influence:.3g}.")
        if self.rejected:
            words = ", ".join(f"{word} {count:,}" for word, count in sorted(self.rejected.items()))
            lines.append(f"Refused reports: {words}.")
        if self.relation:
            lines.append(f"Epsilon and the values: {self.relation}.")
        promise = self.guarantee()["epsilon"].items()
        what = "reports" if self.persons is None else "people, in all rounds"
        used = ", ".join(f"{epsilon} ({count:,})" for epsilon, count in promise)
        return Output(
            self.target[:1].upper() + self.target[1:],
            f"n = {self.reports:,} reports (effectively {self.effective:,.6g}); 95% confidence "
            f"intervals; radius at {percent(1 - self.beta)} ({self.norm})",
            ("estimate", "std err", "CI lower", "CI upper", "radius"),
            tuple(rows),
            lines=(*lines, *self.notes),
            paragraphs=(
                ("Privacy", f"local model; epsilon of the {what} (how many): {used}."),
                ("Method", f"{self.mechanism} reports."),
            ),
            warning="" if self.secure else UNSAFE,
        )

    def summary(self) -> str:
        """The estimate as a table: what `print` shows."""
        return self.output().text()
