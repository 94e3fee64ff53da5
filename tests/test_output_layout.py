"""Every print has one layout: the templates, written out here, beside the prints of real releases.

A template is compared line by line: title and sample, the table with its columns and decimals,
footnotes, sentences and paragraphs. Numbers must agree where the noise is that of the template.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.local.aggregators.aggregator import Aggregator
from privmean.local.clients.client import randomize
from privmean.local.exact_coins import SimulatedEntropy
from privmean.local.round_builders import items_round, mean_round
from privmean.local.round_plan import plan_round
from privmean.noise.noise_source import SimulatedNoise
from privmean.output import WIDTH, Output, TableRow, decimals, number
from privmean.pipeline import execute
from privmean.privacy.budget import REPLACE_ONE
from registry import REGISTRY
from statistics_kit import planned

INDUSTRIES = [4, 6, 7, 11]

MEAN = """\
Mean of ln_wage
n = 4,711 people (public), weighted equally; 95% confidence interval

         estimate  std err  CI lower  CI upper
ln_wage    1.6541   0.0072    1.6389    1.6694

Privacy: epsilon = 1 (pure DP), person level, replace-one. A guess about one
  person that is right 50% of the time without this release is right at most 74%
  of the time with it.
Intervals: include sampling error and privacy noise, as std err does. They
  assume (the guarantee does not): people are independent; no outliers were
  missed (fewer than about 32 people far outside [-1.20, 4.45] could go
  undetected).
Method: default mean. Full record: release.details()
"""

GROUPS = """\
Mean of ln_wage by ind_code
n = 4,203 people (noisy), weighted equally; 95% confidence intervals, pointwise

       estimate  std err  CI lower  CI upper      n
4         1.649    0.012     1.627     1.672  1,056
6         1.419    0.013     1.394     1.444    954
7         1.778    0.020     1.738     1.818    400
11        1.759    0.010     1.738     1.778  1,823
Differences
7 - 6     0.359    0.024     0.312     0.407

Each person counts in one group, that of most of their records; see max_groups.
The n of rows are noisy, too, and need not add up.
Privacy: epsilon = 1 (pure DP), person level, add-remove. A guess whether one
  person is in the data that is right 50% of the time without this release is
  right at most 74% of the time with it; a guess about a person's values, at
  most 89%.
Intervals: include sampling error and privacy noise, as std err does. They
  assume (the guarantee does not): people are independent; no group has more
  than twice the overall share of outliers; no outliers were missed (fewer than
  about 72 people could go undetected).
Method: means by group. Full record: release.details()
"""

COMPARE = """\
p < 1e-6 for the null hypothesis of equal distributions in both arms.
Causal only if the arms were randomized.
"""

REGRESSION = """\
Pooled regression: ln_wage ~ collgrad + ttl_exp + tenure
n = 4,711 people (public), weighted equally; 95% confidence intervals, pointwise

           estimate  std err  CI lower  CI upper
Intercept    1.3481   0.0090    1.3237    1.3726  a
collgrad     0.370    0.015     0.330     0.410   a
ttl_exp      0.0315   0.0017    0.0270    0.0361  a
tenure       0.0203   0.0023    0.0141    0.0265  a

a  outliers_clipped: Some values were clipped; the interval allows for them
   unless they lie far out. Give bounds if a few large values matter. The
   interval assumes that clipping affects all coefficients alike. If the true
   relation may be curved, add a squared term or use clipping_bias='single'
   (wider intervals).

Privacy: epsilon = 3, delta = 1e-06 (approximate DP), person level, replace-one.
  A guess about one person that is right 50% of the time without this release is
  right at most 96% of the time with it.
Intervals: include sampling error and privacy noise, as std err does, and what
  clipping may hide: so they are wider than std err tells. They assume (the
  guarantee does not): people are independent; clipped score contributions
  exceed their bound by at most 50% on average; clipping affects all
  coefficients alike; no outliers were missed (fewer than about 16 people could
  go undetected).
Method: one-step GEE. Full record: release.details()
"""

VARIANCE = """\
Variance of ln_wage between people
n = 4,711 people (public); 95% confidence intervals

               estimate  std err  CI lower  CI upper
variance         0.1784   0.0050    0.1686    0.1964
std deviation    0.4224   0.0059    0.4106    0.4432

