"""Public names that are imported when they are first used.

A face (`privmean`, `privmean.streams`, `privmean.local`) says once where its names live: as imports
for type checkers and editors, which no program runs and from which the names are read here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any


def names(
    face: str, renamed: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__` and `__dir__` of a module whose public names live elsewhere, and the names.

    renamed: the module whose NAMES has the new names of old ones; loaded for an
    unknown name alone.
    """
    module: Any = sys.modules[face]  # in a folder or in a zip
    homes = homes_of(module.__loader__.get_data(module.__file__).decode())

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


def homes_of(source: str) -> dict[str, str]:
    """The module of every name that a face imports for type checkers: `from MODULE import NAME as
    NAME`, the lines after `if TYPE_CHECKING:`."""
    homes, module = {}, ""
    words = source.partition("\nif TYPE_CHECKING:\n")[2].replace("(", " ").split()
    for before, word in pairwise(words):
        if before == "from":
            module = word
        elif word == "as":
            homes[before] = module
        elif word.startswith("else") or "=" in word:
            break
    return homes
