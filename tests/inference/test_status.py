"""The table of statuses: codes, order of severity, and the names of 0.2."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from privmean.inference import status
from privmean.inference.status import (
    STATUSES,
    read_status,
    release_status,
    worst_status,
)

ROOT = Path(__file__).parents[2]
CODES = [row.code for row in STATUSES]


def test_statuses_have_unique_codes_and_labels():
    assert len(set(CODES)) == len({row.label for row in STATUSES}) == 12
    assert (CODES[0], CODES[-1]) == (status.OK, status.FAILED)
    assert all(getattr(status, code.upper()) == code for code in CODES)


def test_rows_without_an_estimate_are_the_most_severe():
    shown = [row.has_estimate for row in STATUSES]
    assert shown == sorted(shown, reverse=True)
    assert all(row.interval == "no" for row in STATUSES if not row.has_estimate)


def test_texts_end_as_sentences_of_at_most_25_words():
    for row in STATUSES:
        for bounds in (True, False):
            text = row.text("the clipped mean", bounds=bounds)
            assert text.endswith(".")
            assert "{" not in text
            assert max(len(part.split()) for part in text.split(". ")) <= 25
            assert bounds or "give bounds" not in text.lower() or row.code == status.NOT_IDENTIFIED


def test_advice_names_bounds_only_where_the_question_takes_them():
    rng = np.random.default_rng(0)
    values = rng.normal(10, 1, 4000)
    values[rng.random(4000) < 0.02] = 1e6
    table = pm.Table({"p": np.arange(4000), "g": np.arange(4000) % 2, "v": values}, person="p")
    noise = pm.SimulatedNoise(0)
    made = pm.mean(table, "v", by="g", keys=[0, 1], contrasts=["1 - 0"], epsilon=1, noise=noise)
    stored = pm.Release.from_dict(made.to_dict())
    for text in map(str, (made, stored)):
        assert "extreme_outliers" in text
        assert "bounds" not in text.replace("clipping bounds", "")
    with pytest.raises(pm.ArgumentError, match="cannot be combined with by"):
        pm.mean(table, "v", by="g", keys=[0, 1], bounds=(0, 20), epsilon=1)
    assert "Give bounds" in status.find_status(status.EXTREME_OUTLIERS).text()


def test_worst_status_follows_the_table():
    assert worst_status([]) == status.OK
    assert worst_status(CODES) == worst_status(reversed(CODES)) == status.FAILED
    assert worst_status(["outliers_clipped", "ok", "low_precision"]) == "low_precision"


def test_release_status_is_failed_only_without_any_estimate():
    assert release_status([]) == release_status(["ok", "ok"]) == "ok"
    assert release_status(["ok", "suppressed"]) == "suppressed"
    assert release_status(["ok", "failed"]) == "not_identified"
    assert (
        release_status(["suppressed", "failed"]) == release_status(["not_identified"]) == "failed"
    )


@pytest.mark.parametrize(
    ("text", "shown", "code"),
    [
        ("ok", True, "ok"),
        ("suppressed", False, "suppressed"),
        ("too few persons", True, "outliers_unchecked"),
        ("too few persons", False, "suppressed"),
        ("tail unchecked / far values seen", True, "extreme_outliers"),
        ("far values seen, tail seen", True, "extreme_outliers"),
    ],
)
def test_read_status_accepts_stored_names(text, shown, code):
    assert read_status(text, shown) == code


def test_the_page_is_made_from_the_table():
    spec = spec_from_file_location("statuses_page", ROOT / "docs/site-tools/statuses.py")
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PAGE.read_text(encoding="utf-8") == made.page()
    assert len(made.page().split()) <= 500
