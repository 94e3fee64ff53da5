"""Parts that add up: of epsilon, of (epsilon, delta) or of rho, beside looks that are shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial

from privmean.bisection import bisect
from privmean.central.shared_location import SharedLocationQuery
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.pipeline import Plan
from privmean.privacy.budget import LARGEST_EPSILON, SMALLEST_EPSILON, Budget, exact_fraction
from privmean.privacy.zcdp import rho_delta
from privmean.study.question_share import QuestionShare, down, significant
from privmean.study.shared_locations import (
    Looks,
    columns_used,
    plan_of,
    shared_location_events,
    shared_locations_for,
)
from privmean.study.study_question import StudyQuestion

SUMS, CURVES, RHO = "sums", "curves", "sums of rho"
EXACTLY = 1 - Fraction(1, 10**14)  # weights are doubles: their shares may add up to more
FINE = 1e-6  # relative precision of a strength that is searched


@dataclass(frozen=True)
class BudgetAllocation:
    """The parts of all questions. looks: what they share, by column; way: how all of it composes;
    factor: how much larger every free part is than by sums."""

    parts: tuple[QuestionShare, ...]
    way: str
    factor: float = 1.0
    looks: Looks = field(default_factory=dict)


@dataclass(frozen=True)
class AllocationTask:
    """The questions, what is public of their people, the budget, and the looks that are shared.
    remedy: what a refusal says would do."""

    items: tuple[StudyQuestion, ...]
    shapes: Mapping[str, PublicShape]
    budget: Budget
    remedy: Callable[[], str] = lambda: "want larger errors"
    taken: Looks = field(default_factory=dict)

    def beside(self, looks: Looks) -> AllocationTask:
        """The same with these looks."""
        return replace(self, taken=dict(looks))

    # --- looks ------------------------------------------------------------------------------------
    @cached_property
    def alone(self) -> dict[str, float]:
        """Epsilon of each question if all shared by weight alone, wanted errors left aside."""
        weights = [item.weight ** (1 / 3) for item in self.items]
        total = float(self.budget.pure_epsilon())
        if self.budget.rho is not None:
            weights = [math.sqrt(item.weight) for item in self.items]
            parts = [self.budget.rho * w / math.fsum(weights) for w in weights]
            return {item.name: math.sqrt(2 * x) for item, x in zip(self.items, parts, strict=True)}
        shares = [total * w / math.fsum(weights) for w in weights]
        return {item.name: x for item, x in zip(self.items, shares, strict=True)}

    def looks(self, least: int) -> dict[str, SharedLocationQuery]:
        """Looks that at least so many questions can use."""
        shares = {name: Fraction(x).limit_denominator(2**40) for name, x in self.alone.items()}
        return shared_locations_for(self.items, self.shapes, shares, least)

    @property
    def shared(self) -> frozenset[str]:
        """Columns of which several questions can use a shared location query."""
        return frozenset(self.looks(2))

    # --- plans and what they predict --------------------------------------------------------------
    def plan(self, item: StudyQuestion, own: Budget) -> Plan:
        return plan_of(item.question, self.shapes[item.name], own, self.taken)

    def part(self, item: StudyQuestion, own: Budget, *, summed: bool = False) -> QuestionShare:
        return QuestionShare.of(item.name, self.plan(item, own), summed=summed)

    def error(self, item: StudyQuestion, own: Budget) -> float:
        """The predicted error; infinite where the question cannot be answered."""
        try:
            return self.plan(item, own).predict(item.guess_sd or 1.0)["rmse"]
        except InfeasibleError:
            return math.inf

    def noise_at(self, item: StudyQuestion, own: Budget) -> float:
        """The predicted noise; infinite where the question cannot be answered."""
        try:
            return noise_of(self.plan(item, own), item.guess_sd or 1.0)
        except (InfeasibleError, ArgumentError):
            return math.inf

    def noises(self, found: BudgetAllocation) -> list[float]:
        return [
            noise_of(part.plan, item.guess_sd or 1.0)
            for part, item in zip(found.parts, self.items, strict=True)
        ]

    def noise(self, found: BudgetAllocation) -> float:
        """The weighted mean logarithm of the predicted noise."""
        logs = [math.log(max(x, 1e-300)) for x in self.noises(found)]
        weights = [item.weight for item in self.items]
        pairs = zip(logs, weights, strict=True)
        return math.fsum(w * x for x, w in pairs) / math.fsum(weights)

    def worse(self, found: BudgetAllocation, than: BudgetAllocation) -> bool:
        """Whether some question has more noise than before."""
        pairs = zip(self.noises(found), self.noises(than), strict=True)
        return any(a > b * (1 + 1e-9) for a, b in pairs)

    def as_quiet(
        self, item: StudyQuestion, at: Callable[[float], Budget], most: float, aim: float
    ) -> float:
        """The least strength up to `most` with at most the noise `aim`; infinite if none."""
        if self.noise_at(item, at(most)) > aim * (1 + 1e-12):
            return math.inf
        low, high = most * 1e-4, most
        while high / low > 1 + FINE:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.noise_at(item, at(middle)) <= aim else (middle, high)
        return high

    def _needed(self, item: StudyQuestion, at: Callable[[float], Budget], alone: float) -> float:
        """The strength of its own lines with which a question that works from a shared location
        query has the noise that it would have alone."""
        if not any(column in self.taken for column in columns_used(item.question)):
            return alone
        aim = self.beside({}).noise_at(item, at(alone))
        found = self.as_quiet(item, at, alone, aim) if math.isfinite(aim) else math.inf
        return min(found, alone)

    # --- parts of epsilon -------------------------------------------------------------------------
    def sums(self) -> BudgetAllocation:
        """Parts that add up to the budget."""
        if self.budget.rho is not None:
            return BudgetAllocation(self._by_rho(self.budget.rho), RHO, looks=self.taken)
        deltas = self.deltas(self._users(), self.budget.delta)
        return BudgetAllocation(self.parts(self._epsilons(deltas), deltas), SUMS, looks=self.taken)

    def _users(self) -> frozenset[str]:
        """The questions that a part of delta serves: they cannot do without, or have less noise."""
        if not self.budget.delta:
            return frozenset()
        number = len(self.items)
        each = down(Fraction(self.budget.epsilon or 0) / number)
        delta = significant(self.budget.delta / number)
        found = []
        for item in self.items:
            alone = self.noise_at(item, self.share(each))
            beside = self.noise_at(item, self.share(each, delta))
            if beside < alone * (1 - 1e-6):
                found.append(item.name)
        return frozenset(found)

    def deltas(self, users: frozenset[str], delta: float) -> dict[str, float]:
        each = significant(delta / max(len(users), 1)) if users else 0.0
        return {item.name: each if item.name in users else 0.0 for item in self.items}

    def share(self, epsilon: float, delta: float = 0.0) -> Budget:
        return Budget(epsilon, delta, neighbors=self.budget.neighbors)

    def _reached(self, item: StudyQuestion, at: Callable[[float], Budget], most: float) -> float:
        """The least strength at which the predicted error is as wanted; its own plan says so."""
        assert item.error is not None
        low, high = SMALLEST_EPSILON**2, most
        if self.error(item, at(high)) > item.error:
            raise InfeasibleError(
                f"{item.name}: an error of {item.error:g} is below the sampling error",
                "request a larger error, or ask about more people",
            )
        low = max(low, SMALLEST_EPSILON)
        while high / low > 1 + FINE:
            middle = math.sqrt(low * high)
            reached = self.error(item, at(middle)) <= item.error
            low, high = (low, middle) if reached else (middle, high)
        return math.ceil(high * 10**9) / 10**9

    def _epsilons(self, deltas: Mapping[str, float]) -> dict[str, float]:
        """Looks and wanted strengths first, the rest by weight."""
        total = exact_fraction(self.budget.epsilon or 0.0)
        spent = sum((look.pure for look in self.taken.values()), Fraction(0))
        most = LARGEST_EPSILON - float(spent)  # with the looks, the most that a budget can be
        wanted = {
            item.name: self._reached(item, partial(self.share, delta=deltas[item.name]), most)
            for item in self.items
            if item.error is not None
        }
        left = total - spent - sum((exact_fraction(x) for x in wanted.values()), Fraction(0))
        free = [item for item in self.items if item.name not in wanted]
        if left < 0 or (free and left <= 0):
            needed = float(total - left)
            raise InfeasibleError(
                f"the requested errors require epsilon={needed:.4g}, but the study has "
                f"{float(total):g}",
                self.remedy(),
            )
        weights = {item.name: self._needed_epsilon(item, deltas[item.name]) for item in free}
        whole = math.fsum(weights.values())
        shares = {name: down(left * Fraction(w / whole) * EXACTLY) for name, w in weights.items()}
        return {item.name: wanted.get(item.name) or shares[item.name] for item in self.items}

    def _needed_epsilon(self, item: StudyQuestion, delta: float) -> float:
        alone = self.alone[item.name]
        return self._needed(item, partial(self.share, delta=delta), alone)

    def parts(
        self, epsilons: Mapping[str, float], deltas: Mapping[str, float]
    ) -> tuple[QuestionShare, ...]:
        found = []
        for item in self.items:
            epsilon = epsilons[item.name]
            if epsilon < SMALLEST_EPSILON:
                raise InfeasibleError(f"nothing is left for {item.name}", self.remedy())
            try:
                own = self.share(epsilon, deltas[item.name])
                found.append(self.part(item, own, summed=True))
            except InfeasibleError as error:
                raise InfeasibleError(
                    f"{item.name}, with epsilon={epsilon:.4g} of the study: {error}",
                    "give the study a larger budget, the question a larger weight, or ask less",
                ) from None
        return tuple(found)

    # --- parts of rho -----------------------------------------------------------------------------
    def converted(self) -> BudgetAllocation:
        """Parts of the largest rho that converts to the budget."""
        assert self.budget.epsilon is not None
        rho = largest_rho(self.budget.epsilon, self.budget.delta)
        return BudgetAllocation(self._by_rho(rho), RHO, looks=self.taken)

    def rho(self, x: float) -> Budget:
        return Budget(rho=x, neighbors=self.budget.neighbors)

    def _by_rho(self, rho: float) -> tuple[QuestionShare, ...]:
        spent = math.fsum(line.rho for line in shared_location_events(tuple(self.taken.values())))
        total = exact_fraction(rho) - Fraction(spent) * (1 + Fraction(1, 10**12))
        wanted = {
            item.name: self._reached(item, self.rho, LARGEST_EPSILON**2 / 2 - 2 * spent)
            for item in self.items
            if item.error is not None
        }
        left = total - sum((exact_fraction(x) for x in wanted.values()), Fraction(0))
        free = [item for item in self.items if item.name not in wanted]
        if left < 0 or (free and left <= 0):
            raise InfeasibleError(
                f"the requested errors require rho={float(total - left):.4g}, but the study has "
                f"{rho:g}",
                "give the study a larger budget, or request larger errors",
            )
        weights = {item.name: math.sqrt(item.weight) for item in free}
        whole = math.fsum(weights.values())
        alone = {name: rho * w / whole for name, w in weights.items()}
        needed = {item.name: self._needed(item, self.rho, alone[item.name]) for item in free}
        whole = math.fsum(needed.values())
        parts = []
        for item in self.items:
            x = wanted.get(item.name)
            if x is None:
                x = significant(float(left) * needed[item.name] / whole * (1 - 1e-11))
            parts.append(self.part(item, self.rho(x)))
        return tuple(parts)


def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho, rounded down, whose sums of rho are (epsilon, delta)-DP."""
    low, _ = bisect(lambda rho: rho_delta(rho, epsilon) <= delta, 0.0, epsilon, 100)
    return significant(low * (1 - 1e-9))


def noise_of(plan: Plan, guess_sd: float) -> float:
    """The predicted deviation of the privacy noise, by whichever name a plan tells it."""
    told = plan.predict(guess_sd)
    for name in ("privacy_noise", "noise"):
        if name in told:
            return told[name]
    return math.sqrt(max(told["rmse"] ** 2 - told.get("sampling", 0.0) ** 2, 0.0))
