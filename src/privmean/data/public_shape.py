"""All that is public about the people of one question, known before a plan is made."""

from __future__ import annotations

from dataclasses import dataclass

from privmean import validate
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError, SchemaError
from privmean.privacy.budget import ADD_REMOVE, Relation


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

    def counted(self) -> int:
        """`count`, which must be known."""
        if self.count is None:
            raise ArgumentError(
                "n_guess", None, "is required, because n is private", "give a public guess of n"
            )
        return self.count

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
