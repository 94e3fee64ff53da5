"""Strategies in whole numbers, and the mechanism that draws noisy prefix sums.

A strategy on the integers: what is added to exact integers before exact integer noise.

Rows are integer vectors z with ||z|| <= row_norm. The private rows C z are put on the lattice with
2^bits units a step of z *before* the noise, and only functions of the noisy integers are published.

* A strategy with finitely many taps is replaced by integer taps a_j = round(c_j 2^bits), which then
  *are* the strategy: C z is an integer, computed without any rounding, and nothing is added to the
  sensitivity. One person touches at most K p rows, so that a stream without end needs no horizon.
* Otherwise (buffers, banded inverses) C z is computed in float64 with a proved error bound and
  rounded, which adds `rounding` a coordinate and step, hence rounding sqrt(n d) to the sensitivity:
  n must have a public limit, and the lattice is fine enough for that term not to matter.

Proofs: docs/proofs/continual.md, sections 3 and 4.

Noisy rows of a stream, and prefix sums made of them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from privmean.errors import InfeasibleError, PrivmeanError
from privmean.mechanisms.row_sums import AHEAD, DrawAhead
from privmean.noise.noise_source import Integers, Noise
from privmean.privacy.privacy_events import Gaussian
from privmean.streams import toeplitz_matrices as filters
from privmean.streams.buffered_toeplitz import Buffered, ScaledBuffered, VarianceTracker, norm_table
from privmean.streams.strategies import InverseToeplitz, LowerToeplitz, Strategy, Toeplitz
from privmean.streams.strategy_error import RUNNING, AverageState, AveragingTarget, TargetTracker
from privmean.streams.toeplitz_matrices import (
    ColumnNorms,
    Floats,
    Participation,
    Tracker,
    sensitivity,
)

ROW_BITS = 22  # a row is clipped to fewer than 2^22 lattice steps
COLUMN_BITS = 26
EXACT = 2.0**52  # sums of integers below this are exact in float64, in any order
NOISE_LIMIT = 2.0**54  # noisy integers then stay far below 2^63
FLOAT_SLACK = 1e-9  # relative allowance for norms computed in float64
COLUMN_ERROR = 1e-11  # absolute error of a column computed by `series.invert`
BUFFERED = (Buffered, ScaledBuffered)
UNENDING = 2**32  # public limit of steps where a horizon is needed and none was given


@dataclass(frozen=True)
class Lattice:
    """The integer form of one strategy, self-contained so that it can be stored and re-read.

    row_bits: rows have norm at most 2^row_bits. bits: lattice units a row step, as a power of two.
    unit_sensitivity: lattice units by which C z moves in l2 for a row movement of one step, float
    error included. rounding: extra movement a coordinate and step. Exactly one of these is given:
    taps, the integer column of C; inverse, the column of the inverse of C; buffers, the (weights,
    decays) of C. An exponent and a loading go with buffers and make them those of `ScaledBuffered`.
    """

    name: str
    participation: Participation
    steps: int | None
    row_bits: int
    bits: int
    unit_sensitivity: float
    rounding: float
    taps: tuple[int, ...] = ()
    inverse: tuple[float, ...] = ()
    buffers: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    exponent: float | None = None
    loading: ColumnNorms | None = None

    @property
    def strategy(self) -> Strategy:
        """The strategy as it runs."""
        if self.buffers is not None and self.exponent is not None:
            return ScaledBuffered(*self.buffers, self.exponent, self.loading)
        if self.taps:
            return Toeplitz(tuple(item / self.taps[0] for item in self.taps), label=self.name)
        if self.buffers is not None:
            return Buffered(*self.buffers, label=self.name)
        return InverseToeplitz(self.inverse, label=self.name)

    @property
    def most_steps(self) -> int | None:
        """The step after which the stream must end; None: it never has to."""
        if self.steps is not None:
            return self.steps
        return None if self.taps else UNENDING

    def answers(self, dimension: int) -> int:
        """The most coordinates of the noisy rows in which neighbors can differ."""
        limits = [self.most_steps] if self.most_steps is not None else []
        if self.taps:
            limits.append(self.participation.within(self.steps) * len(self.taps))
        return min(limits) * dimension

    def sensitivity(self, movement: int, dimension: int) -> float:
        """The l2 sensitivity in lattice units when a row moves by at most `movement` steps."""
        extra = 0.0
        if self.rounding:
            assert self.most_steps is not None
            extra = self.rounding * math.sqrt(self.most_steps * dimension)
        return (movement * self.unit_sensitivity + extra) * (1 + 1e-12)

    def forward(self, coordinates: int) -> filters.Filter:
        """Rows z to C z; in lattice units if there are integer taps, else in steps of z."""
        if self.taps:
            return filters.Convolution(np.array(self.taps, dtype=np.float64), coordinates)
        if self.buffers is not None:
            weights, decays = self.buffers
            return filters.Bank(np.array(weights), np.array(decays), coordinates)
        return filters.Recursion(np.array(self.inverse), coordinates)

    def backward(self, coordinates: int) -> filters.Filter:
        """Noisy rows, in steps of z, to noisy estimates of z."""
        if self.taps:
            taps = np.array(self.taps, dtype=np.float64) / 2.0**self.bits
            return filters.Recursion(taps, coordinates)
        if self.buffers is not None:
            weights, decays = Buffered(*self.buffers).inverse_buffers
            return filters.Bank(-weights, decays, coordinates)
        return filters.Convolution(np.array(self.inverse), coordinates)

    def time_scales(self, done: int, steps: int) -> tuple[Floats, Floats] | None:
        """(column scales, row scales) of the next steps; None if the strategy has none."""
        if self.buffers is None or self.exponent is None:
            return None
        norms, limit = norm_table(*self.buffers, self.exponent)
        s = np.arange(done + 1, done + steps + 1, dtype=np.float64)
        known = norms[done : done + steps]
        norm = np.concatenate([known, np.full(steps - len(known), limit)])
        rows = s**self.exponent
        columns = rows / np.sqrt(norm)
        if self.loading is not None:
            columns = columns * self.loading.factors(done, steps)
        return columns, rows

    def tracker(self) -> filters.Tracker:
        """What follows the variance of the released prefix sums."""
        if self.buffers is not None and self.exponent is not None:
            weights, decays = self.buffers
            return VarianceTracker(np.array(weights), np.array(decays), self.exponent)
        return filters.ImpulseTracker(self.backward(1))

    def round_rows(self, mixed: Floats) -> Floats:
        """The output of `forward` as whole lattice units (still in float64, below 2^53)."""
        if self.taps:
            return mixed
        return np.rint(mixed * 2.0**self.bits)

    def round_one(self, mixed: float) -> int:
        """`round_rows` of one number."""
        return int(mixed) if self.taps else round(mixed * 2.0**self.bits)  # half to even, as rint

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "participation": asdict(self.participation)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Lattice:
        buffers, loading = values["buffers"], values["loading"]
        return cls(
            **{
                **values,
                "participation": Participation(**values["participation"]),
                "taps": tuple(values["taps"]),
                "inverse": tuple(values["inverse"]),
                "buffers": None if buffers is None else (tuple(buffers[0]), tuple(buffers[1])),
                "loading": None if loading is None else ColumnNorms(**loading),
            }
        )


def _inverse_taps(strategy: Strategy) -> Floats:
    assert isinstance(strategy, LowerToeplitz)
    assert strategy.inverse_taps is not None
    return strategy.inverse(strategy.inverse_taps)


def on_lattice(
    strategy: Strategy,
    participation: Participation,
    steps: int | None,
    *,
    rows_a_step: int,
    mu: float,
    movement: int,
    delta: float | None,
) -> Lattice:
    """The finest lattice on which every step stays exact and the noise correction holds.

    rows_a_step: how many rows one step sums. mu: the intended ratio of sensitivity to noise. delta:
    of the budget; the correction for discrete noise needs noise of at most sqrt(delta/4e-33) units
    (None for zCDP, which needs no correction).
    """
    integer_taps = _tap_count(strategy, steps)
    if integer_taps is not None:
        assert isinstance(strategy, LowerToeplitz)
        column = strategy.column(integer_taps)
        unit = sensitivity(column, participation, steps)
        growth = float(np.abs(column).sum())
        inner = growth
    else:
        unit, growth, inner = _rounded_facts(strategy, participation, steps)
    limit = NOISE_LIMIT if delta is None else min(NOISE_LIMIT, math.sqrt(delta / 4e-33))
    room = limit * mu / (movement * unit * 1.01)
    by_noise = math.log2(room) if room > 0 else -math.inf
    by_exactness = math.log2(EXACT / (rows_a_step * inner)) - 1
    if min(by_noise, by_exactness) < 20:
        raise InfeasibleError(
            "the stream exceeds 64-bit integers",
            "use a larger epsilon or delta, fewer rows per step, or fewer taps",
        )
    total = math.floor(min(by_noise, by_exactness, ROW_BITS + COLUMN_BITS))
    row_bits = min(ROW_BITS, total // 2)
    bits = total - row_bits
    taps: tuple[int, ...] = ()
    inverse: tuple[float, ...] = ()
    buffers: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    exponent: float | None = None
    loading: ColumnNorms | None = None
    rounding = 0.0
    if integer_taps is not None:
        taps = _integer_taps(column, bits, participation)
        unit = sensitivity(np.array(taps, dtype=np.float64), participation, steps)
    else:
        error = _float_error(strategy, rows_a_step * 2.0**row_bits, growth)
        rounding = 1 + 2 * error * 2.0**bits
        unit *= 2.0**bits
        if isinstance(strategy, BUFFERED):
            buffers = strategy.weights, strategy.decays
            if isinstance(strategy, ScaledBuffered):
                exponent, loading = strategy.exponent, strategy.loading
        else:
            inverse = tuple(_inverse_taps(strategy).tolist())
    return Lattice(
        strategy.name,
        participation,
        steps,
        row_bits,
        bits,
        unit * (1 + FLOAT_SLACK),
        rounding,
        taps,
        inverse,
        buffers,
        exponent,
        loading,
    )


def _tap_count(strategy: Strategy, steps: int | None) -> int | None:
    """How many integer taps represent the strategy; None if it has to be rounded."""
    if isinstance(strategy, BUFFERED):
        return None
    assert isinstance(strategy, LowerToeplitz)
    if strategy.taps is not None:
        return strategy.taps if steps is None else min(strategy.taps, steps)
    if strategy.inverse_taps is not None:
        return None
    if steps is None:
        raise InfeasibleError(
            f"the strategy {strategy.name} requires a memory as long as the stream",
            "give steps, or use a banded or buffered strategy",
        )
    return steps


def _integer_taps(column: Floats, bits: int, participation: Participation) -> tuple[int, ...]:
    scaled = np.rint(column * 2.0**bits)
    if len(column) > participation.separation and participation.most > 1:
        # rounding of nearly equal entries must not make them increase
        scaled = np.maximum.accumulate(scaled[::-1])[::-1]
    last = int(np.flatnonzero(scaled).max(initial=0)) + 1
    return tuple(int(item) for item in scaled[:last])


def _rounded_facts(
    strategy: Strategy, participation: Participation, steps: int | None
) -> tuple[float, float, float]:
    """(sensitivity, sum of |column|, largest inner number a unit row) of a rounded strategy."""
    if isinstance(strategy, BUFFERED):
        weights, decays = np.array(strategy.weights), np.array(strategy.decays)
        growth = 1 + float(np.sum(weights / (1 - decays)))
        # the limit without a horizon bounds every horizon and costs nothing measurable
        unit = strategy.sensitivity(participation, None)
        return unit, growth, max(growth, float(np.max(1 / (1 - decays))))
    if steps is None:
        raise InfeasibleError(
            f"the sensitivity of {strategy.name} is known for a given number of steps only",
            "give steps, or use a banded or buffered strategy",
        )
    assert isinstance(strategy, LowerToeplitz)
    column = strategy.column(steps)
    growth = float(np.abs(column).sum()) + steps * COLUMN_ERROR
    k = participation.within(steps)
    unit = sensitivity(column, participation, steps) + k * math.sqrt(steps) * COLUMN_ERROR
    if float(np.abs(_inverse_taps(strategy)[1:]).sum()) > 1:
        raise InfeasibleError(
            f"{strategy.name} has an inverse without a bound on its rounding error",
            "use the banded inverse of a decreasing strategy",
        )
    return unit, growth, growth


def _float_error(strategy: Strategy, largest_row: float, growth: float) -> float:
    """An upper bound on the float64 error of one coordinate of C z, in steps of z."""
    unit = 2.0**-52
    if isinstance(strategy, BUFFERED):
        weights, decays = np.array(strategy.weights), np.array(strategy.decays)
        buffers = float(np.sum(weights / (1 - decays) ** 2))
        return 4 * unit * largest_row * (buffers + (len(weights) + 4) * growth)
    return 2 * unit * largest_row * (len(_inverse_taps(strategy)) + 2) * growth**2


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
