"""The mean of person-specific coefficients when nothing is known of units, centers and sizes.

A size of every variable is found first: the half octave of how far a person's own records lie from
their mean; then the people of about these sizes are counted. People are fitted in these units (a
second reading of the table), and each coefficient is then averaged around a private median. Units
that are powers of two change nothing. docs/proofs/longitudinal.md, section 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval, PersonTable
from privmean.data.schema import PublicShape
from privmean.estimators.means.clipped_mean import ClippedMeans
from privmean.estimators.regression.formula import INTERCEPT, Model, Tree, read_formula
from privmean.estimators.regression.panel import (
    AGAIN,
    PanelSums,
    Working,
    fit_persons,
    panel_of,
)
from privmean.estimators.regression.polynomial_design import Design, Units, design_of
from privmean.estimators.regression.pooled_intervals import TailIntervals
from privmean.estimators.regression.private_scale import (
    MEDIAN,
    PLACES,
    PrivateScale,
    PrivateScalePlan,
    ScaleChoice,
    edge,
    part_of,
    refuse_unseen,
)
from privmean.estimators.regression.regression_release import NO_VARIATION
from privmean.inference.interval import NoInterval
from privmean.inference.status import FAILED, NOT_IDENTIFIED, release_status
from privmean.mechanisms.curator import Curator, Exact, Join, Mechanism, Noisy
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.pipeline import WrapperPlan
from privmean.privacy.budget import Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome

UNITS = Fraction(3, 20)  # of the budget, for the sizes of variables
SURE = Fraction(1, 10)  # of that, on top of it: for the people of these sizes
NEAR = 4  # half octaves from a size that is theirs
CLEAR = 2.0  # noise scales of their number, which noise by itself is in 7 %
FEWEST = 40.0  # people times epsilon of one size
LARGEST, SMALLEST = 2.0**10, 2.0**-12  # of coefficients in units of the sizes
RANGE = "A variable is smaller than 2^-40 or larger than 2^39: give it in another unit."


@dataclass(frozen=True)
class CoefficientPanel(PanelSums):
    """What the mean of person-specific coefficients asks of a table."""

    @cached_property
    def model(self) -> Model:
        return read_formula(self.formula, intercept=not self.within)

    @cached_property
    def design(self) -> Design:
        """Variables are not moved: a person's slopes are the same wherever their zero lies."""
        return replace(design_of(self.model, within=self.within), centred=False)

    def asked(self, units: Units) -> list[list[Tree]]:
        return self.design.whole(units)


@dataclass(frozen=True)
class MeanCoefficients:
    """The estimator. threshold: least eigenvalue of a person's X'X/T about person means, in units
    of the sizes found; records: least number of them; target, design_effect: see `PrivateScale`.

    Guarantees: the budget given to `plan`, for one person with all records and any data.
    """

    design: Design
    fixed_effects: bool
    working: Working
    threshold: float
    records: int
    target: str
    design_effect: float = 1.0

    def plan(self, budget: Budget, shape: PublicShape) -> MeanCoefficientsPlan:
        """Everything decided before data are read; InfeasibleError if a size is mostly noise."""
        number = len(self.design.numeric)
        each = part_of(budget, UNITS, number)
        sure = part_of(budget, UNITS * SURE, 1)
        refuse_unseen(
            shape.number(), budget, each, FEWEST,
            f"find the scales of {number} variables", "a larger epsilon, or public scales",
        )  # fmt: skip
        left = 1 - UNITS * (1 + SURE)
        if budget.rho is None:
            rest = replace(budget, epsilon=float(budget.pure_epsilon() * left))
            each = (budget.pure_epsilon() - rest.pure_epsilon() - sure) / number
        else:
            rest = replace(budget, rho=budget.rho * float(left))
        inner = PrivateScale(SMALLEST, LARGEST, self.target, 1.0, self.design_effect, MEDIAN)
        return MeanCoefficientsPlan(self, budget, each, sure, inner.plan(rest, shape))


