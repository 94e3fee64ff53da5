"""The priced steps of a pooled regression: its settings, and the mechanisms of its plan.

Center and limits of every variable by private choices; two rounds of noisy sums of people's second
moments, the second in whitened regressors and residuals; then the sum of score contributions of the
coefficients asked for, shortened to a ball, with their products. Rows are shortened where what is
cut off balances the noise, from noisy counts of lengths on half octaves, which also tell whether
lengths are in units that cannot be theirs.
docs/proofs/pooled-regression.md, sections 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.person_table import PersonTable
from privmean.data.schema import PublicShape
from privmean.estimators.column_plan import ColumnPlan
from privmean.estimators.noise_budget import (
    Counts,
    NoiseBudget,
)
from privmean.estimators.regression.panel import MATRIX_STEPS, ROW_STEPS, Weighting, panel_of
from privmean.estimators.regression.polynomial_design import Design
from privmean.estimators.regression.private_scale import ScaleChoice
from privmean.mechanisms.noisy_counts import moved_counts
from privmean.mechanisms.private_location import PrivateCenter, PrivateLimits
from privmean.mechanisms.row_sums import MatrixSums, RowProducts
from privmean.pipeline import Step

LOOK, COUNT = Fraction(10, 100), Fraction(10, 100)  # of what goes to shortened rows
PRICE = 1.5  # deviations of a count that a cell must add to belong to what is seen
HIDDEN = 0.2  # deviations of a count that may hide in the first cell beyond
UNSEEN, FALL = 0.5, 2.0**-1.5  # the same of a sum's interval, and from cell to cell
LEAST = 0.35
LENGTHS: Floats = 2.0 ** (np.arange(-28, 37) / 4)  # that are tried
NORMAL = 1.96
LONG = 8.0  # deviations
MANY, SURE = 4.0, 4.0
LAPLACE = 2.0  # deviations on top of `SURE` that Laplace noise needs, for tails of 1e-4
MIDDLE, CERTAIN = 2.0, 2.0  # usual size over the median length; deviations of a sum of counts


@dataclass(frozen=True)
class Radius:
    """limit: the length. squares: by how much the squares of rows cut at the length exceed those of
    rows cut at half of it, summed. beyond, beyond_sd: how many people are beyond it, as expected or
    counted, and the deviation of that number."""

    limit: float
    squares: float
    beyond: float
    beyond_sd: float


@dataclass(frozen=True)
class Lengths:
    """Noisy people by length, at `edges`, and the deviation of their noise. The first cell is that
    of the shortest, the last that of all beyond the last edge."""

    counts: Floats
    sd: float
    edges: Floats

    @property
    def middles(self) -> Floats:
        """Of the cells beyond the first edge."""
        edges = self.edges
        return np.append(np.sqrt(edges[:-1] * edges[1:]), edges[-1] * 2**0.25)

    def beyond(self, limit: float, nearer: Radius) -> tuple[float, float]:
        """The noisy people beyond a length, and the deviation of their number: those who lie there,
        and those that were counted beyond a shorter length less those between the two."""
        far = parts_beyond(self.middles, limit)
        near = parts_beyond(self.middles, nearer.limit) - far
        one, other = float(self.counts[1:] @ far), nearer.beyond - float(self.counts[1:] @ near)
        square = self.sd**2 * float(far @ far)
        rest = self.sd**2 * float(near @ near) + nearer.beyond_sd**2
        number = (one * rest + other * square) / (square + rest)
        return number, math.sqrt(square * rest / (square + rest))

    def holding(self, number: float, limit: float) -> Floats:
        """The noisy people between edges, up to the first cell with which so many lie beyond a
        length, but for one deviation of the noise of their sum."""
        part = parts_beyond(self.middles, limit)
        within = np.cumsum(self.counts[1:] * part) + self.sd * np.sqrt(np.cumsum(part**2))
        reached = np.append(within[:-1] >= number, True)
        return np.maximum(self.counts[1 : int(np.argmax(reached)) + 2], 0.0)

    def radius_of_least_width(
        self, noise: float, seen: Floats, *, persons: int, beyond_sd: float
    ) -> Radius:
        """The length that makes the predicted half-width of an interval least: sampling, the noise
        of the sum and of the count of those beyond it in quadrature, what is cut off linearly.

        noise: of the sum, for a length of 1. seen: the people between edges, as far as they are
        seen. beyond_sd: deviation of the count of those beyond the length.
        Half a deviation of a cell's count may hide in the first cell beyond what is seen, and falls
        as a tail of index 3.
        """
        middles = self.middles
        hidden = UNSEEN * self.sd * FALL ** np.arange(len(middles) - len(seen))
        number = np.concatenate([seen, hidden])
        tried = LENGTHS[:, None]
        part = parts_beyond(middles, tried)
        beyond = (number * part).sum(axis=1)
        cuts = (number * np.maximum(middles - tried, 0.0)).sum(axis=1)
        variance = persons + (noise**2 + (beyond_sd / 2) ** 2) * LENGTHS**2
        half = NORMAL * np.sqrt(variance) + np.maximum(LENGTHS * beyond, 2 * cuts) / 2
        place = max(int(np.argmin(half)), int(np.searchsorted(LENGTHS, LEAST)))
        limit = float(LENGTHS[place])
        inside = np.minimum(middles[: len(seen)], limit) ** 2 - (limit / 2) ** 2
        unsure = self.sd * math.sqrt(float((part[place, : len(seen)] ** 2).sum()))
        squares = float((seen * np.maximum(inside, 0)).sum())
        return Radius(limit, squares, float(beyond[place]), unsure)


def parts_beyond(middles: Floats, length: float | Floats) -> Floats:
    """Of each cell of half an octave, the part that lies beyond a length."""
    found: Floats = np.clip(2 * np.log2(middles * 2**0.25 / length), 0.0, 1.0)
    return found


def seen_counts(counts: Floats, sd: float) -> Floats:
    """The noisy people between edges, up to the last cell that noise does not explain."""
    best, current, end = -np.inf, 0.0, 0
    for place, count in enumerate(counts):
        current = max(current, 0.0) + float(count) - PRICE * sd
        if current > best:
            best, end = current, place
    return np.maximum(counts[1 : end + 1], 0.0)


def usual_size(counts: Floats, sd: float, edges: Floats) -> float:
    """A power of two, at most 1, of which most lengths are a part: an influence is the mean of a
    person's records, and in units of one record the shorter the more there are."""
    below = np.cumsum(counts[:-1])
    sure = below - CERTAIN * sd * np.sqrt(np.arange(1, len(below) + 1)) > counts.sum() / 2
    median = edges[np.argmax(sure)] if sure.any() else 1.0
    return float(np.exp2(min(np.floor(np.log2(MIDDLE * median)), 0.0)))


