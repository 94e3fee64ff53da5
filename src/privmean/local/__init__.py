"""Local differential privacy: clients that randomize, a server that only aggregates.

The public names, imported when first used: the client half needs no numerical library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Aggregator": "privmean.local.aggregators.aggregator",
    "Client": "privmean.local.clients.client",
    "Estimate": "privmean.local.aggregators.estimate",
    "Ledger": "privmean.local.clients.ledger",
    "Part": "privmean.local.part",
    "Report": "privmean.local.reports",
    "ReportError": "privmean.local.reports",
    "Round": "privmean.local.descriptor",
    "Tally": "privmean.local.aggregators.tally",
    "Ticket": "privmean.local.reports",
    "WinsorizedRounds": "privmean.local.rounds",
    "aggregate_files": "privmean.local.aggregators.files",
    "ball_round": "privmean.local.builders",
    "bandwidth": "privmean.local.kernel",
    "curve": "privmean.local.kernel",
    "estimate": "privmean.local.aggregators.estimates",
    "item_oracle": "privmean.local.aggregators.estimates",
    "items_round": "privmean.local.builders",
    "mean_round": "privmean.local.builders",
    "merge_all": "privmean.local.aggregators.tally",
    "person_mean": "privmean.local.clients.summaries",
    "project_to_simplex": "privmean.local.distribution",
    "randomize": "privmean.local.clients.client",
    "randomize_many": "privmean.local.many",
    "slope": "privmean.local.clients.summaries",
    "tally_many": "privmean.local.many",
    "tau_bounded_records": "privmean.local.radii",
    "tau_random_effects": "privmean.local.radii",
    "tau_sub_gaussian": "privmean.local.radii",
    "vote_round": "privmean.local.builders",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privmean.local' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
