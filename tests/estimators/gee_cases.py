"""A made panel, and what statsmodels gives for it (benchmarks/gee_figures.py writes the figures).

Unequal numbers of records, a regressor that never changes within a person, levels that go with x.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

FIGURES = Path(__file__).with_name("gee_figures.json")
# name: what `regress` is told
CASES: dict[str, dict[str, Any]] = {
    "pooled, each person one vote": {},
    "pooled, records": {"weights": 12},
    "within, each person one vote": {"effect": "within"},
    "within, records": {"effect": "within", "weights": 12},
    "exchangeable, each person one vote": {"icc": 0.4},
}


def made_panel(persons: int = 600) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(20)
    sizes = rng.integers(1, 13, persons)
    who = np.repeat(np.arange(persons), sizes)
    arm = np.arange(persons) % 2
    level = rng.normal(0, 1, persons)
    x = 0.5 * level[who] + rng.normal(0, 1, len(who))
    errors = rng.normal(0, 0.5 + 0.5 * arm[who])
    y = 1 + 0.5 * x + 0.7 * arm[who] + level[who] + errors
    return {
        "who": who,
        "arm": arm[who].astype(float),
        "x": np.round(x, 4),
        "y": np.round(y, 4),
    }


def formula_of(name: str) -> str:
    return "y ~ x" if name.startswith("within") else "y ~ arm + x"


def figures() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FIGURES.read_text())
    return found
