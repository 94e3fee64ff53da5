"""The private limits: scores from the words of the page, losses over all pairs, exact draws."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hostile_people import column_of, hostile_people, neighbors
from test_private_center import ALPHA, merged_p_value

from privmean.data.grids import INWARD
from privmean.mechanisms import private_location as private_limits
from privmean.mechanisms.choices import HEAVIEST
from privmean.mechanisms.private_location import (
    CANDIDATES,
    PrivateLimits,
    edges,
    side_counts,
)
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from statistics_kit import assert_mean

HALF_OCTAVES = range(-128, 128)
CENTERS = [(0.0, 0.0), (1.0, 1.0), (3.0, 1.0), (5.25, 0.25), (-(2.0**20), 2.0**20), (0.75, 0.25)]


def scores_by_the_words(people, center, side, digit, scale):
    """Candidate limits of one side, from the center outwards, in loops over people."""
    away = [(x - center) * side for x in people if not math.isnan(x)]
    sizes = edges().tolist()[1:]
    # strictly beyond an edge; odd edges are irrational, and INWARD says which doubles are beyond
    beyond = [sum(d > 0 and d * INWARD >= size for d in away) for size in sizes]
    scores = [beyond[0]]  # at the center: who is nearer than the first edge counts as there
    for place, j in enumerate(HALF_OCTAVES):
        far = max(2 * (j / 2 - math.log2(max(1.0, digit))), 0.0)
        unmet = 0
        for k in range(1, 200):  # far more than are ever looked at
            asked = math.ceil(float(scale) * min(1.5 * k, 12 + math.log(2) / 2 * far))
            inner = beyond[place - k] if place >= k else beyond[0]
            unmet = max(unmet, asked - (inner - beyond[place]))
            if place < k and 1.5 * k > 12 + math.log(2) / 2 * far:
                break  # more half octaves hold nobody more and demand nothing more
        scores.append(max(beyond[place], unmet))
    return scores


def exact_of(people, center):
    return side_counts(column_of(people).half_octaves(center))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(4), Fraction(20, 3)])
def test_scores_are_those_of_the_words(scale):
    generator = np.random.default_rng(2)
    tables = [hostile_people(generator, 25) for _ in range(14)]
    tables += [generator.normal(3, 10.0**i, 300).tolist() for i in range(-3, 3)]
    tables += [[0.0] * 30 + [1.0] * 40, [math.nan] * 3, [math.inf] * 5 + [-math.inf] * 2]
    for turn, people in enumerate(tables):
        center, digit = CENTERS[turn % len(CENTERS)]
        limits = PrivateLimits("limits", 2 / scale, REPLACE_ONE, digit)
        sides = exact_of(people, center)
        for side, counts, found in zip((-1, 1), sides, limits.scores(sides), strict=True):
            assert counts.shape == (CANDIDATES,)
            assert found.tolist() == scores_by_the_words(people, center, side, digit, scale)


@lru_cache
def prior_by_the_words(digit):
    """Of one side: by octaves to the last digit; at the center 8, for a center of 0 40."""
    at = math.log2(digit) if digit else 0.0
    parts = [round(2**20 / (1 + abs(j / 2 - at))) for j in HALF_OCTAVES]
    return np.array([(8 if digit else 40) * 2**20, *parts], dtype=float)


class Law:
    """The probabilities of all pairs; numbers of pairs with each score, weighted, are enough."""

    def __init__(self, mechanism, counts):
        self.below, self.above = mechanism.scores(counts)
        self.pairs = np.maximum.outer(self.below, self.above)
        weights = prior_by_the_words(mechanism.digit)
        self.weights = np.multiply.outer(weights, weights)
        mass = np.bincount(self.pairs.ravel(), self.weights.ravel())
        exponents = np.arange(len(mass)) / float(mechanism.scale)
        least = exponents[int(self.pairs.min())]
        self.log_total = math.log(float(mass @ np.exp(least - exponents))) - least
        self.scale = float(mechanism.scale)

    def loss(self, other):
        """The largest change of the log of a probability."""
        changes = (other.pairs - self.pairs) / self.scale
        moved = other.log_total - self.log_total
        return max(abs(float(changes.max()) + moved), abs(float(changes.min()) + moved))

    @property
    def probabilities(self):
        return self.weights * np.exp(-self.pairs / self.scale - self.log_total)


@pytest.mark.slow
def test_enumerated_losses():
    """Over all pairs of candidates, normalized: at most epsilon, and nearly reached; the declared
    share is at most 1 and reached under both relations."""
    generator = np.random.default_rng(12)
    most, reached = 0.0, set()
    for turn, (one, two, change) in enumerate(neighbors(generator, 2200)):
        epsilon = (Fraction(1, 2), Fraction(3), Fraction(12))[turn % 3]
        center, digit = CENTERS[int(generator.integers(len(CENTERS)))]
        relation = REPLACE_ONE if change == "replaced" else ADD_REMOVE
        mechanism = PrivateLimits("limits", epsilon, relation, digit)
        first, second = exact_of(one, center), exact_of(two, center)
        before, after = Law(mechanism, first), Law(mechanism, second)
        assert np.abs(after.below - before.below).max() <= 1
        assert np.abs(after.above - before.above).max() <= 1
        loss = before.loss(after) / float(epsilon)
        assert loss <= 1 + 1e-9
        (share,) = mechanism.sensitivity_share(first, second)
        changes = after.pairs - before.pairs
        assert share == Fraction(int(changes.max() - changes.min()), 2)
        assert loss <= share + 1e-9
        most = max(most, loss)
        reached.add((relation, share))
    assert most > 0.99
    assert {(REPLACE_ONE, 1), (ADD_REMOVE, 1)} <= reached
    assert max(share for _, share in reached) == 1


def test_half_the_scale_would_not_do():
    (event,) = PrivateLimits("limits", Fraction(1), ADD_REMOVE, 1.0).events
    assert event.pure == 1
    assert event.bounded_range
    for relation in (REPLACE_ONE, ADD_REMOVE):  # an added person may raise and lower scores
        assert PrivateLimits("limits", Fraction(1), relation, 1.0).scale == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "turn", "noise"),
    [(Fraction(1, 4), 0, SimulatedNoise(3)), (Fraction(2), 1, SimulatedNoise(4)),
     (Fraction(3), 3, SimulatedNoise(5)), (Fraction(3, 2), 2, ExactNoise())],
)  # fmt: skip
def test_law_of_the_draw(epsilon, turn, noise):
    generator = np.random.default_rng(7)
    center, digit = CENTERS[turn]
    people = [*generator.normal(center, 2.0, round(60 / epsilon)), center, math.inf, math.nan]
    mechanism = PrivateLimits("limits", epsilon, REPLACE_ONE, digit)
    exact, draws = exact_of(people, center), 900
    pairs = np.array([mechanism.draw(exact, noise) for _ in range(draws)])
    law = Law(mechanism, exact).probabilities
    assert law.sum() == pytest.approx(1, rel=1e-12)
    counts = np.bincount(pairs[:, 0] * CANDIDATES + pairs[:, 1], minlength=CANDIDATES**2)
    assert merged_p_value(counts, law.ravel(), least=20) >= ALPHA
    for axis in (0, 1):  # each limit alone: more draws a candidate
        alone = np.bincount(pairs[:, axis], minlength=CANDIDATES)
        assert merged_p_value(alone, law.sum(axis=1 - axis), least=20) >= ALPHA
        place = np.arange(CANDIDATES)
        assert_mean(pairs[:, axis], float(law.sum(axis=1 - axis) @ place))


@pytest.mark.parametrize("ones", [400, 1000])
def test_limits_are_at_the_data(ones):
    """0 and 1 about 0: nothing is cut off by an upper limit of exactly 1, which is the best."""
    people = [0.0] * 2000 + [1.0] * ones
    mechanism = PrivateLimits("limits", Fraction(1, 10), REPLACE_ONE, 0.0)
    exact = exact_of(people, 0.0)
    below, above = mechanism.scores(exact)
    place = edges().tolist().index(1.0)
    assert above[place] == 0
    assert above[place - 1] == ones
    assert below[0] == 0
    law = Law(mechanism, exact).probabilities
    assert np.unravel_index(law.argmax(), law.shape) == (0, place)
    assert law[0, place] > 0.8
    assert mechanism.draw(exact, ExactNoise())[1] >= place


def test_who_is_at_a_limit_is_not_beyond_it():
    sizes = edges()
    assert len(sizes) == CANDIDATES
    assert sizes[0] == 0
    assert sizes[1] == 2.0**-64
    assert sizes[-2] == 2.0**63
    for place in range(2, CANDIDATES, 26):
        size = float(sizes[place])
        near, past = [size, math.nextafter(size, 0)], [math.nextafter(size, math.inf) * (1 + 1e-15)]
        below, above = exact_of([*near, *past, *(-x for x in near)], 0.0)
        assert above[place] == 1
        assert below[place] == 0
        assert below[place - 1] == 2
    below, above = exact_of([math.nan, 5e-324, -math.inf, math.inf], 0.0)
    assert below.tolist() == above.tolist() == [1] * CANDIDATES


@pytest.mark.parametrize("digit", [0.0, 2.0**-60, 1.0, 3.0, 2.0**60])
def test_weights_of_limits_are_those_that_a_draw_of_pairs_takes(digit):
    weights = private_limits._weights(digit)
    assert weights.min() >= 1
    assert weights.max() <= HEAVIEST
