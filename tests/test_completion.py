"""What Jupyter shows of the public names: completion and signatures, by jedi."""

from __future__ import annotations

import inspect

import jedi
import pytest

import privmean as pm
from privmean import continual, local
from privmean.asking.terms import Terms

FUNCTIONS = ["ask", "mean", "regress", "curve", "variance", "quantile", "plan", "persons_needed"]


def completed(code, names):
    return {item.name for item in jedi.Interpreter(code, [names]).complete()}


def test_the_public_names_are_completed():
    assert completed("pm.", {"pm": pm}) >= set(pm.__all__)
    assert completed("pm.SubG", {"pm": pm}) == {"SubGaussian"}
    for face in (continual, local):
        assert completed("face.", {"face": face}) >= set(face.__all__)


def test_the_public_names_are_completed_in_a_file_that_is_not_run():
    found = {item.name for item in jedi.Script("import privmean as pm\npm.").complete()}
    assert found >= set(pm.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_shows_every_term(name):
    (signature,) = jedi.Interpreter(f"pm.{name}(", [{"pm": pm}]).get_signatures()
    shown = [item.name for item in signature.params]
    assert shown == list(inspect.signature(getattr(pm, name)).parameters)
    assert shown[-len(Terms.__annotations__) :] == list(Terms.__annotations__)
    assert "epsilon=" in completed(f"pm.{name}(eps", {"pm": pm})


def test_a_signature_says_the_defaults():
    (signature,) = jedi.Interpreter("pm.mean(", [{"pm": pm}]).get_signatures()
    words = signature.to_string()
    for said in ("source", "method: 'Named | Estimator'='auto'", "neighbors: 'Neighbors'", "0.95"):
        assert said in words


def test_documents_and_members_are_found():
    (found,) = jedi.Interpreter("pm.mean", [{"pm": pm}]).help()
    assert "differentially private mean" in found.docstring()
    # a release that has not been made yet: what its type says
    made = jedi.Script("import privmean as pm\npm.mean([1.0], epsilon=1.0).").complete()
    assert {"estimate", "interval", "to_dict", "guarantee"} <= {item.name for item in made}
