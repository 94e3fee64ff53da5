"""Strategies in whole numbers, the noise that a budget allows them, and the noisy sums they give.

Rows are integer vectors z with ||z|| <= row_norm. The private rows C z are put on the lattice with
2^bits units a step of z *before* the noise, and only functions of the noisy integers are published.

* A strategy with finitely many taps is replaced by integer taps a_j = round(c_j 2^bits), which then
  *are* the strategy: C z is an integer, computed without any rounding, and nothing is added to the
  sensitivity. One person touches at most K p rows, so that a stream without end needs no horizon.
* Otherwise (buffers, banded inverses) C z is computed in float64 with a proved error bound and
  rounded, which adds `rounding` a coordinate and step, hence rounding sqrt(n d) to the sensitivity:
  n must have a public limit, and the lattice is fine enough for that term not to matter.

Proofs: docs/proofs/continual.md, sections 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.errors import ArgumentError, InfeasibleError, PrivmeanError
from privmean.mechanisms.row_sums import AHEAD, DrawAhead
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Budget, Relation
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent
from privmean.streams.strategies import (
    SCALED_STEPS,
    Buffered,
    Buffers,
    InverseToeplitz,
    LowerToeplitz,
    ScaledBuffered,
    Strategy,
    Toeplitz,
    column_norms,
)
from privmean.streams.strategy_error import (
    RUNNING,
    AveragingTarget,
    ImpulseTracker,
    RunningSums,
    ScaledTracker,
)
from privmean.streams.toeplitz_matrices import (
    Bank,
    ColumnNorms,
    Convolution,
    Filter,
    Participation,
    Recursion,
    inverse_buffers,
    sensitivity,
)

ROW_BITS = 22  # a row is clipped to fewer than 2^22 lattice steps
COLUMN_BITS = 26
EXACT = 2.0**52  # sums of integers below this are exact in float64, in any order
NOISE_LIMIT = 2.0**54  # noisy integers then stay far below 2^63
FLOAT_SLACK = 1e-9  # relative allowance for norms computed in float64
COLUMN_ERROR = 1e-11  # absolute error of a column computed by `series.invert`
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

    def forward(self, coordinates: int) -> Filter:
        """Rows z to C z; in lattice units if there are integer taps, else in steps of z."""
        if self.taps:
            return Convolution(np.array(self.taps, dtype=np.float64), coordinates)
        if self.buffers is not None:
            return Bank(*self._buffers, coordinates)
        return Recursion(np.array(self.inverse), coordinates)

    def backward(self, coordinates: int) -> Filter:
        """Noisy rows, in steps of z, to noisy estimates of z."""
        if self.taps:
            taps = np.array(self.taps, dtype=np.float64) / 2.0**self.bits
            return Recursion(taps, coordinates)
        if self.buffers is not None:
            weights, decays = inverse_buffers(*self._buffers)
            return Bank(-weights, decays, coordinates)
        return Convolution(np.array(self.inverse), coordinates)

    @property
    def _buffers(self) -> tuple[Floats, Floats]:
        assert self.buffers is not None
        weights, decays = self.buffers
        return np.array(weights), np.array(decays)

    def time_scales(self, done: int, steps: int) -> tuple[Floats, ...]:
        """(column scales, row scales) of the next steps; nothing if the strategy has none."""
        if self.buffers is None or self.exponent is None:
            return ()
        norms, limit = _norm_table(*self.buffers, self.exponent)
        s = np.arange(done + 1, done + steps + 1, dtype=np.float64)
        known = norms[done : done + steps]
        norm = np.concatenate([known, np.full(steps - len(known), limit)])
        rows = s**self.exponent
        columns = rows / np.sqrt(norm)
        if self.loading is not None:
            columns = columns * self.loading.factors(done, steps)
        return columns, rows

    def tracker(self, target: AveragingTarget = RUNNING) -> ImpulseTracker | ScaledTracker:
        """What follows the variance of the released sums."""
        if target.running and self.buffers is not None and self.exponent is not None:
            return ScaledTracker(*self._buffers, self.exponent)
        return ImpulseTracker(self.backward(1), target)

    def round_rows(self, mixed: Floats) -> Floats:
        """The output of `forward` as whole lattice units (still in float64, below 2^53)."""
        if self.taps:
            return mixed
        return np.rint(mixed * 2.0**self.bits)

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


@lru_cache(maxsize=8)
def _norm_table(
    weights: tuple[float, ...], decays: tuple[float, ...], exponent: float
) -> tuple[Floats, float]:
    """N_s for s = 1 .. SCALED_STEPS, and the limit that is used afterwards."""
    norms = column_norms(np.array(weights), np.array(decays), exponent, SCALED_STEPS + 1)
    return norms[:-1], float(norms[-1])


def on_lattice(
    strategy: Strategy,
    participation: Participation,
    steps: int | None,
    *,
    rows_a_step: int,
    mu: float,
    movement: int,
    budget: Budget,
) -> Lattice:
    """The finest lattice on which every step stays exact and the noise correction holds.

    rows_a_step: how many rows one step sums. mu: the intended ratio of sensitivity to noise. With a
    delta the correction for discrete noise needs noise of at most sqrt(delta/4e-33) units; zCDP
    needs no correction.
    """
    facts = _facts(strategy, participation, steps)
    limit = NOISE_LIMIT
    if budget.rho is None:
        limit = min(limit, math.sqrt(budget.delta / 4e-33))
    room = limit * mu / (movement * facts.unit * 1.01)
    by_noise = math.log2(room) if room > 0 else -math.inf
    by_exactness = math.log2(EXACT / (rows_a_step * facts.inner)) - 1
    if min(by_noise, by_exactness) < 20:
        raise InfeasibleError(
            "the stream exceeds 64-bit integers",
            "use a larger epsilon or delta, fewer rows per step, or fewer taps",
        )
    total = math.floor(min(by_noise, by_exactness, ROW_BITS + COLUMN_BITS))
    row_bits = min(ROW_BITS, total // 2)
    bits = total - row_bits
    if facts.column is None:
        error = 2.0**-52 * (rows_a_step * 2.0**row_bits) * facts.slack[0] * facts.slack[1]
        form = {**facts.form, "rounding": 1 + 2 * error * 2.0**bits}
        unit = facts.unit * 2.0**bits
    else:
        taps = _integer_taps(facts.column, bits, participation)
        form = {"taps": taps, "rounding": 0.0}
        unit = sensitivity(np.array(taps, dtype=np.float64), participation, steps)
    given = (strategy.name, participation, steps, row_bits, bits, unit * (1 + FLOAT_SLACK))
    return Lattice(*given, **form)


class _Facts(NamedTuple):
    """What the lattice of a strategy depends on.

    unit: sensitivity. inner: largest inner number a unit row. column: of integer taps; None if the
    rows have to be rounded. slack: then the float64 error of a coordinate of C z, in 2^-52 of the
    largest row, as a product. form: then the fields of the lattice.
    """

    unit: float
    inner: float
    column: Floats | None = None
    slack: tuple[float, float] = (0.0, 0.0)
    form: Mapping[str, Any] = MappingProxyType({})


def _facts(strategy: Strategy, participation: Participation, steps: int | None) -> _Facts:
    if isinstance(strategy, Buffers):
        weights, decays = strategy.arrays
        growth = 1 + float(np.sum(weights / (1 - decays)))
        slack = float(np.sum(weights / (1 - decays) ** 2)) + (len(weights) + 4) * growth
        form: dict[str, Any] = {"buffers": (strategy.weights, strategy.decays)}
        if isinstance(strategy, ScaledBuffered):
            form |= {"exponent": strategy.exponent, "loading": strategy.loading}
        # the limit without a horizon bounds every horizon and costs nothing measurable
        unit = strategy.sensitivity(participation, None)
        inner = max(growth, float(np.max(1 / (1 - decays))))
        return _Facts(unit, inner, None, (4.0, slack), form)
    assert isinstance(strategy, LowerToeplitz)
    if strategy.taps is None and strategy.inverse_taps is not None:
        return _inverse_facts(strategy, participation, steps, strategy.inverse_taps)
    ends = [item for item in (strategy.taps, steps) if item is not None]
    if not ends:
        raise InfeasibleError(
            f"the strategy {strategy.name} requires a memory as long as the stream",
            "give steps, or use a banded or buffered strategy",
        )
    column = strategy.column(min(ends))
    unit = sensitivity(column, participation, steps)
    return _Facts(unit, float(np.abs(column).sum()), column)


def _inverse_facts(
    strategy: LowerToeplitz, participation: Participation, steps: int | None, taps: int
) -> _Facts:
    if steps is None:
        raise InfeasibleError(
            f"the sensitivity of {strategy.name} is known for a given number of steps only",
            "give steps, or use a banded or buffered strategy",
        )
    inverse, column = strategy.inverse(taps), strategy.column(steps)
    growth = float(np.abs(column).sum()) + steps * COLUMN_ERROR
    k = participation.within(steps)
    unit = sensitivity(column, participation, steps) + k * math.sqrt(steps) * COLUMN_ERROR
    if float(np.abs(inverse[1:]).sum()) > 1:
        raise InfeasibleError(
            f"{strategy.name} has an inverse without a bound on its rounding error",
            "use the banded inverse of a decreasing strategy",
        )
    slack = 2.0 * (len(inverse) + 2), growth**2
    return _Facts(unit, growth, None, slack, {"inverse": tuple(inverse.tolist())})


def _integer_taps(column: Floats, bits: int, participation: Participation) -> tuple[int, ...]:
    scaled = np.rint(column * 2.0**bits)
    if len(column) > participation.separation and participation.most > 1:
        # rounding of nearly equal entries must not make them increase
        scaled = np.maximum.accumulate(scaled[::-1])[::-1]
    last = int(np.flatnonzero(scaled).max(initial=0)) + 1
    return tuple(int(item) for item in scaled[:last])


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


def budget_of(epsilon: float | None, delta: float, rho: float | None) -> Budget:
    """The budget of a stream; pure differential privacy is refused."""
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    if budget.is_pure:
        raise ArgumentError(
            "delta",
            delta,
            "must be above 0, because a stream uses Gaussian noise",
            "give delta > 0 (such as 1e-6) or rho",
        )
    return budget


def mechanisms_within(
    budget: Budget,
    fixed: Sequence[PrivacyEvent],
    lattice: Lattice,
    dimension: int,
    movement: int,
    *,
    relation: Relation,
    parts: Sequence[tuple[str, float]] = ((PrefixMechanism.name, 1.0),),
) -> list[PrefixMechanism]:
    """One noisy prefix sum a part, which spend what the calls `fixed` leave of a budget.

    parts: names, and shares of the strength; their squares sum to 1, so that sums with
    sensitivity/scale = mu share are mu-GDP together.
    """
    sensitivity = lattice.sensitivity(movement, dimension)
    answers = lattice.answers(dimension)

    def calls(mu: float) -> list[PrivacyEvent]:
        scales = [sensitivity / (mu * share) for _, share in parts]
        noisy = [Gaussian("noise", sensitivity, it, answers, neighbors=relation) for it in scales]
        return [*fixed, *noisy]

    mu = calibrate(calls, budget, grid=False)
    if mu <= 0:
        raise InfeasibleError("the budget is too small for this stream", "give a larger budget")
    if fixed and budget.rho is None:
        # a loss distribution says what the closed forms leave; three figures are enough
        refined = calibrate(calls, budget, smallest=mu, largest=2 * mu, tolerance=1e-3)
        mu = max(mu, refined)
    return [
        PrefixMechanism(lattice, dimension, movement, sensitivity / (mu * share), name)
        for name, share in parts
    ]


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
        self._tracker = lattice.tracker(target)
        self._block = -1
        self._before = self._tracker.numbers()
        self._scales: tuple[Floats, ...] = ()
        self._squares = np.zeros(0)

    def of_steps(self, done: int, steps: int) -> tuple[tuple[Floats, ...], Floats]:
        """(column scales and row scales, or nothing; variances) of the next steps."""
        parts: list[tuple[Floats, ...]] = []
        end = done + steps
        while done < end:
            block, first = divmod(done, AHEAD)
            if block != self._block:
                self._compute(block)
            last = min(AHEAD, first + end - done)
            parts.append(tuple(item[first:last] for item in (*self._scales, self._squares)))
            done += last - first
        *scales, squares = (
            parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        )
        return tuple(scales), squares

    def of_one(self, done: int) -> tuple[list[float], float]:
        """`of_steps` of the next step alone."""
        block, at = divmod(done, AHEAD)
        if block != self._block:
            self._compute(block)
        return [item.item(at) for item in self._scales], self._squares.item(at)

    def _compute(self, block: int) -> None:
        if block != self._block + 1:
            raise PrivmeanError(f"internal: block {block} after block {self._block}")
        self._block = block
        self._before = self._tracker.numbers()
        self._scales = self._lattice.time_scales(block * AHEAD, AHEAD)
        columns = self._scales[0] if self._scales else np.ones(AHEAD)
        self._squares = self._tracker.advance(columns)

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
        self._tally = RunningSums(target.factor, d)

    def advance(self, rows: Integers) -> Block:
        """Take the next steps with these rows, shape (m, d), integers within the row norm."""
        lattice = self.mechanism.lattice
        m = len(rows)
        most = lattice.most_steps
        if most is not None and self.steps + m > most:
            raise PrivmeanError(f"internal: {self.steps + m} steps on a plan for {most}")
        if rows.shape == (1, 1):
            return self._one(rows.item())
        scales, squares = self._public.of_steps(self.steps, m)
        entering = np.ascontiguousarray(rows.T, dtype=np.float64)
        mixed = self._forward.run(entering * scales[0] if scales else entering)
        whole = lattice.round_rows(mixed / scales[1] if scales else mixed).T.astype(np.int64)
        noisy = self._noise.added(whole)
        # from here on everything is a function of the noisy integers and of public numbers
        public = np.ascontiguousarray(noisy.T) / 2.0**lattice.bits
        estimates = self._backward.run(public * scales[1] if scales else public)
        if scales:
            estimates = estimates / scales[0]
        self.steps += m
        return Block(self._tally.advance(estimates.T), squares)

    def _one(self, row: int) -> Block:
        """`advance` by one step of one column: the same operations on numbers."""
        lattice = self.mechanism.lattice
        scales, square = self._public.of_one(self.steps)
        mixed = self._forward.one(row * scales[0] if scales else float(row))
        shifted = mixed / scales[1] if scales else mixed
        # to whole numbers as `round_rows`: half to even
        whole = int(shifted) if lattice.taps else round(shifted * 2.0**lattice.bits)
        # from here on everything is a function of the noisy integers and of public numbers
        public = self._noise.added_one(whole) / 2.0**lattice.bits
        estimate = self._backward.one(public * scales[1] if scales else public)
        if scales:
            estimate = estimate / scales[0]
        self.steps += 1
        return Block(np.array([[self._tally.one(estimate)]]), np.array([square]))

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
