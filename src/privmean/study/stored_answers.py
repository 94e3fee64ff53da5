"""Answers of a study on disk.

Noisy answers as plain text and back: numbers, texts, lists of them, and four kinds of results.

What a text can stand for is listed here in full, so that a file that was written by somebody else
can be read: reading makes no other object, imports nothing and calls nothing that the file names.
Every number comes back bit for bit.

Noisy answers kept on the disk before anyone sees them, so that a run that was stopped goes on.

A kept answer is private already; raw noise, seeds and exact answers are never written. An answer
that was drawn but not kept when a run stopped was seen by nobody: drawing it anew is a first draw.
A kept answer is given back only for the same question, place, mechanism and prices, and is never
drawn again. docs/proofs/study.md, section 4.

Whether a table is still the one that a run began with: its files, its roster, what they hold.

The digest decides, whatever happened to the times of the files. Of a database the address is all
that is compared, and of a frame or arrays in memory nothing but the roster.
"""

from __future__ import annotations

import base64
import binascii
import glob
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from privmean.data.list_columns import roster_texts
from privmean.data.open_source import FORMS
from privmean.data.table import Table
from privmean.data.text_files import ending
from privmean.errors import PrivmeanError
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.mechanisms.curator import AnswerStore, Mechanism
from privmean.mechanisms.filtered_mean import KeptMean
from privmean.mechanisms.row_sums import NoisyRows
from privmean.mechanisms.weighted_sums import PointSum
from privmean.plain_data import digest

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


Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")
PURPOSE = "privmean draw"


class CannotResume(PrivmeanError):
    """A run that cannot go on, and why; what was charged for it stays charged."""


class AnswerLog:
    """The answers of one run.

    kept: those of before, each under its place as (mechanism, text). keep: what makes one durable,
    told of place, mechanism and text; a PrivmeanError of it ends the run.
    """

    def __init__(
        self, kept: Mapping[str, tuple[str, str]], keep: Callable[[str, str, str], object]
    ) -> None:
        self._kept, self._keep = kept, keep
        self._places: dict[str, int] = {}

    def of(self, question: str) -> AnswerStore:
        """The answers of one question, one after the other."""
        return partial(self.answer, question)

    def answer(
        self, question: str, mechanism: Mechanism[Exact, Noisy], draw: Callable[[], Noisy]
    ) -> Noisy:
        """The answer kept for this place, or the one that `draw` gives, kept first."""
        number = self._places.get(question, 0)
        self._places[question] = number + 1
        at, what = f"{question}/{number}", _what(mechanism)
        if at in self._kept:
            before, text = self._kept[at]
            if before != what:
                raise CannotResume(
                    f"{question}: the answer kept for step {number + 1} is that of another "
                    "mechanism; the charge stays, because a different version of privmean or "
                    "another study would have to draw anew"
                )
            try:
                found: Noisy = read(text)
            except NoAnswer:
                raise CannotResume(
                    f"{question}: what is kept for step {number + 1} is no answer; the charge "
                    "stays, because the file was changed"
                ) from None
            return found
        noisy = draw()
        try:
            self._keep(at, what, written(noisy))
        except PrivmeanError as error:
            raise CannotResume(f"{error} To go on, run the same command again") from None
        return noisy


def kept_only(draws: Callable[[str], AnswerStore]) -> Callable[[str], AnswerStore]:
    """The answers of a run that was settled: those that are kept, and no other."""

    def of(name: str) -> AnswerStore:
        answers = draws(name)
        return lambda mechanism, _: answers(mechanism, _ended)

    return of


def _ended() -> NoReturn:
    raise CannotResume(
        "The run has ended, and what it did not ask came back to the ledger: nothing more is drawn "
        "for it. Put back the newest copy of its folder, or begin a new study in another"
    )


def _what(mechanism: Mechanism[Any, Any]) -> str:
    """A mechanism by its kind and its public parameters."""
    losses = [loss.to_dict() for loss in mechanism.events]
    return digest(PURPOSE, {"mechanism": type(mechanism).__name__, "losses": losses})


LARGEST = 1 << 30  # bytes that are read for a digest; of more, pieces from all over the files
PIECE = 1 << 20


def table_state(source: object) -> dict[str, str | None]:
    """What tells one table from another, as plain data; nothing for people in memory."""
    if not isinstance(source, Table):
        return {}
    found, files, given = {"roster": _roster(source)}, _files(source.source), source.source
    if files:
        return found | {"digest": _digest(files)}
    return found | {"address": str(given) if isinstance(given, str | os.PathLike) else None}


def is_table(source: object, before: Mapping[str, Any]) -> bool:
    """Whether the table is in a stored state, as far as can be told. Versions before this one kept
    sizes and times of the files beside their digest."""
    return table_state(source) == {name: x for name, x in before.items() if name != "files"}


def _roster(source: Table) -> str | None:
    """A digest of the ids of a roster."""
    ids = None if source.roster is None else roster_texts(source.roster)
    if not isinstance(ids, Iterable):
        return None
    return hashlib.sha256(repr([str(item) for item in ids]).encode()).hexdigest()


def _files(source: object) -> dict[str, Path]:
    if not isinstance(source, str | os.PathLike):
        return {}
    path = Path(source)
    if path.is_dir():
        found = (file for file in path.rglob("*") if ending(file) in FORMS)
    else:
        names = [str(path)] if path.exists() else glob.glob(str(source), recursive=True)
        found, path = (Path(name) for name in names), path.parent
    return {os.path.relpath(file, path): file for file in sorted(found) if file.is_file()}


def _digest(files: Mapping[str, Path]) -> str:
    sizes = {}
    for name, path in files.items():
        with suppress(OSError):  # gone meanwhile
            sizes[name] = path.stat().st_size
    step = PIECE * max(1, -(-sum(sizes.values()) // LARGEST))
    found = hashlib.blake2b(digest_size=32)
    for name, path in files.items():
        size = sizes.get(name, 0)
        found.update(f"{name}\n{size}\n".encode("utf-8", "surrogateescape"))
        with suppress(OSError), path.open("rb") as file:  # what cannot be read is no table either
            for place in (*range(0, size, step), max(0, size - PIECE)):
                file.seek(place)
                found.update(file.read(PIECE))
    return found.hexdigest()
