"""What can be said of a budget, of text files and of the machine: with its type and its help.

A command line has these words as options, a file of a study as keys: both read them here.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from privmean.data.table import Resources

Level = Annotated[float, "Level of the interval."]
Header = Annotated[
    bool | None,
    "CSV: say that the first line names the columns (then messages may show it and wildcards match "
    "it), or that it is a record and columns are called 1, 2, ...",
    "--header/--no-header",
]


@dataclass(frozen=True)
class BudgetOptions:
    """What may be spent."""

    epsilon: Annotated[float | None, "Privacy budget epsilon. There is no default."] = None
    delta: Annotated[float, "Privacy budget delta (0: pure differential privacy)."] = 0.0
    rho: Annotated[float | None, "zCDP budget, instead of epsilon and delta."] = None


@dataclass(frozen=True)
class NeighborOptions(BudgetOptions):
    """What may be spent, and between which neighbours."""

    neighbors: Annotated[
        str | None,
        "Neighbouring relation: replace-one (n public; the usual one) or add-remove (usual for "
        "means by group).",
    ] = None


@dataclass(frozen=True)
class ReleaseOptions(NeighborOptions):
    """What one release may spend, and at which level its intervals are."""

    n_design: Annotated[int | None, "Public guess of the number of persons, for add-remove."] = None
    level: Level = 0.95


@dataclass(frozen=True)
class TextOptions:
    """How text files are written."""

    delimiter: Annotated[str | None, "CSV: what separates fields (a comma; a tab for .tsv)."] = None
    quote: Annotated[str | None, "CSV: the quote, or '' for none."] = None
    decimal: Annotated[str | None, "CSV: the decimal sign, a point or a comma."] = None
    encoding: Annotated[
        str | None, "Text files: UTF-8, or an encoding such as latin-1 or cp1252."
    ] = None
    header: Header = None
    null_words: Annotated[
        list[str] | None, "Text files: words that mean missing; repeat.", "--null-word"
    ] = None

    def words(self) -> dict[str, Any]:
        """What is said, by the names that readers of tables use."""
        tab = self.delimiter == "\\t"  # as a shell says it
        said = {**asdict(self), "delimiter": "\t" if tab else self.delimiter}
        said["null_words"] = self.null_words or None
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class ResourceOptions:
    """How reading may use the machine."""

    memory: Annotated[str | None, "Memory to read with, such as 3GB; the rest goes to disk."] = None
    threads: Annotated[int | None, "Processors to read with."] = None
    spill: Annotated[str | None, "Folder for what memory cannot hold, emptied afterwards."] = None

    def machine(self) -> Resources:
        """The same for a table; progress is shown where somebody can see it."""
        from privmean.data.table import Resources

        return Resources(**asdict(self), progress=sys.stderr.isatty())
