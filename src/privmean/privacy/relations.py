"""Which neighbouring relations a bill holds for, as far as its entries say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privmean.privacy.budget import ADD_REMOVE


def holds_under(losses: Iterable[Any], relation: str) -> bool:
    """Whether no entry speaks of another relation.

    Entries that state a relation must state this one. Disjoint parts of the persons need a roster
    that neighbours share, so they are never part of an add-remove bill.
    """
    return all(_holds(loss, relation) for loss in losses)


def _holds(loss: Any, relation: str) -> bool:
    groups = (*getattr(loss, "branches", ()), *getattr(loss, "parts", ()))
    if groups and relation == ADD_REMOVE:
        return False
    if getattr(loss, "relation", relation) != relation:
        return False
    return all(holds_under(group, relation) for group in groups)
