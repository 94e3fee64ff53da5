"""The suite draws the same cases each run, unless it is told to explore."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
# what makes a run differ from the last one, or a property test deaf to `make fuzz`
FRESH = re.compile(
    r"default_rng\(\)|random\.Random\(\)|random\.seed\(\)|urandom\(|secrets\.(?:token|rand|choice)|uuid4\(\)"
    r"|(?:default_rng|Random|seed|SimulatedNoise)\((?:time|os\.(?!environ))|use_true_random=True"
)
DEAF = re.compile(r"derandomize\s*=|database\s*=\s*None")


@pytest.mark.parametrize("pattern", [FRESH, DEAF], ids=["fresh seeds", "own profile"])
def test_no_test_draws_fresh_or_fixed_cases_of_its_own(pattern):
    ours = {TESTS / "conftest.py", Path(__file__)}
    files = [path for path in TESTS.rglob("*.py") if path not in ours]
    assert len(files) > 50
    found = [
        f"{path.relative_to(TESTS)}: {match[0]}"
        for path in files
        for match in pattern.finditer(path.read_text())
    ]
    assert not found


PROBE = """
from hypothesis import given, strategies as st
@given(st.integers(0, 10**9))
def test_probe(number):
    print("drawn", number)
"""


def drawn(folder: Path, profile: dict[str, str], *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options, "."]
    command += ["-p", "_hypothesis_pytestplugin"]  # and no other plugin: they are slow to load
    keep = {key: text for key, text in os.environ.items() if key != "HYPOTHESIS_PROFILE"}
    keep["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    found = subprocess.run(
        command, cwd=folder, env=keep | profile, capture_output=True, text=True, check=True
    )
    return [line for line in found.stdout.splitlines() if "drawn" in line]


@pytest.mark.slow
def test_two_runs_draw_the_same_and_fuzz_does_not(tmp_path):
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_probe.py").write_text(PROBE)
    first = drawn(tmp_path, {})
    assert len(first) >= 100
    assert drawn(tmp_path, {}) == first
    fuzz = {"HYPOTHESIS_PROFILE": "fuzz"}
    one, other = (drawn(tmp_path, fuzz, f"--hypothesis-seed={seed}") for seed in (1, 2))
    assert len(one) >= 1000
    assert one != other


def test_this_run_has_one_of_the_two_profiles():
    fuzz = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
    assert settings.default is not None
    assert settings.default.derandomize is not fuzz
    assert settings.default.deadline is None
