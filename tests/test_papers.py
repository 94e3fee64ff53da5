"""Every public name of the page of papers can be imported, and is called once."""

from __future__ import annotations

import re
from importlib import import_module

import numpy as np
import pytest

import privmean as pm
from doc_pages import DOCS
from statistics_kit import planned

PAGE = (DOCS / "papers.md").read_text()
HEAD = "| algorithm, theorem, figure | public name | benchmark | erratum |"
NAME = re.compile(r"`((?:pm|local|published|streams)(?:\.\w+)+)")
LARGE = pm.Budget(epsilon=20.0, delta=1e-3)


def rows():
    """The cells of every row of the tables."""
    for line in PAGE.splitlines():
        if line.startswith("|") and line != HEAD and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


NAMES = sorted({name for row in rows() for name in NAME.findall(row[1])})


def found(name):
    """The object of a dotted name: an attribute, or else a module."""
    first, *rest = name.split(".")
    path = "privmean" if first == "pm" else f"privmean.{first}"
    made = import_module(path)
    for part in rest:
        path = f"{path}.{part}"
        made = getattr(made, part, None) or import_module(path)
    return made


def released(estimator, columns=2, people=3000, budget=LARGE):
    """A release of normal values, with simulated noise."""
    x = np.random.default_rng(1).standard_normal((people, columns))
    plan = planned(estimator, budget, persons=people, dimension=columns)
    return plan.release(table(x), pm.SimulatedNoise(1))


def table(x):
    from privmean.data.array_table import ArrayPersonTable

    return ArrayPersonTable(x, tuple(f"c{j}" for j in range(x.shape[1])))


# one call of every name of the page
CALLS = {
    "pm.AnisotropicMean": lambda made: released(made(1.0)),
    "pm.Covariance": lambda made: made([1.0, 4.0], scales="mahalanobis"),
    "published.AnisotropicAsPublished": lambda made: released(made(), 3),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_page_is_called(name):
    assert CALLS[name](found(name)) is not None


def test_every_row_has_four_cells():
    assert len(NAMES) > 2
    assert all(len(row) == 4 for row in rows())
