"""One sentence per release, for readers who are no analysts: what it says, and that it is true."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import privmean as pm
from privmean.inference.status import STATUSES
from privmean.noise.noise_source import SimulatedNoise
from privmean.release.sentences import places_of, sentence, written
from privmean.release.stored_release import Row

SIZE = 4000
TABLE = {
    "who": np.repeat(np.arange(SIZE), 2),
    "pay": np.repeat(np.random.default_rng(1).normal(50, 10, SIZE), 2),
    "x": np.random.default_rng(2).normal(0, 1, 2 * SIZE),
    "t": np.tile([0.5, 1.5], SIZE),
    "arm": np.repeat(np.arange(SIZE) % 2, 2),
    "side": np.where(np.repeat(np.arange(SIZE) % 2, 2), "left", "right"),
    "coin": np.repeat(np.random.default_rng(3).choice(["early", "late"], SIZE), 2),
    "when": np.tile(["early", "late"], SIZE),
}
TABLE["pay"] = TABLE["pay"] + 6 * TABLE["arm"] + 2 * TABLE["x"] + 3 * (TABLE["when"] == "late")
KEYS = {"by": "side", "keys": ["left", "right"]}
ASKED = {  # question: what is asked, and what its sentence looks like
    "mean": (
        (pm.mean, "pay", {}),
        r"The mean of pay is \d\d\.\d euros \(95% CI \d\d\.\d to \d\d\.\d; n = 4,000\)\. The "
        r"standard error is 0\.\d+; without privacy noise it would be about 0\.\d+\.",
    ),
    "two columns": (
        (pm.mean, ["pay", "x"], {}),
        r"The means are pay \d\d\.\d euros \(95% CI .*\); x -?0\.0\d+ euros \(95% CI .*\)\.",
    ),
    "groups": (
        (pm.mean, "pay", KEYS),
        r"The mean of pay is lowest in right, \d\d\.\d euros \(.*\), and highest in left, .*\.",
    ),
    "groups by number": (
        (pm.mean, "pay", {"by": "arm", "keys": [0, 1], "contrasts": ["0 - 1"]}),
        r"The mean of pay is \d\.\d+ euros lower where arm is 0 than where arm is 1 \(95% CI "
        r"\d\.\d+ to \d\.\d+\)\.",
    ),
    "ratio and rest": (
        (pm.mean, "pay", {**KEYS, "contrasts": ["left / right", "left - rest"]}),
        r"The mean of pay in left is 1\.1\d+ times that in right \(.*\); "
        r"\d\.\d+ euros higher in left than in the other groups \(.*\)\.",
    ),
    "arms": (
        (pm.compare, "pay", {"arms": "arm"}),
        r"The mean of pay is \d\.\d+ euros higher where arm is 1 than where arm is 0 \(.*\)\. It "
        r"is an effect of the arms only if people were assigned to them at random\.",
    ),
    "pair": (
        (pm.compare, "pay", {"by": "when", "pair": ["late", "early"]}),
        r"For the same people, the mean of pay is [23]\.\d+ euros higher where when is late than "
        r"where it is early \(.*\)\.",
    ),
    "curve": (
        (pm.curve, "pay", {"time": "t", "bins": [0, 1, 2]}),
        r"The mean of pay is \d\d\.\d euros \(.*\) from 0 to before 1 and .* from 1 to before 2\.",
    ),
    "curve of arms": (
        (pm.curve, "pay", {"time": "t", "bins": [0, 1, 2], "by": "arm", "levels": (0, 1)}),
        r"The difference of the mean of pay, arm 1 - 0, is \d\.\d+ euros \(.*\) at 0\.5 and .*\.",
    ),
    "quantiles": (
        (pm.quantile, "pay", {"q": [0.25, 0.5, 0.9]}),
        r"A quarter of the people have a mean pay below \d\d\.\d euros \(.*\); half below .*\) "
        r"\(the table has 1 more\)\.",
    ),
    "variance": (
        (pm.variance, "pay", {}),
        r"The standard deviation of the mean of pay between people is 1\d\.\d euros \(.*\)\.",
    ),
    "regression": (
        (pm.regress, "pay ~ x + arm", {}),
        r"Other terms held constant, the mean of pay is [12]\.\d+ euros higher for one more "
        r"unit of x \(.*\); \d\.\d+ euros higher for one more unit of arm .*\.",
    ),
    "within": (
        (pm.regress, "pay ~ x", {"effect": "within"}),
        r"Within one person, other terms held constant, the mean of pay is .* for one more "
        r"unit of x .*\.",
    ),
}  # fmt: skip


def released(name, **more):
    ask, value, said = ASKED[name][0]
    terms = {"epsilon": 8.0, "noise": SimulatedNoise(1), **said, **more}
    return ask(pm.Table(TABLE, person="who"), value, **terms)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_each_kind_of_question_has_its_sentence(name):
    made = released(name)
    label = "" if name == "two columns" else "pay"
    said = made.sentence(label, "euros")
    assert re.fullmatch(ASKED[name][1], said), said
    stored = pm.Release.from_dict(json.loads(json.dumps(made.to_dict())))
    assert stored.sentence(label, "euros") == said
    assert (stored.question_kind, stored.grouped_by) == (made.question_kind, made.grouped_by)
    assert stored.times == made.times


def test_the_numbers_are_those_of_the_release():
    made = released("mean")
    (row,) = made.rows()
    estimate, low, high, n, error, without = (
        float(x.replace(",", ""))
        for x in re.findall(r"(?<![\d%])\d[\d,]*\.?\d*(?!\d*%)", made.sentence())
    )
    assert (estimate, low, high) == pytest.approx((row.estimate, row.lower, row.upper), abs=0.051)
    assert n == SIZE
    assert error == pytest.approx(row.std_error, rel=0.06)
    sampling = math.sqrt(row.std_error**2 - made.noise_sd[0] ** 2)
    assert without == pytest.approx(sampling, rel=0.06)


def test_a_difference_that_may_be_zero_says_so():
    made = released("groups", by="coin", keys=["early", "late"], epsilon=1.0,
                    contrasts=["early - late"])  # fmt: skip
    text = made.sentence()
    row = made.rows()[-1]
    assert row.lower < 0 < row.upper
    assert re.search(r"CI [\d.]+ \w+er to [\d.]+ \w+er, so it may be 0", text), text
    first, second = re.search(r"CI [\d.]+ (\w+er) to [\d.]+ (\w+er)", text).groups()
    assert {first, second} == {"higher", "lower"}
    assert f" {second} in early than in late" in text


@pytest.mark.slow
@pytest.mark.parametrize("status", STATUSES, ids=lambda status: status.code)
def test_no_interval_is_told_that_does_not_hold(status):
    """As a stored release of this status would be read."""
    made = released("mean")
    stored = pm.Release.from_dict(json.loads(json.dumps(made.to_dict())))
    if not status.has_estimate or status.code == "at_bound":  # a bound is no estimate of a mean
        (row,) = stored.found
        value = row.estimate if status.has_estimate else math.nan
        lost = replace(stored, found=(replace(row, estimate=value, status=status.code),))
        assert lost.sentence() == "There is no estimate of the mean of pay."
        return
    rows = tuple(replace(row, status=status.code) for row in stored.found)
    text = replace(stored, found=rows).sentence("pay")
    assert ("95% CI" in text) == (status.interval != "no")
    assert ("no confidence interval holds" in text) == (status.interval == "no")
    for code, word in (("extreme_outliers", "in doubt"), ("modified_target", "for the mean"),
                       ("outliers_unchecked", "if there are no outliers")):  # fmt: skip
        assert (word in text) == (status.code == code)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((1.651, 1.6368, 1.6653), ("1.65", "1.64", "1.67")),
        ((0.0312, 0.0213, 0.0412), ("0.0312", "0.0213", "0.0412")),
        ((0.00012, -0.3, 0.3), ("0.000", "-0.300", "0.300")),
        ((43217.4, 43088.0, 43349.0), ("43,200", "43,100", "43,300")),
        ((1000.02, 1000.006, 1000.034), ("1,000.02", "1,000.01", "1,000.03")),
        ((2.5e13, 2.4e13, 2.6e13), ("2.5e+13", "2.4e+13", "2.6e+13")),
        ((0.0, 0.0, 0.0), ("0", "0", "0")),
    ],
)
def test_numbers_have_three_digits_or_tell_their_ends_apart(row, expected):
    value, low, high = row
    places = places_of(Row("x", "", value, lower=low, upper=high))
    assert tuple(written(x, places) for x in row) == expected


def test_open_intervals_have_one_end():
    made = released("mean")
    stored = pm.Release.from_dict(json.loads(json.dumps(made.to_dict())))
    (row,) = stored.found
    for ends, word in (((-math.inf, 60.0), "up to 60.0"), ((40.0, math.inf), "from 40.0"),
                       ((-math.inf, math.inf), "95% CI unlimited")):  # fmt: skip
        found = replace(stored, found=(replace(row, lower=ends[0], upper=ends[1]),))
        assert word in sentence(found)
