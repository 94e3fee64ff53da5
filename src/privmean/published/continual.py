"""Strategies of a running mean as published, for study and comparison.

Kalinin, Najar, Roth and Lampert, "Matrix Factorization for Practical Continual Mean Estimation
Under User-Level Differential Privacy" (2026): Algorithm 1 with the strategies of its Table 2 and
Figures 1 to 3. Those that plans use are in `privmean.streams` (`Identity`, `PrefixRoot`,
`MeanToeplitz`, `Banded`). `MeanStream(strategy=...)` takes all of them. Algorithms 2 to 4 are
`WithholdRelease`. Front-loaded buffers, the default of a stream, have a smaller error.

Corrections, which the shared stream makes:

1. The noise is discrete and exact, and the rows are put on a lattice before it: floating-point
   noise would reveal them. Only functions of the noisy rows are released.
2. A stream counts participations and separation itself; printed, the data are trusted to keep them.
3. The noise follows from the exact Gaussian curve. The printed formula is not private above
   epsilon 1.
4. Columns that increase or have negative entries beyond the separation are refused: the printed
   sensitivity does not hold for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import ZERO_OUT
from privmean.privacy.guarantee import Guarantee
from privmean.streams import toeplitz_matrices as series
from privmean.streams.fit_strategies import best_bandwidth, fit
from privmean.streams.mean_stream import MeanStream
from privmean.streams.strategies import (
    Banded,
    Identity,
    LowerToeplitz,
    MeanToeplitz,
    PrefixRoot,
    Strategy,
    Toeplitz,
    first_entries,
)
from privmean.streams.strategy_error import RMSE, ErrorGoal
from privmean.streams.stream_release import StreamRelease
from privmean.streams.toeplitz_matrices import Participation


@dataclass(frozen=True)
class Decaying(LowerToeplitz):
    """nu-DP-FTRL (Choquette-Choo et al. 2024): c_i = binomial(2i, i)/4^i (1-nu)^i.

    nu: decay per step; see `best_decaying`.
    """

    nu: float

    def __post_init__(self) -> None:
        validate.keep(self, validate.fraction, "nu")

    @property
    def name(self) -> str:
        return f"nu-DP-FTRL (nu={self.nu:.4g})"

    def column(self, n: int) -> Floats:
        return series.prefix_root(n) * self._decay(n)

    def inverse(self, n: int) -> Floats:
        return PrefixRoot().inverse(n) * self._decay(n)

    def _decay(self, n: int) -> Floats:
        return np.asarray(np.exp(np.arange(n) * np.log1p(-self.nu)))


@dataclass(frozen=True)
class BandedInverse(LowerToeplitz):
    """A strategy whose inverse has the first p entries of another strategy's inverse.

    Of the mean Toeplitz and of the prefix root these columns decrease (checked when used).
    """

    base: LowerToeplitz
    p: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", validate.whole("p", self.p, least=1))

    @property
    def name(self) -> str:
        return f"{self.base.name}, banded inverse (p={self.p})"

    def column(self, n: int) -> Floats:
        return series.invert(self.inverse(n), n)

    def inverse(self, n: int) -> Floats:
        return first_entries(self.base.inverse, self.p, n)

    @property
    def inverse_taps(self) -> int:
        return self.p


def table_2_strategies(participation: Participation, steps: int) -> dict[str, LowerToeplitz]:
    """The strategies of Table 2 by their printed names; nu has the least error."""
    band = participation.separation
    short = int(math.log(band))
    return {
        "I": Identity(),
        "E½": PrefixRoot(),
        "D_toep": MeanToeplitz(),
        "ν-DP-FTRL": best_decaying(participation, steps),
        "E½ banded, p=⌊ln b⌋": Banded(PrefixRoot(), short),
        "D_toep banded, p=b": Banded(MeanToeplitz(), band),
        "E½ banded inverse, p=⌊ln b⌋": BandedInverse(PrefixRoot(), short),
        "D_toep banded inverse, p=b": BandedInverse(MeanToeplitz(), band),
    }


@dataclass(frozen=True)
class RunningMeans:
    """The running mean after each step of a stream.

    Guarantees: `guarantee`, for any values of one person; all releases together.
    """

    releases: tuple[StreamRelease, ...]
    guarantee: Guarantee


def running_means(
    people: Sequence[object],
    values: Collection[object],
    *,
    participation: Participation,
    epsilon: float,
    delta: float,
    bounds: tuple[float, float],
    strategy: Strategy | None = None,
    noise: Noise | None = None,
) -> RunningMeans:
    """Algorithm 1: the running mean of a stream of known length, by the shared stream.

    people, values: of each arrival, in order. participation: how often one person takes part, which
    the stream enforces; later records wait. strategy: printed is D_toep with a banded inverse of
    p = b. Neighbors are the paper's: one person's values become the center of the bounds.
    """
    given: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "bounds": bounds, "neighbors": ZERO_OUT, "noise": noise,
        "steps": len(people), "max_participations": participation.most,
        "min_separation": participation.separation, "clamp": False,
        "strategy": strategy or BandedInverse(MeanToeplitz(), participation.separation),
    }  # fmt: skip
    with MeanStream(**given) as stream:
        releases = tuple(stream.extend(people, values))
        return RunningMeans(releases, stream.guarantee)


# --- fits that the table and the figures compare with ---------------------------------------------


def best_toeplitz(
    participation: Participation, steps: int, goal: ErrorGoal = RMSE, *, taps: int | None = None
) -> Toeplitz:
    """The Toeplitz strategy with at most `taps` entries (default: the separation) of least error.

    Minimizes log ||c||^2 + log sum_s w_s g_s^2 over c_1 .. c_{p-1} by L-BFGS, with g = cumsum(1/c).
    With p <= b the sensitivity is sqrt(k) ||c|| for entries of any sign, so nothing constrains
    them. Several starts, because one can stall; a diverging inverse counts as infinite error.
    """
    from scipy.optimize import minimize

    n = steps
    once = participation.within(steps) == 1
    p = min(taps or n, n) if once else min(taps or n, participation.separation, n)
    w = goal.tail_weights(n)

    def objective(free: Floats) -> tuple[float, Floats]:
        c = np.concatenate([np.ones(1), free])
        with np.errstate(all="ignore"):
            r = series.invert(c, n)
            g = np.cumsum(r)
            error = float(np.dot(w, g * g))
            if not math.isfinite(error) or error <= 0:
                return 1e6, np.zeros_like(free)
            h = np.cumsum((2 * w * g)[::-1])[::-1]
            # the sums over i of h[i + j] (r r)[i]
            size = 1 << (2 * n - 2).bit_length()
            twice = np.fft.rfft(series.multiply(r, r, n), size)
            slope = -np.fft.irfft(np.fft.rfft(h, size) * np.conj(twice), size)[1:p]
        norm = float(np.dot(c, c))
        return math.log(norm) + math.log(error), 2 * free / norm + slope / error

    best: tuple[float, Floats] | None = None
    i = np.arange(1, p, dtype=np.float64)
    if p == 1:
        return Toeplitz((1.0,), label=f"optimized Toeplitz (p={p})")
    starts = [0.6 * (i + 1) ** -0.7, 0.7 / (i + 1), series.prefix_root(p)[1:]]
    starts += [fit(participation, n, goal, buffers=m).column(p)[1:] for m in (2, 4)]
    with np.errstate(all="ignore"):
        ranked = sorted(starts, key=lambda start: objective(start)[0])
    for start in ranked[: 2 if n <= 50_000 else 1]:
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "maxcor": 20}
        )
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    return Toeplitz((1.0, *(float(item) for item in best[1])), label=f"optimized Toeplitz (p={p})")


def best_decaying(participation: Participation, steps: int, goal: ErrorGoal = RMSE) -> Decaying:
    """nu-DP-FTRL with the decay of least error: a grid, then a bounded scalar search."""
    from scipy.optimize import minimize_scalar

    def error(nu: float) -> float:
        return Decaying(nu).rmse(participation, steps, goal)

    grid = np.geomspace(1e-5, 0.9, 60).tolist()
    values = [error(nu) for nu in grid]
    at = int(np.argmin(values))
    ends = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    found = minimize_scalar(error, bounds=ends, method="bounded")
    return Decaying(float(found.x) if found.fun < values[at] else grid[at])


def best_banded_inverse(
    base: LowerToeplitz, participation: Participation, steps: int, goal: ErrorGoal = RMSE
) -> LowerToeplitz:
    """`BandedInverse(base, p)` with the best p up to the separation."""
    return best_bandwidth(lambda p: BandedInverse(base, p), participation, steps, goal)
