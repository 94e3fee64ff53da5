"""Centre and scale of a variable of which most persons have one value: exact laws of choices."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.models.center_scale import (
    LOWEST,
    PLACES,
    POINTS,
    WINDOW,
    MedianChoice,
    ScaleChoice,
    WindowChoice,
    apart_at,
    around_zero,
    edge,
    grid_around,
    octaves_of,
    roundness,
    size_scores,
    spread_cells,
    window_scores,
)
from privmean.models.pooled_steps import PARTS, UPPER
from privmean.models.rank_scores import median_scores
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

EACH = Fraction(1, 20)  # of epsilon 1, for one of three variables


def people(values):
    return ArrayPersonTable(np.asarray(values, dtype=float)[:, None], ("x",))


def law(choice, scores):
    """Probabilities of the exponential mechanism; permute-and-flip is nowhere worse."""
    weights = np.exp((scores - scores.max()) / float(choice.scale))
    return weights / weights.sum()


def test_the_scores_of_medians_move_by_two_and_by_one():
    largest = {"replaced": 0, "added": 0}
    for cells in (2, 3, 4):
        for table in product(range(4), repeat=cells):
            counts = np.array(table)
            near = [median_scores(counts)]
            near += [median_scores(counts + unit) for unit in np.eye(cells, dtype=np.int64)]
            added = max(int(np.abs(near[0] - x).max()) for x in near)
            replaced = max(int(np.abs(a - b).max()) for a in near for b in near)
            largest["added"] = max(largest["added"], added)
            largest["replaced"] = max(largest["replaced"], replaced)
    assert largest == {"replaced": 2, "added": 1}


def test_the_best_bin_holds_the_median():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.integers(0, 8, rng.integers(1, 30))
        scores = median_scores(np.bincount(values, minlength=8))
        median = float(np.median(values))
        assert scores[math.floor(median)] == 0 or scores[math.ceil(median)] == 0
        for k in np.flatnonzero(scores == 0):
            assert np.sum(values < k) <= len(values) / 2 <= np.sum(values <= k)


def test_one_person_moves_no_window_by_more_than_one_and_all_the_same_way():
    places = WINDOW + 4
    for table in product(range(2), repeat=places - 2):
        counts = np.array([1, *table, 0])
        for place in range(places):
            one_more = counts.copy()
            one_more[place] += 1
            moved = window_scores(one_more) - window_scores(counts)
            assert set(moved) <= {0, 1}
            assert moved[place] == 1
    assert WindowChoice("size", Fraction(1), ADD_REMOVE).choice.change == 1
    assert WindowChoice("size", Fraction(1), REPLACE_ONE).choice.change == 2


def test_a_window_holds_its_half_octaves_and_never_the_ends():
    counts = np.arange(1, PLACES + 2)
    scores = window_scores(counts)
    assert scores[0] == counts[0]
    assert scores[-1] == counts[-1]
    for last in (1, 2, WINDOW, WINDOW + 1, PLACES - 1):
        assert scores[last] == counts[max(last - WINDOW + 1, 1) : last + 1].sum()


def test_round_points_weigh_the_same_at_every_roundness():
    halved = roundness(POINTS)
    middle, ends = POINTS // 2, (POINTS - 1).bit_length() - 2
    assert halved[middle] == ends + 1
    assert halved[0] == halved[-1] == ends
    for power in range(ends):
        assert np.sum(halved == power) * 2**power == POINTS // 2
    assert roundness(9).tolist() == [2, 0, 1, 0, 3, 0, 1, 0, 2]


def test_round_points_are_preferred_by_what_is_public():
    rng = np.random.default_rng(0)
    middle = MedianChoice("median", EACH, REPLACE_ONE, rounded=True)
    plain = MedianChoice("median", EACH, REPLACE_ONE)
    one, two = rng.integers(0, 9, (2, 513))
    assert np.array_equal(
        middle.scores(one) - middle.scores(two), plain.scores(one) - plain.scores(two)
    )


@pytest.mark.parametrize(
    ("share", "sizes", "twin", "least"), [(0.17, 0.85, 0.02, 0.6), (0.3, 0.996, 0.1, 0.97)]
)
def test_a_column_of_zeros_and_ones_is_seen(share, sizes, twin, least):
    """4,700 persons, epsilon 1, three variables: the size within the window, the centre 0 and the
    scale 1 with the probabilities of the exponential mechanism. The scores that ask for a quantile
    of persons beside 0 are the broken twin."""
    number = 4700
    column = people(np.arange(number) < share * number)
    size, middle, spread = (part * EACH for part in PARTS)
    cells = column.log_counts(0, 0.0)
    choice = WindowChoice("size", size, REPLACE_ONE, bounded=True)
    right = place_of(1.0)
    places = law(choice.choice, window_scores(octaves_of(cells)))
    within = slice(right, right + WINDOW)
    assert places[within].sum() == pytest.approx(sizes, abs=0.01)
    old = ScaleChoice("size", size * Fraction(6, 5), REPLACE_ONE, bounded=True)
    assert law(old.choice, old.scores(cells))[right - 2 : right + WINDOW].sum() <= twin

    seen = 0.0
    for place in range(right, right + WINDOW):
        bins = grid_around(*around_zero(place))
        counts = bins.all_counts(column.uniform_counts(0, bins.half, bins.origin))
        choice = MedianChoice("median", middle, REPLACE_ONE, bounded=True, rounded=True)
        zero = law(choice.choice, choice.scores(counts))[POINTS // 2]
        plain = MedianChoice("median", middle, REPLACE_ONE, bounded=True)
        assert zero > 0.99
        assert law(plain.choice, plain.scores(counts))[POINTS // 2] < 0.8
        first = apart_at(bins.half, 0.0, place)
        scale = ScaleChoice("spread", spread, REPLACE_ONE, True, UPPER)
        found = law(scale.choice, scale.scores(cells, first, place))
        seen += places[place] * zero * found[right - first]
    assert seen > least


def test_the_spread_of_a_rare_level_is_not_far_below_its_size():
    """5 % of 4,700 persons have a one: about 0 their spread is looked for from the window of their
    size on. From the grid of medians on it goes astray more than twice as often."""
    column = people(np.arange(4700) < 235)
    cells, place = column.log_counts(0, 0.0), place_of(1.0) + WINDOW // 2
    scale = ScaleChoice("spread", PARTS[2] * EACH, REPLACE_ONE, True, UPPER)
    half = grid_around(*around_zero(place)).half
    astray = []
    for first in (apart_at(half, 0.0, place), spread_cells(half)):
        found = law(scale.choice, scale.scores(cells, first, place))
        astray.append(1 - found[place_of(1.0) - WINDOW // 2 - first :].sum())
    assert apart_at(half, 1.0, place) == spread_cells(half)
    assert astray[1] > 2 * astray[0], astray


def place_of(size):
    """Of the half octave that holds a power of two."""
    return next(k for k in range(PLACES) if edge(k) > size * (1 + 1e-12))


def test_the_scale_of_a_column_that_lies_far_from_zero_is_that_about_its_centre():
    rng = np.random.default_rng(1)
    years = people(rng.integers(1968, 1989, 4700))
    middle, spread = (part * EACH for part in PARTS[1:])
    place = place_of(2048.0)
    bins = grid_around(*around_zero(place))
    counts = bins.all_counts(years.uniform_counts(0, bins.half, bins.origin))
    choice = MedianChoice("median", middle, REPLACE_ONE, bounded=True, rounded=True)
    found = law(choice.choice, choice.scores(counts))
    centres = bins.lower + bins.half * (2 * np.arange(POINTS) + 1)
    assert found[(centres >= 1971) & (centres <= 1985)].sum() > 0.99
    scale = ScaleChoice("spread", spread, REPLACE_ONE, True, UPPER)
    first = spread_cells(bins.half)
    cells = years.log_counts(0, 1978.0)
    near = law(scale.choice, scale.scores(cells, first, place))
    assert near[place_of(4.0) - first : place_of(16.0) - first].sum() > 0.99


def test_what_costs_above_the_likely_places_is_public():
    rng = np.random.default_rng(2)
    scale = ScaleChoice("spread", EACH, REPLACE_ONE, True, UPPER)
    one, two = (people(rng.standard_normal(50)).log_counts(0, 0.0) for _ in range(2))
    costs = [scale.scores(x, 3, 40) - size_scores(x, 0.0, 3, UPPER) for x in (one, two)]
    assert np.array_equal(*costs)
    assert not costs[0][: 40 - 3 + 1].any()
    assert (np.diff(costs[0][40 - 3 :]) < 0).all()
    assert LOWEST < 0
