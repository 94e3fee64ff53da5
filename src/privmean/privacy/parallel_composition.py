"""Losses on disjoint groups of people: the dearest group counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privmean.privacy.budget import ADD_REMOVE
from privmean.privacy.event_numbers import refused
from privmean.privacy.lattice_correction import Correction
from privmean.privacy.privacy_events import PrivacyEvent


@dataclass(frozen=True)
class Parallel(PrivacyEvent, kind="parallel"):
    """Mechanism calls on disjoint groups of people, the groups fixed by public facts.

    A neighbor changes one group only, so the whole costs no more than each component (pure, mu,
    added delta, ...) at its largest over `branches`; the calls of one branch compose as usual.
    Replace-one only: under add-remove the groups of later people may move.
    """

    branches: tuple[tuple[PrivacyEvent, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.branches or not all(self.branches):
            raise refused("branches", self.branches, "must hold a mechanism call each")
        if self.neighbors == ADD_REMOVE:
            raise refused("neighbors", self.neighbors, "has no fixed groups of people")

    @property
    def pure(self) -> Fraction:
        return max(sum((x.pure for x in branch), Fraction(0)) for branch in self.branches)

    @property
    def mu(self) -> float:
        return max(math.sqrt(math.fsum(x.mu**2 for x in branch)) for branch in self.branches)

    @property
    def rho(self) -> float:
        return max(math.fsum(x.rho for x in branch) for branch in self.branches)

    @property
    def added_delta(self) -> float:
        return max(math.fsum(x.added_delta for x in branch) for branch in self.branches)

    @property
    def lattice(self) -> Correction:
        branches = [[x.lattice for x in branch] for branch in self.branches]
        return Correction(
            max(math.fsum(x.epsilon for x in branch) for branch in branches),
            max(math.prod(x.factor for x in branch) for branch in branches),
            max(math.fsum(x.tail for x in branch) for branch in branches),
        )

    @property
    def drawn(self) -> float:
        return max(x.drawn for branch in self.branches for x in branch)

    def to_dict(self) -> dict[str, Any]:
        branches = [[item.to_dict() for item in branch] for branch in self.branches]
        return {**super().to_dict(), "branches": branches}

    def counted(self) -> str:
        return f"one of {len(self.branches)} groups of people"
