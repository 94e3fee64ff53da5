"""Options that several commands share, in groups, and what they come to.

Numbers as a shell writes them.

Options in groups: a group is a dataclass, and a command that takes one has its options.

A field says its option as a question's field does: Annotated[type, "help"], or with the flags after
it where they are not the field's name. A command that says what stands in a group already says it
by the group.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer

from privmean.api.call_options import ReleaseOptions
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from privmean.estimators.concentration import SubGaussian
    from privmean.release.release import Release


def pair(name: str, text: str) -> tuple[float, float]:
    """LOW:HIGH as two numbers."""
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise ArgumentError(name, text, "is not LOW:HIGH", "use for example 0:10") from None


KEYWORD = inspect.Parameter.KEYWORD_ONLY
EMPTY = inspect.Parameter.empty
G = TypeVar("G")


def parameter(
    name: str, hint: Any, default: Any = EMPTY, panel: str | None = None
) -> inspect.Parameter:
    """An option as Typer reads it, from a hint with its help and flags; panel: of the help."""
    said = getattr(hint, "__metadata__", ())
    if said and isinstance(said[0], str):
        help_, *flags = said
        hint = Annotated[get_args(hint)[0], typer.Option(*flags, help=help_, rich_help_panel=panel)]
    return inspect.Parameter(name, KEYWORD, default=default, annotation=hint)


def parameters_of(group: type[Any], panel: str | None = None) -> tuple[inspect.Parameter, ...]:
    """The options of a group, in the order of its fields."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        parameter(
            item.name, hints[item.name], EMPTY if item.default is MISSING else item.default, panel
        )
        for item in fields(group)
    )


def taken(group: type[G], said: dict[str, Any]) -> G:
    """The group of what is said, which holds the other options then."""
    held: Any = group
    return cast("G", held(**{item.name: said.pop(item.name) for item in fields(held)}))


