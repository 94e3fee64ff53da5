"""Options that several commands share, and how they become arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from privmean.central.concentration import SubGaussian
    from privmean.release import Release

Epsilon = Annotated[float | None, typer.Option(help="Privacy budget epsilon. There is no default.")]
Delta = Annotated[float, typer.Option(help="Privacy budget delta (0: pure differential privacy).")]
Rho = Annotated[float | None, typer.Option(help="zCDP budget, instead of epsilon and delta.")]
Neighbors = Annotated[
    str | None,
    typer.Option(
        help="Neighbouring relation: replace-one (n public; the usual one) or add-remove (usual "
        "for means by group)."
    ),
]
KeysFile = Annotated[
    str | None, typer.Option("--keys-file", help="File with the keys of --by, one a line.")
]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Public limits of a person's value, lower then upper."),
]
Sd = Annotated[
    float | None,
    typer.Option(help="Assume sub-Gaussian values a person with this standard deviation."),
]
Level = Annotated[float, typer.Option(help="Level of the interval.")]
NDesign = Annotated[
    int | None,
    typer.Option(help="Public guess of the number of persons, for add-remove."),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory that reading may take, such as 3GB; the rest goes to disk."),
]
Threads = Annotated[int | None, typer.Option(help="Processors to read with.")]
Spill = Annotated[
    str | None, typer.Option(help="Folder for what does not fit into memory, emptied afterwards.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="CSV: what separates fields (a comma; a tab for .tsv).")
]
Quote = Annotated[str | None, typer.Option(help="CSV: the quote, or '' for none.")]
Decimal = Annotated[str | None, typer.Option(help="CSV: the decimal sign, a point or a comma.")]
Encoding = Annotated[
    str | None, typer.Option(help="Text files: UTF-8, or an encoding such as latin-1 or cp1252.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="CSV: say that the first line names the columns (then messages may show it and "
        "wildcards match it), or that it is a record and columns are called 1, 2, ...",
    ),
]
NullWord = Annotated[
    list[str] | None, typer.Option(help="Text files: a word that means missing; repeat.")
]
Roster = Annotated[
    str | None,
    typer.Option(help="File with the public ids of all persons: one a line, or a CSV."),
]
RosterColumn = Annotated[
    str | None, typer.Option(help="Column of a CSV --roster (that of --person if not given).")
]
Assume = Annotated[
    str | None,
    typer.Option(
        help="What accuracy may rest on: 'KIND name=value ...', such as 'sub-gaussian sd=2'."
    ),
]
Method = Annotated[
    str, typer.Option(help="Estimator, by name or 'KIND name=value ...'; auto chooses.")
]
TableFile = Annotated[
    str,
    typer.Argument(
        help="CSV, Parquet or JSON-lines file, folder or pattern; or postgresql://HOST/DATABASE."
    ),
]
DatabaseTable = Annotated[
    str | None, typer.Option("--table", help="Table of the database (or SCHEMA.TABLE).")
]
Person = Annotated[str, typer.Option(help="Column that names the person.")]
ValuesFrom = Annotated[
    list[str] | None, typer.Option(help="Columns by wildcard, such as 'word_freq_*'.")
]
LedgerFile = Annotated[
    str | None, typer.Option("--ledger", help="Ledger file that the release is charged to.")
]
Label = Annotated[str | None, typer.Option(help="Label of the ledger's entry.")]
Analyst = Annotated[str, typer.Option(help="Who asks, for the ledger's entry.")]
Plot = Annotated[str | None, typer.Option(help="Write a picture here (.png, .svg or .pdf).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Details = Annotated[
    bool, typer.Option("--details", help="Print the release in full, not in a few lines.")
]
Sign = Annotated[
    str | None,
    typer.Option("--sign", help="Private key (PEM, Ed25519) that signs what --json prints."),
]


def signing_key(path: str | None, as_json: bool) -> Ed25519PrivateKey | None:
    """The key of --sign, refused before anything is read or spent."""
    from privmean.errors import ArgumentError

    if path is None:
        return None
    if not as_json:
        raise ArgumentError("--sign", path, "goes with --json", "text is not signed: add --json")
    from privmean.signing import private_key

    return private_key(path)


def stored(release: Release, key: object = None) -> str:
    """A release as one line of JSON, signed if there is a key."""
    if key is None:
        return json.dumps(release.to_dict(), allow_nan=False)
    from privmean.signing import sign

    return json.dumps(sign(release, key), allow_nan=False)


def text(
    delimiter: str | None,
    quote: str | None,
    decimal: str | None,
    encoding: str | None,
    header: bool | None,
    null_word: list[str] | None,
) -> dict[str, Any]:
    """The arguments of everything that reads tables for how text files are written."""
    return {
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "quote": quote,
        "decimal": decimal,
        "encoding": encoding,
        "header": header,
        "null_words": null_word or (),
    }


def roster(
    path: str | None, column: str | None, person: str, written: dict[str, object]
) -> list[str] | None:
    """The ids in a file of them."""
    from privmean.errors import ArgumentError

    if path is None:
        if column is not None:
            raise ArgumentError("--roster-column", column, "is given alone", "give --roster FILE")
        return None
    from privmean.people.rosterfiles import roster_ids

    return roster_ids(path, column or person, written)


def ready(plot: str) -> None:
    """Refuse a picture that could not be written."""
    from importlib.util import find_spec

    from privmean.errors import ArgumentError

    if find_spec("matplotlib") is None:
        raise ArgumentError("--plot", plot, "needs matplotlib", "install privmean[plot]")
    path = Path(plot)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ArgumentError("--plot", plot, "is no picture", "end it in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ArgumentError("--plot", plot, "is in no folder", "make the folder first")


def on_terminal() -> bool:
    """Whether progress can be shown on standard error."""
    return sys.stderr.isatty()


def assumed(
    text: str | None, bounds: tuple[float, float] | None, sd: float | None
) -> str | tuple[float, ...] | SubGaussian | None:
    """The one assumption, from --assume or a short form of it."""
    from privmean.errors import ArgumentError

    given = {"--assume": text, "--bounds": bounds, "--sd": sd}
    said = [name for name, value in given.items() if value is not None]
    if len(said) > 1:
        raise ArgumentError(said[1], given[said[1]], f"is given beside {said[0]}", "give one")
    if bounds is not None:
        return tuple(bounds)
    if sd is not None:
        from privmean.central.concentration import SubGaussian

        return SubGaussian(sd=sd)
    return text


def keys(text: str | None, path: str | None) -> list[str] | None:
    """The keys of groups: with commas, or one a line of a file."""
    from privmean.errors import ArgumentError

    if path is None:
        return None if text is None else text.split(",")
    if text is not None:
        raise ArgumentError("--keys-file", path, "is given beside --keys", "give one")
    try:
        with open(path, encoding="utf-8") as lines:
            return [line.rstrip("\r\n") for line in lines if line.rstrip("\r\n")]
    except (OSError, UnicodeDecodeError):
        raise ArgumentError("--keys-file", path, "cannot be read", "give a text file") from None
