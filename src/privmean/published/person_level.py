"""Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman, "Private Mean Estimation with Person-Level
Differential Privacy" (2024): threaded clip-and-noise on disjoint people, and the pure choice.

Algorithms 2 to 4 (`ThreadedMean`) and 5 to 8 (`PureCover`). Corrections: disjoint people compose in
parallel, so that each block has the whole budget, and blocks are public positions (spec E2, E3);
Gaussian noise is calibrated for any epsilon (E4); scores are integers (spec 5). The constants that
the paper leaves open are those of `pm.HeavyTailedMean`, which is better in every respect
(docs/proofs/heavy-tails-threaded.md, docs/proofs/heavy-tails-cover.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.person_table import collect_rows
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.estimators.heavy_tailed.clipping_rounds import Problem
from privmean.estimators.heavy_tailed.coarse_center import Coarse, CoarseNeeds
from privmean.estimators.heavy_tailed.heavy_tailed_plan import (
    COARSE_SHARE,
    THRESHOLD_SHARE,
    HeavyTailedNumbers,
)
from privmean.inference.status import FAILED
from privmean.mechanisms.choices import Choice
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.weighted_sums import UNIT, JointSums
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import Parallel, calibrate
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent, Threshold
from privmean.published.terms import PublishedPlan, require_relation
from privmean.release.result_numbers import Outcome

BLOCKS = "disjoint blocks of the people"
LATTICE = 2.0**20  # steps of the noise's deviation, at least
HAIR = 1 - 1e-12  # strengths in floating point stay this far below what was calibrated
MOST_WORK = 5 * 10**8  # candidates x directions x people
RADIUS_BITS = 20  # lattice steps of the clipping radius
CHUNK = 1 << 22  # projections held at once


def _require_moment(moment: object) -> None:
    remedy = "give pm.BoundedMoment(order=..., bound=...)"
    validate.instance("moment", moment, BoundedMoment, remedy)


# --- Algorithms 2 to 4: threaded clip-and-noise --------------------------------------------------
@dataclass(frozen=True)
class ThreadedMean:
    """Algorithm 4: a coarse center from the first third of the people, threaded clip-and-noise
    (Algorithm 3) on equal blocks of the second, and clip-and-noise (Algorithm 2) on the last.

    moment: what accuracy assumes; the coarse step searches its range, or the whole line. beta:
    failure probability of the plan. Positions in the roster modulo 3 make the thirds.

    Guarantees: (epsilon, delta)-DP or rho-zCDP under replace-one, for any data: each person is in
    one block alone, and each block has the whole budget.
    """

    name: ClassVar[str] = "threaded clip-and-noise on disjoint people"

    moment: BoundedMoment
    beta: float = 0.01

    def __post_init__(self) -> None:
        _require_moment(self.moment)
        validate.keep(self, validate.fraction, "beta")

    def layers(self, dimension: int) -> int:
        """ceil(log_{k+1} log_2 sqrt(d)) layers come near the fixed point, and one reaches it."""
        depth = math.log2(max(math.sqrt(dimension), 2))
        order = max(order for order, _ in self.moment.pairs)
        return 1 + math.ceil(math.log(depth) / math.log(order + 1))

    def plan(self, budget: Budget, shape: PublicShape) -> ThreadedPlan:
        """The plan; raises InfeasibleError if a block has too few people."""
        require_relation(budget)
        if budget.is_pure:
            raise InfeasibleError(
                "Gaussian noise requires delta > 0 or rho", "give a delta such as 1e-6"
            )
        n, d = shape.number(least=3), shape.dimension
        common = HeavyTailedNumbers(budget, REPLACE_ONE, n, d, self.moment, self.beta)
        first, second, last = (len(range(at, n, 3)) for at in range(3))
        sizes = [len(range(at, second, self.layers(d))) for at in range(self.layers(d))]
        ranges, mu = self.moment.ranges(d), _block_strength(budget, d)
        needs = CoarseNeeds(d, first, common.spread, ranges, REPLACE_ONE, self.beta)
        found = (needs.gaussian(), needs.gaussian_stable(THRESHOLD_SHARE * budget.delta))
        coarse = next((item for item in found if item is not None and item.mu <= mu), None)
        problem = Problem("gaussian", common.tails, d, mu, beta=self.beta)
        blocks = [(Fraction(1), mu, size) for size in (*sizes, last)]
        schedule = None if coarse is None else problem.schedule(coarse.offset, blocks)
        if coarse is None or schedule is None:
            raise InfeasibleError(
                f"n={n} is too small for {2 + len(sizes)} blocks of people",
                "provide more people or a larger epsilon, or use pm.HeavyTailedMean",
            )
        rounds = tuple(
            JointSums(
                f"clipped sum of block {at + 1}", "gaussian", d, (0, UNIT),
                (item.choice.radius,) * 2, mu, REPLACE_ONE,
            )
            for at, item in enumerate(schedule.rounds)
        )  # fmt: skip
        return ThreadedPlan(self, budget, n, d, coarse, rounds, (*sizes, last))


def _block_strength(budget: Budget, dimension: int) -> float:
    """mu of one block, with room for the coarse step's thresholds."""
    delta = THRESHOLD_SHARE * budget.delta
    threshold = (Threshold("thresholds", delta, 1.0),) if delta else ()

    def bill(mu: float) -> tuple[PrivacyEvent, ...]:
        return (*threshold, Gaussian("block", mu * LATTICE, LATTICE, 2 * dimension + 2))

    return calibrate(bill, budget, grid=False) * HAIR


