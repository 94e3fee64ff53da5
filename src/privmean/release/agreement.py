"""What a stored release states twice, and whether both say the same.

One check is one function: it yields what is wrong, in words. Most checks compare pairs of values
(`differ`) or put numbers between limits (`outside`). `AGREEMENTS` lists the checks with what each
of them compares, which is what `privmean verify` prints; a part that no check compares is listed as
such. Nothing but the stored numbers is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from privmean.inference.status import (
    ASSUMPTION_VIOLATED,
    FAILED,
    OK,
    POINT_MASS,
    read_status,
    release_status,
    worst_status,
)
from privmean.output import count_noun
from privmean.plain_data import canonical
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.stored_events import loss_from_dict, says_its_loss
from privmean.release.stored_release import (
    ROW_FIELDS,
    SAME,
    Stored,
    about,
    alike,
    items,
    mapped,
    number,
    numbers,
    same,
    text,
    within,
)

Problems = Iterator[str]
MOST_PERSONS = 2.0**53
BOUNDED = "bounded mean"
POOLED = ("one-step GEE", "one regression for all persons")  # the latter until 0.2
# whose intervals end with the public range, where their estimates do not (all until 0.2)
OPEN = ("exponential mechanism over a cover", "variance by bisection", "variance by coinpress")
ENDS = (("lower", "upper", "interval"), ("noise_lower", "noise_upper", "noise_interval"))
EDGES = [name for low, high, _ in ENDS for name in (low, high)]
# parts that some check compares, wholly or in part, and those that hold words alone
COMPARED = {
    "schema", "kind", "rows", "estimate", "interval", "noise_interval", "guarantee", "n",
    "columns", "status", "statuses", "secure", "warning", "provenance", "budget_shares", "term",
    "groups", "contrasts", "values", "curve", "distribution", "q", "coefficients", "covariance",
    "deviation", "p_value", "plan", "diagnostics", "margins",
}  # fmt: skip
WORDS = {
    "estimator", "estimand", "rationale", "assumptions", "advice", "formula", "method", "effect",
    "fixed_effects", "by",
}  # fmt: skip
SAID = "words (names, method, assumptions, targets, advice, notes)"
PRESENT = ("people with a value", "persons with a value")  # the latter until 0.2
USED = {"limits", *PRESENT}  # of the diagnostics
PLAN = {"mechanisms", "budget", "bounds", "columns", "neighbors", "quantiles", "n"}
HALVES = {"noise", "sampling"}


def differ(words: str, one: object, other: object) -> Problems:
    """The words, where two values are not the same."""
    if not alike(one, other):
        yield words


def outside(words: str, value: float | None, low: float | None, high: float | None) -> Problems:
    """The words, where a number (null: none) does not lie between its ends (null: open)."""
    if value is not None and not within(value, low, high):
        yield words


class Parts:
    """The parts of a stored release that several checks read; Malformed for another form."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    @cached_property
    def rows(self) -> list[Stored]:
        return [mapped(row) for row in items(self.stored.get("rows"))]

    @cached_property
    def columns(self) -> list[str]:
        return [text(item) for item in items(self.stored.get("columns"))]

    @cached_property
    def estimates(self) -> list[float | None]:
        return numbers(self.stored.get("estimate"))

    @cached_property
    def tables(self) -> list[Stored]:
        """The tables of a release by group: one, or one a value."""
        if "values" in self.stored:
            return [mapped(item) for item in items(self.stored["values"])]
        return [self.stored] if "groups" in self.stored else []

    @cached_property
    def own(self) -> list[Stored]:
        """The rows of the columns, in their order; the others compare groups."""
        if "values" not in self.stored:
            return self.rows[: len(self.columns)]
        own, left = [], self.rows
        for table in self.tables:
            size = len(items(table.get("groups")))
            own += left[:size]
            left = left[size + len(items(table.get("contrasts"))) :]
        return own

    @cached_property
    def level(self) -> float | None:
        return number(mapped(self.stored.get("interval")).get("level"))

    def stated_interval(self, name: str) -> Stored:
        return mapped(self.stored.get(name))

    def limits(self, name: str) -> list[list[float | None]]:
        """The clipping bounds of an interval, a pair a column."""
        return [numbers(pair) for pair in items(self.stated_interval(name).get("clip_bounds"))]


