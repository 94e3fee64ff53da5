"""Thresholds are exact; every pair of counts is within the claim, and broken twins are not."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.mechanisms import histograms as module
from privmean.mechanisms.histograms import (
    GaussianStableHistogram,
    StableHistogram,
    laplace_tail,
    laplace_threshold,
    top_bin,
)
from privmean.noise.noise_source import ExactNoise, SimulatedNoise, double_above
from privmean.privacy.amplification import gaussian_tail
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from statistics_kit import assert_rate, assert_rate_at_most

BUDGETS = [(0.05, 1e-6), (0.1, 1e-9), (0.5, 1e-6), (1.0, 1e-3), (2.0, 1e-8), (8.0, 1e-2)]


def exact_tail(steps: int, scale: Fraction) -> Decimal:
    """a^steps/(1 + a) in 100 digits: an independent path, without outward rounding."""
    with localcontext() as context:
        context.prec = 100
        rate = Decimal(scale.denominator) / Decimal(scale.numerator)
        return (-rate * steps).exp() / (1 + (-rate).exp())


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_threshold_is_the_smallest_that_hides_one_person(epsilon, delta):
    scale = 2 / Fraction(epsilon)
    t = laplace_threshold(scale, delta)
    with localcontext() as context:
        context.prec = 100
        assert exact_tail(t - 1, scale) <= Decimal(delta)
        assert exact_tail(t - 2, scale) > Decimal(delta)
    a = math.exp(-1 / float(scale))
    assert t == 1 + math.ceil(float(scale) * math.log(1 / (delta * (1 + a))))
    # the printed threshold 1 + (2/epsilon) ln(2/delta) spends a quarter of delta, and half less
    # by the continuous formula (1/2) exp(-(epsilon/2)(t - 1))
    printed = 1 + 2 / epsilon * math.log(2 / delta)
    assert 0.5 * math.exp(-epsilon / 2 * (printed - 1)) == pytest.approx(delta / 4)
    assert t <= math.ceil(printed)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_tail_is_an_upper_bound_for_the_scale_that_is_drawn(epsilon, delta):
    scale = 2 / Fraction(epsilon) * Fraction(10, 7)  # not a double
    for steps in (0, 1, 5, 60):
        bound = laplace_tail(steps, scale)
        exact = Fraction(exact_tail(steps, Fraction(double_above(scale))))
        assert exact < bound < exact * (1 + Fraction(1, 10**12))


# --- exact loss over all counts of two bins -------------------------------------------------------
def output_law(count: int, scale: float, threshold: int, reach: int) -> np.ndarray:
    """Probabilities of: hidden, then shown values threshold .. reach (the last one and above)."""
    if count == 0:
        law = np.zeros(reach - threshold + 2)
        law[0] = 1.0
        return law
    a = math.exp(-1 / scale)
    values = np.arange(threshold, reach + 1)
    pmf = (1 - a) / (1 + a) * a ** np.abs(values - count)
    above = a ** (reach - count) / (1 + a)
    pmf[-1] = above
    return np.concatenate([[1 - pmf.sum()], pmf])


def hockey_stick(first, other, epsilon, scale, threshold):
    """sum (P - e^epsilon P')_+ for two bins with these counts, exactly."""
    reach = threshold + int(24 * scale) + 24
    laws = [
        np.outer(output_law(x, scale, threshold, reach), output_law(y, scale, threshold, reach))
        for x, y in (first, other)
    ]
    return float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum())


def worst(epsilon, scale, threshold, relation):
    """The largest divergence over small counts and counts at the threshold, for all neighbours."""
    moves = [(-1, 1), (1, -1), (-1, 0), (0, 1), (1, 0), (0, -1)]
    if relation == ADD_REMOVE:
        moves = moves[2:]
    result = 0.0
    some = [0, 1, 2, 3, threshold, threshold + int(4 * scale) + 4]
    for x, y in itertools.product(some, repeat=2):
        for dx, dy in moves:
            if x + dx >= 0 and y + dy >= 0:
                pair = (x, y), (x + dx, y + dy)
                result = max(result, hockey_stick(*pair, epsilon, scale, threshold))
    return result


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-2), (1.0, 1e-3), (2.0, 1e-5)])
def test_exact_loss_of_every_pair_of_counts(epsilon, delta, relation):
    mechanism = StableHistogram.of(Fraction(epsilon), delta, relation)
    scale, t = float(mechanism.scale), mechanism.threshold
    found = worst(epsilon, scale, t, relation)
    assert found <= delta * (1 + 1e-9)
    # the claim is tight: the double switch attains the tail itself
    assert found == pytest.approx(float(laplace_tail(t - 1, mechanism.scale)), rel=1e-6)
    # twins: a threshold one too low, and half the noise
    assert worst(epsilon, scale, t - 1, relation) > delta
    assert worst(epsilon, scale / 2, t, relation) > delta


