"""The value of one person, made a point of the public domain, and how a client randomizes it.

Nothing raises, whatever a value is. What is missing, not a number, or of the wrong shape becomes
the null of its domain: the middle of a range, the zero vector, or no item.

Randomizers have integer coins. Vectors in an l2 ball: one bit of the hemisphere mechanism, or the
number of a direction (k-closest code). Items: a sign of a row (Hadamard or sketch), or a set of
items. Numbers in [-1, 1]: one bit, piecewise, or both (hybrid). Pure Python. Proofs:
docs/proofs/local-ball.md, local-items.md and local-scalar.md.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, SupportsFloat, cast

from privmean.local.exact_coins import (
    WORD,
    Entropy,
    below,
    chance_threshold,
    decayed,
    flip_threshold,
    normals,
    odds_threshold,
)
from privmean.local.round import (
    BALL_BIT,
    CHOSEN,
    CLOSEST,
    HADAMARD,
    HYBRID,
    ONE_BIT,
    PIECEWISE,
    SKETCH,
    SUBSET,
    Round,
)

BLANK = r"[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*"
# a text that is a number for clients of every language: Python by itself also reads 1_0, inf and ٣
DECIMAL = re.compile(rf"{BLANK}([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?){BLANK}")


def real(value: object) -> float:
    """A float; NaN for anything that is none, whatever its conversion raises.

    An integer beyond the range of floats is infinite: it is clipped like any large number. A text
    is a number if it is a decimal number, with blanks around it at most.
    """
    try:
        if isinstance(value, bytes | bytearray):
            return math.nan
        if isinstance(value, str):
            found = DECIMAL.fullmatch(value)
            return float(found[1]) if found else math.nan
        return float(cast(SupportsFloat, value))
    except OverflowError:
        return _infinite(value)
    except Exception:  # a value may be of any type, and its type may raise anything
        return math.nan


def _infinite(value: Any) -> float:
    try:
        return math.inf if value > 0 else -math.inf
    except Exception:
        return math.nan


def reals(value: object, size: int) -> list[float]:
    """`size` floats; all NaN for anything of another shape."""
    missing = [math.nan] * size
    if value is None or isinstance(value, str | bytes):
        return missing
    try:
        entries = iter(cast("Iterable[object]", value))
    except Exception:
        return [real(value)] if size == 1 else missing
    try:
        result = [real(item) for item in islice(entries, size + 1)]  # it may have no end
    except Exception:
        return missing
    return result if len(result) == size else missing


def picked(round_: Round, value: object, nonce: bytes) -> tuple[float, float, float]:
    """The coordinate that the nonce assigns, with its bounds."""
    place = round_.coordinate(nonce)
    return (
        reals(value, round_.coordinates)[place],
        round_.lower[place],
        round_.upper[place],
    )


def unit_value(round_: Round, value: object, nonce: bytes) -> float:
    """The value clipped to its range and mapped to [-1, 1]; 0 for a null."""
    x, low, high = picked(round_, value, nonce)
    if math.isnan(x):
        return 0.0
    x = min(max(x, low), high)
    return min(max((x - low - (high - x)) / (high - low), -1.0), 1.0)


def item(round_: Round, value: object, nonce: bytes) -> int | None:
    """The item or the bin of the value; `other` for an unknown item, None for a null."""
    assert round_.items is not None
    if round_.bins is not None:
        x, low, high = picked(round_, value, nonce)
        if math.isnan(x):
            return None
        x = min(max(x, low), high)
        return min(int((x - low) / (high - low) * round_.bins), round_.bins - 1)
    x = real(value)
    if x.is_integer() and 0 <= x < round_.items:
        return int(x)
    return round_.other


def direction(round_: Round, value: object) -> tuple[list[float], float]:
    """A unit vector u and rho/r in [0, 1] with rho u the value clipped to the ball.

    The norm is taken after division by the largest entry, so that nothing under- or overflows. A
    null or zero value gives the first axis and 0.
    """
    assert round_.dimension is not None
    assert round_.radius is not None
    x = reals(value, round_.dimension)
    axis = [1.0] + [0.0] * (round_.dimension - 1)
    if any(math.isnan(item) for item in x):
        return axis, 0.0
    largest = max(abs(item) for item in x)
    if largest == 0.0:
        return axis, 0.0
    if math.isinf(largest):
        x = [math.copysign(1.0, item) if math.isinf(item) else 0.0 for item in x]
    else:
        x = [item / largest for item in x]
    norm = math.sqrt(math.fsum(item * item for item in x))
    share = largest / round_.radius * norm
    return [item / norm for item in x], min(share, 1.0)


LARGEST = 1.7976931348623157e308


def person_mean(records: Iterable[object] | None) -> float:
    """Return the mean of one person's records.

    Parameters
    ----------
    records : list of float
        Missing records are excluded; infinite records count as the largest float.

    Returns
    -------
    float
        The mean; NaN, which is reported as missing, without records.
    """
    clean = [min(max(x, -LARGEST), LARGEST) for x in _numbers(records) if not math.isnan(x)]
    if not clean:
        return math.nan
    try:
        return math.fsum(x / len(clean) for x in clean)
    except OverflowError:  # by a rounding, at the very end of the range
        half = math.fsum(x / 2 / len(clean) for x in clean)
        return 2 * min(max(half, -LARGEST / 2), LARGEST / 2)


def _numbers(records: object) -> list[float]:
    """The entries as floats; none if there is nothing to list."""
    if isinstance(records, str | bytes):
        return []
    try:
        return [real(item) for item in cast("Iterable[object]", records)]
    except Exception:
        return []


def _rows(covariates: object) -> list[list[float]]:
    try:
        return [_numbers(row) for row in cast("Iterable[object]", covariates)]
    except Exception:
        return []


def slope(covariates: Iterable[Iterable[object]], responses: Iterable[object]) -> list[float]:
    """Return one person's least-squares coefficients.

    Parameters
    ----------
    covariates : list of list of float
        One row per record, with a 1 for an intercept.
    responses : list of float
        One per record. Rows with missing or infinite numbers are excluded.

    Returns
    -------
    list of float
        The coefficients; all NaN if a pivot is below 1e-9 of the first (complete pivoting).
    """
    rows, ys = _rows(covariates), _numbers(responses)
    width = max((len(row) for row in rows), default=0)
    kept = [
        (row, y)
        for row, y in zip(rows, ys, strict=False)
        if len(row) == width and all(map(math.isfinite, row)) and math.isfinite(y)
    ]
    unknown = [math.nan] * width
    try:
        gram = [
            [math.fsum(row[i] * row[j] for row, _ in kept) for j in range(width)]
            + [math.fsum(row[i] * y for row, y in kept)]
            for i in range(width)
        ]
        order = list(range(width))
        first = 0.0
        for k in range(width):
            size, i, j = max(
                (abs(gram[a][b]), a, b) for a in range(k, width) for b in range(k, width)
            )
            first = max(first, size)
            if not size > 1e-9 * first:
                return unknown
            gram[k], gram[i] = gram[i], gram[k]
            for row in gram:
                row[k], row[j] = row[j], row[k]
            order[k], order[j] = order[j], order[k]
            for a in range(k + 1, width):
                factor = gram[a][k] / gram[k][k]
                for b in range(k, width + 1):
                    gram[a][b] -= factor * gram[k][b]
        solution = [0.0] * width
        for k in reversed(range(width)):
            rest = math.fsum(gram[k][b] * solution[order[b]] for b in range(k + 1, width))
            solution[order[k]] = (gram[k][width] - rest) / gram[k][k]
    except (ArithmeticError, ValueError):
        return unknown
    return solution if all(map(math.isfinite, solution)) else unknown


def pole(round_: Round, value: object, entropy: Entropy) -> list[float]:
    """V: a unit vector with E[r V] = x, drawn as u with probability 1/2 + rho/(2r), else -u."""
    u, share = direction(round_, value)
    if entropy.word() < chance_threshold(0.5 + 0.5 * share):
        return u
    return [-item for item in u]


def noisy_side(epsilon: Fraction, centre: list[float], u: list[float], entropy: Entropy) -> int:
    """The side of the hemisphere that holds the pole, flipped with probability 1/(1 + e^eps)."""
    side = 1 if math.fsum(a * b for a, b in zip(u, centre, strict=True)) >= 0 else -1
    return -side if entropy.word() < flip_threshold(epsilon) else side


def unit(vector: list[float]) -> list[float]:
    """The vector divided by its norm (the first axis if that is zero)."""
    norm = math.sqrt(math.fsum(item * item for item in vector))
    if norm == 0.0:
        return [1.0] + [0.0] * (len(vector) - 1)
    return [item / norm for item in vector]


INDEX = struct.Struct("<H")


def public_words(round_: Round, nonce: bytes, number: int | None = None) -> bytes:
    """The public random bytes from which client and server make the same direction: the one of a
    nonce, or its direction `number` of several."""
    assert round_.dimension is not None
    size = 8 * (round_.dimension + round_.dimension % 2)
    kind, tail = b"privmean-ball", b""
    if number is not None:
        kind, tail = b"privmean-closest", INDEX.pack(number)
    return hashlib.shake_128(kind + round_.seed + nonce + tail).digest(size)


def public_normals(round_: Round, nonce: bytes, number: int | None = None) -> list[float]:
    """The direction of these bytes, not normalized."""
    data = public_words(round_, nonce, number)
    words = list(struct.unpack(f"<{len(data) // 8}Q", data))
    return normals(words)[: round_.dimension]


def ball_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Hemisphere mechanism with a public direction: only the sign is sent."""
    u = public_normals(round_, nonce)
    centre = pole(round_, value, entropy)
    return b"\x01" if noisy_side(round_.menu[level], centre, u, entropy) > 0 else b"\x00"