def row_name(row: Stored) -> str:
    return f"{text(row['group'])} {text(row['term'])}".strip()


# --- rows -----------------------------------------------------------------------------------------


def row_numbers(parts: Parts) -> Problems:
    """Each row for itself: what can be negative, and what lies within what."""
    for row in parts.rows:
        if set(row) != set(ROW_FIELDS):
            yield "a row has not the columns that rows have"
        name, status = repr(row_name(row)), read_status(text(row["status"]))
        estimate, error, *ends = (number(row[x]) for x in ("estimate", "std_error", *EDGES))
        persons = number(row["n"])
        yield from outside(f"the row {name} has a negative standard error", error, 0.0, None)
        yield from outside(f"the row {name} has too many people", persons, None, MOST_PERSONS)
        for low, high in (ends[:2], ends[2:]):
            yield from outside(f"an interval of row {name} ends before it begins", low, None, high)
        if estimate is None:
            yield from differ(f"the row {name} has an error without an estimate", error, None)
            if status == OK:
                yield f"the row {name} has no estimate, and says that all is well"
        elif parts.stored.get("estimator") not in OPEN:
            words = f"the estimate of {name} lies outside of its "
            yield from outside(words + "interval", estimate, ends[0], ends[1])
            if status != ASSUMPTION_VIOLATED:  # else its noise does not stay where the estimate is
                yield from outside(words + "noise_interval", estimate, ends[2], ends[3])


def row_columns(parts: Parts) -> Problems:
    """A row a column, and what the release says in two places."""
    stored, rows, columns = parts.stored, parts.rows, parts.columns
    extra = sum(len(items(table.get("contrasts"))) for table in parts.tables)
    extra += "deviation" in stored
    if len(parts.own) != len(columns) or len(rows) != len(columns) + extra:
        yield (
            f"{count_noun(len(rows), 'row')} do not belong to {count_noun(len(columns), 'column')}"
        )
        return
    for row, column, estimate in zip(parts.own, columns, parts.estimates, strict=True):
        named = f"{row['term']}: {row['group']}" if "values" in stored else row["group"]
        if not parts.tables:
            named = row["term"]
        wanted = "variance" if "deviation" in stored else column
        yield from differ(f"the row of {column!r} names something else", named, wanted)
        words = f"the row of {column!r} has another estimate than the release"
        yield from differ(words, row["estimate"], estimate)
    if not parts.tables and any(row["group"] != "" for row in rows):
        yield "a row is of a group, and the release is not"


def row_intervals(parts: Parts) -> Problems:
    """The interval of a row alone is that of the release, or lies within it where all columns hold
    together; of groups, both noise intervals are equally long about two centers."""
    own, level = parts.own, parts.level
    for low, high, title in ENDS:
        found = parts.stated_interval(title)
        lower, upper = numbers(found.get("lower")), numbers(found.get("upper"))
        for row, a, c in zip(own, lower, upper, strict=True):
            b, d = number(row[low]), number(row[high])
            if row["estimate"] is None and b is None and d is None:
                continue
            name, alone = row_name(row), _length(b, d)
            if row["estimate"] is not None and [a is None, c is None] != [b is None, d is None]:
                yield f"the {title} of row {name!r} and that of the release are not open alike"
            elif parts.tables and title == "noise_interval":
                if not about(_length(a, c), alone, max(abs(b or 0), abs(d or 0))):
                    yield f"the row {name!r} has a noise interval of another length"
            elif parts.tables or len(own) == 1:
                words = f"the row {name!r} has another {title} than the release"
                yield from differ(words, [a, c], [b, d])
            elif not (_beyond(a, b) and _beyond(d, c)):
                yield f"the {title} of row {name!r} passes that of all columns together"
            elif level is not None and 0 < level < 1 and alone > 0:
                # twice what Laplace noise would need for all columns, whatever the law of the noise
                most = 2 * alone * (1 + math.log(len(own)) / -math.log1p(-level))
                if _length(a, c) > most:
                    yield f"the {title} of {name!r} together with others is much longer than alone"