def misread(counts: Floats, sd: float, edges: Floats, persons: int, *, laplace: bool) -> bool:
    """Whether the units cannot be those of the score contributions: more than 4/r^2 of the people
    (and more than noise explains, but in 1e-4) are above r deviations for an r from 8 on, where
    Chebyshev's inequality leaves 1/r^2. laplace: whether the counts' noise is."""
    long = edges >= LONG
    above = np.cumsum(counts[1:][long][::-1])
    least = np.maximum(
        persons * MANY / edges[long][::-1] ** 2,
        sd * (SURE * np.sqrt(np.arange(1, len(above) + 1)) + LAPLACE * laplace),
    )
    return bool(np.any(above > least))


SEARCH, MOMENTS, SCORE = Fraction(15, 100), Fraction(40, 100), Fraction(45, 100)
SEEN = 100.0  # people times epsilon that a choice of limits needs
# for the search: the first share at which that choice has so many
MORE = (
    (Fraction(5, 100), 6 * SEEN),
    (Fraction(10, 100), 4.5 * SEEN),
    (Fraction(15, 100), 3 * SEEN),
    (Fraction(20, 100), 2 * SEEN),
    (Fraction(25, 100), 1.5 * SEEN),
    (Fraction(35, 100), 0.0),
)
CENTER = Fraction(1, 4)  # of the search of a variable; the rest for its limits
ROUNDS = (Fraction(4, 10), Fraction(6, 10))
CHOICE = Fraction(15, 100)  # of a round, for the length at which matrices are shortened
CELLS = 31  # half octaves in which score contributions are looked at, from 2^-7
ALIKE = 4.0  # epsilon over mu of equal noise, at deltas from 1e-7 to 1e-5
FEWEST = {"gaussian": (300.0, 1), "laplace": (300.0, 2)}  # n epsilon over p, or p^2


