"""What plans about columns share: what is public of them, and means of clipped columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from privmean.central.clipped_mean import ClippedMean, ClippedMeans
from privmean.intervals.divided import TOO_FEW
from privmean.intervals.interval import FAILED
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.outcome import Outcome, overall
from privmean.people.reductions import Box
from privmean.people.shape import Shape
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.road import Releasing


class ColumnPlan(Releasing):
    """A plan of which nothing is public but its columns, its settings and, where neighbours leave
    it alone, the number of persons. persons: that number, or a guess of it."""

    budget: Budget
    persons: int
    about: ClassVar[str] = "column"

    @property
    def known(self) -> int | None:
        """The number of persons, where it is public."""
        return self.persons if self.budget.neighbors == REPLACE_ONE else None

    @property
    def public(self) -> tuple[str, ...]:
        number = () if self.known is None else ("number of persons",)
        return (self.about, *number, "settings")

    @property
    def shape(self) -> Shape:
        return Shape.of(1, self.known, self.persons)


def clipped_means(
    curator: Curator,
    final: ClippedSums,
    boxes: list[Box],
    known: int | None,
    design_effect: float,
    words: str,
) -> Outcome:
    """The outcome of one question about all columns, each clipped to its box. words: assumed."""
    over = final.over(boxes)
    sums = curator.ask(over, over.exact(curator.people.box_sums(boxes)))
    means = tuple(ClippedMean(box, item, known) for box, item in zip(boxes, sums, strict=True))
    intervals = ClippedMeans(means, known, design_effect, "clipped mean", "")
    return Outcome(
        intervals.estimate,
        intervals,
        persons=intervals.persons,
        status=overall(intervals.statuses),
        statuses=intervals.statuses,
        advice=TOO_FEW if FAILED in intervals.statuses else "",
        assumptions=(words, "unrelated persons"),
        diagnostics={"weight": [item.present for item in means]},
    )


def told(outcome: Outcome, shares: dict[str, float], facts: dict[str, Any]) -> Outcome:
    """The outcome with where the budget went, and further facts before its own."""
    return replace(outcome, shares=shares, diagnostics={**facts, **outcome.diagnostics})
