"""Where noise comes from: integers in, integers out.

`ExactNoise` is for releases: exact noise on the operating system's entropy, by OpenDP's rational
samplers for single draws, and by the samplers of this library for many draws of one scale, in one
call or in several (`bulk_draws.py`), and for choices. `SimulatedNoise`, of a seed, is for tests and
studies; releases made with it say `secure: false` everywhere. `RecordedNoise` keeps what it draws,
so that a stream that goes on draws nothing twice.
"""

from __future__ import annotations

import math
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from privmean.array_types import Flags, Integers, Words
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise import bulk_draws as bulk
from privmean.noise.exact_arithmetic import Source, under_curve

# Draws are 64-bit: at this scale a tail of 40 scales is still below 2^62.
LARGEST_SCALE = 2.0**56
LARGEST_FACTOR = 2**200  # of which doubles tell enough
DOUBT = 1e-9  # relative room around the double of an exponential
FAINT = -600  # exponents below add nothing to a double; processors are slow where they underflow


class Noise(Protocol):
    """A source of integer noise.

    `secure` is True only for exact samplers fed by the operating system's entropy. Releases carry
    it, so that a simulation is never mistaken for a release.
    """

    @property
    @abstractmethod
    def secure(self) -> bool: ...

    @abstractmethod
    def laplace(self, size: int, scale: Fraction) -> Integers:
        """`size` draws of the discrete Laplace law P(k) proportional to exp(-|k|/scale)."""
        ...

    @abstractmethod
    def gaussian(self, size: int, scale: float) -> Integers:
        """`size` draws of the discrete Gaussian law P(k) proportional to exp(-k^2/(2 scale^2))."""
        ...

    @abstractmethod
    def argmax(self, scores: Integers, scale: Fraction) -> int:
        """The index of the largest score plus Exponential(scale) noise (permute-and-flip law).

        With scores of sensitivity D (each moves by at most D, in any direction) the choice is
        (2 D/scale)-DP; if all move the same way it is (D/scale)-DP.
        """
        ...

    @abstractmethod
    def bits64(self, size: int) -> Words:
        """`size` uniform 64-bit words."""
        ...

    def below(self, size: int, bound: int) -> Integers:
        """`size` integers, exactly uniform on 0, ..., bound - 1 (bound at most 2^63)."""
        if not 1 <= bound <= 2**63:
            raise ValueError(f"bound {bound!r} is outside [1, 2^63]")
        largest = 2**64 - 2**64 % bound - 1  # the words up to here fall evenly on the remainders
        words = self.bits64(size)
        while (over := words > np.uint64(largest)).any():
            words = words.copy()
            words[over] = self.bits64(int(np.count_nonzero(over)))
        return (words % np.uint64(bound)).astype(np.int64)

    def bernoulli(self, size: int, probability: Fraction) -> Flags:
        """`size` coins that are true with exactly this rational probability, 0 and 1 included."""
        if not 0 <= probability <= 1:
            raise ValueError(f"probability {probability!r} is outside [0, 1]")
        result = np.zeros(size, dtype=np.bool_)
        undecided = np.arange(size)
        rest, denominator = probability.numerator, probability.denominator
        # a uniform real in base 2^64 is compared with the probability, digit by digit
        while undecided.size:
            digit, rest = divmod(rest << 64, denominator)
            if digit == 2**64:
                result[undecided] = True
                break
            words = self.bits64(undecided.size)
            result[undecided[words < np.uint64(digit)]] = True
            undecided = undecided[words == np.uint64(digit)] if rest else undecided[:0]
        return result


def double_above(scale: Fraction | float) -> float:
    """The smallest double that is at least `scale`: more noise, never less."""
    try:
        value = float(scale)
    except OverflowError:
        value = math.inf
    if math.isfinite(value):
        top, bottom = value.as_integer_ratio()
        wanted, parts = scale.as_integer_ratio()
        if top * parts < wanted * bottom:
            value = math.nextafter(value, math.inf)
    if not 0 < value <= LARGEST_SCALE:
        raise ValueError(f"noise scale {value!r} is outside (0, 2^56]")
    return value


