"""What a stored release states twice, and whether both say the same.

One check is one function: it yields what is wrong, in words. `AGREEMENTS` lists the checks with
what each of them compares, which is what `privmean verify` prints; a part that no check compares
is listed as such. Nothing but the stored numbers is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
    items,
    mapped,
    number,
    numbers,
    same,
    text,
    within,
)

Problems = Iterator[str]
MOST_PERSONS = 2**53
BOUNDED = "bounded mean"
POOLED = ("one-step GEE", "one regression for all persons")  # the latter until 0.2
# whose intervals end with the public range, where their estimates do not (all until 0.2)
OPEN = ("exponential mechanism over a cover", "variance by bisection", "variance by coinpress")
ENDS = (("lower", "upper", "interval"), ("noise_lower", "noise_upper", "noise_interval"))
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


# --- rows -----------------------------------------------------------------------------------------


def own_rows(stored: Stored) -> list[Stored]:
    """The rows of the columns, in their order."""
    found = [mapped(row) for row in items(stored.get("rows"))]
    width = len(items(stored.get("columns")))
    if "values" in stored:
        own: list[Stored] = []
        for table in _tables(stored):
            size = len(items(table.get("groups")))
            own += found[:size]
            found = found[size + len(items(table.get("contrasts"))) :]
        return own
    return found[:width]


def _tables(stored: Stored) -> list[Stored]:
    """The tables of a release by group: one, or one a value."""
    if "values" in stored:
        return [mapped(item) for item in items(stored["values"])]
    return [stored] if "groups" in stored else []


def _name(row: Stored) -> str:
    return f"{text(row['group'])} {text(row['term'])}".strip()


def row_numbers(stored: Stored) -> Problems:
    """Each row for itself: what can be negative, and what lies within what."""
    for row in items(stored.get("rows")):
        values = {name: number(row[name]) for name in ROW_FIELDS if name not in _TEXTS}
        name, status = repr(_name(row)), read_status(text(row["status"]))
        error, estimate, persons = values["std_error"], values["estimate"], values["n"]
        if error is not None and error < 0:
            yield f"the row {name} has a negative standard error"
        if persons is not None and persons > MOST_PERSONS:
            yield f"the row {name} has more people than there can be"
        if estimate is None:
            if status == OK:
                yield f"the row {name} has no estimate, and says that all is well"
            if error is not None:
                yield f"the row {name} has a standard error without an estimate"
            continue
        for low, high, title in ENDS:
            if title == "noise_interval" and status == ASSUMPTION_VIOLATED:
                continue  # the estimate stays within what was assumed, its noise does not
            if stored.get("estimator") in OPEN:
                continue
            if not within(estimate, values[low], values[high]):
                yield f"the estimate of {name} lies outside of its {title}"


_TEXTS = ("term", "group", "status")


def row_columns(stored: Stored) -> Problems:
    """A row a column, and what the release says in two places."""
    columns = [text(item) for item in items(stored.get("columns"))]
    rows, own = items(stored.get("rows")), own_rows(stored)
    extra = sum(len(items(table.get("contrasts"))) for table in _tables(stored))
    extra += "deviation" in stored
    if len(own) != len(columns) or len(rows) != len(columns) + extra:
        yield (
            f"{count_noun(len(rows), 'row')} do not belong to {count_noun(len(columns), 'column')}"
        )
        return
    estimates, grouped = numbers(stored.get("estimate")), bool(_tables(stored))
    for row, column, estimate in zip(own, columns, estimates, strict=True):
        key = f"{row['term']}: {row['group']}" if "values" in stored else row["group"]
        named = "variance" if "deviation" in stored else column
        if (grouped and key != column) or (not grouped and row["term"] != named):
            yield f"the row of {column!r} names something else"
        if not same(number(row["estimate"]), estimate):
            yield f"the row of {column!r} has another estimate than the release"
    if not grouped and any(row["group"] != "" for row in rows):
        yield "a row is of a group, and the release is not"


def row_intervals(stored: Stored) -> Problems:
    """The interval of a row alone is that of the release, or lies within it where all columns hold
    together; of groups, both noise intervals are equally long about two centers."""
    own, grouped = own_rows(stored), bool(_tables(stored))
    for low, high, title in ENDS:
        found = mapped(stored.get(title))
        lower, upper = numbers(found.get("lower")), numbers(found.get("upper"))
        level = number(found.get("level"))
        for row, a, c in zip(own, lower, upper, strict=True):
            b, d = number(row[low]), number(row[high])
            if row["estimate"] is None and b is None and d is None:
                continue
            name = _name(row)
            if row["estimate"] is not None and [a is None, c is None] != [b is None, d is None]:
                yield f"the {title} of row {name!r} and that of the release are not open alike"
            elif grouped and title == "noise_interval":
                if not about(_length(a, c), _length(b, d), max(abs(b or 0), abs(d or 0))):
                    yield f"the row {name!r} has a noise interval of another length"
            elif grouped or len(own) == 1:
                if not (same(a, b) and same(c, d)):
                    yield f"the row {name!r} has another {title} than the release"
            elif not (_beyond(a, b) and _beyond(d, c)):
                yield f"the {title} of row {name!r} passes that of all columns together"
            elif _much_longer(_length(a, c), _length(b, d), level, len(own)):
                yield f"the {title} of {name!r} together with others is much longer than alone"


def _length(low: float | None, high: float | None) -> float:
    return math.nan if low is None or high is None else high - low


def _much_longer(together: float, alone: float, level: float | None, columns: int) -> bool:
    """Whether an interval that holds for all columns together is longer than the level asks for,
    whatever the law of the noise: twice what Laplace noise would need."""
    if level is None or not 0 < level < 1 or not alone > 0:
        return False
    return together > 2 * alone * (1 + math.log(columns) / -math.log1p(-level))


def _beyond(low: float | None, high: float | None) -> bool:
    """Whether low <= high, where null is no limit on that side."""
    if low is None or high is None:
        return True
    return low <= high + SAME * max(abs(low), abs(high))


def row_persons(stored: Stored) -> Problems:
    """The number of people of the rows, where it is that of the release."""
    persons, rows = number(stored.get("n")), items(stored.get("rows"))
    if persons is not None and persons > MOST_PERSONS:
        yield "n: more than there can be"
    extra = [] if "deviation" in stored else _compared(stored)
    if any(row["n"] is not None for row in extra):
        yield "a comparison has a number of people"
    counts = [number(row["n"]) for row in rows]
    if _tables(stored) or "curve" in stored or "distribution" in stored:
        if persons is None and any(item is not None for item in counts):
            yield "the rows have n, and the release has none"
        return
    for row, count in zip(rows, counts, strict=True):
        if not same(count, persons):
            yield f"the row {_name(row)!r} has another number of people than the release"


def _compared(stored: Stored) -> list[Stored]:
    """The rows that are comparisons of groups."""
    own = [id(row) for row in own_rows(stored)]
    return [row for row in items(stored.get("rows")) if id(row) not in own]


def row_statuses(stored: Stored) -> Problems:
    """The status of the release is the worst of its columns', and that of a row its column's."""
    statuses = [text(item) for item in items(stored.get("statuses"))]
    status, own = text(stored.get("status")), own_rows(stored)
    if len(statuses) != len(own):
        yield f"{count_noun(len(statuses), 'status')} stand beside {count_noun(len(own), 'column')}"
        return
    shown = any(number(item) is not None for item in items(stored.get("estimate")))
    intervals = [text(mapped(stored.get(name)).get("status")) for _, _, name in ENDS]
    rows = [text(row["status"]) for row in own]
    stated = [status, *statuses, *rows, *intervals]
    read = [read_status(item) for item in stated]
    if status == FAILED and shown and POINT_MASS not in read:
        yield "the release failed, and has an estimate"
    if stated != read:
        return  # versions up to 0.2 named them otherwise, and joined them
    if statuses and status != release_status(statuses):
        yield f"the status of the release is {status!r}, and those of its columns say otherwise"
    said, noise = intervals
    nothing = {FAILED} if None in items(stored.get("estimate")) else set()
    known = {OK, status, *statuses, *rows, worst_status(statuses), release_status(rows), *nothing}
    if said not in known:
        yield "the interval has a status that no row has"
    if noise not in (OK, said, *nothing):
        yield "the noise_interval has a status that no row has"
    for row, found, column in zip(own, rows, statuses, strict=True):
        if _tables(stored) or column != OK:
            fits = found == column
        elif "curve" in stored:
            fits = True  # compared with the curve
        else:
            fits = found == said if len(own) == 1 else worst_status((found, said)) == said
        if not fits:
            yield f"the row {_name(row)!r} has another status than its column"


def interval_words(stored: Stored) -> Problems:
    """Levels, kinds, limits and half lengths of the two intervals."""
    found = {name: mapped(stored.get(name)) for name in ("interval", "noise_interval")}
    levels = [number(item.get("level")) for item in found.values()]
    if not all(level is not None and 0 < level < 1 for level in levels):
        yield "the level of an interval does not lie between 0 and 1"
    elif levels[0] != levels[1]:
        yield "the two intervals are of different levels"
    empty = not any(number(item) is not None for item in items(stored.get("estimate")))
    for name, item in found.items():
        if item.get("kind") != name and not (empty and item.get("kind") == "interval"):
            yield f"the {name} calls itself {item.get('kind')!r}"
        for half in mapped(item.get("half_widths")).values():
            if any(part is not None and part < 0 for part in numbers(half)):
                yield f"a part of the {name} is negative"
        for low, high in _limits(item):
            if low is not None and high is not None and low > high:
                yield f"the limits of the {name} end before they begin"
    one, other = (_limits(item) for item in found.values())
    if one and other and one != other:
        yield "the two intervals have different limits"
    halves = [mapped(item.get("half_widths")).get("noise") for item in found.values()]
    if None not in halves and not _all_same(numbers(halves[0]), numbers(halves[1])):
        yield "the two intervals have different parts of the noise"
    yield from _stated_limits(stored, one)


def _limits(found: Stored) -> list[tuple[float | None, float | None]]:
    pairs = [numbers(pair) for pair in items(found.get("clip_bounds"))]
    return [(low, high) for low, high in pairs]


def _stated_limits(stored: Stored, limits: list[tuple[float | None, float | None]]) -> Problems:
    """The limits as the plan (public bounds) or the diagnostics (found privately) state them."""
    diagnostics, plan = mapped(stored.get("diagnostics")), mapped(stored.get("plan"))
    if limits and len(items(stored.get("columns"))) == 1 and "limits" in diagnostics:
        found = tuple(numbers(diagnostics["limits"]))
        if found != limits[0]:
            yield "the diagnostics state other limits than the interval"
    if stored.get("estimator") == BOUNDED:
        bounds = [tuple(numbers(pair)) for pair in items(plan.get("bounds"))]
        if limits and bounds != limits:
            yield "the plan states other bounds than the interval"
        columns = zip(bounds, items(stored.get("rows")), strict=True)
        for (low, high), row in columns:
            estimate = number(row["estimate"])
            if estimate is not None and not within(estimate, low, high):
                yield f"the estimate of {_name(row)!r} lies outside of the public bounds"


def plan_account(stored: Stored, guarantee: Guarantee | None) -> Problems:
    """The plan's own copy of the account, and of other public numbers."""
    plan = mapped(stored.get("plan"))
    planned, persons = plan.get("n"), number(stored.get("n"))
    public = guarantee is not None and guarantee.neighbors == "replace-one"
    if public and type(planned) is int and persons is not None and planned != persons:
        yield "the plan was made for another number of people"
    if "neighbors" in plan and guarantee is not None and plan["neighbors"] != guarantee.neighbors:
        yield "the plan was made for other neighbors"
    if "columns" in plan and plan["columns"] != len(items(stored.get("columns"))):
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


