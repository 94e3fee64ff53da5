"""Pure parts on a grid: above exact laws and close to them, and never above another library."""

import math
from fractions import Fraction

import exact
import numpy as np
import pytest
from scipy import stats

from privmean.privacy import laplace_convolution as convolution
from privmean.privacy.compose import total_delta
from privmean.privacy.laplace_convolution import BEYOND, convolved, recomputed_delta
from privmean.privacy.privacy_events import Gaussian, Laplace, Pure, Selection

LATTICE = 2.0**20
STEPS = (0.3, 0.03, 0.0021)
PIECES = {
    "a response": {(Fraction(1), 1): 1},
    "a shift of seven": {(Fraction(5, 2), 7): 1},
    "two kinds": {(Fraction(4), 1): 3, (Fraction(7, 3), 2): 2},
}


def law_of(pieces):
    """The exact law, by products."""
    one = exact.discrete_laplace_losses
    return exact.product(*[one(*piece) for piece, times in pieces.items() for _ in range(times)])


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("step", STEPS)
def test_the_grid_is_a_pair_of_laws_above_the_exact_one(name, step):
    """Both neighbours' masses are one; the curve is above the exact one at every epsilon, and at
    most by what a step can add."""
    pieces = PIECES[name]
    found, law = convolved(pieces, step), law_of(pieces)
    assert math.isclose(found.masses.sum(), 1, rel_tol=1e-12)
    assert math.isclose(np.sum(found.masses * np.exp(-found.losses)), 1, rel_tol=1e-10)
    assert np.allclose(found.losses / step, np.round(found.losses / step), atol=1e-9)
    for epsilon in np.linspace(-2, 4, 61):
        truth = max(exact.delta_of(law, epsilon), 0.0)
        claim = found.with_gaussian(0.0, epsilon)
        assert claim >= truth * (1 - 1e-13) - 1e-16
        assert claim <= truth + 0.2 * step * sum(pieces.values()) + 2 * found.infinite


@pytest.mark.parametrize("rounded", ["nearest", "down"])
def test_the_twin_that_rounds_losses_otherwise_falls_below(rounded, monkeypatch):
    pieces, step = PIECES["two kinds"], 0.03
    law = law_of(pieces)

    def careless(scale, shift, step, cells):
        losses, masses = exact.discrete_laplace_losses(scale, shift)
        place = np.round(losses / step) if rounded == "nearest" else np.floor(losses / step)
        return np.bincount(place.astype(int) % cells, masses, cells)

    monkeypatch.setattr(convolution, "_cells", careless)
    found = convolved(pieces, step)
    places = np.linspace(0, 2, 41)
    assert any(found.with_gaussian(0.0, x) < exact.delta_of(law, x) * (1 - 1e-6) for x in places)


@pytest.mark.parametrize("mu", [0.05, 0.4, 2.0])
def test_gaussian_noise_besides_has_no_grid(mu):
    """Against quadrature with forty digits over the law that is on the grid."""
    found = convolved(PIECES["two kinds"], 0.03)
    law = found.losses, found.masses
    for epsilon in (-0.5, 0.0, 0.7, 2.5, 5.0):
        truth = exact.delta_with_gaussian(law, mu, epsilon)
        claim = found.with_gaussian(mu, epsilon)
        assert truth <= claim <= truth * (1 + 1e-9) + 2 * found.infinite + 3e-14


def test_mass_beyond_the_window_is_small_and_counted():
    """Many pieces: the window is shorter than the sum of their losses, by Chernoff's bound."""
    pieces = {(Fraction(3), 1): 1000}
    found = convolved(pieces, 0.01)
    assert found.losses.max() < 1000 / 3
    k = np.arange(1001)  # responses: a binomial law
    law = (2 * k - 1000) / 3, stats.binom.pmf(k, 1000, 1 / (1 + math.exp(-1 / 3)))
    assert law[1][law[0] > found.losses.max()].sum() <= BEYOND <= found.infinite
    for epsilon in (30.0, 60.0, 75.0):
        truth = exact.delta_of(law, epsilon)
        claim = found.with_gaussian(0.0, epsilon)
        assert truth <= claim <= truth * 1.03 + 2 * found.infinite


def test_rounding_of_transforms_is_within_what_is_added():
    """Sums by transforms beside sums cell by cell, many times what a bill has."""
    pieces = {(Fraction(2), 1): 64, (Fraction(9), 30): 16}
    found = convolved(pieces, 0.05)
    cells = 1 << 13
    total = np.zeros(cells)
    total[0] = 1.0
    for (scale, shift), times in pieces.items():
        one = convolution._cells(scale, shift, 0.05, cells)
        for _ in range(times):
            total = sum(one[k] * np.roll(total, k) for k in np.flatnonzero(one))
    at = (found.losses / 0.05).round().astype(int) % cells
    assert np.abs(found.masses - total[at]).sum() < found.infinite / 10


BILLS = {
    "counts and noise": [Laplace("a", 1, 4), Gaussian("g", 0.3 * LATTICE, LATTICE, 3)],
    "spread": [
        Laplace("a", 2, 5, cells_changed=2),
        Gaussian("g", 0.4 * LATTICE, LATTICE, 3),
        Selection("s", Fraction(1, 5), bounded_range=True),
    ],
    "many": [Laplace(str(i), 1, 12) for i in range(24)],
    "fine": [Laplace("f", 2**21, 2**23), Laplace("x", 2**21, 2**22, joint=True)] * 3,
    "pure alone": [Pure("p", Fraction(1))],
}


@pytest.mark.parametrize("name", BILLS)
def test_another_library_on_the_same_step_is_never_below(name):
    """dp-accounting rounds the Gaussian part up too, so it is above; and by little."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    bill = BILLS[name]
    mu = math.sqrt(math.fsum(x.mu**2 for x in bill))
    total = sum(float(x.pure) for x in bill)
    rho = math.fsum(x.rho for x in bill)
    step = min(total + mu * (mu / 2 + 12), rho + 12 * math.sqrt(2 * rho)) / 2**15
    parts = [pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)] if mu else []
    for x in bill:
        if x.pure:
            spread = getattr(x, "cells_changed", 1)
            plain = isinstance(x, Laplace) and not x.joint
            shift = min(int(x.sensitivity / spread), 2**12) if plain else 1
            rate = float(x.pure) / spread / shift
            one = pld.from_discrete_laplace_mechanism(
                rate, shift, value_discretization_interval=step, use_connect_dots=True
            )
            parts += [one] * spread
    other = parts[0]
    for one in parts[1:]:
        other = other.compose(one)
    for epsilon in (0.0, 0.1 * total, 0.6 * total, rho + 3 * math.sqrt(2 * rho)):
        theirs = other.get_delta_for_epsilon(epsilon)
        ours = recomputed_delta(bill, epsilon)
        lost = 1e-11 * (len(parts) + 1)
        assert theirs * (1 - 1e-3) - lost <= ours <= theirs * (1 + 1e-9) + lost


@pytest.mark.parametrize("name", BILLS)
def test_what_was_planned_is_within_when_it_is_composed_again(name):
    """Verification is not stricter than the plan: its law of the same bill is never above."""
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        planned = total_delta(BILLS[name], epsilon, zcdp=False)
        assert total_delta(BILLS[name], epsilon, zcdp=False, again=True) <= planned * (1 + 1e-12)


def test_a_bill_of_countless_small_choices_stays_small():
    """Their step would be far below what the window needs: it is made larger."""
    bill = [Selection("s", Fraction(1, 10**9), choices=10**9)]
    assert 0.46 < recomputed_delta(bill, 0.0) < 0.4623
