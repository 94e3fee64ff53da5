"""One budget and its shares among the steps of a plan.

A `NoiseBudget` has one law of noise, Laplace or Gaussian, for all steps. A `PureBudgetSpender` has
pure epsilon for steps that are chosen adaptively: every step takes a rational part of what is left
and becomes a mechanism at that price, so that on every path the prices add up to at most the total.
For pure differential privacy that is all that adaptive composition needs: which step comes next,
and at what price, may depend on earlier outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeVar

from privmean.array_types import Floats, Integers
from privmean.inference.mean_interval import Law
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import GaussianCounts, NoisyCounts
from privmean.pipeline import HasEvents
from privmean.privacy.budget import Budget, Relation, floor_epsilon
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent

Norm = Literal["l1", "l2"]
Counts = NoisyCounts | GaussianCounts


@dataclass(frozen=True)
class NoiseBudget:
    """Strengths of the parts of one law: shares of epsilon, or of mu squared."""

    law: Law
    strength: float | Fraction

    @property
    def laplace(self) -> bool:
        return self.law == "laplace"

    @property
    def word(self) -> str:
        return "Laplace" if self.laplace else "Gaussian"

    @property
    def norm(self) -> Norm:
        """In which the answers of one person are limited."""
        return "l1" if self.laplace else "l2"

    @property
    def unit(self) -> float:
        """The deviation of noise of scale 1."""
        return math.sqrt(2) if self.laplace else 1.0

    def longest(self, entries: int) -> float:
        """The length of a row of so many entries of 1."""
        return float(entries) if self.laplace else math.sqrt(entries)

    def epsilon(self, share: Fraction) -> Fraction:
        """Of a choice: under Gaussian composition one whose zCDP is that share."""
        if self.laplace:
            return Fraction(self.strength) * share
        found = 2 * float(self.strength) * math.sqrt(share)
        return Fraction(max(1, math.floor(found * 2**40)), 2**40)

    def share(self, epsilon: float) -> Fraction:
        """Of a choice at this epsilon, in thousandths: the inverse of `epsilon`, rounded up."""
        part = epsilon / float(self.strength)
        return Fraction(math.ceil(1000 * (part if self.laplace else part * part / 4)), 1000)

    def part(self, share: Fraction) -> float | Fraction:
        if self.laplace:
            return Fraction(self.strength) * share
        return float(self.strength) * math.sqrt(share)

    def sums(self, share: Fraction) -> dict[str, Any]:
        """The keyword of a mechanism of sums."""
        return {"epsilon" if self.laplace else "mu": self.part(share)}

    def counts(self, name: str, share: Fraction, relation: Relation, moved: int) -> Counts:
        """Noisy counts, `moved` of which one person changes by one each."""
        found = self.sums(share)
        if self.laplace:
            return NoisyCounts.at(name, found["epsilon"], relation, moved, moved)
        return GaussianCounts.at(name, found["mu"], relation, moved)


P = TypeVar("P", bound=HasEvents)


def plans_by_law(budget: Budget, made: Callable[[NoiseBudget], P]) -> list[P]:
    """The plan of each law that a budget allows, at the largest strength that it admits."""
    laws: tuple[Law, ...] = ("laplace", "gaussian")
    if budget.is_pure:
        laws = ("laplace",)
    elif budget.is_zcdp:
        laws = ("gaussian",)

    def strength(law: Law) -> float | Fraction:
        if law == "laplace":
            return budget.pure_epsilon()
        if budget.rho is not None:
            return math.sqrt(2 * budget.rho) * (1 - 1e-9)
        bill = lambda t: made(NoiseBudget(law, t)).events  # noqa: E731
        return calibrate(bill, budget, grid=False, tolerance=1e-6)

    return [made(NoiseBudget(law, strength(law))) for law in laws]


def ask_counts(curator: Curator, mechanism: Counts, exact: Integers) -> Floats:
    if isinstance(mechanism, GaussianCounts):
        return curator.ask(mechanism, [exact])[0]
    return curator.ask(mechanism, exact).astype(float)


@lru_cache(maxsize=256)
def stages_mu(budget: Budget, threshold_delta: float, columns: int) -> float:
    """The mu of all Gaussian stages together, with room for their lattice corrections."""
    if budget.rho is not None:
        return budget.gaussian_mu() * (1 - 1e-9)
    answers = 10 * columns  # two pair counts, two counts, three and three sums a column
    steps = 2.0**20
    left = Budget(epsilon=budget.epsilon, delta=budget.delta - threshold_delta)

    def bill(mu: float) -> Sequence[PrivacyEvent]:
        return (Gaussian("all stages", mu * steps, steps, answers),)

    return calibrate(bill, left, grid=False) * (1 - 1e-9)


class PureBudgetSpender:
    """What is left of `total`, for neighbors of `relation`. unit: parts of a person that counts
    are in, where a person is spread over several answers. shares: what was spent so far, as parts
    of the total by purpose."""

    def __init__(self, total: Fraction, relation: Relation, unit: int = 1) -> None:
        self.relation = relation
        self.unit = unit
        self.total = total
        self.left = total
        self.shares: dict[str, float] = {}
        self._noted = total

    @property
    def unnoted(self) -> Fraction:
        """What was taken since the last `note`."""
        return self._noted - self.left

    def label_next(self, purpose: str) -> None:
        """What was taken since the last note was for this."""
        self.shares[purpose] = float(self.unnoted / self.total)
        self._noted = self.left

    def spent_by_label(self) -> dict[str, float]:
        """The shares of a run that ends here: what is left stays unspent."""
        self.shares["unspent"] = float(self.left / self.total)
        return self.shares

    def share(self, part: float) -> Fraction:
        """A fraction of what is left, rounded down to a multiple of 2^-40."""
        return floor_epsilon(self.left * Fraction(part))

    def spend(self, epsilon: Fraction) -> Fraction:
        """Take `epsilon` out."""
        if not 0 < epsilon <= self.left:
            raise AssertionError("a step must cost something and no more than is left")
        self.left -= epsilon
        return epsilon

    def counts(self, name: str, epsilon: Fraction, moved: int, spread: int = 1) -> NoisyCounts:
        """Counts of this l1 sensitivity, in people, for `epsilon`, which is taken out."""
        return NoisyCounts.at(name, self.spend(epsilon), self.relation, moved * self.unit, spread)
