"""One person is not "1 people"."""

from __future__ import annotations

import re

import pytest

import privmean as pm
from privmean.errors import InfeasibleError
from privmean.output import count_noun, count_phrase


def test_a_noun_follows_its_number():
    assert [count_noun(n, "person") for n in (0, 1, 2)] == ["0 people", "1 person", "2 people"]
    assert count_phrase(1, "person", "is", "are") == "1 person is"
    assert count_phrase(2, "person", "is", "are") == "2 people are"


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        lambda one: pm.mean(one, "x", epsilon=1.0),
        lambda one: pm.mean(one, "x", assume=(0, 1), epsilon=1.0),
        lambda one: pm.mean(one, ["x"], epsilon=1.0, delta=1e-6),
        lambda one: pm.variance(one, "x", epsilon=1.0),
        lambda one: pm.quantile(one, "x", 0.5, epsilon=1.0),
        lambda one: pm.regress(one, "x ~ 1", epsilon=1.0),
        lambda one: pm.mean(one, "x", assume=pm.SubGaussian(sd=1.0), epsilon=1.0, delta=1e-6),
        lambda one: pm.mean(one, "x", moment=pm.BoundedMoment(2, 1.0, range=(-9, 9)), epsilon=1.0),
    ],
)
def test_one_person_is_refused_in_the_singular(ask):
    one = pm.Table({"who": [1, 1], "x": [0.5, 0.7]}, person="who")
    with pytest.raises(InfeasibleError) as refused:
        ask(one)
    assert not re.search(r"\b1 (people|columns|coefficients)\b", refused.value.args[0])
    assert "n=1 is too small" in str(refused.value)
