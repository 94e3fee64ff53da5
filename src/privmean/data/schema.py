"""Which columns of a table are meant. Looks at names and types only, never at a record.

All that is public about the people of one question, known before a plan is made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args

from privmean import validate
from privmean.data.grids import RESOLUTION
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError, SchemaError
from privmean.output import count_noun
from privmean.privacy.budget import ADD_REMOVE, Relation

MOST_COLUMNS = 10_000  # more would make a query no engine can plan; arrays have no such limit


class TypeBounds(tuple[float, float]):
    """A pair of bounds that the declared type of a column implies, as close as bounds of values can
    be: values are clipped to them, and no value lies beyond."""

    __slots__ = ()


BOOLEAN = TypeBounds((0.0, 1.0))


@dataclass(frozen=True)
class Columns:
    """What is known of a table's columns before a record is read.

    names: of all columns; None where the caller names them: the keys of JSON lines, or with
    `places` the numbers "1", "2", ... of the columns of a CSV without a header. shown: whether a
    message may list the names; the first line of a CSV could be a record.
    """

    names: tuple[str, ...] | None = None
    shown: bool = True
    places: bool = False

    def __contains__(self, name: str) -> bool:
        return self.times(name) > 0

    def times(self, name: str) -> int:
        """How many columns are called so."""
        if self.names is not None:
            return self.names.count(name)
        return not self.places or bool(PLACE.fullmatch(name))

    def place(self, name: str) -> int:
        """Which column it is, from 0."""
        return int(name) - 1 if self.names is None else self.names.index(name)

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """The names that a wildcard means."""
        return [name for name in self.names or () if pattern.fullmatch(name)]

    def advice(self, name: str) -> str:
        """What may have been meant by a name that no column has."""
        if self.names is None:
            return "use the numbers '1', '2', ... of columns" if self.places else "name it"
        if not self.shown:
            return (
                "check the name, delimiter and encoding. The first line has "
                f"{count_noun(len(self.names), 'field')}; use header=True to see them"
            )
        return near(name, self.names)


PLACE = re.compile("[1-9][0-9]{0,5}")


def near(name: str, available: Sequence[str], kind: str = "columns") -> str:
    """Advice: the names that look like `name`, or the first few there are."""
    lowered = {item.lower(): item for item in reversed(available)}
    close = [lowered[hit] for hit in get_close_matches(str(name).lower(), lowered, n=3, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(repr(item) for item in close) + "?"
    shown = ", ".join(repr(item) for item in available[:8])
    more = f" and {len(available) - 8} more" if len(available) > 8 else ""
    return f"choose one of {shown}{more}" if available else f"check that there are {kind}"


def person_column(available: Columns, person: object) -> str:
    """The name of the column of person ids."""
    if not isinstance(person, str):
        raise ArgumentError(
            "person", person, "is not a column name", "name the column that identifies people"
        )
    one_of(available, "person", person)
    return person


def value_columns(available: Columns, person: str, values: object) -> tuple[str, ...]:
    """The value columns asked for, wildcards (* and ?) resolved against the names there are.

    An exact name wins over a wildcard reading of it; a wildcard skips the person column and the
    columns that were named already.
    """
    wanted = [values] if isinstance(values, str) else values
    if not isinstance(wanted, Iterable):
        raise ArgumentError(
            "values", values, "must name at least one column", "give a name or a list of names"
        )
    asked = list(wanted)
    if not asked:
        raise ArgumentError(
            "values", values, "must name at least one column", "give a name or a list of names"
        )
    if len(asked) > MOST_COLUMNS:
        raise _too_many(len(asked))
    for item in asked:
        if not isinstance(item, str):
            raise ArgumentError("values", item, "is not a column name", "give names of columns")
    twice = [name for name, times in Counter(asked).items() if times > 1]
    if twice:
        raise ArgumentError("values", twice[0], "is named twice", "name each column once")
    explicit = {item for item in asked if item in available}
    chosen: dict[str, None] = {}
    for item in asked:
        wild = "*" in item or "?" in item
        if wild and (available.names is None or not available.shown):
            _no_wildcard(item, available)
        if not wild or item in available:
            one_of(available, "values", item)
            if item == person:
                raise ArgumentError(
                    "values", item, "is the column of person ids", "name another column"
                )
            chosen[item] = None
            continue
        pattern = re.compile(
            "".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in item), re.DOTALL
        )
        hits = [name for name in available.matching(pattern) if name != person]
        if not hits:
            raise ArgumentError("values", item, "does not match a column", available.advice(item))
        for name in hits:
            one_of(available, "values", name)
            if name not in explicit:
                chosen[name] = None
    if len(chosen) > MOST_COLUMNS:
        raise _too_many(len(chosen))
    return tuple(chosen)


def _no_wildcard(item: str, available: Columns) -> None:
    """Where names may be those of a record, a pattern would let the record choose."""
    if available.names is None:
        remedy = "name every column"
    elif item in available:
        return
    else:
        remedy = "name every column, or use header=True if the first line has names"
    raise ArgumentError(
        "values", item, "is a pattern, but the column names are not known for certain", remedy
    )


def one_of(available: Columns, argument: str, name: str) -> None:
    """Refuse a name that no column has, or several."""
    times = available.times(name)
    if times == 0:
        raise ArgumentError(argument, name, "is not a column of the table", available.advice(name))
    if times > 1:
        raise SchemaError(f"{times} columns are named {name!r}. Rename them.")


def _too_many(asked: int) -> ArgumentError:
    return ArgumentError(
        "values",
        asked,
        f"must be at most {MOST_COLUMNS} columns in one query",
        "name fewer columns, or pass an array with one row per person",
    )


@dataclass(frozen=True)
class PublicShape:
    """columns: their names. persons: n where neighbors share the roster, else None. design: a
    public guess of n where it is private. cap: records up to which a person counts, for the mean
    over records (None: every person counts once). declared: what is owed to the types of the
    columns, in words."""

    columns: tuple[str, ...]
    n: int | None = None
    n_guess: int | None = None
    max_records: int | None = None
    declared: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, dimension: int = 1, persons: int | None = None, design: int | None = None
    ) -> PublicShape:
        """Columns that are only numbered."""
        width = validate.whole("dimension", dimension, least=1)
        return cls(tuple(f"column {j}" for j in range(width)), persons, design)

    @property
    def dimension(self) -> int:
        return len(self.columns)

    @property
    def count(self) -> int | None:
        """The number of people to plan with: n, or the public guess of it."""
        return self.n if self.n is not None else self.n_guess

    def number(self, least: int = 1) -> int:
        """The number of people that a method plans with and needs."""
        if self.n is not None:
            return validate.whole("n", self.n, least=least)
        if self.n_guess is None:
            raise ArgumentError(
                "n_guess",
                None,
                "is required under neighbors='add-remove', where n is private",
                "give a public guess of n",
            )
        return validate.whole("n_guess", self.n_guess, least=least)

    def known(self) -> int:
        """n, which must be public."""
        return validate.whole("n", self.n, least=1)


def require_persons(count: int) -> None:
    """SchemaError for a table of nobody."""
    if count == 0:
        raise SchemaError(
            "the table has no person: no record has an id. Check that the file "
            "has one record per line, and check the column of people."
        )


def shape_of(people: PersonTable, relation: Relation, guess: int | None) -> PublicShape:
    """What is public about these people. guess: of their number, where it is private."""
    if relation == ADD_REMOVE:
        design = None if guess is None else validate.whole("n_guess", guess, least=1)
        return PublicShape(tuple(people.columns), None, design, people.max_records)
    if guess is not None:
        raise ArgumentError(
            "n_guess", guess, "is only for neighbors='add-remove'", "remove it; n is public here"
        )
    persons = people.size()
    require_persons(persons)  # public under replace-one
    return PublicShape(tuple(people.columns), persons, None, people.max_records)


# --- whose mean, and on which grid ----------------------------------------------------------------
Estimand = Literal["people", "records"]
ESTIMANDS: tuple[Estimand, ...] = get_args(Estimand)
LARGEST_CAP = 2**20  # w z fits a double exactly, with |z| <= 2^21
COARSEST = 2.0**100


def checked(estimand: str, max_records: object, resolution: float) -> tuple[int | None, float]:
    """The record cap and the resolution, refused from the arguments alone."""
    validate.choice("estimand", estimand, ESTIMANDS)
    weight = _cap(estimand, max_records)
    step = validate.power_of_two("resolution", resolution)
    if not RESOLUTION <= step <= COARSEST:
        raise ArgumentError(
            "resolution", resolution, "is out of range",
            "choose between 2**-36 and 2**100; give values that are smaller in a smaller unit",
        )  # fmt: skip
    return weight, step


def _cap(estimand: str, max_records: object) -> int | None:
    if estimand == "people":
        if max_records is not None:
            raise ArgumentError(
                "max_records",
                max_records,
                "requires estimand='records'",
                "remove it, or use estimand='records'",
            )
        return None
    remedy = "give the most records per person that count"
    if max_records is None:
        raise ArgumentError("max_records", None, "is required for estimand='records'", remedy)
    result = validate.whole("max_records", max_records, least=1, remedy=remedy)
    if result > LARGEST_CAP:
        raise ArgumentError(
            "max_records", max_records, "is too large", f"give at most {LARGEST_CAP}"
        )
    return result