Privacy: epsilon = 1 (pure DP), person level, replace-one. A guess about one
  person that is right 50% of the time without this release is right at most 74%
  of the time with it.
Intervals: include sampling error and privacy noise, as std err does, and what
  clipping may hide: so they are wider than std err tells. They assume (the
  guarantee does not): people are independent; squared outliers exceed the
  clipping bounds by at most 50% of the bound on average; no outliers were
  missed (fewer than about 46 people could go undetected).
Method: moment variance. Full record: release.details()
"""

PLAN = """\
Study plan: women's wages
n = 4,711 people (public); epsilon = 2 (pure DP); planning charges nothing

       budget  error*  sampling*  noise*  error* at 2x weight  minimum n
level   33.8%  0.0151     0.0146  0.0040               0.0150        600
trend   50.8%  0.0164     0.0146  0.0075               0.0159      1,183

*  Predicted root mean squared error in between-person standard deviations; pass
   guess_sd for the column's units.
Accounting: basic composition.

Shares:
  level: weight 1; noise is 27% of the sampling error
  trend: weight 1; noise is 51% of the sampling error
Privacy: epsilon = 2 (pure DP), person level, replace-one. A guess about one
  person that is right 50% of the time without this release is right at most 89%
  of the time with it.
"""

FAILED = """\
Mean of value: no estimate
n = 420 people (public)

failed: No estimate was found; the budget was charged. Give bounds, raise
  epsilon, or add people.
Privacy: epsilon = 1, delta = 1e-12 (approximate DP), person level, replace-one.
  A guess about one person that is right 50% of the time without this release is
  right at most 74% of the time with it.
