"""What plans about columns share: what is public of them, and means of clipped columns."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from privmean import validate
from privmean.data.person_table import ClipInterval
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.means.clipped_mean import ClippedMean, ClippedMeans
from privmean.inference.interval import INDEPENDENT
from privmean.inference.mean_interval import TOO_FEW
from privmean.inference.status import FAILED, release_status
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.release.result_numbers import Outcome

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


def box_around(center: float, radius: float) -> ClipInterval:
    """The box around a released center; wider where doubles cannot tell its ends apart, so that no
    center, however far, can make a release fail that was charged."""
    reach = max(radius, abs(center) * 2.0**-40)
    return ClipInterval(center - reach, center + reach)


def require_roster(budget: Budget, problem: str, otherwise: str = "") -> None:
    """Refuse neighbors of which the number of people is private. otherwise: a second remedy."""
    if budget.neighbors != REPLACE_ONE:
        remedy = " or ".join(filter(None, ["use neighbors='replace-one'", otherwise]))
        raise ArgumentError("neighbors", budget.neighbors, problem, remedy)


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
