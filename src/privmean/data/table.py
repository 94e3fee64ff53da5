"""A table of records, who is in it, and the machine that reads it: declared, read when asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privmean.data.grids import RESOLUTION
from privmean.data.text_record import options
from privmean.errors import ArgumentError
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.column_types import PublicBounds
    from privmean.data.duckdb_engine import Person, Records, Roster, Rows
    from privmean.data.person_table import PersonTable
    from privmean.data.schema import Estimand


@known_keywords
@dataclass(frozen=True)
class Resources:
    """Limits of memory and processors for reading; no result depends on them.

    Parameters
    ----------
    memory_limit : str, optional
        Such as "4GB".
    threads : int, optional
        Number of threads.
    temp_directory : str, optional
        Folder for what does not fit into memory.
    progress : bool, default False
        Show the progress of reading on standard error.

    Examples
    --------
    limits = pm.Resources(memory_limit="1GB", threads=1)
    table = pm.Table(pm.example("ratings", "r.csv"), person="student", resources=limits)
    pm.mean(table, "rating", assume=(1, 5), epsilon=1.0)
    """

    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: str | None = None
    progress: bool = False

    def options(self) -> dict[str, Any]:
        """The same by the names that readers use."""
        return dict(vars(self))

    def limits(self) -> dict[str, Any]:
        """The same for what is read without showing progress."""
        return {name: value for name, value in vars(self).items() if name != "progress"}


class Summary(Protocol):
    """What one row a person is: a value, so that equal summaries are reduced once."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Its columns, where they are known before the table is opened."""
        ...

    def reduce(self, table: Table) -> PersonTable:
        """Read the table; private, spends nothing."""
        ...


