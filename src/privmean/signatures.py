"""Functions that take many named words, shown with each of them in their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


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
