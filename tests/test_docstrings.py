"""Every public name has an example that runs, and a place on the page of the reference."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import numpy as np
import pytest

import privmean as pm
from doc_pages import DOCS

NAMES = sorted(set(pm.__all__) - {"__version__"})
EXAMPLE = re.compile(r"^Example:\n((?:(?:    .*)?\n)*(?:    .*))", re.MULTILINE)


def example(name: str) -> str:
    found = EXAMPLE.search(inspect.getdoc(getattr(pm, name)) or "")
    return textwrap.dedent(found[1]) if found else ""


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs_and_shows_it(name, tmp_path, monkeypatch):
    text = example(name)
    assert text, f"{name} has no example"
    monkeypatch.chdir(tmp_path)
    exec(compile(text, f"<example of {name}>", "exec"), {"pm": pm, "np": np})


def test_an_example_uses_the_name_or_what_gives_it():
    given = {
        "AuditReport": "audit", "CompareRelease": "compare", "CurveRelease": "curve",
        "EffectRelease": "compare", "TwoArms": "Compare", "ValuesRelease": "mean",
        "GroupMeans": "Mean", "GroupRelease": "mean", "Guarantee": "mean", "Interval": "mean",
        "QuantileRelease": "quantile", "RegressionRelease": "regress", "Release": "mean",
        "StudyPlan": "Study", "StudyRelease": "Study", "VarianceSearch": "Variance",
            "VarianceRelease": "variance",
        "Verification": "verify",
    }  # fmt: skip
    assert set(given) < set(NAMES)
    for name in NAMES:
        tree = ast.parse(example(name))
        used = {item.attr for item in ast.walk(tree) if isinstance(item, ast.Attribute)}
        assert given.get(name, name) in used, name


def test_the_reference_has_every_public_name_once():
    listed = re.findall(r"^::: privmean\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(listed) == NAMES