@dataclass(frozen=True)
class ThreadedPlan(PublishedPlan):
    """coarse: the first step. rounds: clip-and-noise, one a block. sizes: people of the blocks."""

    coarse: Coarse
    rounds: tuple[JointSums, ...]
    sizes: tuple[int, ...]

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        branches = (self.coarse.events, *(step.events for step in self.rounds))
        return (Parallel(BLOCKS, branches, neighbors=REPLACE_ONE),)

    def run(self, curator: Curator) -> Outcome:
        people, layers = curator.people, len(self.rounds) - 1
        first, second, last = (people.split(at, 3) for at in range(3))
        blocks = [first, *(second.split(at, layers) for at in range(layers)), last]
        one, *others = curator.parallel(BLOCKS, blocks)
        center = self.coarse.find(one, one.people)
        if center is None:
            return self.outcome(np.full(self.dimension, np.nan), [FAILED] * self.dimension)
        for step, size, part in zip(self.rounds, self.sizes, others, strict=True):
            sums = part.people.ball_sums(step.ball(center, 1))
            moved, _ = part.ask(step, (sums.z, sums.present * UNIT))
            center = tuple((np.array(center) + moved / size).tolist())
        return self.outcome(np.array(center))


# --- Algorithms 5 to 8: a choice from a cover ----------------------------------------------------
@dataclass(frozen=True)
class PureCover:
    """Mean of at most three columns under pure DP, chosen from a cover of a coarse center.

    A candidate loses if, in some direction, enough people lie beyond it; its score is the number of
    people that would have to change for it to lose. moment: what accuracy assumes; requires a
    public range. proof: only settings that meet the conditions of the accuracy theorem (many more
    people). beta: failure probability of the plan. work: the most projections; the cover is thinned
    to this number.

    Guarantees: epsilon-DP under replace-one, for any data: an exact argmax for the coarse center,
    then permute-and-flip with integer scores of sensitivity one. Both steps read all people (as
    printed: half of them each). People without a value take no side.
    """

    name: ClassVar[str] = "exponential mechanism over a cover"

    moment: BoundedMoment
    proof: bool = False
    beta: float = 0.01
    work: float = 1e8

    def __post_init__(self) -> None:
        _require_moment(self.moment)
        validate.flag("proof", self.proof)
        validate.keep(self, validate.fraction, "beta")
        if validate.positive("work", self.work) > MOST_WORK:
            raise ArgumentError("work", self.work, "is too large", f"give at most {MOST_WORK}")

    def plan(self, budget: Budget, shape: PublicShape) -> CoverPlan:
        """The plan; raises InfeasibleError if no cover is small enough or n is too small."""
        require_relation(budget)
        n, d = shape.number(), shape.dimension
        if d > 3:
            raise InfeasibleError(
                f"a cover in {d} dimensions has too many points", "use pm.HeavyTailedMean"
            )
        ranges = self.moment.ranges(d)
        if ranges is None or budget.is_zcdp:
            raise InfeasibleError(
                "the cover requires a public range and epsilon",
                "give BoundedMoment(..., range=(lower, upper)) and epsilon",
            )
        common = HeavyTailedNumbers(budget, REPLACE_ONE, n, d, self.moment, self.beta)
        needs = CoarseNeeds(d, n, common.spread, ranges, REPLACE_ONE, self.beta, self.proof)
        whole, found, refused = budget.pure_epsilon(), [], None
        for coarse in (needs.public(), needs.selection()):
            if coarse is None or coarse.pure > Fraction(COARSE_SHARE) * whole:
                continue
            try:
                found.append(self._fit(common, coarse, whole - coarse.pure))
            except InfeasibleError as problem:
                refused = problem
        if not found:
            raise refused or InfeasibleError(
                f"n={n} is too small to find the mean",
                "provide more people or a larger epsilon",
            )
        return min(found, key=lambda item: item.error)

    def _fit(self, common: HeavyTailedNumbers, coarse: Coarse, epsilon: Fraction) -> CoverPlan:
        """The plan after one coarse step; raises InfeasibleError if the cover is too large."""
        n, d, spread = common.n, common.dimension, common.spread
        accuracy = 0.7 * spread
        reach = coarse.offset / math.sqrt(d)
        if coarse.form == "public" and coarse.ranges is not None:
            reach = max((upper - lower) / 2 for lower, upper in coarse.ranges)
        while True:
            radius = 8 * accuracy
            while float(bias.one_dimension(common.tails, radius, radius / 2)) > accuracy / 4:
                radius *= 1.1
            spacing = 2 * radius / (n * float(epsilon))
            if self.proof:
                spacing = 2 * accuracy / math.sqrt(d)
            per_axis = max(2, math.ceil(2 * reach / spacing) + 1)
            most = int((self.work / (n * len(directions(d)))) ** (1 / d))
            if most < 2 or (self.proof and per_axis > most):
                raise InfeasibleError(
                    f"the cover would take more than {self.work:g} projections",
                    "use pm.HeavyTailedMean, which requires one pass per round",
                )
            found = CoverPlan(
                self, common.budget, n, d, coarse, epsilon, radius, accuracy, reach,
                min(per_axis, most), spread,
            )  # fmt: skip
            if self._works(found):
                return found
            accuracy *= 1.2
            if accuracy > 4 * spread:
                raise InfeasibleError(
                    f"n={n} is too small to choose from a cover of {per_axis**d} points",
                    "provide more people or a larger epsilon, or use pm.HeavyTailedMean",
                )

    def _works(self, plan: CoverPlan) -> bool:
        """Whether the choice finds a good point: by the theorem, or by the margin at the mean."""
        n, epsilon = plan.n, float(plan.epsilon)
        count = plan.per_axis**plan.dimension
        if not self.proof:
            return n * epsilon >= plan.radius / plan.accuracy * math.log(count / self.beta)
        level = math.log(4 * count * len(directions(plan.dimension)) / self.beta)
        sampling = math.sqrt(2 * level / n) * plan.spread + 2 * plan.radius * level / (3 * n)
        margin = n * epsilon >= 8 * plan.radius * math.log(2 * count / self.beta) / plan.accuracy
        return margin and sampling <= plan.accuracy / 4


