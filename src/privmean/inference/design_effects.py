"""People who are not independent: how much longer the interval must be.

The variance of a mean of clustered people is a multiple of that of independent ones, the design
effect, from public knowledge (docs/proofs/intervals.md, section 6).
"""

from __future__ import annotations

from collections.abc import Sequence

from privmean import validate
from privmean.errors import ArgumentError


def grouped_design_effect(sizes: Sequence[int], icc: float) -> float:
    """1 + (sum n_g^2/n - 1) icc for public group sizes and a public intraclass correlation."""
    correlation = validate.number("icc", icc)
    if not 0 <= correlation <= 1:
        raise ArgumentError("icc", icc, "must lie in [0, 1]", "give a number in [0, 1]")
    counts = [validate.whole("sizes", item, least=1) for item in sizes]
    if not counts:
        raise ArgumentError("sizes", sizes, "is empty", "give the size of every group")
    n = sum(counts)
    return 1 + (sum(item**2 for item in counts) / n - 1) * correlation
