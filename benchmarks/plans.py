"""Plans from public numbers alone, for benchmarks and tests."""

from __future__ import annotations

from dataclasses import replace

from privmean.data.schema import PublicShape
from privmean.privacy.budget import REPLACE_ONE


def planned(
    estimator, budget, *, persons=None, n_guess=None, count=None, dimension=1, relation=None
):
    """The plan of an estimator for columns that are only numbered.

    `count` is the persons or the design count, as the relation has it.
    """
    if relation is not None:
        budget = replace(budget, neighbors=relation)
    if count is not None:
        persons, n_guess = (count, None) if budget.neighbors == REPLACE_ONE else (None, count)
    known = persons if budget.neighbors == REPLACE_ONE else None
    return estimator.plan(budget, PublicShape.of(dimension, known, n_guess))
