"""A release as text: six lines for one number, a table for several, and the whole in `details`."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from privmean.inference.outlier_check import undetected_short
from privmean.inference.status import OK, find_status
from privmean.plurals import count_noun
from privmean.privacy.guarantee import RELATION_WORDS
from privmean.privacy.guarantee_text import risk_sentence
from privmean.release.result_numbers import ResultNumbers
from privmean.release.result_rows import Row

WIDTH = 100
MOST = 3  # columns whose limits and own assumptions are spelled out
PLACE = 12  # where the words of a line begin
MORE = "all of it: release.details()"
NONE = "none: FAILED privately (the budget is spent)"
WIDEST = 40  # characters of a key that are shown
RULE = "Each person counts in "  # how the rule of a release by group begins
MEMBERSHIP = "who has records in which group"  # among what a promise treats as public


def summary(release: ResultNumbers, warning: str) -> str:
    """The text of `print(release)`."""
    rows = release.rows()
    lines = [] if release.secure else [f"*** {warning} ***"]
    if len(rows) == 1 and not rows[0].group and not release.tabled:
        lines += _one_number(release, rows[0])
    else:
        lines += _head(release.title(), release)
        lines += [part for note in _rule(release) for part in _wrapped(f"  {note}")]
        if release.failed and all(math.isnan(row.estimate) for row in rows):
            lines += _line("estimate", NONE)
        else:
            lines += table(rows, release.level, release.columns)
            lines += _wrapped(
                f"  intervals for the {release.interval().target}{release.together()}"
            )
    lines += [part for line in release.footer() for part in _wrapped(f"  {line}")]
    promise = release.guarantee
    lines += _line(
        "promise",
        f"{promise.describe()} for one {promise.unit} with all records, {promise.relation}: "
        f"{risk_sentence(promise)}",
    )
    if not release.failed:
        lines += _line("rests on", assumption_text(release))
    return "\n".join([*lines, *_status(release)])


def _one_number(release: ResultNumbers, row: Row) -> list[str]:
    head = _head(f"{row.term}: {release.title()}", release)
    if release.failed:
        return [*head, *_line("estimate", NONE)]
    interval = release.alone(0)
    wide = math.isfinite(row.upper - row.lower)
    form = _digits(row.lower, row.upper) if wide else _digits(row.noise_lower, row.noise_upper)
    said = "" if interval.target == "mean" else f" for the {interval.target}"
    number = (
        f"{row.estimate:.{form}f}   {percent(release.level)} interval{said} "
        f"{_ends(row.lower, row.upper, form)}"
    )
    noise = f"(privacy noise alone: {_ends(row.noise_lower, row.noise_upper, form)})"
    line = f"{'  estimate':<{PLACE}}{number}"
    if len(line) + 3 + len(noise) > WIDTH:
        return [*head, line, f"{'':<{PLACE}}{noise}"]
    return [*head, f"{line}   {noise}"]


def _ends(low: float, high: float, digits: int) -> str:
    if not (math.isfinite(low) or math.isfinite(high)):
        return "unknown"
    if not math.isfinite(low):
        return f"open below, at most {high:.{digits}f}"
    if not math.isfinite(high):
        return f"open above, at least {low:.{digits}f}"
    return f"{low:.{digits}f} to {high:.{digits}f}"


def table(rows: Sequence[Row], level: float, columns: Sequence[str]) -> list[str]:
    """The rows of a release with these columns as lines: estimate, standard error, one interval a
    row for itself, status; groups with their persons and both intervals."""
    if any(row.group for row in rows):
        return _groups(rows, level, columns)
    wide = max([4, *(len(row.term) for row in rows)])
    heads = ("estimate", "std err", f"{percent(level)} from", "to")
    sizes = [max(13, len(item) + 2) for item in heads]
    has_counts = (
        any(math.isfinite(row.persons) for row in rows) and len({r.persons for r in rows}) > 1
    )
    lines = [
        "  "
        + f"{'':<{wide}}"
        + "".join(f"{item:>{size}}" for item, size in zip(heads, sizes, strict=True))
        + (f"{'persons':>10}" if has_counts else "")
    ]
    for row in rows:
        cells = (row.estimate, row.std_error, row.lower, row.upper)
        line = f"  {row.term:<{wide}}" + "".join(
            f"{_cell(item):>{size}}" for item, size in zip(cells, sizes, strict=True)
        )
        if has_counts:
            line += f"{'' if math.isnan(row.persons) else format(max(row.persons, 0.0), '.0f'):>10}"
        lines.append(line + ("" if row.status == OK else f"   {row.status}"))
    return lines


def _groups(rows: Sequence[Row], level: float, columns: Sequence[str]) -> list[str]:
    """A line a group, and below them one a comparison; of several values a table each."""
    terms = list(dict.fromkeys(row.term for row in rows))
    heads = terms if len(terms) > 1 else [""]
    wide = min(max(len(_key(item)) for item in (*heads, *(row.group for row in rows))), WIDEST)
    lines, compared, own = [], False, set(columns)
    for place, row in enumerate(rows):
        if place == 0 or row.term != rows[place - 1].term:
            head = _key(row.term) if len(terms) > 1 else ""
            lines.append(
                f"  {head:<{wide}}{'persons':>9}{'estimate':>12}   {percent(level)} interval   "
                "(privacy noise alone)"
            )
            compared = False
        if not (compared or {row.group, f"{row.term}: {row.group}"} & own):
            lines.append("  differences and ratios:")
            compared = True
        persons = "" if math.isnan(row.persons) else f"{max(row.persons, 0.0):.0f}"
        line = f"  {_key(row.group):<{wide}}{persons:>9}"
        if math.isnan(row.estimate):
            lines.append(f"{line}   {row.status}")
            continue
        form = _digits(row.noise_lower, row.noise_upper)
        ends = f"[{row.lower:.{form}f}, {row.upper:.{form}f}]"
        noise = f"([{row.noise_lower:.{form}f}, {row.noise_upper:.{form}f}])"
        line += f" {row.estimate:>11.{form}f}   {ends}   {noise}"
        lines.append(line + ("" if row.status == OK else f"   {row.status}"))
    return lines


def _key(text: str) -> str:
    """A key of a group, which may be any text, as a cell."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return plain if len(plain) <= WIDEST else plain[: WIDEST - 1] + "~"


