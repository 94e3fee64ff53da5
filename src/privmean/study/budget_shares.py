"""Shares of a study's budget.

What one question gets of a study's budget, and the lines that it puts in the study's accounting.

A line is fixed before any data are seen (docs/proofs/study.md, section 1). A plan whose every price
is a public number, and which asks all of its lines or bills them anyhow, puts its own lines on the
accounting. Any other plan is one line: it keeps its part on every path, whatever it asks.

Parts of a study's budget that make the errors of its questions least, from public numbers.

The error of a question is read over the sampling error that it would have without privacy noise;
the weighted geometric mean of these is made least. docs/proofs/study.md, section 2.

Parts grown by one factor as far as the lines of the whole accounting compose to the budget.

docs/proofs/study.md, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from scipy.optimize import brentq

from privmean.array_types import Floats
from privmean.bisection import bisect, bisect_ratio
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.means.region_mean import SharedLocationQuery
from privmean.pipeline import Plan
from privmean.privacy.budget import LARGEST_EPSILON, SMALLEST_EPSILON, Budget, exact_fraction
from privmean.privacy.compose import total_delta, within
from privmean.privacy.gdp import rho_delta
from privmean.privacy.privacy_events import Approximate, Concentrated, PrivacyEvent, Pure
from privmean.study.shared_locations import (
    Looks,
    SharedLocationPlan,
    StudyQuestion,
    plan_of,
    shared_location_events,
    shared_locations_for,
)

DIGITS = 12  # decimals of an epsilon, so that sums of parts are exact


@dataclass(frozen=True)
class QuestionShare:
    """One question's budget, its plan under it, and its lines in the accounting of the study. own:
    what those lines may cost; with what looks cost that it shares, that is its budget by itself."""

    name: str
    plan: Plan
    own: Budget
    lines: tuple[PrivacyEvent, ...]

    @classmethod
    def of(cls, name: str, plan: Plan, *, summed: bool = False) -> QuestionShare:
        """summed: its part adds up with others: lines that keep a delta by a curve of their own do
        not, and are one line."""
        inner = plan.inner if isinstance(plan, SharedLocationPlan) else plan
        own = plan.own if isinstance(plan, SharedLocationPlan) else plan.budget
        fixed = inner.fixed and not (summed and own.delta)
        lines = inner.events if fixed else (whole(own),)
        named = tuple(replace(item, name=f"{name}: {item.name}") for item in lines)
        return cls(name, plan, own, named)

    @property
    def budget(self) -> Budget:
        return self.plan.budget

    @property
    def looks(self) -> tuple[SharedLocationQuery, ...]:
        """The looks that the question works from."""
        return self.plan.looks if isinstance(self.plan, SharedLocationPlan) else ()

    @property
    def size(self) -> float:
        """How large its own part is: epsilon, or the epsilon of a pure part of that rho."""
        return float(self.own.pure_epsilon())

    @property
    def rho(self) -> float:
        """zCDP of its own lines."""
        return math.fsum(line.rho for line in self.lines)


def whole(budget: Budget) -> PrivacyEvent:
    """A question as one line: what it may lose on any path."""
    words = "all answers of the question, within its part of the budget"
    relation = budget.neighbors
    if budget.rho is not None:
        return Concentrated("whole", budget.rho, neighbors=relation, sensitivity_text=words)
    assert budget.epsilon is not None
    if budget.delta:
        return Approximate(
            "whole",
            exact_fraction(budget.epsilon),
            budget.delta,
            neighbors=relation,
            sensitivity_text=words,
        )
    return Pure("whole", exact_fraction(budget.epsilon), neighbors=relation, sensitivity_text=words)


def down(value: Fraction | float, digits: int = DIGITS) -> float:
    """The largest decimal of so many digits after the point that is at most `value`.

    It is its own shortest text, so that budgets made of such numbers add up exactly.
    """
    unit = 10**digits
    exact = Fraction(value)
    found = float(Fraction(exact.numerator * unit // exact.denominator, unit))
    return found if exact_fraction(found) <= exact else down(exact - Fraction(2, unit), digits)


def significant(value: float) -> float:
    """The same to DIGITS significant digits, for numbers as small as a delta."""
    text = f"{value:.{DIGITS - 1}e}"
    found = float(text)
    if exact_fraction(found) > Fraction(value):
        found = float(f"{found * (1 - 10.0 ** (1 - DIGITS)):.{DIGITS - 1}e}")
    return found


def bill(
    parts: Sequence[QuestionShare], looks: Sequence[SharedLocationQuery] = ()
) -> tuple[PrivacyEvent, ...]:
    """The lines of all looks, once each, then those of all questions."""
    return (*shared_location_events(looks), *(line for part in parts for line in part.lines))


SUMS, CURVES, RHO = "sums", "curves", "sums of rho"
EXACTLY = 1 - Fraction(1, 10**11)  # shares are doubles: they may add up to more
FINE = 1e-6  # relative precision of a part that is searched
TURNS = 4  # noise is nearly a power of the part: the fourth moves no part by 1 %
HOPELESS = 1e3  # square of the ratio taken for a question that its part cannot answer
Planner = Callable[[StudyQuestion, float], Plan | None]


@dataclass(frozen=True)
class BudgetAllocation:
    """The parts of all questions. looks: what they share, by column; way: how all of it
    composes."""

    parts: tuple[QuestionShare, ...]
    way: str
    looks: Looks = field(default_factory=dict)

    @property
    def power(self) -> int:
        """Of a part, over the square of the noise: 2 for epsilon, 1 for rho."""
        return 2 if self.way == SUMS else 1

    @property
    def sizes(self) -> list[float]:
        """The parts in numbers that add up: epsilon, or zCDP."""
        return [part.size if self.way == SUMS else part.rho for part in self.parts]


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
    def looks(self, least: int) -> dict[str, SharedLocationQuery]:
        """Looks that at least so many questions can use. Each costs what its dearest user would
        spend with a share by weight alone."""
        weights = [item.weight ** (1 / 3) for item in self.items]
        if self.budget.rho is not None:
            weights = [item.weight**0.25 for item in self.items]
            whole = math.sqrt(math.fsum(w * w for w in weights))
        else:
            whole = math.fsum(weights)
        total = float(self.budget.pure_epsilon())
        shares = {
            item.name: Fraction(total * w / whole).limit_denominator(2**40)
            for item, w in zip(self.items, weights, strict=True)
        }
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

    def tried(self, item: StudyQuestion, own: Budget) -> QuestionShare | None:
        """The same; None where the question cannot be answered so."""
        try:
            return self.part(item, own)
        except (InfeasibleError, ArgumentError):
            return None

    def error(self, item: StudyQuestion, own: Budget) -> float:
        """The predicted error; infinite where the question cannot be answered."""
        found = self.tried(item, own)
        return math.inf if found is None else found.plan.predict(guess_of(item))["rmse"]

    def value(self, found: BudgetAllocation) -> float:
        """What is made least."""
        ratios = [ratio_of(item, part.plan) for item, part in self.pairs(found.parts)]
        return math.fsum(
            item.weight * math.log1p(x * x) for item, x in zip(self.items, ratios, strict=True)
        )

    def pairs(
        self, parts: Sequence[QuestionShare]
    ) -> Sequence[tuple[StudyQuestion, QuestionShare]]:
        return list(zip(self.items, parts, strict=True))

    # --- the least errors -------------------------------------------------------------------------
    def divided(self, total: float, power: int, at: Planner) -> dict[str, float]:
        """Parts of what is left for the questions without a wanted error, each at least what its
        question can be answered with. at: the plan of a part, None where there is none."""
        free = [item for item in self.items if item.error is None]
        least: dict[str, float] = {}
        while True:
            some = [item for item in free if item.name not in least]
            rest = total - math.fsum(least.values())
            if free and (rest < 0 or (some and rest <= 0)):
                raise InfeasibleError("the parts are too small for the questions", self.remedy())
            found = least | self._divided(some, rest, power, at)
            short = [item for item in some if at(item, found[item.name]) is None]
            if not short:
                return found
            for item in short:  # the least part, rounded up; all where none is known to be enough
                low, least[item.name] = found[item.name], total
                if at(item, total) is not None:
                    lacks = partial(_lacks, at, item)
                    least[item.name] = bisect_ratio(lacks, low, total, 1 + FINE)[1]

    def _divided(
        self,
        items: Sequence[StudyQuestion],
        total: float,
        power: int,
        at: Planner,
    ) -> dict[str, float]:
        if not items:
            return {}
        weights = np.array([item.weight for item in items])
        sizes = total * weights / weights.sum()
        for _ in range(TURNS):
            plans = [at(item, size) for item, size in zip(items, sizes.tolist(), strict=True)]
            ratios = [
                HOPELESS if plan is None else ratio_of(item, plan) ** 2
                for item, plan in zip(items, plans, strict=True)
            ]
            sizes = least_errors(np.array(ratios) * sizes**power, weights, total, power)
        return {item.name: size for item, size in zip(items, sizes.tolist(), strict=True)}

    # --- parts that add up ------------------------------------------------------------------------
    def sums(self) -> BudgetAllocation:
        """Parts that add up to the budget: what looks cost, what wanted errors need, the rest."""
        whole, events = self.budget.rho, shared_location_events(tuple(self.taken.values()))
        deltas = self.deltas(self._users, self.budget.delta)
        if whole is None:
            way, power, most = SUMS, 2, LARGEST_EPSILON
            spent = sum((look.pure for look in self.taken.values()), Fraction(0))
            whole = self.budget.epsilon or 0.0
        else:
            way, power, most = RHO, 1, LARGEST_EPSILON**2 / 2
            spent = Fraction(math.fsum(line.rho for line in events)) * (1 + Fraction(1, 10**12))

        def own(item: StudyQuestion, x: float) -> Budget:
            if way == RHO:
                return self.rho(significant(x))
            return self.share(down(Fraction(x)), deltas[item.name])

        def plan(item: StudyQuestion, x: float) -> Plan | None:
            found = self.tried(item, own(item, x)) if x > SMALLEST_EPSILON**power else None
            return None if found is None else found.plan

        wanted = self._wanted(own, most - 2 * float(spent))
        left = exact_fraction(whole) - spent - sum(map(exact_fraction, wanted.values()))
        if left < 0 or (len(wanted) < len(self.items) and left <= 0):
            of = "epsilon" if way == SUMS else "rho"
            raise InfeasibleError(
                f"the requested errors require {of}={float(exact_fraction(whole) - left):.4g}, but "
                f"the study has {whole:g}",
                self.remedy(),
            )
        found = wanted | self.divided(float(left * EXACTLY), power, plan)
        parts = []
        for item in self.items:
            budget = own(item, found[item.name])
            try:
                parts.append(self.part(item, budget, summed=way == SUMS))
            except InfeasibleError as error:
                raise InfeasibleError(
                    f"{item.name}, with {budget.describe()} of the study: {error}",
                    "give the study a larger budget, the question a larger weight, or ask less",
                ) from None
        return BudgetAllocation(tuple(parts), way, self.taken)

    @cached_property
    def _users(self) -> frozenset[str]:
        """The questions that cannot be answered without a part of delta."""
        if not self.budget.delta:
            return frozenset()
        each = down(Fraction(self.budget.epsilon or 0) / len(self.items))
        delta = significant(self.budget.delta / len(self.items))
        return frozenset(
            item.name
            for item in self.items
            if self.tried(item, self.share(each)) is None
            and self.tried(item, self.share(each, delta)) is not None
        )

    def deltas(self, users: frozenset[str], delta: float) -> dict[str, float]:
        each = significant(delta / max(len(users), 1)) if users else 0.0
        return {item.name: each if item.name in users else 0.0 for item in self.items}

    def share(self, epsilon: float, delta: float = 0.0) -> Budget:
        return Budget(epsilon, delta, neighbors=self.budget.neighbors)

    def rho(self, x: float) -> Budget:
        return Budget(rho=x, neighbors=self.budget.neighbors)

    def _wanted(
        self, own: Callable[[StudyQuestion, float], Budget], most: float
    ) -> dict[str, float]:
        """The least parts with which predicted errors are as wanted; plans of these very parts say
        so."""
        found = {}
        for item in self.items:
            if item.error is None:
                continue
            wanted = item.error

            def over(x: float, item: StudyQuestion = item, wanted: float = wanted) -> bool:
                return not self.error(item, own(item, x)) <= wanted

            if over(most):
                raise InfeasibleError(
                    f"{item.name}: an error of {item.error:g} is below the sampling error",
                    "request a larger error, or ask about more people",
                )
            _, high = bisect_ratio(over, SMALLEST_EPSILON, most, 1 + FINE)
            found[item.name] = math.ceil(high * 10**9) / 10**9
        return found

    # --- parts of either kind ---------------------------------------------------------------------
    def mixed(self, first: BudgetAllocation, kept: float) -> list[Budget]:
        """For each question a part of epsilon or one of rho, whichever has less noise at the same
        zCDP; all together the largest rho that converts to the budget. kept: the part of delta for
        questions that cannot do without. Wanted errors keep their parts."""
        assert self.budget.epsilon is not None
        rho = largest_rho(self.budget.epsilon, self.budget.delta)
        even = rho / len(self.items)
        users = frozenset(x.name for x in self.items if self._cheaper(x, even, 0.0) is None)
        deltas = self.deltas(users & self._users, self.budget.delta * kept)
        apart = math.fsum(deltas.values())
        rho = largest_rho(self.budget.epsilon, self.budget.delta - apart)
        rho -= math.fsum(line.rho for line in shared_location_events(tuple(self.taken.values())))
        fixed = {
            item.name: part for item, part in self.pairs(first.parts) if item.error is not None
        }
        rho -= math.fsum(part.rho for part in fixed.values())
        if rho <= 0:
            raise InfeasibleError("nothing is left", "")

        def best(item: StudyQuestion, x: float) -> QuestionShare | None:
            return self._cheaper(item, x, deltas[item.name])

        def plan(item: StudyQuestion, x: float) -> Plan | None:
            found = best(item, x)
            return None if found is None else found.plan

        found = replace(self, remedy=str).divided(rho, 1, plan)  # no refusal of it is shown
        chosen = [fixed.get(item.name) or best(item, found[item.name]) for item in self.items]
        return [part.own for part in chosen if part is not None]

    def _cheaper(self, item: StudyQuestion, rho: float, delta: float) -> QuestionShare | None:
        epsilon = math.sqrt(2 * rho)
        pure = self.tried(item, self.share(down(Fraction(epsilon)), delta))
        if delta:
            return pure
        if pure is not None and 0 < pure.rho < rho:  # its lines cost less zCDP than one line would
            larger = down(Fraction(epsilon * math.sqrt(rho / pure.rho)))
            pure = self.tried(item, self.share(larger)) or pure
        both = pure, self.tried(item, self.rho(significant(rho)))
        there = [part for part in both if part is not None]
        return min(there, key=lambda part: ratio_of(item, part.plan), default=None)


def _lacks(at: Planner, item: StudyQuestion, size: float) -> bool:
    return at(item, size) is None


def least_errors(scaled: Floats, weights: Floats, total: float, power: int) -> Floats:
    """Parts x that add up to `total` with the least sum of weights log(1 + scaled/x^power).

    At the minimum x (x^power + scaled) is proportional to power * weights * scaled: a quadratic or
    a cubic equation with one positive root. scaled: squares of noise over sampling error times
    x^power, positive.
    """
    scaled = np.maximum(scaled, 1e-12 * total**power)

    def parts(log_price: float) -> Floats:
        c = power * weights * scaled * math.exp(-log_price)
        if power == 1:
            found: Floats = 2 * c / (scaled + np.sqrt(scaled**2 + 4 * c))
        else:
            inner = 1.5 * c / scaled * np.sqrt(3 / scaled)
            found = 2 * np.sqrt(scaled / 3) * np.sinh(np.arcsinh(inner) / 3)
        return found

    price = brentq(lambda y: math.log(parts(y).sum() / total), -200, 200, xtol=1e-12)
    found = parts(price)
    shares: Floats = found * (total / found.sum())
    return shares


def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho, rounded down, whose sums of rho are (epsilon, delta)-DP."""
    low, _ = bisect(lambda rho: rho_delta(rho, epsilon) <= delta, 0.0, epsilon, 100)
    return significant(low * (1 - 1e-9))


