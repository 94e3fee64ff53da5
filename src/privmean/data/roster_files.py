"""A public roster from a file: one id a line, or a column of a CSV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privmean.data import schema
from privmean.data.text_files import TextFile, csv_files, ending, readable
from privmean.data.text_format import TextFormat, options
from privmean.data.text_record import csv_fields, lines
from privmean.errors import ArgumentError


def roster_ids(path: str, column: str, written: Mapping[str, Any]) -> list[str]:
    """The ids in a file: every line of a text file, or the column of a .csv or .tsv file.

    written: how text files are written, as keywords of `privmean.read`. Ids are read like those of
    the table, so that the same bytes are the same person. Empty lines are left out. Raises
    ArgumentError or SchemaError.
    """
    where, given = Path(path), options(**written)
    if not where.is_file():
        raise ArgumentError("roster", path, "does not exist", "check the path")
    with readable(where):
        if ending(where) in (".csv", ".tsv"):
            found = csv_files([where], given)
            schema.one_of(found.columns, "roster_column", column)
            place = found.columns.place(column)
            return _ids(found.files[0], place, skip=found.headed())
        form = TextFormat(encoding=given.get("encoding", "utf-8"), quote="", delimiter="\x1f")
        return _ids(TextFile(where, form), 0, skip=False)


def _ids(file: TextFile, place: int, *, skip: bool) -> list[str]:
    with file.opened() as (stream, _):
        rows = lines(stream)
        if skip:
            next(rows, None)
        found = (csv_fields(line, file.form, [place])[0] for line, _ in rows)
        return [item for item in found if item is not None]