@dataclass(frozen=True)
class CoverPlan(PublishedPlan):
    """coarse: the first step. epsilon: of the choice. radius: clipping of projections. accuracy:
    alpha, half the distance at which a candidate is tested. reach: half width of the cover.
    per_axis: candidates an axis. spread: bound on a person's deviation."""

    coarse: Coarse
    epsilon: Fraction
    radius: float
    accuracy: float
    reach: float
    per_axis: int
    spread: float

    @property
    def threshold(self) -> int:
        """2 alpha in lattice steps of the radius."""
        return math.ceil(2 * self.accuracy / self.radius * (1 << RADIUS_BITS))

    @property
    def error(self) -> float:
        """Planned l2 error: noise of the choice, the cover's spacing, sampling (rule of thumb)."""
        d, noise = self.dimension, 2 * self.radius / (self.n * float(self.epsilon))
        spacing = 2 * self.reach / (self.per_axis - 1)
        sampling = math.sqrt(d / self.n) * self.spread
        return math.hypot(d * noise, math.sqrt(d / 12) * spacing, sampling)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return (*self.coarse.events, *self.choice.events)

    @property
    def choice(self) -> Choice:
        words = "the score of each point, by one person's part"
        return Choice("point of the cover", self.epsilon, REPLACE_ONE, 2, words)

    def cover(self, center: tuple[float, ...]) -> Floats:
        """The candidates, shape (count, d)."""
        axis = np.linspace(-self.reach, self.reach, self.per_axis)
        grid = np.meshgrid(*([axis] * self.dimension), indexing="ij")
        return np.asarray(np.column_stack([item.ravel() for item in grid]) + np.array(center))

    def run(self, curator: Curator) -> Outcome:
        center = self.coarse.find(curator, curator.people)
        if center is None:
            return self.outcome(np.full(self.dimension, np.nan), [FAILED] * self.dimension)
        points = self.cover(center)
        rows = collect_rows(curator.people, size_is_public=True)
        found = scores(rows, points, self.radius, self.threshold)
        return self.outcome(points[curator.ask(self.choice, found)])


