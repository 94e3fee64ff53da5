"""The two sides of a strategy as recursions over time: rows in, rows out, a bounded state.

Rows come as (coordinates, steps) blocks. The forward side computes C X of the clipped integer rows
(private), the backward side C^-1 Y of the noisy rows (public). Any split into blocks gives the same
numbers, and the state is one array that can be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from privmean.continual.series import Floats


class Filter(Protocol):
    """A causal linear recursion."""

    state: Floats

    def run(self, rows: Floats) -> Floats:
        """The outputs for the next rows; shapes (coordinates, steps)."""
        ...


def _lfilter(numerator: Floats, denominator: Floats, rows: Floats, state: Floats) -> Floats:
    from scipy.signal import lfilter

    out, state[...] = lfilter(numerator, denominator, rows, axis=1, zi=state)
    result: Floats = out
    return result


class Convolution:
    """out_s = sum_j a_j x_{s-j}. With integer rows and taps below 2^53 in sum it is exact.

    `head` gives other taps to the first columns: x_j is spread by head[j] instead of `taps`.
    """

    def __init__(self, taps: Floats, coordinates: int, head: Sequence[Floats] = ()) -> None:
        size = max(len(taps), 2, *(len(item) for item in head))
        self.taps = _padded(taps, size)
        self.head = [_padded(item, size) for item in head]
        self.rest = np.eye(1, size)[0]  # denominator 1, 0, 0, ...: the recursive code path
        # state[:, :-1] are the sums under way, state[0, -1] the steps done within the head
        self.state = np.zeros((coordinates, size - 1))
        self.done = 0

    def run(self, rows: Floats) -> Floats:
        out = np.empty_like(rows)
        start = 0
        while self.done < len(self.head) and start < rows.shape[1]:
            column, x = self.head[self.done], rows[:, start]
            out[:, start] = column[0] * x + self.state[:, 0]
            self.state[:, :-1] = self.state[:, 1:]
            self.state[:, -1] = 0.0
            self.state += x[:, None] * column[None, 1:]
            self.done += 1
            start += 1
        if start < rows.shape[1]:
            out[:, start:] = _lfilter(self.taps, self.rest, rows[:, start:], self.state)
        return out


class Recursion:
    """The inverse of `Convolution` for taps that start with 1 (head columns with any diagonal)."""

    def __init__(self, taps: Floats, coordinates: int, head: Sequence[Floats] = ()) -> None:
        size = max(len(taps), 2, *(len(item) for item in head))
        self.taps = _padded(taps, size)
        self.head = [_padded(item, size) for item in head]
        self.rest = np.eye(1, size)[0]
        self.state = np.zeros((coordinates, size - 1))
        self.done = 0

    def run(self, rows: Floats) -> Floats:
        out = np.empty_like(rows)
        start = 0
        while self.done < len(self.head) and start < rows.shape[1]:
            column = self.head[self.done]
            x = (rows[:, start] + self.state[:, 0]) / column[0]
            out[:, start] = x
            self.state[:, :-1] = self.state[:, 1:]
            self.state[:, -1] = 0.0
            self.state -= x[:, None] * column[None, 1:]
            self.done += 1
            start += 1
        if start < rows.shape[1]:
            out[:, start:] = _lfilter(self.rest, self.taps, rows[:, start:], self.state)
        return out


class Bank:
    """M buffers: out_s = x_s + sum_m weights[m] h_m, then h_m <- decays[m] h_m + x_s."""

    def __init__(self, weights: Floats, decays: Floats, coordinates: int) -> None:
        self.weights, self.decays = weights, decays
        self.state = np.zeros((coordinates, len(weights)))
        self.done = 0

    def run(self, rows: Floats) -> Floats:
        out = rows.astype(np.float64)
        for m, (weight, decay) in enumerate(zip(self.weights, self.decays, strict=True)):
            pending = decay * self.state[:, m : m + 1]
            held = _lfilter(np.array([1.0, 0.0]), np.array([1.0, -decay]), rows, pending)
            out[:, 0] += weight * self.state[:, m]
            out[:, 1:] += weight * held[:, :-1]
            self.state[:, m] = held[:, -1]
        return out


def _padded(taps: Floats, size: int) -> Floats:
    result = np.zeros(size)
    result[: len(taps)] = taps
    return result
