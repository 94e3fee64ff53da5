"""An exact spender of pure epsilon for adaptively chosen steps.

Every step takes a rational part of what is left and becomes a mechanism at that price, so that on
every path the prices add up to at most the total. For pure differential privacy that is all that
adaptive composition needs: which step comes next, and at what price, may depend on earlier outputs.
"""

from __future__ import annotations

from fractions import Fraction

from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.privacy.budget import Relation, floor_epsilon


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