def signed(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Show Typer these parameters as those of a function that takes any."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every option of its groups; what it is called with are the groups."""
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for name, item in inspect.signature(command).parameters.items():
        own = parameters_of(groups[name]) if name in groups else ()
        parameters += own or [parameter(name, hints[name], item.default)]

    def run(**said: Any) -> None:
        made = {name: taken(group, said) for name, group in groups.items()}
        command(**said, **made)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    signed(run, parameters)
    return run


PRIVATE_FAILURE = 3
DATA = "Data"

Person = Annotated[str, "Name the column that identifies people."]
TableFile = Annotated[
    str,
    typer.Argument(
        help="Read this file, folder, pattern or postgresql:// address.", rich_help_panel=DATA
    ),
]
Ledger = Annotated[str | None, "Charge the release to this ledger."]
Label = Annotated[str | None, "Label the ledger entry."]
Analyst = Annotated[str, "Name the analyst in the ledger entry."]
Json = Annotated[bool, "Print one JSON object and nothing else.", "--json"]


@dataclass(frozen=True)
class Terms(ReleaseOptions):
    """The terms of one release."""

    ledger: Ledger = None
    label: Label = None
    analyst: Analyst = ""


@dataclass(frozen=True)
class Listed:
    """Who is in the table, where a list says it."""

    roster: Annotated[str | None, "Read the public ids of all people from a file."] = None
    roster_column: Annotated[str | None, "Name the column of ids in a CSV --roster."] = None

    def ids(self, person: str, written: dict[str, Any]) -> list[str] | None:
        """The ids in the file of them."""
        if self.roster is None:
            if self.roster_column is not None:
                raise ArgumentError(
                    "--roster-column", self.roster_column, "requires --roster", "give --roster FILE"
                )
            return None
        from privmean.data.roster import roster_ids

        written = {name: value for name, value in written.items() if name != "types"}
        return roster_ids(self.roster, self.roster_column or person, written)


@dataclass(frozen=True)
class Limits:
    """Short forms of what accuracy may depend on."""

    bounds: Annotated[
        tuple[float, float] | None, "Give public bounds of a value, lower then upper."
    ] = None
    sd: Annotated[float | None, "Assume sub-Gaussian values with this standard deviation."] = None

    def assumed(self, text: str | None) -> str | tuple[float, ...] | SubGaussian | None:
        """The one assumption, from --assume or a short form of it."""
        given = {"--assume": text, "--bounds": self.bounds, "--sd": self.sd}
        said = [name for name, value in given.items() if value is not None]
        if len(said) > 1:
            raise ArgumentError(
                said[1], given[said[1]], f"cannot be combined with {said[0]}", "use one of them"
            )
        if self.bounds is not None:
            return tuple(self.bounds)
        if self.sd is not None:
            from privmean.estimators.concentration import SubGaussian

            return SubGaussian(sd=self.sd)
        return text


@dataclass(frozen=True)
class Estimating(Limits):
    """How a mean is estimated."""

    assume: Annotated[
        str | None,
        "Assume 'KIND name=value ...', such as 'sub-gaussian sd=2'.",
    ] = None
    method: Annotated[str, "Choose the estimator, as a name or 'KIND name=value ...'."] = "auto"

    def words(self) -> dict[str, Any]:
        """The same by the words of a question."""
        return {"assume": self.assumed(self.assume), "method": self.method}


@dataclass(frozen=True)
class KeysFile:
    """Keys of groups in a file."""

    keys_file: Annotated[str | None, "Read the group keys from a file, one per line."] = None

    def beside(self, keys: str | None) -> list[str] | None:
        """The keys of groups: with commas in --keys, or one a line of the file."""
        path = self.keys_file
        if path is None:
            return None if keys is None else keys.split(",")
        if keys is not None:
            raise ArgumentError(
                "--keys-file", path, "cannot be combined with --keys", "use one of them"
            )
        try:
            with open(path, encoding="utf-8") as lines:
                return [line.rstrip("\r\n") for line in lines if line.rstrip("\r\n")]
        except (OSError, UnicodeDecodeError):
            raise ArgumentError("--keys-file", path, "cannot be read", "give a text file") from None


@dataclass(frozen=True)
class Shown:
    """How a release is printed."""

    details: Annotated[bool, "Print the full record of the release.", "--details"] = False
    noise_ci: Annotated[bool, "Print noise-only intervals too.", "--noise-ci"] = False
    sign: Annotated[str | None, "Sign the JSON with this private key (PEM, Ed25519)."] = None
    as_json: Json = False

    def ready(self) -> Ed25519PrivateKey | None:
        """The key that signs; what cannot be shown is refused before anything is read or spent."""
        if self.sign is None:
            return None
        if not self.as_json:
            raise ArgumentError("--sign", self.sign, "requires --json", "add --json")
        from privmean.release.signing import private_key

        return private_key(self.sign)

    def show(self, release: Release, key: Ed25519PrivateKey | None = None) -> None:
        """Print, and end with 3 where nothing that was asked has an estimate."""
        if self.as_json:
            if key is None:
                whole = release.to_dict()
            else:
                from privmean.release.signing import sign

                whole = sign(release, key)
            typer.echo(json.dumps(whole, allow_nan=False))
        else:
            typer.echo(release.details() if self.details else release.summary(noise=self.noise_ci))
        if not release.answered:
            raise typer.Exit(PRIVATE_FAILURE)


@dataclass(frozen=True)
class Drawn(Shown):
    """How a release is printed, and drawn."""

    plot: Annotated[str | None, "Write a chart to this file (.png, .svg or .pdf)."] = None

    def ready(self) -> Ed25519PrivateKey | None:
        """The key that signs; a picture that could not be written is refused, too."""
        plot, path = self.plot, Path(self.plot or "")
        if plot is not None:
            from importlib.util import find_spec

            if find_spec("matplotlib") is None:
                raise ArgumentError("--plot", plot, "requires matplotlib", "install privmean[plot]")
            if path.suffix.lower() not in (".png", ".svg", ".pdf"):
                raise ArgumentError(
                    "--plot", plot, "is not a picture file", "end it in .png, .svg or .pdf"
                )
            require_place("--plot", path)
        return super().ready()

    def show(self, release: Release, key: Ed25519PrivateKey | None = None) -> None:
        """Print and draw."""
        super().show(release, key)
        if self.plot is not None:
            release.plot().figure.savefig(self.plot)


def require_place(option: str, path: Path) -> None:
    """Refuse a file that could not be written."""
    if not path.parent.is_dir():
        raise ArgumentError(
            option, str(path), "is not in an existing folder", "make the folder first"
        )
    if path.is_dir():
        raise ArgumentError(option, str(path), "is a folder", "name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentError(option, str(path), "cannot be written", "name another file")


def written_to(out: Path, text: str) -> None:
    """Write a file; one that cannot be written is a wrong argument."""
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(
            "--out", str(out), f"cannot be written: {error.strerror}", "name another file"
        ) from None
