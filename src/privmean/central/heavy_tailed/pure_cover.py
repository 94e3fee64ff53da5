"""The exponential mechanism over a cover of the mean's neighborhood: pure DP for d <= 3.

A candidate loses if, in some direction, enough people lie beyond it; its score is the number of
people that would have to change for it to lose. Scores are computed on integers, where one person
moves them by at most one. A reference method: for the same budget `HeavyTailedMean` with K-norm
noise is usually at least as accurate and much cheaper.

Source: Agarwal et al. (2024), Algorithms 5-8 and Theorem 5.9, in a simplified form with constants
(one shell of directions, no median of means); docs/proofs/heavy-tails-cover.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.heavy_tailed import clipping_bias as bias
from privmean.central.heavy_tailed.bounded_moment import BoundedMoment
from privmean.central.heavy_tailed.coarse_center import Coarse
from privmean.central.heavy_tailed.coarse_center_budget import CoarseNeeds
from privmean.central.heavy_tailed.cover_scores import RADIUS_BITS, directions, scores
from privmean.central.heavy_tailed.heavy_tailed_plan import (
    HeavyTailedNumbers,
    HeavyTailedPlan,
    assumption_of,
)
from privmean.central.heavy_tailed.heavy_tailed_settings import COARSE_SHARE
from privmean.central.heavy_tailed.noise_boxes import CoverBox
from privmean.data.collect_rows import collect_rows
from privmean.data.person_table import Floats
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_argmax import Choice
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome

MOST_WORK = 5 * 10**8  # candidates x directions x people


@dataclass(frozen=True)
class CoverPlan(HeavyTailedPlan):
    """A planned choice: coarse center, cover, radius, accuracy of the test, and epsilons.

    radius: clipping of projections; accuracy: alpha, half the distance at which a candidate is
    tested; reach: half width of the cover; per_axis: candidates an axis.
    """

    common: HeavyTailedNumbers
    coarse: Coarse
    epsilon: Fraction
    radius: float
    accuracy: float
    reach: float
    per_axis: int
    rationale: str = "the exponential mechanism over a cover was asked for"

    estimator = "exponential mechanism over a cover"

    @property
    def threshold(self) -> int:
        """2 alpha in lattice steps of the radius."""
        return math.ceil(2 * self.accuracy / self.radius * (1 << RADIUS_BITS))

    @property
    def spacing(self) -> float:
        return 2 * self.reach / (self.per_axis - 1)

    @property
    def resolution(self) -> float:
        """Scale of the choice's noise in every direction: 2 radius/(n epsilon)."""
        return 2 * self.radius / (self.common.n * float(self.epsilon))

    @property
    def error(self) -> float:
        """Planned l2 error: noise of the choice, the cover's spacing, sampling (rule of thumb)."""
        d = self.common.dimension
        sampling = math.sqrt(d / self.common.n) * self.common.spread
        return math.hypot(d * self.resolution, math.sqrt(d / 12) * self.spacing, sampling)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause (a rule of thumb), for a guess of the values' deviation."""
        d = self.common.dimension
        noise = math.hypot(d * self.resolution, math.sqrt(d / 12) * self.spacing)
        return self.common.predict(guess_sd, 0.0, noise)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return (
            *self.coarse.events,
            *self._choice.events,
        )

    @property
    def _choice(self) -> Choice:
        words = "the score of each point, by one person's part"
        return Choice("point of the cover", self.epsilon, REPLACE_ONE, 2, words)

    @property
    def shares(self) -> dict[str, float]:
        total = self.epsilon + self.coarse.pure
        return {
            "coarse center": float(self.coarse.pure / total),
            "point of the cover": float(self.epsilon / total),
        }

    def describe(self) -> dict[str, Any]:
        return {
            **self.common.describe(),
            "clip radius": self.radius,
            "tested accuracy": self.accuracy,
            "cover": f"{self.per_axis} points an axis, {self.spacing:.4g} apart",
            "planned error": self.error,
        }

    def cover(self, center: tuple[float, ...]) -> Floats:
        """The candidates, shape (count, d)."""
        axis = np.linspace(-self.reach, self.reach, self.per_axis)
        grid = np.meshgrid(*([axis] * self.common.dimension), indexing="ij")
        return np.asarray(np.column_stack([item.ravel() for item in grid]) + np.array(center))

    def run(self, curator: Curator) -> Outcome:
        """A null in a row makes its projections 0 (it takes no side)."""
        people = curator.people
        center = self.coarse.find(curator, people)
        if center is None:
            return self.common.failed(self.shares)
        points = self.cover(center)
        found = scores(
            collect_rows(people, size_is_public=True), points, self.radius, self.threshold
        )
        chosen = points[curator.ask(self._choice, found)]
        return Outcome(
            chosen,
            CoverBox(
                tuple(chosen.tolist()),
                self.resolution,
                self.spacing,
                self.common.spread / math.sqrt(self.common.n),
                4 * self.accuracy,
                assumption_of(self.common),
                self.common.moment.ranges(self.common.dimension),
            ),
            n=self.common.n,
            assumptions=(self.common.moment.describe(),),
            shares=self.shares,
        )


