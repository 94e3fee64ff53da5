"""Every print has one layout, in all its forms; golden releases and pages hold whole texts."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import privmean as pm
from privmean.local.aggregators.aggregator import Aggregator
from privmean.local.clients.client import randomize
from privmean.local.exact_coins import SimulatedEntropy
from privmean.local.round_builders import items_round, mean_round
from privmean.local.round_plan import plan_round
from privmean.noise.noise_source import SimulatedNoise
from privmean.output import WIDTH, Output, TableRow, decimals, number
from privmean.pipeline import execute
from registry import REGISTRY

INDUSTRIES = [4, 6, 7, 11]


@cache
def table():
    return pm.Table(pm.example("nlswork"), person="person_id")


@cache
def release(name):
    if name == "groups":
        groups = {"by": "ind_code", "keys": INDUSTRIES, "contrasts": ["7 - 6"]}
        return pm.mean(table(), "ln_wage", **groups, epsilon=1, noise=SimulatedNoise(2))
    assert name == "regression"
    formula, noise = "ln_wage ~ collgrad + ttl_exp + tenure", SimulatedNoise(1)
    return pm.regress(table(), formula, epsilon=3, delta=1e-6, noise=noise)


@cache
def study():
    made = pm.Study(table(), name="women's wages", epsilon=2)
    made.add("level", pm.Mean("ln_wage"))
    made.add("trend", pm.Regression("ln_wage ~ tenure"))
    return made


def blocks(text):
    """The blocks of a print without its warning: tables as lines, the rest as paragraphs."""
    found = []
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("***")]
        if re.match(r" {3,}", lines[0]):
            found.append([re.sub(r" +$", "", line) for line in lines])
            continue
        joined = []
        for line in lines:
            if line.startswith(" ") and joined:
                joined[-1] += f" {line.strip()}"
            else:
                joined.append(line)
        found.append([re.sub(r" +", " ", line) for line in joined])
    return found


def check(text):
    """At most 80 columns, nothing cut, nothing that is not printed."""
    for line in text.splitlines():
        assert len(line) <= WIDTH, line
    assert "…" not in text
    assert "..." not in text


def test_points_are_aligned_and_decimals_shared_in_a_unit():
    found = blocks(str(release("groups")))[1][1:]
    numbers = [row for row in found if row != "Differences"]
    assert {row.index(".") for row in numbers} == {11}
    assert {len(row[row.index(".") :].split()[0]) for row in numbers} == {4}
    pooled = blocks(str(release("regression")))[1][1:]
    assert len({row.index(".") for row in pooled}) == 1
    assert {len(row[row.index(".") :].split()[0]) for row in pooled} == {4, 5}


def test_numbers():
    errors = [123.0, 12.0, 1.2, 0.12, 0.0064, 1e-9, 0.0]
    assert [decimals(item) for item in errors] == [0, 0, 1, 2, 4, 6, 6]
    assert number(float("nan"), 2) == "-"
    assert number(-0.001, 2) == "0.00"
    assert number(1234.5, 1) == "1234.5"
    assert number(3.1e-12, 6, 1e-13) == "3.1e-12"
    assert number(2.0**60, 2) == "1.153e+18"


def test_other_forms_have_the_same_cells():
    made = release("groups")
    table = made.output()
    cells = [cell for row in table.rows for cell in row.cells if cell]
    for text in (made._repr_html_(), made.to_markdown(), made.to_latex(), str(made)):
        assert [cell for cell in cells if cell not in text] == []
    page = made._repr_html_()
    assert page.count("<table") == 1
    assert page.count("<svg") == 2  # the groups, and their comparisons on an axis of their own
    assert not re.search(r"#[0-9a-f]{3,6}\b|white|black", page)  # the colors of the page around
    frame = made.to_frame("pandas")
    assert frame["estimate"].tolist() == [row.estimate for row in made.rows()]
    lines = made.to_markdown().splitlines()
    assert lines[6] == "| | estimate | std err | CI lower | CI upper | n |"
    assert lines[8] == "| 4 | 1.649 | 0.012 | 1.624 | 1.675 | 1,055 |"
    assert r"4 & 1.649 & 0.012 & 1.624 & 1.675 & 1,055 \\" in made.to_latex()


def test_signs_of_the_forms_are_escaped():
    made = Output("a_b & <q>", columns=("x%<q>",), rows=(TableRow("k|<b>", ("-1.5",)),))
    assert "<q>" not in made.html()
    assert "&lt;b&gt;" in made.html()
    assert r"k\|\<b\>" in made.markdown()
    latex = made.latex()
    assert r"a\_b \& " in latex
    assert "$-$1.5" in latex
    assert r"x\%" in latex


def test_a_wide_table_is_parted_into_blocks_of_columns():
    heads = tuple(f"column {j}" for j in range(12))
    made = Output("wide", columns=heads, rows=(TableRow("row " * 9, ("1.25",) * 12),))
    text = made.text()
    check(text)
    assert all(head in text for head in heads)
    assert text.count("1.25") == 12


def test_no_form_shows_control_characters_of_a_name():
    name = "a\x1b[31m\u202eb"
    who = list(range(400))
    rows = {"who": who, name: [float(i % 7) for i in who], f"{name}g": [i % 2 for i in who]}
    table = pm.Table(rows, person="who")
    found = pm.mean(table, name, bounds=(0, 7), epsilon=1, noise=SimulatedNoise(1))
    groups = pm.mean(table, name, by=f"{name}g", keys=[0, 1], epsilon=9, noise=SimulatedNoise(1))
    for shown in (found, groups):
        forms = (str(shown), shown.to_markdown(), shown.to_latex(), shown._repr_html_())
        for text in (*forms, shown.details()):
            assert all(sign.isprintable() or sign == "\n" for sign in text)


def test_names_of_any_length_and_kind():
    keys = ["x" * 300, "new\nline", "tab\t", "", "ключ"]
    who = np.arange(4000)
    data = {"who": who, "key": [keys[i % 5] for i in who], "x": (who % 7).astype(float)}
    terms = {"by": "key", "keys": keys, "epsilon": 2, "noise": SimulatedNoise(1)}
    check(str(pm.mean(pm.Table(data, person="who"), "x", **terms)))


@pytest.mark.parametrize("entry", REGISTRY, ids=lambda entry: entry.name)
def test_every_estimator_prints_in_80_columns(entry):
    budget, relation, dimension = entry.budgets[-1], entry.relations[0], entry.dimensions[-1]
    plan = entry.plan(budget, relation, dimension)
    check(str(plan))
    values = np.random.default_rng(3).normal(3.0, 1.0, (600, dimension))
    made = execute(plan, entry.table(values), noise=SimulatedNoise(1))
    for text in (str(made), made.summary(noise=True), made.details()):
        check(text)


@pytest.mark.slow
def test_studies_streams_and_local_estimates_have_the_layout():
    made = study().release(noise=SimulatedNoise(1))
    stream = pm.MeanStream(
        max_participations=4, min_separation=4, steps=64, bounds=(0, 1), epsilon=1, delta=1e-6,
        noise=SimulatedNoise(1),
    )  # fmt: skip
    steps = [item for k in range(12) for item in stream.update(f"p{k % 4}", 0.5)]
    rounds = mean_round(0, 1, epsilon=2, persons=500), items_round(16, epsilon=2, persons=500)
    prints = [made, study().plan(4711), steps[-1], *map(plan_round, rounds)]
    for round_, value in zip(rounds, (0.3, 3), strict=True):
        aggregator, entropy = Aggregator(round_), SimulatedEntropy(1)
        for _ in range(500):
            aggregator.add(randomize(round_, value, epsilon=2, entropy=entropy))
        prints.append(aggregator.estimate())
    for item in prints:
        check(str(item))
        assert item.to_markdown().startswith("**")
        assert "<table>" in item._repr_html_()
        assert r"\begin{tabular}" in item.to_latex()
    assert "level: Mean of ln_wage" in str(made)
