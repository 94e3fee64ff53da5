"""Public names that are imported when they are first used.

A face (`privmean`, `privmean.streams`, `privmean.local`) says twice where its names live: as
imports for type checkers and editors, which no program runs, and as a table for programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module


def names(
    face: str, table: str, renamed: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__` and `__dir__` of a module whose public names live elsewhere, and the names.

    table: one line per module below the face: the module, then names that live in it. renamed: the
    module whose NAMES has the new names of old ones; loaded for an unknown name alone.
    """
    homes = {name: f"{face}.{module}" for module, names in lines_of(table) for name in names}

    def found(name: str) -> object:
        if name in homes:
            value: object = getattr(import_module(homes[name]), name)
            setattr(sys.modules[face], name, value)  # later uses need no second look
            return value
        from difflib import get_close_matches

        new = import_module(renamed).NAMES.get(name) if renamed else None
        alike = [item for item in homes if item[0].isupper() == name[:1].isupper()]
        near = [new] if new in homes else get_close_matches(name, alike, n=1)
        hint = f" Use {face}.{near[0]}." if near else ""
        if new and new not in homes:
            hint = f" {new}."
        raise AttributeError(f"{face} has no {name!r}.{hint}")

    def listed() -> list[str]:
        return sorted(sys.modules[face].__all__)

    return found, listed, [*homes]


def lines_of(table: str) -> list[tuple[str, list[str]]]:
    """The modules of a table with their names."""
    split = [line.split() for line in table.splitlines() if line.strip()]
    return [(module, names) for module, *names in split]