def _length(low: float | None, high: float | None) -> float:
    return math.nan if low is None or high is None else high - low


def _beyond(low: float | None, high: float | None) -> bool:
    """Whether low <= high, where null is no limit on that side."""
    return low is None or high is None or within(low, None, high)


def row_persons(parts: Parts) -> Problems:
    """The number of people of the rows, where it is that of the release."""
    stored, persons = parts.stored, number(parts.stored.get("n"))
    yield from outside("n: more than there can be", persons, None, MOST_PERSONS)
    own = [id(row) for row in parts.own]
    compared = [] if "deviation" in stored else [x for x in parts.rows if id(x) not in own]
    if any(row["n"] is not None for row in compared):
        yield "a comparison has a number of people"
    if parts.tables or "curve" in stored or "distribution" in stored:
        if persons is None and any(row["n"] is not None for row in parts.rows):
            yield "the rows have n, and the release has none"
        return
    for row in parts.rows:
        words = f"the row {row_name(row)!r} has another number of people than the release"
        yield from differ(words, row["n"], persons)


def row_statuses(parts: Parts) -> Problems:
    """The status of the release is the worst of its columns', and that of a row its column's."""
    stored, own = parts.stored, parts.own
    status = text(stored.get("status"))
    statuses = [text(item) for item in items(stored.get("statuses"))]
    if len(statuses) != len(own):
        yield f"{count_noun(len(statuses), 'status')} stand beside {count_noun(len(own), 'column')}"
        return
    said, noise = (text(parts.stated_interval(title).get("status")) for _, _, title in ENDS)
    rows = [text(row["status"]) for row in own]
    stated = [status, *statuses, *rows, said, noise]
    read = [read_status(item) for item in stated]
    shown = any(item is not None for item in parts.estimates)
    if status == FAILED and shown and POINT_MASS not in read:
        yield "the release failed, and has an estimate"
    if stated != read:
        return  # versions up to 0.2 named them otherwise, and joined them
    if statuses and status != release_status(statuses):
        yield f"the status of the release is {status!r}, and those of its columns say otherwise"
    nothing = {FAILED} if None in parts.estimates else set()
    known = {OK, status, *statuses, *rows, worst_status(statuses), release_status(rows), *nothing}
    if said not in known:
        yield "the interval has a status that no row has"
    if noise not in (OK, said, *nothing):
        yield "the noise_interval has a status that no row has"
    for row, found, column in zip(own, rows, statuses, strict=True):
        if parts.tables or column != OK:
            fits = found == column
        elif "curve" in stored:
            fits = True  # compared with the curve
        else:
            fits = found == said if len(own) == 1 else worst_status((found, said)) == said
        if not fits:
            yield f"the row {row_name(row)!r} has another status than its column"


def interval_words(parts: Parts) -> Problems:
    """Levels, kinds, limits and half lengths of the two intervals."""
    titles = [title for _, _, title in ENDS]
    found = [parts.stated_interval(title) for title in titles]
    levels = [number(item.get("level")) for item in found]
    if not all(level is not None and 0 < level < 1 for level in levels):
        yield "the level of an interval does not lie between 0 and 1"
    yield from differ("the two intervals are of different levels", levels[0], levels[1])
    empty = not any(item is not None for item in parts.estimates)
    for title, item in zip(titles, found, strict=True):
        if item.get("kind") != title and not (empty and item.get("kind") == "interval"):
            yield f"the {title} calls itself {item.get('kind')!r}"
        for half in mapped(item.get("half_widths")).values():
            for part in numbers(half):
                yield from outside(f"a part of the {title} is negative", part, 0.0, None)
        for low, high in parts.limits(title):
            yield from outside(f"the limits of the {title} end too early", low, None, high)
    one, other = map(parts.limits, titles)
    if one and other:
        yield from differ("the two intervals have different limits", one, other)
    halves = [mapped(item.get("half_widths")).get("noise") for item in found]
    if None not in halves:
        yield from differ(
            "the two intervals have different parts of the noise", halves[0], halves[1]
        )
    yield from _stated_limits(parts, one)


