"""The public covariance bound, what an unknown covariance is guaranteed, and the intervals of both.

Where nothing is known of the scales, the guarantee is for a reference spectrum: columns of one
deviation where every column gets a scale of its own (no other spectrum costs more for its total
variance), and deviations 1, 1/2, 1/3, ... where columns share a radius, which pays only if few of
them matter. What a release would do is followed step by step, with the distances of normal rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincinv, ndtri

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.estimators.anisotropic.column_scales import QUANTILE, ColumnMetrics, Scales, Stage
from privmean.inference.interval import MEAN, NOISE, Ends, IntervalText, RowIntervals, Rows
from privmean.mechanisms.filtered_mean import rotate
from privmean.mechanisms.noisy_counts import FINE
from privmean.output import count_noun

FLOOR = 2.0**-20  # least standard deviation, as a fraction of the mean one
NEGATIVE = 1e-9  # a negative eigenvalue smaller than this share of the largest is rounding
AXIS_STEPS = 2.0**40  # of axes, so that rows can be rotated exactly
SD, SAME, MAHALANOBIS = "sd", "same", "mahalanobis"
NORMS = {
    SD: "of the columns in their standard deviations",
    SAME: "of the columns in their own units",
    MAHALANOBIS: "along the axes of the covariance in its standard deviations (Mahalanobis)",
}


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A covariance bound in its own axes.

    deviations: standard deviations along the axes, none below FLOOR times their mean (raising one
    keeps an upper bound an upper bound and costs a millionth of noise; it makes singular bounds
    usable). axes: (d, d) matrix of whole multiples of 2^-40 whose columns are the axes, orthogonal
    but for that rounding, or None for the columns'. before, after: public numbers that columns are
    divided by before they are rotated, and coordinates along the axes after it. scales: how these
    were chosen.
    """

    deviations: Floats
    axes: Floats | None = None
    before: Floats | None = None
    after: Floats | None = None
    scales: str = SAME

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spectrum):
            return NotImplemented
        return self.scales == other.scales and all(
            a is b if a is None or b is None else np.array_equal(a, b)
            for a, b in (
                (self.deviations, other.deviations),
                (self.axes, other.axes),
                (self.before, other.before),
                (self.after, other.after),
            )
        )

    def __hash__(self) -> int:
        return hash(self.deviations.tobytes())

    @property
    def dimension(self) -> int:
        return len(self.deviations)

    @property
    def step(self) -> float:
        """Units in which rows are read before a rotation, a power of two."""
        deviations = self.deviations if self.after is None else self.deviations * self.after
        return 2.0 ** (math.frexp(float(deviations.min()))[1] - 25)

    def along(self, rows: Floats) -> Floats:
        """Rows along the axes, divided by the public scales; each by itself."""
        x = rows if self.before is None else rows / self.before
        if self.axes is not None:
            x = rotate(x, self.axes, self.step)
        return x if self.after is None else x / self.after

    def column_variances(self, variances: Floats) -> Floats:
        """Variances of the columns from independent variances along the axes."""
        found = self.scaled_variances(variances)
        return found if self.before is None else found * self.before**2

    def scaled_variances(self, variances: Floats) -> Floats:
        """The same of columns that were divided by `before`."""
        found = variances if self.after is None else variances * self.after**2
        return found if self.axes is None else np.asarray((self.axes**2) @ found)

    def columns(self, values: Floats) -> Floats:
        """A vector along the axes, as columns: what `along` does to rows undone, rounding and
        all."""
        x = values if self.after is None else values * self.after
        if self.axes is not None:
            x = np.asarray(np.linalg.solve(self.axes.T, x))
        return x if self.before is None else x * self.before

    @property
    def inverse_trace(self) -> float:
        """What noise of variance 1 in every column, in its standard deviations, adds to the squared
        norm of the error that is minimized, where all columns alike add `dimension`."""
        if self.after is None:
            return float(self.dimension)
        inverse = self.after**-2.0
        precision = inverse if self.axes is None else (self.axes**2) @ inverse
        return float(self.column_variances(np.ones(self.dimension)) @ precision)


