"""Options in groups: a group is a dataclass, and a command that takes one has its options.

A field says its option as a question's field does: Annotated[type, "help"], or with the flags after
it where they are not the field's name. A command that says what stands in a group already says it
by the group.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

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
    return group(**{item.name: said.pop(item.name) for item in parameters_of(group)})


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
