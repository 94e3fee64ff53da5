"""People with different, private numbers of records: public weights and radii by number.

The rules extend Agarwal et al. (2024), who treat equal numbers of records; see
docs/proofs/heavy-tails-weights.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.array_types import Integers
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import PersonTable, tell
from privmean.errors import ArgumentError
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.mechanisms.weighted_sums import UNIT, JointSums


@dataclass(frozen=True)
class RecordWeights:
    """Public weights for people with different, private numbers of records.

    Parameters
    ----------
    max_records : int
        The most records that count. Longer records are averaged in full and count as `max_records`.
    critical : float, optional
        Weights are inverse variances up to this number of records, and inverse standard deviations
        above. Default: equal weights.
    least : int, default 1
        The fewest records of a person with a weight.

    Notes
    -----
    Unequal weights estimate the same mean only if all people share one mean.

    Examples
    --------
    reading = dict(estimand="records", max_records=12)
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage", **reading)
    weights = pm.RecordWeights(max_records=12)
    heavy = pm.HeavyTailedMean(pm.BoundedMoment(2, 1.0), weights=weights)
    pm.mean(people, method=heavy, epsilon=1.0, delta=1e-6)
    """

    max_records: int
    critical: float | None = None
    least: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "max_records", validate.whole("max_records", self.max_records, least=1)
        )
        object.__setattr__(self, "least", validate.whole("least", self.least, least=1))
        if self.least > self.max_records:
            raise ArgumentError(
                "least",
                self.least,
                "must be at most max_records",
                f"give at most {self.max_records}",
            )
        if self.critical is not None:
            validate.positive("critical", self.critical)

    def weights(self, moment: BoundedMoment) -> tuple[int, ...]:
        """w(0..M) in units of 2^-20, the largest 2^20."""
        raw = np.zeros(self.max_records + 1)
        for m in range(self.least, self.max_records + 1):
            raw[m] = 1.0
            if self.critical is not None:
                ratio = moment.spread(self.critical) / moment.spread(m)
                raw[m] = min(ratio**2, ratio)
        return tuple(round(float(item)) for item in raw / raw.max() * UNIT)

    def typical(self, moment: BoundedMoment) -> int:
        """The number of records that planning takes every person to have."""
        return max(self.least, min(self.max_records, round(moment.effective_records)))

    def noise_factor(self, moment: BoundedMoment) -> float:
        """Noise relative to equal weights and radii, if every person has the typical number."""
        scaled = self.weights(moment)
        reach = [w * moment.spread(m) for m, w in enumerate(scaled)]
        return max(reach) / reach[self.typical(moment)]


def require_counts(people: PersonTable) -> None:
    """Refuses people without numbers of records (a public fact of how they were read)."""
    if people.max_records is None and getattr(people, "counts", None) is None:
        raise ArgumentError(
            "people",
            type(people).__name__,
            "requires the number of records per person for the weights",
            "use estimand='records' and max_records",
        )


def counted(people: PersonTable, *, size_is_public: bool) -> ArrayPersonTable:
    """The people as a matrix with the number of records of every value; refused without them."""
    require_counts(people)
    tell(people, size_is_public=size_is_public)
    found: ArrayPersonTable = people.collect() if hasattr(people, "collect") else people  # type: ignore[assignment]
    return found


def records_of(people: ArrayPersonTable, max_records: int) -> Integers:
    """min(m, cap) a person: the smallest positive count of the columns, 0 without any record."""
    counts = people.counts
    assert counts is not None
    known = np.where(counts > 0, counts, np.iinfo(np.int64).max).min(axis=1)
    known = np.where((counts > 0).any(axis=1), known, 0)
    return np.minimum(known, max_records).astype(np.int64)


def totals(
    people: PersonTable, records: Integers, sums: JointSums, center: Sequence[float]
) -> tuple[list[int], int]:
    """Exact weighted sum of clipped rows and exact sum of weights, person by number of records."""
    values = people.matrix()
    total, weight = [0] * sums.dimension, 0
    for m in np.unique(records).tolist():
        w = sums.weights[m]
        if not w:
            continue
        rows = ArrayPersonTable(values[records == m], people.columns)
        z = rows.ball_sums(sums.ball(center, m)).z
        total = [a + b for a, b in zip(total, z, strict=True)]
        weight += w * rows.size()
    return total, weight