def guess_of(item: StudyQuestion) -> float:
    """The deviation between people that predictions are for; 1 where none is given."""
    return item.guess_sd or 1.0


def ratio_of(item: StudyQuestion, plan: Plan) -> float:
    """Predicted privacy noise over the sampling error: that which is stated, else predicted."""
    if item.scale is not None:
        return noise_of(plan, guess_of(item)) / item.scale
    guess = item.guess_sd
    if guess is None:
        guess = float(getattr(plan, "typical_sd", 1.0))
    told = plan.predict(guess)
    noise = noise_of(plan, guess)
    sampling = told.get("sampling", math.sqrt(max(told["rmse"] ** 2 - noise**2, 0.0)))
    return noise / sampling if sampling > 0 else math.inf


def noise_of(plan: Plan, guess_sd: float) -> float:
    """The predicted deviation of the privacy noise, by whichever name a plan tells it."""
    told = plan.predict(guess_sd)
    for name in ("privacy_noise", "noise"):
        if name in told:
            return told[name]
    return math.sqrt(max(told["rmse"] ** 2 - told.get("sampling", 0.0) ** 2, 0.0))


PRECISE = 1e-4  # relative precision of the common factor
STRIDE, MOST = 1.2, 64.0
STRAIGHT, MOST_TURNS = 12, 40  # tries along a line, before halves


