"""The page of the reviewer's hour: ten claims, ten commands that are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))


def test_ten_claims_and_ten_commands_that_exist():
    import review

    rows = review.claims()
    assert [number for number, _, _ in rows] == [str(k) for k in range(1, 11)]
    assert len({command for _, _, command in rows}) == 10
    for _, claim, command in rows:
        assert len(claim) > 30
        for name in re.findall(r"(?:tests|benchmarks)/[\w/]+(?:\.py)?", command):
            assert (ROOT / name).exists(), name
        assert review.words(command)[0] == sys.executable


def test_make_review_runs_the_page():
    assert "benchmarks/review.py" in (ROOT / "Makefile").read_text()
