"""What a question about groups says, checked from its words alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.data.group_pairs import OTHER, GroupWeights, weights_of
from privmean.data.key_text import key_texts, label
from privmean.errors import ArgumentError
from privmean.inference.contrasts import Contrast, contrasts_of, later_contrasts
from privmean.questions.base import PRIVATE, PUBLIC

MOST_COLUMNS = 4


@dataclass(frozen=True)
class Grouping:
    """by: columns of keys; keys: public ones as texts, in the order in which they were given (None:
    private). contrasts: comparisons of their labels; later: those of keys that are not known yet.
    """

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] | None
    weights: GroupWeights
    contrasts: tuple[Contrast, ...]
    other_group: bool
    shrink: bool
    simultaneous: bool
    later: tuple[object, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All rows of a release with public keys, in order."""
        return tuple(label(key) for key in self.keys or ()) + ((OTHER,) if self.other_group else ())


def grouping_of(
    by: tuple[str, ...],
    keys: object,
    max_groups: int,
    contrasts: object,
    membership: str,
    rule: str | None,
    *,
    other_group: bool,
    shrink: bool,
    simultaneous: bool,
) -> Grouping:
    """The words of a question as one value; ArgumentError for what cannot be meant."""
    if not by or len(by) > MOST_COLUMNS:
        raise ArgumentError(
            "by", by, "is not a column of groups", f"name 1 to {MOST_COLUMNS} columns"
        )
    validate.choice("membership", membership, [PRIVATE, PUBLIC])
    for name, flag in (
        ("other_group", other_group),
        ("shrink", shrink),
        ("simultaneous", simultaneous),
    ):
        if flag is not True and flag is not False:
            raise ArgumentError(name, flag, "must be True or False", "use True or False")
    said: Any = () if contrasts is None else contrasts
    asked = validate.several("contrasts", said, "say 'a - b', or several in a list")
    weights = weights_of(max_groups, rule)
    if keys is None:
        if membership == PUBLIC:
            raise ArgumentError(
                "keys", None, "are required where membership is public", "name the public keys"
            )
        if other_group:
            raise ArgumentError(
                "other_group",
                other_group,
                "requires public keys",
                "name the public keys, or remove other",
            )
        later = later_contrasts(asked)
        return Grouping(by, None, weights, (), other_group, shrink, simultaneous, later)
    listed = keys.tolist() if hasattr(keys, "tolist") else keys
    listed = listed.to_list() if hasattr(listed, "to_list") else listed
    if isinstance(listed, str | bytes | Mapping) or not isinstance(listed, Sequence):
        raise ArgumentError(
            "keys",
            keys,
            "is not a list of groups",
            "give the public keys, such as keys=['north', 'south']",
        )
    texts = key_texts("keys", list(listed), len(by))
    if not texts:
        raise ArgumentError("keys", keys, "is empty", "name the groups in keys")
    labels = [label(key) for key in texts]
    twice = sorted(item for item, count in Counter(labels).items() if count > 1)
    if twice:
        raise ArgumentError(
            "keys",
            twice[0],
            "is the text of two keys",
            "remove commas from keys of several columns",
        )
    if other_group and OTHER in labels:
        raise ArgumentError(
            "other_group", other_group, f"requires that {OTHER!r} is not a key", "rename the key"
        )
    shown = [*labels, OTHER] if other_group else labels
    return Grouping(
        by,
        texts,
        weights,
        contrasts_of(asked, shown),
        other_group,
        shrink,
        simultaneous,
    )
