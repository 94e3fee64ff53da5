"""What Jupyter shows of the public names: completion and signatures, by jedi."""

from __future__ import annotations

import inspect
from dataclasses import fields

import jedi
import pytest

import privmean as pm
from privmean import local
from privmean.api.call_options import CallOptions
from privmean.data.read import ReadOptions
from privmean.local.round_builders import Options

FUNCTIONS = ["ask", "mean", "regress", "curve", "variance", "quantile", "plan", "required_n"]

OWN = {"group_sizes": {"group": "school"}}


def completed(code, names):
    return {item.name for item in jedi.Interpreter(code, [names]).complete()}


@pytest.mark.slow
def test_the_public_names_are_completed_in_a_file_that_is_not_run():
    found = {item.name for item in jedi.Script("import privmean as pm\npm.").complete()}
    assert found >= set(pm.__all__)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_shows_every_term(name):
    (signature,) = jedi.Interpreter(f"pm.{name}(", [{"pm": pm}]).get_signatures()
    shown = [item.name for item in signature.params]
    assert shown == list(inspect.signature(getattr(pm, name)).parameters)
    assert shown[-len(CallOptions.__annotations__) :] == list(CallOptions.__annotations__)
    assert "epsilon=" in completed(f"pm.{name}(eps", {"pm": pm})


@pytest.mark.parametrize("name", ["read", "group_sizes"])
def test_readers_show_every_word_and_refuse_others(name):
    (signature,) = jedi.Interpreter(f"pm.{name}(", [{"pm": pm}]).get_signatures()
    assert {item.name for item in signature.params} > set(ReadOptions.__annotations__)
    refusal = rf"{name}\(\) has no argument 'quotes'\. Did you mean quote\?"
    with pytest.raises(pm.ArgumentError, match=refusal):
        getattr(pm, name)("no such file.csv", person="id", **{"quotes": "'"}, **OWN.get(name, {}))


def test_builders_of_rounds_show_every_field_that_their_question_leaves_open():
    asked = {"menu", "persons", "lower", "upper", "radius", "dimension", "items", "bins", "sigma"}
    assert set(Options.__annotations__) == {item.name for item in fields(local.Round)} - asked
    (signature,) = jedi.Interpreter("local.vote_round(", [{"local": local}]).get_signatures()
    assert {item.name for item in signature.params} > set(Options.__annotations__)
    assert "mechanism: 'str'='auto'" in signature.to_string()


def test_a_signature_says_the_defaults():
    (signature,) = jedi.Interpreter("pm.mean(", [{"pm": pm}]).get_signatures()
    words = signature.to_string()
    for said in ("source", "method: 'Named | Estimator'='auto'", "neighbors: 'Neighbors'", "0.95"):
        assert said in words


@pytest.mark.slow
def test_documents_and_members_are_found():
    (found,) = jedi.Interpreter("pm.mean", [{"pm": pm}]).help()
    assert "differentially private mean" in found.docstring()
    # a release that has not been made yet: what its type says
    made = jedi.Script("import privmean as pm\npm.mean([1.0], epsilon=1.0).").complete()
    assert {"estimate", "interval", "to_dict", "guarantee"} <= {item.name for item in made}
