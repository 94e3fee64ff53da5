"""Decimal arithmetic that reads nothing of the caller's: limits, traps and rounding are its own."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context


def plain_context(digits: int) -> Context:
    """So many digits, no limit of exponents within reach, nothing raised."""
    return Context(
        prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, clamp=0, traps=[]
    )
