"""What plans about pairs of a person and a group share: public facts, and the power of a difference
of two groups."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtr, ndtri

from privmean import validate
from privmean.central.groups.group_settings import GroupSettings
from privmean.central.groups.run_groups import enough
from privmean.data.group_pairs import GroupPairTable, pairs_of
from privmean.data.person_table import PersonTable
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.pipeline import PlanBase
from privmean.privacy.budget import Budget

ROSTER = ("n", "roster of people")


@dataclass(frozen=True)
class PairsPlan(PlanBase):
    """epsilon: what all stages cost together."""

    budget: Budget
    shape: PublicShape
    epsilon: Fraction
    settings: GroupSettings

    @property
    def of_value(self) -> Fraction:
        """Of which the prices of one value are parts."""
        return self.epsilon

    def pairs(self, people: PersonTable, what: str) -> GroupPairTable:
        """People of these groups; others are refused, and too few where that is public."""
        found = pairs_of(people)
        other = self.settings.public_keys and found.keys != self.settings.keys
        if other or found.weights != self.settings.weights:
            raise ArgumentError(
                "people",
                len(found.keys),
                f"must be read for the same {what}",
                "plan for their keys",
            )
        if self.settings.public_groups:
            enough(found, self.settings, self.of_value)
        return found

    @abstractmethod
    def difference(self, guess_sd: float, sizes: object) -> dict[str, float]:
        """Predicted error of the difference of two groups, by cause."""

    def power(self, effect: float, sizes: object, guess_sd: float, level: float = 0.95) -> float:
        """The chance that an effect between the two groups of `difference` is told from 0, without
        the allowance for tails."""
        error = self.difference(guess_sd, sizes)["rmse"]
        distance = abs(validate.number("effect", effect)) / error
        limit = float(-ndtri((1 - validate.level("level", level)) / 2))
        return float(ndtr(distance - limit) + ndtr(-distance - limit))
