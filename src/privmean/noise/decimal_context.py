"""Decimal arithmetic that reads nothing of the caller's: limits, traps and rounding are its own."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context


def plain_context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    """So many digits, no limit of exponents within reach, nothing raised. Whatever is left out here
    would come from `decimal.DefaultContext`, which the caller may have changed."""
    return Context(digits, rounding, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, flags=[], traps=[])