def shares(stored: Stored) -> Problems:
    """Shares of the budget are parts of one."""
    found = numbers(list(mapped(stored.get("budget_shares")).values()))
    known = [item for item in found if item is not None]
    if any(not 0 <= item <= 1 + SAME for item in known):
        yield "a share of the budget is no part of it"
    if "values" not in stored and "groups" not in stored and sum(known) > 1 + 1e-6:
        yield "the shares of the budget are more than all of it"


# --- parts that only some releases have -----------------------------------------------------------


def _told(row: Stored, part: Stored) -> bool:
    """Whether a part that groups and comparisons have says what its row says."""
    ends = zip(
        ("lower", "upper", "noise_lower", "noise_upper"),
        [*numbers(part["interval"]), *numbers(part["noise_interval"])],
        strict=True,
    )
    return (
        same(number(row["estimate"]), number(part["estimate"]))
        and same(number(row["std_error"]), number(part["std_error"]))
        and all(same(number(row[name]), end) for name, end in ends)
        and row["status"] == part["status"]
    )


def group_rows(stored: Stored) -> Problems:
    """Groups and comparisons beside their rows; noisy people beside their intervals."""
    left = [mapped(row) for row in items(stored.get("rows"))]
    for table in _tables(stored):
        groups, contrasts = items(table.get("groups")), items(table.get("contrasts"))
        size = len(groups) + len(contrasts)
        if len(left) < size:
            yield "there are more groups and comparisons than rows"
            return
        own, asked, left = left[: len(groups)], left[len(groups) : size], left[size:]
        for row, group in zip(own, groups, strict=True):
            fits = row["group"] == group["key"] and row["term"] == table["term"]
            persons = number(group["n"])
            if not (fits and _told(row, group) and same(number(row["n"]), persons)):
                yield f"the group {text(group['key'])!r} says something else than its row"
            yield from _noisy_persons(group)
        if len({number(group["n_std_error"]) for group in groups}) > 1:
            yield "the people of groups have different noise"
        for row, item in zip(asked, contrasts, strict=True):
            if row["group"] != item["contrast"] or not _told(row, item):
                yield f"the comparison {text(item['contrast'])!r} says something else than its row"
        if any(row["term"] != table["term"] for row in asked):
            yield "a comparison is of another value"
        yield from _comparisons(own, asked)
    if "values" in stored:
        yield from _repeated(stored)


