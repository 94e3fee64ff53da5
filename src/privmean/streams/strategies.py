"""Strategy matrices C: how the noise of a running mean is correlated over time.

A strategy is a small frozen object; all are interchangeable. Those here are lower-triangular
Toeplitz with first entry 1 and know the first column of C and of its inverse; `buffered` and
`scaled` add those with few buffers. Which one is best depends on how often a person takes part and
on which steps matter: see `planning.plan`.

Sources: Kalinin, Najar, Roth and Lampert (2026), "Matrix Factorization for Practical Continual Mean
Estimation Under User-Level Differential Privacy", whose other strategies are in `published`;
Fichtenberger, Henzinger and Upadhyay (2023) for the square root of the prefix sum; Dvijotham et al.
(2024) for buffers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError, InfeasibleError
from privmean.streams import toeplitz_matrices as series
from privmean.streams.strategy_error import RMSE, ErrorGoal
from privmean.streams.toeplitz_matrices import Floats, Participation, sensitivity


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
