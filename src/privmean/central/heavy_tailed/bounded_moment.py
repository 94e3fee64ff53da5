"""The assumption of the heavy-tailed estimators: a bound on a moment of the records.

A person's value is the mean of m records, so its law has a light bulk (scale bound/sqrt(m)) and a
tail made of single large records. `Tail` holds the few numbers in which both enter every bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError
from privmean.plurals import count_noun


@dataclass(frozen=True)
class Tail:
    """What one moment bound says about the deviation of a person's value from the mean.

    The value minus the mean is a sum of independent centered pieces: the person's own level and
    each record divided by m. order: k. jump: k-th root of the sum of the pieces' k-th absolute
    moments (single large pieces). root: bound on the square root of the sum of their squared k-th
    moment roots. spread: bound on the standard deviation. whole: bound on the k-th moment root of
    the value that holds without independence. These are directional (every unit vector).
    dimension: E||piece||^k <= (dimension^(1/2) times the directional moment root)^k. size: bound on
    the root mean square norm of the deviation.
    """

    order: float
    jump: float
    root: float
    spread: float
    whole: float
    dimension: float
    size: float


DECADES = 240.0  # powers of ten that a moment may reach; planning needs a few more


def _many(value: object) -> bool:
    return hasattr(value, "__len__")


def _pairs(order: Any, bound: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    orders = list(order) if _many(order) else [order]
    bounds = list(bound) if _many(bound) else [bound]
    if not orders or len(orders) != len(bounds):
        raise ArgumentError(
            "bound", bound, "requires one number for each order", "give as many bounds as orders"
        )
    remedy = "use 2, or a higher order whose moment is finite"
    for item in orders:
        if validate.number("order", item, remedy) < 2:
            raise ArgumentError("order", item, "must be at least 2", remedy)
        if item > 64:
            raise ArgumentError("order", item, "must be at most 64", "give a smaller order")
    return tuple(float(item) for item in orders), tuple(
        validate.positive("bound", item) for item in bounds
    )


@dataclass(frozen=True)
class BoundedMoment:
    """Records have a bounded moment around the mean, in every direction.

    Parameters
    ----------
    order, bound : float or list of float
        (E|<record - mean, v>|^order)^(1/order) <= bound for every unit vector v, in the unit of the
        value. Lists state several such facts. Order 2 bounds the standard deviation.
    records : float, default 1
        Public minimum of records per person.
    between_sd : float, default 0.0
        Bound of the same moment root of person means; 0 means that all records have the same mean.
    range : (float, float) or list of pairs, optional
        Public range of the mean, or one per column. Without it delta > 0 is required.
    icc : float, default 0.0
        Intraclass correlation of a person's records; m records count as m/(1 + (m - 1) icc).
    norm_bound : float or list of float, optional
        Bound of (E||record - mean||^order)^(1/order). It shrinks the clipping radius if few
        directions carry the variance, and assumes that person means vary in the same proportion.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Notes
    -----
    Source: Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman (2024), Definition 1.1.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    third = pm.BoundedMoment(order=3, bound=1.0)
    pm.mean(people, assume=third, epsilon=1.0, delta=1e-6)
    """

    order: float | Sequence[float]
    bound: float | Sequence[float]
    records: float = 1
    between_sd: float = 0.0
    range: Any = None
    icc: float = 0.0
    norm_bound: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        orders, bounds = _pairs(self.order, self.bound)
        single = not _many(self.order)
        object.__setattr__(self, "order", orders[0] if single else orders)
        object.__setattr__(self, "bound", bounds[0] if single else bounds)
        if validate.number("records", self.records) < 1:
            raise ArgumentError("records", self.records, "must be at least 1", "give 1 or more")
        validate.nonnegative("between_sd", self.between_sd)
        icc = validate.nonnegative("icc", self.icc)
        if icc > 1:
            raise ArgumentError("icc", icc, "must be at most 1", "give a correlation from 0 to 1")
        if self.norm_bound is not None:
            if _many(self.norm_bound):
                object.__setattr__(self, "norm_bound", tuple(self.norm_bound))  # type: ignore[arg-type]
            self._check_norms()
        if self.range is not None:
            object.__setattr__(self, "range", _ranges(self.range))
        for order, bound in self.pairs:
            _within_reach("bound", bound, order)
            _within_reach("between_sd", self.between_sd, order)
        for norm in self._norms():
            _within_reach("norm_bound", norm if math.isfinite(norm) else 0.0, max(orders))
        for end in (end for pair in self.range or () for end in pair):
            _within_reach("range", max(1.0, abs(end)), 2.0)

    def _check_norms(self) -> None:
        norms = self._norms()
        for norm, (_, bound) in zip(norms, self.pairs, strict=True):
            if validate.positive("norm_bound", norm) < bound:
                raise ArgumentError(
                    "norm_bound",
                    self.norm_bound,
                    "must be at least the directional bound",
                    "give a number of at least `bound`",
                )

    def _norms(self) -> tuple[float, ...]:
        """The norm bound of every fact (infinite where none is given)."""
        if self.norm_bound is None:
            return (math.inf,) * len(self.pairs)
        if not isinstance(self.norm_bound, Sequence):
            return (self.norm_bound,) * len(self.pairs)
        if len(self.norm_bound) != len(self.pairs):
            raise ArgumentError(
                "norm_bound", self.norm_bound, "requires one number for each order", "give as many"
            )
        return tuple(self.norm_bound)

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """Pairs (order, bound), one per fact."""
        if isinstance(self.order, Sequence) and isinstance(self.bound, Sequence):
            return tuple(zip(self.order, self.bound, strict=True))
        return ((float(self.order), float(self.bound)),)  # type: ignore[arg-type]

    @property
    def effective_records(self) -> float:
        """Records that would average as well if one person's records were uncorrelated."""
        return self._effective(float(self.records))

    def _effective(self, records: float) -> float:
        return records / (1 + (records - 1) * self.icc)

    def spread(self, records: float) -> float:
        """Bound on the standard deviation of a person's value from so many records (at least 1)."""
        smallest = min(bound for _, bound in self.pairs)
        return math.hypot(smallest / math.sqrt(self._effective(max(1.0, records))), self.between_sd)

    def tails(self, dimension: int) -> tuple[Tail, ...]:
        """One `Tail` a fact, for values of `dimension` coordinates."""
        m, between = self.effective_records, self.between_sd
        smallest = min(bound for _, bound in self.pairs)
        spread = math.hypot(smallest / math.sqrt(m), between)
        norms = self._norms()
        norm = min(math.sqrt(dimension) * smallest, *norms)
        # a person's own level spreads over as many directions as records do
        size = math.hypot(norm / math.sqrt(m), between * norm / smallest)
        result = []
        for (k, bound), limit in zip(self.pairs, norms, strict=True):
            result.append(
                Tail(
                    order=k,
                    jump=(m ** (1 - k) * bound**k + between**k) ** (1 / k),
                    root=math.hypot(bound / math.sqrt(m), between),
                    spread=spread,
                    whole=bound + between,
                    dimension=min(float(dimension), (limit / bound) ** 2),
                    size=size,
                )
            )
        return tuple(result)

    def ranges(self, dimension: int) -> tuple[tuple[float, float], ...] | None:
        """One public (lower, upper) a coordinate, or None for the whole line."""
        if self.range is None:
            return None
        pairs: tuple[tuple[float, float], ...] = self.range
        if len(pairs) == 1:
            return pairs * dimension
        if len(pairs) != dimension:
            raise ArgumentError(
                "range",
                pairs,
                f"has {count_noun(len(pairs), 'pair')} for {count_noun(dimension, 'column')}",
                "give one pair",
            )
        return pairs

    def describe(self) -> str:
        """The assumption in words."""
        facts = " and ".join(
            f"moment of order {order:g} (around the mean, any direction) at most {bound:g}"
            for order, bound in self.pairs
        )
        words = f"records have a {facts}, {float(self.records):g} records a person"
        if self.icc:
            words += f", intraclass correlation {self.icc:g}"
        if self.between_sd:
            words += f", person levels within {self.between_sd:g} (same moment)"
        else:
            words += ", independent with the same mean"
        if self.range is not None:
            words += ", mean inside the public range"
        return words


def _within_reach(name: str, value: float, order: float) -> None:
    """Refuses units so large or small that moments leave the doubles."""
    if value and order * abs(math.log10(value)) > DECADES:
        raise ArgumentError(
            name,
            value,
            f"to the power {order:g} is too large",
            "measure values in other units",
        )


def _ranges(value: Any) -> tuple[tuple[float, float], ...]:
    items = validate.listed("range", value, "give two finite numbers, the lower one first")
    if not items or not _many(items[0]):
        return (validate.bounds("range", items),)
    return tuple(validate.bounds("range", item) for item in items)
