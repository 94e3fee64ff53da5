"""privmean verify, sign, keygen: what a third party can check of a release, and who signed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privmean.cli import options as opt
from privmean.cli.options import grouped

WRONG = 1

ReleaseFile = Annotated[
    Path, typer.Argument(help="Read a release written by `privmean ... --json`.")
]


@grouped
def verify(
    release: ReleaseFile,
    key: Annotated[Path | None, "Check the signature with this public key (PEM)."] = None,
    ledger: Annotated[Path | None, "Check that this ledger holds the charge."] = None,
    as_json: opt.Json = False,
) -> None:
    """Verify a stored release without the data.

    Says what was checked and what cannot be. Exit status 0 if all is right, 1 if something is
    wrong, 2 if the file, key or ledger cannot be read.
    """
    from privmean.release.verification import verify as check

    found = check(release, key=key, ledger=ledger)
    typer.echo(json.dumps(found.to_dict()) if as_json else found.describe())
    if not found:
        raise typer.Exit(WRONG)


@grouped
def sign(
    release: ReleaseFile,
    key: Annotated[Path, "Sign with this private key (PEM, Ed25519)."],
    out: Annotated[Path | None, "Write the signed release to this file."] = None,
) -> None:
    """Sign a stored release; its digest changes."""
    from privmean.errors import ArgumentError
    from privmean.plain_data import parsed
    from privmean.release.signing import sign as signed

    try:
        stored = parsed(release.read_bytes())
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict):
        raise ArgumentError(
            "release",
            str(release),
            "is not a stored release",
            "give a file written by `privmean ... --json`",
        )
    text = json.dumps(signed(stored, key), allow_nan=False)
    if out is None:
        typer.echo(text)
        return
    opt.written_to(out, text + "\n")


def keygen(
    key: Annotated[
        Path, typer.Argument(help="Write the private key here and the public one to KEY.pub.")
    ],
) -> None:
    """Make a private and a public key for signatures (Ed25519)."""
    from privmean.release.signing import make_keys

    private, public = make_keys(key)
    typer.echo(f"private key: {private} (keep it)\npublic key: {public} (publish it)")
