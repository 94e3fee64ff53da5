"""What the noisy sums of a column are divided by, and what that leaves for its intervals.

Post-processing of released numbers: reads no data.
"""

from __future__ import annotations

from dataclasses import dataclass

from privmean.intervals.mean_interval import NoisySums
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.privacy.budget import REPLACE_ONE

# nulls count as seen when they exceed this many noise scales (deviations) of the number of persons
# with a value
MISSING_SCALES, MISSING_SDS = 4, 5
# noise scales (deviations) of the number of persons with a value that it must reach: of nobody at
# all, noise shows more in one release of a hundred
FEWEST = 4.0
TOO_FEW = "too few persons have a value: more persons or more epsilon are needed"


def unseen(column: ColumnSums) -> bool:
    """Whether no more persons with a value are seen than noise alone can show: what is divided by
    their number would be noise over noise."""
    return column.weight < max(1.0, FEWEST * column.weight_noise)


@dataclass(frozen=True)
class Divided:
    """sums: ready for intervals, in units of the radius. present: the noisy number of persons with
    a value. missing: whether `sums` divide by it, because the number of persons is private or
    enough persons have no value to be seen. tail, tail_scale: `extra` of the column."""

    sums: NoisySums
    present: float
    missing: bool
    tail: float = 0.0
    tail_scale: float = 0.0

    @classmethod
    def of(cls, column: ColumnSums, persons: int | None) -> Divided:
        """persons: n under replace-one, where the weights count persons."""
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
        most = MISSING_SDS if column.gaussian else MISSING_SCALES
        missing = persons - present > most * count_scale
        sums = NoisySums(
            column.value,
            column.square,
            max(present, 1.0) if missing else float(persons),
            value_scale,
            square_scale,
            "gaussian" if column.gaussian else "laplace",
            count_scale if missing else 0.0,
        )
        return cls(sums, present, missing, column.extra, column.extra_noise)