def _stated_limits(parts: Parts, limits: list[list[float | None]]) -> Problems:
    """The limits as the plan (public bounds) or the diagnostics (found privately) state them."""
    stored = parts.stored
    diagnostics, plan = mapped(stored.get("diagnostics")), mapped(stored.get("plan"))
    if limits and len(parts.columns) == 1 and "limits" in diagnostics:
        words = "the diagnostics state other limits than the interval"
        yield from differ(words, diagnostics["limits"], limits[0])
    if stored.get("estimator") == BOUNDED:
        bounds = [numbers(pair) for pair in items(plan.get("bounds"))]
        if limits:
            yield from differ("the plan states other bounds than the interval", bounds, limits)
        for (low, high), row in zip(bounds, parts.rows, strict=True):
            words = f"the estimate of {row_name(row)!r} lies outside of the public bounds"
            yield from outside(words, number(row["estimate"]), low, high)


def plan_account(parts: Parts, guarantee: Guarantee | None) -> Problems:
    """The plan's own copy of the account, and of other public numbers."""
    stored, plan = parts.stored, mapped(parts.stored.get("plan"))
    planned, persons = plan.get("n"), number(stored.get("n"))
    public = guarantee is not None and guarantee.neighbors == "replace-one"
    if public and type(planned) is int and persons is not None and planned != persons:
        yield "the plan was made for another number of people"
    if "neighbors" in plan and guarantee is not None and plan["neighbors"] != guarantee.neighbors:
        yield "the plan was made for other neighbors"
    if "columns" in plan and plan["columns"] != len(parts.columns):
        yield "the plan was made for another number of columns"
    if "mechanisms" not in plan:
        return
    listed = [dict(mapped(item)) for item in items(plan["mechanisms"])]
    for item in listed:
        entry = loss_from_dict(item)
        if not says_its_loss(entry, item):
            yield "an entry of the plan's account states a loss that does not follow"
            return
        if guarantee is not None and entry.neighbors != guarantee.neighbors:
            yield "an entry of the plan's account is for other neighbors"
            return
    adaptive = "shared_locations" in plan or stored.get("estimator") in POOLED
    if adaptive or guarantee is None or guarantee.parent_run:
        return
    left = Counter(canonical(item) for item in listed)
    left.subtract(canonical(item.to_dict()) for item in guarantee.mechanisms)
    if any(count < 0 for count in left.values()):
        yield "the account has an entry that the plan's copy of it does not have"


def shares(parts: Parts) -> Problems:
    """Shares of the budget are parts of one."""
    found = numbers(list(mapped(parts.stored.get("budget_shares")).values()))
    known = [item for item in found if item is not None]
    if any(not 0 <= item <= 1 + SAME for item in known):
        yield "a share of the budget is no part of it"
    if not parts.tables and sum(known) > 1 + 1e-6:
        yield "the shares of the budget are more than all of it"


# --- parts that only some releases have -----------------------------------------------------------


def _of_row(row: Stored) -> list[object]:
    """What a group or a comparison says again of its row."""
    return [row[name] for name in ("estimate", "std_error", *EDGES, "status")]


def _again(part: Stored) -> list[object]:
    """The same, as a group or a comparison says it."""
    ends = (*items(part["interval"]), *items(part["noise_interval"]))
    return [part["estimate"], part["std_error"], *ends, part["status"]]


