"""Noisy answers kept on the disk before anyone sees them, so that a run that was stopped goes on.

A kept answer is private already; raw noise, seeds and exact answers are never written. An answer
that was drawn but not kept when a run stopped was seen by nobody: drawing it anew is a first draw.
A kept answer is given back only for the same question, place, mechanism and prices, and is never
drawn again. docs/proofs/study.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from privmean.errors import PrivmeanError
from privmean.mechanisms.curator import AnswerStore, Mechanism
from privmean.privacy.canonical_json import digest
from privmean.study.stored_answers import NoAnswer, read, written

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

    def of(self, question: str) -> Question:
        """The answers of one question."""
        return Question(self, question)

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


class Question:
    """The answers of one question of a run, one after the other."""

    def __init__(self, draws: AnswerLog, name: str) -> None:
        self._draws, self._name = draws, name

    def answer(self, mechanism: Mechanism[Exact, Noisy], draw: Callable[[], Noisy]) -> Noisy:
        """The answer kept for this place, or the one that `draw` gives, kept first."""
        return self._draws.answer(self._name, mechanism, draw)


def kept_only(draws: Callable[[str], AnswerStore]) -> Callable[[str], AnswerStore]:
    """The answers of a run that was settled: those that are kept, and no other."""

    class Kept:
        def __init__(self, name: str) -> None:
            self._answers = draws(name)

        def answer(self, mechanism: Mechanism[Exact, Noisy], draw: Callable[[], Noisy]) -> Noisy:
            """The answer kept for this place; nothing is drawn."""
            return self._answers.answer(mechanism, _ended)

    return Kept


def _ended() -> NoReturn:
    raise CannotResume(
        "The run has ended, and what it did not ask came back to the ledger: nothing more is drawn "
        "for it. Put back the newest copy of its folder, or begin a new study in another"
    )


def _what(mechanism: Mechanism[Any, Any]) -> str:
    """A mechanism by its kind and its public parameters."""
    losses = [loss.to_dict() for loss in mechanism.events]
    return digest(PURPOSE, {"mechanism": type(mechanism).__name__, "losses": losses})
