"""One regression for all people from noisy second moments and one step of noisy score
contributions.

The choice of the noise, and the plan; its mechanisms: `pooled_steps.py`, its run: `pooled_run.py`.
docs/proofs/pooled-regression.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from privmean.central.clipping_region import ClippingRegion
from privmean.central.log_histogram import FOUND
from privmean.central.shared_location import centre_of, spread_of
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.mechanisms.curator import Curator
from privmean.models.noise_budget import plans_by_law
from privmean.models.panel import panel_of
from privmean.models.pooled_steps import PooledSettings, PooledSteps
from privmean.models.run_pooled import PooledRun
from privmean.plurals import count_noun
from privmean.privacy.budget import Budget
from privmean.release.outcome import Outcome


@dataclass(frozen=True)
class Pooled(PooledSettings):
    """The estimator; see `PooledSettings`."""

    def plan(self, budget: Budget, shape: PublicShape) -> PooledPlan:
        """Everything decided before data are read; InfeasibleError where public numbers tell that
        the answer would be noise."""
        n, p = shape.number(), len(self.design.terms)
        if shape.dimension != p:
            raise ArgumentError(
                "people", shape.dimension, "does not match the formula of the plan", "plan again"
            )
        plans = plans_by_law(budget, partial(PooledPlan, budget, n, self))
        fit = [item for item in plans if item.needed <= 1]
        if not fit:
            best = min(plans, key=lambda item: item.needed)
            raise InfeasibleError(
                f"n={n} is too small for {count_noun(p, 'coefficient')} with {budget.describe()}",
                f"about {math.ceil(n * best.needed)} people, "
                f"{math.ceil(100 * best.needed) / 100:.3g} times the epsilon, "
                + ("a delta such as 1e-6, " if budget.is_pure else "")
                + "fewer terms, or public scales of the variables",
            )
        return min(fit, key=lambda item: item.one_noise)


@dataclass(frozen=True)
class PooledPlan(PooledSteps):
    """Every mechanism of a pooled regression, and its run."""

    def after(self, places: tuple[ClippingRegion, ...]) -> PooledPlan | None:
        """The plan that runs from looks at the columns of the variables `looked`, in order."""
        if any(place.outcome != FOUND for place in places):
            return None
        found = {
            name: (centre_of(place), spread_of(place))
            for name, place in zip(self.settings.looked, places, strict=True)
        }
        units = {**self.settings.units, **found}
        return replace(self, settings=replace(self.settings, units=units, looked=()))

    def run(self, curator: Curator) -> Outcome:
        return PooledRun(self, curator, panel_of(curator.people)).outcome()
