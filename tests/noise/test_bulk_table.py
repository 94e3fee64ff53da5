"""The whole transition table of the bulk sampler, enumerated from its code.

Every word that begins a candidate is run: all cells with both signs, and the places of their
blocks. Where the code asks for a second word, the words that accept are counted: those below a
border, on both sides of which the code itself decides, whatever further words it may ask for; one
of 2^64 is left open to these. The masses so counted enclose those of the law, integer by integer.
"""

import inspect
from collections import Counter

import bulk_checks as checks
import numpy as np
import pytest
from bulk_checks import ALL, curve

from privmean.noise import bulk_draws as bulk

FEW = 4  # places of a block that are run; all of them, where it has no more
STEPS, PLACES = 8, 6  # of the tail
SMALL = [  # with blocks of few integers, all of which are run
    (2.0**-10, 1), (0.1, 1), (0.3, 1), (1.0, 1), (2.5, 1), (7.0, 1), (31.9, 1), (64.0, 1),
    (100.3, 1), (2.0**-10, 2), (0.1, 2), (0.5, 2), (1.0, 2), (1.7, 2), (3.0, 2), (20.0, 2),
    (61.3, 2), (130.7, 2),
]  # fmt: skip
LARGE = [
    (1e3, 1), (2.0**20 * 1.3, 1), (2.0**33, 1), (3e12, 1), (2.0**47 + 1, 1), (2.0**52, 1),
    (1e3, 2), (2.0**20 * 1.3, 2), (2.0**33, 2), (3e12, 2), (2.0**47 + 1, 2), (2.0**52, 2),
]  # fmt: skip


class Second:
    """Second words as they are given; every further word is the same one."""

    def __init__(self, words, further):
        self.words, self.further = np.array(words, dtype=np.uint64), further

    def __call__(self, size):
        if self.words is not None:
            assert size == len(self.words)
            words, self.words = self.words, None
            return words
        return np.full(size, self.further, dtype=np.uint64)


def counted(decide, heights):
    """How many second words accept for sure, and how many may, of candidates under these heights
    (of 1): the code is asked on both sides of the border, with the worst of further words."""
    borders = [min(max(int(height * ALL), 0), ALL) for height in heights]
    below = [max(border - 1, 0) for border in borders]
    above = [min(border + 1, ALL - 1) for border in borders]
    accepts = decide(Second(below, ALL - 1)).tolist()
    refuses = (~decide(Second(above, 0))).tolist()
    for border, accepted, refused in zip(borders, accepts, refuses, strict=True):
        assert accepted or border == 0
        assert refused or border >= ALL - 1
    return borders, [min(border + 1, ALL) for border in borders]


def masses(sampler, law):
    """(sure, least, most, held): what one candidate gives, in 2^64 of a cell with a place."""
    table = sampler.Table(*law)
    width, cells = 1 << table.shift, len(table.block)
    places = range(width) if width <= FEW else (0, 1, width // 3, width - 1)
    number = np.arange(2 * cells, dtype=np.uint64)
    number = number[number % cells != table.tail]
    words = np.concatenate(
        [(number << np.uint64(63 - sampler.CELL_BITS)) | np.uint64(place) for place in places]
    )
    cell = np.tile(number % cells, len(places))
    crossed = (cell >= table.sure) & (cell < table.tail)
    # no second word is asked for: each counts in full
    sure = Counter(table._candidates(words[~crossed], checks.Script([])).tolist())
    # a second word decides, apart from the sign; the value is what the code makes of the word
    asked = words[crossed]
    accepted = np.full(len(asked), True)
    table_of = sampler.Table(*law)
    table_of._settled = lambda cells, bits, source: accepted
    least, most = Counter(), Counter()
    positive = asked >> np.uint64(63) == 0
    which = (asked[positive] >> np.uint64(63 - sampler.CELL_BITS)).astype(np.int64)
    bits = asked[positive].view(np.int64)
    ks = [
        (int(table.block[c]) << table.shift) + int(b & (width - 1))
        for c, b in zip(which, bits, strict=True)
    ]
    known = {k: curve(table, *law, k) for k in {*ks}}
    levels = table.level[which - table.sure].tolist()
    heights = [known[k] - level for k, level in zip(ks, levels, strict=True)]
    lows, highs = counted(lambda source: table._settled(which, bits, source), heights)
    for half in (positive, ~positive):
        shown = asked[half]
        accepted = np.full(len(shown), True)
        found = table_of._candidates(shown, None).tolist()
        kept = iter(found)
        for k, low, high in zip(ks, lows, highs, strict=True):
            if k == 0 and half is not positive and shown[0] >> np.uint64(63):
                continue  # refused: zero comes with one sign
            value = next(kept)
            assert abs(value) == k
            least[value] += low
            most[value] += high
        assert next(kept, None) is None
    held = {
        sign * ((j << table.shift) + place)
        for j in range(table.blocks)
        for place in places
        for sign in (1, -1)
    }
    return table, sure, least, most, held


def require_law(sampler, law):
    table, sure, least, most, held = masses(sampler, law)
    assert held == sure.keys() | most.keys()
    for k in held:  # P(k) = C g(k) / (2 N w), in 2^64 of a cell with a place
        exact = curve(table, *law, abs(k)) * ALL
        assert sure[k] * ALL + least[k] <= exact <= sure[k] * ALL + most[k], k


@pytest.mark.slow
@pytest.mark.parametrize("law", SMALL + LARGE, ids=str)
def test_the_masses_of_all_words_are_those_of_the_law(law):
    require_law(bulk, law)


@pytest.mark.parametrize("law", SMALL + LARGE, ids=str)
def test_the_masses_of_the_tail_are_those_of_the_law(law):
    table = bulk.Table(*law)
    width = table.shift + bulk.STRIDE
    rng = np.random.default_rng(5)
    last = (1 << width) - 1
    for step in range(STEPS):  # so many ones before the first zero: a chance of 2^-(step + 1)
        for place in {0, last, *rng.integers(0, last + 1, PLACES - 2).tolist()}:
            k = (table.blocks << table.shift) + (step << width) + place
            # 2^-(step + 1) / (64 w) of the words come here: 1/w in all, times P(k)
            height = curve(table, *law, k) * 2 ** (step + 1 + bulk.STRIDE)

            def decide(source, step=step, place=place, k=k):
                order = iter([(1 << step) - 1, place, *source.words.tolist()])

                def given(size):
                    items = [next(order, source.further) for _ in range(size)]
                    return np.array(items, dtype=np.uint64)

                found, kept = table._far(given)
                assert found == k
                return np.array([kept])

            (least,), (most,) = counted(decide, [height])
            assert least <= height * ALL <= most


TWINS = {
    "a cell too few": ("-(-self.peak * high >> PLACES)", "(self.peak * high >> PLACES)"),
    "sure too early": ("heights[1:] if self.shift else", "heights[:-1] if True else"),
    "zero with both signs": ("sign[zero] == 0", "sign[zero] <= 0"),
    "half of the second word": ("int(first[at]),", "int(first[at]) >> 1,"),
    "a level twice": ("- level - (first", "- np.minimum(level, 3) - (first"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_a_wrong_table_is_caught(name):
    old, new = TWINS[name]
    text = inspect.getsource(bulk)
    assert text.count(old) == 1
    twin = type(bulk)("twin_bulk")
    exec(text.replace(old, new), twin.__dict__)
    with pytest.raises((AssertionError, StopIteration)):
        require_law(twin, (130.7, 2))
