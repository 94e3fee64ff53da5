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

from privmean.bisection import bisect
from privmean.inference.status import POINT_MASS, read_status
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.guarantee import MEMBERSHIP, Guarantee
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent
from privmean.release.agreement import BOUNDED, PRESENT, Parts, row_name
from privmean.release.stored_release import about, mapped, number, numbers, text

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

    def above(t: float) -> float:
        return sum(w * math.exp(-t / b) for w, b in zip(weights, moved, strict=True))

    return bisect(lambda t: above(t) > tail, 0.0, sum(moved) * math.log(1 / tail), 200)[1]


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


def half_length(tail: float, scales: Sequence[float], *, gaussian: bool) -> float:
    """What a sum of noises of these scales (deviations if gaussian) passes with chance `tail`."""
    return (
        normal_quantile(tail) * math.hypot(*scales) if gaussian else laplace_quantile(tail, scales)
    )


class Column(NamedTuple):
    """One column of a stored release: its place, its noise interval and estimate, its limits, one
    less its level, its people and whether they share one value."""

    place: int
    name: str
    low: float
    high: float
    estimate: float
    limits: tuple[float, float]
    alpha: float
    n: float | None
    is_point_mass: bool

    @property
    def half(self) -> float:
        """Half of the noise interval."""
        return (self.high - self.low) / 2


def columns_of(parts: Parts) -> Iterator[Column]:
    """The columns whose numbers are all known."""
    level = parts.level
    region = parts.limits("noise_interval") or parts.limits("interval")
    if level is None or not 0 < level < 1:
        return
    for place, (row, limits) in enumerate(zip(parts.own, region, strict=False)):
        least, most = limits
        low, high, estimate = (number(row[x]) for x in ("noise_lower", "noise_upper", "estimate"))
        if low is None or high is None or estimate is None or least is None or most is None:
            continue
        yield Column(
            place, row_name(row), low, high, estimate, (least, most), 1 - level, number(row["n"]),
            read_status(row["status"]) == POINT_MASS,
        )  # fmt: skip


Compared = Iterator[tuple[str, str]]  # what was compared ("": in part), and what is wrong, if any


def recomputed_noise(parts: Parts, guarantee: Guarantee) -> Compared:
    """The noise of a bounded or default mean from the account, where the account tells. Where
    people without a value are seen, or a tail was told with the value, a default mean has at least
    this noise."""
    stored, method = parts.stored, parts.stored.get("estimator")
    if method not in (BOUNDED, DEFAULT) or stored.get("estimand") not in PEOPLE:
        return
    if "groups" in stored or "curve" in stored or (method == DEFAULT and len(parts.own) != 1):
        return
    paid = [loss for loss in guarantee.mechanisms if loss.name.split(": ")[-1] in LAST]
    said = mapped(stored["diagnostics"])
    present = next((said[name] for name in PRESENT if name in said), None)
    counts = numbers(present if isinstance(present, list) else [present])
    joint = len(paid) == 1 and isinstance(paid[0], Gaussian)
    if len(counts) != len(parts.own) or not (joint or len(paid) == len(parts.own)):
        return
    for column in columns_of(parts):
        count, loss = counts[column.place], paid[0 if joint else column.place]
        found = None if count is None else _half(column, loss, count, parts, guarantee)
        if found is not None:
            half, exact = found
            wrong = list(_unlike(column, parts, half, exact=exact))
            yield from ((column.name if exact else "", problem) for problem in wrong or [""])


def _half(
    column: Column, loss: PrivacyEvent, count: float, parts: Parts, guarantee: Guarantee
) -> tuple[float, bool] | None:
    """Half the noise interval of a column, and whether it is that or at least that."""
    low, high = column.limits
    radius, middle = (high - low) / 2, (low + high) / 2
    gaussian = isinstance(loss, Gaussian)
    if radius <= 0 or not (gaussian or isinstance(loss, Laplace)):
        return None
    default = parts.stored.get("estimator") == DEFAULT
    corrected = text(parts.stated_interval("noise_interval")["target"]).startswith("corrected")
    theta = ((column.estimate if default else (column.low + column.high) / 2) - middle) / radius
    unit = math.sqrt(len(parts.own)) / loss.mu if gaussian else float(1 / loss.pure)
    exact, divisor = True, max(count, 1.0)
    scales: tuple[float, ...] = (abs(1 - theta) * unit, abs(theta) * unit, abs(1 + theta) * unit)
    if guarantee.neighbors == REPLACE_ONE:
        persons = number(parts.stored.get("n"))
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
    return radius * half_length(column.alpha / 2, scales, gaussian=gaussian) / divisor, exact


