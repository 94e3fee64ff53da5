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
    gaussian_tail,
    tail_threshold,
)
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
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


def test_best_split_beats_any_other():
    best = tight_count(0.1, 1e-8, 2000)
    other = tight_count(0.1, 1e-8, 2000, [0.7])
    assert best.multiplier / (2000 - best.offset) < other.multiplier / (2000 - other.offset)
