"""The plan of two public arms: prices, predicted errors and power, and the run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.groups.arms_run import FINAL, run_arms
from privmean.central.groups.group_settings import (
    BEYOND,
    LEAST,
    LOOK_LEAST,
    PRECISE,
    ROUGH,
)
from privmean.central.groups.pairs_plan import ROSTER, PairsPlan
from privmean.central.groups.predict_groups import sizes_of
from privmean.central.groups.run_groups import price
from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.key_text import label
from privmean.data.person_table import PersonTable
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import Curator
from privmean.privacy.privacy_events import Laplace, PrivacyEvent
from privmean.release.outcome import Outcome, by_cause

SPAN = 3.0  # deviations from the middle to a limit that a prediction assumes


@dataclass(frozen=True)
class ArmsPlan(PairsPlan):
    """See `TwoArms`. keys: the treated arm first."""

    keys: tuple[tuple[str, ...], tuple[str, ...]]
    estimator = "difference of two public arms"
    rationale = (
        "no bounds are needed: limits are found from all people together, then one signed sum "
        "gives the difference at the noise of one mean"
    )
    public = (*ROSTER, "who is in which arm", "column names")

    def check_table(self, people: PersonTable) -> None:
        """Refuse people that are no pairs of these arms, and arms that nobody is in."""
        if not all(self.pairs(people, "arms").group_weights()):
            raise InfeasibleError("an arm has no people", "check the spelling of the levels")

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """An accounting of one path; every path composes to at most epsilon, exactly."""
        purse = PureBudgetSpender(self.epsilon, self.relation)
        bill: list[PrivacyEvent] = [
            purse.counts("location", purse.share(LOOK_LEAST), 2, spread=2).loss
        ]
        if self.settings.counted:
            bill.append(purse.counts("count outside bounds", purse.share(BEYOND), 1).loss)
        for name in ("rough sums", FINAL):
            part = price(ROUGH, self.epsilon) if name != FINAL else purse.left
            cost = 1 / purse.spend(part)
            bill.append(Laplace(name, Fraction(1), cost, joint=True, neighbors=self.relation))
        return tuple(bill)

    def final_epsilon(self, persons: int) -> float:
        """What the signed sum gets on a usual path."""
        left = float(self.epsilon) * (1 - self.settings.look_share(persons, self.epsilon))
        return left * (1 - BEYOND * self.settings.counted) - ROUGH * float(self.epsilon)

    def predict(self, guess_sd: float, persons: int | None = None) -> dict[str, float]:
        """Predicted error of the difference of equal arms, by cause."""
        count = persons if persons is not None else self.shape.counted()
        return self.difference(guess_sd, (count / 2, count / 2))

    @property
    def labels(self) -> tuple[str, ...]:
        """The arms as they are shown, the treated one first."""
        return tuple(label(key) for key in self.keys)

    def difference(self, guess_sd: float, sizes: object) -> dict[str, float]:
        """Predicted error of the difference of arms of these sizes (by key, the treated one first,
        or one number to share out)."""
        sd = validate.positive("guess_sd", guess_sd)
        one, two = sizes_of(self, sizes).values()
        sampling = sd * math.sqrt(1 / one + 1 / two)
        scale = 2 * SPAN * sd / (self.final_epsilon(int(one + two)) * min(one, two))
        return by_cause(sampling, math.sqrt(2) * scale)

    def describe(self) -> dict[str, Any]:
        return {
            "arms": list(self.labels),
            "share of the rough sums": ROUGH,
            "n times epsilon of a precise arm": PRECISE,
            "people needed in all": math.ceil(LEAST / self.settings.strength(self.epsilon)),
        }

    def run(self, curator: Curator) -> Outcome:
        with np.errstate(all="ignore"):  # a warning of NumPy could tell of values
            return run_arms(curator, self.settings, self.epsilon, self.keys)
