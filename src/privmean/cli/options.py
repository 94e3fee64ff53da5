"""Options that several commands share, and how they become arguments."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

Epsilon = Annotated[float | None, typer.Option(help="Privacy budget epsilon. There is no default.")]
Delta = Annotated[float, typer.Option(help="Privacy budget delta (0: pure differential privacy).")]
Rho = Annotated[float | None, typer.Option(help="zCDP budget, instead of epsilon and delta.")]
Neighbors = Annotated[
    str, typer.Option(help="Neighbouring relation: replace-one (n public) or add-remove.")
]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Public limits of a person's value, lower then upper."),
]
Sd = Annotated[
    float | None,
    typer.Option(help="Assume sub-Gaussian values a person with this standard deviation."),
]
BetweenSd = Annotated[
    float | None, typer.Option(help="Assumed standard deviation between persons' own means.")
]
WithinSd = Annotated[
    float | None, typer.Option(help="Assumed standard deviation of records within a person.")
]
Records = Annotated[
    int | None, typer.Option(help="Public number of records a person (goes with --within-sd).")
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Public column of groups (school, firm) whose persons are related; goes with "
        "--group-sd, --within-sd, --records and perhaps --between-sd."
    ),
]
GroupSd = Annotated[
    float | None, typer.Option(help="Assumed standard deviation between groups (with --group).")
]
MomentOrder = Annotated[
    float | None, typer.Option(help="Assume a bounded moment of this order (goes with the next).")
]
MomentBound = Annotated[
    float | None, typer.Option(help="Bound on the moment, (E|X - mean|^k)^(1/k), of one record.")
]
Covariance = Annotated[
    str | None,
    typer.Option(
        help="Publicly known upper bound of the covariance of a person's row: one variance, one a "
        "column with commas, or a file (.npy or numbers as text) with the matrix."
    ),
]
ScaleRange = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Public smallest and largest standard deviation of a column (anisotropic)."),
]
Beta = Annotated[
    float | None,
    typer.Option(help="Failure probability the plan allows (heavy-tailed, anisotropic)."),
]
SampledDegrees = Annotated[
    int | None,
    typer.Option(help="Friends sampled a person, for very many persons (anisotropic)."),
]
Method = Annotated[
    str,
    typer.Option(
        help="Estimator: default, winsorized, bounded, heavy-tailed or anisotropic; auto chooses "
        "from public facts."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="What the interval covers: mean or clipped (default method only)."),
]
Excess = Annotated[
    float | None,
    typer.Option(help="Assumed mean excess over a limit, in distances to it (default method)."),
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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Sign = Annotated[
    str | None,
    typer.Option("--sign", help="Private key (PEM, Ed25519) that signs what --json prints."),
]


def machine(memory: str | None, threads: int | None, spill: str | None) -> dict[str, Any]:
    """The arguments of everything that reads tables for its use of the machine."""
    return {"memory_limit": memory, "threads": threads, "temp_directory": spill}


def signing_key(path: str | None, as_json: bool) -> Any:
    """The key of --sign, refused before anything is read or spent."""
    from privmean.errors import ArgumentError

    if path is None:
        return None
    if not as_json:
        raise ArgumentError("--sign", path, "goes with --json", "text is not signed: add --json")
    from privmean.signing import private_key

    return private_key(path)


def stored(release: Any, key: Any = None) -> str:
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
    path: str | None, column: str | None, person: str, written: dict[str, Any]
) -> list[str] | None:
    """The ids in a file of them."""
    from privmean.errors import ArgumentError
    from privmean.people.rosterfiles import roster_ids

    if path is None:
        if column is not None:
            raise ArgumentError("--roster-column", column, "is given alone", "give --roster FILE")
        return None
    return roster_ids(path, column or person, written)


def on_terminal() -> bool:
    """Whether progress can be shown on standard error."""
    return sys.stderr.isatty()


def assumption(
    *,
    sd: float | None,
    between_sd: float | None,
    within_sd: float | None,
    records: int | None,
    moment_order: float | None,
    moment_bound: float | None,
    covariance: str | None,
) -> dict[str, Any]:
    """The arguments `concentration`, `moment` and `covariance` that the options describe."""
    import privmean as pm
    from privmean.errors import ArgumentError

    result: dict[str, Any] = {}
    if sd is not None:
        result["concentration"] = pm.SubGaussian(sd=sd)
    if (between_sd is None) != (within_sd is None):
        raise ArgumentError(
            "--between-sd", between_sd, "goes together with --within-sd", "give both or neither"
        )
    if between_sd is not None:
        if sd is not None:
            raise ArgumentError("--sd", sd, "is given twice", "leave out --sd or --between-sd")
        if records is None:
            raise ArgumentError(
                "--records", records, "is needed with --within-sd", "give the records a person"
            )
        result["concentration"] = pm.BetweenWithin(
            between_sd=between_sd, within_sd=within_sd, records=records
        )
    if records is not None and between_sd is None and moment_order is None:
        raise ArgumentError(
            "--records",
            records,
            "is not used alone",
            "give it with --between-sd and --within-sd, or with a moment",
        )
    if (moment_order is None) != (moment_bound is None):
        raise ArgumentError(
            "--moment-order", moment_order, "goes together with --moment-bound", "give both"
        )
    if moment_order is not None:
        result["moment"] = pm.BoundedMoment(
            order=moment_order, bound=moment_bound, records=1 if records is None else records
        )
    if covariance is not None:
        result["covariance"] = _covariance(covariance)
    return result


def _covariance(text: str) -> Any:
    """A variance, variances a column, or the matrix in a file."""
    import os

    import numpy as np

    from privmean.errors import ArgumentError

    wrong = ArgumentError(
        "--covariance",
        text,
        "is neither a variance, nor variances with commas, nor a file with the matrix",
        "give a number, numbers such as 1,4,9, or the path of a .npy or text file",
    )
    try:
        numbers = [float(item) for item in text.split(",")]
        return numbers[0] if len(numbers) == 1 else np.array(numbers)
    except ValueError:
        if not os.path.isfile(text):
            raise wrong from None
    try:
        if text.endswith(".npy"):
            found = np.load(text, allow_pickle=False)
        else:
            with open(text) as lines:
                rows = [line.replace(",", " ").split() for line in lines if line.strip()]
            found = np.array(rows, dtype=float)
    except (OSError, ValueError, EOFError):
        raise wrong from None
    return found.ravel() if 1 in found.shape else found
