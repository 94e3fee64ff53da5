"""Noisy answers as plain text and back: numbers, texts, lists of them, and four kinds of results.

What a text can stand for is listed here in full, so that a file that was written by somebody else
can be read: reading makes no other object, imports nothing and calls nothing that the file names.
Every number comes back bit for bit.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.mechanisms.filtered.filtered_noise import KeptMean
from privmean.mechanisms.row_sums import NoisyRows
from privmean.mechanisms.weighted_sums import PointSum

RESULTS = {item.__name__: item for item in (ColumnSums, KeptMean, NoisyRows, PointSum)}
ARRAYS = ("|b1", "<i8", "<u8", "<f8")  # what arrays of numbers are made of
Tree = Any  # what JSON holds


class NoAnswer(ValueError):
    """A text that stands for no noisy answer."""


def written(answer: object) -> str:
    """An answer as text. TypeError for what no mechanism answers."""
    return json.dumps(_tree(answer), separators=(",", ":"))


def read(text: str) -> Any:
    """The answer that a text stands for; NoAnswer for any text that `written` does not write."""
    try:
        return _made(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError, ArithmeticError) as error:
        raise NoAnswer("no noisy answer") from error


def _tree(answer: object) -> Tree:
    if answer is None or isinstance(answer, bool | str):
        return answer
    if isinstance(answer, np.generic):
        return ["scalar", _tree(np.asarray(answer))]
    if isinstance(answer, int):
        return answer
    if isinstance(answer, float):
        return answer if math.isfinite(answer) else ["float", str(answer)]
    if isinstance(answer, Fraction):
        return ["fraction", answer.numerator, answer.denominator]
    if isinstance(answer, np.ndarray):
        return _array(answer)
    if isinstance(answer, list | tuple):
        return ["list" if isinstance(answer, list) else "tuple", *map(_tree, answer)]
    if isinstance(answer, dict):
        return ["dict", *([_tree(key), _tree(value)] for key, value in answer.items())]
    if RESULTS.get(type(answer).__name__) is type(answer):
        kind: Any = type(answer)
        return [kind.__name__, *(_tree(getattr(answer, item.name)) for item in fields(kind))]
    raise TypeError(f"a mechanism answered with a {type(answer).__name__}, which is not kept")


def _array(answer: np.ndarray[Any, Any]) -> Tree:
    shape = list(answer.shape)
    if answer.dtype == object:
        return ["numbers", shape, *map(_tree, answer.ravel().tolist())]
    kind = answer.dtype.newbyteorder("<").str
    if kind not in ARRAYS:
        raise TypeError(f"a mechanism answered with an array of {answer.dtype}")
    data = np.ascontiguousarray(answer, dtype=kind).tobytes()
    return ["array", kind, shape, base64.b64encode(data).decode()]


def _made(tree: Tree) -> Any:
    if tree is None or isinstance(tree, bool | str | int | float):
        return tree
    if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
        raise NoAnswer("no noisy answer")
    name, *parts = tree
    if name in RESULTS:
        if len(parts) != len(fields(RESULTS[name])):
            raise NoAnswer("not the fields of a result")
        return RESULTS[name](*map(_made, parts))
    return MADE[name](*parts)


def _float(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise NoAnswer("a number is written as itself")
    return float(text)


def _shape(shape: Tree) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(x) is int and x >= 0 for x in shape):
        raise NoAnswer("no shape")
    return tuple(shape)


def _read_array(kind: str, shape: Tree, text: str) -> np.ndarray[Any, Any]:
    if kind not in ARRAYS:
        raise NoAnswer("no array of numbers")
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise NoAnswer("no numbers") from None
    return np.frombuffer(data, dtype=kind).reshape(_shape(shape)).copy()


def _read_numbers(shape: Tree, *parts: Tree) -> np.ndarray[Any, Any]:
    found = np.empty(len(parts), dtype=object)
    for at, part in enumerate(parts):
        found[at] = _made(part)
    return found.reshape(_shape(shape))


MADE: dict[str, Callable[..., Any]] = {
    "scalar": lambda tree: _made(tree)[()],
    "float": _float,
    "fraction": lambda above, below: Fraction(int(above), int(below)),
    "list": lambda *parts: [_made(part) for part in parts],
    "tuple": lambda *parts: tuple(_made(part) for part in parts),
    "dict": lambda *parts: {_made(key): _made(value) for key, value in parts},
    "array": _read_array,
    "numbers": _read_numbers,
}