@dataclass(frozen=True)
class PureCover:
    """Mean of at most three columns under pure DP, chosen from a cover.

    Parameters
    ----------
    moment : BoundedMoment
        What accuracy assumes; requires a public `range`.
    proof : bool, default False
        Use only settings that meet the conditions of the accuracy theorem (many more people).
    beta : float, default 0.01
        Failure probability of the plan.
    work : float, default 1e8
        The most projections. The cover is thinned to this number.

    Raises
    ------
    InfeasibleError
        From `plan`, if the thinned cover is empty.

    Privacy
    -------
    Pure DP under replace-one for any data: an exact argmax for the coarse center, then
    permute-and-flip with integer scores of sensitivity one. Public are n and the assumption. People
    without a value are not counted: a point is chosen even if all values are missing.

    Notes
    -----
    Source: Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman (2024), Algorithms 5-8 and Theorem
    5.9; changes in docs/proofs/heavy-tails-cover.md.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    moment = pm.BoundedMoment(order=2, bound=6.0, range=(-20, 40))
    columns = ["ln_wage", "tenure"]
    pm.mean(table, columns, method=pm.PureCover(moment), epsilon=2.0)
    """

    moment: BoundedMoment
    proof: bool = False
    beta: float = 0.01
    work: float = 1e8

    def __post_init__(self) -> None:
        validate.instance(
            "moment",
            self.moment,
            BoundedMoment,
            "give BoundedMoment(order=..., bound=..., range=(lower, upper)), in texts "
            "'bounded-moment order=... bound=... range=LOWER,UPPER'",
        )
        validate.flag("proof", self.proof)
        validate.fraction("beta", self.beta)
        if validate.positive("work", self.work) > MOST_WORK:
            raise ArgumentError("work", self.work, "is too large", f"give at most {MOST_WORK}")

    def plan(self, budget: Budget, shape: PublicShape) -> CoverPlan:
        """Everything decided before data are read. Raises InfeasibleError (also for too much
        work)."""
        relation, d = budget.neighbors, shape.dimension
        if relation != REPLACE_ONE:
            raise ArgumentError(
                "neighbors",
                relation,
                "is not supported by the cover",
                "use neighbors='replace-one'",
            )
        n = shape.number()
        if d > 3:
            raise InfeasibleError(
                f"a cover in {d} dimensions has too many points", "use pm.HeavyTailedMean"
            )
        if self.moment.range is None or budget.is_zcdp:
            raise InfeasibleError(
                "the cover requires a public range and epsilon",
                "give BoundedMoment(..., range=(lower, upper)) and epsilon",
            )
        common = HeavyTailedNumbers(
            budget, relation, n, d, self.moment, "calibrated", float(self.beta)
        )
        needs = CoarseNeeds(
            d, n, common.spread, self.moment.ranges(d), relation, self.beta, self.proof
        )
        found, refused = [], None
        for coarse in (needs.public(), needs.selection()):
            whole = budget.pure_epsilon()
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
            found = CoverPlan(common, coarse, epsilon, radius, accuracy, reach, min(per_axis, most))
            if most < 2 or (self.proof and per_axis > most):
                raise InfeasibleError(
                    f"the cover would take more than {self.work:g} projections",
                    "use pm.HeavyTailedMean, which requires one pass per round",
                )
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
        n, epsilon, beta = plan.common.n, float(plan.epsilon), plan.common.beta
        count = plan.per_axis**plan.common.dimension
        if not self.proof:
            return n * epsilon >= plan.radius / plan.accuracy * math.log(count / beta)
        level = math.log(4 * count * len(directions(plan.common.dimension)) / beta)
        sampling = math.sqrt(2 * level / n) * plan.common.spread + 2 * plan.radius * level / (3 * n)
        margin = n * epsilon >= 8 * plan.radius * math.log(2 * count / beta) / plan.accuracy
        return margin and sampling <= plan.accuracy / 4
