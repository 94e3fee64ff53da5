"""One published algorithm as the common suite meets it.

Each paper lists its algorithms in `<paper>_cases.py` as `CASES`. An algorithm that has no `plan`
(local reports, streams) overrides `audit`, `bill` and `measured`, and the suite stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privmean.auditing.audit import audit
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.privacy.compose import within


def table(values) -> ArrayPersonTable:
    """People with these rows, or with one value each."""
    x = np.asarray(values, dtype=float)
    x = x[:, None] if x.ndim == 1 else x
    return ArrayPersonTable(x, tuple(f"x{j}" for j in range(x.shape[1])))


@dataclass(frozen=True)
class Reference:
    """A number of the paper, or of the corrected specification, with its standard error.

    of: what one run gives, from the release, the plan and the truth. slack: what a closed form
    leaves out.
    """

    value: float
    error: float
    of: Callable[[Any, Any, Any], float]
    runs: int = 100
    slack: float = 0.0


def squared_error(release, plan, truth) -> float:
    """Of the first column."""
    return float(release.estimate[0] - truth) ** 2


@dataclass(frozen=True)
class Case:
    """build: the algorithm. people: n people and the truth, from a generator. reference: None where
    no number is printed. n: people of the reference; audited: of the replays."""

    name: str
    build: Callable[[], Any]
    people: Callable[[np.random.Generator, int], tuple[ArrayPersonTable, Any]]
    reference: Reference | None = None
    n: int = 1000
    audited: int = 601
    budget: dict[str, float] = field(default_factory=lambda: {"epsilon": 1.0, "delta": 1e-6})
    replayed: dict[str, float] = field(default_factory=lambda: {"epsilon": 4.0, "delta": 1e-6})

    def plan(self, n: int, budget: dict[str, float], dimension: int):
        return self.build().plan(Budget(**budget), PublicShape.of(dimension, n))

    def audit(self) -> Any:
        """Replays on neighbors: the same calls, no more than the declared sensitivity, noise that
        costs no more than stated. True if nothing is violated."""
        people, _ = self.people(np.random.default_rng(1), self.audited)
        return audit(self.build(), people, runs=40, neighbors="replace-one", **self.replayed)

    def bill(self) -> None:
        """What is declared covers what is composed, by plan and by run."""
        people, _ = self.people(np.random.default_rng(2), self.n)
        plan = self.plan(self.n, self.budget, len(people.columns))
        assert within(plan.events, plan.budget)
        release = plan.release(people, SimulatedNoise(2))
        assert release.guarantee.verify()
        assert set(release.guarantee.mechanisms) <= set(plan.events)
        assert len(release.guarantee.mechanisms) <= len(plan.events)

    def measured(self) -> list[float]:
        """The reference's quantity, run by run."""
        assert self.reference is not None
        rng, noise = np.random.default_rng(3), SimulatedNoise(3)
        people, _ = self.people(rng, self.n)
        plan, found = self.plan(self.n, self.budget, len(people.columns)), []
        for _ in range(self.reference.runs):
            people, truth = self.people(rng, self.n)
            release = plan.release(people, noise)
            if not release.failed:
                found.append(self.reference.of(release, plan, truth))
        return found
