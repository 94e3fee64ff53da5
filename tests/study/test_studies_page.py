"""The tables that the package carries, the demo, and a section for every status."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from privmean.central.default_vector import PARTLY as SOME_COLUMNS
from privmean.cli.app import run
from privmean.inference.group_table import FEW, HIDDEN, IMPRECISE, NEAR
from privmean.inference.outlier_check import FAR_SEEN, TAIL_SEEN, TOO_FEW, TOO_THICK, UNCHECKED
from privmean.inference.ratio_with_missing import VALUES_MISSING
from privmean.models.pooled_intervals import PARTLY as SOME_TERMS
from privmean.models.quantile_intervals import UNRESOLVED
from privmean.models.run_pooled import (
    AGAIN,
    ENTANGLED,
    RANGE,
    SINGULAR,
    THIN_LEVEL,
    UNSEEN,
)  # fmt: skip
from privmean.release.outcome import PARTLY
from privmean.study.study_release import NOT_ANSWERED

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["wages", "ratings", "nlswork"])
def test_examples_are_the_same_everywhere(name, tmp_path):
    one, other = pm.example(name), pm.example(name)
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])
    path = pm.example(name, tmp_path / "t.csv")
    person, value = next(iter(one)), list(one)[-1]
    arrays = pm.read(one, person=person, values=value)
    file = pm.read(path, person=person, values=value)
    assert arrays.size() == file.size() == len(np.unique(one[person]))
    a, b = (pm.mean(x, epsilon=1.0, noise=pm.SimulatedNoise(1)) for x in (arrays, file))
    assert a.estimate == pytest.approx(b.estimate)
    assert a.status == "ok"
    with pytest.raises(pm.ArgumentError, match="is not an example"):
        pm.example("salaries")


def test_the_demo_runs(capsys, tmp_path, monkeypatch):
    for extra in ("formulaic", "matplotlib", "pandas", "pyarrow", "polars", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, extra, None)  # with the core install alone
    assert run(["demo", "--write", str(tmp_path / "wages.csv")]) == 0
    out = capsys.readouterr().out
    assert "95 % interval" in out
    assert "persons >=" in out
    assert (tmp_path / "wages.csv").exists()


def test_every_status_has_a_section():
    text = (DOCS / "statuses.md").read_text()
    sections = set(re.findall(r"^## (.*)$", text, re.MULTILINE))
    known = {"ok", "failed", "atom", "thin", FAR_SEEN, TAIL_SEEN, TOO_FEW, TOO_THICK, UNCHECKED}
    known |= {VALUES_MISSING, FEW, NEAR, IMPRECISE, HIDDEN, UNRESOLVED, NOT_ANSWERED, PARTLY}
    known |= {ENTANGLED, THIN_LEVEL, SINGULAR}
    assert known <= sections
    assert all(f"({'#' + name.replace(' ', '-')})" in text for name in known - {PARTLY})
    for word in (SOME_TERMS, SOME_COLUMNS, UNSEEN, AGAIN, RANGE):  # of releases, or rare
        assert f'"{word}"' in re.sub(r"\s+", " ", text)
