"""The sensitivity formulas against brute force over all patterns and signs."""

import math

import numpy as np
import pytest
from continual_reference import dense, dense_of, true_sensitivity

from privmean.errors import InfeasibleError
from privmean.published.continual import BandedInverse
from privmean.streams import toeplitz_matrices as series
from privmean.streams.fit_strategies import fit_loaded
from privmean.streams.strategies import (
    Banded,
    Buffered,
    Identity,
    MeanToeplitz,
    PrefixRoot,
    ScaledBuffered,
    Toeplitz,
)
from privmean.streams.toeplitz_matrices import (
    ROUNDING,
    ColumnNorms,
    Participation,
    pattern_norm,
    sensitivity,
)


def test_monotone_columns_are_exact():
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, b, k = int(rng.integers(3, 10)), int(rng.integers(1, 5)), int(rng.integers(1, 5))
        c = np.sort(rng.random(n) ** 2)[::-1]
        claimed = sensitivity(c, Participation(k, b), n)
        assert claimed == pytest.approx(true_sensitivity(dense(c, n), k, b), rel=1e-9)


def test_banded_columns_of_any_sign_are_bounded_and_exact_when_they_fit():
    rng = np.random.default_rng(2)
    for _ in range(60):
        n, b, k = int(rng.integers(4, 10)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        c = np.zeros(n)
        c[:b] = rng.normal(size=n)[:b]
        claimed = sensitivity(c, Participation(k, b), n)
        truth = true_sensitivity(dense(c, n), k, b)
        assert truth <= claimed * (1 + 1e-12)
        if k * b <= n:
            assert truth == pytest.approx(claimed)


def test_counterexamples_are_refused():
    # the pattern formula would understate these by 14 and 9 percent
    for r, n, b, formula, truth in (
        ((1, 0, -0.9), 9, 3, 3.2161, 3.7177),
        ((1, 0, 0, -0.9), 9, 2, 3.4615, 3.7974),
    ):
        c = series.invert(np.array(r, dtype=float), n)
        p = Participation(n, b)
        assert pattern_norm(c, p.within(n), b, n) == pytest.approx(formula, abs=6e-5)
        assert true_sensitivity(dense(c, n), p.within(n), b) == pytest.approx(truth, abs=6e-5)
        with pytest.raises(InfeasibleError, match="negative or increasing"):
            sensitivity(c, p, n)


def test_increasing_entries_are_refused_however_small():
    c = np.array([1.0, 0.5, 0.5 + 1e-6, 0.1])
    with pytest.raises(InfeasibleError):
        sensitivity(c, Participation(2, 2), 8)
    # rounding is forgiven, and paid for
    c = np.array([1.0, 0.5, 0.5 + 1e-13, 0.1])
    exact = pattern_norm(np.array([1.0, 0.5, 0.5, 0.1]), 2, 2, 8)
    assert exact < sensitivity(c, Participation(2, 2), 8) < exact + 1e-11


@pytest.mark.parametrize("base", [MeanToeplitz(), PrefixRoot()])
def test_cut_inverses_are_decreasing(base):
    for p in (1, 2, 3, 7, 50, 199, 1024):
        c = BandedInverse(base, p).column(4096)
        assert c.min() >= -ROUNDING
        assert np.diff(c).max(initial=0.0) <= ROUNDING


def test_endless_values_bound_every_horizon():
    p = Participation(5, 7)
    for strategy in (
        Identity(),
        Banded(MeanToeplitz(), 7),
        Banded(PrefixRoot(), 20),
        Buffered((0.3, 0.1), (0.7, 0.97)),
        Toeplitz((1.0, -0.4, 0.3)),
    ):
        limit = strategy.sensitivity(p)
        values = [strategy.sensitivity(p, n) for n in (1, 7, 20, 36, 200, 4000)]
        assert max(values) <= limit * (1 + 1e-12)
        assert values[-1] == pytest.approx(limit, rel=1e-6)
    with pytest.raises(InfeasibleError, match="horizon"):
        MeanToeplitz().sensitivity(p)


def test_one_participation_allows_any_signs():
    c = np.array([1.0, -0.7, 0.9])
    assert sensitivity(c, Participation(1, 1), 3) == pytest.approx(np.linalg.norm(c))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0.0, 0.4, 0.9, 1.5])
@pytest.mark.parametrize(("k", "b"), [(1, 1), (2, 1), (3, 2), (4, 3), (10, 1)])
def test_scaled_bound_holds_for_every_pattern(exponent, k, b):
    n = 11
    for weights, decays in (((0.3, 0.2), (0.6, 0.95)), ((0.25,), (0.9,)), ((0.5,), (0.5,))):
        strategy = ScaledBuffered(weights, decays, exponent)
        truth = true_sensitivity(dense_of(strategy, n), min(k, 6), b)
        assert truth <= strategy.sensitivity(Participation(k, b)) * (1 + 1e-12)


def test_scaled_bound_is_reached_late_in_the_stream():
    strategy = ScaledBuffered((0.3, 0.2), (0.6, 0.95), 0.9)
    c = dense_of(strategy, 1500)
    worst = np.linalg.norm(c[:, 1000] + c[:, 1040] + c[:, 1080])
    claimed = strategy.sensitivity(Participation(3, 40))
    assert 0.98 * claimed <= worst <= claimed


@pytest.mark.parametrize(("k", "b"), [(2, 3), (3, 1), (3, 4), (4, 2)])
def test_loaded_bound_holds_for_every_pattern(k, b):
    rng = np.random.default_rng(10 * k + b)
    for _ in range(12):
        # widths below and above the separation, with and without a constant end
        loading = ColumnNorms(
            float(rng.uniform(0, 2)),
            float(10 ** rng.uniform(-2, 1)),
            int(rng.integers(1, 2 * b + 2)),
            int(rng.integers(1, k + 3)),
        )
        strategy = ScaledBuffered((0.16, 0.3), (0.3, 0.95), float(rng.uniform(0, 2)), loading)
        truth = true_sensitivity(dense_of(strategy, 11), k, b)
        assert truth <= strategy.sensitivity(Participation(k, b)) * (1 + 1e-12)


@pytest.mark.parametrize(("n", "k", "b"), [(1000, 16, 64), (2000, 4, 512)])
def test_loaded_bound_is_nearly_reached(n, k, b):
    p = Participation(k, b)
    strategy = fit_loaded(p, n)
    c = dense_of(strategy, n)
    worst = max(np.linalg.norm(c[:, range(first, n, b)[:k]].sum(axis=1)) for first in range(b))
    assert 0.985 * strategy.sensitivity(p, n) <= worst <= strategy.sensitivity(p, n)
    # what equal norms would be billed for is far more, one step too often is not covered
    assert strategy.sensitivity(p, n) < 0.7 * math.sqrt(k)
    heavy = np.linalg.norm(c[:, [0, 1, 2]].sum(axis=1))
    assert heavy > 1.2 * strategy.sensitivity(Participation(3, b), n)


def test_falling_columns_decide_which_pattern_is_worst():
    # were d allowed to grow, the pattern 1, 1+b, ... would understate the worst person
    falling = ScaledBuffered((0.2,), (0.5,), 0.0, ColumnNorms(1.0, 1.0, 4, 3))
    c = dense_of(falling, 12)
    growing = c[:, ::-1]
    first = np.linalg.norm(growing[:, [0, 4]].sum(axis=1))
    last = np.linalg.norm(growing[:, [7, 11]].sum(axis=1))
    assert last > 1.5 * first
    assert falling.sensitivity(Participation(2, 4)) >= last * (1 - 1e-12)
