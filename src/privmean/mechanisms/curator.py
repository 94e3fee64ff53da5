"""The one place where people and noise meet: every private answer of a release passes `ask`.

A mechanism is a value: it states its losses, and draws a noisy answer from an exact one. The
curator holds the people, draws through the noise it was given and writes the accounting; nobody
else does. What was asked, in which order, is therefore all that a release can have revealed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypedDict, TypeVar, Unpack

from privmean.data.person_table import PersonTable
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.compose import Parallel
from privmean.privacy.privacy_events import PrivacyEvent

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


class ParallelRule(TypedDict, total=False):
    """How bills of disjoint parts are written together. lines: so many lines instead of one, each
    of an equal run of every accounting (one a column, to be composed). join: what the accountings
    cost together, where that is less than the largest of them (disjoint by public positions as
    well)."""

    lines: int
    join: Join


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
        self, name: str, people: Sequence[PersonTable], **written: Unpack[ParallelRule]
    ) -> tuple[Curator, ...]:
        """Curators to be asked about disjoint parts of the roster, with these people each. One
        person is in one part alone, so that their bills are one line of this one: the largest
        counts (replace-one only), but for what `Written` says."""
        ...


class AnswerStore(Protocol):
    """Where noisy answers are kept before anyone sees them, so that a run that was stopped goes on
    with the answers that were drawn."""

    def answer(self, mechanism: Mechanism[Exact, Noisy], draw: Callable[[], Noisy]) -> Noisy:
        """The answer kept for this place, or the one that `draw` gives, kept first."""
        ...


class AccountingCurator(ABC):
    """A curator but for how it comes by noisy answers: it writes the accounting, and opens
    parts."""

    def __init__(self, people: PersonTable, paid: Sequence[PrivacyEvent] = ()) -> None:
        self._people = people
        self._asked: list[PrivacyEvent | _DisjointCurators] = list(paid)

    @property
    def people(self) -> PersonTable:
        return self._people

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return tuple(line for item in self._asked for line in _lines(item))

    def ask(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        self._asked += mechanism.events
        return self._answer(mechanism, exact)

    def parallel(
        self, name: str, people: Sequence[PersonTable], **written: Unpack[ParallelRule]
    ) -> tuple[Curator, ...]:
        others = self._opened(name, people)
        self._asked.append(_DisjointCurators(name, others, **written))
        return others

    @abstractmethod
    def _answer(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        """The noisy answer to what was billed."""

    @abstractmethod
    def _opened(self, name: str, people: Sequence[PersonTable]) -> tuple[Curator, ...]:
        """A curator for each part of the roster."""


class TrustedCurator(AccountingCurator):
    """A curator who draws. Made once a release, by the road. draws: where answers are kept. paid:
    lines of earlier steps whose answers this release uses: in its accounting, in full."""

    def __init__(
        self,
        people: PersonTable,
        noise: Noise,
        draws: AnswerStore | None = None,
        paid: Sequence[PrivacyEvent] = (),
    ) -> None:
        super().__init__(people, paid)
        self._noise, self._draws = noise, draws

    @property
    def secure(self) -> bool:
        """Whether the noise is exact and comes from the operating system's entropy."""
        return self._noise.secure

    def _answer(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        taped = getattr(self._noise, "answer", None)  # of an audit: it keeps what is drawn

        def draw() -> Noisy:
            found: Noisy = taped(mechanism, exact) if taped else mechanism.draw(exact, self._noise)
            return found

        return draw() if self._draws is None else self._draws.answer(mechanism, draw)

    def _opened(self, name: str, people: Sequence[PersonTable]) -> tuple[Curator, ...]:
        taped = getattr(self._noise, "parts", None)  # of an audit: whose answers it keeps
        noises = taped(len(people)) if taped else [self._noise] * len(people)
        pairs = zip(people, noises, strict=True)
        return tuple(TrustedCurator(part, noise, self._draws) for part, noise in pairs)


@dataclass(frozen=True)
class _DisjointCurators:
    """Curators whose bills are written together."""

    name: str
    others: tuple[Curator, ...]
    lines: int = 1
    join: Join | None = None


def _lines(item: PrivacyEvent | _DisjointCurators) -> Iterator[PrivacyEvent]:
    if isinstance(item, PrivacyEvent):
        yield item
        return
    bills = [other.events for other in item.others]
    for line in range(item.lines):
        branches = tuple(run for run in (_run(bill, line, item.lines) for bill in bills) if run)
        if branches and item.join is not None:
            yield item.join(branches)
        elif branches:
            yield Parallel(item.name, branches, neighbors=REPLACE_ONE)


def _run(bill: tuple[PrivacyEvent, ...], line: int, lines: int) -> tuple[PrivacyEvent, ...]:
    size = -(-len(bill) // lines)
    return bill[line * size : (line + 1) * size]
