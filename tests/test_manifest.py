"""The source distribution holds everything that is kept here: tests, docs and all."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
ALWAYS = ("README.md", "pyproject.toml", "MANIFEST.in")  # setuptools takes these by itself
LEFT_OUT = (".gitignore",)


def rules() -> list[list[str]]:
    lines = (HOUSE / "MANIFEST.in").read_text().splitlines()
    return [line.split() for line in lines if line.strip()]


def taken(path: str) -> bool:
    """Whether a file is in the distribution, by the rules in their order."""
    found = path in ALWAYS
    for verb, *words in rules():
        name, first = path.rpartition("/")[2], words[0]
        inside = path.startswith(f"{first}/")
        if verb == "include":
            found |= any(fnmatchcase(path, word) for word in words)
        elif verb == "recursive-include":
            found |= inside and any(fnmatchcase(name, word) for word in words[1:])
        elif verb == "graft":
            found |= inside
        elif verb == "prune":
            found &= not inside
        else:
            assert verb == "global-exclude", verb
            found &= not any(fnmatchcase(name, word) for word in words)
    return found


def packaged(path: str) -> bool:
    """Whether a file of the package is code, or data that pyproject.toml names."""
    if path.endswith(".py"):
        return True
    named = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["setuptools"]
    data = [f"src/privmean/{item}" for item in named["package-data"]["privmean"]]
    return any(fnmatchcase(path, item) for item in data)


@pytest.mark.skipif(not (HOUSE / ".git").exists(), reason="no checkout: nothing to compare with")
def test_the_distribution_holds_every_file_that_is_kept():
    git = shutil.which("git")
    assert git
    listed = subprocess.run(
        [git, "ls-files"], cwd=HOUSE, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(listed) > 500
    folders = {path for path in listed if (HOUSE / path).is_dir()}  # links to what is here anyway
    assert folders == {"src/privmean/collector/client"}
    missing = [
        path
        for path in sorted(set(listed) - folders)
        if path not in LEFT_OUT and not (packaged(path) if path.startswith("src/") else taken(path))
    ]
    assert missing == []


def test_what_is_built_or_fetched_is_left_out():
    for path in ("tests/__pycache__/a.pyc", "clients/js/node_modules/a/b.js", "site/index.html"):
        assert not taken(path)


def test_the_version_and_its_day_are_said_alike():
    from privmean import __version__

    citation = (HOUSE / "CITATION.cff").read_text()
    day = citation.split("date-released: ")[1].split()[0]
    assert f"version: {__version__}\n" in citation
    heading = next(x for x in (HOUSE / "CHANGELOG.md").read_text().splitlines() if x[:3] == "## ")
    assert heading == f"## {__version__} ({day})"
