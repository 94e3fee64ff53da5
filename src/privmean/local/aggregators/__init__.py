"""The server half: reports in, an estimate with an honest radius out. Uses NumPy and SciPy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Aggregator": "privmean.local.aggregators.aggregator",
    "Estimate": "privmean.local.aggregators.estimate",
    "Gate": "privmean.local.aggregators.gate",
    "Tally": "privmean.local.aggregators.tally",
    "aggregate_files": "privmean.local.aggregators.files",
    "estimate": "privmean.local.aggregators.estimates",
    "item_oracle": "privmean.local.aggregators.estimates",
    "merge_all": "privmean.local.aggregators.tally",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privmean.local.aggregators' has no attribute {name!r}")
