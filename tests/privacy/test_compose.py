"""The accountant: what any composition must satisfy, and composed losses recomputed elsewhere."""

import itertools
import math
from fractions import Fraction

import exact
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError
from privmean.privacy.budget import Budget, exact_fraction
from privmean.privacy.compose import (
    Parallel,
    pure_epsilon,
    total_delta,
    total_epsilon,
    total_rho,
    within,
)
from privmean.privacy.privacy_events import (
    Approximate,
    Gaussian,
    Laplace,
    Pure,
    Selection,
    Threshold,
)

LATTICE = 2.0**20

EVENTS = [
    Laplace("one count", 1, 4),
    Laplace("two counts", 2, 5, cells_changed=2),
    Laplace("fine sum", 2**21, 2**23),
    Laplace("several scales", 2**21, 2**22, joint=True),
    Gaussian("sum", 0.3 * LATTICE, LATTICE, 3),
    Gaussian("coarse sum", 20.0, 100.0, 1),
    Threshold("threshold", 1e-8, 40.0),
    Selection("argmax", Fraction(1, 5)),
    Selection("exponential mechanism", Fraction(1, 5), bounded_range=True),
    Pure("response", Fraction(1, 10)),
    Approximate("amplified", Fraction(1, 10), 1e-9),
    Parallel(
        "disjoint persons",
        ((Laplace("count", 1, 4),), (Pure("response", Fraction(1, 10)), Laplace("few", 1, 9))),
    ),
    Parallel(
        "disjoint persons, Gaussian",
        ((Gaussian("sum", 0.2 * LATTICE, LATTICE, 2),), (Gaussian("less", 1e5, LATTICE, 1),)),
    ),
]
EPSILONS = (0.05, 0.4, 1.0, 3.0)
DELTAS = (1e-7, 1e-3)


# --- the suite: holds for every kind of event, and for those added later -------------------------


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_no_event_is_free(event):
    assert event.pure or event.mu or event.added_delta
    assert event.rho > 0 or event.added_delta
    assert total_delta([event], 1e-6) > 0
    assert total_epsilon([event], event.added_delta + 1e-3) > 0 or event.added_delta
    if event.pure and not event.added_delta:
        assert pure_epsilon([event]) == event.pure > 0
    assert total_rho([event]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
@pytest.mark.parametrize("grid", [False, True])
def test_more_events_never_cost_less(event, grid):
    for bill in ([EVENTS[0]], [EVENTS[1], EVENTS[4]], [EVENTS[7], EVENTS[6]]):
        more = [*bill, event]
        for epsilon in EPSILONS:
            before = total_delta(bill, epsilon, grid=grid)
            assert total_delta(more, epsilon, grid=grid) >= before * (1 - 1e-3) - 1e-10
        for delta in DELTAS:
            before = total_epsilon(bill, delta, grid=grid)
            assert total_epsilon(more, delta, grid=grid) >= before * (1 - 1e-3)
        assert total_rho(more) > total_rho(bill) or math.isinf(total_rho(bill))


@pytest.mark.slow
@pytest.mark.parametrize("grid", [False, True])
def test_order_does_not_matter(grid):
    for bill in itertools.permutations([EVENTS[1], EVENTS[4], EVENTS[6], EVENTS[8]]):
        assert math.isclose(total_delta(bill, 0.9, grid=grid), total_delta(ORDERED, 0.9, grid=grid))
        assert math.isclose(
            total_epsilon(bill, 1e-6, grid=grid), total_epsilon(ORDERED, 1e-6, grid=grid)
        )
        assert total_rho(bill) == total_rho(ORDERED)


ORDERED = [EVENTS[1], EVENTS[4], EVENTS[6], EVENTS[8]]


@pytest.mark.parametrize("grid", [False, True])
def test_delta_falls_with_epsilon_and_the_two_functions_agree(grid):
    for bill in ([EVENTS[4]], ORDERED, [EVENTS[0], EVENTS[2]], [EVENTS[0], EVENTS[4], EVENTS[10]]):
        deltas = [total_delta(bill, epsilon, grid=grid) for epsilon in EPSILONS]
        assert deltas == sorted(deltas, reverse=True)
        for delta in DELTAS:
            epsilon = total_epsilon(bill, delta, grid=grid)
            assert total_delta(bill, epsilon, grid=grid) <= delta * (1 + 1e-6)


@pytest.mark.slow
@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=6), st.sampled_from(EPSILONS))
@settings(max_examples=60, deadline=None)
def test_the_grid_only_helps(bill, epsilon):
    assert total_delta(bill, epsilon) <= total_delta(bill, epsilon, grid=False)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0])
def test_epsilon_of_gaussian_noise_is_rounded_up_and_tight(mu, delta):
    bill = [Gaussian("g", mu * 2.0**60, 2.0**60, 1)]
    epsilon = total_epsilon(bill, delta)
    assert exact.gaussian_delta(mu, epsilon) <= delta * (1 + 2e-12)
    if epsilon > 1e-300:  # else the noise is enough at any epsilon
        assert exact.gaussian_delta(mu, epsilon * (1 - 1e-9)) > delta * (1 - 1e-9)


def test_pure_sums_are_exact():
    bill = [Laplace(f"{i}", 1, 3) for i in range(3)]
    assert pure_epsilon(bill) == 1
    assert within(bill, Budget(epsilon=1.0))
    over = [*bill, Pure("a hair", Fraction(1, 10**40))]
    assert not within(over, Budget(epsilon=1.0))
    assert within(over, Budget(epsilon=1.0, delta=1e-4))


def test_zcdp_refuses_a_delta_of_its_own():
    assert total_rho([EVENTS[0], EVENTS[6]]) == math.inf
    assert not within([EVENTS[0], EVENTS[6]], Budget(rho=100.0))


