"""A tape of one run, and its replay on a neighbor.

Recording keeps every (mechanism, exact, noisy). Replaying gives back
the frozen noisy answers: whatever is not a function of them then shows as a difference, and the
pairs of exact answers show what the neighbours cost, in exact fractions.

Source: record and replay of mechanism calls as in Cebere, Erb, Desfontaines, Bellet and Fitzsimons
(2026), "Grey-Box Auditing of Differential Privacy Libraries"; here with the outcome compared too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np

from privmean.auditing.equality import same
from privmean.auditing.fixed_noise import Answer, Draws, Request
from privmean.auditing.operands import Paid, paid
from privmean.mechanisms.curator import Exact, Mechanism
from privmean.noise.noise_source import Noise

Branch = tuple[int, ...]


@dataclass(frozen=True)
class Answered:
    """One private answer. branch: of the disjoint parts of people that it is about."""

    branch: Branch
    mechanism: Mechanism[Any, Any]
    exact: Any
    noisy: Any
    requests: tuple[Request, ...]


Event = Any  # an answer, or a question to people


class Parted(BaseException):
    """The replay asked for something else than the recording: no frozen answer fits. Nobody in
    between may hold it."""


@dataclass
class Transcript:
    """What one run asked, in order."""

    events: list[Event] = field(default_factory=list)

    @property
    def answers(self) -> list[Answered]:
        return [item for item in self.events if isinstance(item, Answered)]


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


def recorded(
    tape: Transcript,
    mechanism: Mechanism[Any, Any],
    exact: object,
    noise: Noise,
    branch: Branch = (),
) -> Answer:
    """Draw, and keep everything."""
    exact, draws = held(exact), Draws(noise)
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
    exact = held(exact)
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
    found.difference = f"asked {asked}, not {'nothing' if item is None else named(item)}"
    return Parted(found.difference)


def held(exact: Exact) -> Exact:
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


def named(item: Event) -> str:
    """In words without any number that was computed."""
    return called(item.mechanism) if isinstance(item, Answered) else str(item)
