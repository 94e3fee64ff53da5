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
    """keys: public ones as texts, in the order in which they were given (None: private). labels: of
    all rows of a release with public keys, in order. contrasts: comparisons of these; later: those
    of keys that are not known yet."""

    keys: tuple[tuple[str, ...], ...] | None
    labels: tuple[str, ...]
    weights: GroupWeights
    contrasts: tuple[Contrast, ...]
    later: tuple[object, ...] = ()


def grouping_of(
    by: tuple[str, ...],
    keys: object,
    max_groups: int,
    contrasts: object,
    membership: str,
    rule: str | None,
    other_group: bool,
) -> Grouping:
    """The words of a question as one value; ArgumentError for what cannot be meant."""
    if not by or len(by) > MOST_COLUMNS:
        raise ArgumentError(
            "by", by, "is not a column of groups", f"name 1 to {MOST_COLUMNS} columns"
        )
    validate.choice("membership", membership, [PRIVATE, PUBLIC])
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
        return Grouping(None, (), weights, (), later_contrasts(asked))
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
    shown = (*labels, OTHER) if other_group else tuple(labels)
    return Grouping(texts, shown, weights, contrasts_of(asked, shown))