@dataclass(frozen=True)
class MeanCoefficientsPlan(WrapperPlan):
    """Sizes at `each` epsilon, a count at `sure`, then the means of coefficients by `inner`; not
    these lines if a size stays hidden or the table cannot be read again."""

    settings: MeanCoefficients
    budget: Budget
    each: Fraction
    sure: Fraction
    inner: PrivateScalePlan
    estimator = "mean of clipped person-specific coefficients"

    @property
    def rationale(self) -> str:
        return f"sizes of variables by noisy argmax, people fitted in them; {self.inner.rationale}"

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        sizes = [
            loss for name in self.settings.design.numeric for loss in self._size(name).choice.events
        ]
        return (*sizes, *self._present.events, *self.inner.events)

    def _size(self, name: str) -> ScaleChoice:
        return ScaleChoice(f"scale of {name}", self.each, self.relation)

    @property
    def _present(self) -> NoisyCounts:
        """Of the people who are near the sizes of all variables."""
        return NoisyCounts.at("count at these scales", self.sure, self.relation)

    def describe(self) -> dict[str, Any]:
        kept = self.inner.describe()
        return kept | {
            "budget": self.budget.to_dict(),
            "epsilon_of_one_size": float(self.each),
            "epsilon_of_their_count": float(self.sure),
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    def check_table(self, people: PersonTable) -> None:
        panel_of(people)

    def run(self, curator: Curator) -> Outcome:
        people, settings = panel_of(curator.people), self.settings
        assert people.again is not None
        units: dict[str, tuple[float, float]] = {}
        reached, near = True, np.ones(people.size(), dtype=bool)
        for name in settings.design.numeric:
            own = people.spreads(name)
            size = self._size(name)
            place = size.ask(curator, ArrayPersonTable(own[:, None], (name,)).log_counts(0, 0.0))
            reached &= place < PLACES
            near &= (own >= edge(place - 1 - NEAR)) & (own < edge(place + NEAR))
            # the next power of two, so that a change of unit by one changes no digit
            units[name] = 0.0, 2.0 ** math.ceil(math.log2(edge(place)) - 0.25)
        (number,) = curator.ask(self._present, as_counts(int(near.sum())))
        seen = number >= CLEAR * self._present.scale
        products = people.again(units)
        if products is None:
            return replace(self._nothing(FAILED, AGAIN), follows_from_answers=False)
        if not (reached and seen):
            return self._nothing(NOT_IDENTIFIED, NO_VARIATION if reached else RANGE)
        rows = fit_persons(
            products,
            working=settings.working,
            within=settings.fixed_effects,
            threshold=settings.threshold,
            least=settings.records,
            scales=(1.0,) * (len(settings.design.names) + 1),
            moved=settings.design.names[:1] == (INTERCEPT,),
        )
        fitted = ArrayPersonTable(rows, settings.design.names, engine=people.engine)
        outcome = self.inner.run(_Fitted(curator, fitted))
        *terms, response = settings.design.sizes(units)
        return _in_units(outcome, [response / size for size in terms], units)

    def _nothing(self, status: str, why: str) -> Outcome:
        number = len(self.settings.design.names)
        statuses = (status,) * number
        return Outcome(
            np.full(number, math.nan), NoInterval(number), status=release_status(statuses),
            statuses=statuses, advice=why, follows_from_answers=True,
        )  # fmt: skip


@dataclass(frozen=True)
class _Fitted:
    """The curator of a release, asked about what was fitted from its people's records."""

    curator: Curator
    people: PersonTable

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.curator.events

    def ask(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        return self.curator.ask(mechanism, exact)

    def parallel(
        self, name: str, people: Sequence[PersonTable], lines: int = 1, join: Join | None = None
    ) -> tuple[Curator, ...]:
        return self.curator.parallel(name, people, lines, join)


def _in_units(outcome: Outcome, factors: list[float], units: Units) -> Outcome:
    """Coefficients of the formula's own terms from those in units of the sizes."""
    made = outcome.intervals
    assert isinstance(made, TailIntervals | ClippedMeans)
    columns = tuple(
        replace(item, box=ClipInterval(item.box.lower * factor, item.box.upper * factor))
        for item, factor in zip(made.columns, factors, strict=True)
        if item is not None
    )
    told = dict(outcome.diagnostics)
    told["clip_radius"] = [x * f for x, f in zip(told["clip_radius"], factors, strict=True)]
    told["sizes"] = {name: size for name, (_, size) in units.items()}
    return replace(
        outcome,
        estimate=outcome.estimate * np.array(factors),
        intervals=replace(made, columns=columns),  # type: ignore[arg-type]
        diagnostics=told,
    )
