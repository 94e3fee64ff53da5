"""A tape of one run, and its replay on a neighbor.

Recording keeps every (mechanism, exact, noisy). Replaying gives back the frozen noisy answers.
Whatever is not a function of them then shows as a difference, and the pairs of exact answers show
what the neighbors cost, in exact fractions.

Source: record and replay of mechanism calls as in Cebere, Erb, Desfontaines, Bellet and Fitzsimons
(2026), "Grey-Box Auditing of Differential Privacy Libraries"; here with the outcome compared too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

from privmean.auditing.fixed_noise import Answer, Draws
from privmean.auditing.measure_loss import same
from privmean.auditing.operands import Answered, Branch, Paid, paid
from privmean.data.group_pairs import GroupPairTable
from privmean.data.person_table import PersonTable
from privmean.mechanisms.curator import Mechanism
from privmean.models.panel import PanelTable
from privmean.noise.noise_source import Noise
from privmean.noise.simulated import SimulatedNoise

UNTOLD = ("columns", "max_records", "counts")  # public, or asked by nobody before a curator
OTHERS = ("standardized", "split")  # questions that give people again


@dataclass(frozen=True)
class Asking:
    """One question to people. whom: how these people were made of the first ones."""

    whom: tuple[object, ...]
    question: str
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        return f"people.{self.question}"


class RecordingTable:
    """The same people; `tell` hears every question before it is answered."""

    def __init__(
        self, people: PersonTable, tell: Callable[[Asking], None], whom: tuple[object, ...] = ()
    ) -> None:
        self._people, self._tell, self._whom = people, tell, whom

    def __getattr__(self, name: str) -> Answer:
        found = getattr(self._people, name)
        if name in UNTOLD or not callable(found):
            return found

        def asked(*given: object, **words: object) -> Answer:
            said = tuple(tuple(x) if isinstance(x, list) else x for x in (*given, *words.values()))
            self._tell(Asking(self._whom, name, said))
            answer = found(*given, **words)
            if name in OTHERS:
                return RecordingTable(answer, self._tell, (*self._whom, (name, *said)))
            return answer

        return asked


class Parted(BaseException):
    """The replay asked for something else than the recording: no frozen answer fits. Nobody in
    between may hold it."""


@dataclass
class Transcript:
    """What one run asked, in order: answers, and questions to people."""

    events: list[Answered | Asking] = field(default_factory=list)

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


class Recording(Draws):
    """Noise that writes a tape. branch: the disjoint part of people that it answers about."""

    def __init__(self, tape: Transcript, noise: Noise) -> None:
        super().__init__(noise)
        self.branch: Branch = ()
        self._tape, self._splits = tape, count()

    def parts(self, number: int) -> list[Recording]:
        """The same for so many disjoint parts of people."""
        at, parts = next(self._splits), [copy(self) for _ in range(number)]
        for index, part in enumerate(parts):
            part.branch = (*self.branch, at, index)
        return parts

    def watching(self, people: PersonTable) -> Answer:
        """The same people; what is asked of them must not follow private values. Panels and pairs
        as they are: their calls are replayed whole."""
        whole = isinstance(people, PanelTable | GroupPairTable)
        return people if whole else RecordingTable(people, self.heard)

    def answer(self, mechanism: Mechanism[Any, Any], exact: Answer) -> Answer:
        exact, draws = _held(exact), Draws(self.noise)
        noisy = mechanism.draw(exact, draws)
        requests = tuple(draws.requests)
        self._tape.events.append(Answered(self.branch, mechanism, exact, deepcopy(noisy), requests))
        return noisy

    def heard(self, asking: Asking) -> None:
        self._tape.events.append(asking)


class Replaying(Recording):
    """Noise that gives the answers of a tape, where the same is asked; and what the neighbors
    cost."""

    def __init__(self, tape: Transcript, found: Compared) -> None:
        super().__init__(tape, SimulatedNoise(1))
        self._events, self._found = iter(tape.events), found

    def answer(self, mechanism: Mechanism[Any, Any], exact: Answer) -> Answer:
        exact, found = _held(exact), self._found  # which may ask people more
        item = next(self._events, None)
        if (
            not isinstance(item, Answered)
            or item.branch != self.branch
            or not same(item.mechanism, mechanism)
            or not same(item.mechanism.events, mechanism.events)
        ):
            raise self._parted(_called(mechanism), item)
        try:
            shares = mechanism.sensitivity_share(item.exact, exact)
        except ValueError:  # answers of two shapes: how many there are told the neighbors apart
            raise self._parted("answers of another shape", item) from None
        found.shares.append(shares or None)
        found.exact.append(exact)
        found.changed.append(any(shares) if shares else not same(item.exact, exact))
        found.paid.append(paid(item, exact))
        return deepcopy(item.noisy)

    def heard(self, asking: Asking) -> None:
        item = next(self._events, None)
        if not same(item, asking):
            raise self._parted(str(asking), item)

    def finish(self) -> None:
        """Whether everything on the tape was asked again."""
        left = next(self._events, None)
        if left is not None and not self._found.difference:
            self._found.difference = f"no longer asked: {_named(left)}"

    def _parted(self, asked: str, item: Answered | Asking | None) -> Parted:
        self._found.difference = f"asked {asked}, not {_named(item)}"
        return Parted(self._found.difference)


def _held(exact: Answer) -> Answer:
    """Answers that are computed when they are read, all of them at once."""
    return tuple(exact) if isinstance(exact, Iterator) else exact


def _called(mechanism: Mechanism[Any, Any]) -> str:
    names = ", ".join(loss.name for loss in mechanism.events) or "free of charge"
    return f"{type(mechanism).__name__} ({names})"


def _named(item: Answered | Asking | None) -> str:
    """In words without any number that was computed."""
    if isinstance(item, Answered):
        return _called(item.mechanism)
    return "nothing" if item is None else str(item)
