"""The bulk sampler has the exact laws: every crossed cell against 400-bit values, every word of a
small twin enumerated, wrong twins caught; draws by chi-square at the kit's false-alarm rate."""

import ctypes
import ctypes.util
import inspect
import itertools
import math
import platform
import types
from collections import Counter
from fractions import Fraction

import bulk_checks as checks
import mpmath
import numpy as np
import pytest
from bulk_checks import REAL, curve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privmean.noise import bulk_draws as bulk
from privmean.noise import exact_arithmetic as enclosed
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from statistics_kit import ALPHA, cdf_p_value, law_p_value

LAWS = [
    (0.5, 2), (1.0, 2), (3.0, 2), (61.3, 2), (130.7, 2), (3e12, 2), (2.0**52, 2),
    (0.3, 1), (2.5, 1), (31.9, 1), (64.0, 1), (2.0**33, 1), (2.0**52, 1),
]  # fmt: skip
ENDS = [(2.0**-10, 2), (2.0**-10, 1), (math.nextafter(2.0**52, 0), 2), (200.1, 1)]


@pytest.mark.slow
@given(st.fractions(min_value=0, max_value=2000, max_denominator=10**12), st.integers(1, 300))
@settings(deadline=None, max_examples=150)
def test_bounds_enclose_the_exponential(x, places):
    low, high = enclosed.exp_minus(x, places)
    exact = REAL.ldexp(REAL.exp(-REAL.mpf(x.numerator) / x.denominator), places)
    with mpmath.workprec(4000):
        wide = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), places)
        assert low <= wide <= high
    assert high - low <= 2
    assert abs(exact - wide) < 1  # the reference of all checks here is precise enough
    if x == 0:
        assert low == high == 1 << places


def test_exponentials_of_negative_numbers_are_refused():
    with pytest.raises(ValueError, match="x >= 0"):
        enclosed.exp_minus(Fraction(-1), 64)


@pytest.mark.parametrize("law", LAWS + ENDS, ids=str)
def test_cells_cover_the_curve(law):
    checks.layout(bulk, *law)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS + ENDS, ids=str)
def test_every_crossed_cell_is_decided_at_the_exact_border(law):
    checks.crossed_cells(bulk, *law)


@pytest.mark.parametrize("law", LAWS + ENDS, ids=str)
def test_the_tail_is_decided_at_the_exact_border(law):
    checks.tail_steps(bulk, *law)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS + ENDS, ids=str)
def test_every_cell_and_sign_gives_the_place_that_its_word_says(law):
    checks.all_cells(bulk, *law)


def test_digits_go_on_as_long_as_they_are_in_doubt():
    """The first 64, 128 and 192 bits of the border itself decide nothing; the next digit does."""
    scale, level = 130.7, 0
    table = bulk.Table(scale, 2)
    k = 300
    border, level = curve(table, scale, 2, k), int(curve(table, scale, 2, k))
    share = border - level
    found = []
    for _ in range(4):
        share *= checks.ALL
        found.append(int(share))
        share -= found[-1]
    for known, step in itertools.product((1, 2, 3), (-1, 1)):
        more = [*found[1:known], found[known] + 1024 * step]
        script = checks.Script([], more)
        script(0)
        x = Fraction(k) ** 2 * table.rate
        assert enclosed.under_curve(found[0], level, table.peak, x, script) == (step < 0)
        assert not script.singles  # all were needed


# --- enumeration: words of 4 bits, 2^8 cells, no floats; every word to depth 3 --------------------


class Open(Exception):
    pass


