"""The two sides of a strategy as recursions over time: rows in, rows out, a bounded state.

Rows come as (coordinates, steps) blocks. The forward side computes C X of the clipped integer rows
(private), the backward side C^-1 Y of the noisy rows (public). Any split into blocks gives the same
numbers, and the state is one array that can be stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from privmean.streams.power_series import Floats


class Filter(Protocol):
    """A causal linear recursion."""

    state: Floats

    def run(self, rows: Floats) -> Floats:
        """The outputs for the next rows; shapes (coordinates, steps)."""
        ...

    def one(self, row: float) -> float:
        """The same for one coordinate and one step, by the same operations: most of the time of
        one number in an array is the array's."""
        ...


def _lfilter(numerator: Floats, denominator: Floats, rows: Floats, state: Floats) -> Floats:
    from scipy.signal import lfilter

    out, state[...] = lfilter(numerator, denominator, rows, axis=1, zi=state)
    result: Floats = out
    return result


class _Taps(ABC):
    """What a recursion by taps keeps between calls."""

    def __init__(self, taps: Floats, coordinates: int) -> None:
        self.taps = _padded(taps)
        # 1, 0, 0, ...: the recursive code path, which any split leaves unchanged
        self.rest = np.eye(1, len(self.taps))[0]
        self.state = np.zeros((coordinates, len(self.taps) - 1))

    @abstractmethod
    def run(self, rows: Floats) -> Floats:
        """As `Filter.run`."""

    def one(self, row: float) -> float:
        result: float = self.run(np.array([[row]])).item()
        return result


class Convolution(_Taps):
    """out_s = sum_j a_j x_{s-j}. With integer rows and taps below 2^53 in sum it is exact."""

    def run(self, rows: Floats) -> Floats:
        if rows.shape[1] > 1:
            return _lfilter(self.taps, self.rest, rows, self.state)
        # one step by hand, in the same order of operations: most of a call is its overhead
        out: Floats = self.state[:, :1] + rows * self.taps[0]
        self.state[:, :-1] = self.state[:, 1:] + rows * self.taps[1:-1]
        self.state[:, -1:] = rows * self.taps[-1]
        return out


class Recursion(_Taps):
    """The inverse of `Convolution` for taps that start with 1."""

    def run(self, rows: Floats) -> Floats:
        if rows.shape[1] > 1:
            return _lfilter(self.rest, self.taps, rows, self.state)
        out: Floats = self.state[:, :1] + rows
        self.state[:, :-1] = self.state[:, 1:] - out * self.taps[1:-1]
        self.state[:, -1:] = -out * self.taps[-1]
        return out


class Bank:
    """M buffers: out_s = x_s + sum_m weights[m] h_m, then h_m <- decays[m] h_m + x_s."""

    def __init__(self, weights: Floats, decays: Floats, coordinates: int) -> None:
        self.weights, self.decays = weights, decays
        self._numbers: tuple[list[float], list[float]] = weights.tolist(), decays.tolist()
        self._held: list[float] | None = None  # the state of one coordinate, while it is ahead
        self.state = np.zeros((coordinates, len(weights)))

    @property
    def state(self) -> Floats:
        if self._held is not None:
            self._state, self._held = np.array([self._held]), None
        return self._state

    @state.setter
    def state(self, state: Floats) -> None:
        self._state, self._held = state, None

    def one(self, row: float) -> float:
        held = self._state[0].tolist() if self._held is None else self._held
        weights, decays = self._numbers
        total = row
        for weight, h in zip(weights, held, strict=True):
            total += weight * h
        self._held = [decay * h + row for decay, h in zip(decays, held, strict=True)]
        return total

    def run(self, rows: Floats) -> Floats:
        if rows.shape == (1, 1):
            return np.array([[self.one(rows.item())]])
        out = rows.astype(np.float64)
        if rows.shape[1] == 1:
            for m, weight in enumerate(self.weights):
                out[:, 0] += weight * self.state[:, m]
            self.state = self.decays * self.state + rows
            return out
        for m, (weight, decay) in enumerate(zip(self.weights, self.decays, strict=True)):
            pending = decay * self.state[:, m : m + 1]
            if rows.shape[1] == 1:  # the same two operations, without a library's preparations
                held = rows + pending
            else:
                held = _lfilter(np.array([1.0, 0.0]), np.array([1.0, -decay]), rows, pending)
            out[:, 0] += weight * self.state[:, m]
            out[:, 1:] += weight * held[:, :-1]
            self.state[:, m] = held[:, -1]
        return out


class Tracker(Protocol):
    """Follows the variance of the released prefix sums, in units of the noise of one row."""

    def advance(self, scales: Floats) -> Floats:
        """Variances after the next steps; `scales` are their column scales (ones if none)."""
        ...

    def numbers(self) -> Floats:
        """The whole state as one flat array."""
        ...

    def restore(self, numbers: Floats) -> None:
        """Continue exactly from `numbers()`."""
        ...


class ImpulseTracker:
    """For Toeplitz strategies: an impulse through the inverse gives g_s, and sum g_s^2."""

    def __init__(self, inverse: Filter) -> None:
        self._inverse = inverse
        self._sum, self._square, self._steps = 0.0, 0.0, 0

    def advance(self, scales: Floats) -> Floats:
        impulse = np.zeros((1, len(scales)))
        if self._steps == 0:
            impulse[0, 0] = 1.0
        response = self._inverse.run(impulse)[0]
        g = np.cumsum(np.concatenate([[self._sum], response]))[1:]
        squares = np.cumsum(np.concatenate([[self._square], g * g]))[1:]
        self._sum, self._square = float(g[-1]), float(squares[-1])
        self._steps += len(scales)
        return squares

    def numbers(self) -> Floats:
        head = [self._sum, self._square, float(self._steps)]
        return np.concatenate([head, self._inverse.state.ravel()])

    def restore(self, numbers: Floats) -> None:
        self._sum, self._square = float(numbers[0]), float(numbers[1])
        self._steps = int(numbers[2])
        self._inverse.state = numbers[3:].reshape(self._inverse.state.shape).copy()


def _padded(taps: Floats) -> Floats:
    result = np.zeros(max(len(taps), 2))
    result[: len(taps)] = taps
    return result
