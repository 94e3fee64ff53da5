"""Keys of groups in one canonical text: the same for a Python value, a column and any engine.

Text is taken as it stands (bytes compared, nothing trimmed, "" is a key), whole numbers in decimal
digits, booleans as `true` and `false`, dates as `2026-01-31`. Whole numbers stored as doubles (as
pandas leaves a column with gaps) are whole numbers; any other double is no key. In text files the
column of keys is text as it was written: its type never follows from what is in it. But a listed
key is found by its usual other spellings, too (`1.0` for 1, `True` for true, as pandas writes
them), unless these are keys of the list themselves.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.output import count_noun

WHOLE = 2.0**53  # whole numbers up to here have a double each
SPELLED = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.0)?")
TRUTH = (("true", "True", "TRUE"), ("false", "False", "FALSE"))
ACCEPTED = "text, whole numbers, booleans or dates"


def key_text(name: str, key: object) -> str:
    """The canonical text of one public key; ArgumentError for what cannot be one."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool | np.bool_):
        return "true" if key else "false"
    if isinstance(key, int | np.integer):
        return str(int(key))
    if isinstance(key, float | np.floating):
        number = float(key)
        if number.is_integer() and abs(number) <= WHOLE:
            return str(int(number))
    if isinstance(key, datetime.date) and not isinstance(key, datetime.datetime):
        return key.isoformat()
    if isinstance(key, np.datetime64) and np.datetime_data(key.dtype)[0] == "D" and key == key:  # noqa: PLR0124
        return str(key)
    raise ArgumentError(name, key, "is not a key", f"give {ACCEPTED}")


def object_text(item: object) -> object:
    """A Python object of a column as the text of a key where its type has one, else itself."""
    if isinstance(item, bool | np.bool_ | float | np.floating | datetime.date):
        try:
            return key_text("key", item)
        except ArgumentError:
            return None if isinstance(item, float | np.floating) else item
    return item


def key_texts(name: str, keys: Sequence[object], columns: int) -> tuple[tuple[str, ...], ...]:
    """Public keys as tuples of canonical texts, one text a column, all different."""
    found = []
    for key in keys:
        parts = tuple(key) if isinstance(key, tuple | list) else (key,)
        if len(parts) != columns:
            raise ArgumentError(
                name,
                key,
                f"is not a key of {count_noun(columns, 'column')}",
                "give one value for each column of by",
            )
        found.append(tuple(key_text(name, part) for part in parts))
    seen: dict[tuple[str, ...], Any] = {}
    for text, key in zip(found, keys, strict=True):
        if text in seen:
            raise ArgumentError(
                name, key, f"is the same key as {seen[text]!r}", "name each key once"
            )
        seen[text] = key
    return tuple(found)


def spellings(text: str) -> tuple[str, ...]:
    """A key and what else means the same in a text that somebody's program wrote."""
    number = SPELLED.fullmatch(text)
    if number is not None:
        return text, (number[1] if number[2] else f"{text}.0")
    return next(((text, *words) for words in TRUTH if text in words), (text,))


def spelled(places: Iterable[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], int]:
    """The place of every text of a key: those that are listed, then their other spellings. One
    that could be two keys is none."""
    listed = dict(places)
    others: dict[tuple[str, ...], set[int]] = {}
    for key, place in listed.items():
        for other in product(*map(spellings, key)):
            others.setdefault(other, set()).add(place)
    return listed | {
        key: next(iter(found))
        for key, found in others.items()
        if len(found) == 1 and key not in listed
    }


def keys_of(name: str, given: object) -> tuple[tuple[str, ...], ...]:
    """Keys as texts, one a column; a text alone is a key of one column."""
    remedy = "give each key as a tuple, such as (('a',), ('b',))"
    keys = tuple(
        validate.several(name, key, remedy) for key in validate.listed(name, given, remedy)
    )
    for key in keys:
        if not key or not all(isinstance(part, str) for part in key):
            raise ArgumentError(name, key, "is not a key", remedy)
    return keys


def label(parts: Sequence[str]) -> str:
    """A key as it is shown: the values of several columns with commas."""
    return ", ".join(parts)


def by_text(keys: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Keys in the order of their texts, by bytes: what ties are decided by."""
    return tuple(sorted(keys, key=lambda key: tuple(part.encode() for part in key)))