def spectrum_of(covariance: object, dimension: int, scales: str = SAME) -> Spectrum:
    """The spectrum of a variance (one number), variances (d,) or a covariance matrix (d, d).

    scales: in which units of the columns an error counts. "same": their own. "sd": standard
    deviations. "mahalanobis": those along the axes, so that the covariance becomes the identity.
    """
    own = _spectrum(covariance, dimension)
    if scales == SD:
        value = np.asarray(covariance, dtype=np.float64)
        variances = np.diag(value) if value.ndim == 2 else np.broadcast_to(value, (dimension,))
        sd = np.sqrt(np.maximum(variances, 0.0))
        sd = np.maximum(sd, FLOOR * float(sd.mean()))
        scaled = value / np.outer(sd, sd) if value.ndim == 2 else variances / sd**2
        return replace(_spectrum(scaled, dimension), before=sd, scales=SD)
    if scales == MAHALANOBIS:
        return replace(own, deviations=np.ones(dimension), after=own.deviations, scales=scales)
    return own


def _spectrum(covariance: object, dimension: int) -> Spectrum:
    remedy = "give a variance, one variance per column, or a symmetric covariance matrix"
    try:
        value = np.asarray(covariance, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError("covariance", covariance, "is not numeric", remedy) from None
    if not np.isfinite(value).all():
        raise ArgumentError("covariance", covariance, "must be finite", remedy)
    if np.abs(value).max(initial=0.0) > validate.LARGEST:
        raise ArgumentError(
            "covariance", covariance, f"must be at most {validate.LARGEST:g}", "use other units"
        )
    axes: Floats | None = None
    if value.ndim == 0:
        variances = np.full(dimension, float(value))
    elif value.shape == (dimension,):
        variances = value.copy()
    elif value.shape == (dimension, dimension):
        if not np.allclose(value, value.T, rtol=1e-9, atol=1e-12 * float(np.abs(value).max())):
            raise ArgumentError("covariance", covariance, "is not symmetric", remedy)
        if np.array_equal(value, np.diag(np.diag(value))):
            variances = np.diag(value).copy()
        else:
            variances, axes = np.linalg.eigh((value + value.T) / 2)
            axes = np.rint(axes * AXIS_STEPS) / AXIS_STEPS
            largest = float(np.abs(variances).max())
            variances = np.where(
                variances < -NEGATIVE * largest, variances, np.maximum(variances, 0)
            )
            # a bound stays a bound where it is raised by what its eigenvalues may be wrong
            variances += np.where(variances < 0, 0.0, dimension * 2.0**-48 * largest)
    else:
        raise ArgumentError(
            "covariance", value.shape, f"must match {count_noun(dimension, 'column')}", remedy
        )
    if (variances < 0).any() or not (variances > 0).any():
        raise ArgumentError("covariance", covariance, "must hold variances above 0", remedy)
    deviations = np.sqrt(variances)
    return Spectrum(np.maximum(deviations, FLOOR * float(deviations.mean())), axes)


def person_covariance(
    between: object, within: object, records: int
) -> float | Sequence[float] | Floats:
    """Return the covariance of a person mean: between + within / records.

    Parameters
    ----------
    between : float, list of float or array
        Covariance of the person means, between people. 0 is right only if people do not differ.
    within : float, list of float or array
        Covariance of the records of a person around the person mean.
    records : int
        Public lower bound on the records of every person.

    Returns
    -------
    float, list of float or array
        The covariance, for `Covariance`.

    Privacy
    -------
    Charges nothing. The arguments are public. A covariance that is too small filters people out.

    Examples
    --------
    known = pm.person_covariance(between=[0.04, 9.0], within=[0.09, 16.0], records=5)
    rows = np.random.default_rng(1).normal(5, [0.2, 3.0], (4000, 2))
    pm.mean(rows, assume=pm.Covariance(known), epsilon=1.0, delta=1e-6)
    """
    m = validate.whole("records", records, least=1)
    result = np.asarray(between, dtype=np.float64) + np.asarray(within, dtype=np.float64) / m
    return float(result) if result.ndim == 0 else result


def pair_radius(eigenvalues: Floats, n_guess: float, beta: float) -> float:
    """A distance that holds all pairs of n_guess people with probability at least 1 - beta.

    eigenvalues: of the covariance in the metric; a pair's difference has twice that. Tail of
    Hsu, Kakade and Zhang (2012), union over n(n-1)/2 pairs.
    """
    tau = math.log(max(n_guess * (n_guess - 1), 2) / (2 * beta))
    total, square = float(eigenvalues.sum()), float((eigenvalues**2).sum())
    top = float(eigenvalues.max())
    return math.sqrt(2 * total + 4 * math.sqrt(square * tau) + 4 * top * tau)


def reference(dimension: int, own: bool) -> Floats:
    """Deviations of the columns of total variance 1 that a guarantee is made for, largest first.
    own: where every column gets a scale of its own."""
    size = np.ones(dimension) if own else 1 / np.arange(1.0, dimension + 1)
    return np.asarray(size / math.sqrt(float((size**2).sum())))


def pair_distance(quantile: float, variances: Floats) -> float:
    """A quantile of the distance of pairs of normal rows, half a grid step more.

    The squared distance has nearly a gamma law of its mean and variance (Satterthwaite 1946).
    """
    mean, square = float(variances.sum()), float((variances**2).sum())
    scale = 2 * square / mean
    found = 2 * scale * float(gammaincinv(mean / scale, quantile))
    return math.sqrt(found * FINE.radius(1))


def expected_scales(deviations: Floats, own: bool, exponent: float) -> Scales:
    """What the variance stage finds, its noise aside."""
    if not own:
        return Scales(1.0, rest=pair_distance(QUANTILE, deviations**2))
    return Scales(
        1.0,
        deviations,
        pair_distance(QUANTILE, deviations ** (2 - exponent)),
        pair_distance(QUANTILE, deviations),
        pair_distance(0.5, deviations),
    )


def stage_noise(
    metrics: ColumnMetrics, stage: Stage, sums_mu: Sequence[float], centred: int, summed: int
) -> float:
    """Predicted l2 norm (rms) of the noise of the clipped sums.

    sums_mu: of each sum; centered, summed: people of the center and of the sums.
    """
    s = stage.calibration.expected_multiplier(centred)
    if math.isinf(s):
        return math.inf
    radius, total = metrics.clip_radius(2 * metrics.radius * s / centred), 0.0
    for mu in sums_mu:
        total = radius * math.sqrt(metrics.spread)
        radius = metrics.next_radius(2 * radius / (mu * summed))
    return 2 * total / (mu * summed)


@dataclass(frozen=True, eq=False)
class GaussianBox(RowIntervals):
    """A box with one interval a column, jointly at the level (Sidak 1967, any correlation).

    noise: standard deviation of the privacy noise a column; sampling: a bound on the standard
    deviation of the sample mean a column, from public or paid numbers; assumption: what the
    coverage for the population depends on.
    """

    estimate: Floats
    noise: Floats
    sampling: Floats
    assumption: str
    noise_target: str
    targets = (MEAN,)

    @property
    def number(self) -> int:
        return len(self.estimate)

    def row_errors(self, row: int) -> tuple[float, float]:
        """The deviation of the noise; that of the sample is bounded, not known."""
        return float(self.noise[row]), math.nan

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        sd, at = self.noise if wanted == NOISE else np.hypot(self.noise, self.sampling), list(rows)
        half, middle = self._z(level) * sd[at], self.estimate[at]
        return list(zip(middle - half, middle + half, strict=True))

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        if wanted == NOISE:
            return {"target": self.noise_target}
        return {"target": wanted, "assumption": self.assumption}

    def parts(self, level: float, wanted: str, rows: Rows) -> dict[str, list[float]]:
        causes = {"noise": self.noise, "sampling": self.sampling}
        if wanted == NOISE:
            del causes["sampling"]
        return {name: (self._z(level) * sd[list(rows)]).tolist() for name, sd in causes.items()}

    @staticmethod
    def _z(level: float) -> float:
        return -float(ndtri((1 - level) / 2))
