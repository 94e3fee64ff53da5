"""A tape of one run before a curator, and its replay on a neighbour.

Recording keeps every question to people and every (mechanism, exact, noisy). Replaying gives back
the frozen noisy answers: whatever is not a function of them then shows as a difference, and the
pairs of exact answers show what the neighbours cost, in exact fractions.

Source: record and replay of mechanism calls as in Cebere, Erb, Desfontaines, Bellet and Fitzsimons
(2026), "Grey-Box Auditing of Differential Privacy Libraries"; here with the outcome compared too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np

from privmean.auditing.drawing import Answer, Draws, Request
from privmean.auditing.operands import Paid, paid
from privmean.auditing.same import same
from privmean.auditing.watched import Asking, watched
from privmean.mechanisms.curator import Billing, Curator, Exact, Mechanism, Noisy
from privmean.noise.base import Noise
from privmean.people.reductions import People

Branch = tuple[int, ...]


@dataclass(frozen=True)
class _Placed:
    """Where on the tape: the branch of disjoint parts of the roster, () before the first split."""

    branch: Branch


@dataclass(frozen=True)
class Answered(_Placed):
    """One private answer."""

    mechanism: Mechanism[Any, Any]
    exact: Any
    noisy: Any
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Split(_Placed):
    """The roster was split into disjoint parts."""

    name: str
    parts: int


Event = Asking | Answered | Split


class Parted(BaseException):
    """The replay asked for something else than the recording: no frozen answer fits. Nobody in
    between may hold it."""


@dataclass
class Tape:
    """What one run asked, in order."""

    events: list[Event] = field(default_factory=list)

    @property
    def answers(self) -> list[Answered]:
        return [item for item in self.events if isinstance(item, Answered)]


class Recorder(Billing):
    """A curator who draws, and keeps everything."""

    def __init__(self, people: People, noise: Noise, tape: Tape, branch: Branch = ()) -> None:
        super().__init__(watched(people, tape.events.append) if not branch else people)
        self._noise, self._tape, self._branch = noise, tape, branch

    def _answer(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        return cast("Noisy", recorded(self._tape, mechanism, exact, self._noise, self._branch))

    def _opened(self, name: str, people: Sequence[People]) -> tuple[Curator, ...]:
        at = len(self._tape.events)
        self._tape.events.append(Split(self._branch, name, len(people)))
        return tuple(
            Recorder(part, self._noise, self._tape, (*self._branch, at, index))
            for index, part in enumerate(people)
        )


@dataclass
class Compared:
    """What one replay showed: shares, one tuple an answer, of each of its losses (None: not
    measured), what the operands of its draws cost, whether the exact answers differed, and what was
    asked otherwise."""

    shares: list[tuple[Fraction, ...] | None] = field(default_factory=list)
    exact: list[Any] = field(default_factory=list)
    paid: list[Paid] = field(default_factory=list)
    changed: list[bool] = field(default_factory=list)
    difference: str = ""


class Replayer(Billing):
    """A curator who gives the answers of a tape, and measures."""

    def __init__(
        self,
        people: People,
        tape: Tape,
        found: Compared,
        events: Iterator[Event] | None = None,
        branch: Branch = (),
    ) -> None:
        self._tape, self._found, self._branch = tape, found, branch
        self._events = iter(tape.events) if events is None else events
        super().__init__(watched(people, self._heard) if not branch else people)

    def finish(self) -> None:
        """Whether everything on the tape was asked again."""
        if not self._found.difference and (left := next(self._events, None)) is not None:
            self._found.difference = f"no longer asked: {_name(left)}"

    def _heard(self, asking: Asking) -> None:
        item = next(self._events, None)
        if not isinstance(item, Asking) or not same(item, asking):
            raise parted(self._found, _name(asking), item)

    def _answer(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        exact = _held(exact)  # which may ask people more
        item = next(self._events, None)
        return cast("Noisy", given(item, mechanism, exact, self._found, self._branch))

    def _opened(self, name: str, people: Sequence[People]) -> tuple[Curator, ...]:
        item = next(self._events, None)
        if not isinstance(item, Split) or not same(item, Split(self._branch, name, len(people))):
            raise parted(self._found, name, item)
        at = next(k for k, event in enumerate(self._tape.events) if event is item)
        return tuple(
            Replayer(part, self._tape, self._found, self._events, (*self._branch, at, index))
            for index, part in enumerate(people)
        )


def recorded(
    tape: Tape, mechanism: Mechanism[Any, Any], exact: object, noise: Noise, branch: Branch = ()
) -> Answer:
    """Draw, and keep everything."""
    exact, draws = _held(exact), Draws(noise)
    noisy = mechanism.draw(exact, draws)
    tape.events.append(Answered(branch, mechanism, exact, _own(noisy), tuple(draws.requests)))
    return noisy


def given(
    item: Event | None, mechanism: Mechanism[Any, Any], exact: object, found: Compared,
    branch: Branch = (),
) -> Answer:  # fmt: skip
    """The noisy answer of the tape, where the same is asked; and what the neighbours cost."""
    if (
        not isinstance(item, Answered)
        or item.branch != branch
        or not same(item.mechanism, mechanism)
        or not same(item.mechanism.losses, mechanism.losses)
    ):
        raise parted(found, called(mechanism), item)
    exact = _held(exact)
    try:
        shares = mechanism.moved(item.exact, exact)
    except ValueError:  # answers of two shapes: how many there are told the neighbours apart
        raise parted(found, "answers of another shape", item) from None
    found.shares.append(shares or None)
    found.exact.append(exact)
    found.changed.append(any(shares) if shares else not same(item.exact, exact))
    found.paid.append(paid(item, exact))
    return _own(item.noisy)


def parted(found: Compared, asked: str, item: Event | None) -> Parted:
    found.difference = f"asked {asked}, not {'nothing' if item is None else _name(item)}"
    return Parted(found.difference)


def _held(exact: Exact) -> Exact:
    """Answers that are computed when they are read, all of them at once."""
    return cast("Exact", tuple(exact)) if isinstance(exact, Iterator) else exact


def _own(noisy: object) -> Answer:
    """A noisy answer that nobody else can write into."""
    if isinstance(noisy, np.ndarray):
        return noisy.copy()
    if isinstance(noisy, list):
        return [_own(item) for item in noisy]
    return dict(noisy) if isinstance(noisy, dict) else noisy


def called(mechanism: Mechanism[Any, Any]) -> str:
    names = ", ".join(loss.name for loss in mechanism.losses) or "free of charge"
    return f"{type(mechanism).__name__} ({names})"


def _name(item: Event) -> str:
    """In words without any number that was computed."""
    if isinstance(item, Answered):
        return called(item.mechanism)
    return item.name if isinstance(item, Split) else f"people.{item.question}"
