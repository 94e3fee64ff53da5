"""Strategy matrices C: how the noise of a running mean is correlated over time.

A strategy is a small frozen object; all are interchangeable. Most are lower-triangular Toeplitz
with first entry 1 and know the first column of C and of its inverse. Which one is best depends on
how often a person takes part and on which steps matter: see `fit_strategies`.

`Buffered`: c_0 = 1 and c_i = sum_m omega_m theta_m^(i-1), omega_m >= 0, 0 <= theta_m < 1,
sum omega <= 1. Such a column is non-negative and decreasing, so its sensitivity is known exactly,
also without a horizon; the inverse has the same form, so that both sides of a stream keep M rows,
whatever its length. Two or three buffers come within one percent of the best Toeplitz strategy.

`ScaledBuffered`: C = diag(t^-gamma) H diag(s^gamma q_s d_s), where H is a `Buffered` column h, q_s
scales column s to norm at most 1, and d_s is 1 or falls with time. Running means are dominated by
their first steps, whose noise must be nearly independent, while late steps behave like prefix sums,
whose noise must be strongly correlated: the factor (s/t)^gamma blends between the two. With h the
prefix root this comes within 0.1 percent of the optimum over all lower-triangular matrices for one
participation (Toeplitz strategies stay 2 to 8 percent away). Column s has norm at most d_s and the
inner product of columns s and s+q is at most d_s d_{s+q} Gamma_q/Gamma_0 of H, if h is log-convex,
so without falling norms sens(C) <= sens(H)/||h|| on a stream without end.

Proofs: docs/proofs/continual.md. Sources: Kalinin, Najar, Roth and Lampert (2026), "Matrix
Factorization for Practical Continual Mean Estimation Under User-Level Differential Privacy", whose
other strategies are in `published`; Fichtenberger, Henzinger and Upadhyay (2023) for the square
root of the prefix sum; Dvijotham, McMahan, Pillutla, Steinke and Thakurta (2024) for buffers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError, InfeasibleError
from privmean.streams import toeplitz_matrices as series
from privmean.streams.strategy_error import RMSE, ErrorGoal, ScaledTracker
from privmean.streams.toeplitz_matrices import (
    ColumnNorms,
    Participation,
    first_order,
    sensitivity,
    weighted_pattern,
)


class Strategy(ABC):
    """A lower-triangular strategy matrix."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name with the parameters."""

    @abstractmethod
    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        """The sensitivity of C X for rows that move by at most 1; steps None: no horizon."""

    @abstractmethod
    def variances(self, steps: int) -> Floats:
        """Variance of the released prefix sums at steps 1..n with unit noise, shape (n,)."""

    @abstractmethod
    def state_rows(self, steps: int | None) -> int:
        """How many numbers a coordinate the stream keeps (private and public side together)."""

    @abstractmethod
    def endless(self, participation: Participation) -> bool:
        """Whether the strategy can run without a horizon."""

    def rmse(self, participation: Participation, steps: int, goal: ErrorGoal = RMSE) -> float:
        """Sensitivity times the root mean square of ||B_t||: the error with unit noise."""
        return self.sensitivity(participation, steps) * goal.error(self.variances(steps))


class LowerToeplitz(Strategy):
    """A strategy with equal columns, shifted: only its first column (and inverse) is stored.

    `taps` is the number of nonzero entries of the column, `inverse_taps` that of its inverse, None
    where they do not end: a stream of unknown length needs the first one finite.
    """

    @abstractmethod
    def column(self, n: int) -> Floats:
        """The first n entries of the first column of C."""

    def inverse(self, n: int) -> Floats:
        """The first n entries of the first column of the inverse of C."""
        return series.invert(self.column(n), n)

    @property
    def taps(self) -> int | None:
        return None

    @property
    def inverse_taps(self) -> int | None:
        return None

    def variances(self, steps: int) -> Floats:
        g = np.cumsum(self.inverse(steps))
        return np.cumsum(g * g)

    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        length = self.taps if steps is None else steps
        if length is None:
            raise InfeasibleError(
                f"the strategy {self.name} has no finite sensitivity without a horizon",
                "give steps, or use a banded or buffered strategy",
            )
        return sensitivity(self.column(length), participation, steps)

    def state_rows(self, steps: int | None) -> int:
        ends = [item for item in (self.taps, self.inverse_taps, steps) if item is not None]
        return 2 * max(min(ends) - 1, 0)

    def endless(self, participation: Participation) -> bool:
        return self.taps is not None and (
            self.taps <= participation.separation or participation.most == 1
        )