def group_rows(parts: Parts) -> Problems:
    """Groups and comparisons beside their rows; noisy people beside their intervals."""
    left, place = parts.rows, 0
    for table in parts.tables:
        groups, contrasts = items(table.get("groups")), items(table.get("contrasts"))
        size = len(groups) + len(contrasts)
        if len(left) < size:
            yield "there are more groups and comparisons than rows"
            return
        own, asked, left = left[: len(groups)], left[len(groups) : size], left[size:]
        for row, group in zip(own, groups, strict=True):
            row_says = [row["group"], row["term"], row["n"], *_of_row(row)]
            group_says = [group["key"], table["term"], group["n"], *_again(group)]
            words = f"the group {text(group['key'])!r} says something else than its row"
            yield from differ(words, row_says, group_says)
            yield from _noisy_persons(group)
        if len({number(group["n_std_error"]) for group in groups}) > 1:
            yield "the people of groups have different noise"
        for row, item in zip(asked, contrasts, strict=True):
            row_says = [row["group"], row["term"], *_of_row(row)]
            words = f"the comparison {text(item['contrast'])!r} says something else than its row"
            yield from differ(words, row_says, [item["contrast"], table["term"], *_again(item)])
        yield from _comparisons(own, asked)
        if "values" in parts.stored and groups:
            statuses = items(parts.stored.get("statuses"))[place : place + len(groups)]
            words = f"the value {text(table['term'])!r} has another status than its groups"
            worst = release_status(map(read_status, statuses))
            yield from differ(words, table.get("status"), worst)
        place += len(groups)


def _noisy_persons(group: Stored) -> Problems:
    low, high = numbers(group["n_interval"])
    persons, error = number(group["n"]), number(group["n_std_error"])
    name = f"the people of group {group['key']!r}"
    yield from outside(f"{name} have a negative standard error", error, 0.0, None)
    if (persons is None) != (low is None) or (persons is None) != (high is None):
        yield f"{name} have no whole interval"
    if persons is None or low is None or high is None:
        return
    yield from outside(f"{name} can be negative", low, 0.0, None)
    yield from outside(f"{name} lie outside of their interval", max(persons, 0.0), low, high)
    if low > 0 and not about(persons - low, high - persons, persons):
        yield f"{name} are not in the middle of their interval"


def _comparisons(own: Sequence[Stored], asked: Sequence[Stored]) -> Problems:
    """Differences and ratios of two groups, from their rows."""
    estimates = {text(row["group"]): number(row["estimate"]) for row in own}
    for row in asked:
        found = number(row["estimate"])
        for sign in (" - ", " / "):
            first, _, second = text(row["group"]).partition(sign)
            one, other = estimates.get(first), estimates.get(second)
            if found is None or one is None or other is None:
                continue
            if sign == " - " and not about(found, one - other, max(abs(one), abs(other))):
                yield f"the difference {row['group']!r} is not that of its groups"
            if sign == " / " and other and not about(found, one / other, found):
                yield f"the ratio {row['group']!r} is not that of its groups"


def curve_rows(parts: Parts) -> Problems:
    """The curve beside its rows, its bands beside the interval of all points."""
    curve, rows, band = mapped(parts.stored["curve"]), parts.rows, parts.stated_interval("interval")
    for name in ("estimate", "lower", "upper"):
        column = [row[name] for row in rows]
        yield from differ(f"the curve has another {name} than its rows", column, curve[name])
    for name in ("lower", "upper"):
        words = "the band of the curve is not the interval of all its points"
        yield from differ(words, band.get(name), curve[f"band_{name}"])
    for row, status in zip(rows, items(curve["status"]), strict=True):
        if row["status"] != status and not (row["estimate"] is None and status == OK):  # until 0.2
            yield f"the curve has another status at {row_name(row)!r} than its row"
    times = [time for time in numbers(curve["at"]) if time is not None]
    if not len(times) == len(rows) == len(items(curve["at"])):
        yield "the curve has not one time a row"
    elif any(a >= b for a, b in pairwise(times)):
        yield "the times of the curve do not rise"


