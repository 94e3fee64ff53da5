"""What the sampler of `noise/bulk_draws.py` has to do, decided against values of 400 bits:
asked of the
real one, which must pass, and of wrong twins of it, each of which must fail.

Each check takes a module that has what `bulk` has, and asserts.
"""

from itertools import product

import mpmath
import numpy as np

ALL = 1 << 64  # words
REAL = mpmath.MPContext()
REAL.prec = 400
FAR = 1 << 40  # words: where floats begin to decide


class Script:
    """Words for one call, then single words from a list or, after it, all from a generator."""

    def __init__(self, words, singles=(), seed=None):
        self.words, self.singles = np.array(words, dtype=np.uint64), list(singles)
        self.rng = None if seed is None else np.random.default_rng(seed)

    def __call__(self, size):
        if self.words is not None:
            words, self.words = self.words, None
            assert size == len(words)
            return words
        if self.singles:
            assert size <= len(self.singles)
            taken, self.singles = self.singles[:size], self.singles[size:]
            return np.array(taken, dtype=np.uint64)
        assert self.rng is not None, "more words than the decision needs"
        return self.rng.integers(0, ALL, size, dtype=np.uint64)


def curve(table, scale, power, k):
    """C g(k) as a 400-bit number, from the law and not from the table's own exponent."""
    x = REAL.mpf(k) / REAL.mpf(scale)
    return table.peak * REAL.exp(-x if power == 1 else -x * x / 2)


def digits(value):
    """The first two 64-bit digits of a number (the first may be negative or too large)."""
    first = REAL.floor(value * ALL)
    return int(first), int(REAL.floor((value * ALL - first) * ALL))


def layout(bulk, scale, power):
    """Each block has its levels once; sure cells are under the curve, and no cell is missing."""
    table = bulk.Table(scale, power)
    width = 1 << table.shift
    assert scale < 64 * width
    assert table.shift <= 47
    sure = np.bincount(table.block[: table.sure], minlength=table.blocks)
    crossed = table.block[table.sure : table.tail]
    needed = sure + np.bincount(crossed, minlength=table.blocks)
    assert table.tail < len(table.block) == 1 << bulk.CELL_BITS  # one is left for the tail
    assert len(table.level) == table.tail - table.sure
    for j in range(table.blocks):
        assert table.level[crossed == j].tolist() == list(range(sure[j], needed[j]))
        assert sure[j] <= curve(table, scale, power, (j + 1) * width - 1)
        assert needed[j] >= curve(table, scale, power, j * width)
    steps = [
        curve(table, scale, power, (table.blocks + (m << 6)) * width) * 2 ** (m + 7)
        for m in range(4)
    ]
    assert steps[0] <= 1  # the tail's acceptance, at the nearest place of its first steps
    assert steps == sorted(steps, reverse=True)


def crossed_cells(bulk, scale, power, seed=1):
    """Every crossed cell: which second words accept, to one word, and which third words where the
    second leaves it open."""
    table, rng = bulk.Table(scale, power), np.random.default_rng(seed)
    cells, width = np.arange(table.sure, table.tail), 1 << table.shift
    for place in sorted({0, width - 1, *rng.integers(0, width, 2).tolist()}):
        ks = [(int(table.block[cell]) << table.shift) + place for cell in cells]
        known = {k: curve(table, scale, power, k) for k in set(ks)}
        levels = table.level.tolist()
        border = [digits(known[k] - i) for k, i in zip(ks, levels, strict=True)]
        bits = np.full(len(cells), place, dtype=np.int64)
        for shift in (-1, 1, -FAR, FAR, -FAR - 1, FAR + 1, 1 - FAR, FAR - 1):
            words = [min(max(first + shift, 0), ALL - 1) for first, _ in border]
            some = [word != first for word, (first, _) in zip(words, border, strict=True)]
            kept = table._settled(cells, bits, Script(words, seed=seed))
            under = [word < first for word, (first, _) in zip(words, border, strict=True)]
            assert [kept[at] for at in np.flatnonzero(some)] == [
                under[at] for at in np.flatnonzero(some)
            ], (place, shift)
        open_ = [at for at, (first, _) in enumerate(border) if 0 <= first < ALL]
        for shift in (-(1 << 12), 1 << 12):
            pairs = [border[at] for at in open_]
            thirds = [min(max(third + shift, 0), ALL - 1) for _, third in pairs]
            script = Script([first for first, _ in pairs], thirds)
            kept = table._settled(cells[open_], bits[open_], script)
            expected = [third < right for third, (_, right) in zip(thirds, pairs, strict=True)]
            assert kept.tolist() == expected, place
            assert not script.singles  # each was open, and took one word more


def tail_steps(bulk, scale, power, seed=2):
    """Steps near and far, first, last and other places: which words accept, to one word."""
    table, rng = bulk.Table(scale, power), np.random.default_rng(seed)
    width = table.shift + 6
    last = (1 << width) - 1
    places = {0, last, *rng.integers(0, last + 1, 4).tolist()}
    for step, place in product((0, 1, 2, 3, 4, 5, 6, 7, 9), places):
        fresh, above = (1 << step) - 1, int(rng.integers(0, ALL, dtype=np.uint64)) & ~last
        k = (table.blocks << table.shift) + (step << width) + place
        first, _ = digits(curve(table, scale, power, k) * 2 ** (step + 7))
        assert 0 <= first < ALL
        for shift in (-1, 1):
            word = first + shift
            if 0 <= word < ALL:
                found = table._far(Script([fresh], [above | place, word], seed=seed))
                assert found == (k, word < first), (step, place, shift)


def all_cells(bulk, scale, power, seed=3):
    """Every cell with both signs through `draw`'s own decoding, in order, zero once."""
    table, rng = bulk.Table(scale, power), np.random.default_rng(seed)
    width, shift = 1 << table.shift, 63 - bulk.CELL_BITS
    number = np.arange(2 << bulk.CELL_BITS, dtype=np.uint64)  # sign and cell
    rng.shuffle(number)
    number = number[(number & np.uint64(len(table.block) - 1)) != table.tail]
    places = rng.integers(0, width, len(number), dtype=np.uint64)
    if width > 1:
        places[: len(places) // 4] = 0
    words = (number << np.uint64(shift)) | places
    second = int(rng.integers(0, ALL, dtype=np.uint64))
    found = table._candidates(words, lambda size: np.full(size, second, dtype=np.uint64))
    expected, known = [], {}
    for item, place in zip(number.tolist(), places.tolist(), strict=True):
        sign, cell = item >> bulk.CELL_BITS, item & (len(table.block) - 1)
        if cell > table.tail:
            continue
        k = (int(table.block[cell]) << table.shift) + place
        if cell >= table.sure:
            if k not in known:
                known[k] = curve(table, scale, power, k)
            if digits(known[k] - int(table.level[cell - table.sure])) <= (second, second):
                continue
        if k or not sign:
            expected.append(-k if sign else k)
    assert found.tolist() == expected