def grow_shares(
    work: AllocationTask, owns: Sequence[Budget], first: float
) -> BudgetAllocation | None:
    """All free parts larger by the factor that the composed lines allow, beginning with `first`;
    None if not even that fits."""
    looks = tuple(work.taken.values())

    def at(factor: float) -> _Tried:
        parts = tuple(
            work.part(item, _grown(item, own, factor))
            for item, own in zip(work.items, owns, strict=True)
        )
        lines = bill(parts, looks)
        assert work.budget.epsilon is not None
        delta = total_delta(lines, work.budget.epsilon)
        return _Tried(factor, parts, delta, within(lines, work.budget, again=False))

    tried = at(first)
    if not tried.fits:
        return None
    if not any(item.error is None for item in work.items):
        return BudgetAllocation(tried.parts, CURVES, work.taken)
    return BudgetAllocation(_largest(at, tried, work.budget.delta).parts, CURVES, work.taken)


def _grown(item: StudyQuestion, own: Budget, factor: float) -> Budget:
    """A part at a factor of strength; a wanted error says its part, which stays."""
    if item.error is not None:
        return own
    if own.rho is not None:
        return Budget(rho=significant(own.rho * factor**2), neighbors=own.neighbors)
    assert own.epsilon is not None
    epsilon = down(Fraction(own.epsilon) * Fraction(factor))
    return Budget(epsilon, own.delta, neighbors=own.neighbors)


