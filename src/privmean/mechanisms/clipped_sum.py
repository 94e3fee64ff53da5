"""Noisy sums of one clipped column: the last stage of every clipped mean.

Each person has a weight u in [0, 1] (1 with a value and 0 without; or min(records, C)/C) and a
value y = u z in [-u, u], with z = (clip(x) - middle)/radius. Three answers a column are released
together: under replace-one the sums of y, y^2 and u; under add-remove the sums of a(1 - b), 2ab and
b(1 - a) with a = (u + y)/2 and b = (u - y)/2, which add up to u. In both, the weight and the square
come at no loss beside the sum of y (docs/proofs/ratio.md). A fourth answer can tell how much lies
beyond the limits (docs/proofs/intervals.md, section 2).

Source: the capped record mean of a person-level ratio; Roth and Avella-Medina (2025), Section 5,
for equal numbers of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice

from privmean.data.grids import GRID_BITS
from privmean.data.person_table import ClipInterval, IntervalSums
from privmean.mechanisms.noisy_vector import (
    COARSE,
    FINEST,
    GaussianVector,
    LaplaceVector,
    drawn_each,
    require_loss,
)
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent

Three = tuple[float, float, float]
Whole = tuple[int, ...]
LAMBDA = math.sqrt(2.7725)  # below sqrt((11 + 5 sqrt 5)/8): Gaussian noise of the free square
# with `cross`: multiples of y, y^2, u, u y and u^2; of the three cells, a^2 and b^2
CROSS = tuple(map(Fraction, ("5/2", "20", "5/2", "10", "20")))
CROSS_CELLS = tuple(map(Fraction, ("10/9", "1", "10/9", "10", "10")))
RHO = Fraction(7, 10)  # noise of the tail share, in scales of the value's noise; at most 1


@dataclass(frozen=True)
class Answers:
    """Which integers are released for a column, and how one person moves them.

    max_records: None for the mean over people (u is 0 or 1), or the record cap C. jumps: p+ and p-,
    what a person beyond the upper or lower limit adds to |y| and to the tail share, in units of the
    radius (replace-one); (0, 0) releases no tail share. absent: the z of a person without a value,
    who has the square 1 and u = 0, for the mean over people under replace-one: the farther from 0,
    the noisier the sum of u (None: z and square are 0, and the sum of u is noisier still). cross:
    release the sums of u y and u^2 too (under add-remove those of a^2 and b^2), for the variance of
    a ratio, at a quarter (a ninth) more noise of the sum of y, and less of u.
    """

    relation: Relation
    max_records: int | None = None
    jumps: tuple[float, float] = (0.0, 0.0)
    cross: bool = False
    absent: Fraction | None = None

    def __post_init__(self) -> None:
        tail = max(self.jumps) > 0
        if self.absent is not None:
            if self.max_records is not None or self.relation != REPLACE_ONE or tail or self.cross:
                raise ValueError("people without a value stand at 0 unless all count alike")
            if abs(self.absent) >= 1:
                raise ValueError("people without a value stand inside of the limits")
        if tail and (self.max_records is not None or self.cross or self.relation != REPLACE_ONE):
            raise ValueError("a tail share is told for the mean over people, under replace-one")

    @property
    def multiples(self) -> Whole:
        """Laplace scales times epsilon, in units: sum of |change|/multiple is at most 1."""
        if self.relation != REPLACE_ONE:
            return 1, 1, 1
        return (2, 4, 4) if self.max_records is None else (2, 8, 4)

    def multiples_at(self, steps: int) -> tuple[Fraction, ...]:
        """`multiples` for a box of `steps` steps: with a tail share they depend on its rounding."""
        if self.cross:
            return CROSS if self.relation == REPLACE_ONE else CROSS_CELLS
        first, second, third = (Fraction(item) for item in self.multiples)
        if self.absent is not None:
            third = 2 / (1 - abs(self.absent))
        jump = max(self._jump_steps(steps))
        if not jump:
            return first, second, third
        value = 2 + Fraction(jump, steps) * (1 + 1 / RHO)
        return value, 2 * value, third / 2 * value, RHO * value

    def _jump_steps(self, steps: int) -> tuple[int, int]:
        up, down = (math.ceil(steps * Fraction(item)) for item in self.jumps)
        return up, down

    @property
    def variances(self) -> Three:
        """Gaussian variances times mu^2, in units: sum of change^2/variance is at most 1."""
        if self.relation != REPLACE_ONE:
            return 1.0, 1.0, 1.0
        # the count takes what the square leaves
        return (4.0, 4 / LAMBDA**2, 18.0) if self.max_records is None else (4.0, 8 / 3, 8 / 3)

    def units(self, steps: int) -> Whole:
        """What 1 in the units above is in integer steps, for a box of `steps` steps."""
        c = 1 if self.max_records is None else self.max_records
        more: Whole = (steps,) if max(self.jumps) > 0 else ()
        if self.relation != REPLACE_ONE:
            return *((2 * c * steps) ** 2,) * (5 if self.cross else 3), *more
        if self.cross:
            more = c * c * steps, c * c
        return c * steps, (c * steps) ** 2, c, *more

    def integers(self, box: ClipInterval, sums: IntervalSums, nulls: int = 0) -> Whole:
        """The exact answers from the sums of one box; nulls: the number of people without a value,
        where they stand at `absent`."""
        more: Whole = ()
        if self.relation == REPLACE_ONE:
            if self.absent is not None:
                step = self.absent * box.steps
                assert step.denominator == 1
                z = sums.wz + int(step) * nulls
                return z, sums.wwzz + box.steps**2 * nulls, sums.w
            if self.cross:
                more = sums.wwz, sums.ww
            if max(self.jumps) == 0:
                return sums.wz, sums.wwzz, sums.w, *more
            up, down = self._jump_steps(box.steps)
            above, below = up * sums.above, down * sums.below
            return sums.wz + above - below, sums.wwzz, sums.w, above + below
        c = 1 if self.max_records is None else self.max_records
        k = box.steps
        high, low = k * sums.w + sums.wz, k * sums.w - sums.wz
        product = k * k * sums.ww - sums.wwzz
        most = 2 * c * k
        if self.cross:
            ends = k * k * sums.ww + sums.wwzz
            more = ends + 2 * k * sums.wwz, ends - 2 * k * sums.wwz
        return most * high - product, 2 * product, most * low - product, *more


FEWEST_STEPS = 1 << (GRID_BITS - 1)  # of a box, from its middle to a limit
NOBODY = IntervalSums(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class ColumnSums:
    """Noisy sums of one column, in units in which one person adds at most 1.

    value: sum of y (the z of people, or weight times z); weight: sum of weights (people with a
    value); square: sum of y^2 (under add-remove with records an upper bound of it). noise: the
    scales of the independent noises, Laplace scales or standard deviations if `gaussian`; under
    replace-one those of value, square and weight, under add-remove those of the three cells, of
    which value is the first less the last, and weight is the sum. extra, extra_noise: what was
    added to |value| for people beyond the limits; its scale.
    cross, cross_noise: sums of u y and u^2 (under add-remove of a^2 and b^2) and their scales.
    """

    value: float
    square: float
    weight: float
    noise: Three
    gaussian: bool
    relation: Relation
    extra: float = 0.0
    extra_noise: float = 0.0
    cross: tuple[float, float] | None = None
    cross_noise: tuple[float, float] = (0.0, 0.0)

    def ratio_noise(self, theta: float) -> Three:
        """Scales of the independent noises in value - theta * weight."""
        first, second, third = self.noise
        if self.relation == REPLACE_ONE:
            return first, 0.0, abs(theta) * third
        return abs(1 - theta) * first, abs(theta) * second, abs(1 + theta) * third

    def spread(self, theta: float) -> tuple[float, tuple[float, ...]] | None:
        """With `cross`: the noisy sum of (y - theta u)^2, and the scales of its noises."""
        if self.cross is None:
            return None
        (first, second), (one, two) = self.cross, self.cross_noise
        if self.relation == REPLACE_ONE:  # y^2 - 2 theta u y + theta^2 u^2
            value = self.square - 2 * theta * first + theta**2 * second
            return value, (self.noise[1], 2 * abs(theta) * one, theta**2 * two)
        # a^2 (1 - theta)^2 + b^2 (1 + theta)^2 - 2 a b (1 - theta^2)
        middle = (self.weight - self.square) / 2
        high, low, both = (1 - theta) ** 2, (1 + theta) ** 2, 1 - theta**2
        value = high * first + low * second - both * middle
        return value, (high * one, low * two, abs(both) * self.noise[1])

    @property
    def square_noise(self) -> float:
        """Scale of the noise of `square` (added up over cells under add-remove)."""
        return self.noise[1] if self.relation == REPLACE_ONE else sum(self.noise)

    @property
    def weight_noise(self) -> float:
        """Scale of the noise of `weight` (added up over cells under add-remove)."""
        return self.noise[2] if self.relation == REPLACE_ONE else sum(self.noise)


@dataclass(frozen=True)
class ClippedSums:
    """Clipped sums of some columns at Laplace loss `epsilon` a column, or Gaussian loss `mu` for
    all `columns` together. The boxes may come from earlier private outputs.

    jumps, cross, absent: with Laplace noise, what is released besides, and where people
    without a value stand (see `Answers`).

    Guarantees: (columns * epsilon)-DP or mu-GDP, for any data and any boxes.
    """

    name: str
    relation: Relation
    columns: int = 1
    epsilon: Fraction | None = None
    mu: float | None = None
    jumps: tuple[float, float] = (0.0, 0.0)
    cross: bool = False
    absent: Fraction | None = None

    def __post_init__(self) -> None:
        loss = self.mu if self.epsilon is None else self.epsilon
        assert loss is not None
        require_loss(self.name, loss)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        if self.epsilon is not None:
            return (self.loss_of_one,) * self.columns
        assert self.mu is not None
        kind = Answers(self.relation)
        sds = [
            unit * scale for unit, scale in zip(kind.units(FEWEST_STEPS), self.noise(), strict=True)
        ]
        coarsest = min(min(max(FINEST, sd), COARSE / 2) for sd in sds)
        return (
            Gaussian(
                self.name,
                self.mu * coarsest,
                coarsest,
                len(sds) * self.columns,
                neighbors=self.relation,
            ),
        )

    @property
    def loss_of_one(self) -> Laplace:
        """What one column costs (Laplace noise), for a box of 2^20 steps."""
        return self.loss_at(1 << GRID_BITS)

    @lru_cache(maxsize=64)  # noqa: B019 - loops and servers ask for equal public facts
    def loss_at(self, steps: int) -> Laplace:
        """What one column costs (Laplace noise), in the steps of its own box."""
        assert self.epsilon is not None
        answers = self.answers()
        moved = answers.multiples_at(steps)[0] * answers.units(steps)[0]
        return Laplace(self.name, moved, moved / self.epsilon, joint=True, neighbors=self.relation)

    def answers(self, max_records: int | None = None) -> Answers:
        """Which integers are released for a column; cap as in `People`."""
        return Answers(self.relation, max_records, self.jumps, self.cross, self.absent)

    def noise(self, max_records: int | None = None) -> Three:
        """Laplace scales, or deviations, of the three answers of a column in units."""
        answers = self.answers(max_records)
        if self.epsilon is not None:
            multiples = answers.multiples_at(1 << GRID_BITS)
            first, second, third = (float(k / self.epsilon) for k in multiples[:3])
            return first, second, third
        assert self.mu is not None
        # a hair more than needed, so that rounded deviations never exceed the loss
        sd = math.sqrt(self.columns) / self.mu * (1 + 1e-12)
        first, second, third = (sd * math.sqrt(v) for v in answers.variances)
        return first, second, third

    @property
    def law(self) -> str:
        """Of the noise, in a word."""
        return "Gaussian" if self.epsilon is None else "Laplace"

    @property
    def value_sd(self) -> float:
        """Standard deviation of the noise in the sum of z (people present in full)."""
        sd = self.noise()[0] * (1.0 if self.epsilon is None else math.sqrt(2))
        return sd if self.relation == REPLACE_ONE else sd * math.sqrt(2)

    def over(
        self,
        boxes: Sequence[ClipInterval],
        *,
        max_records: int | None = None,
        billed: tuple[PrivacyEvent, ...] | None = None,
    ) -> SumsOver:
        """The mechanism for these boxes, one a column; cap as in `People`. billed: its losses where
        the caller states them (`losses` unless given)."""
        if len(boxes) != self.columns:
            raise ValueError("one box a column")
        return SumsOver(self, tuple(boxes), max_records, self.events if billed is None else billed)

    @lru_cache(maxsize=64)  # noqa: B019
    def laplace(self, kind: Answers, steps: int) -> LaplaceVector:
        """The joint Laplace release of one column, for a box of these steps."""
        assert self.epsilon is not None
        units = kind.units(steps), kind.multiples_at(steps)
        return LaplaceVector(*units, self.epsilon, self.relation)

    def gaussian(self, kind: Answers, steps: Sequence[int]) -> GaussianVector:
        """The joint Gaussian release of all columns, for boxes of these steps."""
        assert self.mu is not None
        units = tuple(unit for k in steps for unit in kind.units(k))
        scales = self.noise(kind.max_records) * len(steps)
        sds = tuple(unit * scale for unit, scale in zip(units, scales, strict=True))
        return GaussianVector(self.name, units, sds, self.mu, self.relation)

    def read(self, numbers: Sequence[float], scales: Sequence[float]) -> ColumnSums:
        """The noisy numbers of one column, with the scales of their noise."""
        first, second, third = numbers[:3]
        noise = scales[0], scales[1], scales[2]
        gaussian = self.epsilon is None
        extra = (numbers[3], scales[3]) if len(numbers) == 4 else (0.0, 0.0)
        cross = (numbers[3], numbers[4]) if len(numbers) == 5 else None
        more = (cross, (scales[3], scales[4])) if cross else (None, (0.0, 0.0))
        if self.relation == REPLACE_ONE:
            return ColumnSums(first, second, third, noise, gaussian, self.relation, *extra, *more)
        value, square, weight = first - third, first + third - second, first + second + third
        return ColumnSums(value, square, weight, noise, gaussian, self.relation, *extra, *more)


@dataclass(frozen=True)
class SumsOver:
    """`ClippedSums` over boxes that are known by now: public, or of earlier private answers."""

    sums: ClippedSums
    boxes: tuple[ClipInterval, ...]
    max_records: int | None
    events: tuple[PrivacyEvent, ...]

    @cached_property
    def _kind(self) -> Answers:
        return self.sums.answers(self.max_records)

    def exact(
        self,
        found: Sequence[IntervalSums | None],
        nulls: Sequence[int] | None = None,
    ) -> tuple[Whole, ...]:
        """The integers that get noise, a column. nulls: people without a value who count; None
        counts as nobody."""
        none = [0] * len(self.boxes)
        present = [NOBODY if item is None else item for item in found]
        columns = zip(self.boxes, present, nulls or none, strict=True)
        return tuple(self._kind.integers(*column) for column in columns)

    def sensitivity_share(
        self, exact: Sequence[Whole], other: Sequence[Whole]
    ) -> tuple[Fraction, ...]:
        sums, steps = self.sums, [box.steps for box in self.boxes]
        if sums.epsilon is None:
            first, second = (
                [answer for column in item for answer in column] for item in (exact, other)
            )
            return sums.gaussian(self._kind, steps).sensitivity_share(first, second)
        shares = [
            sums.laplace(self._kind, k).sensitivity_share(a, b)[0] * sums.epsilon / loss.pure
            for k, a, b, loss in zip(steps, exact, other, self.events, strict=False)
        ]
        return (*shares, *(Fraction(0),) * (len(self.events) - len(shares)))

    def draw(self, exact: Sequence[Whole], noise: Noise) -> list[ColumnSums]:
        steps, sums = [box.steps for box in self.boxes], self.sums
        if sums.epsilon is None:
            flat = [answer for column in exact for answer in column]
            read = sums.gaussian(self._kind, steps).draw(flat, noise)
            widths = sums.noise(self.max_records)
            return [sums.read(read[i : i + 3], widths) for i in range(0, len(read), 3)]
        joint = {k: sums.laplace(self._kind, k) for k in set(steps)}
        scales = [scale for k in steps for scale in joint[k].scales]
        draws = iter(drawn_each(noise.laplace, scales))
        found = []
        for k, answers in zip(steps, exact, strict=True):
            numbers = joint[k].read(answers, islice(draws, len(answers)))
            found.append(sums.read(numbers, joint[k].widths))
        return found
