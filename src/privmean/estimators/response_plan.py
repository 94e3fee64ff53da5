"""What plans for responses at public times have in common: one response is one unit.

The people of the road are the responses here, one row each, in the order of the times; the release
is a curve at public points.

What plans about columns share: what is public of them, and means of clipped columns.

The mean of people in public groups that share a random effect (schools, firms, villages).

Model: record t of person u in group g is mean + U_g + V_u + error, with deviations group_sd,
person_sd and within_sd. Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data"
(2025), Definition 5.8; the radius comes from the marginal variance of one person, which the number
of people in a group does not enter, and the interval from the design effect of the groups
(docs/proofs/longitudinal.md, section 7).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.data.array_table import ArrayPersonTable
from privmean.data.list_columns import doubles
from privmean.data.person_table import ClipInterval, Floats
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.concentration import FromDeviations
from privmean.estimators.curve_release import CurveRelease, SmoothedIntervals
from privmean.estimators.means.clipped_mean import ClippedMean, ClippedMeans
from privmean.estimators.winsorized import WinsorizedMean
from privmean.estimators.winsorized_run import WinsorizedPlan
from privmean.inference.interval import INDEPENDENT, grouped_design_effect
from privmean.inference.ratios import TOO_FEW
from privmean.inference.status import FAILED, release_status
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.noise.noise_source import Noise
from privmean.pipeline import Plan, PlanBase, execute
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.ledger import Ledger
from privmean.release.outcome import Outcome
from privmean.release.release import Release

NOBODY = "Too few people have a value. Add people or raise epsilon."


@dataclass(frozen=True)
class ColumnPlan(PlanBase):
    """A plan of which nothing is public but its columns, its settings and, where neighbors leave
    it alone, the number of people. persons: that number, or a guess of it; columns: how many
    there are; about, guessed: what the guarantee calls the columns, and the guess."""

    budget: Budget
    n: int
    columns: int = field(default=1, kw_only=True)
    about: ClassVar[str] = "column"
    guessed: ClassVar[tuple[str, ...]] = ()
    fixed = True

    @property
    def known(self) -> int | None:
        """The number of people, where it is public."""
        return self.n if self.budget.neighbors == REPLACE_ONE else None

    @property
    def public(self) -> tuple[str, ...]:
        number = self.guessed if self.known is None else ("n",)
        return (self.about, *number, "settings")

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(self.columns, self.known, self.n)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors by cause, at a guessed deviation between people (see `errors`)."""
        noise, sampling = self.errors(validate.positive("guess_sd", guess_sd))
        return {"rmse": math.hypot(noise, sampling), "noise": noise, "sampling": sampling}

    @abstractmethod
    def errors(self, guess: float) -> tuple[float, float]:
        """Deviations by privacy noise and by sampling, at a deviation between people."""

    def counted(self, seen: float) -> int:
        """The number of people that a release tells: n, or what its noisy sums say."""
        return self.known if self.known is not None else max(0, round(seen))


def one_column(shape: PublicShape) -> None:
    """Refuse people of several columns."""
    if shape.dimension != 1:
        raise ArgumentError("value", shape.dimension, "is not one column", "name one column")


def clipped_means(
    curator: Curator,
    final: ClippedSums,
    boxes: list[ClipInterval],
    known: int | None,
    design_effect: float,
    words: str,
    found: Callable[[ColumnSums], bool] = lambda sums: True,
) -> Outcome:
    """The outcome of one question about all columns, each clipped to its box. words: assumed.
    found: whether the sums speak for the box; else noise chose it, and nothing is shown."""
    over = final.over(boxes)
    sums = curator.ask(over, over.exact(curator.people.interval_sums(boxes)))
    means = tuple(
        ClippedMean(box, item, known, found=found(item))
        for box, item in zip(boxes, sums, strict=True)
    )
    intervals = ClippedMeans(means, known, design_effect, "clipped mean", "")
    return Outcome(
        intervals.estimate,
        intervals,
        n=intervals.n,
        status=release_status(intervals.statuses),
        statuses=intervals.statuses,
        advice=TOO_FEW if FAILED in intervals.statuses else "",
        assumptions=(INDEPENDENT, words),
        diagnostics={"weight": [item.present for item in means]},
        follows_from_answers=True,
    )


