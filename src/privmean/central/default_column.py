"""One column of the default mean: locate, limits from a count beyond them, release the sum.

The mechanism of `default_mean` for a column and a share of epsilon; see docs/proofs/default-mean.md
for the claim. All prices are exact rationals; the last stage takes whatever is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from privmean.central.clipped_mean import ClippedMean
from privmean.central.clipping_region import NOBODY, ClippingRegion
from privmean.central.default_bounds import SNUG, WidenedBounds, widened
from privmean.central.default_outliers import (
    WIDTHS,
    OutliersSetAside,
    missing_step,
    set_outliers_aside,
    tail_centre,
    with_missing,
)
from privmean.central.default_record_mean import RecordIntervals, record_sums, too_few
from privmean.central.find_region import RoundSchedule, find_region, is_nearly_empty
from privmean.central.log_histogram import ATOM_ONLY, BEYOND, FOUND, RANGE
from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.person_table import ClipInterval, IntervalSums, PersonTable
from privmean.inference.assumptions import missing_count_at
from privmean.inference.clipped_intervals import CLIPPED, MEAN, ColumnIntervals
from privmean.inference.interval import IntervalMaker
from privmean.inference.mean_interval import ClippingBiasBound, ClipUnits
from privmean.inference.outlier_check import OutlierCheck, outlier_status
from privmean.inference.ratio_with_missing import (
    FEWEST,
    TOO_FEW,
    RatioWithMissing,
    is_undetected,
)
from privmean.inference.status import FAILED, POINT_MASS
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import as_counts
from privmean.plurals import count_noun
from privmean.privacy.budget import REPLACE_ONE, Relation

WIDE = 2.0  # factor on the outer edge of the last occupied bin where no count follows (else SNUG)
CHECK = 0.2  # part of what is left for counting people beyond the limits
COUNT_CHECK = 0.3  # under add-remove, where the count stands in for a joint tail share

LAST = "clipped sums"
UNREADABLE = "Almost no person has a readable value. Is the column numeric?"
ESTIMATE, INTERVAL, LIMITED = None, "mean", "clipped"  # the three values of `target`


@dataclass(frozen=True)
class Settings:
    """Public choices: the target, the stated excess and design effect, and what follows from them.

    check: part of what is left for the count beyond the limits (0: none). lean: whether people
    times epsilon are few. safety: factor on the outer edges. joint_tail: whether the last stage
    releases the tail share with the value.
    """

    target: str | None
    excess: float
    design_effect: float
    check: float
    lean: bool
    safety: float
    joint_tail: bool

    @classmethod
    def of(
        cls,
        target: str | None,
        excess: float,
        design_effect: float,
        relation: Relation,
        lean: bool,
    ) -> Settings:
        joint = target == INTERVAL and relation == REPLACE_ONE
        check = 0.0
        if target is ESTIMATE:
            check = CHECK
        elif target == INTERVAL and not joint:
            check = COUNT_CHECK
        safety = SNUG if check or lean else WIDE
        return cls(target, excess, design_effect, check, lean, safety, joint)


@dataclass(frozen=True)
class ColumnRelease:
    """The private outcome of one column."""

    estimate: float
    status: str
    advice: str
    intervals: IntervalMaker
    shares: dict[str, float]
    diagnostics: dict[str, Any]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class _ColumnReport:
    """What goes with every number of a column: what is asked for, what was found on the way, and
    which shares of the budget that took."""

    settings: Settings
    path: dict[str, Any]
    shares: dict[str, float]

    def release(
        self,
        estimate: float,
        standing: tuple[str, str],
        intervals: IntervalMaker,
        facts: Mapping[str, Any] = MappingProxyType({}),
        assumptions: tuple[str, ...] = (),
    ) -> ColumnRelease:
        """standing: status and advice."""
        told = {**self.path, **facts}
        return ColumnRelease(estimate, *standing, intervals, self.shares, told, assumptions)

    def nothing(
        self,
        status: str,
        advice: str,
        estimate: float = math.nan,
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> ColumnRelease:
        """A release without sums: there is no interval."""
        target = CLIPPED if self.settings.target == LIMITED else MEAN
        made = ColumnIntervals(None, default=target, status=status)
        return self.release(estimate, (status, advice), made, facts)


def release_column(
    curator: Curator,
    column: int,
    spender: PureBudgetSpender,
    schedule: RoundSchedule,
    settings: Settings,
    relation: Relation,
) -> ColumnRelease:
    """Run all stages on one column; `spender` holds what they may cost."""
    before = spender.left
    place = find_region(curator, column, schedule, settings.safety, spender, relation)
    shares = {"location": float((before - spender.left) / spender.total)}
    return release_located(curator, column, place, spender, schedule.n, settings, relation, shares)


def release_located(
    curator: Curator,
    column: int,
    place: ClippingRegion,
    spender: PureBudgetSpender,
    persons: int,
    settings: Settings,
    relation: Relation,
    shares: dict[str, float],
) -> ColumnRelease:
    """The stages after the location, wherever it was found; `spender` holds what they may cost.
    persons: public, or a noisy number."""
    people = curator.people
    course = _ColumnReport(settings, place.path, shares)
    if place.outcome == ATOM_ONLY:
        return _atom(curator, column, place, course, spender)
    if place.outcome != FOUND:
        shares["unspent"] = float(spender.left / spender.total)
        return course.nothing(FAILED, _why(place.outcome))
    wide = WidenedBounds((place.lower, place.upper), place)
    if settings.check:
        before, there = spender.left, persons - place.missing.believed
        wide = widened(curator, column, place, spender, settings.check, settings.lean, there)
        shares["count outside bounds"] = float((before - spender.left) / spender.total)
    limits, place = wide.limits, wide.place
    box = ClipInterval(*limits)
    final = spender.spend(spender.left)
    shares["mean and square"] = float(final / spender.total)
    center = tail_centre(place, limits)
    if people.max_records is not None:
        last = record_sums(LAST, relation, final)
        (found,) = _asked(curator, last, box, _box_sums(people, column, box))
        ratio = ClippedMean(box, found, None, by_records=True)
        return _by_records(course, wide, center, ratio, persons)
    jumps = (0.0, 0.0)
    if settings.joint_tail:  # both sides count alike: the scales follow the larger jump anyway
        jump = max(limits[1] - center, center - limits[0]) / (limits[1] - limits[0])
        jumps = (settings.excess * jump,) * 2
    sums, absent = _box_sums(people, column, box), missing_step(place, box, relation)
    if absent:
        sums = with_missing(sums, people.size() - sums.present, absent)
    apart: OutliersSetAside | None = None
    if settings.check:
        apart = set_outliers_aside(people, column, sums, box, relation)
        sums = apart.sums
    at = Fraction(absent, box.steps)
    last = ClippedSums(
        LAST, relation, epsilon=final, jumps=jumps, apart=apart is not None, absent=at
    )
    (found,) = _asked(curator, last, box, sums, 0 if apart is None else apart.far)
    divided = RatioWithMissing.of(found, persons, place.nulls, absent_at=float(at))
    nobody = is_nearly_empty(divided.absent, persons, spender.total)
    hardly = is_undetected(found) and divided.present < FEWEST * divided.absent.scale
    if nobody or (divided.missing and hardly):
        return course.nothing(FAILED, UNREADABLE if nobody else TOO_FEW)
    apart_at = apart.limits if apart else None
    return _found(course, wide, box, center, found, divided, jumps, apart_at)


def _asked(
    curator: Curator, last: ClippedSums, box: ClipInterval, sums: IntervalSums | None, far: int = 0
) -> list[ColumnSums]:
    """The joint release of one box, billed in its own steps."""
    over = last.over(
        [box], max_records=curator.people.max_records, billed=(last.loss_at(box.steps),)
    )
    return curator.ask(over, over.exact([sums], [far]))


def _box_sums(people: PersonTable, column: int, box: ClipInterval) -> Any:
    boxes = [box if j == column else None for j in range(len(people.columns))]
    return people.interval_sums(boxes)[column]


def _counts(wide: WidenedBounds) -> dict[str, Any]:
    """Diagnostics of the counts beyond the limits."""
    facts: dict[str, Any] = {}
    for name, count in zip(("first", "second"), wide.counts, strict=False):
        facts[f"people beyond the {name} limits"] = count.n
        facts["noise scale of that count" if name == "first" else "noise scale of the second"] = (
            count.scale
        )
        facts[f"{name} limits"] = list(count.limits)
    if wide.passed:
        facts["limits stepped back"] = wide.back
        facts["counts before"] = [
            {"limits": list(item.limits), "n": item.n, "noise scale": item.scale}
            for item in wide.passed
        ]
    return facts


def _why(outcome: str) -> str:
    """What a failure says: what was seen, and what helps."""
    if outcome == NOBODY:
        return UNREADABLE
    if outcome == BEYOND:
        return RANGE
    return "No region was found privately. Give bounds, raise epsilon or add people."


def _atom(
    curator: Curator,
    column: int,
    place: ClippingRegion,
    course: _ColumnReport,
    spender: PureBudgetSpender,
) -> ColumnRelease:
    """Nearly everybody has one value: what is left counts the people who have another one."""
    course.shares["other values"] = float(spender.left / spender.total)
    step = spender.counts("other values", spender.left, 1)
    (found,) = curator.ask(
        step, as_counts(sum(curator.people.count_outside(column, *[place.origin] * 2)))
    )
    others, scale = max(int(found), 0), float(step.scale)
    advice = (
        f"Left out: about {count_noun(others, 'person')} with another value (noise scale "
        f"{scale:.2g}). Give bounds that hold all values to include all people."
    )
    facts = {"people with another value": int(found), "noise scale of that number": scale}
    return course.nothing(POINT_MASS, advice, place.origin, facts)


def _by_records(
    course: _ColumnReport, wide: WidenedBounds, center: float, ratio: ClippedMean, persons: int
) -> ColumnRelease:
    settings = course.settings
    reach, nearer = wide.reaches(center, settings.excess)
    check, there = None, persons - wide.place.missing.believed
    if settings.check:
        last, again = wide.last, len(wide.counts) > 1
        check = OutlierCheck(
            there,
            last.n,
            last.scale,
            seen=again,
            one_value=wide.one_value,
            between=last.between,
        )
    if too_few(ratio):
        return course.nothing(FAILED, "There are too few records. Add people or raise epsilon.")
    intervals = RecordIntervals(
        ratio,
        reach=reach,
        nearer=nearer if wide.counts and wide.last.weight < 1 else None,
        excess=settings.excess,
        counted_at=wide.last.limits if wide.counts else wide.limits,
        check=check,
        design_effect=settings.design_effect,
        clipped=settings.target == LIMITED,
    )
    facts = {"limits": list(wide.limits), "sum of weights": ratio.sums.weight, **_counts(wide)}
    told = outlier_status(check, wide.place.scarce(there), settings.target == LIMITED)
    return course.release(ratio.estimate, told, intervals, facts)


def _found(
    course: _ColumnReport,
    wide: WidenedBounds,
    box: ClipInterval,
    center: float,
    found: ColumnSums,
    divided: RatioWithMissing,
    jumps: tuple[float, float],
    apart_at: tuple[float, float] | None,
) -> ColumnRelease:
    settings, sums, limits = course.settings, divided.sums, wide.limits
    reach, nearer = wide.reaches(center, settings.excess)
    allowance, check = None, None
    if max(jumps) > 0:
        allowance = ClippingBiasBound(
            found.extra, found.extra_noise, 2 * max(jumps), corrected=True
        )
        per = max(jumps)
        one = wide.one_value
        check = OutlierCheck(sums.n, found.extra / per, found.extra_noise / per, one_value=one)
    elif settings.check:
        # a far person, 2 * WIDTHS radii or more beyond a limit, moves the value by one radius more
        # than a person at that limit (by two if left out)
        moved = 2 if sums.partition else 1
        unit = reach / box.radius * (1 + 0.5 * moved / WIDTHS)
        beyond, scale = wide.last.n, wide.last.scale
        allowance = ClippingBiasBound(unit * beyond, unit * scale, unit)
        check = OutlierCheck(
            sums.n,
            beyond,
            scale,
            found.extra,
            found.extra_noise,
            seen=len(wide.counts) > 1,
            room=2 * WIDTHS * box.radius / reach if reach else math.inf,
            one_value=wide.one_value,
            between=wide.last.between,
        )
    intervals = ColumnIntervals(
        sums,
        ClipUnits(box.middle, box.radius, limits),
        default=CLIPPED if settings.target == LIMITED else MEAN,
        allowance=allowance,
        check=check,
        excess=settings.excess,
        reach=reach,
        nearer=nearer if wide.counts and wide.last.weight < 1 else None,
        counted_at=wide.last.limits if wide.counts else limits,
        apart_at=apart_at,
        design_effect=settings.design_effect,
    )
    estimate = box.middle + box.radius * sums.mean
    if max(jumps) == 0:
        estimate = min(max(estimate, limits[0]), limits[1])
    facts = {"limits": list(limits), "people with a value": divided.present, **_counts(wide)}
    if apart_at is not None:
        facts["people far beyond the limits"] = found.extra
        facts["noise scale of that number"] = found.extra_noise
        facts["far limits"] = list(apart_at)
    words = []
    if not divided.missing:
        where = "the middle of the limits"
        if sums.missing:
            mean = box.middle + box.radius * sums.missing
            where = f"{mean:.6g}, about the mean of what was seen"
        words.append(missing_count_at(where))
    scarce = wide.place.scarce(sums.n)
    told = outlier_status(check, scarce, settings.target == LIMITED)
    return course.release(estimate, told, intervals, facts, tuple(words))
