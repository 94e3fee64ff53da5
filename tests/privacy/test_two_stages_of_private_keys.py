"""Private keys in two stages, the second at a price that the first chose: the exact divergence.

A small lattice on which every probability is a finite sum: a person is `UNIT` steps, noises are
discrete Laplace. The outputs are a cell of a key that many touch, and the cells of keys that only
one person touches where these reach a threshold. Everything between the stages follows from what
was shown (docs/proofs/groups.md, section 8).
"""

import math

import numpy as np
import pytest

UNIT = 4  # lattice steps of a person
FIRST = 0.6  # epsilon of the first stage
REACH = 400  # steps of noise that are counted; what is beyond is below 1e-12
SHARE = (0.001, 0.001)  # delta of the two stages
COMMON = 5  # persons who touch the common key besides the one in question


def law(scale):
    """Discrete Laplace on -REACH..REACH."""
    k = np.arange(-REACH, REACH + 1)
    weight = np.exp(-np.abs(k) / scale)
    return weight / weight.sum()


def tail(scale, steps, noises=3):
    """P(sum of so many noises >= steps)."""
    one, total = law(scale), np.array([1.0])
    for _ in range(noises):
        total = np.convolve(total, one)
    middle = len(total) // 2
    return float(total[max(middle + steps, 0) :].sum())


def threshold(scale, delta, kept, noises=3):
    """The least number of steps that a key of one person reaches with chance delta/kept."""
    steps = UNIT
    while kept * tail(scale, steps - UNIT, noises) > delta:
        steps += 1
    return steps


class Stage:
    """One price: its noise, its threshold, and the chance that an own key is shown."""

    def __init__(self, epsilon, delta, *, most, kept, doubled, weight, noises=3, paid=None):
        self.epsilon = epsilon
        self.scale = most * UNIT * (2 if doubled else 1) / epsilon
        steps = threshold(self.scale, delta, paid or kept, noises)
        self.shown = tail(self.scale, steps - round(weight * UNIT))


def moved(weight):
    """Laws of the common cell with and without `weight` of a person, on one axis."""
    wide = 2 * REACH + 1 + 2 * (COMMON + 1) * UNIT

    def at(scale, steps):
        found = np.zeros(wide)
        found[steps : steps + 2 * REACH + 1] = law(scale)
        return found

    base = COMMON * UNIT
    return lambda scale, side: at(scale, base + round(weight * UNIT) * side)


def divergences(stage_of, first, own, weight, *, both=False, leak=False):
    """Exact hockey-stick divergences, both ways, at the epsilon of each path.

    stage_of: the second stage for a first cell at or above its middle, or below it. own: keys that
    only this person touches. weight: of the person in the common key. both: the neighbour is a
    person with own keys too, elsewhere in the common cell (replace-one). leak: the second price is
    chosen by whether there is a hidden key.
    """
    cell = moved(weight)
    here, there = cell(first.scale, 1), cell(first.scale, -1 if both else 0)
    size = len(here)
    middle = COMMON * UNIT + REACH
    way, back = 0.0, 0.0
    sides = (slice(0, middle), slice(middle, size))
    hidden_here = (1 - first.shown) ** own
    hidden_there = (1 - first.shown) ** own if both else 1.0
    way += 1 - hidden_here
    back += 1 - hidden_there
    for which, side in enumerate(sides):
        seconds = [stage_of[which]] * 2
        if leak:  # with a hidden key the other price, without one the usual
            seconds = [stage_of[0], stage_of[1]]
        one, two = seconds
        total = math.exp(first.epsilon + max(one.epsilon, two.epsilon))
        p1, q1 = hidden_here * here[side], hidden_there * there[side]
        kept_p, kept_q = (1 - one.shown) ** own, (1 - two.shown) ** own if both else 1.0
        way += float(p1.sum()) * (1 - kept_p)
        back += float(q1.sum()) * (1 - kept_q)
        p2 = kept_p * cell(one.scale, 1)
        q2 = kept_q * cell(two.scale, -1 if both else 0)
        p, q = np.outer(p1, p2), np.outer(q1, q2)
        way += float(np.maximum(p - total * q, 0).sum())
        back += float(np.maximum(q - total * p, 0).sum())
    return way, back


CASES = {
    # most, kept, own keys, weight of a person in each key
    "one group": (1, 1, 1, 0.0),
    "the common key alone": (1, 1, 0, 1.0),
    "several groups": (2, 4, 3, 0.5),
}


def stages(case, *, doubled, noises=3, paid=None):
    most, kept, _, weight = CASES[case]
    said = {"most": most, "kept": kept, "doubled": doubled, "noises": noises, "paid": paid}
    said["weight"] = 1.0 if case == "one group" else weight
    first = Stage(FIRST, SHARE[0], **said)
    return first, [Stage(epsilon, SHARE[1], **said) for epsilon in (0.5, 1.4)]


@pytest.mark.slow
@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_divergence_of_two_stages_is_at_most_both_deltas(case, doubled):
    first, seconds = stages(case, doubled=doubled)
    _, _, own, weight = CASES[case]
    found = divergences(seconds, first, own, weight, both=doubled)
    assert max(found) <= sum(SHARE) + 1e-9
    if case == "one group":
        assert max(found) > 0.5 * sum(SHARE)  # what is paid for is used


def test_wrong_twins_are_found_out():
    # the tail of one noise instead of three
    first, seconds = stages("one group", doubled=False, noises=1)
    assert max(divergences(seconds, first, 1, 0.0)) > sum(SHARE)
    # a person keeps more keys than are paid for
    first, seconds = stages("one group", doubled=False)
    assert max(divergences(seconds, first, 2, 0.0)) > sum(SHARE)
    # the second stage follows what was hidden
    assert max(divergences(seconds, first, 1, 0.0, leak=True)) > sum(SHARE)
    # the scale of one person where one leaves and another one comes
    first, seconds = stages("the common key alone", doubled=False)
    assert max(divergences(seconds, first, 0, 1.0, both=True)) > sum(SHARE)
