"""The table of statuses: what one row of a release says about its estimate and interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """One status: its stable code, and what people read about it."""

    code: str
    label: str
    estimate: str  # is the estimate shown
    interval: str  # does the interval hold
    message: str
    remedy: str


# in order of severity, worst last
STATUSES: tuple[Status, ...] = (
    Status("ok", "OK", "yes", "yes", "", "Read the assumptions."),
    Status(
        "outliers_clipped",
        "outliers clipped",
        "yes",
        "yes, wider",
        "Some values were clipped; the interval allows for them.",
        "Give bounds if a few large values matter.",
    ),
    Status(
        "low_precision",
        "low precision",
        "yes",
        "wide or unmeasured",
        "The interval is wide compared with the possible values.",
        "Merge groups or bins, or raise epsilon.",
    ),
    Status(
        "outliers_unchecked",
        "outliers not checked",
        "yes",
        "if there are none",
        "The noise is too large to detect outliers.",
        "Give bounds, raise epsilon or add people.",
    ),
    Status(
        "extreme_outliers",
        "possible extreme outliers",
        "yes",
        "doubtful",
        "Some values may lie farther out than the interval allows.",
        "Give bounds that include them; exclude missing-value codes such as 9999.",
    ),
    Status(
        "at_bound",
        "at a bound",
        "yes (quantile: no)",
        "open on that side",
        "The estimate is at or near a bound.",
        "Check the units; give wider bounds.",
    ),
    Status(
        "modified_target",
        "different target",
        "yes",
        "for the named target",
        "The interval is for {target}, not for what you asked.",
        "Give bounds, take logarithms, or ask for {target}.",
    ),
    Status(
        "point_mass",
        "nearly constant",
        "the shared value (by group: no)",
        "no",
        "Nearly all people share one value.",
        "Check how the column is read; code the rare outcome as 1.",
    ),
    Status(
        "assumption_violated",
        "assumption violated",
        "yes",
        "no",
        "The released numbers contradict an assumption you gave.",
        "Drop or widen the assumption.",
    ),
    Status(
        "suppressed",
        "suppressed",
        "no",
        "no",
        "Too few people support this row.",
        "Merge it with another, or raise epsilon.",
    ),
    Status(
        "not_identified",
        "not identified",
        "no",
        "no",
        "The noise hides this quantity.",
        "Remove collinear terms, give scales or bounds, or raise epsilon.",
    ),
    Status(
        "failed",
        "no estimate",
        "no",
        "no",
        "No estimate was found; the budget was charged.",
        "Read the advice before asking again.",
    ),
)

CODES = tuple(item.code for item in STATUSES)

# what releases of 0.2 say, by the code that stands for it
NAMES_OF_0_2 = {
    "ok": "ok",
    "tail seen": "outliers_clipped",
    "imprecise": "low_precision",
    "thin": "low_precision",
    "tail unchecked": "outliers_unchecked",
    "far values seen": "extreme_outliers",
    "own tail": "extreme_outliers",
    "at the limits": "at_bound",
    "tail too thick": "modified_target",
    "some terms are missing": "modified_target",
    "atom": "point_mass",
    "values missing": "assumption_violated",
    "assumption refuted": "assumption_violated",
    "not covered": "assumption_violated",
    "too few persons": "suppressed",
    "not shown": "suppressed",
    "thin level": "suppressed",
    "not told apart": "not_identified",
    "singular": "not_identified",
    "not resolved": "not_identified",
    "scale not seen": "not_identified",
    "no variation within persons": "not_identified",
    "beyond the public range": "not_identified",
    "failed": "failed",
    "not answered": "failed",
    "source changed": "failed",
}


def status_of(code: str) -> Status:
    """Return the entry of a code."""
    return STATUSES[CODES.index(code)]


def worst_status(codes: Iterable[str]) -> str:
    """Return the most severe of some codes: `failed` only if no row has an estimate."""
    found = set(codes)
    below = found - {"failed"}
    return max(below or found or {"ok"}, key=CODES.index)