_switch = threading.Lock()


@contextmanager
def _allowed() -> Iterator[None]:
    """OpenDP's leave to build the samplers, given for the moment: its switch is global and the
    caller's own, so one thread holds it at a time."""
    from opendp import mod

    with _switch:
        missing = "contrib" not in mod.GLOBAL_FEATURES
        if missing:
            mod.enable_features("contrib")
        try:
            yield
        finally:
            if missing:
                mod.disable_features("contrib")


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    # not opendp.prelude: it also imports extras, engines among them
    from opendp import domains, measurements, metrics

    with _allowed():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l1_distance(T="i64")
        return measurements.make_laplace(*space, scale=scale)


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Any:
    from opendp import domains, measurements, metrics

    with _allowed():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
        return measurements.make_gaussian(*space, scale=scale)


def accept(word: int, x: Fraction, words: Source, factor: Fraction | int = 1) -> bool:
    """Whether a uniform number that begins with the 64 bits `word` is below factor exp(-x)."""
    if x == 0 and factor >= 1:
        return True
    if x < -FAINT and factor < LARGEST_FACTOR:
        shown = float(factor) * math.exp(-float(x)) * 2.0**64
        if abs(word - shown) > DOUBT * shown + 2.0**12:  # integers would not say otherwise
            return word < shown
    return under_curve(word, 0, factor, x, words)


def accept_each(gaps: Words, unit: Fraction, words: Source) -> Flags:
    """For each of some integers, a coin that is true with probability exp(-unit gap)."""
    shown = np.exp(np.maximum(gaps * -float(unit), FAINT)) * 2.0**64
    drawn = words(len(gaps))
    found: Flags = drawn < shown
    for i in np.flatnonzero(abs(drawn - shown) <= DOUBT * shown + 2.0**12).tolist():
        found[i] = accept(int(drawn[i]), unit * int(gaps[i]), words)
    return found


CALL = 9  # draws that OpenDP makes in the time of calling it


@lru_cache(maxsize=1024)
def _before(scale: float, power: int) -> list[int]:
    """How many draws of a law this process was asked for, in time; changed in place."""
    return [0]


class ExactNoise(Noise):
    """Secure noise for releases. Scales are rounded up to the next double, never down.

    Who draws depends on the sizes and scales asked for so far, which are public; the law is the
    same.
    """

    @property
    def secure(self) -> bool:
        return True

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._drawn(size, scale, 1, _laplace)

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._drawn(size, scale, 2, _gaussian)

    def _drawn(
        self, size: int, scale: Fraction | float, power: int, alone: Callable[[float], Any]
    ) -> Integers:
        """Of the law P(k) proportional to exp(-|k|^power ...); alone: who draws a few."""
        width = double_above(scale)
        before = _before(width, power)
        many = bulk.fits(before[0] + size, width, power)
        before[0] += CALL + size
        if many and size == 1:
            return np.array([bulk.table(width, power).one(self.bits64)], dtype=np.int64)
        if many:
            return bulk.table(width, power).draw(size, self.bits64)
        return np.asarray(alone(width)([0] * size), dtype=np.int64)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        if not len(scores):
            raise ValueError("argmax needs at least one score")
        words = scores.astype(np.uint64)  # modulo 2^64, where differences are right
        gaps = words[scores.argmax()] - words
        # a uniform order of independent coins: the first that is true is any of the true ones
        heads = np.flatnonzero(accept_each(gaps, 1 / Fraction(double_above(scale)), self.bits64))
        return int(heads[self.below(1, len(heads))[0]])

    def bits64(self, size: int) -> Words:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


SMALL = 64.0  # below, rounding a continuous normal would show; the discrete law is tabulated