class ResponsePlanFields(Plan, Protocol):
    """A plan of a curve, as its release reads it."""

    @property
    def points(self) -> Floats: ...

    @property
    def responses(self) -> int: ...


class ResponsePlan(PlanBase):
    """A plan whose unit is a response. points: where the curve is read, public."""

    budget: Budget
    points: Floats
    unit = "response"
    public = ("times", "number of responses", "settings")

    @property
    @abstractmethod
    def responses(self) -> int:
        """Their public number."""

    @property
    @abstractmethod
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point."""

    @property
    def shape(self) -> PublicShape:
        return PublicShape(("response",), self.responses)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Root mean square error over the points by privacy noise, whatever the responses."""
        noise = float(np.sqrt((self.noise**2).mean()))
        return {"rmse": noise, "noise": noise}

    def told(self, estimate: Floats, intervals: SmoothedIntervals) -> Outcome:
        """The outcome in the words of responses."""
        return Outcome(
            estimate,
            intervals,
            n=self.responses,
            assumptions=("responses are independent", "times are public and fixed"),
            shares=self.shares,
            estimand="mean response by time",
            follows_from_answers=True,
        )

    def release(  # type: ignore[override]
        self: ResponsePlanFields,
        responses: npt.ArrayLike,
        noise: Noise | None = None,
        *,
        ledger: Ledger | None = None,
        level: float = 0.95,
    ) -> CurveRelease:
        """Charge the ledger, if one is given, and release the curve.

        responses: shape (n,), in the order of the times; NaN (missing) counts as the middle of the
        bounds, since times and numbers are public.
        """
        values = doubles(responses)
        if values.shape != (self.responses,):
            raise ArgumentError(
                "responses",
                values.shape,
                f"must be {self.responses} numbers",
                "give one response per time",
            )
        people = ArrayPersonTable(values[:, None], ("response",))
        made = execute(self, people, noise=noise, ledger=ledger, label="fixed design", level=level)
        kept = {item.name: getattr(made, item.name) for item in fields(Release)}
        names = tuple(f"{x:.6g}" for x in self.points)
        return CurveRelease(**kept | {"columns": names}, at=tuple(self.points.tolist()))


FEWEST_GROUPS = 20.0


