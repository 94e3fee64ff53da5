"""Small argument checks, called first. Each names the argument, its value and the remedy.

The names of arguments: shown in signatures, and refused with a hint where they are not known.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from operator import index
from typing import Any, SupportsFloat, SupportsIndex, TypeVar, cast

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


def only_keywords(function: str, given: Mapping[str, object], accepted: Collection[str]) -> None:
    """Refuse keywords that a function does not accept."""
    for name, value in given.items():
        if name not in accepted:
            raise unknown_keyword(function, name, value, accepted)


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
        only_keywords(face + cls.__name__, given, accepted)
        made(self, *args, **given)

    cls.__init__ = checked
    return cls


T = TypeVar("T")

# Values are read up to 2^180: public numbers beyond these mean nothing, and squares, products and
# widths of numbers within them are doubles.
LARGEST, SMALLEST = 1e120, 1e-120
LARGEST_COUNT = 2**53


def number(name: str, value: object, remedy: str = "give a finite number") -> float:
    """A finite real number."""
    if value is None:
        raise ArgumentError(name, None, "is required", remedy)
    if isinstance(value, bool | str | bytes):
        raise ArgumentError(name, value, "is not a number", remedy)
    try:
        result = float(cast(SupportsFloat, value))
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(name, value, "is not a number", remedy) from None
    if not math.isfinite(result):
        raise ArgumentError(name, value, "is not finite", remedy)
    if abs(result) > LARGEST:
        raise ArgumentError(name, value, f"must be at most {LARGEST:g}", "rescale the values")
    return result


def keep(made: object, check: Callable[[str, object], object], *names: str) -> None:
    """Check fields of a frozen value, and keep what the check returns: the double of a decimal or
    a fraction, with which arithmetic would fail after the charge."""
    for name in names:
        object.__setattr__(made, name, check(name, getattr(made, name)))


def one_of_two(missing: str, **given: object) -> None:
    """Exactly one of two arguments is there. missing: what to do where none is."""
    (first, value), (second, other) = given.items()
    if value is None and other is None:
        raise ArgumentError(first, None, "is required", missing)
    if value is not None and other is not None:
        both = f"{first}={shown(value)} and {second}={shown(other)}"
        raise ArgumentError(first, value, "cannot be combined", "pass one of them", subject=both)


def positive(name: str, value: object, remedy: str = "give a number greater than 0") -> float:
    """A finite number greater than zero."""
    result = number(name, value, remedy)
    if result <= 0:
        raise ArgumentError(name, value, "must be greater than 0", remedy)
    return _not_tiny(name, value, result)


def nonnegative(name: str, value: object) -> float:
    """A finite number that is zero or greater."""
    remedy = "give 0 or a greater number"
    result = number(name, value, remedy)
    if result < 0:
        raise ArgumentError(name, value, "must not be negative", remedy)
    return result


def fraction(name: str, value: object) -> float:
    """A number strictly between zero and one."""
    remedy = "give a number between 0 and 1"
    result = number(name, value, remedy)
    if not 0 < result < 1:
        raise ArgumentError(name, value, "must lie strictly between 0 and 1", remedy)
    return _not_tiny(name, value, result)


def level(name: str, value: object) -> float:
    """The level of an interval: strictly between zero and one, and neither all nor nothing."""
    result = fraction(name, value)
    if not 1e-6 <= result <= 1 - 1e-15:
        raise ArgumentError(name, value, "must be far from 0 and 1", "use for example 0.95")
    return result


def _not_tiny(name: str, value: object, result: float) -> float:
    if result < SMALLEST:
        raise ArgumentError(name, value, f"must be at least {SMALLEST:g}", "rescale the values")
    return result


def whole(
    name: str,
    value: object,
    *,
    least: int = 0,
    most: int = LARGEST_COUNT,
    remedy: str | None = None,
) -> int:
    """A whole number from `least` to `most`."""
    advice = remedy or f"give a whole number of at least {least}"
    if value is None:
        raise ArgumentError(name, None, "is required", advice)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        result: int | None = index(cast(SupportsIndex, value))
    except TypeError:
        result = None
    if result is None or isinstance(value, bool):
        raise ArgumentError(name, value, "is not a whole number", advice)
    if result < least:
        raise ArgumentError(name, value, f"must be at least {least}", advice)
    if result > LARGEST_COUNT:
        raise ArgumentError(name, value, "is too large", advice)
    if result > most:
        raise ArgumentError(
            name, value, f"must be at most {most}", remedy or "give a smaller number"
        )
    return result


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that only behaves like one."""
    if not isinstance(value, bool):
        raise ArgumentError(name, value, "must be True or False", "use one of them")
    return value


