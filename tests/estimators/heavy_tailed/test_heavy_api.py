"""`mean` with a moment bound: the whole way from an array to the release."""

import numpy as np
import polars as pl
import pytest

import privmean as pm


def table(n=1500, d=2):
    return np.random.default_rng(3).standard_normal((n, d)) + 5.0


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("home", ["polars", "duckdb", "matrix"])
def test_weights_by_the_records_of_a_table(width, home):
    """From a table of records to a mean weighted by them: the same answer in every home."""
    generator = np.random.default_rng(5)
    who = np.repeat(np.arange(900), generator.integers(1, 15, 900))
    columns = {f"x{j}": generator.normal(4 + j, 1.0, len(who)) for j in range(width)}
    frame = pl.DataFrame({"who": who, **columns})
    source = {"polars": frame, "duckdb": frame.to_arrow()}.get(home)
    read = {"estimand": "records", "max_records": 12}
    if source is None:
        matrix = np.column_stack(list(columns.values()))
        people = pm.read(matrix, person=who, values=list(columns), **read)
    else:
        people = pm.read(source, person="who", values=list(columns), **read)
    chosen = pm.HeavyTailedMean(
        pm.BoundedMoment(order=4, bound=2.0, range=(-50, 50)), weights=pm.RecordWeights(12, 4.0)
    )
    found = [
        pm.mean(people, epsilon=3.0, delta=1e-6, noise=pm.SimulatedNoise(3), **given)
        for given in ({"method": chosen}, {"moment": chosen})
    ]
    assert np.all(np.abs(found[0].estimate - 4 - np.arange(width)) < 0.5)
    assert found[0].estimate.tolist() == found[1].estimate.tolist()
    assert "weighted by a public function of their records" in found[0].estimand
    ANSWERS.setdefault(width, found[0].estimate.tolist())
    assert found[0].estimate.tolist() == ANSWERS[width]


ANSWERS: dict[int, list[float]] = {}


def test_weights_without_numbers_of_records_are_refused_before_anything_is_spent():
    chosen = pm.HeavyTailedMean(
        pm.BoundedMoment(order=4, bound=2.0, range=(-50, 50)), weights=pm.RecordWeights(12)
    )
    ledger = pm.Ledger(epsilon=5.0, delta=1e-5)
    with pytest.raises(pm.ArgumentError, match="number of records"):
        pm.mean(table(), epsilon=1.0, delta=1e-6, method=chosen, ledger=ledger)
    assert not ledger.entries


def test_rounds_are_a_whole_number_that_can_be_planned():
    """Also where it is said as a double; refused before anything is spent where it is too large."""
    moment = pm.BoundedMoment(order=3, bound=1.0, range=(-10, 10))
    for too_many in (1e9, 10**9, 33):
        with pytest.raises(pm.ArgumentError, match="rounds.*at most 32"):
            pm.HeavyTailedMean(moment, rounds=too_many, start="histogram")
    said = pm.HeavyTailedMean(moment, rounds=3.0, law="gaussian", start="histogram")
    assert type(said.rounds) is int
    release = pm.mean(np.zeros((20_000, 2)), method=said, rho=1.0)
    assert np.isfinite(release.estimate).all()


def test_whole_numbers_said_as_doubles_are_kept_as_whole():
    weights = pm.RecordWeights(max_records=4.0, least=2.0)
    assert [type(item) for item in (weights.max_records, weights.least)] == [int, int]


def test_a_configured_estimator_is_used_as_it_is():
    moment = pm.BoundedMoment(order=2, bound=1.0, range=(0, 10))
    chosen = pm.HeavyTailedMean(moment, law="laplace")
    release = pm.mean(table(), epsilon=2.0, moment=chosen, noise=pm.SimulatedNoise(1))
    assert "Laplace" in release.estimator


def test_the_method_needs_its_assumption():
    with pytest.raises(pm.ArgumentError, match="BoundedMoment"):
        pm.mean(table(), epsilon=1.0, method="heavy-tailed")
