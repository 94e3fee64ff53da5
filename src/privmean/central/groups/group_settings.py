"""Public choices of means by group, and the numbers that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.data.group_pairs import GroupWeights
from privmean.data.person_table import Floats
from privmean.estimators.pure_budget import PureBudgetSpender
from privmean.privacy.budget import REPLACE_ONE, Relation

COUNTS, TOTAL = 0.04, 0.01  # of epsilon: people by group, and all of them where that is bought
MANY = 16  # groups from which the sum of their counts is too noisy to be the number of people
LEAST = 150.0  # people times epsilon below which no value can be located
LOOK, LOOK_LEAST, LOOK_MOST = 150.0, 0.1, 0.4  # share of the tail histogram
HEAVY = 0.5  # of all people in one group
HEAVY_CHECK = 0.15  # of what is left: people beyond the limits, where a group is heavy
BEYOND = 0.05  # and where they are counted for intervals alone
ROUGH = 0.05  # of epsilon: the first cells
RHO = 1.5  # how much more bias counts than noise where limits are chosen
SMALL = 20.0  # people times epsilon that a group is taken to have at least
GATE = 0.7  # spread within groups over all spread below which groups get limits of their own
HISTOGRAM, ROUND, ROUNDS, KEEP = 0.1, 0.15, 3, 0.4
STAY, TAKE = 0.9, 0.6  # ratios of widths that end the rounds
SURE = 0.8  # and above which the pooled tail is believed of every group
SEEN = 4.0  # noise scales of a weight that is used
FEW = 3.0  # noise deviations of a weight below which there is no estimate
ALLOWED = 2.0  # how much more than the pooled tail an interval allows a group
CARRIES = 1.5  # deviations of an error: more mean in a tail that was not counted is told
HIDES = 0.15  # part of a group beyond a limit, below which its mean is not at the limit for it
PRECISE = 60.0  # weight times epsilon below which a row is called imprecise


@dataclass(frozen=True)
class GroupSettings:
    """keys: public, in the order in which people hold them; none where they are private. counted:
    whether people beyond the limits are counted, which an interval for the mean needs (else it is
    for the clipped mean). public_groups: who is in which group is public. common: all groups have
    the same limits, so that what these cut off cancels where groups are alike. bounds: public
    bounds of each value, None where it has none; given: by the caller and not by a type, so that
    values may lie beyond them. unit: what groups are called. few: noise deviations of a weight
    below which there is no estimate.
    """

    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    relation: Relation
    counted: bool = True
    public_keys: bool = True
    public_groups: bool = False
    common: bool = False
    bounds: tuple[tuple[float, float] | None, ...] = ()
    given: bool = False
    unit: str = "group"
    few: float = FEW

    def bounds_of(self, column: int) -> tuple[float, float] | None:
        """The public bounds of one of the values."""
        return self.bounds[column] if self.bounds else None

    @property
    def groups(self) -> int:
        return len(self.keys)

    @property
    def most(self) -> int:
        """The largest weight of one person over the groups asked, in people."""
        return (
            min(self.weights.max_groups, self.groups)
            if self.public_keys
            else self.weights.max_groups
        )

    @property
    def moves(self) -> int:
        """People whose answers a change of neighbors moves: one leaves, one comes."""
        return 2 if self.relation == REPLACE_ONE else 1

    @property
    def affected(self) -> int:
        """Cells that a change can move."""
        return 3 * self.groups

    @property
    def total(self) -> bool:
        """Whether the number of people with a pair is bought by itself."""
        return self.weights.split or self.groups > MANY

    def look_share(self, persons: float, epsilon: Fraction) -> float:
        """The share of the histogram in which so many people are located."""
        signal = max(persons, 1) * self.strength(epsilon)
        return min(LOOK_MOST, max(LOOK_LEAST, LOOK / signal))

    def purse(self, epsilon: Fraction) -> PureBudgetSpender:
        """What all stages together may cost."""
        return PureBudgetSpender(epsilon, self.relation, self.weights.mass)

    def width_noise(self, epsilon: Fraction, left: Fraction, weight: Floats) -> Floats:
        """Noise of the mean of each group at the price `left`, per unit of width."""
        least = SMALL * self.most / self.strength(epsilon)
        found: Floats = self.most / (np.maximum(weight, least) * self.strength(left))
        return found

    def strength(self, epsilon: Fraction) -> float:
        """epsilon under add-remove that this one is worth."""
        return float(epsilon / self.moves)