def listed(name: str, value: object, remedy: str = "give a list") -> tuple[Any, ...]:
    """The items of a list, a tuple or an array; a text is none."""
    if not isinstance(value, str | bytes | Mapping):
        try:
            return tuple(cast(Iterable[Any], value))
        except TypeError:
            pass
    raise ArgumentError(name, value, "is not a list", remedy)


def instance(name: str, value: object, kind: type[T], remedy: str) -> T:
    """An object of this kind."""
    if not isinstance(value, kind):
        raise ArgumentError(name, value, f"is not a {kind.__name__}", remedy)
    return value


def path(name: str, value: object, remedy: str = "name a file") -> str:
    """The name of a file."""
    try:
        result = os.fspath(cast("str | os.PathLike[str]", value))
        usable = (
            isinstance(result, str) and bool(result.strip()) and b"\0" not in os.fsencode(result)
        )
    except (TypeError, UnicodeEncodeError):
        usable = False
    if not usable:
        raise ArgumentError(name, value, "is not a path", remedy)
    return result


def choice(name: str, value: T, allowed: Iterable[T]) -> T:
    """One of a small set of words."""
    options = list(allowed)
    try:
        known = value in options
    except (TypeError, ValueError):  # an array, or a missing entry of pandas
        known = False
    if not known:
        words = ", ".join(repr(item) for item in options)
        new = renamed_value(name, value)
        remedy = f"choose one of {words}"
        if isinstance(new, str):  # a sentence always fits
            remedy = f"use {name}={new!r}" if new in options else new if " " in new else remedy
        raise ArgumentError(name, value, "is not one of the choices", remedy)
    return value


def power_of_two(name: str, value: object) -> float:
    """A positive power of two, the only scales by which doubles are multiplied exactly."""
    result = positive(name, value, "give a power of two such as 2**-20")
    if math.frexp(result)[0] != 0.5:
        raise ArgumentError(name, value, "is not a power of two", "use for example 0.25")
    return result


def bounds(name: str, value: object) -> tuple[float, float]:
    """A pair (lower, upper) of finite numbers with lower < upper, apart by more than nothing."""
    remedy = f"use {name}=(lower, upper)"
    try:
        lower, upper = cast(Iterable[object], value)
    except (TypeError, ValueError):
        raise ArgumentError(name, value, "must be a pair", remedy) from None
    low, high = number(name, lower, remedy), number(name, upper, remedy)
    if not low < high:
        raise ArgumentError(name, value, "must have its lower bound below the upper bound", remedy)
    if high - low < SMALLEST:  # steps of a lattice on less would have no width
        raise ArgumentError(
            name, value, f"must be at least {SMALLEST:g} apart", "rescale the values, or widen them"
        )
    return low, high


def several(name: str, value: object, remedy: str) -> tuple[Any, ...]:
    """The items of a list; a text or a mapping alone is one item."""
    return (value,) if isinstance(value, str | Mapping) else listed(name, value, remedy)


def columns(name: str, value: object) -> tuple[str, ...]:
    """Names of columns; one may stand alone."""
    remedy = "give the name of a column or a list of names"
    named = several(name, value, remedy)
    for item in named:
        if not isinstance(item, str):
            raise ArgumentError(name, item, "is not a name of a column", remedy)
    return named


def is_usual(value: object, usual: object) -> bool:
    """Whether a word has its usual value. An array was said: it is not one truth value."""
    if value is usual:
        return True
    if getattr(value, "shape", ()) != ():
        return False
    try:
        return bool(value == usual)
    except (TypeError, ValueError):
        return False


def refuse_said(question: object, names: Iterable[str], problem: str, remedy: str) -> None:
    """Refuse words of a question that are not at their default."""
    for name in names:
        value = getattr(question, name)
        if not is_usual(value, getattr(type(question), name)):
            raise ArgumentError(name, value, problem, remedy)
