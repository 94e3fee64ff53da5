"""Noise intervals of a stored release against the noise that its account pays for.

Where the half length follows from the account in closed form it is computed again and compared
(`bounded mean`, `default mean`). Everywhere else that people are clipped to stated limits, no
release of this loss can be more certain than a bound which holds for any mechanism. Both read
nothing but the stored numbers, and need neither NumPy nor SciPy.

The bound: k people who are replaced, or added, move the clipped mean by k times what one can. An
interval that is shorter cannot hold both means, and holds each with its level if the release knows
the two tables apart better than its loss allows (docs/verification.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

from privmean.inference.status import POINT_MASS, read_status
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.guarantee import MEMBERSHIP, Guarantee
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent
from privmean.release.agreement import BOUNDED, PRESENT, own_rows
from privmean.release.stored_release import Stored, about, items, mapped, number, numbers, text

CLOSE = 1e-3  # relative: equal scales are moved apart by as much where an interval is made
ROOM = 1e-6  # of a bound
APART = 1e-3
MOST_MOVED = 10**6
SHORTENED = "default mean of many columns"  # limits a column, and shorter rows within them
GROUPED = ("group sums", "value, weight and square by group")  # the latter until 0.2
COUNT_ROOM = 15.0  # noise scales by which two noisy counts of one group may differ
DEFAULT = "default mean"
PEOPLE = ("mean, people weighted equally", "mean over persons")  # the latter until 0.2
LAST = ("clipped sums", "value and square", "values and squares")  # the latter until 0.2
FIRM, MISSING_SDS = 4.0, 5.0  # as in intervals.missing and intervals.divided
COUNT = 4.0  # multiple of the noise of the number of people with a value, over that of one epsilon
COUNT_VARIANCE = 18.0


def laplace_quantile(tail: float, scales: Sequence[float]) -> float:
    """The t that a sum of Laplace noises of these scales passes with probability `tail`."""
    moved: list[float] = []
    for scale in sorted(abs(item) for item in scales if item):
        moved.append(max(scale, moved[-1] * (1 + APART)) if moved else scale)
    if not moved:
        return 0.0
    if len(moved) == 1:
        return moved[0] * math.log(0.5 / tail)
    weights = [math.prod(b * b / ((b - c) * (b + c)) for c in moved if c != b) / 2 for b in moved]
    low, high = 0.0, sum(moved) * math.log(1 / tail)
    for _ in range(200):
        middle = (low + high) / 2
        above = sum(w * math.exp(-middle / b) for w, b in zip(weights, moved, strict=True))
        low, high = (middle, high) if above > tail else (low, middle)
    return high


def normal_quantile(tail: float) -> float:
    """The number of deviations that normal noise passes with probability `tail`."""
    return NormalDist().inv_cdf(1 - tail) if tail > 1e-15 else math.inf


def people_told_apart(guarantee: Guarantee, alpha: float) -> int:
    """How many people can change without a release of this guarantee telling the two tables apart
    with errors of `alpha` on both sides: an interval of level 1 - alpha holds both means then."""
    if guarantee.rho is not None:
        most = (1 - 2 * alpha) * math.sqrt(2 / guarantee.rho)
    else:
        assert guarantee.epsilon is not None
        epsilon, delta = guarantee.epsilon, guarantee.delta
        found = 0
        while found < MOST_MOVED:
            step = found + 1
            factor = math.exp(min(step * epsilon, 700.0))
            if 1 - alpha <= factor * alpha + delta * (factor - 1) / math.expm1(epsilon):
                break
            found = step
        return found
    return min(max(math.ceil(most) - 1, 0), MOST_MOVED)


class Column(NamedTuple):
    """One column of a stored release: its noise interval, its limits, and one less its level."""

    name: str
    low: float
    high: float
    estimate: float
    limits: tuple[float, float]
    alpha: float
    n: float | None


def column_of(stored: Stored, place: int, row: Stored) -> Column | None:
    """The column of a row; None where one of its numbers is not known."""
    interval, noise = mapped(stored["interval"]), mapped(stored["noise_interval"])
    region = items(noise.get("clip_bounds")) or items(interval.get("clip_bounds"))
    ends = numbers(region[place]) if place < len(region) else []
    low, high, estimate = (number(row[name]) for name in ("noise_lower", "noise_upper", "estimate"))
    level = number(interval.get("level"))
    if len(ends) != 2 or level is None or not 0 < level < 1:
        return None
    least, most = ends
    if low is None or high is None or estimate is None or least is None or most is None:
        return None
    name = f"{text(row['group'])} {text(row['term'])}".strip()
    persons = number(row["n"])
    return Column(name, low, high, estimate, (least, most), 1 - level, persons)


def recomputed_noise(stored: Stored, guarantee: Guarantee) -> tuple[list[str], list[str]] | None:
    """The noise of a bounded or default mean from the account: what is wrong, and the names of
    what is exactly that; None where the account does not tell. Where people without a value are
    seen, or a tail was told with the value, a default mean has at least this noise."""
    method = stored.get("estimator")
    if method not in (BOUNDED, DEFAULT) or stored.get("estimand") not in PEOPLE:
        return None
    if "groups" in stored or "curve" in stored:
        return None
    rows = own_rows(stored)
    paid = [loss for loss in guarantee.mechanisms if loss.name.split(": ")[-1] in LAST]
    said = mapped(stored["diagnostics"])
    present = next((said[name] for name in PRESENT if name in said), None)
    counts = numbers(present if isinstance(present, list) else [present])
    if method == DEFAULT and len(rows) != 1:
        return None
    joint = len(paid) == 1 and isinstance(paid[0], Gaussian)
    if len(counts) != len(rows) or not (joint or len(paid) == len(rows)):
        return None
    problems: list[str] = []
    names: list[str] = []
    for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
        column, loss = column_of(stored, place, row), paid[0 if joint else place]
        if column is None or count is None:
            continue
        found = _half(column, loss, count, stored, guarantee, len(rows))
        if found is None:
            continue
        half, exact = found
        if exact:
            names.append(column.name)
        problems += _unlike(column, stored, place, half, exact=exact, single=len(rows) == 1)
    return (problems, names) if names or problems else None


def _half(
    column: Column,
    loss: PrivacyEvent,
    count: float,
    stored: Stored,
    guarantee: Guarantee,
    width: int,
) -> tuple[float, bool] | None:
    """Half the noise interval of a column, and whether it is that or at least that."""
    low, high = column.limits
    radius, middle = (high - low) / 2, (low + high) / 2
    if radius <= 0:
        return None
    default = stored.get("estimator") == DEFAULT
    corrected = text(mapped(stored["noise_interval"])["target"]).startswith("corrected")
    center = column.estimate if default else (column.low + column.high) / 2
    theta = (center - middle) / radius
    gaussian = isinstance(loss, Gaussian)
    if not gaussian and not isinstance(loss, Laplace):
        return None
    unit = math.sqrt(width) / loss.mu if gaussian else float(1 / loss.pure)
    exact, divisor = True, max(count, 1.0)
    scales: tuple[float, ...] = (abs(1 - theta) * unit, abs(theta) * unit, abs(1 + theta) * unit)
    if guarantee.neighbors == REPLACE_ONE:
        persons = number(stored.get("n"))
        if persons is None:
            return None
        scales, divisor = (2 * unit,), persons
        third = unit * (math.sqrt(COUNT_VARIANCE) if gaussian else COUNT)
        absent = persons - count
        if gaussian:
            gone = absent if absent > MISSING_SDS * third else 0.0
        else:
            gone = min(absent, 2 * (absent - FIRM * third)) if absent > FIRM * third else 0.0
        if default:
            # several noisy counts are pooled, and what is added for a tail makes the noise larger:
            # neither is stored
            exact = absent <= 0 and not corrected
        elif gone:
            scales, divisor = (2 * unit, third * abs(theta)), max(persons - gone, 1.0)
    tail = column.alpha / 2
    half = (
        normal_quantile(tail) * math.hypot(*scales) if gaussian else laplace_quantile(tail, scales)
    )
    return radius * half / divisor, exact


def _unlike(
    column: Column, stored: Stored, place: int, half: float, *, exact: bool, single: bool
) -> Iterator[str]:
    """What the noise interval says otherwise."""
    length = (column.high - column.low) / 2
    inner = min(column.estimate - column.low, column.high - column.estimate)
    bounded = stored.get("estimator") == BOUNDED
    found = length if bounded else inner
    size = half + 1e-9 * max(abs(column.low), abs(column.high))
    if found < half - CLOSE * size:
        yield (
            f"the noise interval of {column.name!r} is shorter than its account allows: "
            f"half of it is {found:.6g}, the privacy noise makes {half:.6g}"
        )
    elif exact and not about(found, half, size, CLOSE):
        yield (
            f"the noise interval of {column.name!r} is not that of its account: half of it is "
            f"{found:.6g}, the noise makes {half:.6g}"
        )
    if single:
        for name in ("interval", "noise_interval"):
            parts = numbers(mapped(mapped(stored[name])["half_widths"]).get("noise", []))
            if place < len(parts) and not _part_fits(parts[place], half, size, exact=exact):
                yield f"the part of the noise in the {name} is not that of its account"


def _part_fits(part: float | None, half: float, size: float, *, exact: bool) -> bool:
    if part is None:
        return False
    return about(part, half, size, CLOSE) if exact else part >= half - CLOSE * size


def least_noise(stored: Stored, guarantee: Guarantee) -> tuple[list[str], list[str]] | None:
    """Noise intervals that no mechanism of this loss can have: what is wrong, and the names of what
    was compared; None where there is nothing to compare."""
    if stored.get("estimator") == SHORTENED:
        return None
    problems, names = [], []
    moved: dict[float, int] = {}
    for place, row in enumerate(own_rows(stored)):
        column = column_of(stored, place, row)
        if column is None or read_status(row["status"]) == POINT_MASS:
            continue
        persons = column.n if column.n is not None else number(stored.get("n"))
        if persons is None:
            continue
        if column.alpha not in moved:
            moved[column.alpha] = people_told_apart(guarantee, column.alpha)
        low, high = column.limits
        # one who is added to many moves the mean by the width over their number, and less of few
        number_of = max(persons, 1.0) + moved[column.alpha]
        least = moved[column.alpha] * (high - low) / number_of
        names.append(column.name)
        if column.high - column.low < least * (1 - ROOM):
            problems.append(
                f"the noise interval of {column.name!r} is shorter than that of any release of "
                f"this loss: {column.high - column.low:.6g}, at least {least:.6g}"
            )
    return (problems, names) if names else None


def group_noise(stored: Stored, guarantee: Guarantee) -> tuple[list[str], list[str]] | None:
    """Noise intervals of groups from the account, as closely as noisy counts of people tell: what
    is wrong, and the names of what was compared; None where the account does not tell.

    A mean is divided by the last noisy count of a group, and the file states a better one: both
    differ by the noise of a count, which is the tolerance.
    """
    entries = [loss for loss in guarantee.mechanisms if loss.name.split(": ")[-1] in GROUPED]
    if not ({"groups", "values"} & set(stored)) or not entries:
        return None
    gaussian = all(isinstance(loss, Gaussian) for loss in entries)
    units = {1 / loss.mu if gaussian else float(1 / loss.pure) for loss in entries if loss.rho}
    most = number(mapped(stored["plan"]).get("groups a person counts fully in"))
    if len(units) != 1 or most is None or not (gaussian or all(loss.pure for loss in entries)):
        return None
    replaced = guarantee.neighbors == REPLACE_ONE
    unit = units.pop() * most * ((math.sqrt(2) if gaussian else 2.0) if replaced else 1.0)
    # with public groups a replaced person stays in one: the sum has noise, the count may have none
    public = MEMBERSHIP in guarantee.public
    noise, problems, names = mapped(stored["noise_interval"]), [], []
    centers = zip(numbers(noise["lower"]), numbers(noise["upper"]), strict=True)
    for place, (row, ends) in enumerate(zip(own_rows(stored), centers, strict=True)):
        column = column_of(stored, place, row)
        if column is None or column.n is None or read_status(row["status"]) == POINT_MASS:
            continue
        low, high = column.limits
        room = COUNT_ROOM * unit / max(column.n, 1e-300)
        if not (high > low and 0 < room < 0.5):
            continue
        center = (float(ends[0] or 0.0) + float(ends[1] or 0.0)) / 2
        theta = (2 * center - low - high) / (high - low)
        scales = tuple(unit * abs(x) for x in (1 - theta, theta, 1 + theta))
        tail = column.alpha / 2
        half = (
            normal_quantile(tail) * math.hypot(*scales)
            if gaussian
            else laplace_quantile(tail, scales)
        )
        wanted = half * (high - low) / 2 / column.n
        least = wanted
        if public:
            fewest = normal_quantile(tail) / math.sqrt(2) if gaussian else math.log(0.5 / tail)
            least = min(wanted, unit * fewest * (high - low) / 2 / column.n)
        found = (column.high - column.low) / 2
        names.append(column.name)
        if not least * (1 - room) <= found <= wanted * (1 + room) + ROOM * wanted:
            problems.append(
                f"the noise interval of {column.name!r} is not about that of its account: half of "
                f"it is {found:.6g}, the noise makes {least:.6g} to {wanted:.6g}"
            )
    return (problems, names) if names else None


def error_parts(stored: Stored, guarantee: Guarantee) -> tuple[list[str], list[str]] | None:
    """The standard error of a bounded or default mean from its two parts: what is wrong, and the
    name of what was compared; None where the parts are not stored."""
    rows = own_rows(stored)
    if stored.get("estimator") not in (BOUNDED, DEFAULT) or len(rows) != 1:
        return None
    interval = mapped(stored["interval"])
    parts, level = mapped(interval["half_widths"]), number(interval["level"])
    noise, sampling = (numbers(parts.get(name, [])) for name in ("noise", "sampling"))
    error, name = number(rows[0]["std_error"]), f"{rows[0]['group']} {rows[0]['term']}".strip()
    if not (len(noise) == len(sampling) == 1) or level is None or not 0 < level < 1:
        return None
    one, two = noise[0], sampling[0]
    if one is None or two is None:
        return None
    if error is None:
        wrong = two > 0
        return ([f"the standard error of {name!r} is missing"] if wrong else []), [name]
    z = normal_quantile((1 - level) / 2)
    ratios = sorted((z, laplace_quantile((1 - level) / 2, (math.sqrt(0.5),))))
    least, most = (math.hypot(one / ratio, two / z) for ratio in reversed(ratios))
    if least * (1 - CLOSE) <= error <= most * (1 + CLOSE):
        return [], [name]
    return [
        f"the standard error of {name!r} is not that of its parts: {error:.6g}, from noise and "
        f"sampling {least:.6g} to {most:.6g}"
    ], [name]
