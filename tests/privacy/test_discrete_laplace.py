"""What docs/proofs/discrete-laplace.md claims, by exact sums over the lattice."""

import itertools
import math
from fractions import Fraction

import exact
import numpy as np
import pytest

from privmean.privacy.compose import total_delta
from privmean.privacy.loss_distribution import LONGEST_SHIFT, grid_delta
from privmean.privacy.privacy_events import Laplace, Selection

EPSILONS = (-0.3, 0.0, 0.1, 0.3, 0.6, 0.9, 1.2, 2.0)


def compositions(total):
    """All ways to write `total` as an ordered sum of positive integers."""
    for cuts in itertools.product((0, 1), repeat=total - 1):
        parts, run = [], 1
        for cut in cuts:
            if cut:
                parts.append(run)
                run = 1
            else:
                run += 1
        yield [*parts, run]


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(5, 2), Fraction(8)])
def test_one_answer_that_moves_by_all_dominates_any_split(scale):
    """Every split of a shift of up to 6 steps over answers reveals at most what one answer does."""
    for total in range(2, 7):
        whole = exact.discrete_laplace_losses(scale, total)
        for parts in compositions(total):
            law = exact.product(*[exact.discrete_laplace_losses(scale, part) for part in parts])
            for epsilon in EPSILONS:
                assert exact.delta_of(law, epsilon) <= exact.delta_of(whole, epsilon) + 1e-12


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(5, 2), Fraction(8)])
def test_a_larger_shift_dominates_a_smaller_one(scale):
    for shift in range(1, 9):
        small = exact.discrete_laplace_losses(scale, shift)
        large = exact.discrete_laplace_losses(scale, shift + 1)
        for epsilon in EPSILONS:
            assert exact.delta_of(small, epsilon) <= exact.delta_of(large, epsilon) + 1e-13


@pytest.mark.parametrize("coarser", [2, 3, 7])
def test_a_coarser_lattice_dominates_a_finer_one(coarser):
    for shift, scale in ((1, Fraction(1)), (2, Fraction(3)), (5, Fraction(4))):
        coarse = exact.discrete_laplace_losses(scale, shift)
        fine = exact.discrete_laplace_losses(scale * coarser, shift * coarser)
        for epsilon in EPSILONS:
            assert exact.delta_of(fine, epsilon) <= exact.delta_of(coarse, epsilon) + 1e-13


def test_the_coarse_law_is_a_noisy_version_of_nothing_else():
    """The step of that proof: fine noise is coarse noise times m plus independent noise."""
    scale, m = 4.0, 3
    a = math.exp(-1 / scale)
    reach = 400
    k = np.arange(-reach, reach + 1)
    fine = (1 - a) / (1 + a) * a ** np.abs(k)
    coarse = np.where(k % m == 0, (1 - a**m) / (1 + a**m) * a ** np.abs(k), 0.0)
    one = a ** np.arange(m)
    rest = np.convolve(one, one[::-1]) / one.sum() ** 2
    assert np.allclose(np.convolve(coarse, rest, mode="same"), fine, atol=1e-15)


@pytest.mark.parametrize("shift", [1, 2, 3, 10, 1000])
def test_the_grid_has_the_law_of_the_lattice(shift):
    for epsilon in (0.2, 1.0, 4.0):
        law = exact.discrete_laplace_losses(Fraction(shift) / Fraction(epsilon), shift)
        loss = [Laplace("one", shift, Fraction(shift) / Fraction(epsilon))]
        for part in (0.0, 0.1, 0.5, 0.9):
            truth = exact.delta_of(law, part * epsilon)
            assert truth <= grid_delta(loss, part * epsilon) <= truth * (1 + 1e-3) + 1e-10


@pytest.mark.parametrize("shift", [LONGEST_SHIFT + 1, 2**20 + 1, 2**44])
def test_long_shifts_are_coarsened_upwards(shift):
    """Against the continuous law, the limit of fine lattices, which any lattice dominates."""
    epsilon = 1.0
    loss = [Laplace("one", shift, Fraction(shift))]
    for target in (0.0, 0.3, 0.9):
        continuous = 1 - math.exp((target - epsilon) / 2)
        assert continuous <= grid_delta(loss, target) <= continuous + 3e-4


def test_several_scales_together_count_as_the_worst_of_their_epsilon():
    bill = [Laplace("joint", 2**21, 2**21, joint=True), Laplace("other", 1, 2)]
    law = exact.product(
        exact.randomized_response_losses(1.0), exact.discrete_laplace_losses(Fraction(2), 1)
    )
    for epsilon in (0.2, 0.8, 1.2):
        truth = exact.delta_of(law, epsilon)
        assert truth <= total_delta(bill, epsilon) <= truth * (1 + 1e-3)
    joint = Laplace("joint", 2, 2, cells_changed=2, joint=True)
    assert joint.rho == Selection("s", Fraction(1)).rho


def test_zcdp_of_a_spread_shift():
    """Two answers that move by one each: rho is half of that of a general loss of epsilon."""
    loss = Laplace("counts", 2, 2, cells_changed=2)
    losses, p = exact.product(*[exact.discrete_laplace_losses(Fraction(2), 1)] * 2)
    for alpha in (1.01, 2.0, 10.0, 100.0):
        divergence = math.log(np.sum(p * np.exp((alpha - 1) * losses))) / (alpha - 1)
        assert divergence <= alpha * loss.rho + 1e-12
    assert loss.rho == 0.25
