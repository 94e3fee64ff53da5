"""What a caller may say to readers: how text files are written, and the limits of the machine."""

from __future__ import annotations

from typing import Any

from privmean.people.textformat import Words, options
from privmean.spelled import spelled_out


class Said(Words, total=False):
    """The words of text files, and those for the engine that reads; None for nothing."""

    memory_limit: str | None
    threads: int | None
    temp_directory: str | None


reads = spelled_out(Said, {"null_words": ()})


def told(function: str, said: Said) -> tuple[dict[str, Any], dict[str, Any]]:
    """The words of text files, checked, and those for the engine."""
    text: dict[str, Any] = dict(said)
    for name in text:
        if name not in Said.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    limits = ("memory_limit", "threads", "temp_directory")
    machine = {name: text.pop(name, None) for name in limits}
    return options(**text), machine
