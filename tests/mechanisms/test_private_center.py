"""The private center: its law and its losses against all candidates of a small universe."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
from hostile_people import column_of, hostile_people, neighbors
from scipy import stats

from privmean.mechanisms import private_location as private_center
from privmean.mechanisms.private_location import SHORT, PrivateCenter, ShortNumbers
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

ALPHA = 1e-7
LOW, HIGH, DIGITS = -2, 3, 4
SMALL = ShortNumbers(LOW, HIGH, DIGITS)
PART = 2**20


def small_universe():
    """Candidate: (exact weight, last digit), in ascending order, from the words of the spec."""
    found = {}
    for e in range(LOW, HIGH):
        octave = round(PART / (1 + abs(e + 0.5)))
        for b in range(DIGITS):
            weight = Fraction(octave * round(PART / (b + 1)), 2 ** max(b - 1, 0))
            for k in [2**b] if b == 0 else range(1, 2**b, 2):
                size = Fraction(2) ** e * (1 + Fraction(k, 2**b))
                last = size if b == 0 else Fraction(2) ** (e - b)
                found[size] = found[-size] = weight, last
    found[Fraction(0)] = sum(weight for weight, _ in found.values()) / 15, Fraction(0)
    return dict(sorted(found.items()))


UNIVERSE = small_universe()
CANDIDATES = list(UNIVERSE)
SIZES = [item for item in CANDIDATES if item > 0]


def place_of(x: float) -> Fraction | float | None:
    """The candidate at which a person counts: the next one away from 0."""
    if math.isnan(x):
        return None
    size = abs(x)
    if size <= 2.0**LOW:
        return Fraction(0)
    at = bisect_left(SIZES, size)
    return math.copysign(1, x) * (SIZES[at] if at < len(SIZES) else math.inf)


def all_scores(people):
    places = [place for place in map(place_of, people) if place is not None]
    where = np.array([float(place) for place in places])
    points = np.array([float(item) for item in CANDIDATES])[:, None]
    return np.maximum((where < points).sum(axis=1), (where > points).sum(axis=1))


def law(people, unit):
    weights = np.array([float(weight) for weight, _ in UNIVERSE.values()])
    found = weights * np.exp(-float(unit) * all_scores(people))
    return found / found.sum()


def merged_p_value(counts, probabilities, least=50.0):
    """Chi-square with outcomes pooled, the rarest first, until each pool expects `least` draws."""
    order = np.argsort(probabilities, kind="stable")
    wanted = np.cumsum(probabilities[order]) * counts.sum()
    ends, reached = [], 0.0
    for at in range(len(order)):
        if wanted[at] >= reached + least:
            ends.append(at + 1)
            reached = wanted[at]
    starts = [0, *ends[:-1]]
    pools = np.add.reduceat(probabilities[order], starts)
    seen = np.add.reduceat(counts[order], starts)
    return float(stats.chisquare(seen, pools / pools.sum() * counts.sum()).pvalue)


TABLES = {
    "one value": [3.0] * 15 + [0.7, -1.2, 5.5, 2.9, 3.1],
    "two values": [1.0] * 9 + [6.5] * 8 + [-2.0, 0.0, math.nan],
    "ends": [math.inf] * 4 + [-math.inf] * 3 + [1e308, -9.0, 8.0, 5e-324, 0.25, -0.26]
    + [0.3] * 5 + [math.nan] * 2,
    "zeros": [0.0] * 8 + [-0.0, 0.1, -0.2, 0.25, 1.0, 2.0, 4.0, -4.0, 7.9, 8.1, -8.1, -0.5],
    "spread": [0.3 * 1.2**i for i in range(12)] + [-0.3 * 1.5**i for i in range(8)],
    "nobody": [math.nan] * 4,
}  # fmt: skip
OPENED = [(12, 0.25), (1, 0.01), (2, 0.01), (1, 5.0), (2, 0.25), (12, 5.0)]


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("turn", range(len(TABLES)), ids=list(TABLES))
def test_law_of_the_draw_however_cells_are_opened(turn, relation, monkeypatch):
    step, opened = OPENED[turn if relation == REPLACE_ONE else (turn + 1) % len(OPENED)]
    monkeypatch.setattr(private_center, "STEP", step)
    monkeypatch.setattr(private_center, "OPEN", opened)
    assert_law(list(TABLES.values())[turn], relation, seed=turn, draws=2500)


@pytest.mark.slow
def test_law_of_the_draw_as_it_is_used():
    assert_law(TABLES["two values"], REPLACE_ONE, seed=20, draws=10_000)


def assert_law(people, relation, *, seed, draws):
    epsilon = Fraction(1, 4)
    mechanism = PrivateCenter("center", epsilon, relation, SMALL)
    assert mechanism.unit == (epsilon / 2 if relation == REPLACE_ONE else epsilon)
    exact, noise = column_of(people), SimulatedNoise(seed)
    index = {float(item): i for i, item in enumerate(CANDIDATES)}
    counts = np.zeros(len(CANDIDATES), dtype=np.int64)
    for _ in range(draws):
        value, digit = mechanism.draw(exact, noise)
        counts[index[value]] += 1
        assert digit == UNIVERSE[Fraction(value)][1]
    assert merged_p_value(counts, law(people, mechanism.unit)) >= ALPHA


def test_the_weights_are_those_of_the_words():
    every = sum(weight for weight, _ in UNIVERSE.values())
    assert SMALL.zero_weight == UNIVERSE[Fraction(0)][0] == every / 16
    table = private_center._Table(column_of([1.0]), SMALL, Fraction(1))
    exact = [table._exact_weight(i) for i in range(table._count + 1)]
    assert sum(exact) == every
    assert np.allclose(table.weights, [float(item) for item in exact], rtol=1e-13, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 12])
def test_no_candidate_of_a_cell_scores_better_than_its_bound(step, monkeypatch):
    """Cells are opened at random; they always hold all candidates once, with their weights."""
    monkeypatch.setattr(private_center, "STEP", step)
    generator = np.random.default_rng(step)
    tables = [*TABLES.values(), *(hostile_people(generator, 20) for _ in range(20))]
    for people in tables:
        table = private_center._Table(column_of(people), SMALL, Fraction(1, 3))
        scores = dict(zip(CANDIDATES, all_scores(people).tolist(), strict=True))
        assert_bounds(table, scores)
        for _ in range(12):
            at = int(generator.integers(table._count))
            if not table._is_deepest(at):
                table._open(at)
        assert_bounds(table, scores)


def assert_bounds(table, scores):
    bounds, cells, seen = table._bounds().tolist(), table.cells, [Fraction(0)]
    assert bounds[-1] == scores[Fraction(0)]  # 0 is a cell of its own
    for at in range(table._count):
        sign, depth, index = int(cells.sign[at]), int(cells.depth[at]), int(cells.index[at])
        start = Fraction(2) ** int(cells.octave[at])
        ends = [start * (1 + Fraction(i, 2**depth)) for i in (index, index + 1)]
        inside = [x for x in CANDIDATES if ends[0] < sign * x <= ends[1]]
        assert all(bounds[at] <= scores[x] for x in inside)
        assert table._exact_weight(at) == sum(UNIVERSE[x][0] for x in inside)
        if table._is_deepest(at):
            assert [scores[x] for x in inside] == [bounds[at]]
        seen += inside
    assert sorted(seen) == CANDIDATES


def test_people_count_at_the_next_candidate_away_from_0():
    generator = np.random.default_rng(5)
    values = [x for x in hostile_people(generator, 3000) if not math.isnan(x)]
    assert SMALL.rounded(np.array(values)).tolist() == [float(place_of(x)) for x in values]
    assert_cells(SMALL, values)
    assert_cells(SHORT, values)
    inside = np.array([x for x in values if 2.0**-64 < abs(x) <= 2.0**64])
    places = SHORT.rounded(inside)
    assert (np.abs(places) >= np.abs(inside)).all()
    assert (np.abs(places) < np.abs(inside) * (1 + 2.0**-22)).all()


def assert_cells(numbers, values):
    """`cell` holds who counts at a candidate, and nobody next to it does."""
    for x, place in zip(values, numbers.rounded(np.array(values)).tolist(), strict=True):
        if math.isinf(place):
            assert abs(x) > 2.0**numbers.high
            continue
        low, high = numbers.cell(place)
        assert low <= x <= high
        ends = [low, high, math.nextafter(low, -math.inf), math.nextafter(high, math.inf)]
        inside = (numbers.rounded(np.array(ends)) == place).tolist()
        assert inside == [True, True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [SMALL, SHORT], ids=["small", "all"])
def test_enumerated_losses(numbers):
    """Changes of scores over all candidates of the small universe; the declared share is as large
    at least, never above 1, and 1 for some neighbors."""
    epsilon = Fraction(1, 3)
    reached = {REPLACE_ONE: Fraction(0), ADD_REMOVE: Fraction(0)}
    widest = dict(reached)
    for one, two, change in neighbors(np.random.default_rng(11), 2500):
        relation = REPLACE_ONE if change == "replaced" else ADD_REMOVE
        mechanism = PrivateCenter("center", epsilon, relation, numbers)
        (share,) = mechanism.sensitivity_share(column_of(one), column_of(two))
        assert share <= 1
        reached[relation] = max(reached[relation], share)
        if numbers is SHORT:
            continue
        changes = all_scores(two) - all_scores(one)
        assert np.abs(changes).max() <= 1
        assert change != "added" or changes.min() >= 0
        assert change != "removed" or changes.max() <= 0
        width = int(changes.max() - changes.min()) * mechanism.unit / epsilon
        assert width <= share
        widest[relation] = max(widest[relation], width)
        loss = np.log(law(two, mechanism.unit) / law(one, mechanism.unit))
        assert np.abs(loss).max() <= float(epsilon) * (1 + 1e-9)
    assert reached == {REPLACE_ONE: 1, ADD_REMOVE: 1}
    assert numbers is SHORT or widest == reached


def test_half_the_unit_is_needed_where_one_is_replaced():
    one, two = [1.0] * 5 + [2.0] * 5, [1.0] * 4 + [2.0] * 6
    single = PrivateCenter("center", Fraction(1), ADD_REMOVE, SMALL)
    assert single.sensitivity_share(column_of(one), column_of(two)) == (2,)
    (event,) = single.events
    assert event.pure == 1
    assert event.bounded_range


@pytest.mark.parametrize("value", [5.0, 0.1, -0.1, 1e6 + 0.5, 0.0, 2.0**-64, -(2.0**64)])
def test_a_value_that_most_people_share_is_found(value):
    generator = np.random.default_rng(3)
    people = [value] * 900 + (generator.standard_t(2, 100) * 100).tolist()
    mechanism, exact = PrivateCenter("center", Fraction(1, 10), REPLACE_ONE), column_of(people)
    expected = float(SHORT.rounded(np.array([value]))[0])
    for noise in [SimulatedNoise(seed) for seed in range(20)] + [ExactNoise()]:
        found, digit = mechanism.draw(exact, noise)
        assert found == expected
        if expected == 0:
            assert digit == 0
        else:  # the last digit: an odd number of them, at most 24
            assert (found / digit) % 2 == 1
            assert abs(found / digit) < 2**24


def test_an_offset_is_met_with_few_digits():
    people = np.random.default_rng(4).normal(1e6, 1.0, 5000)
    mechanism, exact = PrivateCenter("center", Fraction(1, 50), REPLACE_ONE), column_of(people)
    for seed in range(20):
        found, digit = mechanism.draw(exact, SimulatedNoise(seed))
        assert abs(found - 1e6) < 4
        assert (found / digit) % 2 == 1
