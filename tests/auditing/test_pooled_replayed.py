"""A regression, whose every answer is read from records: one person's records become others.

`privmean audit` replays these questions too, on sums of persons that are put together; here every
table is read anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import privmean as pm
from auditing.filed import compared
from auditing.rows import Recorder
from privmean.auditing.call_list import plan_of
from privmean.auditing.findings import Findings
from privmean.auditing.replay import Transcript
from privmean.data.schema import shape_of
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

PERSONS = 150
STRANGE = (None, math.nan, math.inf, 1e308, -1e308, 5e-324, 0.0, 1.0, 3.0, -3.0, 2.0**40, 2.0**-30)

Records = list[tuple[str, Any, Any]]


def base(rng: np.random.Generator) -> Records:
    rows: Records = []
    for person in range(PERSONS):
        for x in rng.normal(1, 1, int(rng.integers(1, 4))):
            rows.append((f"p{person:03d}", float(x), float(2 * x + rng.normal(0, 0.3))))
    return rows


def hostile(rows: Records, relation: str, rng: np.random.Generator) -> Records:
    who = f"p{int(rng.integers(PERSONS)):03d}"
    others = [row for row in rows if row[0] != who]
    if relation == ADD_REMOVE and rng.random() < 0.5:
        return others
    own: Records = []
    for _ in range(int(rng.choice([1, 2, 20]))):
        x, y = (STRANGE[int(k)] for k in rng.integers(len(STRANGE), size=2))
        own.append((who, x, y))
    if relation == ADD_REMOVE:
        return rows + [("zz", x, y) for _, x, y in own]
    return own + others


def people_of(rows: Records, question: Any) -> Any:
    schema = {"id": pl.String, "x": pl.Float64, "y": pl.Float64}
    return pm.Table(pl.DataFrame(rows, schema=schema, orient="row"), person="id").people(
        question.summary
    )


BUDGETS = ({"epsilon": 60.0}, {"epsilon": 60.0, "delta": 1e-6}, {"rho": 30.0})


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("effect", ["pooled", "within", "per_person"])
@pytest.mark.parametrize("said", BUDGETS, ids=str)
def test_one_persons_records_move_it_as_billed(effect, relation, said):
    rng = np.random.default_rng(len(effect) + len(relation))
    question = pm.Regression("y ~ x", effect=effect)
    rows = base(rng)
    people = people_of(rows, question)
    guess = None if relation == REPLACE_ONE else PERSONS
    budget = Budget(**said, neighbors=relation)
    plan = plan_of(question, budget, shape_of(people, relation, guess))
    tape, found = Transcript(), Findings()
    outcome = plan.run(Recorder(people, SimulatedNoise(1), tape))
    assert len(tape.answers) > 5
    for _ in range(6):
        other = people_of(hostile(rows, relation, rng), question)
        compared(plan, tape, outcome, other, found)
    assert found.count == 0, found.violations
    assert found.runs == 6
    assert max(item.largest for item in found.mechanisms.values()) > 0.9  # they are hostile
