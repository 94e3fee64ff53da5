"""The curator: the one place where people and noise meet.

A mechanism is a value: it states its losses, and draws a noisy answer from an exact one. The
curator holds the people, draws through the noise it was given and writes the accounting; nobody
else does. What was asked, in which order, is therefore all that a release can have revealed.

A mechanism's `sensitivity_share` says how far two exact answers are apart, as a share of what its
losses declare (exact fractions). For answers of neighbors no share may exceed 1: that is the
sensitivity of the proof, tried on data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from privmean.data.person_table import PersonTable
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.compose import Parallel
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent


def differences(exact: Iterable[int], other: Iterable[int]) -> list[int]:
    """Changes of whole numbers; answers that one of the two lacks count as 0 there."""
    if isinstance(exact, np.ndarray) and isinstance(other, np.ndarray) and len(exact) == len(other):
        changes: list[int] = (exact - other).tolist()  # counts and scores: far below 2^62
        return changes
    return [int(a) - int(b) for a, b in zip_longest(exact, other, fillvalue=0)]


def pure_share(cost: Fraction, loss: PrivacyEvent) -> Fraction:
    return cost / loss.pure


def laplace_share(changes: Sequence[int], loss: Laplace) -> Fraction:
    """Changes of answers that all have noise of the loss's scale. Where the loss is that of
    `cells_changed` smaller answers, no single one may move by more than its part."""
    sizes = [abs(item) for item in changes]
    return max(sum(sizes), max(sizes, default=0) * loss.cells_changed) / loss.sensitivity


def gaussian_share(changes: Sequence[tuple[int, float]], loss: Gaussian) -> Fraction:
    """Squares of (change, deviation) pairs, in lattice steps, as a share of mu^2. More changed
    answers than the loss was counted for are a share above 1 by themselves."""
    moved = [(change, sd) for change, sd in changes if change]
    square = Fraction(0)
    for sd in {item for _, item in moved}:
        same = sum(change * change for change, item in moved if item == sd)
        square += same / Fraction(sd) ** 2
    share = square * (Fraction(loss.scale) / Fraction(loss.sensitivity)) ** 2
    return max(share, Fraction(len(moved), loss.answers)) if len(moved) > loss.answers else share


X_contra = TypeVar("X_contra", contravariant=True)
Y_co = TypeVar("Y_co", covariant=True)
Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")


class Mechanism(Protocol[X_contra, Y_co]):
    """Exact answers in, noisy answers out, at losses stated before either is known."""

    @property
    def events(self) -> tuple[PrivacyEvent, ...]: ...

    def draw(self, exact: X_contra, noise: Noise) -> Y_co: ...

    def sensitivity_share(self, exact: X_contra, other: X_contra) -> tuple[Fraction, ...]:
        """What this pair of exact answers costs, over what is declared: one number for each of
        `losses`, at most 1 for neighbors. Epsilon over epsilon for a pure loss, mu^2 over mu^2 for
        a Gaussian one, cells over cells for a threshold. Empty where a loss is proved for a
        procedure as a whole, and no pair of answers can show it."""
        ...


Join = Callable[[tuple[tuple[PrivacyEvent, ...], ...]], PrivacyEvent]


class Curator(Protocol):
    """Who holds the people of one release."""

    @property
    def people(self) -> PersonTable: ...

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The losses of everything that was asked so far, in that order."""
        ...

    def ask(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        """The noisy answer; its losses are in the accounting before it is drawn."""
        ...

    def parallel(
        self, name: str, people: Sequence[PersonTable], lines: int = 1, join: Join | None = None
    ) -> tuple[Curator, ...]:
        """Curators to be asked about disjoint parts of the roster, with these people each. One
        person is in one part alone, so that their bills are one line of this one: the largest
        counts (replace-one only).

        lines: so many lines instead of one, each of an equal run of every accounting (one a column,
        to be composed). join: what the accountings cost together, where that is less than the
        largest of them (disjoint by public positions as well)."""
        ...


# keeps noisy answers before anyone sees them, so that a run that was stopped goes on with what it
# drew: gives the answer kept for this place, or the one that is drawn, kept first
AnswerStore = Callable[[Mechanism[Any, Any], Callable[[], Any]], Any]


class TrustedCurator:
    """A curator who draws, writes the accounting, and opens parts. Made once a release, by the
    road. draws: where answers are kept. paid: lines of earlier steps whose answers this release
    uses: in its accounting, in full."""

    def __init__(
        self,
        people: PersonTable,
        noise: Noise,
        draws: AnswerStore | None = None,
        paid: Sequence[PrivacyEvent] = (),
    ) -> None:
        self._people, self._noise, self._draws = people, noise, draws
        self._asked: list[PrivacyEvent | Callable[[], Iterator[PrivacyEvent]]] = list(paid)

    @property
    def people(self) -> PersonTable:
        return self._people

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        bills = ((item,) if isinstance(item, PrivacyEvent) else item() for item in self._asked)
        return tuple(line for bill in bills for line in bill)

    def ask(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        self._asked += mechanism.events
        return self._answer(mechanism, exact)

    def parallel(
        self, name: str, people: Sequence[PersonTable], lines: int = 1, join: Join | None = None
    ) -> tuple[Curator, ...]:
        others = self._opened(people)
        self._asked.append(partial(_together, name, others, lines, join))
        return others

    @property
    def secure(self) -> bool:
        """Whether the noise is exact and comes from the operating system's entropy."""
        return self._noise.secure

    def _answer(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        taped = getattr(self._noise, "answer", None)  # of an audit: it keeps what is drawn

        def draw() -> Noisy:
            found: Noisy = taped(mechanism, exact) if taped else mechanism.draw(exact, self._noise)
            return found

        answer: Noisy = draw() if self._draws is None else self._draws(mechanism, draw)
        return answer

    def _opened(self, people: Sequence[PersonTable]) -> tuple[Curator, ...]:
        taped = getattr(self._noise, "parts", None)  # of an audit: whose answers it keeps
        noises = taped(len(people)) if taped else [self._noise] * len(people)
        pairs = zip(people, noises, strict=True)
        return tuple(TrustedCurator(part, noise, self._draws) for part, noise in pairs)


def _together(
    name: str, others: tuple[Curator, ...], lines: int, join: Join | None
) -> Iterator[PrivacyEvent]:
    """The bills of curators of disjoint parts, as they are written together."""
    bills = [other.events for other in others]
    for line in range(lines):
        branches = tuple(run for run in (_run(bill, line, lines) for bill in bills) if run)
        if branches and join is not None:
            yield join(branches)
        elif branches:
            yield Parallel(name, branches, neighbors=REPLACE_ONE)


def _run(bill: tuple[PrivacyEvent, ...], line: int, lines: int) -> tuple[PrivacyEvent, ...]:
    size = -(-len(bill) // lines)
    return bill[line * size : (line + 1) * size]


@dataclass(frozen=True)
class EachColumn(Generic[Exact, Noisy]):
    """The answers of several columns. times: how often the losses of `step` are billed (once a
    column for noise on one column, once for noise that was set for all columns together)."""

    step: Mechanism[Exact, Noisy]
    times: int

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.step.events * self.times

    def sensitivity_share(
        self, exact: Sequence[Exact], other: Sequence[Exact]
    ) -> tuple[Fraction, ...]:
        shares = [self.step.sensitivity_share(a, b) for a, b in zip(exact, other, strict=True)]
        if self.times == 1:  # noise that was set for all columns together: their costs add up
            return tuple(sum(items, Fraction(0)) for items in zip(*shares, strict=True))
        every = tuple(share for items in shares for share in items)
        return every + (Fraction(0),) * (len(self.events) - len(every))

    def draw(self, exact: Sequence[Exact], noise: Noise) -> list[Noisy]:
        return [self.step.draw(item, noise) for item in exact]
