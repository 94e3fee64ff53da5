"""One regression for all persons: own maps of one record and of a million, and lost terms."""

import math
from itertools import product

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.errors import ArgumentError
from privmean.estimators.regression.panel import (
    MATRIX_STEPS,
    PanelSums,
    Weighting,
    lattice_matrices,
    matrix_sizes,
    person_moments,
)
from privmean.estimators.regression.pooled_intervals import Coefficients
from privmean.inference.status import release_status

REACH = 2.0**20
TIMES = (1, 2, 1_000_000)
WAYS = [
    Weighting(), Weighting(within=True), Weighting(icc=1e-9), Weighting(icc=0.5),
    Weighting(icc=1 - 2.0**-53), Weighting(max_records=1), Weighting(max_records=2),
    Weighting(max_records=10**9),
]  # fmt: skip


def persons():
    """Persons of 1, 2 and 10^6 records whose values reach as far as units let them: at random, at
    one end, at both ends in turn, and a step from each other."""
    made = []
    for person, (count, kind) in enumerate(product(TIMES, range(4))):
        rng, turn = np.random.default_rng(person), np.where(np.arange(count) % 2, -1.0, 1.0)
        a = [rng.uniform(-1, 1, count), np.ones(count), turn, 1 - 2.0**-52 * (turn > 0)][kind]
        b = [rng.uniform(-1, 1, count), -np.ones(count), turn, a][kind]
        values = {"a": a * REACH, "b": b * REACH, "y": np.roll(turn, person % 3) * REACH}
        made.append(pl.DataFrame({"who": np.full(count, person), **values}))
    return pl.concat(made)


@pytest.fixture(scope="module")
def products_of():
    asked = PanelSums("y ~ a + b + own(a)", False)
    people = asked.reduce(pm.Table(persons(), person="who"))
    unit = dict.fromkeys(("a", "b", asked.design.response), (0.0, 1.0))
    return asked.design, people.again(unit)


@pytest.mark.slow
@pytest.mark.parametrize("how", WAYS)
def test_own_maps_are_semidefinite_and_bounded_for_one_record_and_for_a_million(products_of, how):
    design, products = products_of
    w = person_moments(products, design, how)
    q = max(i for i, _ in w) + 1
    full = np.array([[w[min(i, j), max(i, j)] for j in range(q)] for i in range(q)])
    full = full.transpose(2, 0, 1)
    assert np.all(np.isfinite(full))
    assert np.abs(full).max() <= REACH**2
    # rounding is of the raw products, which may be subtracted from each other nearly whole
    assert np.linalg.eigvalsh(full).min() >= -1e-12 * q * REACH**2
    if how == Weighting():
        assert np.abs(full).max() == REACH**2  # attained
    for norm in ("l1", "l2"):
        z = lattice_matrices(w, 1.0, norm)
        sizes = matrix_sizes({at: x.astype(float) for at, x in z.items()}, norm)
        assert np.all(sizes <= MATRIX_STEPS * (1 + 1e-12))


@pytest.mark.parametrize("icc", [-1e-9, 1.0, 1.5, -1.0, math.nan, math.inf, "0.5", True, None])
def test_a_correlation_that_no_records_have_is_refused(icc):
    with pytest.raises(ArgumentError, match="icc"):
        pm.Exchangeable(icc)


# --- terms of which nothing is shown --------------------------------------------------------------
NAMES = ("Intercept", "x", "k[2]", "z:w")
LOST = ["suppressed", "not_identified", "failed"]


