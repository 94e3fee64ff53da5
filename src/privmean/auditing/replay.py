"""A tape of one run, and its replay on a neighbor.

Recording keeps every (mechanism, exact, noisy). Replaying gives back the frozen noisy answers.
Whatever is not a function of them then shows as a difference, and the pairs of exact answers show
what the neighbors cost, in exact fractions.

Source: record and replay of mechanism calls as in Cebere, Erb, Desfontaines, Bellet and Fitzsimons
(2026), "Grey-Box Auditing of Differential Privacy Libraries"; here with the outcome compared too.

What a pair of neighbors costs, from the operands that meet the noise.

A replayed draw gets the sums of the recording. Then the sizes of the differences of operands, over
the scales that were asked for, are the loss of noise that is added; what the mechanism gives back
must be the same, since it may depend on nothing but the sums. No formula of a mechanism is used.

Mechanisms that meet people elsewhere than before a curator are tried on pairs of exact answers:
streams keep their own accounting, two servers add noise to shares, fixed designs are about
responses, and some mechanisms are asked by forms as published alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from privmean.auditing.findings import Findings, of_answers
from privmean.auditing.fixed_noise import (
    ADDITIVE,
    Answer,
    Draws,
    Endless,
    Otherwise,
    Request,
    drawn,
)
from privmean.auditing.measure_loss import PROCEDURES, ROUNDING, same, step_of, troubles
from privmean.data.group_pairs import GroupPairTable
from privmean.data.person_table import ClipInterval, PersonTable
from privmean.estimators.regression.panel import PanelTable
from privmean.mechanisms.choices import HitsAbove
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.filtered_mean import FilteredMean
from privmean.mechanisms.histograms import LocationSearch
from privmean.mechanisms.noisy_counts import NoisyShare
from privmean.mechanisms.private_location import RadiusSearch, sides_of
from privmean.mechanisms.weighted_sums import WeightedSums
from privmean.noise.noise_source import Noise, SimulatedNoise
from privmean.privacy.privacy_events import Selection, Threshold

Branch = tuple[int, ...]
NO_FUNCTION = "what it gives back is no function of noisy sums"


@dataclass(frozen=True)
class Answered:
    """One private answer. branch: of the disjoint parts of people that it is about."""

    branch: Branch
    mechanism: Mechanism[Any, Any]
    exact: Answer
    noisy: Answer
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Paid:
    """share: the loss over what is declared; None where a draw is added to nothing (noise made of
    words, proposals that are rejected). trouble: what is wrong, in words. requests: those of the
    neighbor."""

    share: Fraction | None
    trouble: str = ""
    requests: Sequence[Request] = ()


def paid(item: Answered, exact: Answer) -> Paid:
    """What the pair of the recorded answer and this one costs."""
    losses, step = item.mechanism.events, step_of(item.mechanism)
    # of a comparison nothing but a place is seen: what comes after it is not read
    ends = bool(losses) and all(isinstance(loss, Selection) for loss in losses)
    columns = step is not item.mechanism
    keyed = isinstance(item.exact[0] if columns and item.exact else item.exact, Mapping)
    hidden = any(loss.added_delta for loss in losses)
    if not _added(item.requests, ends) or (hidden and not keyed):
        return Paid(None, _unmeasured(item, exact))
    other, noisy = exact, item.noisy
    first: Sequence[Request] = item.requests
    if keyed:  # what only one of the two has is hidden by a threshold, and has no partner
        ours, other = in_common(item.exact, exact, columns=columns)
        noisy, first = drawn(item.mechanism, ours, SimulatedNoise(1))
    again = Draws(SimulatedNoise(1), again=first)
    try:
        answer = item.mechanism.draw(other, again)
    except (Otherwise, Endless) as problem:
        if isinstance(step, PROCEDURES):  # whoever is certain has no coin
            return Paid(None, _unmeasured(item, exact, again=False))
        return Paid(None, f"its draws follow the data: {problem}")
    if not _added(again.requests, ends) or len(again.requests) != len(first):
        return Paid(None, "how much noise is drawn, or what it is added to, follows the data")
    if not same(answer, noisy):
        return Paid(None, NO_FUNCTION, again.requests)
    return Paid(_share(item.mechanism, first, again.requests), "", again.requests)


def _unmeasured(item: Answered, exact: Answer, *, again: bool = True) -> str:
    """Where no operands tell a loss: whether the first noise is asked for alike (of cells, all of
    it). How a coin is made may hang on private numbers, as long as it stays hidden.

    A cell that only one of the two has holds one person. Without such a cell, what is given back
    with the same sums is the same (again: this is tried). The thresholds of a filter hide none."""
    thresholds = any(isinstance(loss, Threshold) for loss in item.mechanism.events)
    cells = thresholds and not isinstance(step_of(item.mechanism), FilteredMean)
    _, asks = drawn(item.mechanism, exact, SimulatedNoise(1))
    both = [draws for draws in (item.requests, asks) if draws]
    asked = {
        tuple((one.law, one.scale if one.law in ADDITIVE else 0) for one in draws)
        for draws in (draws if cells else _first(draws) for draws in both)
    }
    if len(asked) > 1:
        return "its draws follow the data: other noise is asked for"
    if not (again and cells) or not all(_added(draws, False) for draws in both):
        return ""
    alone = any(count < 2 for draws in both for one in draws for count in one.operands)
    if alone or tuple(asks) != item.requests:
        return ""
    replayed = Draws(SimulatedNoise(1), again=item.requests)
    return "" if same(item.mechanism.draw(exact, replayed), item.noisy) else NO_FUNCTION


def _first(draws: Sequence[Request]) -> Sequence[Request]:
    """What is asked for first: of noise that is added, if there is any."""
    return ([item for item in draws if item.law in ADDITIVE] or draws)[:1]


def _added(requests: Sequence[Request], ends: bool) -> bool:
    """Whether every draw is a number that was added to one number, or a choice among scores."""
    laws = {item.law for item in requests}
    added = laws <= set(ADDITIVE) or laws == {"argmax"}
    return added and (ends or all(item.met for item in requests))


def in_common(one: Answer, two: Answer, *, columns: bool) -> tuple[Any, Any]:
    """Two counts of cells, as far as both have something; columns: lists of such counts."""
    if columns:
        pairs = [in_common(*pair, columns=False) for pair in zip(one, two, strict=True)]
        return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    keys = [key for key in one if one[key] and two.get(key)]
    return {key: one[key] for key in keys}, {key: two[key] for key in keys}


def _share(
    mechanism: Mechanism[Any, Any], first: Sequence[Request], second: Sequence[Request]
) -> Fraction | None:
    """The loss of all draws together, over that of all lines."""
    losses = mechanism.events
    pure = sum((loss.pure for loss in losses), Fraction(0))
    square = sum(Fraction(loss.mu) ** 2 for loss in losses)
    cost = spread = Fraction(0)
    changes: list[tuple[Fraction, list[Any]]] = []
    for one, two in zip(first, second, strict=True):
        pairs = zip(one.operands, two.operands, strict=True)
        moved = [0 if a is None or b is None else b - a for a, b in pairs]
        if one.law == "gaussian":
            spread += Fraction(sum(change * change for change in moved)) / one.scale**2
        elif one.law == "argmax":
            cost += Fraction(max(moved) - min(moved)) / one.scale
        else:
            cost += Fraction(sum(map(abs, moved))) / one.scale
        changes.append((one.scale, moved))
    if first and first[0].law == "laplace" and losses and isinstance(losses[0], Selection):
        cost = _compared(changes)
    if not losses:
        return Fraction(2) if cost or spread else Fraction(0)
    if (cost and not pure) or (spread and not square):
        return None  # another law than that of the accounting: `draws` says so
    return (cost / pure if cost else Fraction(0)) + (spread / square if spread else Fraction(0))


def _compared(draws: Sequence[tuple[Fraction, list[Any]]]) -> Fraction:
    """Of comparisons of noisy counts with a noisy limit, the sparse vector technique: a run is a
    limit and what is compared with it, of which nothing but the place of the first hit is seen.
    Counts that move in one direction alone cost once, others twice (Lyu, Su and Li 2017)."""
    runs: list[tuple[Fraction, Fraction, list[Any]]] = []
    if all(len(moved) == 1 for _, moved in draws):  # a limit, then one count after another
        least = min(scale for scale, _ in draws)
        runs.append((draws[0][0], least, [change for _, moved in draws[1:] for change in moved]))
    else:
        limit = None
        for scale, moved in draws:
            if len(moved) > 1:  # where no limit came first, it comes with the counts
                runs.append((limit or scale, scale, moved if limit else moved[1:]))
            limit = scale if len(moved) == 1 else None
    total = Fraction(0)
    for limit, scale, moved in runs:
        size = Fraction(max(map(abs, moved), default=0))
        both = any(change > 0 for change in moved) and any(change < 0 for change in moved)
        total += size / limit + (2 if both else 1) * size / scale
    return total


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


FEW = 2  # answers of one name, from either end, whose draws are tried


def measured(
    answers: Sequence[Answered], compared: Compared, where: str, found: Findings
) -> Fraction:
    """What every answer costs: by its operands, and as the mechanism says. The largest share."""
    largest = Fraction(0)
    pairs = zip(answers, compared.shares, compared.paid, compared.changed, strict=False)
    for item, shares, paid, changed in pairs:
        name = name_of(item.mechanism)
        mechanism = found.mechanism(name)
        mechanism.runs += 1
        words = [f": {paid.trouble}"] if paid.trouble else []
        if not item.mechanism.events and changed:
            words.append(" tells neighbors apart without a loss for it")
        said = max(shares or (), default=Fraction(0))
        most = said
        if paid.share is not None:
            mechanism.shifted += 1
            most = max(said, paid.share)
            limit = Fraction(1) if shares is None else said  # what it says itself, too
            if paid.share > limit + ROUNDING:
                cost = f"{float(paid.share):.6g} of what is declared"
                words.append(f": its operands cost {cost}, it says {float(said):.6g}")
            elif most > 1 >= said:
                most = Fraction(1)  # by no more than doubles tell
        elif shares is None:
            mechanism.unmeasured += 1
        if said > 1:
            words.append(f" costs {float(said):.6g} of what is declared")
        mechanism.largest = max(mechanism.largest, most)
        mechanism.violations += len(words)
        for text in words:
            found.violated(where, f"{name}{text}")
        largest = max(largest, most)
    if _two_parts(answers, compared.changed):
        found.differences += 1
        found.violated(where, "one person is in two parts that are billed as disjoint")
    return largest


def _two_parts(answers: Sequence[Answered], changed: Sequence[bool]) -> bool:
    """Whether the answers of two disjoint parts changed: a branch is a list of splits, each with
    the number of the part."""
    parts: dict[Branch, int] = {}
    return any(
        parts.setdefault(item.branch[: at + 1], item.branch[at + 1]) != item.branch[at + 1]
        for item, moved in zip(answers, changed, strict=False)
        for at in range(0, len(item.branch), 2)
        if moved
    )


def inspected(answers: Sequence[Answered], where: str, found: Findings) -> None:
    """What is wrong with recorded answers by themselves: with a few of each name."""
    for item in _few(answers):
        name = name_of(item.mechanism)
        for words in troubles(item.mechanism, item.exact):
            found.mechanism(name).violations += 1
            found.violated(where, f"{name}: {words}")


def _few(answers: Sequence[Answered]) -> Iterator[Answered]:
    """The first and the last few answers of each name: what a loop asks again and again is drawn by
    the same code."""
    named: dict[str, list[Answered]] = {}
    for item in answers:
        named.setdefault("/".join(loss.name for loss in item.mechanism.events), []).append(item)
    for items in named.values():
        yield from items if len(items) <= 2 * FEW else (*items[:FEW], *items[-FEW:])


def name_of(mechanism: Mechanism[Any, Any]) -> str:
    """By class and law."""
    step = step_of(mechanism)
    law = getattr(getattr(step, "sums", step), "law", "")
    return f"{type(step).__name__}, {law.lower()}" if law else type(step).__name__


VALUES = (0.0, -1.0, 1.0, 8.0, 1e308, -1e308, 5e-324, 2.0**41, -(2.0**41), 3.5)
EPSILON = Fraction(2)


def pairs() -> Iterator[tuple[Any, Any, list[Any]]]:
    """A mechanism, an exact answer, and those of neighbors."""
    rows = np.linspace(-4, 9, 60)
    others: list[Any] = [np.concatenate([[value], rows[1:]]) for value in VALUES]
    lengths = [sides_of(item[:, None]) for item in (rows, *others)]
    yield RadiusSearch(60, EPSILON).mechanism, lengths[0], lengths[1:]
    averages = [1.0] * 40 + [9.0] * 20
    moved = [[value, *averages[1:]] for value in (1.0, 9.0, -3.0, 1e6)]
    search = LocationSearch.priced("place", 2.0, EPSILON, 1e-6)
    yield search, search.cells(averages), [search.cells(item) for item in moved]
    counts = np.array([1, 7, 3, 9, 2, 8, 5, 4, 6, 0], dtype=np.int64)
    near = [counts + change for change in (-1, 0, 1)]
    near += [counts + np.where(np.arange(10) == k, -1, 1) for k in (0, 3)]
    yield HitsAbove("columns", EPSILON, 2, "each count, by one", 6.0), counts, near
    whole = 2**20 - 1
    shares = [[value, whole - value] for value in (0, whole, whole // 2)]
    yield NoisyShare(whole, 2, EPSILON), [0, 0], shares
    weights = np.array([[2**20, 1], [3, 2**20], [2**19, 2**19]], dtype=np.int64)
    box = ClipInterval(-1.0, 1.0)
    pure = WeightedSums("points", weights, box, epsilon=EPSILON)
    over: Any
    for over in (pure, WeightedSums("points", weights, box, mu=0.5)):
        first = np.array([1.0, math.nan, 0.5])
        near = [np.array([value, math.nan, 0.5]) for value in (-1.0, 0.0, 1e308, math.nan)]
        near += [np.array([1.0, value, 0.5]) for value in (-1.0, 1.0)]
        yield over, over.exact(first), [over.exact(item) for item in near]


def audit_direct(found: Findings) -> None:
    """Every pair, by operands and by what the mechanism says."""
    for mechanism, exact, others in pairs():
        where = f"direct: {type(mechanism).__name__}"
        tried(mechanism, exact, others, where, found)
        found.subjects[where] = len(others)


def tried(
    mechanism: Any, exact: Answer, others: Sequence[Any], where: str, found: Findings
) -> None:
    """One answer, recorded by itself, and those of neighbors."""
    tape = Transcript()
    found.recorded += 1
    try:
        Recording(tape, SimulatedNoise(1)).answer(mechanism, exact)
    except Endless:
        found.violated(where, "a draw comes to no end: noise is drawn again until it suits")
        return
    found.seen |= set(of_answers(tape.answers))
    inspected(tape.answers, where, found)
    for other in others:
        compared = Compared()
        with contextlib.suppress(Parted):
            Replaying(tape, compared).answer(mechanism, other)
        if compared.difference:
            found.violated(where, compared.difference)
        measured(tape.answers, compared, where, found)
        found.runs += 1
