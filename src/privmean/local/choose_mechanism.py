"""Which mechanism a round uses: least variance first, then the shorter report.

The variance is exact, for the round's levels, domain and public spread; proofs of the laws are in
docs/proofs/local-scalar.md, local-ball.md and local-items.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_round import law_of
from privmean.local.reports import report_size
from privmean.local.round import Round

TOLERANCE = 0.05  # variances so near to the least count as equal, and the shorter report wins
LARGEST_REPORT = 4096  # bytes that a default may cost; name a mechanism for longer ones
LOOKED_AT = 32  # levels of a ladder


@dataclass(frozen=True)
class Candidate:
    """One mechanism for a question.

    variance: of the estimate times the number of people, at worst over the data (items: of one
    share where all are equal), in units of the values. bytes: of a report.
    """

    mechanism: str
    variance: float
    bytes: int


@dataclass(frozen=True)
class Choice:
    """The mechanism, why, and what else there was."""

    mechanism: str
    reason: str
    candidates: tuple[Candidate, ...]


def level_shares(round_: Round, mix: Sequence[float] | None) -> tuple[list[int], Floats]:
    """Levels and the part of the people expected at each (public): equal unless said."""
    number = len(round_.menu)
    if mix is not None:
        parts = np.array(
            [validate.nonnegative("mix", item) for item in validate.listed("mix", mix)]
        )
        if len(parts) != number or not parts.sum() > 0:
            raise ArgumentError("mix", len(parts), "must match the menu", "give one part per level")
        return list(range(number)), parts / parts.sum()
    levels = np.unique(np.linspace(0, number - 1, min(number, LOOKED_AT)).astype(int)).tolist()
    return levels, np.full(len(levels), 1 / len(levels))


def variance_of(round_: Round, mix: Sequence[float] | None = None) -> float:
    """The variance of the round's estimate times the number of persons: see `Candidate`.

    mix: the part of the people at each level of the menu (equal parts by default).
    """
    levels, parts = level_shares(round_, mix)
    law = law_of(round_, levels)
    one = law.scale**2 * expected(parts, law.trusted, law.planned())
    return float(one.mean()) * round_.sites


def expected(parts: Floats, trusted: Floats, variances: Floats) -> Floats:
    """The variance of each site's estimate times the number of reports; weights by what is trusted.

    parts: of the reports at each level. trusted, variances of a report: (levels, sites).
    """
    return parts @ (variances / trusted**2) / (parts @ (1 / trusted)) ** 2


def choose(
    make: Callable[[str], Round], mechanisms: Sequence[str], *, mix: Sequence[float] | None = None
) -> tuple[Round, Choice]:
    """The round of the best mechanism, and why.

    make: the round by a mechanism's name. Of the mechanisms whose reports have at most
    LARGEST_REPORT bytes those within TOLERANCE of the least variance are equal; the shortest report
    decides, then the variance.
    """
    rounds = {name: make(name) for name in mechanisms}
    every = tuple(
        Candidate(name, variance_of(round_, mix), report_size(round_))
        for name, round_ in rounds.items()
    )
    possible = [item for item in every if item.bytes <= LARGEST_REPORT]
    if not possible:
        possible = [min(every, key=lambda item: item.bytes)]
    least = min(possible, key=lambda item: item.variance)
    near = [item for item in possible if item.variance <= (1 + TOLERANCE) * least.variance]
    best = min(near, key=lambda item: (item.bytes, item.variance))
    reason = _reason(best, least, every)
    return rounds[best.mechanism], Choice(best.mechanism, reason, every)


def _reason(best: Candidate, least: Candidate, every: tuple[Candidate, ...]) -> str:
    if len(every) == 1:
        return f"{best.mechanism}: nothing else fits the question"
    words = [f"{best.mechanism}: {best.bytes} bytes a report"]
    if best is least:
        others = [item for item in every if item is not best]
        next_ = min(others, key=lambda item: item.variance, default=best)
        words.append(
            f"least variance, {best.variance:.4g}/n ({next_.mechanism}: "
            f"{next_.variance / best.variance:.3g} times)"
        )
    else:
        words.append(
            f"variance {best.variance:.4g}/n, within {100 * TOLERANCE:g} % of "
            f"{least.mechanism}'s with {least.bytes} bytes"
        )
    for item in every:
        better = item.variance < best.variance / (1 + TOLERANCE)
        if better and item.bytes > LARGEST_REPORT:
            words.append(
                f"{item.mechanism} would have {item.variance / best.variance:.3g} times the "
                f"variance, but {item.bytes} bytes a report (a default has at most "
                f"{LARGEST_REPORT})"
            )
    return "; ".join(words)