@dataclass(frozen=True)
class Identity(LowerToeplitz):
    """Strategy C = I: independent noise on every row."""

    name = "identity"
    taps = 1
    inverse_taps = 1

    def column(self, n: int) -> Floats:
        return series.multiply(np.ones(1), np.ones(1), n)

    def inverse(self, n: int) -> Floats:
        return self.column(n)


@dataclass(frozen=True)
class PrefixRoot(LowerToeplitz):
    """Square root of the prefix-sum matrix: c_i = binomial(2i, i)/4^i.

    Notes
    -----
    Source: Fichtenberger, Henzinger and Upadhyay (2023).
    """

    name = "prefix root"

    def column(self, n: int) -> Floats:
        return series.prefix_root(n)

    def inverse(self, n: int) -> Floats:
        a = series.prefix_root(n)
        return np.concatenate([a[:1], np.diff(a)])


@dataclass(frozen=True)
class MeanToeplitz(LowerToeplitz):
    """Strategy for running means: c_i = 1/(i+1).

    Notes
    -----
    Source: Kalinin, Najar, Roth and Lampert (2026), where it is D_toep.
    """

    name = "mean Toeplitz"

    def column(self, n: int) -> Floats:
        return 1.0 / np.arange(1, n + 1)


@dataclass(frozen=True)
class Toeplitz(LowerToeplitz):
    """Strategy with a given first column; zero after its last entry.

    Parameters
    ----------
    entries : tuple of float
        The first column, which starts with 1.
    label : str, default "Toeplitz"
        Name of the strategy.
    """

    entries: tuple[float, ...] = field(repr=False)
    label: str = "Toeplitz"

    def __post_init__(self) -> None:
        values = np.asarray(self.entries, dtype=np.float64)
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise ArgumentError(
                "entries", self.entries, "is not a list of numbers", "give the entries of c"
            )
        if values[0] != 1:
            raise ArgumentError("entries", self.entries[0], "must start with 1", "divide by c[0]")

    @property
    def name(self) -> str:
        return self.label

    def column(self, n: int) -> Floats:
        c = np.zeros(n)
        c[: len(self.entries)] = self.entries[:n]
        return c

    @property
    def taps(self) -> int:
        return len(self.entries)


@dataclass(frozen=True)
class InverseToeplitz(LowerToeplitz):
    """Any inverse column, given entry by entry (the first must be 1); zero after the last."""

    entries: tuple[float, ...] = field(repr=False)
    label: str = "inverse Toeplitz"

    def __post_init__(self) -> None:
        Toeplitz(self.entries)

    @property
    def name(self) -> str:
        return self.label

    def column(self, n: int) -> Floats:
        return series.invert(self.inverse(n), n)

    def inverse(self, n: int) -> Floats:
        return Toeplitz(self.entries).column(n)

    @property
    def inverse_taps(self) -> int:
        return len(self.entries)


@dataclass(frozen=True)
class Banded(LowerToeplitz):
    """First p entries of another strategy's column; zero afterwards.

    Parameters
    ----------
    base : LowerToeplitz
        The other strategy.
    p : int
        Number of entries.
    """

    base: LowerToeplitz
    p: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", validate.whole("p", self.p, least=1))

    @property
    def name(self) -> str:
        return f"{self.base.name}, banded (p={self.p})"

    def column(self, n: int) -> Floats:
        return first_entries(self.base.column, self.p, n)

    @property
    def taps(self) -> int:
        return self.p


