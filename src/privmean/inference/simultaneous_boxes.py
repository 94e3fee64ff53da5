"""The level of each of several intervals that hold together (docs/proofs/intervals.md, 7)."""

from __future__ import annotations


def sidak_level(level: float, columns: int) -> float:
    """The level of each of `columns` intervals so that all hold together with `level`.

    Valid for normal errors of any correlation; with Laplace noise that is independent over the
    coordinates it holds conditionally on the mixing scales. Not for Laplace noise that
    coordinates share.
    """
    return float(level ** (1.0 / columns))
