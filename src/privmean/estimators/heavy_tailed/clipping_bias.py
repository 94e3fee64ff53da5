"""A bounded moment, and the bias of clipping under it.

A person's value is the mean of m records, so its law has a light bulk (scale bound/sqrt(m)) and a
tail made of single large records. `Tail` holds the few numbers in which both enter every bound. The
bounds describe the worst law (one large record) and are attained by it. They are proved only for
order 2 or one record a person. They are functions of public numbers; the derivations are in
docs/proofs/heavy-tails-bias.md.

Source: Agarwal et al. (2024), Corollaries 3.7 and 3.13 and Theorem 4.2 (rates); Michel (1976),
Nagaev (1979), Rio (2009) for the tails behind the constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.estimators.concentration import ranges_of


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
        validate.keep(self, validate.number, "records")
        validate.keep(self, validate.nonnegative, "between_sd", "icc")
        if self.records < 1:
            raise ArgumentError("records", self.records, "must be at least 1", "give 1 or more")
        if self.icc > 1:
            raise ArgumentError(
                "icc", self.icc, "must be at most 1", "give a correlation from 0 to 1"
            )
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
        return ranges_of(self.range, dimension)

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
            name, value, f"to the power {order:g} is too large", "measure values in other units"
        )


def _ranges(value: Any) -> tuple[tuple[float, float], ...]:
    items = validate.listed("range", value, "give two finite numbers, the lower one first")
    if not items or not _many(items[0]):
        return (validate.bounds("range", items),)
    return tuple(validate.bounds("range", item) for item in items)


JUMPS = np.geomspace(1e-3, 1e6, 300)[:, None]  # candidate jump sizes, in radii
MIDPOINTS = (np.arange(64) + 0.5) / 64
ORDERS = 17  # orders between 2 and k tried by the bounds of moments


def jump_constant(order: float) -> float:
    """h_k = (k-1)^(k-1)/k^k, the largest x^(-k) (x - 1): E(|Z| - r)+ <= h_k E|Z|^k / r^(k-1)."""
    return float((order - 1) ** (order - 1) / order**order)


def normal_excess(z: Floats) -> Floats:
    """E(N - z)+ for a standard normal N."""
    result = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * ndtr(-z)
    return np.asarray(np.maximum(result, 0.0))


def one_dimension(tails: Sequence[Tail], radius: npt.ArrayLike, offset: float) -> Floats:
    """Bound on |E clip(Y) - E Y| when Y is clipped to center -+ radius, |center - mean| <= offset.

    Infinite where radius <= offset. Shape as `radius`.
    """
    reach = np.asarray(radius, dtype=float) - offset
    floor = 1e-3 * _largest(tails)  # below it the bound is the largest possible anyway
    safe = np.maximum(reach, floor)
    best = np.full(np.shape(reach), np.inf)
    for tail in tails:
        bound = jump_constant(tail.order) * tail.jump * (safe / tail.jump) ** (1 - tail.order)
        if tail.order > 2:
            bound = bound + tail.spread * normal_excess(safe / tail.spread)
        best = np.minimum(best, np.minimum(bound, _moment_excess(tail, safe)))
    return np.where(reach > 0, np.minimum(best, _largest(tails)), np.inf)


def _largest(tails: Sequence[Tail]) -> float:
    """One-sided excess over any level above the mean: E(Y - mean)+ <= sd/2."""
    return min(tail.spread for tail in tails) / 2


def moment_root(tail: Tail, order: float) -> float:
    """Bound on (E|<value - mean, v>|^q)^(1/q), 2 <= q <= k (Rio's inequality, or Minkowski's)."""
    if order == 2:
        return tail.spread
    return min(math.sqrt(order - 1) * tail.root, tail.whole)


def _orders(tail: Tail) -> Floats:
    return np.linspace(2.0, tail.order, ORDERS if tail.order > 2 else 1)


def _moment_excess(tail: Tail, reach: Floats) -> Floats:
    best = np.full(np.shape(reach), np.inf)
    for q in _orders(tail):
        root = moment_root(tail, float(q))
        best = np.minimum(best, jump_constant(float(q)) * root * (reach / root) ** (1 - q))
    return best


def of_share(tails: Sequence[Tail], share: float, offset: float) -> float:
    """Bound on the bias of clipping, in any direction, where at most a `share` of the population is
    clipped and the center is within `offset` (Hoelder, at every order up to the assumed one)."""
    bounds = (
        moment_root(tail, float(q)) * share ** (1 - 1 / float(q)) + offset * share
        for tail in tails
        for q in _orders(tail)
    )
    return float(min(bounds))


def ball(tails: Sequence[Tail], radius: npt.ArrayLike, offset: float) -> Floats:
    """Bound on the l2 bias of clipping to a ball of `radius` whose center is within `offset`.

    The bias of one large record in the worst direction plus the pull of the ball on the bulk; it
    also holds for a radius below the offset (then it is of its order).
    """
    rho = np.atleast_1d(np.asarray(radius, dtype=float))
    best = np.full(rho.shape, np.inf)
    for tail in tails:
        best = np.minimum(best, _ball_of_jump(tail, rho, offset))
        best = np.minimum(best, _ball_of_moments(tail, rho, offset))
    return best.reshape(np.shape(radius))


@lru_cache(maxsize=64)
def _chi_squares(dimension: float) -> Floats:
    result = np.asarray(stats.chi2.ppf(MIDPOINTS, dimension), dtype=float)
    result.setflags(write=False)
    return result


def bulk_squares(tail: Tail) -> Floats:
    """64 quantile midpoints of ||bulk||^2 of a value around the mean."""
    return _chi_squares(tail.dimension) * (tail.size**2 / tail.dimension)


def usual(tail: Tail, radius: float, offset: float) -> float:
    """The pull of a ball on a bulk without large single values, center off by `offset`."""
    around = np.sqrt(offset**2 + bulk_squares(tail))
    return offset * float(np.maximum(0.0, 1 - radius / around).mean())


def _ball_of_jump(tail: Tail, rho: Floats, offset: float) -> Floats:
    d = tail.dimension
    bulk = bulk_squares(tail)
    around = offset**2 + bulk.mean()
    r = JUMPS * rho[None, :]
    with np.errstate(over="ignore", under="ignore"):
        chance = np.minimum(1.0, (math.sqrt(d) * tail.jump / r) ** tail.order)
    # the worst record points along the offset as far as the directional moment lets it
    along = 2 * offset * r / math.sqrt(d)
    cut = np.maximum(0.0, 1 - rho / np.sqrt(r * r + around + along))
    jump = np.max(chance * (r / math.sqrt(d) + offset) * cut, axis=0)
    if offset == 0:
        return np.asarray(jump)
    pull = np.maximum(0.0, 1 - rho[None, :] / np.sqrt(offset**2 + bulk)[:, None]).mean(axis=0)
    return np.asarray(jump + offset * pull)


def _ball_of_moments(tail: Tail, rho: Floats, offset: float) -> Floats:
    reach = np.maximum(rho - offset, 1e-3 * tail.spread)
    best = np.full(rho.shape, np.inf)
    for q in _orders(tail):
        root = moment_root(tail, float(q))
        norm = tail.size if q == 2 else root * math.sqrt(tail.dimension)
        x = np.minimum(norm / reach, 1e100)
        best = np.minimum(best, root * x ** (q - 1) + offset * np.minimum(1.0, x**q))
    limit = tail.size + offset
    return np.where(rho > offset, np.minimum(best, limit), np.inf)