def _cell(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.5g}"


def _head(title: str, release: ResultNumbers) -> list[str]:
    """What is estimated, and of how many persons."""
    if release.persons is None:
        return _wrapped(title)
    persons = f"({count_noun(release.persons, release.guarantee.unit)}, {n_source(release)})"
    if len(title) + 3 + len(persons) > WIDTH:
        return [*_wrapped(title), f"{'':<{PLACE}}{persons}"]
    return [f"{title}   {persons}"]


def n_source(release: ResultNumbers) -> str:
    """Whether its number of persons is public: that of a roster is, not that of private groups."""
    promise = release.guarantee
    grouped = _grouped(release)
    public = promise.relation == "replace-one" and (not grouped or MEMBERSHIP in promise.public)
    return "public" if public else "noisy"


def assumption_text(release: ResultNumbers) -> str:
    """What accuracy rests on (never privacy), in a few words."""
    interval = release.interval()
    words = interval.brief or assumptions(_assumed(release))
    few = undetected_short(interval.assumption)
    if few and few not in words:
        words = f"{few}; {words}"
    return words or "nothing but the noise"


def _rule(release: ResultNumbers) -> tuple[str, ...]:
    """In how many groups a person counts; of means by group alone."""
    return tuple(note for note in release.assumptions if note.startswith(RULE))[:1]


def _assumed(release: ResultNumbers) -> tuple[str, ...]:
    """What accuracy rests on in full; what else is said of groups are rules of their rows."""
    found = release.interval().assumption
    return (found,) if _grouped(release) else (found, *release.assumptions)


def _grouped(release: ResultNumbers) -> bool:
    return any(row.group for row in release.rows())


def stated_status(release: ResultNumbers) -> tuple[str, str]:
    """The status of a release, or of its interval, with the advice on it."""
    if release.status != OK:
        return release.status, release.advice
    interval = release.interval()
    return interval.status, interval.advice


def status_text(release: ResultNumbers) -> str:
    """The same with what the table of statuses says."""
    status, advice = stated_status(release)
    return f"{status}: {find_status(status).text(release.interval().target, advice)}"