def coefficients(statuses, law="gaussian", step=0.3, limit=4.0, beyond=0.0, single=False):
    """As a run makes them: what was released is kept, whatever the last answers say of it."""
    kept = tuple(t for t, status in enumerate(statuses) if status == "ok")
    k = len(kept)
    return Coefficients.of(
        NAMES, statuses, law, kept=kept, start=np.arange(1.0, k + 1), units=np.full(k, 0.1),
        step=np.full(k, step), second=np.eye(k),
        scale=0.05, limit=limit, squares=0.0, beyond=beyond, beyond_sd=0.001,
            tail="outliers_clipped" if beyond else "ok", persons=1000,
        leak=np.zeros(k), inverse=np.eye(k), lost=np.zeros((k, k)),
        backward=np.eye(k), off=0.01, cut=0.0, size=2.0,
        design_effect=1.0, excess=1.0, single=single,
    )  # fmt: skip


def held(made, lost):
    """NaN and nothing else for the lost, at every level and by every road; numbers for the rest."""
    for t in range(len(NAMES)):
        numbers = [made.estimate[t], *made.column(t).errors(), *made.covariance[t]]
        for level in (0.5, 0.95, 0.999):
            ends = (
                made.interval(level), made.interval(level, "clipped"), made.noise_interval(level)
            )  # fmt: skip
            numbers += [end for item in ends for end in (item.lower[t], item.upper[t])]
            one = made.column(t)
            for item in (one.interval(level), one.noise_interval(level)):
                numbers += [*item.lower, *item.upper]
        if t in lost:
            assert all(math.isnan(x) for x in numbers)
            assert made.status_of(t) == made.statuses[t] != "ok"
            weights = np.ones(len(NAMES))
            assert all(math.isnan(x) for x in made.combined(weights, 0.95))
        else:
            rest = [x for k, x in enumerate(numbers) if not 3 <= k < 3 + len(NAMES)]
            assert all(math.isfinite(x) for x in rest)
            assert made.status_of(t) == "ok"
    assert np.array_equal(np.isnan(made.covariance), ~np.outer(*[~np.isin(range(4), lost)] * 2))


@pytest.mark.parametrize(("law", "parts"), [("gaussian", 2.0), ("laplace", 4.0)])
def test_a_coefficient_bears_its_share_of_what_is_clipped(law, parts):
    """Of four: a quarter of a sum of absolute values, half of a root of squares; all if said."""
    every = ("ok",) * 4
    one, some = (coefficients(every, law, beyond=x) for x in (0.0, 0.05))
    alone = coefficients(every, law, beyond=0.05, single=True)
    assert (one.status, some.status) == ("ok", "outliers_clipped")
    assert some.share == pytest.approx(alone.share / parts)
    assert "alike" in some.interval(0.95).assumption
    assert "alike" not in alone.interval(0.95).assumption
    for made in (some, alone):
        (sampling, bias), noise = made.causes(1, 0.95), made.column(1).errors()[0]
        low, high = made.column(1).interval(0.95).lower[0], made.column(1).interval(0.95).upper[0]
        assert sampling == pytest.approx(0.1 / math.sqrt(1000))
        assert math.hypot(sampling, noise) == pytest.approx(made.column(1).errors()[1])
        assert bias > made.share[1] * 0.05 + made.moved[1] > 0
        short = made.column(1).interval(0.95, "clipped")
        assert high - low > short.upper[0] - short.lower[0]
        _, _, under, over = made.combined(np.ones(4), 0.95)
        assert over - under > 8 * made.share[1] * 0.05


@pytest.mark.slow
@pytest.mark.parametrize("status", LOST)
def test_a_lost_term_is_nan_and_never_zero(status):
    some = [(), (0,), (1,), (2,), (3,), (0, 2), (1, 2, 3)]
    for law, lost in (*product(["gaussian"], some), ("laplace", (1, 3))):
        statuses = tuple(status if t in lost else "ok" for t in range(len(NAMES)))
        made = coefficients(statuses, law=law)
        held(made, lost)
        assert made.status == release_status(statuses)


def test_nothing_is_shown_where_every_term_is_lost():
    nothing = Coefficients.none(NAMES, (LOST[0],) * len(NAMES), "gaussian")
    assert nothing.status == "failed"
    held(nothing, list(range(len(NAMES))))