@lru_cache(maxsize=256)
def _gaussian_table(scale: float) -> tuple[int, npt.NDArray[np.float64]]:
    """The smallest value and the cumulated probabilities of the discrete Gaussian law."""
    reach = math.ceil(14 * scale)
    with np.errstate(over="ignore"):
        weights = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
    total = np.cumsum(weights)
    return -reach, total / total[-1]


class SimulatedNoise(Noise):
    """Reproducible noise for tests, from a seeded NumPy generator.

    Parameters
    ----------
    seed : int or numpy Generator
        Seed of the noise.

    Privacy
    -------
    None: the release is marked as unsafe.

    Notes
    -----
    The distributions agree with the exact ones far below what a test can detect. Scales that the
    exact samplers refuse are refused here too.

    Examples
    --------
    values = np.random.default_rng(1).normal(10, 2, 2000)
    one, other = (pm.mean(values, epsilon=1.0, noise=pm.SimulatedNoise(7)) for _ in range(2))
    assert one.estimate == other.estimate and not one.secure
    """

    def __init__(self, seed: int | np.random.Generator) -> None:
        try:
            self._generator = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise ArgumentError(
                "seed", seed, "is not a seed", "give a whole number of at least 0"
            ) from None

    @property
    def secure(self) -> bool:
        return False

    def laplace(self, size: int, scale: Fraction) -> Integers:
        width = double_above(scale)
        if width > 2**16:  # the rounding of a continuous draw is then far below any test's power
            return np.rint(self._generator.laplace(0.0, width, size)).astype(np.int64)
        success = -np.expm1(-1.0 / width)
        first = self._generator.geometric(success, size)
        return (first - self._generator.geometric(success, size)).astype(np.int64)

    def gaussian(self, size: int, scale: float) -> Integers:
        width = double_above(scale)
        if width < SMALL:
            least, table = _gaussian_table(width)
            return least + np.searchsorted(table, self._generator.random(size), side="right")
        return np.rint(self._generator.normal(0.0, width, size)).astype(np.int64)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        if not len(scores):
            raise ValueError("argmax needs at least one score")
        draws = self._generator.exponential(double_above(scale), len(scores))
        gaps = np.asarray(scores) - np.max(scores)  # large scores lose nothing to doubles
        return int(np.argmax(gaps + draws))

    def bits64(self, size: int) -> Words:
        return self._generator.integers(0, 2**64, size, dtype=np.uint64)


DIFFERENT = "the state is from a version that draws noise differently. Use that version."


class RecordedNoise(Noise):
    """Noise that keeps what it draws, and repeats recorded draws first."""

    def __init__(self, source: Noise) -> None:
        self._source = source
        self._recorded: list[Integers] = []
        self._next = 0
        self._drawn: list[Integers] = []

    @property
    def secure(self) -> bool:
        return self._source.secure

    def replay(self, draws: list[Integers]) -> None:
        """Answer with these draws before any new one."""
        self._recorded, self._next = draws, 0

    def require_replayed(self) -> None:
        """All recorded draws are used and none was new; anything else would be a second noise."""
        if self._next != len(self._recorded) or self._drawn:
            raise PrivmeanError(DIFFERENT)

    def take_drawn(self) -> list[Integers]:
        """The new draws since the last call."""
        drawn, self._drawn = self._drawn, []
        return drawn

    def _answer(self, size: int, fresh: Callable[[], Integers]) -> Integers:
        if self._next < len(self._recorded):
            draw = self._recorded[self._next]
            self._next += 1
            if len(draw) != size:
                raise PrivmeanError(DIFFERENT)
            return draw
        result = fresh()
        self._drawn.append(result)
        return result

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._answer(size, lambda: self._source.laplace(size, scale))

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._answer(size, lambda: self._source.gaussian(size, scale))

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        draw = self._answer(1, lambda: np.array([self._source.argmax(scores, scale)]))
        return int(draw[0])

    def bits64(self, size: int) -> npt.NDArray[np.uint64]:
        return self._answer(size, lambda: self._source.bits64(size).view(np.int64)).view(np.uint64)
