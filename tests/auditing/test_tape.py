"""The tape: what it keeps, what a replay notices, and that nothing of an audit is a release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from auditing.rows import TABLES, Neighbour, Recorded, Recorder, Replayer, Rows, neighbours, table
from privmean.auditing.findings import Findings
from privmean.auditing.fixed_noise import Draws, Endless, Fixed
from privmean.auditing.measure_loss import same
from privmean.auditing.replay import Compared, Parted, Transcript
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.estimators.means.bounded import BoundedMean
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

BUDGET = Budget(epsilon=1.0)
ROWS = Rows(np.array([[0.0], [8.0], [3.0], [np.nan]]), ("x",))


def recorded(rows=ROWS, seed=0):
    found = Findings()
    plan = BoundedMean((0.0, 8.0)).plan(Budget(epsilon=2.0), PublicShape(("x",), len(rows.values)))
    return Recorded.of(plan, rows, "here", seed, found), found


def test_a_replay_on_the_same_people_costs_nothing_and_differs_in_nothing():
    tape, found = recorded()
    tape.replay(Neighbour(ROWS, 0, "the same"), found)
    assert (found.runs, found.differences, found.count) == (1, 0, 0)
    assert found.mechanisms["SumsOver, laplace"].largest == 0


def test_a_person_who_goes_from_limit_to_limit_costs_exactly_what_is_declared():
    tape, found = recorded()
    tape.replay(Neighbour(ROWS.put(0, np.array([8.0]), None), 0, "moved"), found)
    assert found.mechanisms["SumsOver, laplace"].largest == 1
    assert found.count == 0
    assert found.mechanisms["SumsOver, laplace"].shifted == 1  # and by operands


def test_two_persons_who_move_are_a_violation():
    tape, found = recorded()
    both = ROWS.put(0, np.array([8.0]), None).put(1, np.array([0.0]), None)
    tape.replay(Neighbour(both, 0, "two moved"), found)
    assert found.count == 0  # one up, one down: together they are not farther than one
    both = ROWS.put(0, np.array([8.0]), None).put(2, np.array([8.0]), None)
    tape.replay(Neighbour(both, 0, "two moved"), found)
    assert found.count == 1
    assert found.mechanisms["SumsOver, laplace"].largest == 1 + Fraction(5, 8) + Fraction(15, 64)


@dataclass(frozen=True)
class Asks:
    """A plan that asks for counts of persons above some limits."""

    limits: tuple[float, ...]
    branch: bool = False
    budget: Budget = BUDGET

    @property
    def events(self):
        return self.counts.events * len(self.limits)

    @property
    def counts(self):
        return NoisyCounts.at("count", Fraction(1, len(self.limits)), REPLACE_ONE)

    def run(self, curator):
        limits = self.limits
        if self.branch and np.nanmax(curator.people.matrix()) > 5:
            limits = limits[::-1]
        found = []
        for limit in limits:
            _, above = curator.people.count_outside(0, -np.inf, limit)
            found.append(int(curator.ask(self.counts, as_counts(above))[0]))
        return tuple(found)


def test_a_branch_on_private_values_shows():
    for branch in (False, True):
        found = Findings()
        tape = Recorded.of(Asks((1.0, 2.0), branch), ROWS, "here", 0, found)
        tape.replay(Neighbour(ROWS.put(1, np.array([0.0]), None), 1, "lower"), found)
        assert found.differences == branch
        assert found.count == branch


def test_what_is_no_longer_asked_shows():
    tape = Transcript()
    Asks((1.0, 2.0)).run(Recorder(ROWS.people, SimulatedNoise(0), tape))
    found = Compared()
    curator = Replayer(ROWS.people, tape, found)  # of a plan that asks once, at another price
    with pytest.raises(Parted):
        Asks((1.0,)).run(curator)
    assert found.difference
    found = Compared()
    curator = Replayer(ROWS.people, tape, found)
    curator.people.count_outside(0, -np.inf, 1.0)
    curator.finish()
    assert "no longer asked" in found.difference


def test_no_words_of_an_audit_hold_a_number_of_the_table():
    found = Findings()
    secret = ROWS.put(1, np.array([7.123456789]), None)
    tape = Recorded.of(Asks((1.0, 2.0), branch=True), secret, "here", 0, found)
    tape.replay(Neighbour(ROWS.put(1, np.array([0.0]), None), 1, "lower"), found)
    assert found.count
    assert "7.123" not in repr(found)


def test_audit_noise_is_never_secure():
    assert Draws(ExactNoise()).secure is False
    assert Fixed().secure is False
    assert Recorded.of(Asks((1.0,)), ROWS, "", 0, Findings()).tape.answers


def test_a_draw_without_end_is_noticed():
    draws = Draws(Fixed(), most=3)
    for _ in range(3):
        draws.laplace(1, Fraction(1))
    with pytest.raises(Endless):
        draws.laplace(1, Fraction(1))


def test_a_run_without_end_is_a_violation_and_no_crash():
    class Suits(NoisyCounts):
        def draw(self, exact, noise):
            while True:  # until a noisy count is one that no count can be
                noise.laplace(1, Fraction(1))

    class Runs(Asks):
        def run(self, curator):
            return curator.ask(Suits(self.counts.loss), as_counts(curator.people.size()))

    found = Findings()
    Recorded.of(Runs((1.0,)), ROWS, "", 0, found)
    assert found.count == 1
    assert "no end" in found.violations[0].what


def test_noisy_answers_are_frozen_against_those_who_write_into_them():
    class Writes(Asks):
        def run(self, curator):
            noisy = curator.ask(self.counts, as_counts(curator.people.size()))
            before = noisy.copy()
            noisy += 100
            return tuple(before.tolist())

    found = Findings()
    tape = Recorded.of(Writes((1.0,)), ROWS, "here", 0, found)
    for _ in range(2):
        tape.replay(Neighbour(ROWS, 0, "the same"), found)
    assert found.count == 0


def test_same_tells_what_everybody_can_tell():
    assert same(float("nan"), float("nan"))
    assert not same(0.0, -0.0)
    assert not same(1, 1.0)
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert same(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not same(np.array([1]), np.array([1.0]))
    assert same(ROWS, replace(ROWS, values=ROWS.values.copy()))
    assert not same(ROWS, ROWS.put(0, np.array([1.0]), None))


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("cap", [None, 3])
def test_neighbours_differ_in_one_person(relation, cap):
    rows = table("heavy", 30, 2, cap, 1)
    tape = Transcript()
    for _, item in zip(range(300), neighbours(rows, relation, tape, 2), strict=False):
        other = item.rows
        if relation == REPLACE_ONE:
            assert other.values.shape == rows.values.shape
            differs = ~(
                (other.values == rows.values) | (np.isnan(other.values) & np.isnan(rows.values))
            )
            assert set(np.flatnonzero(differs.any(axis=1))) <= {item.place}
        else:
            assert abs(len(other.values) - len(rows.values)) == 1
            long, short = sorted((other, rows), key=lambda x: -len(x.values))
            assert same(long.without(item.place).values, short.values)
        if cap is not None:
            assert ((other.counts > 0) == ~np.isnan(other.values)).all()


def test_tables_hold_strange_persons_and_both_relations_reach_them():
    for kind in TABLES:
        rows = table(kind, 20, 1, None, 0)
        assert isinstance(rows.people, ArrayPersonTable)
        assert rows.people.size() == 20
    assert np.isinf(table("normal", 20, 1, None, 0).values).any()


def test_texts_are_compared_but_for_times_and_digests():
    digest = "sha256:" + "0f" * 32
    assert same(f"2026-01-02T03:04:05Z {digest}", f"2027-01-02T03:04:05Z {digest[:-1]}e")
    assert not same("0.1234567890123456", "0.1234567890123457")
    assert not same("1234567890123456", "1234567890123457")
    assert not same("1.2345678901234567e-05", "1.2345678901234568e-05")
