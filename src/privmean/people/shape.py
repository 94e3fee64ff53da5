"""All that is public about the people of one question, known before a plan is made."""

from __future__ import annotations

from dataclasses import dataclass

from privmean import validate
from privmean.errors import ArgumentError


@dataclass(frozen=True)
class Shape:
    """columns: their names. persons: n where neighbours share the roster, else None. design: a
    public guess of n where it is private. cap: records up to which a person counts, for the mean
    over records (None: every person counts once)."""

    columns: tuple[str, ...]
    persons: int | None = None
    design: int | None = None
    cap: int | None = None

    @classmethod
    def of(cls, dimension: int = 1, persons: int | None = None, design: int | None = None) -> Shape:
        """Columns that are only numbered."""
        width = validate.whole("dimension", dimension, least=1)
        return cls(tuple(f"column {j}" for j in range(width)), persons, design)

    @property
    def dimension(self) -> int:
        return len(self.columns)

    @property
    def count(self) -> int | None:
        """The number of persons to plan with: n, or the public guess of it."""
        return self.persons if self.persons is not None else self.design

    def counted(self) -> int:
        """`count`, which must be known."""
        if self.count is None:
            raise ArgumentError(
                "n_design", None, "the number of persons is private", "give a public guess of it"
            )
        return self.count

    def known(self) -> int:
        """n, which must be public."""
        return validate.whole("persons", self.persons, least=1)