def _noisy_persons(group: Stored) -> Problems:
    low, high = numbers(group["n_interval"])
    persons, error = number(group["n"]), number(group["n_std_error"])
    if error is not None and error < 0:
        yield f"the people of group {group['key']!r} have a negative standard error"
    if (persons is None) != (low is None) or (persons is None) != (high is None):
        yield f"the people of group {group['key']!r} have no whole interval"
    if persons is None or low is None or high is None:
        return
    if low < 0:
        yield f"the people of group {group['key']!r} can be negative"
    if not within(max(persons, 0.0), low, high):
        yield f"the people of group {group['key']!r} lie outside of their interval"
    elif low > 0 and not about(persons - low, high - persons, persons):
        yield f"the people of group {group['key']!r} are not in the middle of their interval"


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


def _repeated(stored: Stored) -> Problems:
    """What each of several values says of itself again."""
    statuses, at = items(stored.get("statuses")), 0
    for table in _tables(stored):
        size = len(items(table.get("groups")))
        if size and table.get("status") != release_status(
            map(read_status, statuses[at : at + size])
        ):
            yield f"the value {text(table['term'])!r} has another status than its groups"
        at += size


def curve_rows(stored: Stored) -> Problems:
    """The curve beside its rows, its bands beside the interval of all points."""
    curve = mapped(stored["curve"])
    rows = [mapped(row) for row in items(stored.get("rows"))]
    for name in ("estimate", "lower", "upper"):
        column = [number(row[name]) for row in rows]
        if not _all_same(column, numbers(curve[name])):
            yield f"the curve has another {name} than its rows"
    hidden = [number(row["estimate"]) is None for row in rows]
    for row, status, none in zip(rows, items(curve["status"]), hidden, strict=True):
        if row["status"] != status and not (none and status == OK):  # so in versions up to 0.2
            yield f"the curve has another status at {_name(row)!r} than its row"
    times = numbers(curve["at"])
    if len(times) != len(rows) or any(item is None for item in times):
        yield "the curve has not one time a row"
    elif any(a >= b for a, b in pairwise(time for time in times if time is not None)):
        yield "the times of the curve do not rise"
    band = mapped(stored.get("interval"))
    for name in ("lower", "upper"):
        if not _all_same(numbers(band.get(name)), numbers(curve[f"band_{name}"])):
            yield "the band of the curve is not the interval of all its points"


