"""An exact purse of pure epsilon for adaptively chosen steps.

Every step takes a rational part of what is left and leaves a line on the bill, so that on every
path the lines add up to at most the total. For pure differential privacy that is all that adaptive
composition needs: which step comes next, and at what price, may depend on earlier outputs.
"""

from __future__ import annotations

from fractions import Fraction

from privmean.privacy.budget import Relation
from privmean.privacy.loss import Laplace, Loss

TICK = 2**40


def floor_tick(value: Fraction | float) -> Fraction:
    """The largest multiple of 2^-40 that is at most `value`."""
    exact = Fraction(value)
    return Fraction(exact.numerator * TICK // exact.denominator, TICK)


class Wallet:
    """What is left of `total`, and the bill of what was taken, for neighbours of `relation`."""

    def __init__(self, total: Fraction, relation: Relation) -> None:
        self.total = total
        self.relation = relation
        self.left = total
        self.bill: list[Loss] = []

    def share(self, part: float) -> Fraction:
        """A fraction of what is left, rounded down to a multiple of 2^-40."""
        return floor_tick(self.left * Fraction(part))

    def pay(
        self, name: str, epsilon: Fraction, sensitivity: Fraction | int, spread: int = 1
    ) -> Fraction:
        """Take `epsilon` for integer answers of this l1 sensitivity; returns the Laplace scale."""
        if not 0 < epsilon <= self.left:
            raise AssertionError("a step must cost something and no more than is left")
        self.left -= epsilon
        scale = Fraction(sensitivity) / epsilon
        self.bill.append(
            Laplace(name, Fraction(sensitivity), scale, spread, relation=self.relation)
        )
        return scale
