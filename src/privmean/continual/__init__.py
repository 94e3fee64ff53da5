"""A running mean over a stream, protected per person, by matrix factorization."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "plan": "privmean.continual.planning",
    "StreamPlan": "privmean.continual.planning",
    "MeanStream": "privmean.continual.stream",
    "StreamRelease": "privmean.continual.release",
    "WithholdRelease": "privmean.continual.withhold_release",
    "Identity": "privmean.continual.strategies",
    "PrefixRoot": "privmean.continual.strategies",
    "MeanToeplitz": "privmean.continual.strategies",
    "DampedToeplitz": "privmean.continual.strategies",
    "Decaying": "privmean.continual.strategies",
    "Toeplitz": "privmean.continual.strategies",
    "Banded": "privmean.continual.strategies",
    "BandedInverse": "privmean.continual.strategies",
    "Buffered": "privmean.continual.buffered",
    "ScaledBuffered": "privmean.continual.scaled",
    "Loading": "privmean.continual.loading",
    "Goal": "privmean.continual.error",
    "Participation": "privmean.continual.sensitivity",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privmean.continual' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
