"""Sizes of public groups of people, counted from a table whose group column is public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import narwhals as nw

from privmean.data import schema
from privmean.data.engines import fetch
from privmean.data.open_source import open_source, typed, types_of
from privmean.data.person_records import PERSON, within_years
from privmean.data.read import ReadOptions, reads, told
from privmean.errors import SchemaError

if TYPE_CHECKING:
    from privmean.data.duckdb_engine import Records, Rows


@reads
def group_sizes(
    source: Records | Rows,
    *,
    person: str,
    group: str,
    **said: Unpack[ReadOptions],
) -> tuple[int, ...]:
    """Return n of each public group, largest first.

    Parameters
    ----------
    source : path, DataFrame or table
        The records, as for `read`.
    person : str
        Column of person ids.
    group : str
        Public column, the same in all records of a person (school, firm, village).
    delimiter : str, optional
        CSV delimiter. Default: a comma, or a tab for .tsv.
    quote : str, optional
        CSV quote, '"' by default; "" for none.
    decimal : str, optional
        Decimal sign, "." by default or ",".
    encoding : str, optional
        "utf-8" by default, or an encoding of one byte per character.
    header : bool, optional
        True: the first line has public column names, which messages may show. False: columns are
        called "1", "2", ... Default: the first line names the columns and is not shown.
    na_values : list of str, optional
        Texts that mean missing.
    types : dict or list of str, optional
        Types of columns of text files, such as {"y": "boolean"}: "boolean" (bounds 0 and 1) or
        "unsigned" (lower bound 0). A value that the type excludes is missing.
    memory_limit : str, optional
        Memory for reading, such as "4GB"; the rest goes to disk.
    threads : int, optional
        Processors for reading.
    temp_directory : str, optional
        Folder for temporary files.

    Returns
    -------
    tuple of int
        n of each group.

    Raises
    ------
    SchemaError
        If a person is in no group or in several groups.

    Privacy
    -------
    Charges nothing. Group membership is public, and the error may depend on it.

    Examples
    --------
    table = {"pupil": [1, 1, 2, 3], "school": ["a", "a", "a", "b"], "score": [5, 6, 7, 8]}
    assert pm.group_sizes(table, person="pupil", group="school") == (2, 1)
    """
    text, resources = told("group_sizes", said)
    opened = open_source(source, text, resources)
    who = schema.person_column(opened.names, person)
    schema.one_of(opened.names, "group", group)
    schema.value_columns(opened.names, who, [group])
    raw = opened.records(who, [group], [group])
    # ids in the form in which people are counted elsewhere; the group as text
    raw = within_years(raw, types_of(raw, [who, group]), ["x0"])
    named = raw.with_columns(nw.col("x0").cast(nw.String()).alias("x0"))
    records = typed(named, who, [group], [group]).filter(~nw.col(PERSON).is_null())
    people = records.group_by(PERSON).agg(
        nw.col("x0").min().alias("first"), nw.col("x0").max().alias("last")
    )
    strange = nw.when(nw.col("first") == nw.col("last")).then(nw.lit(0)).otherwise(nw.lit(1))
    counted = (
        people.with_columns(strange.alias("strange"))
        .group_by("first")
        .agg(nw.len().alias("persons"), nw.col("strange").sum().alias("strange"))
    )
    rows = fetch(opened.home.keep(counted.select("persons", "strange")))
    if sum(int(row[1]) for row in rows):
        raise SchemaError(
            "some people are in no group or in several groups of column "
            f"{group!r}. Give every person one public group."
        )
    return tuple(sorted((int(row[0]) for row in rows), reverse=True))
