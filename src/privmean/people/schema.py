"""Which columns of a table are meant. Looks at names and types only, never at a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from privmean.errors import ArgumentError, SchemaError

MOST_COLUMNS = 10_000  # more would make a query no engine can plan; arrays have no such limit


def near(name: str, available: Sequence[str]) -> str:
    """Advice: the names that look like `name`, or the first few there are."""
    lowered = {item.lower(): item for item in reversed(available)}
    close = [lowered[hit] for hit in get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(repr(item) for item in close) + "?"
    shown = ", ".join(repr(item) for item in available[:8])
    more = f" and {len(available) - 8} more" if len(available) > 8 else ""
    return f"the columns are {shown}{more}" if available else "the table has no columns"


def person_column(available: Sequence[str], person: object) -> str:
    """The name of the column of person ids."""
    if not isinstance(person, str):
        raise ArgumentError(
            "person", person, "is not a column name", "name the column that says who it is"
        )
    _one_of(available, "person", person)
    return person


def value_columns(available: Sequence[str], person: str, values: object) -> tuple[str, ...]:
    """The value columns asked for, wildcards (* and ?) resolved against the names there are.

    An exact name wins over a wildcard reading of it; a wildcard skips the person column and the
    columns that were named already.
    """
    wanted = [values] if isinstance(values, str) else values
    if not isinstance(wanted, Iterable):
        raise ArgumentError("values", values, "names no columns", "give a name or a list of names")
    asked = list(wanted)
    if not asked:
        raise ArgumentError("values", values, "names no columns", "give a name or a list of names")
    if len(asked) > MOST_COLUMNS:
        raise _too_many(len(asked))
    for item in asked:
        if not isinstance(item, str):
            raise ArgumentError("values", item, "is not a column name", "give names of columns")
    twice = [name for name, times in Counter(asked).items() if times > 1]
    if twice:
        raise ArgumentError("values", twice[0], "is asked for twice", "name each column once")
    known = set(available)
    explicit = {item for item in asked if item in known}
    chosen: dict[str, None] = {}
    for item in asked:
        if item in known or not ("*" in item or "?" in item):
            _one_of(available, "values", item)
            if item == person:
                raise ArgumentError(
                    "values", item, "is the column of person ids", "name a column of numbers"
                )
            chosen[item] = None
            continue
        pattern = re.compile(
            "".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in item), re.DOTALL
        )
        hits = [name for name in available if name != person and pattern.fullmatch(name)]
        if not hits:
            raise ArgumentError("values", item, "matches no column", near(item, available))
        for name in hits:
            _one_of(available, "values", name)
            if name not in explicit:
                chosen[name] = None
    if len(chosen) > MOST_COLUMNS:
        raise _too_many(len(chosen))
    return tuple(chosen)


def _one_of(available: Sequence[str], argument: str, name: str) -> None:
    times = available.count(name)
    if times == 0:
        raise ArgumentError(argument, name, "is not a column of the table", near(name, available))
    if times > 1:
        raise SchemaError(f"{times} columns are named {name!r}; rename them so that one is meant")


def _too_many(asked: int) -> ArgumentError:
    return ArgumentError(
        "values",
        asked,
        f"that many columns cannot be read in one query (at most {MOST_COLUMNS})",
        "name fewer columns, or give a NumPy array with one row a person",
    )