def distribution_points(parts: Parts) -> Problems:
    """The distribution function: rising points, parts of one, and the quantiles on it."""
    found, q = mapped(parts.stored["distribution"]), numbers(parts.stored.get("q"))
    if len(q) != len(parts.columns) or any(item is None or not 0 < item < 1 for item in q):
        yield "the quantiles are not one part of the people per column"
    elif any(not name.endswith(f" at {x:g}") for name, x in zip(parts.columns, q, strict=True)):
        yield "a column names another quantile"
    planned = mapped(parts.stored.get("plan")).get("quantiles", q)
    yield from differ("the plan names other quantiles", planned, q)
    names = ("at", "estimate", "lower", "upper")
    every = list(zip(*(numbers(found[name]) for name in names), strict=True))
    if any(item is None for point in every for item in point):
        yield "the distribution has a point without a number"
        return
    points = [tuple(float(item or 0.0) for item in point) for point in every]
    if any(a[0] > b[0] for a, b in pairwise(points)):
        yield "the points of the distribution do not rise"
    if any(a[1] > b[1] + SAME for a, b in pairwise(points)):
        yield "the distribution falls"
    if any(not -SAME <= low <= part <= high <= 1 + SAME for _, part, low, high in points):
        yield "a part of the people lies outside of its limits, or of 0 to 1"
    for value, part in zip(parts.estimates, q, strict=False):
        if value is None or part is None:
            continue
        room = SAME * abs(value)
        below = [low for at, _, low, _ in points if at < value - room]
        above = [high for at, _, _, high in points if at > value + room]
        if max(below, default=0.0) > part + SAME or min(above, default=1.0) < part - SAME:
            yield f"the quantile at {part:g} is not that of the distribution"


def deviation_row(parts: Parts) -> Problems:
    """The standard deviation is the root of the variance, row by row."""
    rows = parts.rows
    if [row["term"] for row in rows] != ["variance", "standard deviation"]:
        yield "the rows are not those of a variance and its root"
        return
    variance, deviation = rows
    for name in ("estimate", *EDGES):
        whole, root = number(variance[name]), number(deviation[name])
        wanted = None if whole is None else math.sqrt(max(whole, 0.0))
        if not same(wanted, root) and not (whole is None and root == 0.0):
            yield f"the {name} of the standard deviation is not the root of that of the variance"
    error, root = number(variance["std_error"]), number(deviation["estimate"])
    wanted = error / (2 * root) if error is not None and root else None
    words = "the standard error of the deviation does not follow from that of the variance"
    yield from differ(words, wanted, deviation["std_error"])
    yield from differ("the deviation is not that of its row", parts.stored["deviation"], root)
    words = "the variance and its root have different statuses"
    yield from differ(words, variance["status"], deviation["status"])


def coefficient_rows(parts: Parts) -> Problems:
    """Coefficients beside their rows, standard errors beside the covariance."""
    lines = [mapped(item) for item in items(parts.stored["coefficients"])]
    if len(parts.rows) != len(lines):
        yield "there is not one coefficient a row"
        return
    for row, line in zip(parts.rows, lines, strict=True):
        name, names = (
            repr(text(line["term"])),
            ("term", "status", "estimate", "std_error", *EDGES[:2]),
        )
        again = [[part[x] for x in names] for part in (row, line)]
        words = f"the coefficient {name} says something else than its row"
        yield from differ(words, again[0], again[1])
        noise, error, p = (number(line[x]) for x in ("noise_sd", "std_error", "p_value"))
        sampling, bias = (number(line.get(x)) for x in ("sampling_sd", "clipping_bias"))
        ends = number(line["lower"]), number(line["upper"])
        stated = sampling is not None or "sampling_sd" not in line
        if error is not None and (noise is None or not stated):
            yield f"the noise of {name}, or its sampling error, is not stated"
        if sampling is not None:
            words = f"the standard error of {name} is not that of its parts"
            yield from differ(words, error, math.hypot(sampling, noise or 0.0))
        half = None if None in ends else _length(*ends) / 2
        words = f"the noise of {name} is not a part of its standard error"
        yield from outside(words, noise, 0.0, error)
        words = f"the clipping-bias bound of {name} is more than its interval"
        yield from outside(words, bias, 0.0, half)
        if (p is None) != (line["estimate"] is None):
            yield f"the coefficient {name} has a p-value or an estimate alone"
        yield from _p_value(p, ends, parts.level, f"of {name} ")
    if "covariance" in parts.stored:
        yield from _covariance([numbers(row) for row in items(parts.stored["covariance"])], lines)


