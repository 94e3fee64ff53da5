"""The plan of the default mean whose limits are chosen, not read from histograms (experimental)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privmean.central.bound_pairs import choice
from privmean.central.choose_bounds import LEAN, Prices, choose_limits
from privmean.central.default_column import ColumnRelease, Settings, release_located
from privmean.central.default_plan import DefaultMeanPlan
from privmean.central.pure_budget import PureBudgetSpender
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Laplace, PrivacyEvent

FEWEST, FEWEST_COMPLETE = 150, 40  # n*epsilon, the second where all people have a value
MOST = 3000  # n*epsilon from which histograms do better
CHECK, LEAN_CHECK = 0.2, 0.1  # part of what is left for people beyond; the second below LEAN


@dataclass(frozen=True, kw_only=True)
class SelectedMeanPlan(DefaultMeanPlan):
    """The stages and their prices; see `DefaultMean`. near: public guess of the size of values;
    complete: whether it is stated that every person has a value."""

    near: float = 1.0
    complete: bool = False

    @property
    def rationale(self) -> str:
        return (
            "no bounds are needed: both limits are chosen privately, then one Laplace release "
            "(experimental)"
        )

    def chooses(self, persons: int) -> bool:
        """Whether so many people are few enough for it; else histograms are asked."""
        return float(persons * self.epsilon) < MOST

    def _column_settings(self, persons: int) -> Settings:
        settings = replace(super()._column_settings(persons), complete=self.complete)
        if not self.chooses(persons):
            return settings
        few = float(persons * self.epsilon) < LEAN
        return replace(settings, check=LEAN_CHECK if few else CHECK)

    def column(
        self, curator: Curator, column: int, spender: PureBudgetSpender, persons: int, doubt: float
    ) -> ColumnRelease:
        if not self.chooses(persons):
            return super().column(curator, column, spender, persons, doubt)
        settings, before = self._column_settings(persons), spender.left
        place = choose_limits(
            curator, column, Prices(persons, self.epsilon, self.complete), spender, self.near
        )
        shares = {"location": float((before - spender.left) / spender.total)}
        return release_located(
            curator, column, place, spender, persons, settings, self.relation, shares
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """An accounting of one path; every path composes to at most epsilon, exactly."""
        persons = self.shape.n
        if persons is None or not self.chooses(persons):
            return super().events
        purse, prices = PureBudgetSpender(self.epsilon, self.relation), self._prices(persons)
        steps: list[NoisyCounts] = []
        if not self.complete:
            steps.append(purse.counts("count with a value", prices.number(), 1))
        price = purse.spend(prices.limits(purse.left, persons))
        chosen = choice("limits", price, self.relation).events
        check = self._column_settings(persons).check
        steps.append(purse.counts("count outside bounds", purse.share(check), 1))
        last = Laplace(
            "clipped sums", Fraction(1), 1 / purse.left, joint=True,
            neighbors=self.relation,
        )  # fmt: skip
        return (*(step.loss for step in steps), *chosen, last)

    def final_epsilon(self, persons: int) -> float:
        """What the last stage gets where no cell is chosen."""
        if not self.chooses(persons):
            return super().final_epsilon(persons)
        left, prices = self._purse(), self._prices(persons)
        if not self.complete and self.relation == REPLACE_ONE:
            left -= prices.number()
        left -= prices.limits(left, persons)
        return float(left) * (1 - self._column_settings(persons).check)

    def _prices(self, persons: int) -> Prices:
        return Prices(persons, self.epsilon, self.complete)

    def notes(self) -> list[str]:
        said = "every person has a value (stated)" if self.complete else ""
        chosen = 'limits="selection" is experimental: values far from the guess '
        chosen += f"near={self.near:g} may be cut off"
        return [*super().notes(), chosen, *([said] if said else [])]

    def describe(self) -> dict[str, Any]:
        facts = super().describe()
        facts["limits"], facts["near"], facts["complete"] = "selection", self.near, self.complete
        persons = self.shape.n
        if persons is None or not self.chooses(persons):
            return facts
        for name in ("rounds at most", "epsilon a round", "share of the tail histogram"):
            facts.pop(name, None)
        for after in ("a new start", "the first round"):
            facts.pop(f"epsilon a choice after {after}", None)
        prices = self._prices(persons)
        facts["epsilon of the choice of limits"] = float(prices.limits(self._purse(), persons))
        return facts

    @property
    def public(self) -> tuple[str, ...]:
        said = ["guess of the size of values"]
        if self.complete:
            said.append("that every person has a value")
        return (*super().public, *said)