@known_keywords
class Table:
    """Describe records in a file, a frame or arrays, and the column that identifies people.

    Parameters
    ----------
    source : path, DataFrame, table, mapping of arrays or array
        The records, as for `read`. Nothing is opened here.
    person : str or array
        Column that identifies people; optional for an array with one row per person.
    roster : list or path, optional
        Public ids of all people.
    delimiter : str, optional
        CSV delimiter. Default: a comma, or a tab for .tsv.
    quote : str, optional
        CSV quote, '"' by default; "" for none.
    decimal : str, optional
        Decimal sign, "." by default or ",".
    encoding : str, optional
        "utf-8" by default, or an encoding of one byte per character.
    header : bool, optional
        True: the first line has public column names, which messages may show. False: columns
        are called "1", "2", ... Default: the first line names the columns and is not shown.
    na_values : list of str, optional
        Texts that mean missing.
    types : dict or list of str, optional
        Types of columns of text files, such as {"y": "boolean"}: "boolean" (bounds 0 and 1) or
        "unsigned" (lower bound 0). A value that the type excludes is missing.
    resources : Resources, optional
        Limits of memory and processors for reading.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Charges nothing. The records are private. Public are the schema and, under replace-one,
    the roster.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")  # or a path, a frame
    pm.mean(table, "ln_wage", epsilon=1.0)
    """

    def __init__(
        self,
        source: Records | Rows,
        *,
        person: Person | None = None,
        roster: Roster | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        header: bool | None = None,
        na_values: Sequence[str] = (),
        types: Mapping[str, str] | Sequence[str] = (),
        resources: Resources = Resources(),
    ) -> None:
        if not isinstance(source, np.ndarray) and (not isinstance(person, str) or not person):
            problem = "is required" if person is None else "is not a column"
            raise ArgumentError("person", person, problem, "name the column that identifies people")
        if not isinstance(resources, Resources):
            raise ArgumentError(
                "resources",
                resources,
                "is not a pm.Resources object",
                "use for example pm.Resources(threads=2)",
            )
        self.source = os.path.expanduser(source) if isinstance(source, str) else source
        self.person, self.roster, self.resources = person, roster, resources
        self.text = options(
            delimiter=delimiter,
            quote=quote,
            decimal=decimal,
            encoding=encoding,
            header=header,
            na_values=na_values,
            types=types,
        )
        self._reduced: dict[Summary, PersonTable] = {}
        self._declared: dict[object, tuple[tuple[str, ...], dict[str, PublicBounds]]] = {}

    @property
    def name(self) -> str:
        """The table by its file's name and its person column; "" for what has no file."""
        if not isinstance(self.source, str | os.PathLike):
            return ""
        # of a database's address, too, this is the last part: its name and the table's
        return f"{os.path.basename(os.fspath(self.source))} by {self.person}"

    def people(self, summary: Summary) -> PersonTable:
        """One row a person. Equal summaries are reduced once."""
        if summary not in self._reduced:
            self._reduced[summary] = summary.reduce(self)
        return self._reduced[summary]

    def public_bounds(
        self, values: Sequence[str] | None, keys: Sequence[str] = ()
    ) -> tuple[tuple[str, ...], dict[str, PublicBounds]]:
        """The columns that `values` mean, and what the declared types of these columns, and of the
        columns of keys, exclude. Types are public. Read once."""
        asked = None if values is None else tuple(values)
        if isinstance(self.source, np.ndarray):  # one type for all of its columns
            width = self.source.shape[1] if self.source.ndim > 1 else 1
            named = tuple(str(j) for j in range(width)) if asked is None else asked
            if self.source.dtype.kind != "b":
                return named, {}
            from privmean.data.column_types import BOOLEAN

            return named, dict.fromkeys(named, BOOLEAN)
        known = asked, tuple(keys)
        if known not in self._declared:
            from privmean.data.open_source import declared_bounds

            self._declared[known] = declared_bounds(
                self.source, self.person, asked, keys, self.text, self.resources.limits(),
                self._reduced.values(),
            )  # fmt: skip
        return self._declared[known]

    def count_people(self, columns: Sequence[tuple[str, str]] = ()) -> int | None:
        """The number of people, from a given roster or the column of people alone; None where
        that takes reading the rest (frames and arrays). Public under replace-one only. columns:
        names of others that are to be in a file, each after how a message calls it."""
        from privmean.data.open_source import count_persons

        if self.roster is not None:
            return None
        limits = self.resources.limits()
        return count_persons(self.source, self.person, self.text, limits, columns)

    def groups(self, column: str) -> tuple[int, ...]:
        """Numbers of people in each group of a public column, largest first."""
        from privmean.data.groups import group_sizes

        if not isinstance(self.person, str):
            raise ArgumentError(
                "source",
                type(self.source).__name__,
                "requires a column of groups",
                "give a table with named columns, or the sizes of groups",
            )
        limits = self.resources.limits()
        return group_sizes(self.source, person=self.person, group=column, **self.text, **limits)


@dataclass(frozen=True)
class RecordMeans:
    """A person's mean of own records in some columns; see `privmean.read` for every field."""

    values: tuple[str, ...] | None = None
    estimand: Estimand = "people"
    max_records: int | None = None
    resolution: float = RESOLUTION

    def __post_init__(self) -> None:
        from privmean.data.schema import checked

        checked(self.estimand, self.max_records, self.resolution)

    @classmethod
    def of_one(cls, value: object, resolution: float) -> RecordMeans:
        """Of one column; None: of people that have one."""
        if value is not None and not isinstance(value, str):
            raise ArgumentError("value", value, "is not a column", "name one column")
        return cls(None if value is None else (value,), resolution=resolution)

    @property
    def names(self) -> tuple[str, ...] | None:
        named = self.values
        if named is None or any("*" in name or "?" in name for name in named):
            return None
        return named

    def reduce(self, table: Table) -> PersonTable:
        from privmean.data.read import read

        return read(
            table.source,
            person=table.person,
            values=None if self.values is None else list(self.values),
            estimand=self.estimand,
            max_records=self.max_records,
            resolution=self.resolution,
            roster=table.roster,
            **table.text,
            **table.resources.options(),
        )
