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
EXAMPLES = re.compile(r"^Examples\n-{8}\n(.*)", re.MULTILINE | re.DOTALL)  # the last section


def example(name: str) -> str:
    text = inspect.getdoc(getattr(pm, name)) or ""
    found = EXAMPLE.search(text) or EXAMPLES.search(text)
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
        "EffectRelease": "compare", "TwoArms": "Compare", "MultiValueRelease": "mean",
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


# --- the sections of functions and classes -------------------------------------------------------

FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(pm, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(pm, name))]
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
WANTED = {
    "function": ["Parameters", "Returns", "Raises", "Privacy", "Notes", "Examples"],
    "class": ["Parameters", "Attributes", "Raises", "Privacy", "Notes", "Examples"],
}
# streams: not yet in this form
LATER = ["GroupMeanStream", "MeanStream", "WithholdRelease"]
DONE = [name for name in CLASSES if name not in LATER]


def sections(name: str) -> dict[str, str]:
    parts = SECTION.split(inspect.getdoc(getattr(pm, name)) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(text: str) -> list[str]:
    """The names at the heads of the items of a section."""
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return [item.strip() for line in heads for item in line.split(" : ")[0].split(",")]


def parameters(made: object) -> list[str]:
    """Of a function; of a class those that no public class above it documents."""
    try:
        own = list(inspect.signature(made).parameters)
    except ValueError:  # an error without arguments of its own
        return []
    above = getattr(made, "__mro__", ())[1:]
    public = [item for item in above if getattr(pm, item.__name__, None) is item]
    known = {name for item in public for name in parameters(item)}
    return [item for item in own if item not in known]


@pytest.mark.parametrize("name", [*FUNCTIONS, *DONE])
def test_the_parameters_are_those_of_the_signature(name):
    """What users make has parameters, and what they are given has attributes."""
    found = sections(name)
    text = found.get("Parameters", found.get("Attributes", ""))
    assert listed(text) == parameters(getattr(pm, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_sections_in_order(name):
    found = list(sections(name))
    assert [item for item in WANTED["function"] if item in found] == found
    assert {"Parameters", "Returns", "Privacy", "Examples"} <= set(found)


@pytest.mark.parametrize("name", DONE)
def test_a_class_has_the_sections_in_order(name):
    found = list(sections(name))
    assert [item for item in WANTED["class"] if item in found] == found
    assert "Examples" in found
    first, second = (inspect.getdoc(getattr(pm, name)) or "").splitlines()[:2]
    assert first.endswith(".")  # one line says what it is
    assert not second
