"""What a pair of neighbours costs, from the operands that meet the noise.

A replayed draw gets the sums of the recording. Then the sizes of the differences of operands, over
the scales that were asked for, are the loss of noise that is added; what the mechanism gives back
must be the same, since it may depend on nothing but the sums. No formula of a mechanism is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from privmean.auditing.equality import same
from privmean.auditing.fixed_noise import ADDITIVE, Answer, Draws, Endless, Otherwise, Request
from privmean.auditing.measure_loss import PROCEDURES
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.filtered.filtered_mean import FilteredMean
from privmean.mechanisms.per_column import EachColumn
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.privacy_events import Selection, Threshold

ROUNDING = Fraction(1, 10**6)


class Item(Protocol):
    """An answer of a tape."""

    @property
    def mechanism(self) -> Mechanism[Any, Any]: ...
    @property
    def exact(self) -> Answer: ...
    @property
    def noisy(self) -> Answer: ...
    @property
    def requests(self) -> Sequence[Request]: ...


@dataclass(frozen=True)
class Paid:
    """share: the loss over what is declared; None where a draw is added to nothing (noise made of
    words, proposals that are rejected). trouble: what is wrong, in words. requests: those of the
    neighbour."""

    share: Fraction | None
    trouble: str = ""
    requests: Sequence[Request] = ()


def paid(item: Item, exact: Answer) -> Paid:
    """What the pair of the recorded answer and this one costs."""
    losses = item.mechanism.losses
    # of a comparison nothing but a place is seen: what comes after it is not read
    ends = bool(losses) and all(isinstance(loss, Selection) for loss in losses)
    if not _added(item.requests, ends):
        return Paid(None, _branch(item, exact))
    first, other, noisy = item.requests, exact, item.noisy
    step = item.mechanism.step if isinstance(item.mechanism, EachColumn) else item.mechanism
    columns = step is not item.mechanism
    keyed = isinstance(item.exact[0] if columns and item.exact else item.exact, Mapping)
    if not keyed and any(loss.added_delta for loss in losses):
        return Paid(None, (_hidden if _cells(step) else _branch)(item, exact))
    if keyed:  # what only one of the two has is hidden by a threshold, and has no partner
        pairs = zip(item.exact, exact, strict=True) if columns else [(item.exact, exact)]
        common = [_common(*pair) for pair in pairs]
        ours, other = ([pair[k] for pair in common] for k in (0, 1))
        draws = Draws(SimulatedNoise(1))
        noisy = item.mechanism.draw(ours if columns else ours[0], draws)
        other, first = other if columns else other[0], draws.requests
    again = Draws(SimulatedNoise(1), again=first)
    try:
        answer = item.mechanism.draw(other, again)
    except (Otherwise, Endless) as problem:
        if isinstance(step, PROCEDURES):  # whoever is certain has no coin
            return Paid(None, _branch(item, exact))
        return Paid(None, f"its draws follow the data: {problem}")
    if not _added(again.requests, ends) or len(again.requests) != len(first):
        return Paid(None, "how much noise is drawn, or what it is added to, follows the data")
    if not same(answer, noisy):
        trouble = "what it gives back is no function of noisy sums"
        return Paid(None, trouble, again.requests)
    return Paid(_share(item.mechanism, first, again.requests), "", again.requests)


def _branch(item: Item, exact: object) -> str:
    """Of noise made of words: whether the first of it is asked for alike; of cells, all of it.
    Coins beside noise that is added are not seen."""
    again = Draws(SimulatedNoise(1))
    item.mechanism.draw(exact, again)
    cells = _cells(item.mechanism)
    both = [draws if cells else _first(draws) for draws in (item.requests, again.requests) if draws]
    # how a coin is made may hang on private numbers, as long as it is not seen
    asked = {
        tuple((one.law, one.scale if one.law in ADDITIVE else 0) for one in draws) for draws in both
    }
    return "its draws follow the data: other noise is asked for" if len(asked) > 1 else ""


def _cells(mechanism: Mechanism[Any, Any]) -> bool:
    """Whether a threshold hides cells. The thresholds of a filter hide none, and the scale of its
    last noise follows its noisy count."""
    thresholds = any(isinstance(loss, Threshold) for loss in mechanism.losses)
    return thresholds and not isinstance(mechanism, FilteredMean)


def _first(draws: Sequence[Request]) -> Sequence[Request]:
    """What is asked for first: of noise that is added, if there is any."""
    return ([item for item in draws if item.law in ADDITIVE] or draws)[:1]


def _hidden(item: Item, exact: object) -> str:
    """Of counts of cells that only one of the two may have: such a cell has one person. Without
    one, the cells are the same, and so is what is given back with the same sums."""
    drawn, again = Draws(SimulatedNoise(1)), Draws(SimulatedNoise(1), again=item.requests)
    item.mechanism.draw(exact, drawn)
    both = (item.requests, drawn.requests)
    if len({tuple((one.law, one.scale) for one in requests) for requests in both}) > 1:
        return "its draws follow the data: other noise is asked for"
    if any(count < 2 for requests in both for one in requests for count in one.operands):
        return ""
    if same(item.mechanism.draw(exact, again), item.noisy):
        return ""
    return "what it gives back is no function of noisy sums"


def _added(requests: Sequence[Request], ends: bool) -> bool:
    """Whether every draw is a number that was added to one number, or a choice among scores."""
    laws = {item.law for item in requests}
    added = laws <= set(ADDITIVE) or laws == {"argmax"}
    return added and (ends or all(item.met for item in requests))


def _common(one: Mapping[Any, Any], two: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Both, as far as both have something."""
    keys = [key for key in one if one[key] and two.get(key)]
    return {key: one[key] for key in keys}, {key: two[key] for key in keys}


def _share(
    mechanism: Mechanism[Any, Any], first: Sequence[Request], second: Sequence[Request]
) -> Fraction | None:
    """The loss of all draws together, over that of all lines."""
    losses = mechanism.losses
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
        return None  # another law than that of the bill: `draws` says so
    return (cost / pure if cost else Fraction(0)) + (spread / square if spread else Fraction(0))


def _compared(draws: Sequence[tuple[Fraction, list[Any]]]) -> Fraction:
    """Of comparisons of noisy counts with a noisy limit, the sparse vector technique: a run is a
    limit and what is compared with it, of which nothing but the place of the first hit is seen.
    Counts that move in one direction alone cost once, others twice (Lyu, Su and Li 2017)."""
    runs: list[tuple[Fraction, Fraction, list[Any]]] = []
    single = all(len(moved) == 1 for _, moved in draws)
    for at, (scale, moved) in enumerate(draws):
        if single and at:
            limit, least, known = runs[0]
            runs[0] = limit, min(least, scale), known + moved
        elif single or len(moved) == 1:
            runs.append((scale, scale, []))
        elif runs and not runs[-1][2]:
            runs[-1] = runs[-1][0], scale, moved
        else:  # the limit comes with the counts
            runs.append((scale, scale, moved[1:]))
    total = Fraction(0)
    for limit, scale, moved in runs:
        size = Fraction(max(map(abs, moved), default=0))
        both = any(change > 0 for change in moved) and any(change < 0 for change in moved)
        total += size / limit + (2 if both else 1) * size / scale
    return total
