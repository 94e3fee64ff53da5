"""What a pair of neighbors costs, from the operands that meet the noise.

A replayed draw gets the sums of the recording. Then the sizes of the differences of operands, over
the scales that were asked for, are the loss of noise that is added; what the mechanism gives back
must be the same, since it may depend on nothing but the sums. No formula of a mechanism is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privmean.auditing.fixed_noise import (
    ADDITIVE,
    Answer,
    Draws,
    Endless,
    Otherwise,
    Request,
    drawn,
)
from privmean.auditing.measure_loss import PROCEDURES, same, step_of
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.filtered_mean import FilteredMean
from privmean.noise.simulated import SimulatedNoise
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