def _unlike(column: Column, parts: Parts, half: float, *, exact: bool) -> Iterator[str]:
    """What the noise interval says otherwise."""
    inner = min(column.estimate - column.low, column.high - column.estimate)
    found = column.half if parts.stored.get("estimator") == BOUNDED else inner
    size = half + 1e-9 * max(abs(column.low), abs(column.high))

    def fits(stated: float) -> bool:
        return about(stated, half, size, CLOSE) if exact else stated >= half - CLOSE * size

    if not fits(found):
        yield (
            f"the noise interval of {column.name!r} is not that of its account: half of it is "
            f"{found:.6g}, the noise makes {half:.6g}{'' if exact else ' or more'}"
        )
    for name in ("interval", "noise_interval") if len(parts.own) == 1 else ():
        for stated in numbers(mapped(parts.stated_interval(name)["half_widths"]).get("noise", [])):
            if stated is None or not fits(stated):
                yield f"the part of the noise in the {name} is not that of its account"


def least_noise(parts: Parts, guarantee: Guarantee) -> Compared:
    """Noise intervals that no mechanism of this loss can have."""
    if parts.stored.get("estimator") == SHORTENED:
        return
    for column in columns_of(parts):
        persons = column.n if column.n is not None else number(parts.stored.get("n"))
        if persons is None or column.is_point_mass:
            continue
        moved = people_told_apart(guarantee, column.alpha)
        low, high = column.limits
        # one who is added to many moves the mean by the width over their number, and less of few
        least = moved * (high - low) / (max(persons, 1.0) + moved)
        short = column.high - column.low < least * (1 - ROOM)
        yield column.name, (
            f"the noise interval of {column.name!r} is shorter than that of any release of "
            f"this loss: {column.high - column.low:.6g}, at least {least:.6g}" if short else ""
        )  # fmt: skip


def group_noise(parts: Parts, guarantee: Guarantee) -> Compared:
    """Noise intervals of groups from the account, as closely as noisy counts of people tell.

    A mean is divided by the last noisy count of a group, and the file states a better one: both
    differ by the noise of a count, which is the tolerance.
    """
    entries = [loss for loss in guarantee.mechanisms if loss.name.split(": ")[-1] in GROUPED]
    if not parts.tables or not entries:
        return
    gaussian = all(isinstance(loss, Gaussian) for loss in entries)
    units = {1 / loss.mu if gaussian else float(1 / loss.pure) for loss in entries if loss.rho}
    most = number(mapped(parts.stored["plan"]).get("groups a person counts fully in"))
    if len(units) != 1 or most is None or not (gaussian or all(loss.pure for loss in entries)):
        return
    replaced = guarantee.neighbors == REPLACE_ONE
    unit = units.pop() * most * ((math.sqrt(2) if gaussian else 2.0) if replaced else 1.0)
    noise = parts.stated_interval("noise_interval")
    centers = list(zip(numbers(noise["lower"]), numbers(noise["upper"]), strict=True))
    for column in columns_of(parts):
        low, high = column.limits
        room = COUNT_ROOM * unit / max(column.n or 0.0, 1e-300)
        if column.n is None or column.is_point_mass or not (high > low and 0 < room < 0.5):
            continue
        center = sum(float(end or 0.0) for end in centers[column.place]) / 2
        theta = (2 * center - low - high) / (high - low)
        scales, tail = [unit * abs(x) for x in (1 - theta, theta, 1 + theta)], column.alpha / 2
        size = (high - low) / 2 / column.n
        wanted = least = half_length(tail, scales, gaussian=gaussian) * size
        if MEMBERSHIP in guarantee.public:
            # a replaced person stays in one group: the sum has noise, the count may have none
            fewest = normal_quantile(tail) / math.sqrt(2) if gaussian else math.log(0.5 / tail)
            least = min(wanted, unit * fewest * size)
        fits = least * (1 - room) <= column.half <= wanted * (1 + room) + ROOM * wanted
        yield column.name, (
            "" if fits else
            f"the noise interval of {column.name!r} is not about that of its account: half of "
            f"it is {column.half:.6g}, the noise makes {least:.6g} to {wanted:.6g}"
        )  # fmt: skip


def error_parts(parts: Parts, guarantee: Guarantee) -> Compared:
    """The standard error of a bounded or default mean from its two parts, where they are stored."""
    if parts.stored.get("estimator") not in (BOUNDED, DEFAULT) or len(parts.own) != 1:
        return
    (row,), level = parts.own, parts.level
    halves = mapped(parts.stated_interval("interval")["half_widths"])
    noise, sampling = (numbers(halves.get(name, [])) for name in ("noise", "sampling"))
    error, name = number(row["std_error"]), row_name(row)
    if not (len(noise) == len(sampling) == 1) or level is None or not 0 < level < 1:
        return
    one, two = noise[0], sampling[0]
    if one is None or two is None:
        return
    if error is None:
        yield name, f"the standard error of {name!r} is missing" if two > 0 else ""
        return
    tail = (1 - level) / 2
    z = normal_quantile(tail)
    ratios = sorted((z, laplace_quantile(tail, (math.sqrt(0.5),))))
    least, most = (math.hypot(one / ratio, two / z) for ratio in reversed(ratios))
    fits = least * (1 - CLOSE) <= error <= most * (1 + CLOSE)
    yield name, (
        "" if fits else
        f"the standard error of {name!r} is not that of its parts: {error:.6g}, from noise and "
        f"sampling {least:.6g} to {most:.6g}"
    )  # fmt: skip
