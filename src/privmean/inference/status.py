"""The statuses of releases and of their rows: one table of codes, messages and remedies.

A status is found from noisy numbers alone, so that it reveals nothing beyond them. Codes are
stable: they appear in JSON, frames and footnotes. What is particular to one release (numbers, names
of columns) goes into its advice. docs/statuses.md is made from this table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

OK = "ok"
OUTLIERS_CLIPPED = "outliers_clipped"
LOW_PRECISION = "low_precision"
OUTLIERS_UNCHECKED = "outliers_unchecked"
EXTREME_OUTLIERS = "extreme_outliers"
AT_BOUND = "at_bound"
MODIFIED_TARGET = "modified_target"
POINT_MASS = "point_mass"
ASSUMPTION_VIOLATED = "assumption_violated"
SUPPRESSED = "suppressed"
NOT_IDENTIFIED = "not_identified"
FAILED = "failed"


@dataclass(frozen=True)
class Status:
    """One row of the table.

    code: the stable name. label: the name in texts. message: what was found. remedy: what the
    analyst can do. has_estimate: whether an estimate is shown. interval: whether the interval
    holds, in words. unbounded: message and remedy where the question takes no bounds, if others. In
    these texts "{target}" stands for the quantity of the interval.
    """

    code: str
    label: str
    message: str
    remedy: str
    has_estimate: bool
    interval: str
    unbounded: str = ""

    def text(
        self, target: str = "a related quantity", advice: str = "", *, bounds: bool = True
    ) -> str:
        """Return message, remedy and advice as one text about an interval for this target.

        bounds: whether the question takes any.
        """
        words = f"{self.message} {self.remedy}"
        if self.unbounded and not bounds:
            words = self.unbounded
        return f"{words.replace('{target}', target)} {advice}".strip()


STATUSES = (
    Status(OK, "OK", "", "Read the assumptions.", True, "yes"),
    Status(
        OUTLIERS_CLIPPED,
        "outliers clipped",
        "Some values were clipped; the interval allows for them unless they lie far out.",
        "Give bounds if a few large values matter.",
        True,
        "yes, unless they lie far out",
        "Some values were clipped; the interval allows for them unless they lie far out. "
        "Take logarithms if a few large values matter.",
    ),
    Status(
        LOW_PRECISION,
        "low precision",
        "The interval is wide compared with the possible values.",
        "Merge groups or bins, or raise epsilon.",
        True,
        "wide or unmeasured",
    ),
    Status(
        OUTLIERS_UNCHECKED,
        "outliers not checked",
        "The noise is too large to detect outliers.",
        "Give bounds, raise epsilon or add people.",
        True,
        "if there are none",
        "The noise is too large to detect outliers. Raise epsilon or add people.",
    ),
    Status(
        EXTREME_OUTLIERS,
        "possible extreme outliers",
        "Some values may lie farther out than the interval allows.",
        "Give bounds that include them; exclude missing-value codes such as 9999.",
        True,
        "doubtful",
        "Some values may lie farther out than the interval allows. Exclude missing-value codes "
        "such as 9999, or take logarithms.",
    ),
    Status(
        AT_BOUND,
        "at a bound",
        "The estimate is at or near a bound.",
        "Check the units; give wider bounds.",
        True,
        "open on that side",
    ),
    Status(
        MODIFIED_TARGET,
        "different target",
        "The interval is for {target}, not for what you asked.",
        "Give bounds, take logarithms, or ask for {target}.",
        True,
        "for the named target",
        "The interval is for {target}, not for what you asked. Raise epsilon or take logarithms.",
    ),
    Status(
        POINT_MASS,
        "nearly constant",
        "Nearly all people share one value.",
        "Check how the column is read; code the rare outcome as 1.",
        True,
        "no",
    ),
    Status(
        ASSUMPTION_VIOLATED,
        "assumption violated",
        "The released numbers contradict an assumption you gave.",
        "Drop or widen the assumption.",
        True,
        "no",
    ),
    Status(
        SUPPRESSED,
        "suppressed",
        "Too few people support this row.",
        "Merge it with another, or raise epsilon.",
        False,
        "no",
    ),
    Status(
        NOT_IDENTIFIED,
        "not identified",
        "The noise hides this quantity.",
        "Remove collinear terms, give scales or bounds, or raise epsilon.",
        False,
        "no",
    ),
    Status(
        FAILED,
        "no estimate",
        "No estimate was found; the budget was charged.",
        "Read the advice before asking again.",
        False,
        "no",
    ),
)
_RANKS = {row.code: rank for rank, row in enumerate(STATUSES)}

# Names of privmean 0.2, in stored releases. "too few persons" is also that of rows without an
# estimate, see `read_status`.
OLD_STATUSES = {
    "tail seen": OUTLIERS_CLIPPED,
    "imprecise": LOW_PRECISION,
    "thin": LOW_PRECISION,
    "noisier than one person": LOW_PRECISION,
    "unbounded": LOW_PRECISION,
    "two rays": LOW_PRECISION,
    "tail unchecked": OUTLIERS_UNCHECKED,
    "too few persons": OUTLIERS_UNCHECKED,
    "fallback centre": OUTLIERS_UNCHECKED,
    "far values seen": EXTREME_OUTLIERS,
    "own tail": EXTREME_OUTLIERS,
    "at the limits": AT_BOUND,
    "tail too thick": MODIFIED_TARGET,
    "some terms are missing": MODIFIED_TARGET,
    "atom": POINT_MASS,
    "values missing": ASSUMPTION_VIOLATED,
    "assumption refuted": ASSUMPTION_VIOLATED,
    "not covered": ASSUMPTION_VIOLATED,
    "not shown": SUPPRESSED,
    "thin level": SUPPRESSED,
    "not told apart": NOT_IDENTIFIED,
    "singular": NOT_IDENTIFIED,
    "not resolved": NOT_IDENTIFIED,
    "scale not seen": NOT_IDENTIFIED,
    "no variation within persons": NOT_IDENTIFIED,
    "beyond the public range": NOT_IDENTIFIED,
    "some columns not seen": NOT_IDENTIFIED,
    "some columns failed": NOT_IDENTIFIED,
    "not answered": FAILED,
    "source changed": FAILED,
}


def find_status(code: str) -> Status:
    return STATUSES[_RANKS[code]]


def worst_status(codes: Iterable[str]) -> str:
    """Return the most severe of the codes; "ok" for none."""
    return max(codes, key=_RANKS.__getitem__, default=OK)


def release_status(codes: Iterable[str]) -> str:
    """Return the status of a release with rows of these codes: the most severe, "failed" where none
    has an estimate and only there."""
    found = tuple(codes)
    if found and not any(find_status(code).has_estimate for code in found):
        return FAILED
    worst = worst_status(found)
    return NOT_IDENTIFIED if worst == FAILED else worst


def read_status(text: str, has_estimate: bool = True) -> str:
    """Return the code of a stored status, which may be a name of 0.2 or several that are joined."""
    if text in _RANKS:
        return text
    codes = [OLD_STATUSES.get(name, name) for name in re.split(", | / ", text)]
    if text == "too few persons" and not has_estimate:
        return SUPPRESSED
    return worst_status(codes)