def _all_same(first: Sequence[float | None], second: Sequence[float | None]) -> bool:
    return len(first) == len(second) and all(map(same, first, second))


def distribution_points(stored: Stored) -> Problems:
    """The distribution function: rising points, parts of one, and the quantiles on it."""
    found = mapped(stored["distribution"])
    at, estimate = numbers(found["at"]), numbers(found["estimate"])
    lower, upper = numbers(found["lower"]), numbers(found["upper"])
    q = numbers(stored.get("q"))
    columns = [text(item) for item in items(stored.get("columns"))]
    if len(q) != len(columns) or any(item is None or not 0 < item < 1 for item in q):
        yield "the quantiles are not one part of the people per column"
    elif any(not name.endswith(f" at {item:g}") for name, item in zip(columns, q, strict=True)):
        yield "a column names another quantile"
    planned = mapped(stored.get("plan")).get("quantiles", q)
    if not _all_same(numbers(planned), q):
        yield "the plan names other quantiles"
    every = list(zip(at, estimate, lower, upper, strict=True))
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
    yield from _quantiles(numbers(stored.get("estimate")), q, points)


def _quantiles(
    estimates: Sequence[float | None], q: Sequence[float | None], points: Sequence[Sequence[float]]
) -> Problems:
    """No quantile lies where the limits of the distribution rule it out."""
    for value, part in zip(estimates, q, strict=False):
        if value is None or part is None:
            continue
        room = SAME * abs(value)
        below = [low for at, _, low, _ in points if at < value - room]
        above = [high for at, _, _, high in points if at > value + room]
        if max(below, default=0.0) > part + SAME or min(above, default=1.0) < part - SAME:
            yield f"the quantile at {part:g} is not that of the distribution"


