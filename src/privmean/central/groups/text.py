"""A release by group as text: at most one line a group, then what the release rests on."""

from __future__ import annotations

import math
import textwrap

from privmean.intervals.contrasts import Contrast
from privmean.intervals.group_table import GroupTable
from privmean.intervals.interval import OK, UNSAFE
from privmean.privacy.guarantee import RELATION_WORDS
from privmean.released import Numbers
from privmean.rows import Row

WIDTH = 100
WIDEST = 40  # characters of a key that are shown


def text(
    release: Numbers,
    about: str,
    groups: GroupTable,
    contrasts: tuple[Contrast, ...],
) -> str:
    """The text of `print(release)`. about: the value, and by what."""
    lines = [] if release.secure else [f"*** {UNSAFE} ***"]
    lines.append(f"{about}: {release.estimand}")
    if release.failed or release.status != OK:
        word = "FAILED privately (the budget is spent)" if release.failed else release.status
        lines += _wrapped(f"{word}: {release.advice}")
    rows = release.rows()
    if release.status == OK or not all(math.isnan(row.estimate) for row in rows):
        lines += _table(release, rows, groups, contrasts)
    found = release.interval()
    if found.assumption:
        lines += _wrapped(f"accuracy (not privacy) assumes {found.assumption}")
    lines += [line for note in release.assumptions for line in _wrapped(note)]
    limits = release.diagnostics.get("pooled limits")
    if limits:
        low, high = limits
        own = release.diagnostics.get("groups with limits of their own", 0)
        more = f"; {own} groups have limits about their own centres" if own else ""
        lines += _wrapped(
            f"values limited to [{low:.6g}, {high:.6g}], found from all persons together, and "
            f"closer for small groups{more}"
        )
    promise = release.guarantee
    public = "who has records in which group" in promise.public
    said = "persons in a group (public)" if public else "persons with a value in a group (noisy)"
    lines += _wrapped(f"{said}: {release.persons}")
    lines += _wrapped(
        f"promise: {promise.describe()} for one {promise.unit} with all records in all groups, "
        f"{promise.relation}: {RELATION_WORDS[promise.relation]}"
    )
    split = ", ".join(f"{name} {share:.0%}" for name, share in release.shares.items())
    lines += _wrapped(f"budget split: {split}")
    lines += _wrapped(f"method: {release.estimator}; {release.plan.why}")
    if promise.note:
        lines += _wrapped(f"note: {promise.note}")
    return "\n".join(lines)


def _table(
    release: Numbers, rows: tuple[Row, ...], table: GroupTable, contrasts: tuple[Contrast, ...]
) -> list[str]:
    wide = min(max(len(_short(row.group)) for row in rows), WIDEST)
    percent = f"{100 * release.level:g} % interval"
    lines = [f"  {'':<{wide}}{'persons':>9}{'estimate':>12}   {percent}   (privacy noise alone)"]
    groups = len(release.columns)
    for place, row in enumerate(rows):
        if place == groups:
            together = "" if not table.related else ", for any dependence within persons"
            lines.append(f"  differences and ratios{together}:")
        persons = "" if math.isnan(row.persons) else f"{max(row.persons, 0.0):.0f}"
        start = f"  {_short(row.group):<{wide}}{persons:>9}"
        if math.isnan(row.estimate):
            lines.append(f"{start}   {row.status}")
            continue
        end = "" if row.status == OK else f"   {row.status}"
        digits = _digits(row)
        ends = f"[{_number(row.lower, digits)}, {_number(row.upper, digits)}]"
        noise = f"[{_number(row.noise_lower, digits)}, {_number(row.noise_upper, digits)}]"
        shown = f"{_number(row.estimate, digits):>11}"
        lines.append(f"{start} {shown}   {ends}   ({noise}){end}")
    if table.simultaneous:
        lines += _wrapped("intervals of groups hold together, and so do those of comparisons")
    elif groups > 1:
        lines += _wrapped(
            "each interval is for its own row; differences chosen after looking need "
            "simultaneous intervals: pairwise()"
        )
    if any(key in ("rest", "overall") for item in contrasts for key, _ in item.terms):
        lines += _wrapped(
            "rest and overall: by noisy persons, of groups that are not at the limits or too small"
        )
    return lines


def _short(key: str) -> str:
    plain = "".join(sign if sign.isprintable() else "?" for sign in key)
    return plain if len(plain) <= WIDEST else plain[: WIDEST - 1] + "~"


def _digits(row: Row) -> int:
    width = row.noise_upper - row.noise_lower
    if not math.isfinite(width) or width <= 0:
        return 6
    return max(0, min(12, 2 - math.floor(math.log10(width))))


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else str(value)


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
