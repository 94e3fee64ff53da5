"""Numbers as a shell writes them."""

from __future__ import annotations

from privmean.errors import ArgumentError


def pair(name: str, text: str) -> tuple[float, float]:
    """LOW:HIGH as two numbers."""
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise ArgumentError(name, text, "is not LOW:HIGH", "use for example 0:10") from None
