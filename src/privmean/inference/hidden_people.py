"""How unlikely released numbers would be if all people within the limits shared the center.

A column that is mostly one value has two ends: both limits at that value (a point mass), or limits
that hold the others. Rarely the choice of limits does neither: they hold nobody but the center, and
the others lie far beyond. Then only the noisy count of people beyond shows them. If its noise hides
them, the interval is short and wrong. Reads no data. docs/proofs/default-mean.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean.inference.mean_interval import NoisySums


@dataclass(frozen=True)
class HiddenPeople:
    """The case that nobody within the limits is off the center.

    center: its z. beyond, beyond_scale: the noisy count of people beyond, and its Laplace scale.
    demanded: the people whom the choice of these limits then missed (inf: not known), and
    choice_scale: how many people make a choice less likely by a factor e.
    """

    sums: NoisySums
    center: float
    beyond: float
    beyond_scale: float
    demanded: float
    choice_scale: float

    @property
    def surprise(self) -> float:
        """The least of `surprise_of` over all numbers of people beyond: a convex function, linear
        between the numbers at which one of its parts vanishes."""
        if math.isinf(self.demanded):
            return math.inf
        low, high = 1 + self.center, 1 - self.center
        value, square = self._off_center
        ends = [0.0, self.beyond, self.demanded]
        ends += [value / high] if high > 0 else []
        ends += [-value / low] if low > 0 else []
        ends += [square / (low * high)] if low * high > 0 else []
        return min(self.surprise_of(max(end, 0.0)) for end in ends)

    def surprise_of(self, people: float) -> float:
        """Minus the logarithm of the probability, but for a constant, of the choice of limits and
        of the noise of all released numbers, if so many people were beyond the limits.

        People beyond have z = -1 or 1: with k of them, sums of z less the center's lie between
        -(1 + center) k and (1 - center) k, and sums of z^2 less the center's are (1 - center^2) k.
        """
        low, high = 1 + self.center, 1 - self.center
        value, square = self._off_center
        choice = max(self.demanded - people, 0.0) / self.choice_scale
        count = abs(self.beyond - people) / self.beyond_scale
        off_value = max(value - high * people, -value - low * people, 0.0)
        off_square = abs(square - low * high * people)
        scale = max(self.sums.scales(self.center))
        noise = off_value / scale + off_square / self.sums.square_scale
        return choice + count + noise

    @property
    def _off_center(self) -> tuple[float, float]:
        """Sums of z and of z^2 over people, less what they are with all people at the center.

        They are limited to what sums of numbers in [-1, 1] can be: noise beyond that shows nothing.
        """
        at, n = self.center, self.sums.n
        value = min(max(self.sums.value, -n), n)
        square = min(max(self.sums.square, value**2 / n), n)
        return value - at * n, square - at**2 * n
