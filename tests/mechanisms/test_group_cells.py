"""Cells of groups: what one person moves, in exact fractions."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.group_pairs import ArrayPairTable, GroupWeights, PairSums
from privmean.data.person_table import ClipInterval
from privmean.errors import InfeasibleError
from privmean.mechanisms.group_cells import GroupCells
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

EPSILON = Fraction(1, 2)
# boxes of 2^19 + 1 and 2^20 steps, one of a few steps about nothing, and one of a whole line
BOXES = [
    ClipInterval(-(2.0**19) - 1, 2.0**19 + 1),
    ClipInterval(1.0 - 2.0**20, 2.0**20 - 1),
    ClipInterval(1.0, 1.0 + 2.0**-51),
    ClipInterval(-1e300, 1e290),
]


def cells_for(boxes, weights, relation, epsilon=EPSILON):
    return GroupCells(
        "cells", relation, tuple(box.steps for box in boxes), weights.parts,
        min(weights.max_groups, len(boxes)), 3 * len(boxes), epsilon,
    )  # fmt: skip


def exact_of(step, boxes, weights, person):
    """The cells of one person, given as a mapping of places to values."""
    if not person:
        return step.exact(boxes, [PairSums()] * len(boxes))
    places, values = list(person), list(person.values())
    pairs = ArrayPairTable.of(
        np.zeros(len(places), int), np.array(places), np.array(values),
        [str(g) for g in range(len(boxes))], weights,
    )  # fmt: skip
    return step.exact(boxes, pairs.group_sums(boxes))


def persons(boxes, weights):
    """Everyone there can be: the ends and the middle of the boxes, in any groups of the rule."""
    for size in range(1, len(boxes) + 1 if weights.split else 2):
        for places in itertools.combinations(range(len(boxes)), size):
            ends = [(boxes[g].lower, boxes[g].middle, boxes[g].upper) for g in places]
            for values in itertools.product(*ends):
                yield dict(zip(places, values, strict=True))


def most_moved(boxes, weights, relation, billed=None):
    step = cells_for(boxes, weights, relation)
    charged = step if billed is None else billed(step)
    everyone = [exact_of(step, boxes, weights, person) for person in persons(boxes, weights)]
    nobody = exact_of(step, boxes, weights, {})
    if relation == ADD_REMOVE:
        return max(charged.sensitivity_share(one, nobody)[0] for one in everyone)
    few = everyone[:: max(1, len(everyone) // 30)] + everyone[-3:]
    return max(charged.sensitivity_share(one, two)[0] for one in few for two in everyone)


@pytest.mark.parametrize(
    "weights", [GroupWeights(), GroupWeights(1, True), GroupWeights(2, True), GroupWeights(9, True)]
)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_one_person_moves_the_cells_by_what_is_billed(weights, relation):
    boxes = BOXES[:3]
    most = most_moved(boxes, weights, relation)
    assert most <= 1
    assert most > Fraction(999, 1000)  # and it is attained


def test_the_cells_of_a_person_add_up_to_its_weight():
    weights = GroupWeights(2, True)
    step = cells_for(BOXES, weights, ADD_REMOVE)
    for person in persons(BOXES[:2], weights):
        found = exact_of(step, BOXES, weights, person)
        for g, cell in enumerate(found):
            held = g in person
            assert sum(cell) == held * weights.weight(len(person)) * 4 * BOXES[g].steps ** 2
            assert min(cell) >= 0


def test_wrong_units_and_scales_are_found_out():
    weights = GroupWeights(2, True)

    def one_group(step):  # scales for a person of one group
        return replace(step, most=1)

    def smallest_box(step):  # the unit of the smallest box for all
        return replace(step, steps=(min(step.steps),) * len(step.steps))

    narrow, wide = BOXES[0], ClipInterval(1.0 - 2.0**20, 2.0**20 - 1)
    assert (narrow.steps, wide.steps) == (2**19 + 1, 2**20 - 1)
    for twin in (one_group, smallest_box):
        assert most_moved([narrow, wide], weights, ADD_REMOVE, twin) > Fraction(3, 2)

    class Unfloored(GroupWeights):
        def weight(self, groups):
            return -(-self.parts * self.max_groups // groups)

    wrong = Unfloored(2, True)
    assert 3 * wrong.weight(3) > 2 * wrong.parts >= 3 * weights.weight(3)


def test_scales_do_not_depend_on_how_many_groups_there_are():
    sizes = [
        GroupCells("cells", ADD_REMOVE, (2**20,) * g, 256, 4, 24, Fraction(1, 20)).scale
        for g in (10, 11)
    ]
    assert sizes[0] == sizes[1]


def test_answers_that_are_coarsened_are_paid_for():
    steps = BOXES[1].steps
    step = GroupCells("cells", ADD_REMOVE, (steps,), 256, 30, 3, Fraction(1, 2**12))
    assert step.place(steps).bits < 0
    unit = step.unit(steps)
    for before in (0, 2**70 + 12345):
        moved = step.sensitivity_share(
            [(before + 30 * unit, before, before)], [(before, before, before)]
        )
        assert Fraction(999, 1000) < moved[0] <= 1
    with pytest.raises(InfeasibleError):
        GroupCells("cells", ADD_REMOVE, (steps,), 256, 30, 2**14, Fraction(1, 2**40))