def _covariance(found: list[list[float | None]], lines: list[Stored]) -> Problems:
    if any(len(row) != len(lines) for row in found) or len(found) != len(lines):
        yield "the covariance has not one row and column a coefficient"
        return
    for j, line in enumerate(lines):
        error, square = number(line["std_error"]), found[j][j]
        if error is not None:
            root = None if square is None else math.sqrt(max(square, 0.0))
            words = f"the covariance does not fit the standard error of {text(line['term'])!r}"
            yield from differ(words, error, root)
        for k in range(j):
            one, other, most = found[j][k], found[k][j], found[k][k]
            yield from differ("the covariance is not symmetric", one, other)
            if one is None or square is None or most is None:
                continue
            if one * one > square * most * (1 + 1e-6):
                yield "a covariance is larger than the variances allow"


def _p_value(
    p: float | None, ends: tuple[float | None, float | None], level: float | None, whose: str = "",
    *, least: bool = False,
) -> Problems:  # fmt: skip
    """least: the interval is longer than the test, so that it tells one side alone."""
    if p is None:
        return
    if not 0 <= p <= 1:
        yield f"the p-value {whose}does not lie between 0 and 1"
        return
    low, high = ends
    if level is None or low is None or high is None:
        return
    alpha = 1 - level
    if (low > 0 or high < 0) and p > alpha * (1 + 1e-6):
        yield f"the p-value {whose}is large, and the interval leaves out 0"
    if not least and low < 0 < high and p < alpha * (1 - 1e-6):
        yield f"the p-value {whose}is small, and the interval holds 0"


def effect_value(parts: Parts) -> Problems:
    """The p-value of an effect beside its interval."""
    row, p = parts.rows[-1], number(parts.stored["p_value"])
    if p is not None and row["estimate"] is None:
        yield "there is a p-value without an effect"
    yield from _p_value(p, (number(row["lower"]), number(row["upper"])), parts.level, least=True)


Check = Callable[[Parts], Problems]
# a check; the part that a release must have for it, if any; what it compares
AGREEMENTS: tuple[tuple[Check, str, str], ...] = (
    (row_numbers, "", "each estimate and its own intervals"),
    (row_columns, "", "rows, columns and estimates"),
    (row_intervals, "", "rows and the intervals of the release"),
    (row_persons, "", "the n of rows and release"),
    (row_statuses, "", "statuses of release, columns and rows"),
    (interval_words, "", "levels, kinds and limits of the intervals"),
    (shares, "", "shares of the budget"),
    (group_rows, "groups", "groups, comparisons and their rows"),
    (group_rows, "values", "groups, comparisons and their rows"),
    (curve_rows, "curve", "the curve and its rows"),
    (distribution_points, "distribution", "quantiles and the distribution"),
    (deviation_row, "deviation", "the variance and its root"),
    (coefficient_rows, "coefficients", "coefficients and their rows"),
    (effect_value, "p_value", "the p-value and the interval"),
)


def not_compared(stored: Stored) -> list[str]:
    """What no check compares with anything, by name."""
    halves = mapped(mapped(stored.get("interval")).get("half_widths"))
    shares_of = sorted(map(str, mapped(stored.get("budget_shares"))))
    listed = (
        ("diagnostics", sorted(map(str, set(mapped(stored.get("diagnostics"))) - USED))),
        ("numbers of the plan", sorted(map(str, set(mapped(stored.get("plan"))) - PLAN))),
        ("parts of the interval", sorted(map(str, set(halves) - HALVES))),
        ("which share of the budget is whose", shares_of if len(shares_of) > 1 else []),
        ("means by one of several columns of keys", ["margins"] if "margins" in stored else []),
        ("parts that this version does not know", sorted(map(str, set(stored) - COMPARED - WORDS))),
    )
    return [SAID, *(f"{title}: {', '.join(names)}" for title, names in listed if names)]
