"""The names of a table's columns: its schema and nothing else."""

from __future__ import annotations

from privmean.people import schema
from privmean.people.tables import open_source
from privmean.people.textformat import options


def column_names(source: object, person: str) -> list[str]:
    """The columns, `person` checked to be one; no record is read. Empty where the caller must name
    them, or where the first line could be a record."""
    opened = open_source(
        source, options(), {"memory_limit": None, "threads": None, "temp_directory": None}
    )
    schema.person_column(opened.names, person)
    names = opened.names.names if opened.names.shown else None
    return list(names or ())