def directions(dimension: int) -> Floats:
    """Unit vectors, shape (count, d), such that every direction is within cosine 7/8 of one."""
    if dimension == 1:
        return np.array([[1.0], [-1.0]])
    if dimension == 2:
        angle = 2 * math.pi * np.arange(12) / 12
        return np.column_stack([np.cos(angle), np.sin(angle)])
    index = np.arange(42) + 0.5
    height = 1 - 2 * index / 42
    around = math.pi * (1 + math.sqrt(5)) * index
    flat = np.sqrt(1 - height**2)
    return np.column_stack([flat * np.cos(around), flat * np.sin(around), height])


def projections(rows: Floats, points: Floats, direction: Floats, radius: float) -> Integers:
    """<row - point, direction> clipped to +-radius, in steps of radius/2^20: (people, points).

    Elementwise arithmetic, so that a person's number depends on that person's row alone.
    """
    total = np.zeros((len(rows), len(points)))
    with np.errstate(all="ignore"):
        for j, v in enumerate(direction):
            total = total + v * (rows[:, j, None] - points[None, :, j])
        steps = np.floor(total * (2.0**RADIUS_BITS / radius) + 0.5)
    limit = float(1 << RADIUS_BITS)
    return np.where(np.isnan(steps), 0.0, np.clip(steps, -limit, limit)).astype(np.int64)


def costs(z: Integers, threshold: int) -> Integers:
    """Fewest people to change until the sum of z reaches n * threshold; one cost a column of z.

    z holds integers of at most 2^20 in size, threshold is at most 2^20.
    """
    need = len(z) * threshold - z.sum(axis=0)
    result = np.zeros(z.shape[1], dtype=np.int64)
    open_ = need > 0
    if open_.any():
        gains = (1 << RADIUS_BITS) - np.sort(z[:, open_], axis=0)
        reached = np.cumsum(gains, axis=0) >= need[open_]
        result[open_] = np.argmax(reached, axis=0) + 1
    return result


def scores(rows: Floats, points: Floats, radius: float, threshold: int) -> Integers:
    """Score of every candidate point: its least cost over the directions."""
    result = np.full(len(points), len(rows), dtype=np.int64)
    at_once = max(1, CHUNK // max(1, len(rows)))
    for start in range(0, len(points), at_once):
        block = slice(start, start + at_once)
        best = result[block]
        alive = np.arange(len(best))
        for direction in directions(rows.shape[1]):
            if not len(alive):
                break
            z = projections(rows, points[block][alive], direction, radius)
            best[alive] = np.minimum(best[alive], costs(z, threshold))
            alive = alive[best[alive] > 0]
        result[block] = best
    return result
