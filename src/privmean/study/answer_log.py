"""Noisy answers kept on the disk before anyone sees them, so that a run that was stopped goes on.

A kept answer is private already; raw noise, seeds and exact answers are never written. An answer
that was drawn but not kept when a run stopped was seen by nobody: drawing it anew is a first draw.
A kept answer is given back only for the same question, place, mechanism and prices, and is never
drawn again. docs/proofs/study.md, section 4.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from privmean.errors import PrivmeanError
from privmean.mechanisms.curator import Mechanism
from privmean.privacy.canonical_json import digest
from privmean.storage.file_io import sync_folder, write_all
from privmean.study.stored_answers import NoAnswer, read, written

Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")
PURPOSE = "privmean draw"


class CannotResume(PrivmeanError):
    """A run that cannot go on: its budget is spent, and why."""


class AnswerLog:
    """The answers of one run, in a file of lines that are only added. counted: told of each that
    was kept, before it is seen."""

    def __init__(self, path: Path, counted: Callable[[], None] = lambda: None) -> None:
        self._path, self._counted = path, counted
        self._kept: dict[str, tuple[str, str]] = {}
        self._places: dict[str, int] = {}
        self._read()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, question: str) -> Question:
        """The answers of one question."""
        return Question(self, question)

    def _read(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        *lines, rest = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                at, what, answer, check = json.loads(line)
            except ValueError:
                raise CannotResume(
                    f"{self._path}: line {number} is damaged: the budget is gone"
                ) from None
            if check != _check(at, what, answer):
                raise CannotResume(f"{self._path}: line {number} was changed: the budget is gone")
            self._kept[at] = (what, answer)
        if rest:  # cut off while it was written: nobody saw that answer
            with self._path.open("r+b") as file:
                file.truncate(len(data) - len(rest))
                os.fsync(file.fileno())

    def answer(
        self, question: str, mechanism: Mechanism[Exact, Noisy], draw: Callable[[], Noisy]
    ) -> Noisy:
        number = self._places.get(question, 0)
        self._places[question] = number + 1
        at, what = f"{question}/{number}", _what(mechanism)
        if at in self._kept:
            before, text = self._kept[at]
            if before != what:
                raise CannotResume(
                    f"{question}: the answer kept for step {number + 1} is that of another "
                    "mechanism; the budget is gone, because a different version of privmean or "
                    "another study would have to draw anew"
                )
            try:
                found: Noisy = read(text)
            except NoAnswer:
                raise CannotResume(
                    f"{question}: what is kept for step {number + 1} is no answer; the budget is "
                    "gone, because the file was changed"
                ) from None
            return found
        noisy = draw()
        text = written(noisy)
        line = json.dumps([at, what, text, _check(at, what, text)]).encode() + b"\n"
        try:
            _append(self._path, line)
            self._counted()
        except OSError as error:
            raise CannotResume(
                f"{self._path} cannot be written ({error.strerror}); run again when it can: the "
                "run goes on from the answers that were kept"
            ) from None
        self._kept[at] = (what, text)
        return noisy


class Question:
    """The answers of one question of a run, one after the other."""

    def __init__(self, draws: AnswerLog, name: str) -> None:
        self._draws, self._name = draws, name

    def answer(self, mechanism: Mechanism[Exact, Noisy], draw: Callable[[], Noisy]) -> Noisy:
        """The answer kept for this place, or the one that `draw` gives, kept first."""
        return self._draws.answer(self._name, mechanism, draw)


def _what(mechanism: Mechanism[Any, Any]) -> str:
    """A mechanism by its kind and its public parameters."""
    losses = [loss.to_dict() for loss in mechanism.events]
    return digest(PURPOSE, {"mechanism": type(mechanism).__name__, "losses": losses})


def _check(at: str, what: str, answer: str) -> str:
    return hashlib.sha256(f"{at}\n{what}\n{answer}".encode()).hexdigest()


def _append(path: Path, data: bytes) -> None:
    new = not path.exists()
    with path.open("ab", buffering=0) as file:
        write_all(file.fileno(), data)
        os.fsync(file.fileno())
    if new:
        sync_folder(path.parent)
