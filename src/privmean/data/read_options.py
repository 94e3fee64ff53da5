"""What a caller may say to readers: how text files are written, and the limits of the machine."""

from __future__ import annotations

from typing import Any

from privmean.data.text_format import Words, options
from privmean.signatures import unknown_keyword, with_full_signature


class ReadOptions(Words, total=False):
    """The words of text files, and those for the engine that reads; None for nothing."""

    memory_limit: str | None
    threads: int | None
    temp_directory: str | None


reads = with_full_signature(ReadOptions, {"na_values": (), "types": ()})


def told(function: str, said: ReadOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """The words of text files, checked, and those for the engine."""
    text: dict[str, Any] = dict(said)
    for name, value in text.items():
        if name not in ReadOptions.__annotations__:
            raise unknown_keyword(function, name, value, tuple(ReadOptions.__annotations__))
    limits = ("memory_limit", "threads", "temp_directory")
    resources = {name: text.pop(name, None) for name in limits}
    return options(**text), resources