def test_losses_state_two_counts_and_the_threshold():
    histogram = StableHistogram.of(Fraction(1, 2), 1e-6, REPLACE_ONE)
    noise, threshold = histogram.events
    assert noise.pure == Fraction(1, 2)
    assert noise.cells_changed == 2
    assert threshold.added_delta == 1e-6
    single = StableHistogram.of(Fraction(1, 2), 1e-6, ADD_REMOVE).events[0]
    assert (single.pure, single.cells_changed, single.scale) == (Fraction(1, 2), 1, 2)


@pytest.mark.parametrize("twin", [0, 2])
def test_shown_single_person_by_sampling(twin, monkeypatch):
    """A bin that only one neighbour has is shown with probability delta at most."""
    histogram = StableHistogram.of(Fraction(1), 0.05, REPLACE_ONE)
    exact = float(laplace_tail(histogram.threshold - 1 - twin, histogram.scale))
    if twin:
        tight = laplace_threshold(histogram.scale, 0.05)
        monkeypatch.setattr(module, "laplace_threshold", lambda *_: tight - twin)
    noise, draws = SimulatedNoise(4), 20_000
    shown = len(histogram.draw({k: 1 for k in range(draws)}, noise))
    assert_rate(shown, draws, exact)
    if twin:
        with pytest.raises(AssertionError):
            assert_rate_at_most(shown, draws, 0.05)
    else:
        assert_rate_at_most(shown, draws, 0.05)


def test_order_of_bins_and_ties():
    counts = {7: 40, -3: 40, 0: 12}
    histogram = StableHistogram.of(Fraction(1), 1e-3, REPLACE_ONE)
    first = histogram.draw(counts, SimulatedNoise(1))
    again = histogram.draw(dict(reversed(counts.items())), SimulatedNoise(1))
    assert first == again
    assert top_bin({7: 40, -3: 40, 0: 12}) == -3
    assert top_bin({-3: 40, 7: 40}) == top_bin({7: 40, -3: 40})
    assert top_bin({}) is None
    assert histogram.draw({}, SimulatedNoise(1)) == {}
    assert histogram.draw({5: 0}, SimulatedNoise(1)) == {}


# --- the Gaussian form ----------------------------------------------------------------------------
@pytest.mark.parametrize(("sd", "slack"), [(20, 5e-3), (300, 1e-4), (5000, 1e-6)])
def test_gaussian_tail_bound_against_exact_sums(sd, slack):
    k = np.arange(0, 14 * sd)
    weights = np.exp(-0.5 * (k / sd) ** 2)
    total = 2 * weights.sum() - 1
    for multiple in (1, 3, 5):
        steps = multiple * sd
        exact = weights[steps:].sum() / total
        assert exact <= gaussian_tail(steps, sd) <= exact * (1 + slack)


@pytest.mark.parametrize("columns", [1, 7])
def test_gaussian_threshold(columns):
    mechanism = GaussianStableHistogram.of(0.5, columns, REPLACE_ONE, "h", delta=1e-6)
    steps = math.ldexp(mechanism.sd, mechanism.bits)
    assert steps >= 2**20
    one = 1 << mechanism.bits
    share = 1e-6 / columns
    assert gaussian_tail(mechanism.threshold - one, steps) <= share
    assert gaussian_tail(mechanism.threshold - one - 2, steps) > share
    noise, threshold = mechanism.events
    assert noise.mu == pytest.approx(0.5, rel=1e-12)
    assert noise.mu <= 0.5
    assert noise.answers == 2 * columns
    assert threshold.added_delta == 1e-6
    shown = mechanism.draw({k: 1 for k in range(2000)}, ExactNoise())
    assert len(shown) <= 3
    kept = mechanism.draw({0: 1000, 5: 1}, ExactNoise())  # a bin of one shows at 1e-6
    assert set(kept) == {0}
    assert abs(kept[0] / one - 1000) < 10 * mechanism.sd


def test_one_person_moves_two_counts_by_one():
    """The counts that the histogram is given: any person replaced by any value, nulls too."""
    values = np.array([0.0, 1.9, 2.0, -7.3, 5.0, np.nan])
    extremes = [1e300, -1e300, np.inf, -np.inf, np.nan, 0.0, 2.0, 4.0, 5e-324]

    def counts(x):
        return ArrayPersonTable(x[:, None], ("x",)).uniform_counts(0, 2.0)

    before, moved = counts(values), 0
    for i in range(len(values)):
        for extreme in extremes:
            other = values.copy()
            other[i] = extreme
            after = counts(other)
            change = [abs(after.get(k, 0) - before.get(k, 0)) for k in {*after, *before}]
            assert max(change, default=0) <= 1
            moved = max(moved, sum(change))
    assert moved == 2
