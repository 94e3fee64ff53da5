"""Composition: the total loss of the mechanism calls of one plan, fixed before data are read.

Several valid upper bounds are computed and the smallest is taken:

* basic: pure epsilons add, Gaussian mu^2 add and are converted exactly, added deltas add;
* zCDP: rho adds and is converted (`gdp`);
* privacy loss distributions, rounded pessimistically (`loss_distribution`), where they can win; for
  verification by other means than for plans (`laplace_convolution`);
* one part known by its whole curve, with Gaussian parts: the law that dominates the curve.

The first two are closed forms. Each bound holds when later calls look at earlier noisy answers, as
long as the losses themselves are fixed beforehand; budgets chosen along the way are the ledger's
subject. Proof: docs/proofs/composition.md.

Losses on disjoint groups of people: the dearest group counts.

Whether an accounting that was paid covers one that was run: line by line, each paid line used
once.

A line covers another of the same neighbors if every bound that is computed from it is at least as
large: the same numbers; a line known by its epsilon alone (randomized response, the worst pure
pair) over any pure line of at most that epsilon; Gaussian noise over Gaussian noise of at most its
strength and lattice corrections. docs/proofs/study.md, section 1.

Which neighboring relations an accounting holds for, as far as its entries say.

From shares of a budget to noise scales: one scalar root.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

from privmean.bisection import bisect, bisect_ratio
from privmean.privacy.budget import (
    ADD_REMOVE,
    LARGEST_LOSS,
    Budget,
    Correction,
    Relation,
    exact_fraction,
    refused,
)
from privmean.privacy.gdp import (
    gaussian_delta,
    gaussian_mu,
    rho_delta,
)
from privmean.privacy.loss_distribution import grid_delta, grid_helps
from privmean.privacy.privacy_events import (
    Gaussian,
    Laplace,
    PrivacyEvent,
    PrivacyProfile,
    Pure,
    Selection,
)


def stated(losses: Iterable[PrivacyEvent], relation: Relation) -> tuple[PrivacyEvent, ...]:
    """The losses, those that name no relation now for this one: whoever calls has counted so."""
    found = []
    for loss in losses:
        changes: dict[str, Any] = {"neighbors": loss.neighbors or relation}
        for name in ("branches", "parts"):
            if hasattr(loss, name):
                changes[name] = tuple(stated(group, relation) for group in getattr(loss, name))
        found.append(replace(loss, **changes))
    return tuple(found)


def groups_of(loss: PrivacyEvent) -> tuple[tuple[PrivacyEvent, ...], ...]:
    """The calls on each disjoint part of the people, of an entry that has such parts."""
    return (*getattr(loss, "branches", ()), *getattr(loss, "parts", ()))


def every(losses: Iterable[PrivacyEvent]) -> Iterator[PrivacyEvent]:
    """The entries, each followed by those of its parts."""
    for loss in losses:
        yield loss
        for group in groups_of(loss):
            yield from every(group)


def unstated(losses: Iterable[PrivacyEvent]) -> list[str]:
    """The names of entries (of entries of parts, too) that state no relation."""
    return [loss.name for loss in every(losses) if loss.neighbors is None]


def holds_under(losses: Iterable[PrivacyEvent], relation: str) -> bool:
    """Whether no entry speaks of another relation.

    Entries that state a relation must state this one (`unstated` finds the others). Disjoint parts
    of the people need a roster that neighbors share, so they are never part of an add-remove
    accounting.
    """
    return all(
        loss.neighbors in (None, relation) and not (groups_of(loss) and relation == ADD_REMOVE)
        for loss in every(losses)
    )


# Sums of a few doubles are compared to twelve digits: that much is the form the numbers are stored
# in, not privacy. Pure epsilons are exact and get no such room.
DIGITS = 1e-12


def pure_epsilon(losses: Sequence[PrivacyEvent]) -> Fraction | None:
    """The exact sum of epsilons if every loss is pure, else None."""
    if any(loss.mu or loss.added_delta or loss.lattice.epsilon for loss in losses):
        return None
    return _total_pure(losses)


def _total_pure(losses: Sequence[PrivacyEvent]) -> Fraction:
    """The exact sum of epsilons; most bills have many parts without one."""
    return sum(filter(None, (loss.pure for loss in losses)), Fraction(0))


def total_rho(losses: Sequence[PrivacyEvent]) -> float:
    """zCDP of the composition; infinite if some part has a delta of its own.

    Discrete Gaussian noise is mu^2/2-zCDP on any lattice, so no lattice correction is needed.
    """
    if any(loss.added_delta for loss in losses):
        return math.inf
    return math.fsum(loss.rho for loss in losses)


def total_delta(
    losses: Sequence[PrivacyEvent],
    epsilon: float,
    *,
    grid: bool = True,
    zcdp: bool = True,
    again: bool = False,
) -> float:
    """An upper bound on delta at `epsilon`; tight where a closed form or a grid is.

    grid, zcdp: whether these bounds are tried, which take longer than the basic one. again: with
    the grid of verification instead of that of plans.
    """
    added_delta, tail, added_epsilon, factor = _corrections(losses)
    bounds = [1.0]
    if zcdp:
        bounds.append(rho_delta(math.fsum(loss.rho for loss in losses), epsilon))
    # pure parts may use an epsilon as it is written, which its double can fall short of
    left = max(Fraction(epsilon), exact_fraction(epsilon)) - Fraction(added_epsilon)
    if left > 0:
        pure = _total_pure(losses)
        if pure <= left:
            bounds.append(gaussian_delta(_total_mu(losses), _down(left - pure)) * factor + tail)
        if grid and min(bounds) > 0 and grid_helps(losses) and _one_curve(losses) is None:
            if again:
                from privmean.privacy.laplace_convolution import recomputed_delta as composed
            else:
                composed = grid_delta
            bounds.append(composed(losses, _down(left)) * factor + tail)
    return min(1.0, added_delta + min(bounds), _curve_delta(losses, epsilon))


def total_epsilon(losses: Sequence[PrivacyEvent], delta: float, *, grid: bool = True) -> float:
    """The least epsilon at which `total_delta` is at most `delta`, rounded up; infinite if none
    is."""

    def over(epsilon: float) -> bool:
        return total_delta(losses, epsilon, grid=grid) > delta * (1 + DIGITS)

    low, high = 0.0, 1.0
    while over(high):
        if high > LARGEST_LOSS * len(losses):
            return math.inf
        low, high = high, 2 * high
    return bisect(over, low, high)[1]


def _one_curve(losses: Sequence[PrivacyEvent]) -> PrivacyProfile | None:
    """The curve of an accounting that has exactly one, and Gaussian parts besides."""
    found = [loss for loss in losses if isinstance(loss, PrivacyProfile)]
    others = any(loss.pure for loss in losses if not isinstance(loss, PrivacyProfile))
    return found[0] if len(found) == 1 and not others and len(losses) > 1 else None


def _curve_delta(losses: Sequence[PrivacyEvent], epsilon: float) -> float:
    """delta of one curve and Gaussian mechanisms, by the law that dominates the curve."""
    curve = _one_curve(losses)
    if curve is None:
        return 1.0
    others = [loss for loss in losses if loss is not curve]
    added_delta, tail, added_epsilon, factor = _corrections(others)
    if epsilon <= added_epsilon:
        return 1.0
    left = (epsilon - added_epsilon) * (1 - 1e-15)
    return added_delta + tail + curve.profile().with_gaussian(_total_mu(others), left) * factor


def _corrections(losses: Sequence[PrivacyEvent]) -> tuple[float, float, float, float]:
    """(deltas that add in any case; lattice: delta that adds, epsilon that adds, factor)."""
    lattices = [loss.lattice for loss in losses]
    return (
        math.fsum(loss.added_delta for loss in losses),
        math.fsum(item.tail for item in lattices),
        math.fsum(item.epsilon for item in lattices) * (1 + 1e-15),
        math.prod(item.factor for item in lattices) * (1 + 1e-15 * len(losses)),
    )


def _total_mu(losses: Sequence[PrivacyEvent]) -> float:
    return math.sqrt(math.fsum(loss.mu**2 for loss in losses)) * (1 + 1e-15)


def _down(value: Fraction) -> float:
    """The largest double at most `value`."""
    result = float(value)
    return math.nextafter(result, -math.inf) if Fraction(result) > value else result


@dataclass(frozen=True)
class Parallel(PrivacyEvent, kind="parallel"):
    """Mechanism calls on disjoint groups of people, the groups fixed by public facts.

    A neighbor changes one group only, so the whole costs no more than each component (pure, mu,
    added delta, ...) at its largest over `branches`; the calls of one branch compose as usual.
    Replace-one only: under add-remove the groups of later people may move.
    """

    branches: tuple[tuple[PrivacyEvent, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.branches or not all(self.branches):
            raise refused("branches", self.branches, "must hold a mechanism call each")
        if self.neighbors == ADD_REMOVE:
            raise refused("neighbors", self.neighbors, "has no fixed groups of people")

    @property
    def pure(self) -> Fraction:
        return max(sum((x.pure for x in branch), Fraction(0)) for branch in self.branches)

    @property
    def mu(self) -> float:
        return max(math.sqrt(math.fsum(x.mu**2 for x in branch)) for branch in self.branches)

    @property
    def rho(self) -> float:
        return max(math.fsum(x.rho for x in branch) for branch in self.branches)

    @property
    def added_delta(self) -> float:
        return max(math.fsum(x.added_delta for x in branch) for branch in self.branches)

    @property
    def lattice(self) -> Correction:
        branches = [[x.lattice for x in branch] for branch in self.branches]
        return Correction(
            max(math.fsum(x.epsilon for x in branch) for branch in branches),
            max(math.prod(x.factor for x in branch) for branch in branches),
            max(math.fsum(x.tail for x in branch) for branch in branches),
        )

    @property
    def drawn(self) -> float:
        return max(x.drawn for branch in self.branches for x in branch)

    def counted(self) -> str:
        return f"one of {len(self.branches)} groups of people"


def all_dominated(run: Sequence[PrivacyEvent], paid: Sequence[PrivacyEvent]) -> bool:
    """Whether every line that was run has a paid line of its own that covers it."""
    left = list(paid)
    rest = []
    for line in run:  # equal lines first: they serve nobody better
        same = next((item for item in left if _bare(item) == _bare(line)), None)
        if same is None:
            rest.append(line)
        else:
            left.remove(same)
    for line in sorted(rest, key=attrgetter("rho"), reverse=True):
        fits = [item for item in left if dominates(item, line)]
        if not fits:
            return False
        left.remove(min(fits, key=attrgetter("rho")))
    return True


def unpaid_events(
    run: Sequence[PrivacyEvent], paid: Sequence[PrivacyEvent]
) -> list[PrivacyEvent] | None:
    """The lines that were run besides those that were paid, each of which is taken out once, by an
    equal one; None where one of them was not run."""
    left = list(run)
    for line in paid:
        same = next((item for item in left if _bare(item) == _bare(line)), None)
        if same is None:
            return None
        left.remove(same)
    return left


def dominates(paid: PrivacyEvent, run: PrivacyEvent) -> bool:
    """Whether one paid line is enough for one that was run."""
    if paid.neighbors != run.neighbors:
        return False
    if _bare(paid) == _bare(run):
        return True
    if isinstance(paid, Gaussian) and isinstance(run, Gaussian):
        ours = zip(run.lattice, paid.lattice, strict=True)
        return run.mu <= paid.mu and all(less <= more for less, more in ours)
    worst = isinstance(paid, Pure) or (isinstance(paid, Laplace) and paid.joint)
    pure = isinstance(run, Pure | Laplace | Selection)
    return worst and pure and run.pure <= paid.pure


def _bare(line: PrivacyEvent) -> PrivacyEvent:
    return replace(line, name="", sensitivity_text="")


GRID_TOLERANCE = 1e-6  # finer than the grid itself
CURVES = "privacy loss distributions"
CLOSE = 2e-10  # of two strengths that the answers of all others follow from
MOST_SECANTS, USUAL_SLOPE = 10, 20.0  # of log delta by log strength, before it is known


def within(
    losses: Sequence[PrivacyEvent], budget: Budget, *, grid: bool = True, again: bool = True
) -> bool:
    """Whether the composed loss is at most the budget.

    Pure epsilons are compared exactly, deltas and rho to twelve digits. grid: whether privacy loss
    distributions are tried; again: those of verification too.
    """
    if budget.rho is not None:
        return total_rho(losses) <= budget.rho * (1 + DIGITS)
    assert budget.epsilon is not None
    pure = pure_epsilon(losses)
    if pure is not None and pure <= budget.largest_pure_epsilon():
        return True
    if budget.delta <= 0:
        return False
    return delta_within(losses, budget.epsilon, budget.delta, grid=grid, again=again) is not None


def delta_within(
    losses: Sequence[PrivacyEvent],
    epsilon: float,
    delta: float,
    *,
    grid: bool = True,
    again: bool = True,
) -> tuple[float, str] | None:
    """A bound on the composed delta that is at most `delta`, and its rule; None if there is none.

    The bounds are tried from the fastest to the slowest.
    """
    rules: list[tuple[str, dict[str, bool]]] = [
        ("basic composition", {"zcdp": False, "grid": False}),
        ("sums of rho", {"grid": False}),
    ]
    if grid and again:
        rules.append((CURVES, {"again": True}))
    if grid:
        rules.append((CURVES, {}))
    for rule, means in rules:
        found = total_delta(losses, epsilon, **means)
        if found <= delta * (1 + DIGITS):
            return found, rule
    return None


def calibrate(
    bill: Callable[[float], Sequence[PrivacyEvent]],
    budget: Budget,
    *,
    largest: float = 1e9,
    smallest: float = 1e-9,
    tolerance: float = 1e-9,
    grid: bool = True,
) -> float:
    """The largest strength t (relative precision `tolerance`) whose accounting(t) is within the
    budget.

    `bill` maps a strength (larger means less noise, more loss) to the losses of all mechanisms;
    its loss must grow with t. Returns 0 when even `smallest` is over the budget. The closed forms
    are searched first; a grid of privacy losses then refines the answer (to 1e-6 at best).
    """

    def fits(strength: float, *, with_grid: bool) -> bool:
        return within(bill(strength), budget, grid=with_grid, again=False)

    low = 0.0
    if fits(smallest, with_grid=False):
        known = _bracketed(lambda t: fits(t, with_grid=False), bill, budget, smallest, largest)
        low = _root(known, smallest, largest, 4.0, tolerance)
    if not grid or low >= largest or budget.delta <= 0:
        return low
    start = low or smallest
    if not grid_helps(bill(start)) or not fits(start, with_grid=True):
        return low
    return _root(
        lambda t: fits(t, with_grid=True), start, largest, 1.1, max(tolerance, GRID_TOLERANCE)
    )


def _bracketed(
    fits: Callable[[float], bool],
    bill: Callable[[float], Sequence[PrivacyEvent]],
    budget: Budget,
    smallest: float,
    largest: float,
) -> Callable[[float], bool]:
    """`fits`, asked only where the answer does not follow from two strengths very close together:
    the one fits, the other does not. Without such a pair it is `fits` itself.

    A search that halves asks forty times; the pair is found from the loss in about six. What the
    search finds is the same, to the last bit, as the loss grows with the strength.
    """
    guess = _crossing(bill, budget, smallest, largest)
    if guess is None:
        return fits
    inside, beyond = guess * (1 - CLOSE), guess * (1 + CLOSE)
    if not (fits(inside) and not fits(beyond)):
        return fits
    return lambda t: t <= inside or (t < beyond and fits(t))


def _crossing(
    bill: Callable[[float], Sequence[PrivacyEvent]], budget: Budget, smallest: float, largest: float
) -> float | None:
    """About where the loss passes the budget: the strength at which a Gaussian of the same rho
    would, then secants of the logarithm of the loss. None where these lead nowhere."""
    if budget.rho is None and budget.delta <= 0:
        return None

    def excess(t: float) -> float:
        losses = bill(t)
        if budget.rho is not None:
            return _log(total_rho(losses) / budget.rho)
        assert budget.epsilon is not None
        return _log(total_delta(losses, budget.epsilon, grid=False) / budget.delta)

    rho = total_rho(bill(1.0))
    if not 0 < rho < math.inf:
        return None
    wanted = budget.rho or gaussian_mu(budget.epsilon or 0.0, budget.delta) ** 2 / 2
    t, before, over = math.sqrt(wanted / rho), 0.0, 0.0
    for turn in range(MOST_SECANTS):
        if not smallest < t < largest:
            return None
        here = excess(t)
        if not math.isfinite(here):
            return None
        slope = (here - over) / math.log(t / before) if turn and t != before else USUAL_SLOPE
        if slope <= 0:
            return None
        before, over = t, here
        t *= math.exp(min(max(-here / slope, -1.0), 1.0))
        if abs(t / before - 1) < CLOSE / 4:
            return t
    return None


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _root(
    fits: Callable[[float], bool], low: float, largest: float, stride: float, tolerance: float
) -> float:
    """The largest t in [low, largest] that fits, to a relative tolerance; `low` must fit."""
    high = low
    while True:
        if high >= largest:
            return largest
        high = min(high * stride, largest)
        if not fits(high):
            break
        low, stride = high, stride * stride
    return bisect_ratio(fits, low, high, 1 + tolerance)[0]
