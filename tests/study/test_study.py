"""A study: parts of one budget, one bill, releases that keep their lines, forgeries noticed."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import privmean as pm
from privmean.data.person_table import ClipInterval
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.noise.noise_source import SimulatedNoise
from privmean.plain_data import digest
from privmean.privacy.budget import Budget, exact_fraction
from privmean.privacy.compose import total_delta, total_epsilon, within
from privmean.privacy.gdp import gaussian_delta, rho_delta
from privmean.privacy.guarantee import PURPOSE, Guarantee
from privmean.privacy.privacy_events import Concentrated, Laplace, Pure
from privmean.release.stored_release import PROVENANCE, digest_of
from privmean.study.budget_shares import (
    CURVES,
    RHO,
    SUMS,
    down,
    largest_rho,
    least_errors,
    significant,
    whole,
)
from privmean.study.shared_locations import StudyQuestion
from privmean.study.study_plan import allot, least_epsilon

PERSONS = 3000
LIMITS = (0.0, 10.0)


def records(seed=4):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, PERSONS)
    who = np.repeat(np.arange(PERSONS), sizes)
    own = np.repeat(rng.normal(5, 1, PERSONS), sizes)
    n = len(who)
    x = rng.normal(0, 1, n)
    y = own + 0.5 * x + rng.normal(0, 0.5, n)
    return {"who": who, "t": rng.uniform(0, 4, n), "x": x, "y": y}


TABLE = pm.Table(records(), person="who")


def study(*, noise=1, **terms):
    said = {"epsilon": 2.0, "delta": 1e-6} | terms
    if noise is not None:
        said["noise"] = SimulatedNoise(noise)
    made = pm.Study(TABLE, **said)
    made.add("level", pm.Mean("y"), weight=2)
    made.add("limited", pm.Mean("y", assume=LIMITS))
    made.add("trend", pm.Curve("y", "t", bins=[0, 1, 2, 3, 4], assume=LIMITS))
    made.add("slope", pm.Regression("y ~ x"))
    return made


@pytest.fixture(scope="module")
def real():
    return study(noise=None).release()


@pytest.mark.slow
def test_every_question_is_answered_by_name(real):
    assert tuple(real) == real.names == ("level", "limited", "trend", "slope")
    assert abs(real["level"].estimate[0] - 5) < 0.5
    assert len(real["trend"].columns) == 4
    assert real["slope"].formula == "y ~ x"
    assert real.failed == ()
    with pytest.raises(ArgumentError, match="is not a question of the study"):
        real["levels"]
    assert real.guarantee.verify()
    assert (real.guarantee.epsilon, real.guarantee.neighbors) == (2.0, "replace-one")


def test_the_plan_reads_nothing_and_says_what_each_costs():
    made = study()
    made.source = SimpleNamespace()  # whatever is asked of it fails
    plan = made.plan(PERSONS)
    text = str(plan)
    words = ("level", "limited", "trend", "slope", "minimum n", "error* at 2x weight")
    assert all(name in text for name in words)
    (line, *_) = plan.lines()
    looked = math.fsum(share for _, share, _ in plan.looked())
    assert math.fsum(item.share for item in plan.lines()) + looked == pytest.approx(1)
    assert line.predicted_error_with_twice_the_weight < line.predicted_error
    assert 1 < line.least_persons < PERSONS


def test_shares_make_errors_least_and_add_up_exactly():
    plan = study(delta=0.0).plan(PERSONS)
    parts = {part.name: exact_fraction(part.own.epsilon) for part in plan.parts}
    looks = sum(look.pure for look in plan.shared_locations)
    assert sum(parts.values()) + looks <= 2
    assert sum(parts.values()) + looks > 2 - Fraction(1, 10**10)
    assert plan.allotment.way == SUMS


@pytest.mark.parametrize("power", [1, 2])
def test_least_errors_are_at_the_stationary_point_and_no_move_is_better(power):
    rng = np.random.default_rng(power)
    for _ in range(200):
        scaled = np.exp(rng.normal(0, 4, 4))
        weights, total = rng.uniform(0.2, 5, 4), float(rng.uniform(0.1, 10))
        x = least_errors(scaled, weights, total, power)
        assert x.sum() == pytest.approx(total)
        slopes = x * (x**power + scaled) / (weights * scaled)
        np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)

        def value(parts, weights=weights, scaled=scaled):
            return float(weights @ np.log1p(scaled / parts**power))

        moved = np.abs(x * np.exp(rng.normal(0, 0.1, 4)))
        assert value(x) <= value(moved * total / moved.sum()) + 1e-12


def test_a_question_whose_noise_is_nothing_gets_little_and_weights_count():
    made = pm.Study(TABLE, epsilon=2.0)
    made.add("cheap", pm.Mean("y", assume=(4.99, 5.01)), guess_sd=1.0)
    made.add("a", pm.Mean("y", assume=(-50, 50)), guess_sd=1.0, weight=2)
    made.add("b", pm.Mean("x", assume=(-50, 50)), guess_sd=1.0)
    cheap, one, two = made.plan(PERSONS).parts
    told = cheap.plan.predict(1.0)
    assert told["privacy_noise"] < told["sampling"] / 10
    assert cheap.own.epsilon < 0.05 * 2
    assert one.own.epsilon > 1.1 * two.own.epsilon


@pytest.mark.parametrize(
    "budget", [{"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}, {"rho": 0.5}]
)
def test_a_stated_sampling_error_takes_the_place_of_the_predicted_one(budget):
    def parts(scale):
        made = pm.Study(TABLE, **budget)
        made.add("a", pm.Mean("y", assume=(-50, 50)), guess_sd=1.0, scale=scale)
        made.add("b", pm.Mean("x", assume=(-50, 50)), guess_sd=1.0)
        return [part.rho for part in made.plan(PERSONS).parts]

    predicted = 1 / math.sqrt(PERSONS)
    assert parts(predicted) == pytest.approx(parts(None))
    large, small = parts(100 * predicted), parts(predicted / 100)
    assert large[0] < 0.2 * large[1]
    assert small[0] > 1.05 * parts(None)[0]


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 5, 7, 12])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_what_is_stored_keeps_the_budget_and_a_little_more_does_not(k, epsilon):
    shapes = {f"q{j}": PublicShape(("y",), 10**6) for j in range(k)}
    items = [StudyQuestion(f"q{j}", pm.Mean("y", assume=LIMITS), 1.0 + j % 3) for j in range(k)]
    for budget in (Budget(epsilon), Budget(epsilon, 1e-6), Budget(rho=epsilon)):
        found = allot(items, shapes, budget)
        lines = tuple(line for part in found.parts for line in part.lines)
        assert within(lines, budget)
        if found.way == SUMS:
            assert sum(loss.pure for loss in lines) <= exact_fraction(epsilon)
        if found.way == CURVES and all(isinstance(x, Laplace) for x in lines):
            more = [
                Laplace(
                    x.name, x.sensitivity, x.scale / Fraction(1 + 3e-4), x.cells_changed,
                    joint=x.joint, neighbors=x.neighbors,
                )
                for x in lines
            ]  # fmt: skip
            assert not within(more, budget)


def test_many_questions_have_less_noise_than_sums_by_hand():
    """24 lines of 1/12 each: curves allow a sixth more; 8 of 1/4 nothing (they are as good as
    randomised responses)."""
    for k, factor in ((8, 1.0), (24, 1.15)):
        names = [f"q{j}" for j in range(k)]
        items = [StudyQuestion(name, pm.Mean("y", assume=LIMITS)) for name in names]
        found = allot(
            items, {name: PublicShape(("y",), PERSONS) for name in names}, Budget(2.0, 1e-6)
        )
        by_hand = pm.plan(items[0].question, n=PERSONS, epsilon=2.0 / k)
        for part in found.parts:
            mine = part.plan.predict(1.0)["privacy_noise"]
            assert mine <= by_hand.predict(1.0)["privacy_noise"] / factor * (1 + 1e-9)
        assert (found.way == SUMS) == (k == 8)


def test_a_question_priced_by_its_path_is_one_line_of_its_whole_part():
    made = pm.Study(TABLE, epsilon=2.0, noise=SimulatedNoise(1))
    made.add("limited", pm.Mean("y", assume=LIMITS))
    made.add("path", pm.Mean("x", method=pm.DefaultMean(target="mean")))
    found = made.release()
    (line,) = (x for x in found.guarantee.mechanisms if x.name.startswith("path: "))
    assert isinstance(line, Pure)
    part = found.plan.parts[-1]
    assert line.epsilon == exact_fraction(part.budget.epsilon)
    assert len(found["path"].guarantee.mechanisms) > 1


def test_prices_chosen_by_an_answer_are_not_composed_by_the_path_that_was_run():
    """Step one, RR(.1), says whether the rest goes to one line of .9 or to six of .15: each path's
    own bill has a smaller delta at .95 than the whole has. The whole is one line here."""
    paths = [[0.9], [0.15] * 6]
    target = 0.95
    own = [
        total_delta([Pure("one", Fraction(1, 10)), *(Pure("x", Fraction(e)) for e in path)], target)
        for path in paths
    ]

    # the whole as a pair of laws: the first answer and the losses of the path it chose
    def law(path, sign):
        laws = {0.0: 1.0}
        for e in path:
            p = math.exp(e) / (1 + math.exp(e))
            right, wrong = (p, 1 - p) if sign > 0 else (1 - p, p)
            new = {}
            for loss, mass in laws.items():
                new[loss + e] = new.get(loss + e, 0.0) + mass * right
                new[loss - e] = new.get(loss - e, 0.0) + mass * wrong
            laws = new
        return laws

    p = math.exp(0.1) / (1 + math.exp(0.1))
    true = 0.0
    for path, first, mass in ((paths[0], 0.1, p), (paths[1], -0.1, 1 - p)):
        for loss, chance in law(path, +1).items():
            true += mass * chance * max(0.0, 1 - math.exp(target - loss - first))
    assert true > 0
    line = whole(Budget(1.0))
    assert (line.pure, line.rho) == (1, 0.5)
    assert total_delta([line], target) >= true
    assert min(own) < true  # the bill of one of the paths would have promised too much


@pytest.mark.parametrize("seed", range(4))
def test_the_bill_of_a_fixed_plan_is_the_planned_one_whatever_it_finds(seed):
    """Nulls, lone values, constants: the lines are those of the plan."""
    rng = np.random.default_rng(seed)
    tables = [np.full(400, np.nan), np.zeros(400), rng.normal(0, 1, 400), rng.standard_cauchy(400)]
    values = tables[seed]
    questions = [
        pm.Mean(assume=(-1.0, 1.0)),
        pm.Mean(method=pm.WinsorizedMean(pm.Bounded(-2.0, 2.0))),
        pm.Mean(method=pm.PrivateScale()),
        pm.Mean(method=pm.PrivateScale(target="mean")),
        pm.Quantile("value"),
        pm.Quantile("value", bounds=(-3, 3)),
    ]
    for question in questions:
        for terms in ({"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}, {"rho": 0.5}):
            plan = pm.plan(question, n=400, **terms)
            assert plan.fixed
            release = pm.ask(values, question, noise=SimulatedNoise(seed), **terms)
            assert Counter(release.guarantee.mechanisms) == Counter(plan.events)


def test_a_plan_that_may_stop_early_is_not_called_fixed():
    assert not getattr(pm.plan(pm.Mean(), n=4000, epsilon=1.0), "fixed", False)
    assumed = pm.Mean(assume=pm.SubGaussian(sd=1.0))
    assert not pm.plan(assumed, n=4000, epsilon=1.0, delta=1e-6).fixed


def test_rho_parts_are_sums_of_rho_and_convert():
    rho = largest_rho(2.0, 1e-6)
    assert rho_delta(rho, 2.0) <= 1e-6 < rho_delta(rho * 1.001, 2.0)
    assert gaussian_delta(math.sqrt(2 * rho), 2.0) < 1e-6
    made = study(epsilon=None, delta=0.0, rho=0.1)
    plan = made.plan(PERSONS)
    assert plan.allotment.way == RHO
    assert sum(exact_fraction(part.own.rho) for part in plan.parts) <= exact_fraction(0.1)
    assert math.fsum(line.rho for line in plan.events) <= 0.1 * (1 + 1e-12)
    assert plan.guarantee.rho == 0.1
    assert made.release().guarantee.verify()


def test_a_line_known_by_rho_alone_has_no_epsilon_of_its_own():
    line = Concentrated("q", 0.01, neighbors="replace-one")
    assert not within([line], Budget(10.0))
    assert within([line], Budget(rho=0.01))
    assert not within([line, line], Budget(rho=0.015))
    assert within([line], Budget(total_epsilon([line], 1e-6) * 1.001, 1e-6))
    assert not within([line], Budget(0.05, 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("terms", [{}, {"delta": 1e-4}, {"epsilon": 6.0}])
def test_parts_with_a_delta_add_up_whatever_the_curve_of_each(terms):
    """Lines that keep (epsilon, delta) by a curve of their own are one line where parts add up."""
    made = pm.Study(TABLE, **({"epsilon": 2.0, "delta": 1e-6} | terms))
    made.add("both", pm.Mean(("y", "x")))
    made.add("slope", pm.Regression("y ~ x"))
    made.add("wide", pm.Curve("y", "t", bins=list(np.linspace(0, 4, 60)), assume=LIMITS))
    made.add("kept", pm.Mean("y", assume=pm.SubGaussian(sd=1.0)), weight=2)
    plan = made.plan(PERSONS)
    assert plan.guarantee.verify()
    shapes = plan.shapes
    from privmean.study.budget_shares import AllocationTask

    first = AllocationTask(plan.items, shapes, plan.budget).sums()
    assert within([line for part in first.parts for line in part.lines], plan.budget)


# --- wanted errors --------------------------------------------------------------------------------
def test_wanted_errors_are_met_and_the_rest_is_shared():
    made = pm.Study(TABLE, epsilon=2.0)
    made.add("exact", pm.Mean("y", assume=LIMITS), error=0.025, guess_sd=1.0)
    made.add("rest", pm.Mean("x", assume=(-5, 5)))
    plan = made.plan(PERSONS)
    exact, rest = plan.parts
    assert exact.plan.predict(1.0)["rmse"] <= 0.025
    asked, less = made.questions["exact"].question, exact.budget.epsilon * 0.999
    assert pm.plan(asked, n=PERSONS, epsilon=less).predict(1.0)["rmse"] > 0.025
    assert exact.budget.epsilon + rest.budget.epsilon == pytest.approx(2.0)


@pytest.mark.slow
def test_wishes_that_cannot_be_had_are_refused_with_the_least_epsilon():
    made = pm.Study(TABLE, epsilon=0.2)
    made.add("exact", pm.Mean("y", assume=LIMITS), error=0.0188, guess_sd=1.0)
    made.add("other", pm.Mean("x", assume=LIMITS), error=0.03, guess_sd=1.0)
    removed = r"Give epsilon=\d.*, or remove question 'exact' and give epsilon=\d"
    with pytest.raises(InfeasibleError, match=removed) as caught:
        made.plan(PERSONS)
    items = tuple(made.questions.values())
    shapes = {item.name: PublicShape(("y",), PERSONS) for item in items}
    least = least_epsilon(items, shapes, Budget(0.2))
    assert f"Give epsilon={least:.3g}, or" in str(caught.value)
    allot(items, shapes, Budget(least))
    with pytest.raises(InfeasibleError):
        allot(items, shapes, Budget(least * 0.98))


def test_groups_need_persons_in_all_and_the_plan_says_how_many():
    """They are not refused where the number of persons may be private: they fail, nearly always."""
    study = pm.Study(pm.Table({"who": [1], "y": [1.0], "g": ["a"]}, person="who"), epsilon=1.0)
    study.add("table", pm.Mean("y", by="g", keys=["a", "b"]))
    study.add("level", pm.Mean("y", assume=(0, 1)))
    plan = study.plan(4000)
    line = plan.lines()[0]
    # 150 people over epsilon, halved by replace-one
    assert line.least_persons == pytest.approx(300 / plan.parts[0].own.epsilon, abs=2)


@pytest.mark.parametrize(("keys", "hidden"), [(range(20), True), (range(2), False)])
def test_a_plan_says_which_groups_it_expects_to_be_suppressed(keys, hidden):
    table = records()
    made = pm.Study({**table, "g": table["who"] % 20}, person="who", epsilon=1.0)
    made.add("level", pm.Mean("y"))
    made.add("parts", pm.Mean("y", by="g", keys=tuple(keys)))
    made.add("trend", pm.Curve("y", "t", bins=[0, 1, 2, 3, 4]))
    level, parts, trend = made.plan(700).lines()
    assert ("20 groups of about 35 people are expected to be suppressed" in parts.reason) == hidden
    assert "suppressed" not in level.reason + trend.reason  # bins have rules of their own


def test_an_error_below_that_of_sampling_is_refused():
    made = pm.Study(TABLE, epsilon=2.0)
    made.add("exact", pm.Mean("y", assume=LIMITS), error=0.01, guess_sd=1.0)
    with pytest.raises(InfeasibleError, match="is below the sampling error"):
        made.plan(PERSONS)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.25, 1e-9 + 0.7, 0.999999999999])
def test_parts_are_decimals_rounded_down(value):
    found = down(Fraction(value))
    assert exact_fraction(found) <= Fraction(value) < exact_fraction(found) + Fraction(3, 10**12)
    small = significant(value * 1e-7)
    assert exact_fraction(small) <= Fraction(value * 1e-7)
    assert small == pytest.approx(value * 1e-7, rel=1e-10)


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"name": "a/b"}, "name"),
        ({"name": "level"}, "is already used"),
        ({"weight": 0}, "weight"),
        ({"error": 0.1}, "guess_sd"),
        ({"error": 0.1, "guess_sd": 1.0, "weight": 2.0}, "one"),
        ({"scale": 0.0}, "scale"),
        ({"error": 0.1, "guess_sd": 1.0, "scale": 0.1}, "scale=0.1: cannot be combined"),
        ({"question": "mean"}, "question"),
    ],
)
def test_wrong_questions_are_refused_when_they_are_added(arguments, word):
    said = {"name": "new", "question": pm.Mean("y")} | arguments
    with pytest.raises(ArgumentError, match=word):
        study().add(said.pop("name"), said.pop("question"), **said)


def test_a_study_without_questions_is_refused():
    with pytest.raises(ArgumentError, match="^questions are required"):
        pm.Study(TABLE, epsilon=1.0).plan(PERSONS)


# --- one charge -----------------------------------------------------------------------------------
@pytest.mark.slow
def test_the_ledger_is_charged_once_and_nothing_is_spent_on_a_refusal():
    ledger = pm.Ledger(epsilon=3.0, delta=1e-6)
    found = study(noise=None).release(ledger=ledger, analyst="ann", label="board")
    (entry,) = ledger.entries
    assert (entry.label, entry.about["analyst"]) == ("board", "ann")
    assert "level (mean)" in entry.about["questions"]
    assert entry.about["plan"] == found.plan.digest
    assert float(entry.amount.epsilon) == 2.0
    with pytest.raises(pm.BudgetExceededError):
        study().release(ledger=ledger)
    assert len(ledger.entries) == 1
    assert pm.verify(found, ledger=ledger)


# --- failures -------------------------------------------------------------------------------------
def failing():
    return pm.Mean("y", assume=pm.SubGaussian(sd=1e-9))


@pytest.mark.slow
def test_a_question_that_fails_privately_does_not_stop_the_others():
    made = study(noise=3, delta=1e-9)
    made.add("lost", failing())
    made.add("after", pm.Mean("x", assume=(-5, 5)))
    found = made.release()
    assert found.failed == ("lost",)
    assert abs(found["after"].estimate[0]) < 1
    assert "lost" in str(found)
    assert found.guarantee.verify()


@dataclass(frozen=True)
class Broken:
    """A question whose plan breaks when it runs."""

    kind: ClassVar[str] = "mean"
    inner: object

    @property
    def summary(self):
        return self.inner.summary

    def with_public_facts(self, table):
        return self

    def estimator(self, columns, cap, budget):
        inner = self.inner.estimator(columns, cap, budget)

        class Breaks:
            def plan(self, budget, shape):
                made = inner.plan(budget, shape)

                class Plan(type(made)):
                    fixed = False

                    def run(self, curator):
                        (sums,) = curator.people.interval_sums([ClipInterval(*LIMITS)])
                        if sums.present % 2:
                            raise RuntimeError("private-value-xyz")
                        raise MemoryError

                from dataclasses import fields

                return Plan(**{item.name: getattr(made, item.name) for item in fields(made)})

        return Breaks()

    def told(self, release):
        return release


@pytest.mark.slow
def test_an_error_after_the_charge_keeps_the_others_and_quotes_nothing():
    made = study(noise=None)
    made.add("broken", Broken(pm.Mean("y", assume=LIMITS)))
    found = made.release()
    assert found.failed == ("broken",)
    stored = json.dumps(found.to_dict())
    assert "private-value-xyz" not in stored
    assert "RuntimeError" not in stored
    assert found.to_dict()["questions"][-1]["status"] == "failed"
    assert pm.verify(json.loads(stored))


def test_which_error_it_was_depends_on_records_and_is_told_nowhere():
    """Two tables whose runs break with different exceptions give the same words."""
    told = []
    for dropped in (0, 1):
        values = records()
        values["y"] = np.where(values["who"] < dropped, np.nan, values["y"])
        made = pm.Study(pm.Table(values, person="who"), epsilon=1.0, noise=SimulatedNoise(1))
        made.add("broken", Broken(pm.Mean("y", assume=LIMITS)))
        found = made.release()
        stored = found.to_dict()
        told.append((str(found), repr(found), stored["questions"], found.rows()))
        assert not any(word in str(told) for word in ("RuntimeError", "MemoryError", "xyz"))
        from privmean.study.study_report import ACCOUNTING, pages

        html = pages(stored)
        assert "Its text is withheld" in html[ACCOUNTING]
        assert not any(word in str(html) for word in ("RuntimeError", "MemoryError"))
    assert str(told[0]) == str(told[1])


# --- the stored study -----------------------------------------------------------------------------
def test_a_stored_study_verifies_and_so_does_a_release_taken_out(real):
    stored = json.loads(json.dumps(real.to_dict(), allow_nan=False))
    found = pm.verify(stored)
    assert found, found.describe()
    assert "no line is left over" in found.describe()
    one = stored["questions"][1]["release"]
    assert pm.verify(one)
    assert "part of the study" in one["guarantee"]["note"]


def test_a_release_taken_out_of_a_study_is_not_charged_again(real):
    """Its bill holds shared looks in full, and the study was charged: by hand as well as read from
    a file."""
    for ledger in (pm.Ledger(epsilon=50.0, delta=1e-3), pm.Ledger(rho=50.0)):
        for name in real:
            stored = json.loads(json.dumps(real[name].to_dict()))["guarantee"]
            for promise in (real[name].guarantee, Guarantee.from_dict(stored)):
                with pytest.raises(ArgumentError, match="charged with its study"):
                    ledger.charge(promise)
        assert not ledger.entries
    ledger = pm.Ledger(epsilon=50.0, delta=1e-3)
    assert ledger.charge(real.guarantee).number == 1


def remade(stored):
    """With digests made anew, as whoever forges a file can."""
    guarantee = stored["guarantee"]
    guarantee.pop("digest", None)
    guarantee["digest"] = digest(PURPOSE, guarantee)
    stored[PROVENANCE]["digest"] = digest_of(stored)
    return stored


FORGERIES = {
    "a line removed": lambda s: s["guarantee"]["mechanisms"].pop(2),
    "a line relabelled": lambda s: s["guarantee"]["mechanisms"][0].update(name="other: whole"),
    "a line made cheaper": lambda s: s["guarantee"]["mechanisms"][0].update(epsilon="1/100000"),
    "a look left out": lambda s: s.update(shared_locations=[]),
    "a look that is not used": lambda s: s["questions"][0].update(shared_locations=[]),
    "a look's line given to a question": lambda s: (
        s["shared_locations"][0]["lines"].pop(),
        s["questions"][0]["lines"].append(4),
    ),
    "a question removed": lambda s: s["questions"].pop(1),
    "questions swapped": lambda s: s["questions"][0].update(lines=s["questions"][1]["lines"]),
    "an estimate changed": lambda s: s["questions"][0]["release"]["estimate"].__setitem__(0, 9.0),
    "a release from elsewhere": lambda s: s["questions"][1].update(
        release=s["questions"][2]["release"]
    ),
    "a promise made smaller": lambda s: s["guarantee"].update(epsilon=0.5),
    "no release": lambda s: s["questions"][0].update(release=None),
    "a release that hides its study": lambda s: (
        s["questions"][1]["release"]["guarantee"].pop("parent_run"),
        remade(s["questions"][1]["release"]),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_was_changed_is_noticed_by_the_digest_and_by_the_bill(real, name):
    stored = json.loads(json.dumps(real.to_dict()))
    FORGERIES[name](stored)
    assert any("digest does not fit" in problem for problem in pm.verify(stored).problems)
    assert not pm.verify(remade(stored)), name


@pytest.mark.slow
def test_a_simulated_study_does_not_verify():
    assert not pm.verify(study().release())


# --- together, tables -----------------------------------------------------------------------------
@pytest.mark.slow
def test_simultaneous_intervals_are_bonferronis():
    apart = study(noise=5).release()
    together = study(noise=5, simultaneous=True).release()
    lines = len(apart.rows())
    assert lines == 8
    assert together["level"].level == pytest.approx(1 - 0.05 / lines)
    for (_, a), (_, b) in zip(apart.rows(), together.rows(), strict=True):
        assert a.estimate == b.estimate
        assert b.lower <= a.lower
        assert a.upper <= b.upper
    stored = together.to_dict()
    assert stored["simultaneous"] is True
    assert stored["questions"][0]["release"]["interval"]["level"] > 0.99


def test_all_rows_are_one_frame(real):
    frame = real.to_frame("polars")
    assert frame.columns[:2] == ["question", "term"]
    assert frame["question"].to_list() == ["level", "limited", *["trend"] * 4, *["slope"] * 2]


def test_equal_summaries_are_reduced_once(monkeypatch):
    from privmean.data.table import RecordMeans

    found = []
    once = RecordMeans.reduce
    monkeypatch.setattr(RecordMeans, "reduce", lambda s, t: found.append(s) or once(s, t))
    made = pm.Study(pm.Table(records(), person="who"), epsilon=1.0, noise=SimulatedNoise(1))
    made.add("a", pm.Mean("y"))
    made.add("b", pm.Mean("y", assume=LIMITS))
    made.release()
    assert len(found) == 1


def test_add_remove_needs_a_guess_and_keeps_its_relation():
    bare = pm.Study(TABLE, epsilon=1.0, neighbors="add-remove").add("a", pm.Mean("y"))
    for act in (bare.plan, bare.release):
        with pytest.raises(ArgumentError, match="n_guess"):
            act()
    made = pm.Study(
        TABLE, epsilon=3.0, neighbors="add-remove", n_guess=PERSONS, noise=SimulatedNoise(2)
    )
    made.add("a", pm.Mean("y")).add("b", pm.Mean("x", assume=(-5, 5)))
    found = made.release()
    assert found.guarantee.neighbors == "add-remove"
    assert found.guarantee.verify()
    assert copy.deepcopy(found.plan.digest) == made.plan().digest


def test_a_print_says_the_number_of_people_that_is_public():
    """Even where the first question counts people with noise."""
    columns = records()
    table = pm.Table(columns | {"g": columns["who"] % 2}, person="who")
    asked = pm.Study(table, epsilon=2, noise=SimulatedNoise(1))
    asked.add("groups", pm.Mean("y", by="g", keys=(0, 1)))
    asked.add("level", pm.Mean("y", assume=LIMITS))
    found = asked.release()
    assert "(noisy)" in str(found["groups"])
    assert f"n = {PERSONS:,} people (public)" in str(found)
