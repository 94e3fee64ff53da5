"""What the declared types of a table's columns exclude. Reads the schema, never a record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from privmean.data import schema
from privmean.data.column_types import PublicBounds, public_bounds
from privmean.data.open_path import is_text
from privmean.data.open_source import open_source, types_of


def declared_bounds(
    source: object,
    person: object,
    values: Sequence[str] | None,
    keys: Sequence[str],
    text: Mapping[str, object],
    resources: Mapping[str, Any],
) -> tuple[tuple[str, ...], dict[str, PublicBounds]]:
    """The columns that `values` mean, and the public bounds of those of them, and of the columns of
    keys, that have some."""
    if not text.get("types") and isinstance(source, str | os.PathLike) and is_text(source):
        return tuple(values or ()), {}
    opened = open_source(source, text, resources)
    who = schema.person_column(opened.names, person)
    named = () if values == () else schema.value_columns(opened.names, who, values)
    every = (*named, *(name for name in keys if name not in named))
    for name in keys:
        schema.one_of(opened.names, "by", name)
    if opened.declared is not None:
        kinds = {name: opened.declared(name) for name in every}
    else:
        types = types_of(opened.records(who, every, keys), every)
        kinds = {name: types[f"x{j}"] for j, name in enumerate(every)}
    known = {name: public_bounds(kind) for name, kind in kinds.items()}
    return named, {name: found for name, found in known.items() if found is not None}
