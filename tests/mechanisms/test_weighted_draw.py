"""Draws by weight times exponential: the exact law, and every bit of an acceptance."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from test_private_center import ALPHA, merged_p_value

from privmean.mechanisms import choices as module
from privmean.mechanisms.choices import weighted_draw
from privmean.noise.noise_source import SimulatedNoise, accept

TINY = Fraction(1, 10**30)
CASES = {
    "equal": ([1] * 5, [0, 1, 2, 3, 0]),
    "zeros": ([0, 3, 0, 2, 1, 0], [0, 0, 0, 4, 1, 2]),
    "thirds": ([Fraction(1, 3), Fraction(2, 7), Fraction(10**6, 7)], [0, 1, 30]),
    "tiny ratio": ([TINY, 1, Fraction(1, 2)], [0, 1, 1]),
    "huge weights": ([10**30, 10**30 // 3, 1], [2, 0, 0]),
    "tiny weights": ([TINY, TINY / 3, 2 * TINY], [1, 0, 3]),
    "made up by weight": ([1, 10**30], [0, 158]),
    "underflow": ([1, 1, 5, 10**30], [0, 3, 20_000, 10**7]),
    "one": ([Fraction(7, 3)], [0]),
}
UNIT = Fraction(7, 16)


def exact_law(weights, gaps):
    """Probabilities to 60 digits, rounded."""
    with decimal.localcontext(decimal.Context(prec=60)):
        found = [
            decimal.Decimal(Fraction(w).numerator) / Fraction(w).denominator
            * (-decimal.Decimal(gap) * UNIT.numerator / UNIT.denominator).exp()
            for w, gap in zip(weights, gaps, strict=True)
        ]  # fmt: skip
        return np.array([float(item / sum(found)) for item in found])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_law(case):
    weights, gaps = CASES[case]
    law, noise, draws = exact_law(weights, gaps), SimulatedNoise(len(case)), 4000
    shown = np.array([float(item) for item in weights])
    exact = [Fraction(item) for item in weights]
    made = [
        weighted_draw(np.array(gaps), UNIT, shown, exact.__getitem__, noise) for _ in range(draws)
    ]
    counts = np.bincount(made, minlength=len(weights))
    assert counts[law < 1e-15].sum() == 0  # a false alarm of 10^-11; weights of 0 never
    possible = law >= 1e-15
    if possible.sum() > 1:
        assert merged_p_value(counts[possible], law[possible], least=20) >= ALPHA


class Proposed(Exception):
    """Stops a draw at its first proposal."""


def proposal(weights, gaps, shown, place, monkeypatch):
    """Of one place among the chances: the item, how many chances there are, and the factor and the
    gap of its acceptance."""
    found = []

    class Place:
        def below(self, size, bound):
            found.append(bound)
            return np.array([min(place, bound - 1)] * size)

        def bits64(self, size):
            return np.zeros(size, dtype=np.uint64)

    def stop(word, gamma, noise, factor):
        found.extend([gamma, factor])
        raise Proposed

    def weight(i):
        found.append(i)
        return weights[i]

    monkeypatch.setattr(module, "accept", stop)
    with pytest.raises(Proposed):
        weighted_draw(np.array(gaps), UNIT, shown, weight, Place())
    bound, item, gamma, factor = found
    return item, bound, gamma, factor


@pytest.mark.parametrize("off", [1.0, 1 - 1e-12, 1 + 1e-12])
@pytest.mark.parametrize("case", CASES)
def test_chances_times_acceptances_are_the_law(case, off, monkeypatch):
    """Exactly, though the weights as doubles are off: for every item the product is its weight
    times one power of two, and no acceptance would have to be above 1."""
    weights, gaps = [Fraction(item) for item in CASES[case][0]], CASES[case][1]
    shown = np.array([float(item) * off for item in weights])
    start, scales = 0, set()
    bound = proposal(weights, gaps, shown, 0, monkeypatch)[1]
    assert 2**59 <= bound < 2**60 * (1 + 2e-9) + len(weights)
    while start < bound:
        item, _, gamma, factor = proposal(weights, gaps, shown, start, monkeypatch)
        assert gamma == UNIT * gaps[item]
        assert factor > 0
        assert floor_of(gamma, factor, 200) < 2**200
        low, high = start, bound  # the last chance of this item
        while high - low > 1:
            middle = (low + high) // 2
            same = proposal(weights, gaps, shown, middle, monkeypatch)[0] == item
            low, high = (middle, high) if same else (low, middle)
        scales.add(factor * (high - start) / weights[item])
        start = high
    assert len(scales) == 1


def floor_of(gamma, factor, bits):
    """floor(2^bits factor exp(-gamma)), by 200 digits and the series of the exponential."""
    with decimal.localcontext(decimal.Context(prec=400, Emin=-(10**9), Emax=10**9)):
        halvings = max(0, math.ceil(math.log2(float(gamma) + 1)) + 4)
        small = -decimal.Decimal(gamma.numerator) / gamma.denominator / 2**halvings
        term = total = decimal.Decimal(1)
        for k in range(1, 250):
            term = term * small / k
            total += term
        for _ in range(halvings):
            total *= total
        return math.floor(total * 2**bits * factor.numerator / factor.denominator)


GAMMAS = [
    Fraction(1, 10**9),
    Fraction(1, 3),
    Fraction(1),
    Fraction(22, 7),
    Fraction(44),
    Fraction(90),
]
FACTORS = [Fraction(1), Fraction(1, 3), Fraction(2, 3), Fraction(999_999_937, 10**9), TINY]


class Next:
    """Uniform words that were written down before."""

    def __init__(self, *words):
        self.words = list(words)

    def bits64(self, size):
        assert size == 1
        return np.array([self.words.pop(0)], dtype=np.uint64)


@pytest.mark.parametrize("gamma", [Fraction(0), *GAMMAS])
@pytest.mark.parametrize("factor", FACTORS)
def test_accepted_below_the_probability_and_not_at_or_beyond_it(gamma, factor):
    if gamma == 0 and factor >= 1:
        assert accept(2**64 - 1, gamma, Next().bits64, factor)
        return
    first, rest = divmod(floor_of(gamma, factor, 128), 2**64)
    assert first == 0 or accept(first - 1, gamma, Next().bits64, factor)
    assert not accept(first + 1, gamma, Next().bits64, factor)
    # the first words agree: the next ones decide
    assert rest == 0 or accept(first, gamma, Next(rest - 1).bits64, factor)
    assert not accept(first, gamma, Next(rest + 1).bits64, factor)


def test_a_factor_of_0_is_never_accepted_and_one_above_1_is_capped():
    assert not accept(1, Fraction(1), Next().bits64, Fraction(0))
    assert accept(2**64 - 1, Fraction(1), Next().bits64, Fraction(3))


def whole_table(one, other, weight, unit):
    """Chances of all pairs, and their scale, with nothing left out."""
    gap = np.maximum.outer(one, other)
    shown = np.exp(np.maximum((gap - gap.min()) * -float(unit), -600.0))
    shown *= np.multiply.outer(weight, weight)
    scale = module.BITS - math.frexp(float(shown.sum()))[1]
    return (shown * 2.0**scale * (1 + module.DOUBT)).astype(np.int64) + 1, scale


@pytest.mark.parametrize("unit", [Fraction(1, 1000), Fraction(7, 16), Fraction(40)])
@pytest.mark.parametrize("spread", [1, 300, 10**7])
def test_pairs_have_the_chances_of_the_whole_table(spread, unit, monkeypatch):
    generator = np.random.default_rng(spread)
    one, other = generator.integers(5, 6 + spread, (2, 40)) ** 2
    one[[0, 1, -1]] = other[[0, -2, -1]] = 10**12  # outside of what is tabulated
    weight = generator.integers(1, module.HEAVIEST, 40)
    made = []

    def kept(table, *arguments):
        made.append(table)
        return 0

    monkeypatch.setattr(module._ChanceTable, "draw", kept)
    products = np.multiply.outer(weight, weight).astype(float)
    module.weighted_pair((one, other), unit, weight, products, SimulatedNoise(1))
    chances, scale = whole_table(one, other, weight, unit)
    (table,) = made
    assert table.scale == scale
    assert table.ends.tolist() == chances.sum(axis=1).cumsum().tolist()
    rows = [table._row(row).tolist() for row in range(len(one))]
    assert rows == chances.tolist()
    assert len(table.chances) < len(one)
    # a pair that is left out has one chance, and no acceptance would have to be above 1
    gap = np.maximum.outer(one, other) - np.maximum.outer(one, other).min()
    most = np.log(products) + scale * math.log(2) - gap * float(unit)
    assert (most[chances == 1] <= math.log(2)).all()
    most[table.top : table.bottom, table.left : table.right] = -math.inf
    assert (most < 0).all()
