"""The one search behind persons needed, and that it always ends."""

import signal
from contextlib import contextmanager

import pytest

import privmean as pm
from privmean.bisection import smallest_int, smallest_real
from statistics_kit import planned


@contextmanager
def limit(seconds):
    """A search that does not end is an error, not a hanging suite."""

    def stop(*_):
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("within", [0.0, 0.03, 0.5])
def test_every_threshold_is_found_from_every_start(within):
    with limit(20):
        for first in range(1, 40):
            for threshold in (*range(1, 90), 1000, 12345):
                asked = []

                def enough(n, threshold=threshold, asked=asked):
                    asked.append(n)
                    return n >= threshold

                found = smallest_int(enough, first, within=within)
                least = max(first, threshold)
                assert least <= found <= max(least, least * (1 + within))
                assert len(asked) < 40
                assert min(asked) >= first


def test_nothing_is_found_where_nothing_is_enough():
    with limit(20):
        assert smallest_int(lambda _: False, 3) is None
        assert smallest_int(lambda n: n >= 100, 1, most=99) is None
        assert smallest_int(lambda n: n >= 99, 1, most=99) == 99
        assert smallest_real(lambda _: False, 0.1, most=100.0) is None


@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.1001, 0.77, 31.0, 100.0])
def test_an_amount_is_found_closely(threshold):
    found = smallest_real(lambda t: t >= threshold, 0.1, most=100.0)
    least = max(threshold, 0.1)
    assert least <= found <= least * 1.02


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_too_few_persons_for_a_moment_are_refused_with_a_number_that_would_do(epsilon):
    moment = pm.BoundedMoment(4, 1.5, records=10, range=(-10, 10))
    estimator, budget = pm.HeavyTailedMean(moment), pm.Budget(epsilon=epsilon)
    with limit(60):
        for n in range(1, 36):
            try:
                planned(estimator, budget, persons=n)
            except pm.InfeasibleError as error:
                needed = int(error.remedy.split("about ")[1].split()[0])
                assert needed > n
                planned(estimator, budget, persons=needed)


def test_every_way_of_asking_for_persons_ends():
    moment = pm.BoundedMoment(4, 1.5, records=10, range=(-10, 10))
    question, narrow = pm.Mean(assume=moment), pm.Mean(assume=pm.SubGaussian(sd=1.0))
    with limit(60):
        for persons in (1, 2, 4, 8, 9, 11):
            with pytest.raises(pm.InfeasibleError, match="Provide"):
                pm.plan(question, n=persons, epsilon=1.0)
        assert pm.required_n(question, target_error=0.3, guess_sd=1.0, epsilon=1.0) > 11
        with pytest.raises(pm.ArgumentError, match="not reached"):
            pm.required_n(pm.Mean(), target_error=1e-9, guess_sd=1.0, epsilon=1.0)
        with pytest.raises(pm.InfeasibleError, match="Provide"):
            pm.plan(narrow, n=3, epsilon=1.0, delta=1e-6)
