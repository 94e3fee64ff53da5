"""Every test is of one tier, and CI runs each tier that `make test` leaves out."""

from __future__ import annotations

import re
import subprocess
from itertools import product
from pathlib import Path

from _pytest.mark.expression import Expression

HOUSE = Path(__file__).parent.parent
MAKEFILE = (HOUSE / "Makefile").read_text()


def selected(task):
    """The expression by which a task of the Makefile chooses tests."""
    (found,) = re.findall(
        rf'^{task}:.*\n(?:\t.*)?-m "?([^"\n]*?)(?: \$\(WITHOUT\))?"?$', MAKEFILE, re.M
    )
    return Expression.compile(found.removesuffix(" tests/auditing"))


def test_a_test_is_of_one_tier():
    tiers = [selected(task) for task in ("quick", "test-slow", "audit-long")]
    for slow, long, system in product((True, False), repeat=3):
        marks = {"slow": slow, "long": long, "system": system}
        chosen = [tier for tier in tiers if tier.evaluate(lambda name, of=marks, **_: of[name])]
        assert len(chosen) == 1, marks


def test_ci_runs_the_quick_and_the_slow_tests():
    text = (HOUSE / ".ci" / "run").read_text()
    lines = text.splitlines()
    assert lines.index("make test") < lines.index("make test-slow")
    assert re.search("^test: lint types quick", MAKEFILE, re.M)
    for task in ("test-spark", "docs", "lowest", "two-servers"):
        assert re.search(rf"\bmake {task}\b", text), task


def test_help_lists_the_tasks():
    said = subprocess.run(["make", "help"], cwd=HOUSE, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in said.stdout.splitlines() if line.startswith("  ")}
    (phony,) = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)$", MAKEFILE, re.M)
    assert listed == set(phony.replace("\\", " ").split()) - {"quick", "left-out"}