def deviation_row(stored: Stored) -> Problems:
    """The standard deviation is the root of the variance, row by row."""
    rows = [mapped(row) for row in items(stored.get("rows"))]
    if [row["term"] for row in rows] != ["variance", "standard deviation"]:
        yield "the rows are not those of a variance and its root"
        return
    variance, deviation = rows
    if not same(number(stored["deviation"]), number(deviation["estimate"])):
        yield "the standard deviation is not that of its row"
    for name in ("estimate", "lower", "upper", "noise_lower", "noise_upper"):
        whole, root = number(variance[name]), number(deviation[name])
        wanted = None if whole is None else math.sqrt(max(whole, 0.0))
        if not same(wanted, root) and not (whole is None and root == 0.0):
            yield f"the {name} of the standard deviation is not the root of that of the variance"
    error, root = number(variance["std_error"]), number(deviation["estimate"])
    wanted = error / (2 * root) if error is not None and root else None
    if not same(wanted, number(deviation["std_error"])):
        yield "the standard error of the deviation does not follow from that of the variance"
    if variance["status"] != deviation["status"]:
        yield "the variance and its root have different statuses"


def coefficient_rows(stored: Stored) -> Problems:
    """Coefficients beside their rows, standard errors beside the covariance."""
    rows = [mapped(row) for row in items(stored.get("rows"))]
    lines = [mapped(item) for item in items(stored["coefficients"])]
    if len(rows) != len(lines):
        yield "there is not one coefficient a row"
        return
    level = number(mapped(stored.get("interval")).get("level"))
    for row, line in zip(rows, lines, strict=True):
        names = ("estimate", "std_error", "lower", "upper")
        if not all(same(number(row[name]), number(line[name])) for name in names) or not all(
            row[name] == line[name] for name in ("term", "status")
        ):
            yield f"the coefficient {text(line['term'])!r} says something else than its row"
        noise, error = number(line["noise_sd"]), number(line["std_error"])
        if (noise is None) and error is not None:
            yield f"the noise of {text(line['term'])!r} is not stated"
        if noise is not None and (noise < 0 or (error is not None and noise > error * (1 + SAME))):
            yield f"the noise of {text(line['term'])!r} is not a part of its standard error"
        p, low, high = (number(line[name]) for name in ("p_value", "lower", "upper"))
        sampling, bias = (number(line.get(name)) for name in ("sampling_sd", "clipping_bias"))
        if sampling is not None and not same(error, math.hypot(sampling, noise or 0.0)):
            yield f"the standard error of {text(line['term'])!r} is not that of its parts"
        half = math.inf if low is None or high is None else (high - low) / 2
        if bias is not None and not 0 <= bias <= half * (1 + SAME):
            yield f"the clipping-bias bound of {text(line['term'])!r} is more than its interval"
        if (p is None) != (number(line["estimate"]) is None):
            yield f"the coefficient {text(line['term'])!r} has a p-value or an estimate alone"
        yield from _p_value(p, (low, high), level, f"of {text(line['term'])!r} ")
    if "covariance" in stored:
        yield from _covariance([numbers(row) for row in items(stored["covariance"])], lines)