def first_entries(entries: Callable[[int], Floats], p: int, n: int) -> Floats:
    """n entries: the first p of a column, zero afterwards."""
    c = np.zeros(n)
    c[:p] = entries(min(n, p))
    return c


@dataclass(frozen=True)
class Buffers(Strategy):
    """A strategy whose two sides keep a row a buffer, however long the stream is."""

    weights: tuple[float, ...]
    decays: tuple[float, ...]

    @property
    def arrays(self) -> tuple[Floats, Floats]:
        """(weights, decays)."""
        return np.array(self.weights), np.array(self.decays)

    def state_rows(self, steps: int | None) -> int:
        del steps
        return 2 * len(self.weights)

    def endless(self, participation: Participation) -> bool:
        del participation
        return True


@dataclass(frozen=True)
class Buffered(Buffers, LowerToeplitz):
    """Strategy with few buffers: c_0 = 1, c_i = sum_m weights[m] decays[m]^(i-1).

    Parameters
    ----------
    weights : tuple of float
        Shape (M,), non-negative, with a sum of at most 1.
    decays : tuple of float
        Shape (M,), distinct, from 0 (included) to 1 (excluded).
    label : str, optional
        Name of the strategy.

    Notes
    -----
    Source: Dvijotham et al. (2024).
    """

    label: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        weights = tuple(validate.nonnegative("weights", item) for item in self.weights)
        decays = tuple(validate.nonnegative("decays", item) for item in self.decays)
        if len(weights) != len(decays) or not weights:
            raise ArgumentError(
                "decays",
                self.decays,
                "requires one decay per weight",
                "give as many decays as weights",
            )
        if sum(weights) > 1:
            raise ArgumentError("weights", weights, "must sum to at most 1", "give smaller weights")
        if max(decays) >= 1 or len(set(decays)) < len(decays):
            raise ArgumentError("decays", decays, "must be distinct and below 1", "change them")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "decays", decays)

    @property
    def name(self) -> str:
        return self.label or f"buffered ({len(self.weights)} buffers)"

    def column(self, n: int) -> Floats:
        return _response(*self.arrays, n)

    def inverse(self, n: int) -> Floats:
        weights, decays = series.inverse_buffers(*self.arrays)
        return _response(-weights, decays, n)

    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        if steps is not None:
            return super().sensitivity(participation, steps)
        return limit_sensitivity(*self.arrays, participation)


def _response(weights: Floats, decays: Floats, n: int) -> Floats:
    c = np.zeros(n)
    c[0] = 1.0
    powers = np.arange(n - 1, dtype=np.float64)
    for weight, decay in zip(weights, decays, strict=True):
        if abs(decay) < 1e-300:
            c[1:2] += weight
        else:
            with np.errstate(under="ignore"):
                size = np.exp(powers * math.log(abs(decay)))
            c[1:] += weight * (size if decay > 0 else size * np.where(powers % 2, -1.0, 1.0))
    return c


def limit_sensitivity(weights: Floats, decays: Floats, participation: Participation) -> float:
    """The sensitivity on a stream without end, an upper bound for every horizon.

    Gamma_0 = 1 + sum_ab w_a w_b/(1 - t_a t_b); Gamma_q = sum_b w_b t_b^(q-1)
    + sum_ab w_a w_b t_b^q/(1 - t_a t_b); sens^2 = K Gamma_0 + 2 sum_{l<K} (K-l) Gamma_{lb}.
    """
    k, b = participation.most, participation.separation
    pairs = np.outer(weights, weights) / (1 - np.outer(decays, decays))
    lags = np.arange(1, k, dtype=np.float64) * b
    with np.errstate(under="ignore"):
        before = decays[None, :] ** (lags[:, None] - 1)
        cross = before @ weights + (before * decays) @ pairs.sum(axis=0)
    total = k * (1 + pairs.sum()) + 2 * float(np.dot(k - np.arange(1, k), cross))
    return math.sqrt(total)


