"""The difference of two groups as a question of its own: two arms, or the same people twice."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from privmean import validate
from privmean.data.grids import RESOLUTION
from privmean.data.key_text import key_texts
from privmean.data.read_pairs import Difference, Pairs
from privmean.data.schema import TypeBounds
from privmean.errors import ArgumentError
from privmean.estimators.groups.group_means import GroupMeans
from privmean.estimators.means.bounded import BoundedMean
from privmean.estimators.means.default_mean import DefaultMean
from privmean.inference.contrasts import contrasts_of
from privmean.privacy.budget import Neighbors
from privmean.questions.assumptions import (
    WHOLE,
    ColumnTypes,
    check_keys,
    clip_bounds,
    declared_keys,
    limited,
)
from privmean.questions.base import PRIVATE, PUBLIC, Estimator, QuestionDefaults
from privmean.release.release import as_kind
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget
    from privmean.release.release import Release

TRUE, FALSE = ("1", "true"), ("0", "false")


@known_keywords
@dataclass(frozen=True)
class Compare(QuestionDefaults):
    """Compare two groups: effect, confidence interval and p-value.

    Parameters
    ----------
    value : str
        Column to average.
    arms : str, optional
        Column of the arm of each person, fixed before the values: 1 (treated) or 0 (control). A
        person with records in both arms belongs to the more frequent arm.
    levels : list, optional
        The two arms by name, the treated arm first.
    baseline : str, optional
        Column of baseline values, which narrow the interval. People without one are excluded.
    baseline_slope : float, default 1.0
        Multiple of the baseline mean that is subtracted.
    by : str, optional
        Group column of a pair, for the same people in two groups. Either `arms` or `by` is
        required.
    pair : list, optional
        The two groups; the first minus the second is released, for people with records in both.
    membership : {"private", "public"}, default "private"
        Whether the arm of a person is private. Public arms have exact sizes, and less noise than
        private arms under replace-one.
    resolution : float, default 2**-36
        Grid step: values are rounded to this power of two, in their unit.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: pure epsilon, for any data. The default neighbors are
    add-remove for private arms, and replace-one otherwise. Public are the group keys, the settings
    and, with public membership, the roster and the arm of each person.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Compare("ln_wage", by="union", pair=("1", "0"))
    print(pm.ask(table, question, epsilon=1.0))
    """

    kind: ClassVar[str] = "compare"

    value: Annotated[str, "Name the column to average."]
    arms: Annotated[str | None, "Name the column of the arm of each person."] = None
    levels: Annotated[tuple[str, ...] | None, "Name an arm; give the treated arm first."] = None
    baseline: Annotated[str | None, "Name the column of baseline values."] = None
    baseline_slope: Annotated[float, "Subtract this multiple of the baseline."] = 1.0
    by: Annotated[str | None, "Name the group column of a pair."] = None
    pair: Annotated[tuple[str, ...] | None, "Compare these two groups within the same people."] = (
        None
    )
    membership: Annotated[str, "Say whether the arm of a person is private or public."] = PRIVATE
    resolution: Annotated[float, "Round values to this power of two."] = RESOLUTION

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise ArgumentError("value", self.value, "is not a column", "name one column")
        missing = "name the column of arms, or by and pair for the same people in two groups"
        validate.one_of_two(missing, arms=self.arms, by=self.by)
        validate.keep(self, validate.power_of_two, "resolution")
        validate.keep(self, validate.number, "baseline_slope")
        if self.baseline_slope != 1 and self.baseline is None:
            raise ArgumentError(
                "baseline_slope",
                self.baseline_slope,
                "requires baseline",
                "name the column of earlier values, or remove it",
            )
        validate.choice("membership", self.membership, [PRIVATE, PUBLIC])
        if self.by is not None and self._public:
            raise ArgumentError(
                "membership", self.membership, "requires arms", "remove it, or name arms"
            )
        mine = ("levels", "baseline") if self.by is not None else ("pair",)
        validate.refuse_said(self, mine, "is not used by this comparison", "remove it")
        _ = self.summary

    @property
    def default_neighbors(self) -> Neighbors:
        """The neighbors where a call names none."""
        return "replace-one" if self.by is not None or self._public else "add-remove"

    @property
    def _public(self) -> bool:
        return self.membership == PUBLIC

    @cached_property
    def keys(self) -> tuple[str, str]:
        """The two keys as texts, the first less the second."""
        name, said = ("pair", self.pair) if self.by is not None else ("levels", self.levels)
        if said is None and self.arms is not None:
            return TRUE[0], FALSE[0]
        given: Any = said
        listed = [] if given is None or isinstance(given, str) else list(given)
        if len(listed) != 2:
            raise ArgumentError(
                name, said, "must be two keys", "give two keys such as 'new' and 'old'"
            )
        (one,), (two,) = key_texts(name, listed, 1)
        return one, two

    @property
    def summary(self) -> Pairs | Difference:
        one, two = self.keys
        if self.by is not None:
            return Difference(self.value, self.by, (one, two), self.resolution)
        assert self.arms is not None
        more: tuple[tuple[tuple[str, ...], int], ...] = ()
        if self.levels is None:  # places follow the order of texts: "0", "1"
            more = (((FALSE[1],), 0), ((TRUE[1],), 1))
        return Pairs(
            self.value, (self.arms,), ((one,), (two,)), resolution=self.resolution,
            before=self.baseline, slope=float(self.baseline_slope), aliases=more,
            public=self._public,
        )  # fmt: skip

    def with_public_facts(self, table: Table | None) -> Compare:
        """With what declared types say of a person's value, and of the keys."""
        if table is not None:
            self._check_keys(table)
        columns = (self.value,) if self.baseline is None else (self.value, self.baseline)
        types = ColumnTypes.of(table, columns)
        if not types.found or any(item is None for item in types.found):
            return self
        (low, high), *before = (pair or WHOLE for pair in types.limits)
        for one, two in before:
            ends = [self.baseline_slope * end if self.baseline_slope else 0.0 for end in (one, two)]
            low, high = low - max(ends), high - min(ends)
        clipped = all(isinstance(pair, TypeBounds) for pair in types.limits)
        pair = TypeBounds((low, high)) if clipped else (low, high)
        return types.in_question(self, (pair,))

    def _check_keys(self, table: Table) -> None:
        """Refuse keys that the declared type of their column does not list."""
        if self.by is not None:
            check_keys("pair", table, (self.by,), [(key,) for key in self.keys])
            return
        column = str(self.arms)
        if self.levels is not None:
            check_keys("levels", table, (column,), [(key,) for key in self.keys])
            return
        listed = declared_keys(table, (column,))
        if listed is not None and not all(
            {(k,) for k in arm} & set(listed) for arm in (TRUE, FALSE)
        ):
            raise ArgumentError(
                "levels", None, f"is required: the declared type of {column!r} lists no 1 and 0",
                "name the two arms, the treated arm first",
            )  # fmt: skip

    @property
    def _difference(self) -> tuple[float, float] | None:
        """What the limits of values allow a difference."""
        if not self.limits or self.limits[0] is None:
            return None
        low, high = self.limits[0]
        return low - high, high - low

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Estimator:
        asked = self.summary
        if isinstance(asked, Difference):
            between = self._difference
            if between is None or not clip_bounds(self.limits):
                return DefaultMean()
            return BoundedMean(TypeBounds(between))
        return GroupMeans(
            asked.groups, public_groups=self._public, common=True, bounds=clip_bounds(self.limits)
        )

    def to_release(self, release: Release) -> Release:
        between = self._difference if self.by is not None else None
        release = limited(release, self.limits if between is None else (between,))
        if self.by is not None:
            from privmean.estimators.groups.group_release import EffectRelease

            words = f"difference of mean {self.value} by {self.by}"
            words = f"{words}, people weighted equally if in both groups"
            return as_kind(release, EffectRelease, estimand=words)
        from privmean.estimators.groups.group_release import CompareRelease, group_release

        text = f"{self.keys[0]} - {self.keys[1]}"
        (effect,) = contrasts_of([text], self.keys)
        term = self.value
        if self.baseline is not None:
            part = "" if self.baseline_slope == 1 else f"{self.baseline_slope:g} "
            term = f"{self.value} - {part}{self.baseline}"
        made = group_release(
            release, term=term, by=(str(self.arms),), keys=self.keys, contrasts=[effect],
            shrink=False,
        )  # fmt: skip
        told = as_kind(made, CompareRelease)
        if told.advice or not math.isnan(told.effect.estimate):
            return told
        advice = f"No effect is shown: too few people, or {self.arms} has other keys than "
        return replace(told, advice=f"{advice}{' and '.join(self.keys)}.")
