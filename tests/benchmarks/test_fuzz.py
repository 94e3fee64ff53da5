"""The explorer: which files it runs, when it ends, and what it says of what is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fuzz

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--cases", type=int)
parser.add_argument("--seed", type=int)
given = parser.parse_args()
print("tried", given.cases, given.seed, flush=True)
raise SystemExit({status})
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A house with no property test and whatever scripts a test writes."""
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.setattr(fuzz, "HOUSE", tmp_path)
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path / "benchmarks")
    monkeypatch.setattr(fuzz, "explore_tests", lambda seed: True)
    return tmp_path / "benchmarks"


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["fuzz.py", *arguments])
    with pytest.raises(SystemExit) as end:
        fuzz.main()
    return end.value.code


def test_every_file_with_a_property_is_explored():
    files = [Path(name).name for name in fuzz.property_tests()]
    assert {"test_noisy_vector.py", "test_homes.py", "test_reports.py"} <= set(files)
    assert "test_api.py" not in files


def test_a_first_round_is_always_run_and_its_finding_said(house, monkeypatch, capfd):
    (house / "fuzz_good.py").write_text(SCRIPT.format(status=0))
    (house / "fuzz_bad.py").write_text(SCRIPT.format(status=1))
    (house / "other.py").write_text("raise SystemExit(1)")
    assert run(monkeypatch, "--minutes", "0", "--seed", "5") == 1
    shown = capfd.readouterr().out
    assert shown.count(f"tried {fuzz.FIRST_CASES} 5") == 2
    assert "Found by" in shown
    assert "fuzz_bad.py --cases 200 --seed 5`" in shown
    assert "seeds 5 to 5: found" in shown


def test_rounds_go_on_with_new_seeds_and_more_cases(house, monkeypatch, capfd):
    (house / "fuzz_good.py").write_text(SCRIPT.format(status=0))
    ticks = iter(range(1000))  # every look at the clock takes a second
    monkeypatch.setattr(fuzz.time, "monotonic", lambda: next(ticks))
    assert run(monkeypatch, "--minutes", "0.2", "--seed", "5") == 0
    shown = capfd.readouterr().out
    assert "tried 200 5" in shown
    assert "tried 800 6" in shown
    assert "held" in shown


@pytest.mark.slow
def test_the_scripts_here_take_what_they_are_given():
    for path in sorted(Path(fuzz.__file__).parent.glob("fuzz_*.py")):
        shown = subprocess.run(
            [sys.executable, str(path), "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert "--cases" in shown
        assert "--seed" in shown
