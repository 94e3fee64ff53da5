"""The mean of people in some columns, and which estimator answers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from privmean import validate
from privmean.data.grids import RESOLUTION
from privmean.data.schema import BOOLEAN, Estimand, TypeBounds
from privmean.data.table import RecordMeans, Table
from privmean.errors import ArgumentError
from privmean.questions.assumptions import (
    BOUNDS,
    CONCENTRATION,
    COVARIANCE,
    MOMENT,
    Assumption,
    ColumnTypes,
    Covariance,
    Related,
    argument_name,
    check_keys,
    clip_bounds,
    declared_keys,
    given_estimator,
    is_unit_pair,
    kind_of,
    limited,
)
from privmean.questions.base import PRIVATE, PUBLIC, Estimator, QuestionDefaults
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.read_pairs import Pairs
    from privmean.estimators.groups.group_means import GroupMeans
    from privmean.estimators.winsorized import RandomEffects
    from privmean.privacy.budget import Budget, Neighbors
    from privmean.questions.grouping import Grouping
    from privmean.release.release import Release

GROUPED = (
    "keys", "max_groups", "contrasts", "membership", "group_rule", "other_group", "shrink",
    "simultaneous",
)  # fmt: skip
Named = Literal[
    "auto",
    "default",
    "winsorized",
    "bounded",
    "heavy-tailed",
    "anisotropic",
    "magnitudes",
]
METHODS: tuple[Named, ...] = get_args(Named)
NEEDED = {
    "bounded": "bounds, such as assume=(0, 10)",
    "heavy-tailed": "assume=BoundedMoment(order=..., bound=...)",
}
OF = {
    BOUNDS: "bounded",
    CONCENTRATION: "winsorized",
    MOMENT: "heavy-tailed",
    COVARIANCE: "anisotropic",
}


@known_keywords
@dataclass(frozen=True)
class Mean(QuestionDefaults):
    """Estimate means of people in one or several columns, also by group.

    Parameters
    ----------
    values : str or list of str, optional
        Columns to average; * and ? are wildcards. Default: all columns of an array.
    estimand : {"people", "records"}, default "people"
        People weighted equally, or a record-weighted mean up to `max_records` records.
    max_records : int, optional
        The most records per person that count, for "records".
    resolution : float, default 2**-36
        Grid step: values are rounded to this power of two, in their unit.
    assume : bounds, concentration, BoundedMoment or Covariance, optional
        What accuracy assumes; privacy assumes nothing. Default: the range is found privately.
    method : str or estimator, default "auto"
        Estimator by name, or itself such as `DefaultMean(target="mean")`.
    clustering : float or RandomEffects, default 1.0
        Design effect of clustered people, or random effects of public groups.
    by : str or list of str, optional
        Group columns. A person is in a group with any of the values; the values share the counts.
    keys : list, optional
        Public group keys. Without them keys are private, which requires delta > 0.
    max_groups : int, default 1
        Groups in which one person counts fully. In m > max_groups groups the weight is
        max_groups/m.
    contrasts : str or list of str, optional
        Comparisons such as "north - south", "each - rest" or "all pairs".
    membership : {"private", "public"}, default "private"
        Whether the groups of a person are private. Public membership has less noise.
    group_rule : {"most_frequent", "split"}, optional
        Whether a person counts in the most frequent group, or in all with split weight.
    other_group : bool, default False
        Add one group for all keys that are not listed.
    shrink : bool, default False
        Add means shrunk towards each other.
    simultaneous : bool, default False
        Make the intervals of all groups hold jointly.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data. By group the default neighbors are add-remove, unless membership is
    public. Public are the columns, the settings and, under replace-one, the roster.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Mean("ln_wage", assume=pm.SubGaussian(sd=0.5))
    print(pm.ask(table, question, epsilon=1.0, delta=1e-6))
    """

    kind: ClassVar[str] = "mean"
    wants_shared_location: ClassVar[bool] = True

    values: Annotated[
        tuple[str, ...] | Sequence[str] | None, "Name a column to average; repeat for more."
    ] = None
    estimand: Annotated[Estimand, "Weight people equally, or records up to a limit."] = "people"
    max_records: Annotated[int | None, "Count at most this many records per person."] = None
    resolution: Annotated[float, "Round values to this power of two."] = RESOLUTION
    assume: Annotated[Assumption | None, "Assume this about the values; see the method guide."] = (
        None
    )
    method: Annotated[Named | Estimator, "Choose the estimator; auto uses public facts only."] = (
        "auto"
    )
    clustering: Annotated[Related, "Give the design effect of clustered people."] = 1.0
    by: Annotated[tuple[str, ...] | None, "Name the group column; repeat for crossed groups."] = (
        None
    )
    keys: Annotated[Any, "List the public group keys, with commas."] = None
    max_groups: Annotated[int, "Count each person in at most this many groups."] = 1
    contrasts: Annotated[
        tuple[str, ...] | None, "Compare groups: 'a - b', 'each - rest' or 'all pairs'."
    ] = None
    membership: Annotated[str, "Say whether group membership is private or public."] = PRIVATE
    group_rule: Annotated[str | None, "Assign each person to one group, or split the weight."] = (
        None
    )
    other_group: Annotated[bool, "Add one group for all keys that are not listed."] = False
    shrink: Annotated[bool, "Add means shrunk towards each other."] = False
    simultaneous: Annotated[bool, "Make the intervals of all groups hold jointly."] = False

    def __post_init__(self) -> None:
        validate.keep(self, validate.power_of_two, "resolution")
        validate.keep(self, validate.whole, "max_groups")
        related = random_effects(self.clustering) is not None
        if not related:
            validate.keep(self, validate.positive, "clustering")
        for word in ("values", "by"):
            named = getattr(self, word)
            if named is not None:
                object.__setattr__(self, word, validate.columns(word, named))
        listed = (*(self.values or ()), *(self.by or ()))
        for name in listed:
            if listed.count(name) > 1:
                word = "by" if name in (self.by or ()) else "values"
                raise ArgumentError(word, name, "is named twice", "name each column once")
        if self.by is not None:
            self._check_groups()
            return
        validate.refuse_said(self, GROUPED, "requires by", "name the group column")
        _ = self.summary
        if related and (self.assume is not None or self.method != "auto"):
            raise ArgumentError(
                "clustering",
                self.clustering,
                "cannot be combined with assume or method",
                "remove assume and method",
            )
        self._chosen(by_records=self.estimand == "records")

    @property
    def default_neighbors(self) -> Neighbors:
        """The neighbors where a call names none."""
        private = self.by is not None and self.membership != PUBLIC
        return "add-remove" if private else "replace-one"

    @cached_property
    def grouping(self) -> Grouping:
        """What is said of groups; only where `by` names them."""
        from privmean.questions.grouping import grouping_of

        return grouping_of(
            self.by or (), self.keys, self.max_groups, self.contrasts, self.membership,
            self.group_rule, self.other_group,
        )  # fmt: skip

    @property
    def summary(self) -> RecordMeans | Pairs:
        if self.by is not None:
            return self._pairs()
        named = None if self.values is None else tuple(self.values)
        return RecordMeans(named, self.estimand, self.max_records, self.resolution)

    def with_public_facts(self, table: Table | None) -> Mean:
        """With the sizes of the public groups, where random effects name their column, and with
        what declared types say: bounds of columns, and keys where none are given."""
        known = self._with_sizes(table)
        if known.by is not None and table is not None:
            known = known._with_keys(table)
        types = ColumnTypes.of(table, known.values)
        limits, assume = types.limits, known.assume
        free = (
            known.by is None and known.method == "auto" and random_effects(known.clustering) is None
        )
        said = assume is None or is_unit_pair(assume)
        if limits and set(limits) == {BOOLEAN} and free and said:
            return types.in_question(known, assume=BOOLEAN)
        if assume is not None and kind_of(assume) == BOUNDS:
            limits = types.beside(assume, known.resolution)
        if known.by is None or known.keys is None or table is None:
            return types.in_question(known, limits)
        listed = known.grouping.keys == declared_keys(table, known.by)
        return types.in_question(known, limits, known.by if listed else ())

    @property
    def awaits_keys(self) -> bool:
        """Whether its keys are those of declared types, if these list any."""
        return self.by is not None and self.keys is None

    def _with_keys(self, table: Table) -> Mean:
        """With all keys that the columns' types list, where none are given; keys that are given are
        compared with the types."""
        by = self.by or ()
        if not self.awaits_keys:
            check_keys("keys", table, by, self.grouping.keys or ())
            return self
        found = declared_keys(table, by)
        return self if found is None else replace(self, keys=found)

    def _with_sizes(self, table: Table | None) -> Mean:
        effects = random_effects(self.clustering)
        if effects is not None and effects.group_sizes is None:
            if table is None or effects.group is None:
                raise ArgumentError(
                    "group_sizes", None, "are required", "give them, or a table with the column"
                )
            sized = replace(effects, group_sizes=table.groups(effects.group))
            return replace(self, clustering=sized)
        return self

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Estimator:
        """Who answers. With nothing given and several columns: the cheapest of three ways."""
        if self.by is not None:
            return self._by_group()
        effects, alone = random_effects(self.clustering), columns == 1 or max_records is not None
        if effects is not None:
            return effects.estimator()
        named = self._chosen(by_records=max_records is not None)
        if self.method == "auto" and (isinstance(self.assume, Covariance) or not alone):
            from privmean.estimators.means.choose_vector_method import Cheapest
            from privmean.estimators.means.default_mean import DefaultMean

            if isinstance(self.assume, Covariance):
                return Cheapest(known=named)
            if self.assume is None:
                assert isinstance(named, DefaultMean)
                return Cheapest(named)
        return named

    def _chosen(self, *, by_records: bool) -> Estimator:
        return chosen(self.method, self.assume, self.clustering, by_records=by_records)

    @property
    def shareable_columns(self) -> tuple[str, ...]:
        """Its column, where it is located privately, people weighted equally."""
        from privmean.estimators.means.default_mean import DefaultMean

        if self.by is not None:
            return self._looked_at_by_group()
        if self.assume is not None or self.summary.names is None or clip_bounds(self.limits):
            return ()
        named = self.summary.names
        if len(named) != 1 or self.summary != RecordMeans(named):
            return ()
        if random_effects(self.clustering) is not None:
            return ()
        method = self.method
        asked = method in ("auto", "default") or (
            isinstance(method, DefaultMean) and method.target is None
        )
        return named if asked else ()

    def from_regions(self, columns: tuple[str, ...]) -> Estimator:
        from privmean.estimators.means.default_mean import DefaultMean
        from privmean.estimators.means.region_mean import RegionMean

        if self.by is not None:
            from privmean.estimators.groups.group_means import RegionGroupMeans

            return RegionGroupMeans(self._by_group())
        if isinstance(self.method, DefaultMean):
            return RegionMean(self.method.excess_ratio, self.method.design_effect)
        assert isinstance(self.clustering, int | float)
        return RegionMean(design_effect=self.clustering)

    def to_release(self, release: Release) -> Release:
        release = limited(release, self.limits)
        if self.by is not None:
            from privmean.estimators.groups.group_release import group_release

            said, by, terms = self.grouping, self.by, self.values or ("",)
            crossed = () if self.other_group else said.keys or ()
            if len(terms) > 1:
                from privmean.estimators.groups.group_release import values_release

                return values_release(
                    release, terms=terms, by=by, keys=said.labels, contrasts=said.contrasts,
                    crossed=crossed, shrink=self.shrink,
                )  # fmt: skip
            return group_release(
                release,
                term=terms[0],
                by=by,
                keys=None if said.keys is None else said.labels,
                contrasts=said.contrasts,
                later=said.later,
                crossed=crossed,
                shrink=self.shrink,
            )
        effects = random_effects(self.clustering)
        if effects is not None:
            shown = {**release.diagnostics, **effects.shown()}
            return replace(release, diagnostics=shown)
        return release

    # --- groups ----------------------------------------------------------------------------------
    def _check_groups(self) -> None:
        named = self.values or ()
        if not named or len(set(named)) < len(named) or any("*" in x or "?" in x for x in named):
            raise ArgumentError(
                "values",
                self.values,
                "must name the columns to average",
                "name the values that are averaged",
            )
        if len(named) > 1 and (self.keys is None or self.simultaneous):
            problem = "can be several columns by group only with keys and pointwise intervals"
            remedy = "use one value, or give keys and remove simultaneous"
            raise ArgumentError("values", named, problem, remedy)
        for name in ("other_group", "shrink", "simultaneous"):
            validate.flag(name, getattr(self, name))
        beside = "cannot be combined with by"
        validate.refuse_said(self, ("estimand", "max_records"), beside, "remove it")
        if self.assume is not None:
            raise ArgumentError(argument_name(self.assume), self.assume, beside, "remove it")
        validate.refuse_said(self, ("clustering",), beside, "remove it")
        self._by_group()

    def _looked_at_by_group(self) -> tuple[str, ...]:
        """One value of people who are in one group each: elsewhere what counts is not one mean a
        person, which a shared location query searches."""
        named, said = tuple(self.values or ()), self.grouping
        alone = len(named) == 1 and not said.weights.split and said.keys is not None
        alone = alone and not clip_bounds(self.limits)
        usual = self.resolution == type(self).resolution and self._by_group().target is None
        return named if alone and usual else ()

    def _pairs(self) -> Pairs:
        from privmean.data.read_pairs import Pairs

        said = self.grouping
        value, *more = self.values or ("",)
        return Pairs(
            value, self.by or (), said.keys, said.weights, self.resolution, self.other_group,
            public=self.membership == PUBLIC, more=tuple(more),
        )  # fmt: skip

    def _by_group(self) -> GroupMeans:
        from privmean.estimators.groups.group_means import GroupMeans
        from privmean.estimators.means.default_mean import DefaultMean

        method: Any = self.method
        target: str | None = None
        if isinstance(method, DefaultMean):
            method, target = "default", method.target
        if method not in ("auto", "default") or target == "mean":
            raise ArgumentError(
                "method",
                self.method,
                "cannot be combined with by",
                "remove it, or use pm.DefaultMean(target='clipped')",
            )
        said, pairs = self.grouping, self._pairs()
        public = None if pairs.keys is None else pairs.groups
        return GroupMeans(
            public, said.weights, target, self.simultaneous, pairs.public,
            bounds=clip_bounds(self.limits),
        )  # fmt: skip


def random_effects(clustering: Related) -> RandomEffects | None:
    """What is said of clustered people, where it is more than a number."""
    if isinstance(clustering, int | float):
        return None
    from privmean.estimators.winsorized import RandomEffects

    return clustering if isinstance(clustering, RandomEffects) else None


def chosen(method: object, assume: object, clustering: Related, *, by_records: bool) -> Estimator:
    """The estimator of a mean by its name or itself, with what accuracy may depend on.

    by_records: it has to answer the mean over records. Raises ArgumentError for words that do not
    go together.
    """
    if not isinstance(method, str):
        remedy = (
            f"choose one of {', '.join(METHODS)}, or an estimator such as pm.WinsorizedMean(...)"
        )
        problem = "is not a name of a method or an estimator"
        besides = {argument_name(assume): assume, "clustering": clustering}
        given = given_estimator(method, besides, problem, remedy)
        return _served(given, by_records)
    kind = _kind(validate.choice("method", method, METHODS), assume)
    return _served(_made(kind, assume, clustering, by_records), by_records)


def _kind(method: str, assume: object) -> str:
    """The method's name, where an assumption or nothing may stand for it."""
    said = None if assume is None else kind_of(assume)
    named = None if said is None else OF[said]
    kind = method if method != "auto" else (named or "default")
    if said is not None and kind != named:
        raise ArgumentError(
            "method",
            method,
            f"cannot be combined with the assumption {assume!r}",
            f"use method={named!r}, or remove the assumption",
        )
    return kind


