"""Every public name has an example that runs, and a place on the page of the reference."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from importlib import import_module

import numpy as np
import pytest

import privmean as pm
from doc_pages import DOCS
from privmean import local, streams

NAMES = sorted(set(pm.__all__) - {"__version__"})
# the public names of the two packages, as module:name
PACKAGED = [
    f"{module.__name__}:{name}"
    for module in (streams, local)
    for name in sorted(module.__all__)
    if getattr(module, name) is not getattr(pm, name, None)
]
EXAMPLES = re.compile(r"^Examples\n-{8}\n(.*)", re.MULTILINE | re.DOTALL)  # the last section


def find(name: str) -> object:
    """A public name of privmean, or one of a package."""
    module, _, own = name.rpartition(":")
    return getattr(import_module(module or "privmean"), own)


def example(name: str) -> str:
    text = inspect.getdoc(find(name)) or ""
    found = EXAMPLES.search(text)
    return textwrap.dedent(found[1]) if found else ""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *(name for name in PACKAGED if example(name))])
def test_the_example_of_a_public_name_runs_and_shows_it(name, tmp_path, monkeypatch):
    text = example(name)
    assert text, f"{name} has no example"
    monkeypatch.chdir(tmp_path)
    exec(compile(text, f"<example of {name}>", "exec"), {"pm": pm, "np": np})


def test_an_example_uses_the_name_or_what_gives_it():
    given = {
        "AuditReport": "audit", "CompareRelease": "compare", "CurveRelease": "curve",
        "EffectRelease": "compare", "MultiValueRelease": "mean",
        "GroupMeans": "Mean", "GroupRelease": "mean", "Guarantee": "mean", "Interval": "mean",
        "QuantileRelease": "quantile", "RegressionRelease": "regress", "Release": "mean",
        "StudyPlan": "Study", "StudyRelease": "Study",
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
IN_ORDER = ["Parameters", "Attributes", "Returns", "Raises", "Privacy", "Notes", "Examples"]


def sections(name: str) -> dict[str, str]:
    parts = SECTION.split(inspect.getdoc(find(name)) or "")
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


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES, *PACKAGED])
def test_the_parameters_are_those_of_the_signature(name):
    """What users make has parameters, and what they are given has attributes."""
    found = sections(name)
    text = found.get("Parameters", found.get("Attributes", ""))
    assert listed(text) == parameters(find(name))


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES, *PACKAGED])
def test_the_sections_follow_one_line_in_order(name):
    lines = (inspect.getdoc(find(name)) or "").splitlines()
    assert lines[0].endswith(".")
    assert not any(lines[1:2])
    found = list(sections(name))
    assert [item for item in IN_ORDER if item in found] == found
    if inspect.isfunction(find(name)):
        assert {"Parameters", "Returns"} <= set(found)
    if name in FUNCTIONS:
        assert {"Privacy", "Examples"} <= set(found)
