"""Noisy rows of a stream, and prefix sums made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privmean.errors import PrivmeanError
from privmean.mechanisms.noisy_rows import AHEAD, DrawAhead
from privmean.noise.noise_source import Integers, Noise
from privmean.privacy.privacy_events import Gaussian
from privmean.streams.averaging_targets import RUNNING, AverageState, AveragingTarget, TargetTracker
from privmean.streams.integer_strategy import Lattice
from privmean.streams.power_series import Floats
from privmean.streams.toeplitz_filters import Tracker


@dataclass(frozen=True)
class PrefixMechanism:
    """The public facts of one noisy prefix-sum mechanism.

    movement: how many lattice steps one row can move (2 * row norm under replacement, row norm
    under zeroing). scale: standard deviation of the noise in lattice units.

    Guarantees: with rows within the row norm and people within the participation pattern, the
    noisy rows of all steps together have the loss `loss`; everything else is computed from them.
    """

    lattice: Lattice
    dimension: int
    movement: int
    scale: float
    name: str = "noisy rows of the stream"

    @property
    def loss(self) -> Gaussian:
        return Gaussian(
            self.name,
            sensitivity=self.lattice.sensitivity(self.movement, self.dimension),
            scale=self.scale,
            answers=self.lattice.answers(self.dimension),
        )

    @property
    def noise_step(self) -> float:
        """Standard deviation of the noise of one row, in steps of z."""
        return self.scale / 2.0**self.lattice.bits


class Block(NamedTuple):
    """Released prefix sums: sums (steps, d) in steps of z, and their variances with unit noise."""

    sums: Floats
    squares: Floats


class PublicNumbers:
    """Scales and variances of the steps: known beforehand, so computed in blocks and handed out.

    A stream that goes on from stored numbers computes the same block again, bit for bit.
    """

    def __init__(self, lattice: Lattice, target: AveragingTarget = RUNNING) -> None:
        self._lattice = lattice
        self._tracker: Tracker = (
            lattice.tracker() if target.running else TargetTracker(lattice.backward(1), target)
        )
        self._block = -1
        self._before = self._tracker.numbers()
        self._scales: tuple[Floats, Floats] | None = None
        self._squares = np.zeros(0)

    def of_steps(self, done: int, steps: int) -> tuple[Floats | None, Floats | None, Floats]:
        """(column scales, row scales, variances) of the next steps; scales may be None."""
        columns: list[Floats] = []
        rows: list[Floats] = []
        squares: list[Floats] = []
        end = done + steps
        while done < end:
            block, first = divmod(done, AHEAD)
            if block != self._block:
                self._compute(block)
            last = min(AHEAD, first + end - done)
            squares.append(self._squares[first:last])
            if self._scales is not None:
                columns.append(self._scales[0][first:last])
                rows.append(self._scales[1][first:last])
            done += last - first
        if self._scales is None:
            return None, None, _joined(squares)
        return _joined(columns), _joined(rows), _joined(squares)

    def of_one(self, done: int) -> tuple[float | None, float | None, float]:
        """`of_steps` of the next step alone."""
        block, at = divmod(done, AHEAD)
        if block != self._block:
            self._compute(block)
        square = self._squares.item(at)
        if self._scales is None:
            return None, None, square
        return self._scales[0].item(at), self._scales[1].item(at), square

    def _compute(self, block: int) -> None:
        if block != self._block + 1:
            raise PrivmeanError(f"internal: block {block} after block {self._block}")
        self._block = block
        self._before = self._tracker.numbers()
        self._scales = self._lattice.time_scales(block * AHEAD, AHEAD)
        self._squares = self._tracker.advance(
            np.ones(AHEAD) if self._scales is None else self._scales[0]
        )

    def numbers(self) -> Floats:
        """The state before the current block, and its number."""
        return np.append(self._before, float(self._block))

    def restore(self, numbers: Floats) -> None:
        """Continue exactly from `numbers()`."""
        self._tracker.restore(numbers[:-1].copy())
        block = int(numbers[-1])
        self._block = max(block, 0) - 1
        if block >= 0:
            self._compute(block)


def _joined(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class NoisyPrefixSums:
    """A running `PrefixMechanism`: integer rows in, noisy prefix sums out, O(p d) state.

    With a fading target the sums are weighted; for a window they are those of all rows, and the
    variances those of the window.
    """

    def __init__(
        self, mechanism: PrefixMechanism, noise: Noise, target: AveragingTarget = RUNNING
    ) -> None:
        lattice, d = mechanism.lattice, mechanism.dimension
        self.mechanism = mechanism
        self._noise = DrawAhead(noise, mechanism.scale)
        self.steps = 0
        self._forward = lattice.forward(d)
        self._backward = lattice.backward(d)
        self._public = PublicNumbers(lattice, target)
        self._tally = AverageState(target, d)

    def advance(self, rows: Integers) -> Block:
        """Take the next steps with these rows, shape (m, d), integers within the row norm."""
        lattice = self.mechanism.lattice
        m = len(rows)
        most = lattice.most_steps
        if most is not None and self.steps + m > most:
            raise PrivmeanError(f"internal: {self.steps + m} steps on a plan for {most}")
        if rows.shape == (1, 1):
            return self._one(rows.item())
        column_scales, row_scales, squares = self._public.of_steps(self.steps, m)
        entering = np.ascontiguousarray(rows.T, dtype=np.float64)
        if column_scales is not None:
            entering = entering * column_scales
        mixed = self._forward.run(entering)
        if row_scales is not None:
            mixed = mixed / row_scales
        whole = lattice.round_rows(mixed).T.astype(np.int64)
        noisy = self._noise.added(whole)
        # from here on everything is a function of the noisy integers and of public numbers
        public = np.ascontiguousarray(noisy.T) / 2.0**lattice.bits
        if row_scales is not None:
            public = public * row_scales
        estimates = self._backward.run(public)
        if column_scales is not None:
            estimates = estimates / column_scales
        self.steps += m
        return Block(self._tally.advance(estimates.T), squares)

    def _one(self, row: int) -> Block:
        """`advance` by one step of one column: the same operations on numbers."""
        lattice = self.mechanism.lattice
        column_scale, row_scale, square = self._public.of_one(self.steps)
        mixed = self._forward.one(float(row) if column_scale is None else row * column_scale)
        whole = lattice.round_one(mixed if row_scale is None else mixed / row_scale)
        # from here on everything is a function of the noisy integers and of public numbers
        public = self._noise.added_one(whole) / 2.0**lattice.bits
        estimate = self._backward.one(public if row_scale is None else public * row_scale)
        if column_scale is not None:
            estimate = estimate / column_scale
        self.steps += 1
        return Block(self._tally.advance(np.array([[estimate]])), np.array([square]))

    def arrays(self) -> dict[str, Floats]:
        """The whole state. Secret: with the noisy rows it reveals the raw ones."""
        return {
            "forward": self._forward.state,
            "backward": self._backward.state,
            "tracker": self._public.numbers(),
            "sums": np.append(self._tally.sums, float(self.steps)),
        }

    def restore(self, arrays: dict[str, Floats]) -> None:
        """Continue exactly from `arrays()`."""
        self._forward.state = arrays["forward"].copy()
        self._backward.state = arrays["backward"].copy()
        self._public.restore(arrays["tracker"])
        self._tally.sums = arrays["sums"][:-1].copy()
        self.steps = int(arrays["sums"][-1])