@dataclass(frozen=True)
class Target:
    """What is released: a weighted sum of coefficients, by name."""

    name: str
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class PooledSettings:
    """design, weighting: the regression and what a person counts. targets: what is released; all
    coefficients if None. units: public centers and scales of variables (a half octave of the
    spread). design_effect: public factor on the sampling variance. excess: people whose score
    contributions are clipped exceed the bound on average by no more than so many bounds (1/2: no
    heavier than a Pareto tail of index 3). single: one coefficient may bear all of that, else each
    bears an equal share. looked: variables whose center and scale a private search of their column
    gives.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    formula, settings and, under replace-one, the number of people.
    """

    design: Design
    weighting: Weighting
    targets: tuple[Target, ...] | None = None
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    design_effect: float = 1.0
    excess: float = 0.5
    single: bool = False
    looked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate.positive("design_effect", self.design_effect)
        validate.nonnegative("excess", self.excess)

    @property
    def asked(self) -> tuple[Target, ...]:
        if self.targets is not None:
            return self.targets
        return tuple(Target(name, ((name, 1.0),)) for name in self.design.names)

    @property
    def centered(self) -> bool:
        """Whether distances of variables are from a center that is looked for."""
        return self.design.centred and not self.weighting.within

    @property
    def searched(self) -> tuple[str, ...]:
        known = (*self.units, *self.looked)
        return tuple(name for name in self.design.numeric if name not in known)


