"""The names of a table's columns, and how many people it has: public facts, nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import narwhals as nw

from privmean.data import schema
from privmean.data.engines import fetch
from privmean.data.open_source import open_source, typed
from privmean.data.person_records import PERSON
from privmean.data.text_format import options
from privmean.errors import ArgumentError


def column_names(source: object, person: str, header: bool | None = None) -> list[str]:
    """The columns, `person` checked to be one; no record is read. Empty where the caller must name
    them, or where the first line could be a record: header says that it is none."""
    opened = open_source(
        source,
        options(header=header),
        {"memory_limit": None, "threads": None, "temp_directory": None},
    )
    schema.person_column(opened.names, person)
    names = opened.names.names if opened.names.shown else None
    return list(names or ())


def count_persons(
    source: object,
    person: object,
    text: Mapping[str, object],
    resources: Mapping[str, object],
    columns: Sequence[tuple[str, str]] = (),
) -> int | None:
    """The people of a file, from its column of people alone; what it holds of them is not read.

    columns: names of others that are to be there, each after how a message calls it. None for
    sources of another kind: frames and arrays are counted when they are reduced.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    opened = open_source(source, text, resources)
    who = schema.person_column(opened.names, person)
    for argument, name in columns:
        schema.one_of(opened.names, argument, name)
        if name == who:
            raise ArgumentError(
                argument, name, "is the column of person ids", "name another column"
            )
    records = typed(opened.records(who, ()), who, ()).filter(~nw.col(PERSON).is_null())
    if records.implementation.is_ibis():
        counted = records.group_by(PERSON).agg(nw.len().alias("n")).select(nw.len())
    else:
        counted = records.select(nw.col(PERSON).n_unique())
    ((persons,),) = fetch(opened.home.keep(counted))
    return int(persons)
