"""People without a value: how many there are, and what noisy sums are then divided by.

Their number is believed firmly, so that complete columns stay complete. Post-processing of released
numbers: reads no data. docs/proofs/default-mean.md, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privmean.inference.mean_interval import NoisySums
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.privacy.budget import REPLACE_ONE

FIRM = 4.0  # noise scales of the pooled number up to which nobody is believed to be missing


@dataclass(frozen=True)
class MissingCount:
    """number: noisy number of people without a value, pooled by precision; scale: its noise."""

    number: float = 0.0
    scale: float = float("inf")

    @classmethod
    def pooled(cls, numbers: Sequence[tuple[float, float]]) -> MissingCount:
        """From independent noisy numbers of the same people, each with its noise scale."""
        if not numbers:
            return cls()
        total = sum(scale**-2 for _, scale in numbers)
        mean = sum(number * scale**-2 for number, scale in numbers) / total
        return cls(mean, float(total**-0.5))

    @property
    def believed(self) -> float:
        """0 up to `FIRM` scales, the number itself from twice that on, and between them twice what
        is above: a complete column loses hardly anything by mistake, and no step is large."""
        if self.number <= FIRM * self.scale:
            return 0.0
        return min(self.number, 2 * (self.number - FIRM * self.scale))

    @property
    def spared(self) -> float:
        """What the noisy number says beyond what is believed: at most `FIRM` scales."""
        return max(self.number - self.believed, 0.0)


UNKNOWN = MissingCount()

MISSING_SDS = 5  # with Gaussian noise: deviations from which nulls count as seen
# noise scales (deviations) of the number of people with a value that it must reach: of nobody at
# all, noise shows more in one release of a hundred
FEWEST = 4.0
TOO_FEW = "Too few people have a value. Add people or raise epsilon."


def is_undetected(column: ColumnSums) -> bool:
    """Whether no more people with a value are seen than noise by itself can show: what is divided
    by their number would be noise over noise."""
    return column.weight < max(1.0, FEWEST * column.weight_noise)


@dataclass(frozen=True)
class RatioWithMissing:
    """sums: ready for intervals, in units of the radius. present: the noisy number of people with
    a value. missing: whether `sums` divide by it, because the number of people is private or
    enough people have no value to be seen. tail, tail_scale: `extra` of the column. absent: the
    noisy number of people without a value (replace-one)."""

    sums: NoisySums
    present: float
    missing: bool
    tail: float = 0.0
    tail_scale: float = 0.0
    absent: MissingCount = UNKNOWN

    @classmethod
    def of(
        cls,
        column: ColumnSums,
        persons: int | None,
        earlier: Sequence[tuple[float, float]] = (),
        *,
        absent_at: float | None = None,
    ) -> RatioWithMissing:
        """persons: n under replace-one, where the weights count people. earlier: other noisy
        numbers of the people without a value, and their scales (Laplace noise only); given, those
        who may have none are in the intervals too. absent_at: the z of people without one, whose
        square is 1 (None: both are 0)."""
        value_scale, square_scale, count_scale = column.noise
        present = column.weight
        if column.relation != REPLACE_ONE:
            sums = NoisySums(
                column.value,
                column.square,
                max(present, 1.0),
                value_scale,
                2 * value_scale,
                "gaussian" if column.gaussian else "laplace",
                partition=True,
            )
            return cls(sums, present, True, column.extra, column.extra_noise)
        assert persons is not None
        if column.gaussian:
            missing = persons - present > MISSING_SDS * count_scale
            sums = NoisySums(
                column.value,
                column.square,
                max(present, 1.0) if missing else float(persons),
                value_scale,
                square_scale,
                "gaussian",
                count_scale if missing else 0.0,
            )
            return cls(sums, present, missing, column.extra, column.extra_noise)
        absent = MissingCount.pooled([*earlier, (persons - present, count_scale)])
        gone = absent.believed
        sums = NoisySums(
            column.value - (absent_at or 0.0) * gone,
            column.square - (0.0 if absent_at is None else gone),
            max(persons - gone, 1.0),
            value_scale,
            square_scale,
            "laplace",
            absent.scale if gone else 0.0,
            undetected=absent.spared / persons if earlier else 0.0,
            missing=absent_at or 0.0,
        )
        present = persons - absent.number
        return cls(sums, present, gone > 0, column.extra, column.extra_noise, absent)
