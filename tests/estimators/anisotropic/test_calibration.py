"""The noise of the filtered mean: printed reference values, exact tails, an independent path."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from privmean.estimators.anisotropic.calibrate_filter import (
    calibrate,
    tight_count,
)
from privmean.privacy.amplification import (
    delta_ratio,
    gaussian_tail,
    inner_epsilon,
    outer_epsilon,
    tail_threshold,
)
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_delta, gaussian_mu
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.stored_events import loss_from_dict
from privmean.published.anisotropic import published_constants

# multiplier s and offset t of the tight Gaussian count at n_design = 1e5, both relations, and the
# published constants
TABLE = [
    (1e-5, 0.1, 1384.6, 4518, 64.3, 2148, 95.5),
    (1e-5, 5, 27.7, 90, 3.73, 348, 4.31),
    (1e-6, 0.5, 291.2, 1000, 18.3, 994, 25.8),
    (1e-6, 1, 145.6, 500, 10.5, 690, 14.2),
    (1e-6, 2, 72.8, 250, 6.53, 482, 8.29),
    (1e-9, 0.1, 1652.1, 6452, 105.3, 3485, 156.6),
    (1e-9, 1, 165.2, 645, 13.7, 908, 18.5),
    (1e-9, 5, 33.0, 129, 4.97, 516, 5.75),
]


def agrees(value: float, printed: float) -> bool:
    """Whether a value rounds to a printed number (half a unit of its last digit, or 0.6)."""
    text = f"{printed:g}"
    digits = len(text.split(".")[1]) if "." in text else 0
    return abs(value - printed) <= 0.6 * 10.0**-digits


def test_unit_values():
    assert gaussian_delta(0.2, 0.5) == pytest.approx(5.12536e-4, rel=1e-6)
    assert gaussian_mu(1, 1e-6) == pytest.approx(0.236704, abs=5e-7)
    inner = inner_epsilon(1, ADD_REMOVE)
    behind = 1e-6 / delta_ratio(1, inner)
    assert inner == pytest.approx(0.405465, abs=5e-7)
    assert behind == pytest.approx(2.909884e-7, rel=1e-6)
    assert gaussian_mu(inner, 0.9 * behind) == pytest.approx(0.0953052, abs=5e-8)
    inner = inner_epsilon(1, REPLACE_ONE)
    assert inner == pytest.approx(0.300076, abs=5e-7)
    assert 1e-6 / delta_ratio(1, inner) == pytest.approx(2.036696e-7, rel=1e-6)


@pytest.mark.parametrize(
    ("relation", "count_mu", "offset", "multiplier"),
    [(ADD_REMOVE, 0.029465, 184.09, 11.0331), (REPLACE_ONE, 0.024007, 228.59, 15.0808)],
)
def test_calibration_at_two_thousand(relation, count_mu, offset, multiplier):
    made = calibrate(1, 1e-6, 2000, relation)
    assert agrees(made.count_steps / made.count_scale, count_mu)
    assert agrees(made.offset, offset)
    assert agrees(made.multiplier, multiplier)


@pytest.mark.parametrize(("delta", "epsilon", "s_p", "t_p", "s", "t", "s_swap"), TABLE)
def test_table(delta, epsilon, s_p, t_p, s, t, s_swap):
    published = published_constants(Budget(epsilon, delta))
    assert agrees(published.multiplier, s_p)
    assert agrees(published.offset, t_p)
    made = calibrate(epsilon, delta, 10**5, ADD_REMOVE)
    assert agrees(made.multiplier, s)
    # the objective is flat in t: printed offsets come from another grid of shares
    assert made.offset == pytest.approx(t, rel=0.06)
    assert agrees(calibrate(epsilon, delta, 10**5, REPLACE_ONE).multiplier, s_swap)


@pytest.mark.parametrize(
    ("epsilon", "reference"), [(0.1, 0.998), (0.5, 0.955), (1, 0.84), (2, 0.55), (5, 0.058)]
)
def test_aligned_pair_stays_below_the_claim(epsilon, reference):
    """N(0,1) against a Poisson(2) number of shifts: nearly the worst that the filter allows."""
    delta = 1e-6
    inner = inner_epsilon(epsilon, ADD_REMOVE)
    mu = gaussian_mu(inner, delta / delta_ratio(epsilon, inner))

    def attained(shift: float) -> float:
        x = np.linspace(-12, 12 + 40 * shift, 60_001)
        shifts = np.arange(40)
        mixed = sum(
            w * stats.norm.pdf(x, k * shift)
            for k, w in zip(shifts, stats.poisson.pmf(shifts, 2), strict=True)
        )
        gap = np.maximum(mixed - math.exp(epsilon) * stats.norm.pdf(x), 0)
        return float(gap.sum() * (x[1] - x[0]))

    ratio = attained(mu) / delta
    assert ratio <= 1
    assert ratio == pytest.approx(reference, abs=0.03)
    if epsilon <= 2:  # noise of half the size breaks the claim: the test has teeth
        assert attained(2 * mu) > 2 * delta


@pytest.mark.parametrize("scale", [2.0, 6.5, 30.0, 1000.0])
@pytest.mark.parametrize("probability", [1e-3, 1e-7, 1e-9])
def test_thresholds_hold_for_the_discrete_law(scale, probability):
    threshold = tail_threshold(probability, scale)
    k = np.arange(-int(60 * scale), int(60 * scale) + 1, dtype=float)
    mass = np.exp(-(k**2) / (2 * scale**2))
    exact = mass[k >= threshold].sum() / mass.sum()
    assert exact <= gaussian_tail(threshold, scale) <= probability
    if scale == 2.0:  # the continuous quantile alone would be too low
        naive = math.floor(scale * stats.norm.isf(probability))
        assert mass[k >= naive].sum() / mass.sum() > probability


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_bill_by_an_independent_path(relation, epsilon):
    made = calibrate(epsilon, 1e-6, 10**5, relation, dimension=1000)
    (loss,) = made.events
    k = 1 / made.count_scale * made.count_steps
    mean_mu = 1 / made.multiplier
    low, high = 0.0, epsilon
    for _ in range(200):  # the map of epsilons, solved afresh
        middle = (low + high) / 2
        outer = 2 * (math.exp(middle) - 1) + (middle if relation == REPLACE_ONE else 0)
        low, high = (middle, high) if outer <= epsilon else (low, middle)
    mu = math.hypot(k, mean_mu)
    gauss = ndtr(mu / 2 - low / mu) - math.exp(low) * ndtr(-mu / 2 - low / mu)
    tail = stats.norm.sf(made.threshold / made.count_scale)
    delta = (gauss + tail) * (math.exp(epsilon) - 1) / (math.exp(low) - 1)
    assert loss.added_delta == pytest.approx(delta, rel=3e-4)  # less the lattice terms
    assert 0.999e-6 <= loss.added_delta <= 1e-6
    guarantee = Guarantee.of(Budget(epsilon, 1e-6), relation, made.events)
    assert guarantee.verify()
    assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
    stolen = {**loss.to_dict(), "count_scale": made.count_scale / 2}
    over = Guarantee.of(Budget(epsilon, 1e-6), relation, (loss_from_dict(stolen),))
    assert not over.verify()


def test_epsilon_maps_are_inverse():
    for relation in (ADD_REMOVE, REPLACE_ONE):
        for epsilon in (1e-4, 0.3, 1.0, 9.0):
            inner = inner_epsilon(epsilon, relation, 2.7)
            assert outer_epsilon(inner, relation, 2.7) == pytest.approx(epsilon, rel=1e-9)


def test_best_split_beats_any_other():
    best = tight_count(0.1, 1e-8, 2000)
    other = tight_count(0.1, 1e-8, 2000, [0.7])
    assert best.multiplier / (2000 - best.offset) < other.multiplier / (2000 - other.offset)