def outcomes(action, depth):
    """(probability, result) over all digit strings of 4 bits; None where depth was not enough."""
    todo = [()]
    while todo:
        known = todo.pop()
        left = list(known)

        def source(size, left=left):
            if size > len(left):
                raise Open
            taken = [left.pop(0) for _ in range(size)]
            return np.array(taken, dtype=np.uint64)

        try:
            result = action(source)
        except Open:
            if len(known) == depth:
                yield Fraction(1, 16**depth), None
            else:
                todo += [(*known, digit) for digit in range(16)]
            continue
        assert not left
        yield Fraction(1, 16 ** len(known)), result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "power", "bits"),
    [(0.5, 2, 8), (3.3, 2, 8), (70.0, 2, 10), (0.5, 1, 8), (3.3, 1, 8), (65.0, 1, 10)],
)
def test_enumerated_masses_are_those_of_the_law(monkeypatch, scale, power, bits):
    for module, name, value in (
        (bulk, "CELL_BITS", bits), (bulk, "DOUBT", math.inf), (bulk, "DIGIT", 4),
        (bulk, "STRIDE", 2), (bulk, "LAST", 13), (enclosed, "DIGIT", 4),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    table = bulk.Table(scale, power)
    width, cells = 1 << table.shift, 1 << bits
    first = np.arange(2 * cells)
    first = first[first % cells != table.tail].repeat(width)
    words = (first.astype(np.uint64) << np.uint64(63 - bits)) | np.tile(
        np.arange(width, dtype=np.uint64), len(first) // width
    )
    cell = first % cells
    crossed = (cell >= table.sure) & (cell < table.tail)
    chance = Fraction(1, 2 * cells * width)
    decided, open_ = Counter(), Counter()
    for k in table._candidates(words[~crossed], checks.Script([])).tolist():
        decided[k] += chance  # without another word
    for word, number in zip(words[crossed], first[crossed].tolist(), strict=True):
        one = np.array([word])
        for share, found in outcomes(lambda source, w=one: table._candidates(w, source), 3):
            if found is None:
                k = int(table.block[number % cells]) * width + int(word) % width
                open_[-k if number >= cells else k] += chance * share
            elif len(found):
                decided[int(found[0])] += chance * share
    reach = table.blocks * width
    assert set(decided) | set(open_) == set(range(1 - reach, reach))
    for k in range(1 - reach, reach):
        exact = curve(table, scale, power, abs(k)) / (2 * cells * width)
        low, high = decided[k], decided[k] + open_[k]
        assert REAL.mpf(low.numerator) / low.denominator <= exact, k
        assert exact <= REAL.mpf(high.numerator) / high.denominator, k
    assert sum(open_.values()) < Fraction(1, 1000)
    # the tail cell: step in unary, place, acceptance
    far, left = Counter(), Fraction(0)
    for share, found in outcomes(table._far, 4):
        if found is None:
            left += share
        elif found[1]:
            far[found[0]] += share
    assert left < Fraction(1, 50)
    for k, low in far.items():
        assert k >= reach
        exact = curve(table, scale, power, k) / width  # times 1/(2N), as a candidate comes here
        mass = REAL.mpf(low.numerator) / low.denominator
        assert mass <= exact
        assert exact - mass <= REAL.mpf(left.numerator) / left.denominator


# --- wrong twins ----------------------------------------------------------------------------------

TWINS = {
    "zero with both signs": ("bulk", "sign[zero] == 0", "sign[zero] <= 0"),
    "floats always trusted": ("bulk", "<= DOUBT", "< 0"),
    "the tail at half its height": ("bulk", "step + STRIDE + 1", "step + STRIDE"),
    "a tail step too far": ("bulk", ".bit_length() - 1  #", ".bit_length()  #"),
    "sure from the start of a block": (
        "bulk", "heights[1:] if self.shift else", "heights[:-1] if True else",
    ),
    "a cell too few": ("bulk", "-(-self.peak * high >> PLACES)", "(self.peak * high >> PLACES)"),
    "wider blocks": ("bulk", "math.frexp(scale)[1] - 6", "math.frexp(scale)[1] - 5"),
    "53 bits where 64 are needed": ("bulk", "int(first[at]),", "int(first[at]) >> 11 << 11,"),
    "half of the second word": ("bulk", "int(first[at]),", "int(first[at]) >> 1,"),
    "a level twice": ("bulk", "- level - (first", "- np.minimum(level, 3) - (first"),
    "a digit taken for the number": ("enclosed", "(least + 1) <<", "least <<"),
    "a digit rounded up": ("enclosed", "if least << GUARD >=", "if (least + 1) << GUARD >="),
    "a coarse refusal": ("enclosed", "peak * high:", "peak * low:"),
    "a coarse acceptance": ("enclosed", "peak * low:\n            return True",
                            "peak * high:\n            return True"),
    "bounds without their error": ("enclosed", "error = 2 * terms + 5", "error = 0"),
    "squares not rounded outwards": (
        "enclosed", ">> precision) + 1\n    drop", ">> precision) - 9\n    drop",
    ),
}  # fmt: skip


def twin_of(changed, old, new, guard=None):
    """The sampler from its own source with one place changed."""
    texts = {"enclosed": inspect.getsource(enclosed), "bulk": inspect.getsource(bulk)}
    if changed:
        assert texts[changed].count(old) == 1, (changed, old)
        texts[changed] = texts[changed].replace(old, new)
    found = {}
    for name, text in texts.items():
        found[name] = types.ModuleType(f"twin_{name}")
        exec(text, found[name].__dict__)
    for name in ("exp_minus", "product", "under_curve"):
        setattr(found["bulk"], name, getattr(found["enclosed"], name))
    if guard is not None:
        found["enclosed"].GUARD = guard
    return found["bulk"]


def enclosing(sampler):
    for x in (Fraction(1, 3), Fraction(7, 2), Fraction(1000, 7), Fraction(1, 10**6)):
        for places in (64, 65, 66, 128):
            low, high = sampler.exp_minus(x, places)
            exact = REAL.ldexp(REAL.exp(-REAL.mpf(x.numerator) / x.denominator), places)
            assert low <= exact <= high


def borders(sampler):
    """Comparisons of a few digits with bounds so wide that most need another digit."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        x = Fraction(int(rng.integers(1, 10**6)), 10**6)
        value = 1000 * REAL.exp(-REAL.mpf(x.numerator) / x.denominator)
        level = int(value)
        first, second = checks.digits(value - level)
        for shift in (-40, -9, -1, 1, 9, 40):
            script = checks.Script([], seed=5)
            script(0)
            assert sampler.under_curve(first + shift, level, 1000, x, script) == (shift < 0)
        for shift in (-1024, 1024):
            script = checks.Script([], [second + shift], seed=6)
            script(0)
            assert sampler.under_curve(first, level, 1000, x, script) == (shift < 0)


def everything(change):
    """With few guard bits the bounds matter in each comparison, and the law stays exact."""
    for guard in (0, None):
        enclosing(twin_of(*change, guard))
    borders(twin_of(*change, 6))
    for law in ((1.0, 2), (2.0**52, 2), (2.5, 1)):
        for check in (checks.layout, checks.tail_steps, checks.crossed_cells, checks.all_cells):
            check(twin_of(*change), *law)


@pytest.mark.slow
def test_the_checks_pass_the_sampler_itself():
    everything((None, "", ""))


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_wrong_twins_are_caught(name):
    with pytest.raises((AssertionError, ValueError, IndexError)):
        everything(TWINS[name])


def rounding_modes():
    """How floats may be rounded, by what the C library calls it; (None, None) where it cannot."""
    numbers = {
        "x86_64": (0, 0x400, 0x800, 0xC00), "AMD64": (0, 0x400, 0x800, 0xC00),
        "aarch64": (0, 0x800000, 0x400000, 0xC00000), "arm64": (0, 0x800000, 0x400000, 0xC00000),
    }.get(platform.machine(), (0,))  # fmt: skip
    library = ctypes.util.find_library("m")
    if library is None:
        return [(lambda mode: None, 0)]
    setting = ctypes.CDLL(library).fesetround
    return [(setting, number) for number in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("law", [(3.3, 2), (2.0**43, 2), (2.5, 1), (2.0**52, 1)], ids=str)
def test_floats_decide_as_integers_do_in_every_rounding_mode(monkeypatch, law):
    """Crossed candidates, half of them so close to the curve that floats are only just asked."""
    table, rng = bulk.Table(*law), np.random.default_rng(7)
    size = 6000
    cells = rng.integers(table.sure, table.tail, size)
    places = rng.integers(0, 1 << table.shift, size)
    words = rng.integers(0, 2**64, size, dtype=np.uint64)
    for at in range(0, size, 2):
        k = (int(table.block[cells[at]]) << table.shift) + int(places[at])
        share = curve(table, *law, k) - int(table.level[cells[at] - table.sure])
        word = checks.digits(share)[0] + int(rng.integers(-(2**42), 2**42))
        words[at] = min(max(word, 0), checks.ALL - 1)
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "DOUBT", math.inf)
        slow = table._settled(cells, places, checks.Script(words, seed=8))
    assert 0 < slow.mean() < 1
    for setting, mode in rounding_modes():
        try:
            setting(mode)
            quick = table._settled(cells, places, checks.Script(words, seed=8))
        finally:
            setting(0)
        assert np.array_equal(quick, slow), mode


# --- draws, at the kit's false-alarm rate ---------------------------------------------------------


def pmf(scale, power):
    """The exact law, its total summed at 400 bits."""
    reach = int(400 * scale) + 60 if power == 1 else int(40 * scale) + 60
    total = 1 + 2 * sum(
        REAL.exp(-REAL.mpf(k) / scale if power == 1 else -((REAL.mpf(k) / scale) ** 2) / 2)
        for k in range(1, min(reach, 3000))
    )

    def law(k):
        x = np.abs(np.asarray(k, dtype=float)) / scale
        return np.exp(-x if power == 1 else -x * x / 2) / float(total)

    return law


SMALL = [(0.5, 2), (1.7, 2), (20.0, 2), (61.3, 2), (0.3, 1), (2.5, 1), (7.0, 1), (12.1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("law", SMALL, ids=str)
def test_draws_have_the_exact_law(law):
    """10^6 seeded draws in one call, and 3 10^5 of the system's entropy in calls of 600."""
    draws = bulk.Table(*law).draw(10**6, SimulatedNoise(11).bits64)
    assert law_p_value(draws, pmf(*law)) >= ALPHA
    table, words = bulk.Table(*law), ExactNoise().bits64
    draws = np.concatenate([table.draw(600, words) for _ in range(500)])
    assert law_p_value(draws, pmf(*law)) >= ALPHA
    for factor in (0.95, 1.05):
        assert law_p_value(draws, pmf(law[0] * factor, law[1])) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("scale", [2.0**20 * 1.3, 2.0**43, 2.0**52])
def test_draws_at_large_scales_follow_their_quantiles(power, scale):
    quantile = (stats.laplace if power == 1 else stats.norm)(scale=scale).ppf
    draws = bulk.Table(scale, power).draw(300_000, ExactNoise().bits64)
    assert cdf_p_value(draws, quantile) >= ALPHA
    for factor in (0.95, 1.05):
        assert cdf_p_value(draws, lambda p, f=factor: f * quantile(p)) < ALPHA
    # neighbours and signs are unrelated: |z| beyond 4.9 by chance below 1e-6
    signs = np.sign(draws)
    assert abs(np.mean(signs)) < 4.9 / np.sqrt(len(draws))
    sizes = np.argsort(np.argsort(np.abs(draws))) / len(draws)
    for one, other in ((sizes[1:], sizes[:-1]), (sizes, signs)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.9 / np.sqrt(len(draws))


def low_bits_p_value(draws, scale):
    """Low bits of the draws beyond two scales, where a double has fewer digits than the draw."""
    far = draws[np.abs(draws) > 2 * scale]
    return stats.chisquare(np.bincount(far & 7, minlength=8)).pvalue


@pytest.mark.parametrize("power", [1, 2])
def test_every_integer_is_reached_and_a_float_twin_is_caught(power):
    """Noise made of doubles reaches only some integers; which ones would tell what it was added
    to."""
    scale = 2.0**52
    real = bulk.Table(scale, power).draw(100_000, ExactNoise().bits64)
    assert low_bits_p_value(real, scale) >= ALPHA
    twin = SimulatedNoise(5)
    twins = twin.laplace(100_000, Fraction(scale)) if power == 1 else twin.gaussian(100_000, scale)
    assert low_bits_p_value(twins, scale) < ALPHA
    for bits in (3, 17, 40):  # on any lattice between the finest and the scale
        assert stats.chisquare(np.bincount(real >> bits & 15, minlength=16)).pvalue >= ALPHA