def test_an_added_delta_above_the_allowed_one_is_never_within():
    bill = [Pure("p", Fraction(1, 100)), Threshold("t", 2e-6, 10.0)]
    assert total_epsilon(bill, 1e-6) == math.inf
    assert not within(bill, Budget(epsilon=1.0, delta=1e-6))
    assert within(bill, Budget(epsilon=1.0, delta=2e-6))


@pytest.mark.parametrize("size", [100, 700, 10**6, 10**12, 10**90])
def test_absurd_losses_are_counted_and_nothing_overflows(size):
    bill = [Pure("much", size), Laplace("more", 1, Fraction(1, size)), EVENTS[4]]
    assert total_delta(bill, 1.0) == 1
    assert total_epsilon(bill, 1e-6) >= size
    assert not within(bill, Budget(epsilon=100.0, delta=1e-6))
    noise = [Gaussian("little noise", float(size) * LATTICE, LATTICE, 1), EVENTS[0]]
    assert total_delta(noise, 1.0) > 0.99
    assert not within(noise, Budget(epsilon=100.0, delta=1e-6))
    assert not within(noise, Budget(rho=100.0))


def test_losses_beyond_arithmetic_are_refused_when_they_are_made():
    for made in (
        lambda: Pure("much", 10**101),
        lambda: Laplace("more", 1, Fraction(1, 10**101)),
        lambda: Gaussian("little noise", 1e101, LATTICE, 1),
        lambda: Laplace("many answers", 10**401, 1, cells_changed=10**400),
    ):
        with pytest.raises(ArgumentError, match="beyond the numbers of any mechanism"):
            made()


# --- recomputed by other means -------------------------------------------------------------------

LAPLACE_BILLS = {
    "two histograms": [Laplace("a", 2, 5, cells_changed=2), Laplace("b", 2, 3, cells_changed=2)],
    "counts and a sum": [Laplace("a", 2, 4, cells_changed=2), Laplace("b", 60, 100)],
    "argmax and sums": [Selection("s", Fraction(1, 3)), Laplace("b", 7, 9), Laplace("c", 1, 2)],
    "many": [Laplace(f"{i}", 1, 5) for i in range(12)],
}


def exact_law(bill):
    laws = []
    for loss in bill:
        if isinstance(loss, Laplace):
            shift = int(loss.sensitivity / loss.cells_changed)
            laws += [exact.discrete_laplace_losses(loss.scale, shift)] * loss.cells_changed
        elif loss.pure:
            laws.append(exact.randomized_response_losses(float(loss.pure)))
    return exact.product(*laws)


@pytest.mark.parametrize("name", LAPLACE_BILLS)
@pytest.mark.parametrize("part", [0.1, 0.4, 0.7, 0.95])
def test_laplace_bills_by_exact_convolution(name, part):
    bill = LAPLACE_BILLS[name]
    epsilon = part * float(pure_epsilon(bill))
    truth = exact.delta_of(exact_law(bill), epsilon)
    claim = total_delta(bill, epsilon)
    assert truth <= claim <= truth * (1 + 2e-3) + 1e-9
    assert total_epsilon(bill, claim) <= epsilon * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize("name", ["two histograms", "counts and a sum", "argmax and sums"])
def test_mixed_bills_by_exact_convolution_and_the_normal_law(name):
    mu = 0.4
    threshold = Threshold("t", 3e-7, 10.0)
    bill = [*LAPLACE_BILLS[name], Gaussian("g", mu * LATTICE, LATTICE, 2), threshold]
    law = exact_law(bill[:-2])
    for epsilon in (0.3, 1.0, 2.0):
        truth = exact.delta_with_gaussian(law, mu, epsilon) + threshold.delta
        claim = total_delta(bill, epsilon)
        assert truth * (1 - 1e-6) <= claim <= truth * (1 + 5e-3) + 1e-9


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_gaussian_bills_are_those_of_their_distance(mu):
    bill = [Gaussian("a", part * mu * LATTICE, LATTICE, 1) for part in (0.6, 0.8)]
    for epsilon in (0.1, 1.0, 3.0):
        truth = exact.gaussian_delta(mu, epsilon)
        assert truth <= total_delta(bill, epsilon) <= truth * (1 + 1e-6) + 1e-12


def test_a_bill_understated_by_a_tenth_is_caught_by_the_exact_law():
    """The twin: sensitivities halved, or one histogram left out, fall below the exact delta."""
    bill = LAPLACE_BILLS["two histograms"]
    epsilon = 0.7 * float(pure_epsilon(bill))
    truth = exact.delta_of(exact_law(bill), epsilon)
    halved = [Laplace(loss.name, 1, loss.scale) for loss in bill]
    assert total_delta(halved, epsilon) < truth
    assert total_delta(bill[:1], epsilon) < truth
    cheaper = [Laplace("a", 2, 5, cells_changed=2), Laplace("b", 2, 4, cells_changed=2)]
    assert total_delta(cheaper, epsilon) < truth


@pytest.mark.parametrize("epsilon", [0.319492847283, 1.710124100181, 0.7])
def test_an_epsilon_is_what_is_written_also_beside_a_delta(epsilon):
    """Its double falls short of the decimal by 1e-17: pure parts that use it up still fit."""
    bill = [Pure("all", exact_fraction(epsilon)), Threshold("threshold", 1e-6, 1e9, sd=1.0)]
    assert within(bill, Budget(epsilon, 1e-6))
    more = [Pure("all", exact_fraction(epsilon) * (1 + Fraction(1, 10**15))), bill[1]]
    assert not within(more, Budget(epsilon, 1e-6))
