"""Which neighboring relations an accounting holds for, as far as its entries say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from privmean.privacy.budget import ADD_REMOVE, Relation
from privmean.privacy.privacy_events import PrivacyEvent


def stated(losses: Iterable[PrivacyEvent], relation: Relation) -> tuple[PrivacyEvent, ...]:
    """The losses, those that name no relation now for this one: whoever calls has counted so."""
    return tuple(_stated(loss, relation) for loss in losses)


def _stated(loss: PrivacyEvent, relation: Relation) -> PrivacyEvent:
    inside = {
        name: tuple(stated(group, relation) for group in getattr(loss, name))
        for name in ("branches", "parts")
        if hasattr(loss, name)
    }
    changes: dict[str, Any] = {**inside, "neighbors": loss.neighbors or relation}
    return replace(loss, **changes)


def unstated(losses: Iterable[PrivacyEvent]) -> list[str]:
    """The names of entries (of entries of parts, too) that state no relation."""
    found = []
    for loss in losses:
        if loss.neighbors is None:
            found.append(loss.name)
        for group in groups_of(loss):
            found += unstated(group)
    return found


def groups_of(loss: PrivacyEvent) -> tuple[tuple[PrivacyEvent, ...], ...]:
    """The calls on each disjoint part of the people, of an entry that has such parts."""
    return (*getattr(loss, "branches", ()), *getattr(loss, "parts", ()))


def holds_under(losses: Iterable[PrivacyEvent], relation: str) -> bool:
    """Whether no entry speaks of another relation.

    Entries that state a relation must state this one (`unstated` finds the others). Disjoint parts
    of the people need a roster that neighbors share, so they are never part of an add-remove
    accounting.
    """
    return all(_holds(loss, relation) for loss in losses)


def _holds(loss: PrivacyEvent, relation: str) -> bool:
    groups = groups_of(loss)
    if groups and relation == ADD_REMOVE:
        return False
    if loss.neighbors not in (None, relation):
        return False
    return all(holds_under(group, relation) for group in groups)
