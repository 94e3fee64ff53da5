"""What is known of values beforehand: what is assumed of them, and what their types say.

Accuracy may depend on one argument, whose kind says which estimator of a mean reads it. An
estimator is chosen by name, by an assumption, or given itself.

Declared types give bounds, limits of printed ends, and keys. A question takes them from its table
before it is planned. Values of a Boolean column are clipped to 0 and 1. Other types only limit what
is printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.estimators.concentration import Concentration
    from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
    from privmean.estimators.winsorized import RandomEffects
    from privmean.questions.base import Estimator


import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from privmean.data.grids import LIMIT_BITS, NARROWEST
from privmean.data.key_text import spellings
from privmean.data.schema import BOOLEAN, TypeBounds
from privmean.inference.interval import (
    Interval,
    IntervalMaker,
    keys_say,
    type_says,
)

if TYPE_CHECKING:
    from privmean.data.column_types import PublicBounds
    from privmean.data.table import Table
    from privmean.release.release import Release

Pair: TypeAlias = tuple[float, float]
Bounds: TypeAlias = Pair | list[float] | list[int] | Sequence[Pair] | npt.NDArray[np.float64]
CovarianceBound: TypeAlias = (
    float | Sequence[float] | Sequence[Sequence[float]] | npt.NDArray[np.float64]
)
Moment: TypeAlias = "BoundedMoment | HeavyTailedMean"

BOUNDS, CONCENTRATION, MOMENT, COVARIANCE = "bounds", "concentration", "moment", "covariance"


@dataclass(frozen=True, eq=False)
class Covariance:
    """A public upper bound of the covariance of one person's row.

    Parameters
    ----------
    bound : float, array (d,) or array (d, d)
        A variance for all columns, one variance per column, or a matrix, in squared units.
    scales : {"sd", "same", "mahalanobis"}, default "sd"
        Units in which the minimized L2 error counts columns: public standard deviations, own units
        (one vector), or standard deviations along the axes of the covariance.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    known = pm.Covariance([0.25, 16.0])  # of a person's ln_wage and tenure, at most
    pm.mean(table, ["ln_wage", "tenure"], assume=known, epsilon=2.0, delta=1e-6)
    """

    bound: CovarianceBound
    scales: Literal["sd", "same", "mahalanobis"] = "sd"

    def __post_init__(self) -> None:
        validate.choice("scales", self.scales, ("sd", "same", "mahalanobis"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Covariance) or self.scales != other.scales:
            return False
        return np.array_equal(self.bound, other.bound)

    def __hash__(self) -> int:
        return hash((np.asarray(self.bound, dtype=float).tobytes(), self.scales))


if TYPE_CHECKING:
    Clipping: TypeAlias = Bounds | Concentration
    Assumption: TypeAlias = Clipping | Moment | Covariance
    Related: TypeAlias = float | RandomEffects
else:
    # of fields that texts fill, by name: what they may hold is checked where they are read
    Clipping = Assumption = Related = object
Auto = Literal["auto"]


def kind_of(assume: object) -> str:
    if isinstance(assume, Covariance):
        return COVARIANCE
    if isinstance(assume, list | tuple | np.ndarray):
        return BOUNDS
    if callable(getattr(assume, "radius", None)) and not isinstance(assume, type):
        return CONCENTRATION
    # last: their module loads much that the others do without
    from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean

    if isinstance(assume, BoundedMoment | HeavyTailedMean):
        return MOMENT
    raise ArgumentError(
        "assume",
        assume,
        "is not an assumption",
        "use bounds such as (0, 10), SubGaussian, BoundedMoment or Covariance",
    )


def argument_name(assume: object) -> str:
    """The argument that an assumption was given by, for an error: a pair is said by `bounds`."""
    return BOUNDS if isinstance(assume, list | tuple | np.ndarray) else "assume"


def given_estimator(
    method: object, besides: Mapping[str, object], problem: str, remedy: str
) -> Estimator:
    """An estimator that was given as the method: it has what accuracy may depend on in itself.
    besides: arguments that it makes idle, by name."""
    if isinstance(method, type) or not callable(getattr(method, "plan", None)):
        raise ArgumentError("method", method, problem, remedy)
    for name, value in besides.items():
        if value is not None and not (name == "clustering" and value == 1.0):
            raise ArgumentError(
                name,
                value,
                f"is not used by the estimator given as method ({type(method).__name__})",
                "set it in the estimator",
            )
    return cast("Estimator", method)


Limits: TypeAlias = tuple[Pair | None, ...]
Q = TypeVar("Q")
WHOLE = (-np.inf, np.inf)
MOST = 100_000  # keys that follow from types


@dataclass(frozen=True)
class ColumnTypes:
    """What the types of a question's columns exclude: one entry a column, None for nothing.

    rounded: whether records are read in steps of a resolution; rows of an array without ids are
    people as they are.
    """

    names: tuple[str, ...] = ()
    found: tuple[PublicBounds | None, ...] = ()
    rounded: bool = False

    @classmethod
    def of(cls, table: Table | None, values: Sequence[str] | None) -> ColumnTypes:
        """Of the columns that `values` mean; none without a table."""
        if table is None:
            return cls()
        names, known = table.public_bounds(values)
        bounded = (known.get(name) for name in names)
        found = tuple(x if x is not None and x.keys is None else None for x in bounded)
        return cls(names, found, table.person is not None)

    @property
    def limits(self) -> Limits:
        """Of the values of each column; those of a Boolean column are bounds of `TypeBounds`."""
        pairs = [None if item is None else (item.lower, item.upper) for item in self.found]
        return tuple(BOOLEAN if pair == BOOLEAN else pair for pair in pairs)

    @property
    def said(self) -> tuple[str, ...]:
        """What is owed to the types, in words: a sentence a type."""
        columns: dict[PublicBounds, list[str]] = {}
        for name, item in zip(self.names, self.found, strict=True):
            if item is not None:
                columns.setdefault(item, []).append(name)
        return tuple(
            type_says(names, item.kind, item.lower, item.upper) for item, names in columns.items()
        )

    def beside(self, given: object, resolution: float) -> Limits:
        """The limits where the caller gave bounds: none of a column whose bounds lie outside.
        Bounds must be within what records are read as."""
        if self.rounded:
            check_range(given, resolution)
        bounds: Any = given
        pairs = bounds if hasattr(bounds[0], "__len__") else [bounds] * len(self.limits)
        if len(pairs) != len(self.limits):
            return ()
        return tuple(
            None if pair is None or high <= pair[0] or low >= pair[1] else (pair[0], pair[1])
            for pair, (low, high) in zip(self.limits, pairs, strict=True)
        )

    def in_question(
        self, question: Q, limits: Limits = (), by: Sequence[str] = (), **changed: object
    ) -> Q:
        """The question with public limits of its answers, column by column, and with what is owed
        to the types. by: columns whose types list the keys. changed: fields of the question that
        follow from types."""
        known = tuple(limits) if any(pair is not None for pair in limits) else ()
        said = (*self.said, keys_say(by)) if by else self.said
        given: Any = question
        if not changed and given.limits == known and given.declared == said:
            return question
        made: Any = replace(question, **changed)  # type: ignore[type-var]
        object.__setattr__(made, "limits", known)
        object.__setattr__(made, "declared", said)
        return made  # type: ignore[no-any-return]


def clip_bounds(limits: Limits) -> Limits:
    """The limits that values are clipped to; none where no column has such."""
    if not any(isinstance(pair, TypeBounds) for pair in limits):
        return ()
    return tuple(pair if isinstance(pair, TypeBounds) else None for pair in limits)


def check_range(given: object, resolution: float) -> None:
    """Refuse public bounds beyond the largest value that records are read as: values between that
    one and a bound would be taken for it without a word; and bounds that are few steps apart, in
    which values are rounded to few numbers."""
    most = resolution * 2.0**LIMIT_BITS
    pairs: Any = given
    many = len(pairs) > 0 and hasattr(pairs[0], "__len__")
    for pair in pairs if many else [pairs]:
        low, high = validate.bounds("bounds", pair)
        if high - low < NARROWEST:
            raise ArgumentError(
                "bounds", (low, high),
                f"are closer than {NARROWEST:.2g}, 16 steps in which values are read",
                "multiply the column and its bounds by a constant",
            )  # fmt: skip
        far = max(-low, high)
        if far > most:
            enough = math.ceil(math.log2(far)) - LIMIT_BITS
            raise ArgumentError(
                "bounds", (low, high), f"reach beyond {most:g}, the largest value that is read",
                "divide the column by a constant, give narrower bounds, or read values in larger "
                f"steps: resolution=2**{min(enough, 100)}",
            )  # fmt: skip


def is_unit_pair(assume: object) -> bool:
    """Whether the bounds of a Boolean column were said, so that its type adds nothing to them."""
    return isinstance(assume, list | tuple) and tuple(assume) == BOOLEAN


def declared_keys(table: Table, by: Sequence[str]) -> tuple[tuple[str, ...], ...] | None:
    """All keys that the types of these columns list; None where one of them lists none, or where
    they are too many."""
    _, known = table.public_bounds((), by)
    listed = [(known[name].keys or ()) if name in known else () for name in by]
    if not 0 < math.prod(map(len, listed)) <= MOST:
        return None
    return tuple(product(*listed))


def check_keys(
    argument: str, table: Table | None, by: Sequence[str], keys: Sequence[Sequence[object]]
) -> None:
    """Refuse keys that the declared types of these columns do not list."""
    if table is None:
        return
    _, known = table.public_bounds((), by)
    for place, name in enumerate(by):
        listed = known[name].keys if name in known else None
        if listed is None:
            continue
        for key in keys:
            text = str(key[place])
            if not set(spellings(text)) & set(listed):
                # without the categories: of a type that was made from records they are records
                raise ArgumentError(
                    argument, text, f"is not in the declared type of column {name!r}",
                    "write the keys as the type has them",
                )  # fmt: skip


def limited(release: Release, limits: Limits) -> Release:
    """The release with every estimate and end within public limits (none where there are none)."""
    if not limits:
        return release
    from privmean.inference.group_table import SeveralTables

    pairs = tuple(WHOLE if pair is None else pair for pair in limits)
    made: Any = release.intervals
    if isinstance(made, SeveralTables):
        kept: Any = made.tables
        tables = [replace(item, limits=x) for item, x in zip(kept, pairs, strict=True)]
        pairs = tuple(x for x, item in zip(pairs, tables, strict=True) for _ in item.keys)
        made = SeveralTables(tuple(tables))
    elif hasattr(made, "limits"):  # a table of groups, or a distribution
        made = replace(made, limits=pairs[0])
    else:
        made = LimitedIntervals(made, pairs)
    low, high = np.array(pairs).T
    return replace(release, estimate=np.clip(release.estimate, low, high), intervals=made)


@dataclass(frozen=True)
class LimitedIntervals(IntervalMaker):
    """Intervals within public limits, a pair a column."""

    made: IntervalMaker
    limits: tuple[Pair, ...]

    def errors(self) -> tuple[float, float]:
        return self.made.errors()

    def interval(self, level: float, target: str | None = None) -> Interval:
        return self._within(self.made.interval(level, target))

    def noise_interval(self, level: float) -> Interval:
        return self._within(self.made.noise_interval(level))

    def column(self, index: int) -> IntervalMaker | None:
        one = self.made.column(index)
        return None if one is None else LimitedIntervals(one, self.limits[index : index + 1])

    def _within(self, found: Interval) -> Interval:
        low, high = np.array(self.limits).T
        return replace(
            found,
            lower=tuple(np.clip(found.lower, low, high).tolist()),
            upper=tuple(np.clip(found.upper, low, high).tolist()),
        )
