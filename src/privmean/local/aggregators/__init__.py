"""The server half: reports in, an estimate with an honest radius out. Uses NumPy and SciPy."""

from __future__ import annotations

from privmean.late import names

_SHOWN = (
    "Aggregator",
    "Estimate",
    "Tally",
    "aggregate_files",
    "estimate",
    "item_oracle",
    "merge_all",
)
_HOMES = {"Gate": "privmean.local.aggregators.gate", **dict.fromkeys(_SHOWN, "privmean.local")}
__getattr__, __dir__ = names(__name__, _HOMES)
__all__ = [*_HOMES]  # noqa: PLE0604
