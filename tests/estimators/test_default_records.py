"""The default mean over records: sensitivity by extreme persons, bills, coverage, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
import statistics_kit
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval
from privmean.inference.laplace_normal import margin_of
from privmean.mechanisms.clipped_sum import Answers, ClippedSums
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.privacy.compose import pure_epsilon
from statistics_kit import drawn_sums

CAP = 5
BOX = ClipInterval(-2.0, 5.0)
VALUES = (-1e300, -2.0, -1.9, 0.0, 1.5, 1.6, 4.9, 5.0, math.inf, math.nan)


def people(values, records, cap=CAP):
    counts = np.asarray(records, dtype=np.int64)[:, None]
    return ArrayPersonTable(np.asarray(values, float)[:, None], ("x",), counts, cap)


def change_costs(relation, multiples=None):
    """The l1 cost of every change of one person among others, on exact sums."""
    answers = Answers(relation, CAP, cross=True)
    units = answers.units(BOX.steps)
    scales = multiples or answers.multiples_at(BOX.steps)
    rest = ([0.7, -4.0, math.nan, 2.2], [3, 9, 1, 2])

    def exact(value=None, records=0):
        x, m = (list(item) for item in rest)
        if value is not None:
            x, m = [*x, value], [*m, records]
        (sums,) = people(x, m).interval_sums([BOX])
        return answers.integers(BOX, sums)

    states = [exact(v, r) for v in VALUES for r in (1, 2, 4, 5, 900)]
    pairs = itertools.combinations(states, 2)
    if relation == ADD_REMOVE:
        pairs = ((exact(), item) for item in states)
    for one, two in pairs:
        gaps = zip(one, two, units, scales, strict=True)
        yield sum(Fraction(abs(a - b), unit) / scale for a, b, unit, scale in gaps)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_one_person_costs_exactly_epsilon_at_worst(relation):
    assert max(change_costs(relation)) == 1
    scales = list(Answers(relation, CAP, cross=True).multiples_at(BOX.steps))
    for i in range(5):  # a twin with less noise on any answer is over the bill
        less = [*scales[:i], scales[i] * Fraction(9, 10), *scales[i + 1 :]]
        assert max(change_costs(relation, less)) > 1


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_the_spread_of_a_ratio_is_read_from_the_release(relation):
    g = np.random.default_rng(1)
    x, m = g.normal(1, 2, 300), g.integers(1, 9, 300)
    u, z = np.minimum(m, CAP) / CAP, (np.clip(x, -2, 5) - BOX.middle) / BOX.radius
    mechanism = ClippedSums("sums", relation, epsilon=Fraction(10**6), cross=True)
    (found,) = drawn_sums(
        mechanism, [BOX], people(x, m).interval_sums([BOX]), SimulatedNoise(1), max_records=CAP
    )
    for theta in (-0.9, 0.0, 0.4, 1.0):
        value, scales = found.spread(theta)
        scale = sum(scales)
        assert value == pytest.approx(float(((u * z - theta * u) ** 2).sum()), abs=30 * scale)
        assert 0 < scale < 1e-3
    assert mechanism.loss_of_one.pure == 10**6


def population(g, n):
    m = np.minimum(1 + g.geometric(0.12, n), 60)
    return np.exp(1 + 0.5 * g.standard_normal(n)) + 0.1 * m, m


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", [REPLACE_ONE, ADD_REMOVE])
def test_nothing_given_covers_the_mean_over_records(neighbors):
    cap, n, runs = 20, 3000, 60
    x, m = population(np.random.default_rng(99), 10**6)
    truth = np.average(x, weights=np.minimum(m, cap))
    hits = own_hits = 0
    errors = []
    for seed in range(runs):
        x, m = population(np.random.default_rng(seed), n)
        release = pm.mean(
            people(x, m, cap), epsilon=1, neighbors=neighbors, noise=SimulatedNoise(seed)
        )
        assert release.estimand == "mean, people weighted by records"
        assert pure_epsilon(release.guarantee.mechanisms) == 1
        assert release.guarantee.verify()
        inner, noise = release.interval(), release.noise_interval()
        assert inner.target == "mean"
        hits += inner.lower[0] <= truth <= inner.upper[0]
        low, high = release.diagnostics["limits"]
        own = np.average(np.clip(x, low, high), weights=np.minimum(m, cap))
        own_hits += noise.lower[0] <= own <= noise.upper[0]
        errors.append(float(release) - truth)
        clipped = release.interval(target="clipped")
        assert clipped.upper[0] - clipped.lower[0] < inner.upper[0] - inner.lower[0]
    statistics_kit.assert_rate_at_least(hits, runs, 0.94)
    statistics_kit.assert_rate_at_least(own_hits, runs, 0.94)
    assert abs(np.mean(errors)) < 0.3
    # over persons it is another number: those with many records have larger values
    assert abs(truth - population(np.random.default_rng(99), 10**6)[0].mean()) > 0.2


def test_persons_without_records_weigh_nothing_and_nobody_fails_privately():
    x, m = population(np.random.default_rng(3), 3000)
    some = x.copy()
    some[::2] = np.nan
    release = pm.mean(people(some, m, 20), epsilon=1, noise=SimulatedNoise(2))
    assert abs(float(release) - np.average(x[1::2], weights=np.minimum(m[1::2], 20))) < 1
    none = pm.mean(people(np.full(3000, np.nan), m), epsilon=1, noise=SimulatedNoise(2))
    assert none.status in ("point_mass", "failed")
    assert none.guarantee.verify()


def test_what_is_not_offered_over_records_is_refused_before_anything_is_spent():
    x, m = population(np.random.default_rng(4), 4000)
    ledger = pm.Ledger(epsilon=2, delta=1e-6)
    wide = ArrayPersonTable(np.c_[x, x, x, x, x], tuple("abcde"), np.c_[m, m, m, m, m], CAP)
    with pytest.raises(pm.ArgumentError, match="mean over records"):
        pm.mean(wide, epsilon=1, delta=1e-7, method="default", ledger=ledger)
    assert float(ledger.spent().epsilon) == 0
    three = ArrayPersonTable(np.c_[x, x + 1], ("a", "b"), np.c_[m, m], CAP)
    release = pm.mean(three, epsilon=2, noise=SimulatedNoise(5))
    assert release.estimate[1] - release.estimate[0] == pytest.approx(1, abs=0.5)
    assert len(release.interval().lower) == 2
    assert "records" in str(release)


def test_the_margin_of_several_noises_is_theirs_together():
    """Of one noise it is kappa scales; of several less than their sum, and never too small."""
    g = np.random.default_rng(5)
    assert margin_of(1.0, (4.0,)) == pytest.approx(4.0)
    assert margin_of(1.0, ()) == 0.0
    for scales in ((1.0, 1.0, 1.0), (3.0, 2.0, 0.1), (40.0, 25.0, 17.0)):
        for kappa in (1.0, 2.0):
            noise = sum(g.laplace(0, scale, 400_000) for scale in scales)
            found = margin_of(kappa, scales)
            beyond = int((noise > found).sum())
            statistics_kit.assert_rate_at_most(beyond, len(noise), math.exp(-kappa) / 2)
            statistics_kit.assert_rate_at_least(beyond, len(noise), 0.93 * math.exp(-kappa) / 2)
            assert found < 0.95 * kappa * sum(scales)
