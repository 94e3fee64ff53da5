"""A look at the first column and a question that works from it, in one run: for the audit alone.

A study takes the look before a curator of its own and gives many plans what it found; replayed as
one run, what is told after the look must follow from its noisy answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privmean.central.look import Look
from privmean.errors import Infeasible
from privmean.intervals.interval import FAILED
from privmean.mechanisms.curator import Curator
from privmean.models.regression_release import Unfitted
from privmean.outcome import Outcome
from privmean.people.shape import Shape
from privmean.privacy.budget import Budget
from privmean.privacy.loss import Loss
from privmean.road import Enclosing

if TYPE_CHECKING:
    from privmean.questions.base import Estimator
    from privmean.road import Plan


@dataclass(frozen=True)
class LookFirst:
    """make: the estimator that is given the place."""

    make: Callable[[], Estimator]

    def plan(self, budget: Budget, shape: Shape) -> LookFirstPlan:
        """The look takes its part first."""
        epsilon = budget.pure_epsilon()
        look = Look.of(shape.columns[0], shape.counted(), epsilon / 2)
        if look is None:
            raise Infeasible("the persons are too few to look", "ask more persons")
        if budget.rho is not None:
            spent = sum(line.rho for line in look.losses)
            own = replace(budget, rho=(budget.rho - spent) * (1 - 1e-9))
        else:
            own = replace(budget, epsilon=float(epsilon - look.pure) * (1 - 1e-12), delta=0.0)
        return LookFirstPlan(budget, look, self.make().plan(own, shape))


@dataclass(frozen=True)
class LookFirstPlan(Enclosing):
    """Both, as one plan."""

    budget: Budget
    look: Look
    inner: Plan

    @property
    def losses(self) -> tuple[Loss, ...]:
        return (*self.look.losses, *self.inner.losses)

    def run(self, curator: Curator) -> Outcome:
        located: Any = self.inner
        plan = located.after((self.look.take(curator),))
        if plan is None:
            d = self.shape.dimension
            return Outcome(np.full(d, np.nan), Unfitted(d), status=FAILED)
        made: Outcome = plan.run(curator)
        return made