def _status(release: ResultNumbers) -> list[str]:
    if stated_status(release)[0] == OK:
        return _line("status", f"ok   (method: {release.estimator}; {MORE})")
    return _line("status", status_text(release))


def details(release: ResultNumbers, warning: str) -> str:
    """The release in full, in the order of reading."""
    interval, promise = release.interval(), release.guarantee
    lines = [summary(release, warning), ""]
    lines += _line("interval", f"for the {interval.target}")
    assumed = assumptions(_assumed(release))
    if assumed:
        lines += _line("accuracy", f"(not privacy) assumes: {assumed}")
    if _grouped(release) and release.assumptions:
        lines += _line("rows", "; ".join(release.assumptions))
    limits = list(dict.fromkeys(f"[{a:.6g}, {b:.6g}]" for a, b in interval.region))
    if len(limits) > MOST:
        low, high = min(a for a, _ in interval.region), max(b for _, b in interval.region)
        limits = [f"intervals of their own within [{low:.6g}, {high:.6g}]"]
    if limits:
        lines += _line("limits", f"values limited to {', '.join(limits)}")
    joint = release.jointly()
    if joint is not None and len(release.columns) > 1:
        lines.append(f"  together  all lines within these ends at once, {percent(interval.level)}:")
        for name, low, high in zip(release.columns, joint.lower, joint.upper, strict=True):
            if not math.isnan(low):
                lines.append(f"{'':<{PLACE}}{_key(name)}: {low:.6g} to {high:.6g}")
    lines += _line("against", RELATION_WORDS[promise.relation])
    if promise.public:
        lines += _line("public", "; ".join(promise.public))
    if release.shares:
        split = ", ".join(f"{name} {share:.0%}" for name, share in release.shares.items())
        lines += _line("split", f"of the budget: {split}")
    lines += _line("method", f"{release.estimator}; {release.plan.why}")
    lines.append(f"  bill      {count_noun(len(promise.mechanisms), 'mechanism call')}:")
    for loss in promise.mechanisms:
        cost = ", ".join(f"{name} {value:.4g}" for name, value in loss.summary().items())
        lines.append(f"{'':<{PLACE}}{loss.name} ({loss.kind}): {cost}")
    if promise.note:
        lines += _line("note", promise.note)
    return "\n".join(lines)


def one_line(release: ResultNumbers) -> str:
    """The text of `repr(release)`."""
    shown = []
    for row in release.rows()[:MOST]:
        name = f"{row.group} {row.term}".strip()
        if math.isfinite(row.estimate):
            form = _digits(row.lower, row.upper)
            ends = f" [{row.lower:.{form}f}, {row.upper:.{form}f}]"
            shown.append(f"{name}={row.estimate:.{form}f}{ends}")
        else:
            shown.append(f"{name}: {row.status}")
    left = len(release.rows()) - len(shown)
    more = [f"{left} more"] if left else []
    said = [] if release.secure else ["SIMULATED"]
    status = stated_status(release)[0]
    parts = [*shown, *more, release.guarantee.describe(), release.estimator, status, *said]
    return f"{type(release).__name__}({', '.join(parts)})"


def assumptions(texts: Iterable[str]) -> str:
    """Assumptions in one line, each said once. Those of single columns (parted by "|") are told
    for a few columns only."""
    said: list[str] = []
    for text in texts:
        columns = [item.strip() for item in text.split(" | ")]
        for column in columns if len(columns) <= MOST else columns[:1]:
            for part in column.split("; "):
                if part and not any(part in other for other in said):
                    said.append(part)
        if len(columns) > MOST:
            said.append("the other columns alike, each with its own limits")
    return "; ".join(said)


def percent(level: float) -> str:
    """A level as it is written: 95 %."""
    return f"{100 * level:g} %"


def _wrapped(text: str) -> list[str]:
    """A text on as many lines as it needs."""
    return textwrap.wrap(
        text,
        WIDTH,
        subsequent_indent=" " * PLACE,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line(word: str, text: str) -> list[str]:
    """A word in the margin and text beside it, on as many lines as it needs."""
    return _wrapped(f"  {word:<{PLACE - 3}} {text}")


def _digits(lower: float, upper: float) -> int:
    width = upper - lower
    if not math.isfinite(width) or width <= 0:
        return 6
    return max(0, min(12, 2 - math.floor(math.log10(width))))
