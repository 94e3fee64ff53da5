"""The example tables are what their texts say, in memory and as files."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import privmean as pm
from privmean.examples import TABLES

SAID = {  # rows, people
    "wages": (None, 4000),
    "ratings": (None, 2500),
    "nlswork": (28_534, 4711),
    "retail": (18_536, 4339),
    "flights": (26_398, 3140),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_rows_and_people_that_texts_name(name):
    rows, people = SAID[name]
    table = pm.example(name)
    who = table[TABLES[name]]
    assert rows in (None, len(who))
    assert len(np.unique(who)) == people
    assert {len(column) for column in table.values()} == {len(who)}


def test_public_tables_keep_their_values():
    retail, flights = pm.example("retail"), pm.example("flights")
    assert (retail["date"][0], retail["date"][-1]) == ("2010-12-01", "2011-12-09")
    assert retail["amount"].max() == 168469.6
    assert set(np.unique(retail["uk"])) == {0, 1}
    assert (min(flights["date"]), max(flights["date"])) == ("2013-01-01", "2013-01-31")
    assert flights["delay"].min() < 0
    assert np.isnan(pm.example("nlswork")["union"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_file_holds_the_table(name, tmp_path):
    table = pm.example(name)
    with open(pm.example(name, tmp_path / "table.csv"), newline="") as file:
        head, first, *_ = csv.reader(file)
    assert head == list(table)
    for text, column in zip(first, table.values(), strict=True):
        if text:
            assert type(column[0])(text) == column[0]
        else:
            assert np.isnan(column[0])


def test_a_name_that_is_no_example_is_refused():
    with pytest.raises(pm.ArgumentError, match="is not an example"):
        pm.example("salaries")