@dataclass(frozen=True)
class _Tried:
    """One factor: its parts, the composed delta, and whether the budget holds it."""

    factor: float
    parts: tuple[QuestionShare, ...]
    delta: float
    fits: bool


def _largest(at: Callable[[float], _Tried], first: _Tried, delta: float) -> _Tried:
    """The largest factor that fits, to `PRECISE`: one that was tried itself. The delta is nearly a
    power of the factor: a line through the last two points says where to try next."""
    low, before = first, first
    last = at(min(STRIDE * first.factor, MOST))
    high = None if last.fits else last
    low = last if last.fits else low
    for turn in range(MOST_TURNS):
        if high is not None and high.factor <= low.factor * (1 + PRECISE):
            break
        if low.factor >= MOST:
            break
        guess = _through(before, last, delta)
        step = PRECISE / 3 if turn % 2 else -PRECISE / 3
        guess = min(guess * (1 + step), STRIDE * low.factor, MOST)
        if high is None:
            guess = max(guess, low.factor * (1 + PRECISE / 2))
        elif not low.factor < guess < high.factor or turn > STRAIGHT:
            guess = math.sqrt(low.factor * high.factor)
        before, last = last, at(guess)
        if last.fits:
            low = last
        else:
            high = last
    return low


def _through(one: _Tried, two: _Tried, delta: float) -> float:
    """Where a line through two points of (log factor, log delta) meets the delta."""
    if not (one.delta > 0 and two.delta > 0) or one.delta == two.delta:
        return two.factor * STRIDE
    slope = math.log(two.delta / one.delta) / math.log(two.factor / one.factor)
    if not slope > 0:
        return two.factor * STRIDE
    return two.factor * math.exp(min(math.log(delta / two.delta) / slope, 1.0))