def _made(kind: str, given: Any, clustering: Related, by_records: bool) -> Estimator:
    # given: of the kind that the method asks for
    effect: Any = clustering if random_effects(clustering) is None else 1.0
    if kind == "default":
        from privmean.estimators.means.default_mean import DefaultMean

        return DefaultMean(design_effect=effect)
    if kind == "winsorized":
        from privmean.estimators.concentration import UnknownScale
        from privmean.estimators.winsorized import WinsorizedMean

        return WinsorizedMean(UnknownScale() if given is None else given, design_effect=effect)
    if kind == "magnitudes":
        from privmean.estimators.regression.private_scale import PrivateScale

        return PrivateScale(design_effect=effect)
    if given is None and kind != "anisotropic":
        raise ArgumentError(
            "assume", None, f"is required for method={kind!r}", f"give {NEEDED[kind]}"
        )
    if kind == "bounded":
        if by_records:
            from privmean.estimators.concentration import Bounded
            from privmean.estimators.winsorized import WinsorizedMean

            limits = Bounded(*_limits(given), declared=isinstance(given, TypeBounds))
            return WinsorizedMean(limits, design_effect=effect)
        from privmean.estimators.means.bounded import BoundedMean

        return BoundedMean(given, design_effect=effect)
    if effect != 1.0:
        raise ArgumentError("clustering", effect, f"is not used by method={kind!r}", "remove it")
    if kind == "heavy-tailed":
        from privmean.estimators.heavy_tailed import HeavyTailedMean

        return given if isinstance(given, HeavyTailedMean) else HeavyTailedMean(given)
    from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean

    return AnisotropicMean() if given is None else AnisotropicMean(given.bound, scales=given.scales)


def _served(estimator: Estimator, by_records: bool) -> Estimator:
    """The estimator, if it answers the mean over records where that is asked for."""
    if by_records and not getattr(estimator, "serves_records", False):
        raise ArgumentError(
            "method",
            type(estimator).__name__,
            "cannot estimate a mean over records",
            "use bounds, a concentration or HeavyTailedMean(..., weights=...), or "
            "estimand='people'",
        )
    return estimator


def _limits(bounds: Any) -> tuple[Any, Any]:
    """(lower, upper) as numbers, or one number a column each, from one pair or a pair a column."""
    pairs: Sequence[Any] = list(bounds)
    if hasattr(pairs[0], "__len__"):
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    return validate.bounds("bounds", bounds)
