"""Every noisy answer of every estimator is kept as text and comes back bit for bit."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE
from privmean.study.stored_answers import RESULTS, NoAnswer, read, written
from registry import REGISTRY


def same(a, b):
    if isinstance(a, np.ndarray | np.generic):
        assert type(a) is type(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        return a.tobytes() == b.tobytes() if a.dtype != object else a.tolist() == b.tolist()
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if is_dataclass(a):
        return all(same(getattr(a, x.name), getattr(b, x.name)) for x in fields(a))
    if isinstance(a, float):
        return a.hex() == b.hex()
    return a == b


class Watched:
    """Keeps nothing; looks at what would be kept."""

    def __init__(self):
        self.kinds = set()

    def __call__(self, mechanism, draw):
        noisy = draw()
        assert same(noisy, read(written(noisy))), type(mechanism).__name__
        self.kinds.add(type(mechanism).__name__)
        return noisy


@pytest.mark.parametrize("entry", REGISTRY, ids=lambda entry: entry.name)
def test_answers_of_every_estimator_come_back(entry):
    from privmean.data.schema import shape_of
    from privmean.pipeline import perform

    d = entry.dimensions[-1]
    values = np.random.default_rng(5).normal(3, 1, (600, d))
    people = entry.table(values)
    watched = Watched()
    for relation in entry.relations:
        budget = replace(entry.budgets[0], neighbors=relation)
        guess = 600 if relation == ADD_REMOVE else None
        plan = entry.make(1.0).plan(budget, shape_of(people, relation, guess))
        perform(plan, people, noise=SimulatedNoise(1), draws=watched)
    assert watched.kinds


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        pm.Mean("y", by="g", keys=("a", "b", "c")),
        pm.Mean("y", by="g"),
        pm.Mean("y", by="g", keys=("a", "b"), membership="public"),
        pm.Curve("y", "t", bins=[0, 1, 2]),
        pm.Quantile("y"),
        pm.Variance("y"),
        pm.Regression("y ~ t"),
        pm.Regression("y ~ t", effect="per_person"),
    ],
    ids=lambda question: repr(question)[:40],
)
def test_answers_of_every_question_come_back(question):
    from privmean.api.run_question import make_plan
    from privmean.data.schema import shape_of
    from privmean.pipeline import perform

    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(1200), 3)
    table = pm.Table(
        {
            "who": who, "y": rng.normal(5, 1, who.size), "t": rng.uniform(0, 2, who.size),
            "g": np.repeat(rng.choice(list("abc"), 1200), 3),
        },
        person="who",
    )  # fmt: skip
    budget = pm.Budget(4.0, 1e-6, neighbors=question.default_neighbors)
    people = table.people(question.summary)
    guess = 1200 if budget.neighbors == ADD_REMOVE else None
    plan = make_plan(
        question.with_public_facts(table), shape_of(people, budget.neighbors, guess), budget
    )
    watched = Watched()
    perform(plan, people, noise=SimulatedNoise(3), draws=watched)
    assert watched.kinds


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(10**30), 1.5, -0.0, math.nan, math.inf, "text", Fraction(1, 3), [], (),
        {("a", "b"): (1.0, 2.0)}, np.float64(0.1), np.int64(5), np.zeros((0, 3)),
        np.array([[1, 2], [3, 4]]), np.array([2**80, -1], dtype=object), np.array([True]),
        ColumnSums(1.0, 2.0, 3.0, (1.0, 2.0, 3.0), False, "replace-one", cross=(0.5, 0.25)),
    ],
)  # fmt: skip
def test_answers_come_back_bit_for_bit(value):
    assert same(value, read(written(value)))


def test_what_no_mechanism_answers_is_not_written():
    for value in (object(), {1, 2}, pm.Budget(1.0), np.array(["a"])):
        with pytest.raises(TypeError):
            written(value)


def test_results_are_listed_and_nothing_else_is_made():
    assert sorted(RESULTS) == ["ColumnSums", "KeptMean", "NoisyRows", "PointSum"]
    for text in ('["Budget",1.0]', '["eval","1"]', '["__class__"]', '["scalar",["list"]]', "{}"):
        with pytest.raises(NoAnswer):
            read(text)
