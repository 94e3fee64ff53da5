"""What every call may say, whatever it asks: the budget, the neighbors, the ledger, the noise.

What can be said of a budget, of text files and of the machine: with its type and its help.

A command line has these words as options, a file of a study as keys: both read them here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from privmean.privacy.budget import Neighbors
from privmean.validate import with_full_signature

if TYPE_CHECKING:
    from privmean.data.table import Resources
    from privmean.noise.noise_source import Noise
    from privmean.privacy.ledger import Ledger

Level = Annotated[float, "Set the confidence level of the intervals."]
Header = Annotated[
    bool | None,
    "Say whether the first CSV line has column names.",
    "--header/--no-header",
]


@dataclass(frozen=True)
class BudgetOptions:
    """What may be spent."""

    epsilon: Annotated[float | None, "Set the privacy budget epsilon; there is no default."] = None
    delta: Annotated[float, "Set the privacy budget delta; 0 is pure DP."] = 0.0
    rho: Annotated[float | None, "Set a zCDP budget instead of epsilon and delta."] = None


@dataclass(frozen=True)
class NeighborOptions(BudgetOptions):
    """What may be spent, and between which neighbors."""

    neighbors: Annotated[
        str | None,
        "Use replace-one (n public) or add-remove (n private).",
    ] = None


@dataclass(frozen=True)
class ReleaseOptions(NeighborOptions):
    """What one release may spend, and at which level its intervals are."""

    n_guess: Annotated[int | None, "Guess n for add-remove; the guess is public."] = None
    level: Level = 0.95


@dataclass(frozen=True)
class TextOptions:
    """How text files are written."""

    delimiter: Annotated[str | None, "Set the CSV delimiter; a tab for .tsv."] = None
    quote: Annotated[str | None, "Set the CSV quote; '' for none."] = None
    decimal: Annotated[str | None, "Set the CSV decimal sign, a point or a comma."] = None
    encoding: Annotated[str | None, "Set the encoding, such as utf-8, latin-1 or cp1252."] = None
    header: Header = None
    na_values: Annotated[
        list[str] | None, "Read this text as missing; repeat for more.", "--na-value"
    ] = None

    types: Annotated[
        list[str] | None, "Declare a type, as y=boolean or y=unsigned; repeat for more."
    ] = None

    def words(self) -> dict[str, Any]:
        """What is said, by the names that readers of tables use."""
        tab = self.delimiter == "\\t"  # as a shell says it
        said = {**asdict(self), "delimiter": "\t" if tab else self.delimiter}
        said |= {"na_values": self.na_values or None, "types": self.types or None}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class ResourceOptions:
    """How reading may use the machine."""

    memory_limit: Annotated[str | None, "Limit the memory for reading, such as 3GB."] = None
    threads: Annotated[int | None, "Limit the processors for reading."] = None
    temp_directory: Annotated[str | None, "Put temporary files into this folder."] = None

    def resources(self) -> Resources:
        """The same for a table; progress is shown where somebody can see it."""
        from privmean.data.table import Resources

        return Resources(**asdict(self), progress=sys.stderr.isatty())


class CallOptions(TypedDict, total=False):
    """epsilon, delta | rho: the budget of the whole call; there is no default. neighbors:
    "replace-one" (the roster, hence n, is public) or "add-remove" (n is private; n_guess is a
    public guess of it where a method needs one); not said: replace-one, but add-remove for means
    by group. level: of the interval that is printed. ledger:
    charged before any noise is drawn: a `Ledger`, or the path of one. label, analyst: for its
    entry. noise: only for tests and studies; the release is then marked
    unsafe."""

    epsilon: float
    delta: float
    rho: float
    neighbors: Neighbors
    n_guess: int
    level: float
    ledger: Ledger | str | os.PathLike[str] | None
    label: str
    analyst: str
    noise: Noise | None


# what a term is that is not said; a budget has no default
DEFAULTS: dict[str, Any] = {"delta": 0.0, "neighbors": "replace-one", "level": 0.95}
spelled_out = with_full_signature(CallOptions, DEFAULTS)  # for functions of **terms
