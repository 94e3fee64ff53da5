"""Two arms that are public: their difference by one signed sum, at the noise of one mean.

Who is in which arm is on the public roster, so that sizes cost nothing and a replaced person stays
in its arm. Limits are found from all people together and are the same for both arms, so that what
they cut off cancels where the arms are alike. Claim and proof: docs/proofs/groups.md, section 12.
"""

from __future__ import annotations

from dataclasses import dataclass

from privmean import validate
from privmean.central.groups.arms_plan import ArmsPlan
from privmean.central.groups.group_settings import GroupSettings
from privmean.central.pure_budget import require_epsilon
from privmean.data.group_pairs import GroupWeights
from privmean.data.key_text import by_text, keys_of
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.privacy.budget import REPLACE_ONE, Budget


@dataclass(frozen=True)
class TwoArms:
    """Difference of the means over people in two public arms.

    Parameters
    ----------
    keys : two tuples of str
        The arms, the treated arm first.
    target : {"clipped"}, optional
        Interval for the difference of clipped means, without a count of outliers. Default: interval
        for the difference of means.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: pure epsilon under replace-one, for any data. Public are the
    roster and the arm of each person.

    Examples
    --------
    question = pm.Compare("wage", arms="treated", membership="public")  # plans TwoArms
    pm.plan(question, n=1000, epsilon=1.0).power(0.3, [400, 600], guess_sd=1.0)
    """

    keys: tuple[tuple[str, ...], tuple[str, ...]]
    target: str | None = None

    def __post_init__(self) -> None:
        validate.choice("target", self.target, [None, "clipped"])
        object.__setattr__(self, "keys", keys_of("keys", self.keys))
        if len(self.keys) != 2:
            raise ArgumentError("keys", self.keys, "must be two keys", "give two keys")

    def plan(self, budget: Budget, shape: PublicShape) -> ArmsPlan:
        """Prices of the stages, before any data; raises InfeasibleError from public numbers
        only."""
        if budget.neighbors != REPLACE_ONE:
            raise ArgumentError(
                "neighbors",
                budget.neighbors,
                "cannot have public arms",
                "use neighbors='replace-one', or membership='private'",
            )
        epsilon = require_epsilon(budget.pure_epsilon())
        settings = GroupSettings(
            by_text(self.keys), GroupWeights(), REPLACE_ONE, self.target is None, public_groups=True
        )
        return ArmsPlan(budget, shape, epsilon, settings, self.keys)