@lru_cache(maxsize=1024)
def set_threshold(epsilon: Fraction, favoured: int, candidates: int) -> int:
    """The report is one of the favoured candidates iff word < this."""
    return odds_threshold(epsilon, favoured, candidates - favoured)


def code_direction(round_: Round, nonce: bytes, number: int) -> list[float]:
    """The unit vector number `number` of this nonce; candidate j is this of j div 2, odd j minus
    it."""
    return unit(public_normals(round_, nonce, number))


def closest_set(heights: list[float], size: int) -> list[int]:
    """The `size` candidates nearest the pole, from the heights of the directions above it.

    Always exactly that many, whatever the heights are: the guarantee needs no more.
    """
    order = sorted(range(len(heights)), key=lambda i: (-abs(heights[i]), i))
    return [2 * i + (heights[i] < 0) for i in order[:size]]


def closest(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """The k-closest code (Isik et al. 2023) over public candidates +-U_i that the nonce gives.

    A favoured candidate is e^epsilon times as likely as another; there are exactly k of them.
    """
    assert round_.candidates is not None
    number, size = round_.candidates, round_.favoured[level]
    centre = pole(round_, value, entropy)
    heights = [
        math.fsum(a * b for a, b in zip(code_direction(round_, nonce, i), centre, strict=True))
        for i in range(number // 2)
    ]
    favoured = closest_set(heights, size)
    if entropy.word() < set_threshold(round_.menu[level], size, number):
        return INDEX.pack(favoured[below(entropy, size)])
    rest = below(entropy, number - size)
    near = set(favoured)
    return INDEX.pack([j for j in range(number) if j not in near][rest])


ITEM_PERSON = b"hldp-jl-v1"
BLOCK = 512


def sign_block(seed: bytes, column: int, block: int) -> bytes:
    """512 signs of a column of the sketch: rows 512 block to 512 block + 511."""
    data = struct.pack("<QI", column, block)
    return hashlib.blake2b(data, digest_size=64, key=seed, person=ITEM_PERSON).digest()


def sketch_sign(seed: bytes, row: int, column: int) -> int:
    """s(row, column) = +1 or -1."""
    block, k = divmod(row, BLOCK)
    return 1 - 2 * ((sign_block(seed, column, block)[k >> 3] >> (k & 7)) & 1)


def row_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """One bit: the sign of the item in a row drawn without looking at it, by randomized response.

    A null sends a uniform bit.
    """
    assert round_.rows is not None
    chosen = round_.row_choice == CHOSEN
    row = below(entropy, round_.rows) if chosen else round_.row(nonce)
    v = item(round_, value, nonce)
    word = entropy.word()
    if v is None:
        bit = int(word < WORD // 2)
    else:
        if round_.mechanism == HADAMARD:  # the sign (-1)^(number of common ones)
            positive = (row & v).bit_count() % 2 == 0
        else:
            positive = sketch_sign(round_.seed, row, v) > 0
        bit = int(positive) ^ int(word < flip_threshold(round_.menu[level]))
    return (struct.pack("<I", row) if chosen else b"") + bytes([bit])


def pack(bits: list[bool]) -> bytes:
    """Bit v of the result is bit v mod 8 of byte v div 8."""
    result = bytearray((len(bits) + 7) // 8)
    for v, bit in enumerate(bits):
        result[v >> 3] |= bit << (v & 7)
    return bytes(result)


@lru_cache(maxsize=1024)
def subset_size(epsilon: Fraction, items: int) -> int:
    """k = d/(e^epsilon + 1), at least 1 (then it is k-ary randomized response)."""
    share = Fraction(flip_threshold(epsilon), WORD)
    return min(max(1, round(items * share)), items - 1)


@lru_cache(maxsize=1024)
def subset_threshold(epsilon: Fraction, items: int) -> int:
    """The own item is in the set iff word < this."""
    size = subset_size(epsilon, items)
    return odds_threshold(epsilon, size, items - size)


def subset(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Subset selection (Ye and Barg 2018): a set of k items, the own one favoured by e^epsilon.

    Given whether the own item is in, the others are a uniform choice. A null plays a uniform item.
    """
    assert round_.items is not None
    items, epsilon = round_.items, round_.menu[level]
    v = item(round_, value, nonce)
    if v is None:
        v = below(entropy, items)
    inside = entropy.word() < subset_threshold(epsilon, items)
    needed = subset_size(epsilon, items) - inside
    bits = [False] * items
    bits[v] = inside
    for k in range(items):  # sequential choice without replacement, exact
        if k == v:
            continue
        left = items - k - (1 if k < v else 0)
        if below(entropy, left) < needed:
            bits[k] = True
            needed -= 1
    return pack(bits)


INT32 = struct.Struct("<i")

# Above this level the hybrid mechanism uses the piecewise one at all (Wang et al. 2019).
HYBRID_START = Fraction(61, 100)


def bit_threshold(epsilon: Fraction, x: float) -> int:
    """N: the bit is +1 iff word < N. Between T and 2^64 - T for every x in [-1, 1].

    In integers, so that clients in all languages have the same N.
    """
    top, bottom = x.as_integer_ratio()
    return WORD // 2 + round(Fraction(top * (WORD // 2 - flip_threshold(epsilon)), bottom))


def one_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """One-bit mean (Duchi, Jordan and Wainwright 2018): y = +1 with probability (1 + x t)/2."""
    x = unit_value(round_, value, nonce)
    return b"\x01" if entropy.word() < bit_threshold(round_.menu[level], x) else b"\x00"


def grid_point(position: float, word: int) -> int:
    """Unbiased rounding of a real position to an integer."""
    low = math.floor(position)
    return low + (word < chance_threshold(position - low))


@dataclass(frozen=True)
class Window:
    """The piecewise mechanism on the integers -M..M: a window of `width` + 1 likely outcomes.

    threshold/2^64 is the chance of the window; inside and outside the law is uniform. The window's
    center c runs over +-(M - width/2) and E[y] = shrink c.
    """

    size: int
    width: int
    threshold: int

    @property
    def outside(self) -> int:
        return 2 * self.size - self.width

    @property
    def chance(self) -> float:
        return self.threshold / WORD

    @cached_property
    def shrink(self) -> float:
        inside = Fraction(self.threshold, WORD)
        return float(inside - (1 - inside) * Fraction(self.width + 1, self.outside))

    @property
    def unit(self) -> float:
        """The value in [-1, 1] of one step of y."""
        return 1.0 / (self.shrink * (self.size - self.width / 2))

    @property
    def largest(self) -> float:
        """C: the largest value a report can stand for."""
        return self.size * self.unit


@lru_cache(maxsize=1024)
def window(epsilon: Fraction) -> Window:
    """The window of Wang et al. (2019), its share of the outcomes 1/(e^(epsilon/2) + 1)."""
    size = 2**15
    share = Fraction(flip_threshold(epsilon / 2), WORD)
    width = max(0, round((2 * size + 1) * share) - 1)
    return Window(size, width, odds_threshold(epsilon, width + 1, 2 * size - width))


def piecewise(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Piecewise mechanism (Wang et al. 2019) on a grid, with integer probabilities."""
    x, law = unit_value(round_, value, nonce), window(round_.menu[level])
    start = grid_point((x + 1) / 2 * law.outside, entropy.word()) - law.size
    if entropy.word() < law.threshold:
        return INT32.pack(start + below(entropy, law.width + 1))
    y = below(entropy, law.outside) - law.size
    return INT32.pack(y if y < start else y + law.width + 1)


@lru_cache(maxsize=1024)
def hybrid_share(epsilon: Fraction) -> int:
    """Of 2^32 public branch numbers, those below this one take the piecewise branch."""
    return 2**32 - decayed(2**32, epsilon / 2) if epsilon > HYBRID_START else 0


def takes_piecewise(round_: Round, level: int, nonce: bytes) -> bool:
    """The branch of the hybrid mechanism: public, from the nonce, the same on both sides."""
    return (round_.selector(nonce) >> 32) < hybrid_share(round_.menu[level])


def hybrid(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Piecewise with probability 1 - e^(-epsilon/2), else one bit (sent as +1 or -1)."""
    if takes_piecewise(round_, level, nonce):
        return piecewise(round_, level, value, nonce, entropy)
    bit = one_bit(round_, level, value, nonce, entropy) == b"\x01"
    return INT32.pack(1 if bit else -1)


Randomizer = Callable[[Round, int, Any, bytes, Entropy], bytes]

RANDOMIZERS: dict[str, Randomizer] = {
    ONE_BIT: one_bit,
    PIECEWISE: piecewise,
    HYBRID: hybrid,
    BALL_BIT: ball_bit,
    CLOSEST: closest,
    SKETCH: row_bit,
    HADAMARD: row_bit,
    SUBSET: subset,
}
