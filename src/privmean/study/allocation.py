"""How the budget of a study is shared among its questions, from public numbers alone.

A part of the budget is a strength: doubling it halves the noise of pure mechanisms. Questions with
a wanted error get the least strength that reaches it; the others share what is left in proportion
to weight^(1/3) for pure and (epsilon, delta) budgets, weight^(1/4) for rho, which minimises the
weighted sum of squared errors, each relative to what the question would have alone
(docs/proofs/study.md, section 2). Three ways of composing are tried, all of them valid:

* sums: parts of epsilon (and delta) that add up;
* curves: the same parts, all made larger by the largest factor for which the lines of the whole
  bill still compose to the budget;
* rho: parts of the largest rho that converts to (epsilon, delta).

The way with the least noise is taken, if it makes no question worse than sums do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from privmean.asking.road import planned
from privmean.errors import ArgumentError, Infeasible
from privmean.people.shape import Shape
from privmean.privacy.budget import LARGEST_EPSILON, SMALLEST_EPSILON, Budget, as_written
from privmean.privacy.calibrate import within
from privmean.privacy.zcdp import rho_delta
from privmean.road import Plan
from privmean.study.items import Item
from privmean.study.parts import Part, bill, down, significant

SUMS, CURVES, RHO = "sums", "curves", "sums of rho"
FINE = 1e-4  # relative precision of the common factor
DELTA_APART = (0.5, 0.1)  # parts of delta for questions that need one, where curves use the rest
TRIED = 1.02  # factor that curves must allow at once to be searched further


@dataclass(frozen=True)
class Allotment:
    """The parts of all questions. way: how they compose; factor: how much larger every free part is
    than by sums."""

    parts: tuple[Part, ...]
    way: str
    factor: float = 1.0


def allot(items: Sequence[Item], shapes: Mapping[str, Shape], budget: Budget) -> Allotment:
    """The best of the ways. Raises Infeasible, saying what would do, if there is none."""
    work = _Work(tuple(items), shapes, budget)
    plain = work.sums()
    found = [plain]
    if budget.epsilon is not None and budget.delta > 0:
        ways: list[Callable[[Allotment], Allotment | None]] = [
            *(partial(work.curves, kept=kept) for kept in DELTA_APART),
            work.rho,
        ]
        for way in ways:
            try:
                other = way(plain)
            except (Infeasible, ArgumentError):
                continue
            if other is not None and not work.worse(other, plain):
                found.append(other)
    return min(found, key=work.noise)


def least_epsilon(
    items: Sequence[Item], shapes: Mapping[str, Shape], budget: Budget
) -> float | None:
    """The least epsilon (at the same delta) at which everything wanted can be had, to 1 %, rounded
    up; None if no epsilon is enough."""

    def enough(epsilon: float) -> bool:
        try:
            larger = Budget(epsilon, budget.delta, neighbors=budget.neighbors)
            _Work(tuple(items), shapes, larger, advising=False).sums()
        except (Infeasible, ArgumentError):
            return False
        return True

    low, high = SMALLEST_EPSILON, LARGEST_EPSILON
    if not enough(high):
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    return math.ceil(high / unit - 1e-9) * unit


@dataclass(frozen=True)
class _Work:
    items: tuple[Item, ...]
    shapes: Mapping[str, Shape]
    budget: Budget
    advising: bool = True  # whether a refusal looks for what would do

    # --- plans and what they predict --------------------------------------------------------------
    def plan(self, item: Item, budget: Budget) -> Plan:
        return planned(item.question, self.shapes[item.name], budget)

    def part(self, item: Item, budget: Budget) -> Part:
        return Part.of(item.name, budget, self.plan(item, budget))

    def error(self, item: Item, budget: Budget) -> float:
        """The predicted error; infinite where the question cannot be answered."""
        try:
            return self.plan(item, budget).predict(item.guess_sd or 1.0)["rmse"]
        except Infeasible:
            return math.inf

    def _noises(self, found: Allotment) -> list[float]:
        return [
            noise_of(part.plan, item.guess_sd or 1.0)
            for part, item in zip(found.parts, self.items, strict=True)
        ]

    def noise(self, found: Allotment) -> float:
        """The weighted mean logarithm of the predicted noise."""
        logs = [math.log(max(x, 1e-300)) for x in self._noises(found)]
        weights = [item.weight for item in self.items]
        pairs = zip(logs, weights, strict=True)
        return math.fsum(w * x for x, w in pairs) / math.fsum(weights)

    def worse(self, found: Allotment, than: Allotment) -> bool:
        """Whether some question has more noise than before."""
        pairs = zip(self._noises(found), self._noises(than), strict=True)
        return any(a > b * (1 + 1e-9) for a, b in pairs)

    # --- sums -------------------------------------------------------------------------------------
    def sums(self) -> Allotment:
        """Parts that add up to the budget."""
        if self.budget.rho is not None:
            return Allotment(self._by_rho(self.budget.rho), RHO)
        users = self._users()
        deltas = self._deltas(users, self.budget.delta)
        epsilons = self._epsilons(deltas)
        return Allotment(self._parts(epsilons, deltas), SUMS)

    def _users(self) -> frozenset[str]:
        """The questions that a part of delta serves: they cannot do without, or have less noise."""
        if not self.budget.delta:
            return frozenset()
        number = len(self.items)
        each = down(Fraction(self.budget.epsilon or 0) / number)
        delta = significant(self.budget.delta / number)
        found = []
        for item in self.items:
            alone = self._noise_at(item, self.share(each))
            beside = self._noise_at(item, self.share(each, delta))
            if beside < alone * (1 - 1e-6):
                found.append(item.name)
        return frozenset(found)

    def _noise_at(self, item: Item, budget: Budget) -> float:
        try:
            return noise_of(self.plan(item, budget), item.guess_sd or 1.0)
        except (Infeasible, ArgumentError):
            return math.inf

    def _deltas(self, users: frozenset[str], delta: float) -> dict[str, float]:
        each = significant(delta / max(len(users), 1)) if users else 0.0
        return {item.name: each if item.name in users else 0.0 for item in self.items}

    def share(self, epsilon: float, delta: float = 0.0) -> Budget:
        return Budget(epsilon, delta, neighbors=self.budget.neighbors)

    def _wanted(self, deltas: Mapping[str, float]) -> dict[str, float]:
        """The least epsilon of every question with a wanted error."""
        found = {}
        for item in self.items:
            if item.error is not None:
                at = partial(self.share, delta=deltas[item.name])
                found[item.name] = self._reached(item, at, LARGEST_EPSILON)
        return found

    def _reached(self, item: Item, at: Callable[[float], Budget], most: float) -> float:
        """The least strength at which the predicted error is as wanted; its own plan says so."""
        assert item.error is not None
        low, high = SMALLEST_EPSILON**2, most
        if self.error(item, at(high)) > item.error:
            raise Infeasible(
                f"{item.name}: an error of {item.error:g} is below what these persons show without "
                "any privacy noise",
                "want a larger error, or ask about more persons",
            )
        low = max(low, SMALLEST_EPSILON)
        while high / low > 1 + 1e-6:
            middle = math.sqrt(low * high)
            reached = self.error(item, at(middle)) <= item.error
            low, high = (low, middle) if reached else (middle, high)
        return math.ceil(high * 10**9) / 10**9

    def _epsilons(self, deltas: Mapping[str, float]) -> dict[str, float]:
        """Wanted strengths first, the rest by weight."""
        total = as_written(self.budget.epsilon or 0.0)
        wanted = self._wanted(deltas)
        left = total - sum((as_written(x) for x in wanted.values()), Fraction(0))
        free = [item for item in self.items if item.name not in wanted]
        if left < 0 or (free and left <= 0):
            needed = float(total - left)
            raise Infeasible(
                f"the wanted errors need epsilon={needed:.4g} and the study has {float(total):g}",
                self._remedy(),
            )
        weights = {item.name: item.weight ** (1 / 3) for item in free}
        whole = math.fsum(weights.values())
        exactly = 1 - Fraction(1, 10**14)  # weights are doubles: their shares may add up to more
        shares = {name: down(left * Fraction(w / whole) * exactly) for name, w in weights.items()}
        return {item.name: wanted.get(item.name) or shares[item.name] for item in self.items}

    def _remedy(self) -> str:
        if not self.advising:
            return "want larger errors"
        needed = least_epsilon(self.items, self.shapes, self.budget)
        said = [] if needed is None else [f"epsilon={needed:.3g} would do"]
        wishes = [item for item in self.items if item.error is not None]
        for item in wishes if len(wishes) > 1 else ():
            rest = [other for other in self.items if other is not item]
            found = least_epsilon(rest, self.shapes, self.budget)
            if found is not None:
                said.append(f"without {item.name} epsilon={found:.3g}")
        return "; ".join([*said, "or want larger errors"])

    def _parts(
        self, epsilons: Mapping[str, float], deltas: Mapping[str, float]
    ) -> tuple[Part, ...]:
        found = []
        for item in self.items:
            epsilon = epsilons[item.name]
            if epsilon < SMALLEST_EPSILON:
                raise Infeasible(f"nothing is left for {item.name}", self._remedy())
            try:
                found.append(self.part(item, self.share(epsilon, deltas[item.name])))
            except Infeasible as error:
                raise Infeasible(
                    f"{item.name}, with epsilon={epsilon:.4g} of the study: {error}",
                    "give the study a larger budget, the question a larger weight, or ask less",
                ) from None
        return tuple(found)

    # --- curves -----------------------------------------------------------------------------------
    def curves(self, plain: Allotment, kept: float) -> Allotment | None:
        """All free parts larger by the factor that the composed lines allow; kept: the part of
        delta for questions that need one."""
        users = frozenset(part.name for part in plain.parts if part.budget.delta)
        apart = self.budget.delta * kept if users else 0.0
        deltas = self._deltas(users, apart)
        wanted = {item.name for item in self.items if item.error is not None}
        first = {part.name: part.budget.epsilon or 0.0 for part in plain.parts}

        def at(factor: float) -> tuple[Part, ...] | None:
            epsilons = {
                name: x if name in wanted else down(Fraction(x) * Fraction(factor))
                for name, x in first.items()
            }
            parts = self._parts(epsilons, deltas)
            return parts if within(bill(parts), self.budget) else None

        best = at(TRIED)
        if best is None or len(wanted) == len(self.items):
            return None
        low, high = TRIED, TRIED
        while best is not None and high < 64:
            low, found, high = high, best, high * 1.2
            best = at(high)
        while high / low > 1 + FINE:
            middle = math.sqrt(low * high)
            tried = at(middle)
            if tried is None:
                high = middle
            else:
                low, found = middle, tried
        return Allotment(found, CURVES, low)

    # --- rho --------------------------------------------------------------------------------------
    def rho(self, plain: Allotment) -> Allotment | None:
        """Parts of the largest rho that converts to the budget."""
        assert self.budget.epsilon is not None
        return Allotment(self._by_rho(largest_rho(self.budget.epsilon, self.budget.delta)), RHO)

    def _by_rho(self, rho: float) -> tuple[Part, ...]:
        def at(x: float) -> Budget:
            return Budget(rho=x, neighbors=self.budget.neighbors)

        total = as_written(rho)
        wanted = {
            item.name: self._reached(item, at, LARGEST_EPSILON**2 / 2)
            for item in self.items
            if item.error is not None
        }
        left = total - sum((as_written(x) for x in wanted.values()), Fraction(0))
        free = [item for item in self.items if item.name not in wanted]
        if left < 0 or (free and left <= 0):
            raise Infeasible(
                f"the wanted errors need rho={float(total - left):.4g} and the study has {rho:g}",
                "give the study a larger budget, or want larger errors",
            )
        weights = {item.name: math.sqrt(item.weight) for item in free}
        whole = math.fsum(weights.values())
        parts = []
        for item in self.items:
            x = wanted.get(item.name)
            if x is None:
                x = significant(float(left) * weights[item.name] / whole * (1 - 1e-11))
            parts.append(self.part(item, at(x)))
        return tuple(parts)


def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho, rounded down, whose sums of rho are (epsilon, delta)-DP."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_delta(middle, epsilon) <= delta else (low, middle)
    return significant(low * (1 - 1e-9))


def noise_of(plan: Plan, guess_sd: float) -> float:
    """The predicted deviation of the privacy noise, by whichever name a plan tells it."""
    told = plan.predict(guess_sd)
    for name in ("privacy_noise", "noise"):
        if name in told:
            return told[name]
    return math.sqrt(max(told["rmse"] ** 2 - told.get("sampling", 0.0) ** 2, 0.0))
