"""The joint release of value, square and weight: attacked with worst-case persons on exact sums."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.clipped_sum import Answers, ClippedSums
from privmean.mechanisms.noisy_vector import COARSE_SCALE, LaplaceVector
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from statistics_kit import assert_mean, assert_variance, drawn_sums, epsilon_lower_bound

BOX = ClipInterval(-2.0, 5.0)
VALUES = [-1e300, -math.inf, -2.0, -1.9, 0.0, 1.5, 1.6, 3.3, 5.0, 1e300, math.inf, math.nan]
RNG = np.random.default_rng(8)
VALUES += list(RNG.uniform(-3, 6, 12))
CAP = 5


def people(rows, records=None, cap=None):
    values = np.array(rows, dtype=float)[:, None]
    counts = None if records is None else np.array(records, dtype=np.int64)[:, None]
    return ArrayPersonTable(values, ("x",), counts, cap)


def integers(answers, rows, records=None):
    (sums,) = people(rows, records, answers.max_records).interval_sums([BOX])
    return answers.integers(BOX, sums)


def costs(answers, cap):
    """(l1 cost, l2 cost squared) of every change of one person, by exact sums."""
    rest = [0.7, -4.0, math.nan, 2.2]
    units = answers.units(BOX.steps)
    persons = [(v, r) for v in VALUES for r in ((1, 2, 5, 9) if cap else (1,))]
    exact = {}
    for v, r in persons:
        records = [3, 9, 1, 2, r] if cap else None
        exact[v, r] = integers(answers, [*rest, v], records)
    nobody = integers(answers, rest, [3, 9, 1, 2] if cap else None)
    if answers.relation == REPLACE_ONE:
        pairs = itertools.combinations(exact.values(), 2)
    else:
        pairs = ((nobody, item) for item in exact.values())
    for first, other in pairs:
        change = [Fraction(abs(a - b), u) for a, b, u in zip(first, other, units, strict=True)]
        l1 = sum(c / m for c, m in zip(change, answers.multiples, strict=True))
        l2 = sum(float(c) ** 2 / v for c, v in zip(change, answers.variances, strict=True))
        yield l1, l2


@pytest.mark.parametrize("cap", [None, CAP])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_one_person_costs_at_most_one(relation, cap):
    found = list(costs(Answers(relation, cap), cap))
    assert max(l1 for l1, _ in found) == 1  # attained: no smaller noise would do
    assert max(l2 for _, l2 in found) <= 1 + 1e-12
    assert max(l2 for _, l2 in found) > 0.99


@pytest.mark.parametrize(("cap", "scales"), [(CAP, (2, 4, 4)), (None, (2, 3, 4))])
def test_smaller_square_noise_is_caught(cap, scales):
    """With records the square needs scale 8, not 4; without them 4, not 3."""

    class Twin(Answers):
        multiples = scales

    assert max(l1 for l1, _ in costs(Twin(REPLACE_ONE, cap), cap)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, CAP])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_released_sums_have_the_stated_noise(relation, cap, kind):
    rows = [-1.0, 0.5, 4.0, 9.0, math.nan]
    records = [1, 3, 5, 9, 2]
    data = people(rows, records, cap)
    loss = {"epsilon": Fraction(1, 2)} if kind == "laplace" else {"mu": 0.5}
    mechanism = ClippedSums("sums", relation, 1, **loss)
    sums = data.interval_sums([BOX])
    noise = SimulatedNoise(3)
    made = [drawn_sums(mechanism, [BOX], sums, noise, max_records=cap)[0] for _ in range(1500)]
    clipped = np.clip(np.array(rows[:4]), BOX.lower, BOX.upper)
    u = np.ones(4) if cap is None else np.minimum(records[:4], CAP) / CAP
    z = (clipped - BOX.middle) / BOX.radius
    assert_mean([m.value for m in made], float((u * z).sum()), slack=1e-5)
    assert_mean([m.weight for m in made], float(u.sum()), slack=1e-5)
    square = (u * z) ** 2
    if relation == ADD_REMOVE and cap is not None:
        square = u - (u**2 - square)  # an upper bound of it
    assert_mean([m.square for m in made], float(square.sum()), slack=1e-5)
    factor, kurtosis = (math.sqrt(2), 6.0) if kind == "laplace" else (1.0, 3.0)
    parts = mechanism.noise(cap)
    values = [m.value for m in made]
    if relation == REPLACE_ONE:
        assert_variance(values, (factor * parts[0]) ** 2, kurtosis=kurtosis)
        weights = [m.weight for m in made]
        assert_variance(weights, (factor * parts[2]) ** 2, kurtosis=kurtosis)
    else:
        assert_variance(values, 2 * (factor * parts[0]) ** 2, kurtosis=kurtosis)
    if cap is None:
        sd = mechanism.value_sd
        assert_variance(values, sd**2, kurtosis=kurtosis)


def test_bill_of_both_laws():
    laplace = ClippedSums("sums", REPLACE_ONE, 3, epsilon=Fraction(1, 7))
    assert [loss.pure for loss in laplace.events] == [Fraction(1, 7)] * 3
    gaussian = ClippedSums("sums", REPLACE_ONE, 3, mu=0.3)
    (loss,) = gaussian.events
    assert loss.mu <= 0.3 * (1 + 1e-12)
    assert loss.answers == 9
    assert loss.scale >= 2**20


def test_one_box_a_column():
    with pytest.raises(ValueError, match="one box"):
        ClippedSums("sums", REPLACE_ONE, 2, epsilon=Fraction(1)).over([BOX])


# --- joint Laplace noise --------------------------------------------------------------------------
def test_coarse_lattice_pays_for_its_rounding():
    """At a tiny epsilon answers are rounded down; an allowed change still costs at most epsilon."""
    steps = 1 << 20
    joint = LaplaceVector((steps, steps**2, 1), (2, 4, 4), Fraction(1, 10**5), REPLACE_ONE)
    assert min(joint.lattice) < 0
    rng = np.random.default_rng(5)
    scales = []
    for unit, multiple, bits in zip(joint.units, joint.multiples, joint.lattice, strict=True):
        step = Fraction(1, 1 << bits) if bits >= 0 else Fraction(1 << -bits)
        scales.append(Fraction(multiple * unit) / joint.effective / step)
    assert max(scales) <= COARSE_SCALE
    worst = Fraction(0)
    for _ in range(400):
        z, other = (int(k) for k in rng.integers(-steps, steps + 1, 2))
        if rng.random() < 0.5:
            z, other = steps - int(rng.integers(0, 3)), -steps + int(rng.integers(0, 3))
        offset = int(rng.integers(0, 2**45))
        loss = Fraction(0)
        answers = ((z, other), (z * z + offset, other * other + offset), (3, 3))
        for (a, b), bits, scale in zip(answers, joint.lattice, scales, strict=True):
            x, y = (a << bits, b << bits) if bits >= 0 else (a >> -bits, b >> -bits)
            loss += abs(x - y) / scale
        worst = max(worst, loss)
    assert worst <= joint.epsilon
    assert worst > joint.epsilon * Fraction(99, 100)


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "caught"), [(1, False), (2, True)])
def test_distinguishing_two_extreme_persons(broken, caught):
    """A person at one limit against the other: e^epsilon is reached and not passed."""
    claimed = Fraction(1)
    mechanism = ClippedSums("sums", REPLACE_ONE, 1, epsilon=claimed * broken)
    noise, draws = SimulatedNoise(9), 6000
    hits = []
    for value in (5.0, -2.0):
        sums = people([value, 1.0, 1.0]).interval_sums([BOX])
        made = (drawn_sums(mechanism, [BOX], sums, noise)[0].value for _ in range(draws))
        hits.append(sum(v > 1.0 - 2e-1 for v in made))
    bound = epsilon_lower_bound(*hits, draws)
    assert (bound > float(claimed)) == caught
    if not caught:
        assert bound > 0.5  # the attack has teeth
