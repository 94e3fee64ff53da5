"""The client half: one person's value in, one private report out. No numerical library needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Client": "privmean.local.clients.client",
    "Ledger": "privmean.local.clients.ledger",
    "person_mean": "privmean.local.clients.summaries",
    "randomize": "privmean.local.clients.client",
    "slope": "privmean.local.clients.summaries",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privmean.local.clients' has no attribute {name!r}")