SCALED_STEPS = 1 << 16  # from here on q_s is its limit, which is never too large
DEPTH = 40.0


@dataclass(frozen=True)
class ScaledBuffered(Buffers):
    """Strategy diag(t^-exponent) H diag(s^exponent q_s d_s) with buffers in H.

    Parameters
    ----------
    weights, decays : tuple of float
        The buffers of H, as for `Buffered`.
    exponent : float
        Exponent of the scaling.
    loading : ColumnNorms, optional
        The column norms d_s. Default: 1.
    """

    exponent: float
    loading: ColumnNorms | None = None

    def __post_init__(self) -> None:
        base = self.base
        if not 0 <= validate.number("exponent", self.exponent) <= 2:
            raise ArgumentError("exponent", self.exponent, "must lie in [0, 2]", "give about 0.85")
        total = sum(base.weights)
        if total**2 > sum(w * d for w, d in zip(base.weights, base.decays, strict=True)):
            raise ArgumentError(
                "weights", self.weights, "must give a log-convex column", "give smaller weights"
            )

    @property
    def base(self) -> Buffered:
        return Buffered(self.weights, self.decays)

    @property
    def name(self) -> str:
        kind = "time-scaled" if self.loading is None else "front-loaded"
        return f"{kind} buffers ({len(self.weights)} buffers)"

    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        # the value without a horizon bounds every horizon
        capped = Participation(participation.within(steps), participation.separation)
        if self.loading is None:
            return scaled_sensitivity(*self.arrays, capped)
        return weighted_pattern(self.loading.worst(capped), *self.arrays, capped.separation)

    def variances(self, steps: int) -> Floats:
        scales = column_scales(*self.arrays, self.exponent, steps)
        if self.loading is not None:
            scales = scales * self.loading.factors(0, steps)
        return ScaledTracker(*self.arrays, self.exponent).advance(scales)


def scaled_sensitivity(weights: Floats, decays: Floats, participation: Participation) -> float:
    """sens(H)/||h||, the sensitivity of the scaled matrix on a stream without end."""
    norm = limit_sensitivity(weights, decays, Participation(1, 1))
    return limit_sensitivity(weights, decays, participation) / norm


def column_scales(
    weights: Floats, decays: Floats, exponent: float, steps: int, *, depth: float = DEPTH
) -> Floats:
    """s^gamma q_s for s = 1..n; depth as in `column_norms`."""
    s = np.arange(1, steps + 1, dtype=np.float64)
    norms = column_norms(weights, decays, exponent, steps, depth=depth)
    return s**exponent / np.sqrt(norms)


def column_norms(
    weights: Floats, decays: Floats, exponent: float, steps: int, *, depth: float = DEPTH
) -> Floats:
    """N_s = sum_i h_i^2 (s/(s+i))^(2 gamma) for s = 1..n, never too small; q_s = 1/sqrt(N_s).

    depth: sums are followed until their terms have fallen by e^-depth; the rest is bounded.
    """
    products = np.outer(decays, decays)
    pairs = np.outer(weights, weights)
    limit = 1 + float((pairs / (1 - products)).sum())
    exact = min(steps, SCALED_STEPS)
    margin = min(math.ceil(depth / (1 - float(products.max()))), 1 << 18)
    s = np.arange(1, exact + margin + 1, dtype=np.float64)
    powers = s ** (-2 * exponent)
    total = np.ones(exact)
    for a in range(len(weights)):
        for b in range(a + 1):
            # T(s) = sum_{i>=1} x^(i-1) (s+i)^(-2 gamma) runs backwards: T(s) = p(s+1) + x T(s+1);
            # starting from its upper bound p/(1-x) keeps every N_s an upper bound
            x = float(products[a, b])
            backwards = first_order(x, powers[:0:-1], powers[-1] / (1 - x))
            tail = backwards[::-1][:exact]
            total += (1 if a == b else 2) * pairs[a, b] * tail / powers[:exact]
    return np.concatenate([np.minimum(total, limit), np.full(steps - exact, limit)])
