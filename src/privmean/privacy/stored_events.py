"""The losses that an accounting may hold, and how a stored one is read."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from privmean.errors import ArgumentError
from privmean.privacy import older_names
from privmean.privacy.budget import refused
from privmean.privacy.compose import Parallel
from privmean.privacy.privacy_events import (
    Approximate,
    Concentrated,
    Gaussian,
    Laplace,
    PrivacyEvent,
    Pure,
    Selection,
    Threshold,
)
from privmean.privacy.profile_events import (
    FilteredMean,
    ParallelCurve,
    RowsAndProducts,
    ThresholdOfSum,
)

KINDS: dict[str, type[PrivacyEvent]] = {
    item.kind: item
    for item in (
        Laplace, Gaussian, Threshold, Selection, Pure, Approximate, Parallel, FilteredMean,
        ParallelCurve, ThresholdOfSum, Concentrated, RowsAndProducts,
    )
}  # fmt: skip
GROUPS = ("branches", "parts")  # fields that hold losses
DEEPEST = 8  # levels of groups within groups: no plan has more than two


def loss_from_dict(values: dict[str, Any], depth: int = 0) -> PrivacyEvent:
    """The loss stored by `Loss.to_dict`. Derived numbers in the dictionary are not trusted.

    depth: levels of groups that this loss lies in.
    """
    if isinstance(values, dict):
        values = older_names.event(values)
    loss = _loss_from_dict(values, depth)
    if loss.sensitivity_text and loss.sensitivity_text == loss.counted():
        object.__setattr__(
            loss, "sensitivity_text", ""
        )  # told from the numbers, as when it was stored
    return loss


def _loss_from_dict(values: dict[str, Any], depth: int) -> PrivacyEvent:
    if not isinstance(values, dict):
        raise refused("mechanisms", values, "must hold one object a mechanism")
    if depth > DEEPEST:
        raise refused("mechanisms", depth, "are nested deeper than those of any plan")
    kind = values.get("mechanism")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ArgumentError(
            "mechanism", kind, "is not a kind of loss this version knows", "use a newer privmean"
        )
    cls = KINDS[kind]
    names = [item.name for item in fields(cls)]
    arguments = {name: values[name] for name in names if name in values}
    for name in GROUPS:
        if name in names:
            try:
                read = [
                    [loss_from_dict(item, depth + 1) for item in group] for group in values[name]
                ]
            except (KeyError, TypeError):
                raise refused("mechanism", kind, f"lacks its {name}") from None
            arguments[name] = tuple(tuple(group) for group in read)
    try:
        return cls(**arguments)
    except TypeError:
        raise refused("mechanism", kind, "lacks a number that its loss needs") from None


# kinds whose entries may say in words of their own what one change moves; all others count it
SAYING = (Selection, Pure, Threshold, Approximate, Concentrated)


def says_its_loss(loss: PrivacyEvent, values: dict[str, Any]) -> bool:
    """Whether the loss that is written in `values`, from which `loss` was read, is its loss, and
    what it says that a change moves is what its numbers say.

    To six digits: some are sums and integrals that differ between versions of libraries.
    """
    values = older_names.event(values)
    if not values.get("sensitivity_text") or (
        loss.sensitivity_text and not isinstance(loss, SAYING)
    ):
        return False
    said, own = values.get("loss"), loss.summary()
    if not isinstance(said, dict) or said.keys() != own.keys():
        return False
    for name, number in own.items():
        value = said[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if not math.isclose(value, number, rel_tol=1e-6, abs_tol=1e-300):
            return False
    return all(
        says_its_loss(part, written)
        for name in GROUPS
        for group, texts in zip(getattr(loss, name, ()), values.get(name, ()), strict=True)
        for part, written in zip(group, texts, strict=True)
    )