def _covariance(found: list[list[float | None]], lines: list[Stored]) -> Problems:
    if any(len(row) != len(lines) for row in found) or len(found) != len(lines):
        yield "the covariance has not one row and column a coefficient"
        return
    for j, line in enumerate(lines):
        error, square = number(line["std_error"]), found[j][j]
        if error is not None and (square is None or not same(error, math.sqrt(max(square, 0.0)))):
            yield f"the covariance does not fit the standard error of {text(line['term'])!r}"
        for k in range(j):
            one, other, most = found[j][k], found[k][j], found[k][k]
            if not same(one, other):
                yield "the covariance is not symmetric"
            elif (
                one is not None
                and square is not None
                and most is not None
                and one * one > square * most * (1 + 1e-6)
            ):
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


def effect_value(stored: Stored) -> Problems:
    """The p-value of an effect beside its interval."""
    rows = items(stored.get("rows"))
    row = mapped(rows[-1])
    level = number(mapped(stored.get("interval")).get("level"))
    p, ends = number(stored["p_value"]), (number(row["lower"]), number(row["upper"]))
    if p is not None and number(row["estimate"]) is None:
        yield "there is a p-value without an effect"
    yield from _p_value(p, ends, level, least=True)


Check = Callable[[Stored], Problems]
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
    found = [SAID]
    diagnostics = sorted(set(mapped(stored.get("diagnostics"))) - USED)
    plan = sorted(set(mapped(stored.get("plan"))) - PLAN)
    halves = mapped(mapped(stored.get("interval")).get("half_widths"))
    parts = sorted(set(halves) - HALVES)
    shares_of = sorted(mapped(stored.get("budget_shares")))
    other = sorted(map(str, set(stored) - COMPARED - WORDS))
    for title, names in (
        ("diagnostics", diagnostics),
        ("numbers of the plan", plan),
        ("parts of the interval", parts),
        ("which share of the budget is whose", shares_of if len(shares_of) > 1 else []),
        ("means by one of several columns of keys", ["margins"] if "margins" in stored else []),
        ("parts that this version does not know", other),
    ):
        if names:
            found.append(f"{title}: {', '.join(names)}")
    return found
