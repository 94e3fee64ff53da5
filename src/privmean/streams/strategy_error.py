"""What a strategy is for: the weights of an average, the variance of its noise, and error goals.

The noisy rows of a stream are drawn once; running means, windows and decayed means are different
sums of the same noisy rows, so the target changes the error and never the guarantee
(docs/proofs/continual.md, section 9).

With unit noise per unit sensitivity the estimate of step t has the standard deviation
sens * ||B_t||, where B = A C^{-1} and A_ts = 1[s<=t]/t; t ||B_t|| is the standard deviation of the
prefix sum. For a Toeplitz C, t^2 ||B_t||^2 = sum_{s<=t} g_s^2 with g = cumsum(inverse column of C),
and the plain goal is ||B||_F/sqrt(n). For real units multiply by clip radius, sigma and
sqrt(dimension).

The first releases of a stream carry noise of many times the region; projected on the region, they
are off by its size and no more. So the goal "shown" judges a run after clamping, in the unit of the
region's radius.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.streams import toeplitz_matrices as series
from privmean.streams.toeplitz_matrices import LONGEST, Filter, first_order, inverse_buffers


@dataclass(frozen=True)
class AveragingTarget:
    """The estimate of step t weighs the rows of step t-j by factor^j, for j < window.

    window: None for no end. factor: in (0, 1], 1 for equal weights; not both.
    """

    window: int | None = None
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.window is not None:
            window = validate.whole("window", self.window, least=1, most=LONGEST)
            object.__setattr__(self, "window", window)
        if not 0 < validate.number("factor", self.factor) <= 1:
            raise ArgumentError("factor", self.factor, "must lie in (0, 1]", "give a half-life")
        if self.window is not None and self.factor < 1:
            raise ArgumentError("window", self.window, "requires a half-life", "use one of them")

    @classmethod
    def of(cls, window: int | None = None, half_life: float | None = None) -> AveragingTarget:
        """The last `window` steps, weights halved every `half_life` steps, or all steps."""
        if half_life is None:
            return cls(window)
        if window is not None:
            raise ArgumentError(
                "half_life", half_life, "cannot be combined with window", "use one of them"
            )
        factor = 2.0 ** (-1.0 / validate.positive("half_life", half_life))
        if not factor:
            raise ArgumentError(
                "half_life", half_life, "must be at least about one step", "give 1 or more"
            )
        return cls(factor=factor)

    @property
    def running(self) -> bool:
        """Whether all records count alike."""
        return self.window is None and self.factor == 1

    @property
    def reach(self) -> int:
        """Steps after which the past hardly counts; 0 if it always does."""
        if self.window is not None:
            return self.window
        return 0 if self.running else math.ceil(-1 / math.log(self.factor))

    def describe(self) -> str:
        """In words, such as "mean of the last 7 steps"."""
        if self.window is not None:
            return "mean of the last " + ("step" if self.window == 1 else f"{self.window} steps")
        if self.running:
            return "running mean"
        return f"decayed mean (half-life {-1 / math.log2(self.factor):.4g} steps)"

    def weights(self, n: int) -> Floats:
        """Weights of lags 0..n-1."""
        a: Floats = np.exp(np.arange(n) * math.log(self.factor))
        if self.window is not None:
            a[self.window :] = 0.0
        return a

    def sizes(self, n: int) -> Floats:
        """The sum of weights at steps 1..n, with one record a step."""
        return np.cumsum(self.weights(n))

    def variances(self, inverse: Floats) -> Floats:
        """Variances of the weighted sums at steps 1..n with unit noise, from the inverse column of
        a strategy."""
        g: Floats = np.cumsum(inverse)
        if self.factor < 1:
            g = series.multiply(self.weights(len(inverse)), inverse, len(inverse))
        elif self.window is not None and self.window < len(g):
            g[self.window :] -= g[: -self.window].copy()
        return np.cumsum(g * g)


RUNNING = AveragingTarget()


class RunningSums:
    """Sums of rows weighted as in an average, the same for any split into blocks.

    For a window these are the sums of all rows so far: the difference over a window is taken when
    a release is shown.
    """

    def __init__(self, factor: float = 1.0, columns: int = 1) -> None:
        self._factor = factor
        self.sums = np.zeros(columns)

    def advance(self, rows: Floats) -> Floats:
        """Sums after each of the next rows, shapes (m, columns)."""
        if self._factor == 1:
            if len(rows) == 1:
                self.sums = self.sums + rows[0]
                return self.sums[None, :].copy()
            running = np.cumsum(np.concatenate([self.sums[None, :], rows]), axis=0)
            self.sums = running[-1].copy()
            return running[1:]
        result = np.empty_like(rows)
        for index, row in enumerate(rows):
            self.sums = self._factor * self.sums + row
            result[index] = self.sums
        return result

    def of_numbers(self, numbers: Floats) -> Floats:
        """`advance` by rows of one column, shape (m,)."""
        return self.advance(numbers[:, None])[:, 0]

    def one(self, row: float) -> float:
        """`advance` by one row of one column."""
        before = self.sums.item()
        total = before + row if self._factor == 1 else self._factor * before + row
        self.sums[0] = total
        return total


class ImpulseTracker:
    """The variance of released sums, in units of the noise of one row, for Toeplitz strategies: an
    impulse through the inverse, weighted as in the target, gives g_s, and their squares add up.

    Of windows and decayed means a stream that goes on computes them again from the first step.
    """

    def __init__(self, inverse: Filter, target: AveragingTarget = RUNNING) -> None:
        self._inverse, self._target, self._rest = inverse, target, inverse.state.copy()
        self._start()

    def _start(self) -> None:
        self._inverse.state = self._rest.copy()
        self._cumulated, self._squares = RunningSums(self._target.factor), RunningSums()
        self._steps = 0
        self._past = np.zeros(self._target.window or 0)  # cumulated responses, oldest first

    def advance(self, scales: Floats) -> Floats:
        """Variances after the next steps; `scales`: as many numbers as there are steps."""
        impulse = np.zeros((1, len(scales)))
        if self._steps == 0:
            impulse[0, 0] = 1.0
        self._steps += len(scales)
        g = self._cumulated.of_numbers(self._inverse.run(impulse)[0])
        if self._target.window is not None:
            whole = np.concatenate([self._past, g])
            g = g - whole[: len(g)]
            self._past = whole[-self._target.window :].copy()
        return self._squares.of_numbers(g * g)

    def numbers(self) -> Floats:
        """The whole state as one flat array."""
        if not self._target.running:  # how far it came: all else follows
            return np.array([float(self._steps)])
        head = [self._cumulated.sums, self._squares.sums, [float(self._steps)]]
        return np.concatenate([*head, self._inverse.state.ravel()])

    def restore(self, numbers: Floats) -> None:
        """Continue exactly from `numbers()`."""
        if self._target.running:
            self._cumulated.sums, self._squares.sums = numbers[:1].copy(), numbers[1:2].copy()
            self._steps = int(numbers[2])
            self._inverse.state = numbers[3:].reshape(self._inverse.state.shape).copy()
            return
        self._start()
        left = int(numbers[0])
        while left:
            part = min(left, 256)
            self.advance(np.ones(part))
            left -= part


class ScaledTracker:
    """The same for prefix sums of buffers scaled with time, in O(M^2) numbers.

    The inverse of H is a bank of buffers b_m(t+1) = theta_m b_m(t) + t^gamma y_t, the estimate
    x_t = (t^gamma y_t - sum_m omega_m b_m(t))/(t^gamma q_t), and S_t = S_{t-1} + x_t. The
    covariances of the buffers, of each with S, and the variance of S follow first-order recursions.
    """

    def __init__(self, weights: Floats, decays: Floats, exponent: float) -> None:
        self.omega, self.theta = inverse_buffers(weights, decays)
        self.exponent = exponent
        m = len(self.theta)
        self.steps = 0
        self.buffers = np.zeros((m, m))  # covariances of b(t+1) after step t
        self.crossed = np.zeros(m)  # covariances of b(t+1) and S_t
        self.total = RunningSums()

    def advance(self, scales: Floats) -> Floats:
        """Variances after the next steps, whose column scales s^gamma q_s are given."""
        omega, theta, m = self.omega, self.theta, len(self.theta)
        t = np.arange(self.steps + 1, self.steps + len(scales) + 1, dtype=np.float64)
        entering = t ** (2 * self.exponent)
        held = np.empty((m, m, len(t)))  # covariances of b(t)
        for a in range(m):
            for b in range(m):
                after = first_order(theta[a] * theta[b], entering, self.buffers[a, b])
                held[a, b] = np.concatenate([[self.buffers[a, b]], after[:-1]])
                self.buffers[a, b] = after[-1]
        mixed = np.einsum("b,abt->at", omega, held)
        change = (entering + omega @ mixed) / scales**2
        for a in range(m):
            drive = (entering - theta[a] * mixed[a]) / scales
            after = first_order(theta[a], drive, self.crossed[a])
            before = np.concatenate([[self.crossed[a]], after[:-1]])
            self.crossed[a] = after[-1]
            change -= 2 * omega[a] * before / scales
        self.steps += len(scales)
        return self.total.of_numbers(change)

    def numbers(self) -> Floats:
        ends = [*self.total.sums, float(self.steps)]
        return np.concatenate([self.buffers.ravel(), self.crossed, ends])

    def restore(self, numbers: Floats) -> None:
        m = len(self.theta)
        self.buffers = numbers[: m * m].reshape(m, m).copy()
        self.crossed = numbers[m * m : m * m + m].copy()
        self.total.sums, self.steps = numbers[-2:-1].copy(), int(numbers[-1])


USABLE = 0.1  # noise below this share of the region's width is called small
LAST_WITHIN = 1.75
STIFF = 5.0


def clamped_square(sd: Floats, dimension: int = 1) -> Floats:
    """E min(||N||, 1)^2 for N with `dimension` independent coordinates of deviation sd.

    The mean squared error of a clamped release in squared radii, exact where the truth is the
    center of the region; wherever it lies, at most four times this.
    With c = 1/sd^2: d sd^2 P(chi2_{d+2} < c) + P(chi2_d > c).
    """
    from scipy.special import erf, gammainc, gammaincc

    s = np.maximum(np.asarray(sd, dtype=np.float64), 1e-150)
    if dimension == 1:
        a = 1 / (s * math.sqrt(2))
        inside = erf(a)
        with np.errstate(under="ignore"):
            tail = s * math.sqrt(2 / math.pi) * np.exp(-a * a)
        one: Floats = s * s * inside - tail + (1 - inside)
        return np.where(s < 1e-3, s * s, one)  # there the last terms vanish
    half = 0.5 / (s * s)
    result: Floats = dimension * s * s * gammainc(dimension / 2 + 1, half)
    result = result + gammaincc(dimension / 2, half)
    return result


@dataclass(frozen=True)
class ClampedError:
    """The mean clamped squared error of a run, with a limit on the noise at its last step.

    unit: deviation of a coordinate, in clip radii, of a release whose sens * ||B_t|| is 1.
    last_within: the last step's noise may be at most so many times the least one possible. cap:
    that limit as a value of sens * ||B_n||, once it is known. price: what a fit has found the limit
    to cost, in logarithms of the loss a logarithm of the noise.
    """

    unit: float
    dimension: int = 1
    last_within: float = LAST_WITHIN
    cap: float = math.inf
    price: float = 0.0

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "unit")
        validate.keep(self, validate.number, "last_within")
        if not self.last_within >= 1:
            raise ArgumentError(
                "last_within", self.last_within, "must be at least 1", "give a factor such as 2"
            )

    def losses(self, norms: Floats) -> Floats:
        """Mean squared error after clamping, in squared radii, at steps with sens * ||B_t||."""
        return clamped_square(self.unit * norms, self.dimension)

    def excess(self, last: float) -> float:
        """An augmented Lagrangian term, in units of a logarithm, for the cap on the last step."""
        if math.isinf(self.cap):
            return 0.0
        return (self._pushed(last) ** 2 - self.price**2) / (2 * STIFF)

    def priced(self, last: float, cap: float) -> ClampedError:
        """The next problem of a fit that ended with this last step; its first cap is free."""
        if math.isinf(self.cap):
            return replace(self, cap=cap)
        return replace(self, cap=cap, price=self._pushed(last))

    def _pushed(self, last: float) -> float:
        return max(0.0, self.price + STIFF * math.log(last / self.cap))


def first_usable(sds: Floats, radius: float, dimension: int = 1) -> int | None:
    """The first step from which on the noise stays below a tenth of the region's width.

    sds: deviation of a coordinate at steps 1..n, in the unit of `radius`. None: not by step n.
    """
    large = np.flatnonzero(sds * math.sqrt(dimension) >= USABLE * 2 * radius)
    step = 1 if not len(large) else int(large[-1]) + 2
    return step if step <= len(sds) else None


GOALS = ("shown", "rmse", "final", "times")


@dataclass(frozen=True)
class ErrorGoal:
    """The steps whose error matters.

    Parameters
    ----------
    first : int, default 1
        Root mean square over all steps from this one on.
    times : tuple of int, optional
        Only these steps.
    shown : ClampedError, optional
        Use the error after clamping instead of that of the noise.
    """

    first: int = 1
    times: tuple[int, ...] = ()
    shown: ClampedError | None = None

    @classmethod
    def of(
        cls,
        goal: str,
        *,
        from_step: int = 1,
        times: Sequence[int] = (),
        shown: ClampedError | None = None,
    ) -> ErrorGoal:
        """The goal named "shown" or "rmse" (both: steps from `from_step` on), "final" or "times".

        shown: what "shown" needs to know.
        """
        validate.choice("goal", goal, GOALS)
        times = validate.listed("times", times)
        first = validate.whole("from_step", from_step, least=1, most=LONGEST // 10)
        if goal == "times":
            chosen = {validate.whole("times", item, least=1, most=LONGEST) for item in times}
            if not chosen:
                raise ArgumentError("times", times, "is empty", "name the steps that matter")
            return cls(times=tuple(sorted(chosen)))
        if times:
            raise ArgumentError("times", times, "requires goal='times'", "remove it")
        if goal == "shown" and shown is None:
            raise ArgumentError(
                "goal", goal, "requires a budget", "give one, or choose rmse, final or times"
            )
        if goal == "final":
            return cls(first=0)
        return cls(first=first, shown=shown if goal == "shown" else None)

    def weights(self, steps: int) -> Floats:
        """Non-negative weights of the squared errors of steps 1..n; they sum to 1."""
        v = np.zeros(steps)
        if self.times:
            inside = [item for item in self.times if item <= steps]
            if not inside:
                raise ArgumentError(
                    "times", self.times, f"must lie within the {steps} steps", "name earlier steps"
                )
            v[np.array(inside) - 1] = 1.0 / len(inside)
        elif self.first == 0:
            v[-1] = 1.0
        elif self.first > steps:
            raise ArgumentError(
                "from_step",
                self.first,
                f"must lie within the {steps} steps",
                "give an earlier step",
            )
        else:
            v[self.first - 1 :] = 1.0 / (steps - self.first + 1)
        return v

    def of_norms(self, norms: Floats) -> float:
        """Root mean squared error over the steps that matter; norms: sens * ||B_t||, shape (n,).

        In clip radii if the goal is what is shown, else for noise 1 a unit of sensitivity.
        """
        losses = norms**2 if self.shown is None else self.shown.losses(norms)
        return float(np.sqrt(np.dot(self.weights(len(norms)), losses)))

    def error(self, variances: Floats) -> float:
        """Root of the weighted mean squared error of means with these prefix-sum variances."""
        t = np.arange(1, len(variances) + 1, dtype=np.float64)
        return float(np.sqrt(np.dot(self.weights(len(t)) / t**2, variances)))

    def tail_weights(self, steps: int) -> Floats:
        """w_s = sum over t >= s of v_t/t^2: the weight of g_s^2 in the mean squared error."""
        t = np.arange(1, steps + 1, dtype=np.float64)
        return np.cumsum((self.weights(steps) / t**2)[::-1])[::-1].copy()

    def describe(self) -> str:
        if self.times:
            return "steps " + ", ".join(str(item) for item in self.times[:8])
        if self.first == 0:
            return "the last step"
        if self.shown is not None:
            since = "" if self.first == 1 else f" from {self.first} on"
            return f"what is shown at all steps{since}"
        return "all steps" if self.first == 1 else f"all steps from {self.first} on"


RMSE = ErrorGoal()
FINAL = ErrorGoal(first=0)
