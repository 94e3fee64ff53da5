"""privmean's rows. The only knowledge used is the budget: no bounds, no scale, no method."""

from __future__ import annotations

from typing import Any

import numpy as np

import privmean as pm
from peers.tables import Table


def people_of(table: Table) -> Any:
    """The records, read as they come."""
    return pm.read(table.records.value, person=table.records.person)


def answers(people: Any, epsilon: float, delta: float, neighbors: str, runs: int) -> np.ndarray:
    """`runs` releases with exact noise, shape (runs, d). NaN where a release failed privately."""
    found = []
    for _ in range(runs):
        release = pm.mean(people, epsilon=epsilon, delta=delta, neighbors=neighbors)
        found.append(np.atleast_1d(np.asarray(release.estimate, dtype=float)))
    return np.array(found)