Method: Winsorized mean. Full record: release.details()
"""


@cache
def table():
    return pm.Table(pm.example("nlswork"), person="person_id")


def seeded(ask, *said, **terms):
    return ask(table(), *said, noise=SimulatedNoise(2), **terms)


@cache
def release(name):
    if name == "mean":
        return seeded(pm.mean, "ln_wage", epsilon=1)
    if name == "groups":
        groups = {"by": "ind_code", "keys": INDUSTRIES, "contrasts": ["7 - 6"]}
        return seeded(pm.mean, "ln_wage", **groups, epsilon=1)
    if name == "values by group":
        groups = {"by": "ind_code", "keys": INDUSTRIES, "contrasts": ["7 - 6", "7 / 6"]}
        return seeded(pm.mean, ["ln_wage", "hours"], **groups, epsilon=2)
    if name == "compare":
        return seeded(pm.compare, "ln_wage", arms="collgrad", epsilon=1)
    if name == "pair":
        return seeded(pm.compare, "ln_wage", by="union", pair=("1", "0"), epsilon=1)
    if name == "regression":
        formula, noise = "ln_wage ~ collgrad + ttl_exp + tenure", SimulatedNoise(1)
        return pm.regress(table(), formula, epsilon=3, delta=1e-6, noise=noise)
    if name == "within":
        return seeded(pm.regress, "ln_wage ~ ttl_exp + tenure", effect="within", epsilon=2)
    if name == "per person":
        said = {"effect": "per_person", "epsilon": 3, "delta": 1e-6}
        return seeded(pm.regress, "ln_wage ~ tenure", **said)
    if name == "curve":
        bins = {"time": "year", "bins": [1968, 1975, 1982, 1989], "bounds": (0, 4)}
        return seeded(pm.curve, "ln_wage", **bins, epsilon=1)
    if name == "quantiles":
        return seeded(pm.quantile, "ln_wage", [0.25, 0.5, 0.75], epsilon=1)
    if name == "variance":
        return seeded(pm.variance, "ln_wage", epsilon=1)
    assert name == "no estimate"
    values = np.random.default_rng(5).normal(3, 1, 420)
    tight = {"assume": pm.SubGaussian(sd=1e-7), "epsilon": 1.0, "delta": 1e-12}
    return pm.mean(values, noise=SimulatedNoise(1), **tight)


NAMES = (
    "mean", "groups", "values by group", "compare", "pair", "regression", "within", "per person",
    "curve", "quantiles", "variance", "no estimate",
)  # fmt: skip


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


def without_numbers(found):
    """Digits replaced by 0, so that other noise gives the same text."""
    return [[re.sub(r"\d", "0", line) for line in block] for block in found]


def wanted(text):
    return without_numbers(blocks(text))


@pytest.mark.parametrize(
    ("name", "template"), [("mean", MEAN), ("groups", GROUPS), ("variance", VARIANCE)]
)
def test_print_equals_its_template(name, template):
    assert blocks(str(release(name))) == blocks(template)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "template"), [("regression", REGRESSION), ("no estimate", FAILED)]
)
def test_print_equals_its_template_but_for_numbers_and_advice(name, template):
    found, expected = wanted(str(release(name))), wanted(template)
    if name == "no estimate":
        cause = found[1].pop(0), expected[1].pop(0)
        assert all(text.startswith(f"failed: {CHARGED} ") for text in cause)
    assert found == expected


CHARGED = "No estimate was found; the budget was charged."


def test_comparison_ends_with_p_value_and_condition():
    found = blocks(str(release("compare")))
    assert found[0][0] == "Mean of ln_wage by collgrad"
    assert found[1][-2:][0] == "Differences"
    assert found[1][-1].startswith("1 - 0 ")
    said = [line for line in found[2] if not line.startswith(("Each person", "The n of rows"))]
    assert said[:2] == COMPARE.splitlines()


def test_study_plan_equals_its_template_but_for_numbers():
    found, expected = (
        [
            [re.sub(r"\d[\d,.]*", "0", re.sub(" +", " ", line)) for line in block]
            for block in blocks(text)
        ]
        for text in (str(study().plan(4711)), PLAN)
    )
    assert found == expected


@pytest.mark.slow
def test_titles_and_row_names():
    assert rows_of("curve")[0] == "Mean of ln_wage by year"
    assert rows_of("curve")[3:] == ["[1968, 1975)", "[1975, 1982)", "[1982, 1989)"]
    assert rows_of("quantiles")[0] == "Quantiles of ln_wage (person means)"
    assert rows_of("quantiles")[3:] == ["25%", "50%", "75%"]
    title = "Within-person (fixed-effects) regression: ln_wage ~ ttl_exp + tenure"
    assert rows_of("within")[0] == title
    assert rows_of("per person")[0] == "Mean of person-specific coefficients: ln_wage ~ tenure"
    sample = str(release("per person")).splitlines()[2]
    assert re.match(r"n = 4,711 people \(public\), about [\d,]+ with a fit \(noisy\)", sample)


def rows_of(name):
    """Title, sample, head and row names."""
    found = blocks(str(release(name)))
    head, *rows = found[1]
    return [*found[0], head.split("  ")[0], *(re.split(r" {2,}", row)[0] for row in rows)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_print_has_the_layout(name):
    made = release(name)
    stored = pm.Release.from_dict(made.to_dict())
    for text in (str(made), made.summary(noise=True), made.details(), str(stored)):
        check(text)
    assert "Method: " in str(made)
    if name == "no estimate":
        return
    head = blocks(str(made))[1][0].split()
    assert head[:6] == ["estimate", "std", "err", "CI", "lower", "CI"]
    noisy = blocks(made.summary(noise=True))[1][0]
    assert noisy.split()[7:11] == ["noise", "lo", "noise", "hi"]
    assert "noise lo" not in str(made)


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
    assert lines[8] == "| 4 | 1.649 | 0.012 | 1.627 | 1.672 | 1,056 |"
    assert r"4 & 1.649 & 0.012 & 1.627 & 1.672 & 1,056 \\" in made.to_latex()


def test_signs_of_the_forms_are_escaped():
    made = Output("a_b & c", columns=("x%",), rows=(TableRow("k|<b>", ("-1.5",)),))
    assert "&lt;b&gt;" in made.html()
    assert r"k\|\<b\>" in made.markdown()
    latex = made.latex()
    assert r"a\_b \& c" in latex
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
    known = {"persons": 600} if relation == REPLACE_ONE else {"n_guess": 600}
    plan = planned(entry.make(1.0), budget, dimension=dimension, relation=relation, **known)
    check(str(plan))
    values = np.random.default_rng(3).normal(3.0, 1.0, (600, dimension))
    people = entry.people(values) if entry.people else ArrayPersonTable(values, names(dimension))
    made = execute(plan, people, noise=SimulatedNoise(1))
    for text in (str(made), made.summary(noise=True), made.details()):
        check(text)


def names(dimension):
    return tuple(f"value_{j}" for j in range(dimension))


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