@dataclass(frozen=True)
class RandomEffects(FromDeviations):
    """Person means vary by a random effect of their public group, of the person, and by errors.

    Parameters
    ----------
    group_sd : float
        Standard deviation of the group effects, in the unit of the value.
    within_sd : float
        Standard deviation of a person's independent records.
    records : int
        Public minimum of records per person.
    group_sizes : list of int, optional
        Public n of each group; they add up to n. Either this or `group` is required.
    person_sd : float, default 0.0
        Standard deviation of the person effects.
    group : str, optional
        Public column of the table in which the groups are counted.
    range : (float, float) or list of pairs, optional
        Public range of the center. Without it delta > 0 is required.
    gamma : float, optional
        Clipping probability, as in `WinsorizedMean`.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data. Group membership and sizes are
    public and the same for neighbors.

    Notes
    -----
    Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Definition
    5.8; docs/proofs/longitudinal.md, section 7.

    Examples
    --------
    schools = pm.RandomEffects(group_sd=0.5, within_sd=1.0, records=10, group_sizes=(25,) * 80)
    assert schools.design_effect > 1
    scores = np.random.default_rng(1).normal(50, 1, 2000)
    pm.mean(scores, clustering=schools, epsilon=1.0, delta=1e-6)
    """

    group_sd: float
    within_sd: float
    records: int
    group_sizes: tuple[int, ...] | None = None
    person_sd: float = 0.0
    group: str | None = None
    range: Any = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        validate.positive("group_sd", self.group_sd)
        validate.nonnegative("within_sd", self.within_sd)
        validate.nonnegative("person_sd", self.person_sd)
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))
        if self.group_sizes is None:
            if self.group is None:
                raise ArgumentError(
                    "group_sizes", None, "are required", "give them, or a public column as group"
                )
            return
        given = validate.listed("group_sizes", self.group_sizes, "give the size of every group")
        sizes = tuple(validate.whole("group_sizes", n, least=1) for n in given)
        if not sizes:
            raise ArgumentError("group_sizes", sizes, "is empty", "give the size of every group")
        object.__setattr__(self, "group_sizes", sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Public n of each group, once known."""
        if self.group_sizes is None:
            raise ArgumentError(
                "group_sizes", None, "are required here", "give them, or ask with a table"
            )
        return self.group_sizes

    @property
    def sd(self) -> float:
        """Marginal deviation of one person's mean."""
        own = self.within_sd / math.sqrt(self.records)
        return math.hypot(self.group_sd, self.person_sd, own)

    @property
    def icc(self) -> float:
        """Correlation of the means of two people in a group."""
        return (self.group_sd / self.sd) ** 2

    @property
    def design_effect(self) -> float:
        """Variance of the mean over people, over that of as many independent people."""
        return grouped_design_effect(self.sizes, self.icc)

    @property
    def effective_groups(self) -> float:
        """n^2 over the sum of squared sizes: the number of equal groups with the same effect."""
        n = sum(self.sizes)
        return n * n / sum(size**2 for size in self.sizes)

    @property
    def interval_factor(self) -> float:
        """Variance of the mean over (expected sample variance)/n.

        The sample misses what people in a group share: its expected variance is sd^2 (1 - (design
        effect)/n).
        """
        n = sum(self.sizes)
        effect = self.design_effect
        return effect / max(1 - effect / n, 1 / n)

    @property
    def words(self) -> str:
        few = "" if self.effective_groups >= FEWEST_GROUPS else "; too few for a reliable interval"
        return (
            f"{len(self.sizes)} groups (effectively {self.effective_groups:.3g}{few}) with "
            f"deviation {self.group_sd:g} between groups, {self.person_sd:g} between people and "
            f"{self.within_sd:g} within {self.records} records"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """The marginal rule, whatever the groups' sizes."""
        return (self.sd,) * dimension

    def estimator(self) -> RandomEffectsMean:
        """Who answers under this model."""
        return RandomEffectsMean(self)

    def shown(self) -> dict[str, float]:
        """What a release says of the groups."""
        return {
            "design_effect": self.design_effect,
            "icc": self.icc,
            "effective_groups": self.effective_groups,
        }


@dataclass(frozen=True)
class RandomEffectsMean:
    """The Winsorized mean whose interval is widened by the design effect of the groups.

    Guarantees: unit one person with all records (not a group); replace-one; the budget given to
    `plan`, for any data. People of a group may still tell of each other by what they share.
    """

    effects: RandomEffects

    def plan(self, budget: Budget, shape: PublicShape) -> WinsorizedPlan:
        effects = self.effects
        if budget.neighbors != REPLACE_ONE:
            raise ArgumentError(
                "neighbors",
                budget.neighbors,
                "is not supported with public group sizes",
                "use neighbors='replace-one'",
            )
        if sum(effects.sizes) != shape.n:
            raise ArgumentError(
                "group_sizes",
                sum(effects.sizes),
                f"must add up to n={shape.n}",
                "give the size of every group",
            )
        winsorized = WinsorizedMean(
            effects,
            range=effects.range,
            gamma=effects.gamma,
            design_effect=effects.interval_factor,
        )
        return winsorized.plan(budget, shape)
