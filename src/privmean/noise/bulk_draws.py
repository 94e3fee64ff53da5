"""Exact discrete Laplace and Gaussian draws, many at a time, from a table of cells.

The curve peak * g(k), g(k) = exp(-|k|/s) or exp(-k^2/(2 s^2)), is covered by cells of height 1 over
blocks of integers. A candidate is a uniform point in a uniform cell; it is kept if it lies under
the curve. Nearly all points lie in cells wholly under it and are decided by integers; floats
decide others where they are far from the curve by 2^9 times their largest error, and big integers,
with as many random digits as it takes, decide the rest. The law is exact; nothing is approximated.

Source: histogram rejection from cells of equal area as in Ahrens's one-table method ("Sampling from
general distributions by suboptimal division of domains", 1993); comparisons of a uniform number
opened digit by digit as in Karney, "Sampling exactly from the normal distribution" (2016). Proof:
docs/proofs/bulk-noise.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Flags, Integers, Words
from privmean.noise.exact_arithmetic import (
    DIGIT,
    Bounds,
    Source,
    exp_minus,
    product,
    under_curve,
)

SMALLEST, LARGEST = 2.0**-10, 2.0**52  # scales: at most 47 bits of place below cell and sign
# draws from which a table pays for being made, by power; that of a Laplace law is longer
LEAST = {1: 96, 2: 64}
CELL_BITS = 16
CHUNK = 2**14  # candidates at a time, so that working memory is small and stays in the cache
PLACES = 128  # bits of the bounds from which a table is made
LAST = 23  # the blocks go on until g is at most 2^-23; the rest is the tail
STRIDE = 6  # a step of the tail is 2^6 blocks
# a float decides beyond this distance from the curve; its error is below 2^-32 in any rounding
# mode (section 5 of the proof), so that the margin is more than 2^7
DOUBT = 2.0**-24
WORD = np.dtype(np.uint64)
TERMS = 12  # of exp(-fall) for a fall within one block, below 1/4


def fits(size: int, scale: float, power: int) -> bool:
    """Whether so many draws are made here: a question about public numbers only."""
    return size >= LEAST[power] and SMALLEST <= scale <= LARGEST


@lru_cache(maxsize=64)
def table(scale: float, power: int) -> Table:
    """The table of a law. Kept: making one costs as much as tens of single draws."""
    return Table(scale, power)


class Table:
    """The cells of one law on the integers: P(k) proportional to exp(-|k|/scale) for power 1, and
    to exp(-k^2/(2 scale^2)) for power 2. scale is that very double, in [2^-10, 2^52].

    Immutable and without randomness: threads and forked processes may share it.

    **Guarantees.** With uniform words from `draw`'s source the draws are independent and have
    exactly this law (docs/proofs/bulk-noise.md). Nothing is kept between two calls.
    """

    def __init__(self, scale: float, power: int) -> None:
        if type(scale) is not float or not SMALLEST <= scale <= LARGEST:
            raise ValueError(f"scale {scale!r} is not a float in [2^-10, 2^52]")
        if power not in LEAST:
            raise ValueError(f"power {power!r} is neither 1 nor 2")
        exact = Fraction(scale)
        self.power = power
        self.rate = 1 / exact if power == 1 else 1 / (2 * exact * exact)
        self.shift = max(0, math.frexp(scale)[1] - 6)  # blocks of 2^shift: fewer than 64 in a scale
        heights = self._heights()
        self.blocks = len(heights) - 1
        cells = 1 << CELL_BITS
        area = sum(high for _, high in heights[:-1])
        self.peak = ((cells - 1 - self.blocks) << PLACES) // area
        if self.peak < 1:
            raise ValueError("internal: too few cells for this law")
        # a block needs cells up to its highest point; those up to its lowest are sure
        lowest = heights[1:] if self.shift else heights[:-1]
        sure = np.array([self.peak * low >> PLACES for low, _ in lowest])
        needed = np.array([-(-self.peak * high >> PLACES) for _, high in heights[:-1]])
        self.sure, self.tail = int(sure.sum()), int(needed.sum())
        above = needed - sure  # crossed cells of each block, which come after all sure ones
        numbers = np.arange(self.blocks, dtype=np.uint16)
        self.block = np.zeros(cells, dtype=np.uint16)
        self.block[: self.sure] = np.repeat(numbers, sure)
        self.block[self.sure : self.tail] = np.repeat(numbers, above)
        first = sure - (np.cumsum(above) - above)
        self.level = np.arange(self.tail - self.sure) + np.repeat(first, above)
        self.height = np.array([self.peak * low / (1 << PLACES) for low, _ in heights[:-1]])
        for array in (self.block, self.level, self.height):
            array.flags.writeable = False

    def _heights(self) -> list[Bounds]:
        """Bounds of g at the starts of the blocks, up to the first that is at most 2^-LAST.

        The ratio of two neighbors is itself geometric: two exponentials are enough.
        """
        first = (1 << self.shift) ** self.power * self.rate
        ratio = exp_minus(first, PLACES)
        change = exp_minus(2 * first, PLACES)
        heights: list[Bounds] = [(1 << PLACES, 1 << PLACES)]
        while heights[-1][1] > 1 << (PLACES - LAST):
            heights.append(product(heights[-1], ratio, PLACES))
            if self.power == 2:
                ratio = product(ratio, change, PLACES)
        return heights

    def draw(self, size: int, words: Source) -> Integers:
        """`size` independent draws. OverflowError, before any is returned, if one does not fit 64
        bits: below 2^-1000 a draw."""
        source = _checked(words)
        result = np.empty(size, dtype=np.int64)
        done = 0
        while done < size:
            found = self._candidates(source(min(CHUNK, (size - done) * 17 // 16 + 8)), source)
            # the later ones are dropped: kept for another call, their number would depend on values
            found = found[: size - done]
            result[done : done + len(found)] = found
            done += len(found)
        return result

    def one(self, words: Source) -> int:
        """One draw, of its law: in a sure cell, as nearly always, without an array."""
        source = _checked(words)
        while True:
            drawn = source(1)
            word = int(drawn[0])
            cell = word >> (63 - CELL_BITS) & ((1 << CELL_BITS) - 1)
            if cell >= self.sure:
                found = self._candidates(drawn, source)
                if len(found):
                    return int(found[0])
                continue
            size = int(self.block[cell]) << self.shift | word & ((1 << self.shift) - 1)
            if size or not word >> 63:
                return -size if word >> 63 else size

    def _candidates(self, drawn: Words, words: Source) -> Integers:
        """The accepted among the candidates of these words: a bit of sign, the bits of the cell,
        and the place in the block from the low end."""
        bits = drawn.view(np.int64)
        cell = bits >> (63 - CELL_BITS)
        cell &= (1 << CELL_BITS) - 1
        size = self.block.take(cell).astype(np.int64)
        size <<= self.shift
        size |= bits & ((1 << self.shift) - 1)
        sign = bits >> 63  # 0 or -1
        keep = cell < self.sure
        unsure = np.flatnonzero(~keep)
        unsure = unsure[cell[unsure] <= self.tail]
        where = cell[unsure]
        far = where == self.tail
        crossed = unsure[~far]
        keep[crossed] = self._settled(where[~far], bits[crossed], words)
        for at in unsure[far]:
            size[at], keep[at] = self._far(words)
        zero = np.flatnonzero(size == 0)
        keep[zero] &= sign[zero] == 0  # zero once, not with both signs
        size ^= sign
        size -= sign
        return size[keep]

    def _settled(self, cells: Integers, bits: Integers, words: Source) -> Flags:
        """Which candidates in cells that the curve crosses lie under it."""
        place = bits & ((1 << self.shift) - 1)
        block = self.block[cells].astype(np.int64)
        level = self.level[cells - self.sure]
        fall = place * float(self.rate)  # of the exponent, from the start of the block
        if self.power == 2:
            fall = fall * ((block << (self.shift + 1)) + place)
        # nothing but + - * /, each on arrays of its own: the error bound counts their roundings
        decay = np.ones(len(cells))
        for order in range(TERMS, 0, -1):
            decay = 1.0 - decay * (fall / order)
        first = words(len(cells))
        gap = self.height[block] * decay - level - (first >> np.uint64(11)) * 2.0**-53
        keep: Flags = gap > 0
        for at in np.flatnonzero(np.abs(gap) <= DOUBT):
            k = (int(block[at]) << self.shift) + int(place[at])
            keep[at] = under_curve(
                int(first[at]), int(level[at]), self.peak, self.rate * k**self.power, words
            )
        return keep

    def _far(self, words: Source) -> tuple[int, bool]:
        """A candidate of the tail cell, and whether it is accepted."""
        step, word = 0, int(words(1)[0])
        while word == (1 << DIGIT) - 1:
            step, word = step + DIGIT, int(words(1)[0])
        step += (
            ~word & (word + 1)
        ).bit_length() - 1  # ones before the first zero, from the low end
        place, first = (int(item) for item in words(2))
        width = self.shift + STRIDE
        k = (self.blocks << self.shift) + (step << width) + (place & ((1 << width) - 1))
        if k >= 1 << 63:
            raise OverflowError("a draw of noise does not fit 64 bits")
        peak = self.peak << (step + STRIDE + 1)
        return k, under_curve(first, 0, peak, self.rate * k**self.power, words)


def _checked(words: Source) -> Source:
    """A source that gives what it is asked for, or an error."""

    def checked(size: int) -> Words:
        drawn = words(size)
        if drawn.dtype != WORD or drawn.shape != (size,):
            raise ValueError(f"the source gave {drawn.dtype} {drawn.shape}, not {size} uint64")
        return drawn

    return checked
