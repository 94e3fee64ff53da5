"""Neighbours of the default mean, replayed: the outputs of one table are forced on another.

Given the same outputs every step must be the same; what the change of exact answers costs, over
all steps, is at most the epsilon of the plan, and exactly that at worst.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.noisy_argmax import Choice
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.mechanisms.ratio_sums import Answers
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned


class Recording(TrustedCurator):
    """Writes down what was asked, the exact answers and the noisy ones."""

    def __init__(self, people, seed):
        super().__init__(people, SimulatedNoise(seed))
        self.tape = []

    def ask(self, mechanism, exact):
        noisy = super().ask(mechanism, exact)
        self.tape.append((mechanism, exact, noisy))
        return noisy


class Replayed(TrustedCurator):
    """Gives the noisy answers of a tape, and adds up what the exact ones would have cost."""

    def __init__(self, people, tape):
        super().__init__(people, SimulatedNoise(0))
        self.tape, self.cost = list(tape), Fraction(0)

    def ask(self, mechanism, exact):
        asked, other, noisy = self.tape.pop(0)
        assert mechanism == asked  # name, price, scale, sensitivity, limits
        self.cost += cost(mechanism, exact, other)
        return noisy


def cost(mechanism, exact, other):
    """The privacy loss of a pair of exact answers at worst: sum of |change| over scale."""
    if isinstance(mechanism, Choice):
        changes = [int(item) for item in exact - other]
        return Fraction(max(changes) - min(changes)) / mechanism.scale
    if isinstance(mechanism, NoisyCounts):
        return Fraction(int(np.abs(exact - other).sum())) / mechanism.scale
    s, total = mechanism.sums, Fraction(0)
    kind = s.answers(mechanism.max_records)
    for box, one, two in zip(mechanism.boxes, exact, other, strict=True):
        scales = zip(kind.units(box.steps), kind.multiples_at(box.steps), strict=True)
        for a, b, (unit, multiple) in zip(one, two, scales, strict=True):
            total += Fraction(abs(a - b), unit) * s.epsilon / multiple
    return total


G = np.random.default_rng(7)
STARS = np.repeat([5.0, 4.0, 3.0, 2.0, 1.0], [3200, 480, 160, 80, 80])
TABLES = {
    "spread": (G.normal(size=800) * np.exp(G.normal(size=800)), 1.0),
    "one side": (np.exp(G.normal(size=500)), 1.0),
    "several rounds": (1000 + G.normal(size=1600), 1.0),
    "step back": (STARS, 0.5),
    "two groups": (np.where(G.random(600) < 0.5, 1e6, 0.0) + G.normal(size=600), 0.5),
    "point_mass": (np.zeros(500), 1.0),
    "new start": (100 + 5 * G.normal(size=1000), 0.5),
    "choices": (100 + G.normal(size=1000) / 3, 0.5),
    "choices at once": (STARS[::3], 1.0),
    "slow tail": (G.random(2000) ** (-1 / 1.1), 1.0),
    "half missing": (np.where(G.random(1600) < 0.5, np.nan, G.normal(50, 5, 1600)), 1.0),
    "nobody": (np.full(500, np.nan), 1.0),
    "a code": (np.where(np.arange(2000) < 60, 9999.0, np.rint(G.normal(1960, 15, 2000))), 1.0),
}


BESIDE = 80.0  # where the new starts here choose a part, in another bin than most


def people(x, cap):
    counts = None if cap is None else np.full((len(x), 1), 9, dtype=np.int64)
    return ArrayPersonTable(np.asarray(x, float)[:, None], ("v",), counts, cap)


def values_for(outcome, x):
    """Values of one person that matter: none, extreme, inside, at every limit and beside it."""
    edges = [math.nan, math.inf, -1e300, 0.0, 1.0, BESIDE]
    facts = outcome.diagnostics
    limits = [facts[name] for name in ("limits", "first limits", "far limits") if name in facts]
    for low, high in limits:
        edges += [low, math.nextafter(low, -math.inf), high, math.nextafter(high, math.inf)]
    return edges


def chosen(start):
    return any(isinstance(mechanism, Choice) for mechanism, *_ in start.tape)


def losses(table, target, relation, cap, seed, **words):
    """The cost of every change of the first person (or of leaving), over epsilon; the paths."""
    x, epsilon = TABLES[table]
    budget = Budget(epsilon=epsilon)
    known = len(x) if relation == REPLACE_ONE else None
    plan = planned(DefaultMean(target=target, **words), budget, persons=known, relation=relation)
    start = Recording(people(x, cap), seed)
    edges, statuses = values_for(plan.run(start), x), set()
    for value in (edges[0], edges[1], edges[-1], *([BESIDE] if table == "new start" else [])):
        one = np.append(value, x[1:])
        tape = Recording(people(one, cap), seed)
        outcome = plan.run(tape)
        asked = (name in outcome.diagnostics for name in ("counts before", "people left behind"))
        statuses.add((outcome.status, *asked, chosen(tape)))
        others = [np.append(other, x[1:]) for other in edges]
        for two in others if relation == REPLACE_ONE else [x[1:]]:
            replay = Replayed(people(two, cap), tape.tape)
            again = plan.run(replay)
            assert not replay.tape
            np.testing.assert_array_equal(again.estimate, outcome.estimate)
            assert (again.status, again.diagnostics) == (outcome.status, outcome.diagnostics)
            yield replay.cost / plan.epsilon, statuses


@pytest.mark.parametrize("cap", [None, 5])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("target", [None, "mean", "clipped"])
def test_no_change_of_a_person_costs_more_than_epsilon_and_some_cost_it(target, relation, cap):
    if cap is not None and target == "mean":
        return  # not offered
    worst, seen = {}, set()
    for table in TABLES:
        for seed in range(2):
            for cost, statuses in losses(table, target, relation, cap, seed):
                assert cost <= 1, (table, seed)
                worst[table] = max(cost, worst.get(table, 0))
                seen |= statuses
    # what is never asked is not spent (failures); a limit may lie a step inside its grid
    # nobody is both within the last of several choices and apart from the rest before the first
    partly = "nobody", "choices", "choices at once", "new start"
    answered = [item for table, item in worst.items() if table not in partly]
    assert min(answered) > 1 - Fraction(1, 10**5)
    assert worst["new start"] > Fraction(99, 100)
    assert max(answered) == 1
    # over records so few people are here that outliers go unchecked, unless none are asked for
    usual = "ok" if cap is None or target == "clipped" else "outliers_unchecked"
    assert {status for status, *_ in seen} >= {usual, "point_mass", "failed"}
    assert any(left for *_, left, _ in seen)  # rounds were asked whether they left a group behind
    assert any(choice for *_, choice in seen)
    if target is None:
        assert any(back for _, back, *_ in seen)  # a step back from limits


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("table", ["choices", "choices at once"])
def test_back_from_what_was_chosen_too(relation, table, monkeypatch):
    # whatever is counted beyond
    monkeypatch.setattr("privmean.central.default_bounds.THICK", -1.0)
    monkeypatch.setattr("privmean.central.default_bounds.AT_ONCE", (-1.0, 3.0))
    found = [item for seed in range(3) for item in losses(table, None, relation, None, seed)]
    assert max(cost for cost, _ in found) <= 1
    assert any(choice for _, statuses in found for *_, choice in statuses)
    assert any(back for _, statuses in found for _, back, *_ in statuses)


def test_a_twin_that_counts_a_person_twice_in_a_part_is_caught(monkeypatch):
    counts = ArrayPersonTable.uniform_counts

    def twice(self, column, half, origin):
        return {index: 2 * count for index, count in counts(self, column, half, origin).items()}

    monkeypatch.setattr(ArrayPersonTable, "uniform_counts", twice)
    for relation in (REPLACE_ONE, ADD_REMOVE):
        seeds = range(4)
        found = [
            cost for seed in seeds for cost, _ in losses("new start", None, relation, None, seed)
        ]
        assert max(found) > 1


def test_a_twin_that_counts_persons_as_well_as_with_the_others_in_the_middle_is_caught(monkeypatch):
    """Persons without a value stand off the middle; the number of the others at its usual noise."""
    scales = Answers.multiples_at

    def usual(self, steps):
        return scales(replace(self, absent=Fraction(0)), steps)

    monkeypatch.setattr(Answers, "multiples_at", usual)
    found = [cost for cost, _ in losses("one side", None, REPLACE_ONE, None, 0)]
    assert max(found) > 1


def test_a_twin_that_counts_nulls_in_two_cells_is_caught(monkeypatch):
    """Nulls counted in the zero cell and in their own: l1 change 3 instead of 2."""

    def twice(logarithmic, missing):
        return np.append(logarithmic, np.int64(missing))

    monkeypatch.setattr("privmean.central.find_region.cells_of", twice)
    found = [cost for cost, _ in losses("half missing", None, REPLACE_ONE, None, 0)]
    assert max(found) > 1
