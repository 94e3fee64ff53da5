"""One private look at a column, for every question about it: drawn once, billed once, in full."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.means.region_mean import (
    RegionMean,
    SharedLocationQuery,
    centre_of,
    spread_of,
)
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.pipeline import perform, run_step
from privmean.privacy.budget import Budget, exact_fraction, floor_epsilon
from privmean.privacy.compose import all_dominated, dominates
from privmean.privacy.privacy_events import Gaussian, Laplace, Pure, Selection
from privmean.study.shared_locations import SharedLocationPlan
from privmean.study.stored_answers import AnswerLog

N = 3000


def records(seed=4, persons=N):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), 4)
    y = np.repeat(rng.normal(50, 8, persons), 4) + rng.normal(0, 5, who.size)
    x = 0.1 * y + rng.normal(0, 1, who.size)
    return {"who": who, "t": rng.uniform(0, 4, who.size), "x": x, "y": y}


def study(values=None, *, trend=True, **terms):
    table = pm.Table(records() if values is None else values, person="who")
    made = pm.Study(table, **({"epsilon": 3.0, "delta": 1e-6, "noise": SimulatedNoise(1)} | terms))
    made.add("level", pm.Mean("y"))
    if trend:
        made.add("trend", pm.Curve("y", "t", bins=[0, 1, 2, 3, 4]))
    made.add("middle", pm.Quantile("y"))
    made.add("slope", pm.Regression("y ~ x"))
    return made


TABLES = {
    "normal": lambda rng: rng.normal(50, 8, N),
    "nobody": lambda rng: np.full(N, np.nan),
    "one value": lambda rng: np.full(N, 7.0),
    "zeros": lambda rng: np.zeros(N),
    "few": lambda rng: np.where(np.arange(N) < 9, 1.0, np.nan),
    "far": lambda rng: rng.normal(1e9, 1, N),
    "heavy": lambda rng: rng.standard_cauchy(N) ** 3,
    "two places": lambda rng: np.where(rng.random(N) < 0.5, -1e6, 1e-6),
    "infinite": lambda rng: np.where(rng.random(N) < 0.5, np.inf, 1.0),
}


# --- the look -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("epsilon", [0.25, 2.0])
def test_a_look_asks_the_same_lines_whatever_it_sees(name, epsilon):
    people = pm.read(TABLES[name](np.random.default_rng(1)))
    look = SharedLocationQuery.of("y", N, Fraction(epsilon))
    curator = TrustedCurator(people, SimulatedNoise(2))
    look.run(curator)
    assert curator.events == look.events
    assert sum(line.pure for line in look.events) == look.pure


def test_prices_are_those_of_the_default_mean_on_its_usual_path():
    look = SharedLocationQuery.of("y", 4711, Fraction(1, 4))
    assert float(look.center) == pytest.approx(100 / 4711)
    assert look.tails == floor_epsilon((Fraction(1, 4) - look.center) * Fraction(0.4))
    assert look.left == Fraction(1, 4) - look.center - look.tails
    assert SharedLocationQuery.of("y", 500, Fraction(1, 4)) is None  # too few to share one


def test_centre_and_spread_are_read_off_what_was_paid_for():
    rng = np.random.default_rng(5)
    for middle, sd in ((50.0, 8.0), (0.0, 1.0), (-3.0, 0.01), (1e5, 10.0)):
        people = pm.read(rng.normal(middle, sd, 20000))
        look = SharedLocationQuery.of("y", 20000, Fraction(1))
        place = run_step(look.run, look.events, people, noise=SimulatedNoise(3))
        assert place.lower < middle - 2 * sd
        assert place.upper > middle + 2 * sd
        assert abs(centre_of(place) - middle) < 2 * sd
        assert sd / 2 < spread_of(place) < 4 * sd


# --- plans that work from it ----------------------------------------------------------------------
@pytest.mark.parametrize("name", TABLES)
def test_the_lines_of_a_located_mean_cover_any_run(name):
    people = pm.read(TABLES[name](np.random.default_rng(1)))
    look = SharedLocationQuery.of("y", N, Fraction(1))
    for seed in range(3):
        place = run_step(look.run, look.events, people, noise=SimulatedNoise(seed))
        inner = RegionMean().plan(Budget(0.5), PublicShape(("y",), N))
        plan = SharedLocationPlan(Budget(3.0), Budget(0.5), inner, (look,)).after({"y": place})
        made = perform(plan, people, noise=SimulatedNoise(seed + 50), paid=plan.paid)
        found = made.release
        bill = found.guarantee.mechanisms
        assert bill == (*plan.paid, *made.asked)
        assert all_dominated(bill[len(plan.paid) :], inner.events)
        assert sum(line.pure for line in inner.events) <= Fraction(1, 2)
        assert math.isnan(found.estimate[0]) == (found.status == "failed")


@pytest.mark.slow
def test_one_look_serves_all_questions_about_a_column():
    made = study(delta=0.0)
    plan = made.plan(N)
    assert [look.column for look in plan.shared_locations] == ["y"]
    assert [part.name for part in plan.parts if part.looks] == ["level", "middle", "slope"]
    places = []
    draws = AnswerLog({}, lambda at, *_: places.append(at))
    found = made.release(draws=draws.of)
    looks = [place for place in places if place.startswith("look: y/")]
    assert len(looks) == len(set(looks)) == len(plan.shared_locations[0].events)
    assert places[: len(looks)] == looks  # before every question
    assert abs(found["trend"].estimate[0] - 50) < 3  # people in several bins: it looks for itself
    assert abs(found["level"].estimate[0] - 50) < 2
    assert abs(found["middle"].estimate[0] - 50) < 2
    assert not found.failed


@pytest.mark.slow
def test_the_bill_holds_a_look_once_and_every_release_in_full():
    found = study(noise=None, delta=0.0).release()
    lines = Counter(line.name for line in found.guarantee.mechanisms)
    plan = found.plan
    assert lines["look: y: tail histogram"] == 1
    assert lines["look: y: center"] == 1
    for part in plan.parts:
        own = found[part.name].guarantee.mechanisms
        if not part.looks:
            assert found[part.name].guarantee.verify()
            continue
        assert own[: len(plan.shared_locations[0].events)] == part.plan.paid
        assert all_dominated(own, (*part.plan.paid, *part.plan.inner.events))
        assert found[part.name].guarantee.verify()
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert pm.verify(stored), pm.verify(stored).describe()
    assert stored["shared_locations"][0]["serves"] == ["level", "middle", "slope"]
    assert stored["questions"][2]["shared_locations"] == ["y"]


def test_a_question_with_a_wanted_error_counts_what_it_shares():
    made = study()
    made.add("exact", pm.Mean("y", assume=(0, 100)), error=0.5, guess_sd=8.0)
    plan = made.plan(N)
    (part,) = (part for part in plan.parts if part.name == "exact")
    assert part.plan.predict(8.0)["rmse"] <= 0.5
    assert plan.guarantee.verify()


@pytest.mark.slow
def test_wishes_beside_looks_are_met_or_refused_with_the_least_epsilon():
    made = pm.Study(pm.Table(records(), person="who"), epsilon=0.4)
    made.add("a", pm.Mean("y"), error=0.3, guess_sd=9.0)
    made.add("b", pm.Mean("x"), error=0.05, guess_sd=1.2)
    with pytest.raises(InfeasibleError, match=r"Give epsilon=\d.*, or ") as caught:
        made.plan(N)
    least = float(str(caught.value).split("Give epsilon=")[1].split(",")[0])
    made = pm.Study(pm.Table(records(), person="who"), epsilon=least)
    made.add("a", pm.Mean("y"), error=0.3, guess_sd=9.0)
    made.add("b", pm.Mean("x"), error=0.05, guess_sd=1.2)
    errors = [line.predicted_error for line in made.plan(N).lines()]
    assert errors[0] <= 0.3
    assert errors[1] <= 0.05


def test_nothing_is_shared_where_prices_would_be_private_or_nobody_needs_a_look():
    hidden = study(neighbors="add-remove", n_guess=N)
    assert hidden.plan().shared_locations == ()
    alone = pm.Study(pm.Table(records(), person="who"), epsilon=3.0)
    alone.add("trend", pm.Curve("y", "t", bins=[0, 2, 4]))
    alone.add("middle", pm.Quantile("y"))
    assert alone.plan(N).shared_locations == ()
    people = pm.read(records(), person="who", values="y")
    for asked in ((pm.Mean(), pm.Quantile()), (pm.Mean("y"), pm.Quantile("y"))):
        reduced = pm.Study(people, epsilon=3.0, delta=1e-6, noise=SimulatedNoise(1))
        reduced.add("a", asked[0]).add("b", asked[1])
        assert reduced.plan().shared_locations == ()
        assert not reduced.release().failed


@pytest.mark.slow
def test_a_look_that_finds_nothing_leaves_its_questions_unanswered_and_no_others():
    values = records()
    made = study({**values, "y": np.full(values["y"].size, np.nan)})
    made.add("other", pm.Mean("x", assume=(0, 10)))
    found = made.release()
    stated = {answer.item.name: answer.stated[0] for answer in found.answers}
    assert stated["level"] == "failed"
    assert stated["trend"] == stated["middle"] == "failed"
    assert stated["other"] == "ok"
    assert "shared location query" in found.answers[2].advice
    assert found.guarantee.verify()


@pytest.mark.slow
def test_a_look_that_breaks_leaves_its_questions_unanswered(monkeypatch):
    def broken(self, curator):
        raise RuntimeError("private-value")

    monkeypatch.setattr(SharedLocationQuery, "run", broken)
    made = study()
    made.add("other", pm.Mean("x", assume=(0, 10)))
    found = made.release()
    looked = [found.answers[place] for place in (0, 2, 3)]
    assert {answer.stated[0] for answer in looked} == {"failed"}
    assert found["trend"].status == "ok"
    assert found["other"].status == "ok"
    assert "private-value" not in str(found.to_dict())


# --- what covers what -----------------------------------------------------------------------------
def laplace(epsilon, *, joint=False, spread=1):
    moved = Fraction(spread)
    return Laplace(
        "x", moved, moved / Fraction(epsilon), spread, joint=joint, neighbors="replace-one"
    )


def test_a_line_covers_what_costs_no_more_under_every_bound():
    whole = Pure("whole", Fraction(1, 2), neighbors="replace-one")
    assert dominates(whole, laplace("1/2"))
    assert dominates(whole, Selection("s", Fraction(1, 2), neighbors="replace-one"))
    assert not dominates(whole, laplace("51/100"))
    assert not dominates(whole, Gaussian("g", 1.0, 1e9, 1, neighbors="replace-one"))
    assert dominates(laplace("1/2", joint=True), laplace("1/2", spread=2))
    assert not dominates(laplace("1/2"), laplace("1/3"))  # of another shape: not compared
    assert not dominates(
        laplace("1/2"), Laplace("x", Fraction(1), Fraction(2), neighbors="add-remove")
    )
    two, one = (Gaussian("g", 2.0**21 * mu, 2.0**21, 3, neighbors="replace-one") for mu in (2, 1))
    assert dominates(two, one)
    assert not dominates(one, two)


def test_every_paid_line_is_used_once():
    whole = Pure("whole", Fraction(1, 2), neighbors="replace-one")
    half = laplace("1/2")
    assert all_dominated([half, half], [whole, half])
    assert not all_dominated([half, half], [whole])
    assert all_dominated([], [whole])
    assert not all_dominated(
        [laplace("1/4"), laplace("1/2")], [laplace("1/4", joint=True), half][:1]
    )
    assert all_dominated(
        [laplace("1/3"), half], [whole, Pure("w", Fraction(1, 3), neighbors="replace-one")]
    )


def test_a_looked_plan_claims_its_own_lines_and_its_looks():
    part = study(delta=0.0, epsilon=4.0, trend=False).plan(N).parts[0]
    assert isinstance(part.plan, SharedLocationPlan)
    assert part.plan.events == (*part.plan.paid, *part.plan.inner.events)
    assert sum(line.pure for line in part.plan.events) <= exact_fraction(part.budget.epsilon)
