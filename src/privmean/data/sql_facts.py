"""What is known of SQL engines, as far as it matters for exact sums."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What an engine is, where that matters.

    name: as Ibis calls it. wide: sums of 64-bit whole numbers do not overflow (they are decimals of
    any length). traps: arithmetic of doubles raises where it overflows, vanishes or divides by
    zero. melts: subqueries are written into each other, which doubles expressions at every step.
    collates: texts compare by a language's rules, unless they are told to compare by bytes. tries:
    it knows TRY_CAST, and Ibis writes CAST for it.
    """

    name: str
    wide: bool = False
    traps: bool = False
    melts: bool = False
    collates: bool = False
    tries: bool = False


KNOWN = {
    item.name: item
    for item in (
        Facts("datafusion", tries=True),
        Facts("clickhouse"),
        Facts("postgres", wide=True, traps=True, melts=True, collates=True),
    )
}
