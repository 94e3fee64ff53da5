"""A private value and a ticket, without a command line: that is shown to every user of a machine.

Light: the client's command imports it. Whether the value can be read as numbers decides nothing
that others could see; what cannot is missing, and a missing value is reported like any other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

VALUE = "PRIVMEAN_VALUE"
LONGEST = 1 << 24  # bytes of a value that are read


def private_value(words: Sequence[str] | None, file: Path | None) -> list[float]:
    """The numbers of the value, from the one place that has it.

    From `file` ("-" is standard input), the words of the command line, or the environment's
    PRIVMEAN_VALUE; with none of them it is asked for at the terminal, and not shown. Numbers stand
    between spaces, commas or line ends. Raises ArgumentError for no place or more than one,
    OSError if a file cannot be read: before anything is spent.
    """
    from privmean.errors import ArgumentError
    from privmean.local.clients.person_values import real

    inside = os.environ.get(VALUE)
    places = {"value": bool(words), "value-file": file is not None, VALUE: inside is not None}
    given = [place for place, there in places.items() if there]
    if len(given) > 1:
        raise ArgumentError("value", " and ".join(given), "is named twice", "give it in one place")
    if not given and not (sys.stdin and sys.stdin.isatty()):
        raise ArgumentError(
            "value", None, "is required", f"give --value-file (- for standard input) or {VALUE}"
        )
    if words:
        found = list(words)
    elif inside is not None:
        found = _split(inside)
    else:
        found = _split(_read(file))
    return [real(item) for item in found] or [real(None)]


def private_ticket(text: str | None, file: Path | None) -> str | None:
    """The ticket from the option or the environment, or from a file; None if there is none."""
    from privmean.errors import ArgumentError

    if file is None:
        return text
    if text is not None:
        raise ArgumentError(
            "ticket-file", str(file), "cannot be combined with another ticket", "use one of them"
        )
    return text_of("ticket-file", file)


def text_of(name: str, file: Path) -> str:
    """The text of a file; refused where it is none. OSError if it cannot be read."""
    from privmean.errors import ArgumentError

    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(name, str(file), "must be UTF-8 text", "name another file") from None


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _read(file: Path | None) -> str:
    if file is None:
        from getpass import getpass

        return getpass("value (not shown): ")
    if str(file) == "-":
        data = sys.stdin.buffer.read(LONGEST)
    else:
        with file.open("rb") as stream:
            data = stream.read(LONGEST)
    return data.decode(errors="replace")


def tokens(name: str, file: Path | None) -> list[str]:
    """The tokens in a file, one a line, or the one in the environment's `name`; [] for none."""
    from privmean.errors import ArgumentError

    inside = os.environ.get(name)
    if file is None:
        return [] if not inside else [inside]
    if inside:
        raise ArgumentError(name, "...", "cannot be combined with a token file", "use one of them")
    return text_of("token-file", file).split()
