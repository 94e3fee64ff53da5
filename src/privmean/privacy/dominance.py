"""Whether an accounting that was paid covers one that was run: line by line, each paid line used
once.

A line covers another of the same neighbors if every bound that is computed from it is at least as
large: the same numbers; a line known by its epsilon alone (randomized response, the worst pure
pair) over any pure line of at most that epsilon; Gaussian noise over Gaussian noise of at most its
strength and lattice corrections. docs/proofs/study.md, section 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent, Pure, Selection


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
    for line in sorted(rest, key=_price, reverse=True):
        fits = [item for item in left if dominates(item, line)]
        if not fits:
            return False
        left.remove(min(fits, key=_price))
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


def _price(line: PrivacyEvent) -> float:
    return line.rho