@dataclass(frozen=True)
class PooledSteps(ColumnPlan):
    """Every mechanism of a pooled regression. The accounting of any run is covered by these lines:
    one that stops early leaves some out, and one that releases fewer numbers does so at the same
    strength."""

    settings: PooledSettings
    parts: NoiseBudget
    estimator = "one-step GEE"
    about = "formula"
    guessed = ("design number",)

    @property
    def rationale(self) -> str:
        return (
            f"scales of {len(self.settings.searched)} variables by private choice, two rounds of "
            f"second moments, then score contributions of {self.width} numbers with "
            f"{self.parts.word} noise"
        )

    @property
    def shape(self) -> PublicShape:
        return PublicShape(self.settings.design.names, self.known, self.n)

    @property
    def width(self) -> int:
        """How many numbers are asked for: the plan is for that many, whatever survives."""
        return len(self.settings.asked)

    @property
    def order(self) -> int:
        """Of the matrices: regressors and the response."""
        return len(self.settings.design.terms) + 1

    # --- shares -----------------------------------------------------------------------------------
    @cached_property
    def split(self) -> tuple[Fraction, Fraction, Fraction]:
        """Shares of the search, the moments and the score."""
        if not self.settings.searched:
            return Fraction(0), MOMENTS + SEARCH * Fraction(4, 10), SCORE + SEARCH * Fraction(6, 10)
        more = self._search - SEARCH
        return self._search, MOMENTS - more * Fraction(45, 100), SCORE - more * Fraction(55, 100)

    @cached_property
    def _search(self) -> Fraction:
        """The share of all searches of centers and scales."""
        return next(
            share for share, enough in MORE if self.n * self._limits_epsilon(share) >= enough
        )

    def _limits_epsilon(self, share: Fraction) -> Fraction:
        """Of the limits of one variable, where all searches have this share."""
        each = share / len(self.settings.searched)
        return self.parts.epsilon(each * (1 - CENTER) if self.settings.centered else each)

    @property
    def needed(self) -> float:
        """How many times the people (or epsilon) the rules of thumb ask for."""
        p = len(self.settings.design.terms)
        factor, power = FEWEST[self.parts.law]
        epsilon = float(self.budget.pure_epsilon())
        if self.budget.rho is not None:  # as an epsilon with a small delta gives that noise
            epsilon *= ALIKE
        found = [factor * float(p**power) / (self.n * epsilon)]
        if self.settings.searched:
            found.append(SEEN / (self.n * float(self._limits_epsilon(MORE[-1][0]))))
        return max(found)

    @property
    def one_noise(self) -> float:
        """Predicted noise of one number, in deviations of its influence over all people."""
        k = self.width
        if self.parts.laplace:
            return 2.2 * k * math.sqrt(2) * self.rows.scale / self.n
        return 2.2 * math.sqrt(k) * self.rows.scale / self.n

    @property
    def kappa(self) -> float:
        """At how many times the typical size matrices are shortened: more where noise is small,
        since what is shortened is a bias that no noise explains."""
        if self.parts.laplace:  # sums over a triangle grow with the square of the order
            signal = self.n * float(self.budget.pure_epsilon()) / (4 * self.order)
            most = signal / self.order >= 350
        else:
            signal = self.n * float(self.parts.strength) / self.order
            most = signal >= 1000
        return 4.0 if most else 2.0 if signal >= 250 else 1.4

    # --- mechanisms -------------------------------------------------------------------------------
    def center(self, name: str) -> PrivateCenter:
        """Of the person means of a variable."""
        epsilon = self.parts.epsilon(CENTER * self._search / len(self.settings.searched))
        return PrivateCenter(f"center of {name}", epsilon, self.relation)

    def limits(self, name: str, digit: float = 0.0) -> PrivateLimits:
        """Of the distances of a variable from its center, or from person means."""
        epsilon = self._limits_epsilon(self._search)
        return PrivateLimits(f"limits of {name}", epsilon, self.relation, digit)

    def length(self, turn: int) -> ScaleChoice:
        """The choice of the length of matrices in round 0 or 1."""
        part = self.split[1] * ROUNDS[turn] * CHOICE
        epsilon, bounded = self.parts.epsilon(part), not self.parts.laplace
        return ScaleChoice("moment norm", epsilon, self.relation, bounded)

    def matrices(self, turn: int) -> MatrixSums:
        part = self.split[1] * ROUNDS[turn] * (1 - CHOICE)
        return MatrixSums(
            "second moments", self.order, MATRIX_STEPS, self.relation, **self.parts.sums(part)
        )

    @property
    def rest(self) -> Fraction:
        """The share of the search of lengths, of the sums of shortened rows and of the count of
        those that were too long."""
        return self.split[2]

    @property
    def look(self) -> Counts:
        moved = moved_counts(self.relation)
        return self.parts.counts("score contributions", self.rest * LOOK, self.relation, moved)

    @property
    def beyond(self) -> Counts:
        return self.parts.counts("clipped-score count", self.rest * COUNT, self.relation, 1)

    @property
    def surprise(self) -> float:
        """Deviations of a number of people that noise explains but in 1e-4."""
        return SURE + LAPLACE * self.parts.laplace

    @property
    def rows(self) -> RowProducts:
        return self.rows_of(self.width)

    def rows_of(self, width: int) -> RowProducts:
        """The joint release of fewer numbers at the same strength, where some are left out."""
        share = self.parts.sums(self.rest * (1 - LOOK - COUNT))
        name = "score contributions and products"
        return RowProducts(name, width, ROW_STEPS, self.relation, short=ROW_STEPS // 2, **share)

    @property
    def steps(self) -> tuple[Step, ...]:
        search: list[PrivateCenter | PrivateLimits] = []
        for name in self.settings.searched:
            search += [self.center(name)] if self.settings.centered else []
            search.append(self.limits(name))
        rounds = ((self.length(turn).choice, self.matrices(turn)) for turn in range(len(ROUNDS)))
        scales, moments, scores = self.split
        return (
            Step("scales", scales, tuple(search)),
            Step("moments", moments, tuple(item for pair in rounds for item in pair)),
            Step("scores", scores, (self.look, self.beyond, self.rows)),
        )

    def errors(self, guess: float) -> tuple[float, float]:
        """Of one coefficient whose score contributions have that deviation between people."""
        return guess * self.one_noise, guess * math.sqrt(self.settings.design_effect / self.n)

    def details(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "terms": list(self.settings.design.names),
            "law": self.parts.law,
            "kappa": self.kappa,
            "released": [target.name for target in self.settings.asked],
            "searched": list(self.settings.searched),
            "noise_in_deviations_of_an_influence": self.one_noise,
        }

    def check_table(self, people: PersonTable) -> None:
        panel_of(people)
