"""The names of arguments: shown in signatures, and refused with a hint where they are not known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from privmean.errors import ArgumentError, shown

F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type[Any])
RENAMED = "privmean.api.renamed_arguments"  # loaded by errors alone


def with_full_signature(words: type, defaults: Mapping[str, object]) -> Callable[[F], F]:
    """For a function of `**kwargs: Unpack[words]`: the same function, not wrapped, with every word
    in its signature, for help() and completion. words: a typed dictionary; defaults: of the words,
    None where nothing is said."""
    spelled = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=hint.__forward_arg__,
        )
        for name, hint in words.__annotations__.items()
    ]

    def shown(function: F) -> F:
        own = inspect.signature(function)
        kept = [item for item in own.parameters.values() if item.kind is not item.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*kept, *spelled])  # type: ignore[attr-defined]
        return function

    return shown


def unknown_keyword(
    function: str, name: str, value: object, accepted: Collection[str]
) -> ArgumentError:
    """The refusal of a keyword that a function does not accept."""
    hint = keyword_hint(name, value, accepted, f"see help(pm.{function})")
    problem = f"has no argument {name!r}"
    return ArgumentError(name, value, problem, hint, subject=f"{function}()")


def keyword_hint(name: str, value: object, accepted: Collection[str], otherwise: str) -> str:
    """What to write instead of a name that is not accepted: what replaces it, or a close one."""
    if said := replacement(import_module(RENAMED).KEYWORDS.get(name, ()), accepted):
        new, equals, form = said.partition("=")
        return f"use {new}={form if equals else shown(value)}" if new in accepted else said
    near = get_close_matches(name, accepted, n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def replacement(candidates: Collection[str], accepted: Collection[str]) -> str:
    """The first candidate that begins with an accepted name, or that is a sentence."""
    for said in candidates:
        first = said.partition("=")[0].split()[0]
        if first in accepted or first[0].isupper():
            return said
    return ""


def renamed_value(name: str, value: object) -> str | None:
    """The new name of an old value of an argument."""
    found: str | None = None
    if isinstance(value, str):
        found = import_module(RENAMED).VALUES.get((name, value))
    return found


def known_keywords(cls: C, face: str = "") -> C:
    """A class whose constructor refuses unknown keywords as the public functions do. face: where
    the class is found below the package, with a point."""
    made = cls.__init__
    accepted = tuple(inspect.signature(cls).parameters)

    @wraps(made)
    def checked(self: object, *args: object, **given: object) -> None:
        for name, value in given.items():
            if name not in accepted:
                raise unknown_keyword(face + cls.__name__, name, value, accepted)
        made(self, *args, **given)

    cls.__init__ = checked
    return cls
