"""Means of several columns when nothing is known of their size: the size found first.

Columns lie around zero, or around a private median of each. For every column a noisy argmax picks a
magnitude that between half and three quarters of the people stay below, and the column is clipped
at 2.5 times that, around it; or, for the mean with its tails, at the multiple that a noisy count of
the tail asks for. The scores of all choices are counts of people; a person without a value is in no
cell and counts nowhere, which matters where most people cannot be fitted.
docs/proofs/longitudinal.md, section 4, and docs/proofs/quantiles.md, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Integers
from privmean.data.grids import LOG_BINS, LOG_LOW, LOG_ZERO
from privmean.data.person_table import ClipInterval, PersonTable
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.column_plan import ColumnPlan, box_around, clipped_means
from privmean.estimators.noise_budget import stages_mu
from privmean.estimators.regression.pooled_intervals import TOO_FEW, TailInterval, TailIntervals
from privmean.inference.interval import INDEPENDENT
from privmean.inference.mean_interval import RatioWithMissing
from privmean.inference.status import FAILED, release_status
from privmean.mechanisms.choices import Bins, Choice, Exponential
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.pipeline import Step
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.release.result_numbers import Outcome
from privmean.validate import known_keywords

LEAST, MOST, OF = 2, 3, 4  # the cell that holds a quantile between 2/4 and 3/4
ADDED = 3  # what one person added or removed moves a score by, at most; one replaced by OF


def quantile_scores(counts: Integers, slope: float) -> Integers:
    """Scores of the candidate magnitudes: the upper edges of half octaves.

    counts: people in each candidate's half octave, smallest first (people beyond go to the last).
    With N_k of N people up to edge k, score k is -max(2N - 4N_k, 4N_{k-1} - 3N, 0) less a public
    amount that grows with k: the cells in which the quantiles from 50 to 75 % lie share the best
    score, also where one cell holds everybody. One person replaced moves every score by at most 4,
    one added or removed by at most 3.
    """
    upto = OF * np.cumsum(counts)
    number = int(upto[-1]) // OF
    before = np.concatenate([[0], upto[:-1]])
    gap = np.maximum(np.maximum(LEAST * number - upto, before - MOST * number), 0)
    public = np.floor(slope * np.arange(len(counts))).astype(np.int64)
    scores: Integers = -gap - public
    return scores


def median_scores(counts: Integers) -> Integers:
    """Scores of public bins: 0 for one that holds the median, else minus twice the people that
    lie between. One person replaced moves every score by at most 2, one added or removed by 1."""
    upto = np.cumsum(counts)
    number = int(upto[-1])
    before = upto - counts
    scores: Integers = -np.maximum(np.maximum(2 * before - number, number - 2 * upto), 0)
    return scores


POINTS = 2**17 + 1  # of the grid of medians
LOWEST, HIGHEST = LOG_LOW + 2, LOG_LOW + LOG_BINS  # half octaves: upper edges 2^(k/2)
PLACES = HIGHEST - LOWEST  # a size at the last one lies beyond the public range
SLOPE = Fraction(1, 16)  # noise scales that a half octave up costs; there are 159 of them
FEWEST = 60.0  # people times epsilon of one choice


def octaves_of(cells: Integers) -> Integers:
    """People by upper edge of the half octave of |x|, LOWEST first; zero is in no cell."""
    both = cells[:LOG_BINS] + cells[LOG_ZERO + 1 :]
    inside = np.zeros(HIGHEST - LOWEST + 1, dtype=np.int64)
    np.add.at(inside, np.maximum(np.arange(LOG_BINS) + LOG_LOW + 1 - LOWEST, 0), both)
    return inside


@dataclass(frozen=True)
class PricedChoice:
    """A choice at `epsilon`. bounded: by the exponential mechanism (its loss has bounded range)."""

    name: str
    epsilon: Fraction
    relation: Relation
    bounded: bool = False

    def moving(self, change: int) -> Choice | Exponential:
        """One whose scores differ by no more than `change` in all."""
        words = f"every score, by {change // 2} steps at most"
        law = Exponential if self.bounded else Choice
        return law(self.name, self.epsilon, self.relation, change, words)


@dataclass(frozen=True)
class ScaleChoice(PricedChoice):
    """The choice of a half octave."""

    @property
    def choice(self) -> Choice | Exponential:
        return self.moving(2 * (OF if self.relation == REPLACE_ONE else ADDED))

    @property
    def slope(self) -> float:
        """Score that a half octave up costs: public, so that empty cells above do not add up."""
        return float(self.choice.scale * SLOPE)

    def ask(self, curator: Curator, cells: Integers, first: int = 0) -> int:
        """The place of a half octave, not before the first, from `People.log_counts`."""
        scores = quantile_scores(octaves_of(cells)[first:], self.slope)
        return first + curator.ask(self.choice, scores)


@dataclass(frozen=True)
class MedianChoice(PricedChoice):
    """The choice of a point next to the median."""

    @property
    def choice(self) -> Choice | Exponential:
        return self.moving(4 if self.relation == REPLACE_ONE else 2)

    def ask(
        self, curator: Curator, people: PersonTable, column: int, limits: tuple[float, float]
    ) -> tuple[float, float]:
        """A point next to the median of a column, between these limits, and half a step of the grid
        that it is on. people: those of the curator, or the same people with other rows."""
        lower, upper = limits
        bins = Bins(lower, (upper - lower) / (2 * POINTS), POINTS)
        counts = bins.all_counts(people.uniform_counts(column, bins.half, bins.origin))
        return bins.center(curator.ask(self.choice, median_scores(counts))), bins.half


def edge(index: int) -> float:
    """The upper edge of a half octave, by its place in `octaves_of`."""
    return math.pow(2.0, (LOWEST + index) / 2)


def refuse_unseen(
    persons: int, budget: Budget, each: float | Fraction, least: float, what: str, other: str
) -> None:
    """InfeasibleError where people times epsilon of one choice are too few to show anything."""
    if persons * each < least:
        raise InfeasibleError(
            f"n={persons} is too small to {what} with {budget.describe()}",
            f"provide at least about {math.ceil(least / float(each))} people, {other}",
        )


def part_of(budget: Budget, share: Fraction, number: int) -> Fraction:
    """Epsilon of one of so many pure mechanisms out of a share of the budget."""
    if budget.rho is None:
        return budget.pure_epsilon() * share / number
    spent = float(share) * budget.rho / number
    return Fraction(math.floor(math.sqrt(2 * spent) * 2**40), 2**40)


def boxes_about(centres: Sequence[float], radii: Sequence[float]) -> list[ClipInterval]:
    return [box_around(c, radius) for c, radius in zip(centres, radii, strict=True)]


BEYOND = 2.5  # clipping radius over that magnitude
STEEPEST, SLOPES = Fraction(1, 4), 10  # noise scales that a half octave up costs, and all of them
SHARES = (Fraction(1, 4), Fraction(3, 10), Fraction(7, 20), Fraction(2, 5))  # for the magnitudes
ENOUGH = 480.0  # people times epsilon of one magnitude, for which shares are raised
COUNTING = Fraction(1, 20)  # for the number of people in the tail, where it is asked
MOST_SQUARE = (
    3 / 4
)  # mean square over that of the radius; at most .58 where half stay below the magnitude
NARROWEST, WIDEST = 3.0, 16.0  # clipping radius over the magnitude, for the mean
SHARED = 2.0  # half steps of the grid of medians: half of the people share a value to within that
MAGNITUDE = 40.0  # people times epsilon of one magnitude
NOISE_HALF = 9.6  # noise in an interval, in radii over epsilon
WORDS = "the magnitude is found privately, and few people lie beyond 2.5 times of it"
MEAN, CLIPPED = "mean", "clipped"
ZERO, MEDIAN = "zero", "median"


@known_keywords
@dataclass(frozen=True)
class PrivateScale:
    """Mean of columns around zero, each clipped at a magnitude found privately.

    Parameters
    ----------
    smallest, largest : float, default 2**-39 and 2**39
        Public range of the magnitudes of all columns, in their unit. A wide range costs little.
    target : {"clipped", "mean"}, default "clipped"
        Interval for the clipped mean, or for the mean with a count of outliers.
    excess_ratio : float, default 1.0
        Assumed average distance of outliers beyond the bound, relative to the bound. 1 allows
        Pareto tails of index 2.
    design_effect : float, default 1.0
        Design effect of clustered people.
    center : {"zero", "median"}, default "zero"
        Clip around zero, or around a private median between -largest and largest.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy within the budget, for any data, under replace-one or (target
    "clipped") add-remove. Public are the columns, the settings and, under replace-one, n.

    Notes
    -----
    People without a value do not count in the mean (the ratio form).

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    sizes = pm.PrivateScale(target="mean")
    pm.regress(table, "ln_wage ~ ttl_exp", effect="per_person", method=sizes, epsilon=2.0)
    """

    smallest: float = 2.0**-39
    largest: float = 2.0**39
    target: str = CLIPPED
    excess_ratio: float = 1.0
    design_effect: float = 1.0
    center: str = ZERO

    def __post_init__(self) -> None:
        validate.keep(
            self, validate.positive, "smallest", "largest", "excess_ratio", "design_effect"
        )
        validate.choice("target", self.target, (MEAN, CLIPPED))
        validate.choice("center", self.center, (ZERO, MEDIAN))
        if self.excess_ratio != 1.0 and self.target == CLIPPED:
            raise ArgumentError(
                "excess_ratio",
                self.excess_ratio,
                "requires target='mean'",
                'give target="mean", or remove it',
            )
        if not 2.0**-39 <= self.smallest <= self.largest <= 2.0**39:
            raise ArgumentError(
                "smallest",
                self.smallest,
                "must be below largest",
                "give 2^-39 <= smallest <= largest",
            )

    @property
    def octaves(self) -> tuple[int, int]:
        """The first and the last half octave, as indices of upper edges: 2^(k/2)."""
        return math.floor(2 * math.log2(self.smallest)), math.ceil(2 * math.log2(self.largest))

    @property
    def choices(self) -> int:
        """The noisy argmax of each column."""
        return 1 if self.center == ZERO else 2

    def min_people(self, relation: Relation) -> float:
        """People times epsilon of one choice that show something."""
        return FEWEST if self.center == MEDIAN and relation == REPLACE_ONE else MAGNITUDE

    def plan(self, budget: Budget, shape: PublicShape) -> PrivateScalePlan:
        """Everything decided before data are read. InfeasibleError if a magnitude is mostly
        noise."""
        relation, n, d = budget.neighbors, shape.number(), shape.dimension
        if relation != REPLACE_ONE and self.target == MEAN:
            raise ArgumentError(
                "target",
                MEAN,
                "requires a public n, hence neighbors='replace-one'",
                "use target='clipped', public bounds or a concentration",
            )
        asked = d * self.choices
        enough = (x for x in SHARES if n * part_of(budget, x, asked) >= ENOUGH)
        share = next(enough, SHARES[-1])
        each = part_of(budget, share, asked)
        refuse_unseen(
            n, budget, each, self.min_people(relation), "find the scale of every column",
            "a larger epsilon, or public bounds or a concentration",
        )  # fmt: skip
        plan = partial(PrivateScalePlan, budget, n, self, columns=d)
        if self.target == MEAN:
            counting = part_of(budget, COUNTING, d)
            tail = part_of(budget, 1 - share - COUNTING, d)
            return plan(share, each, None, counting, tail)
        if budget.rho is None:
            left = budget.pure_epsilon() * (1 - share)
            final = ClippedSums("clipped sum", relation, d, epsilon=left / d)
            if budget.delta > 0 and d > 1:
                rest = Budget(epsilon=float(left) * (1 - 1e-12), delta=budget.delta)
                other = ClippedSums("clipped sum", relation, d, mu=stages_mu(rest, 0.0, d))
                final = min(final, other, key=lambda item: item.value_sd)
        else:
            rest = Budget(rho=budget.rho * (1 - float(share)) * (1 - 1e-12))
            final = ClippedSums("clipped sum", relation, d, mu=stages_mu(rest, 0.0, d))
        return plan(share, each, final)


def _spread(multiple: float, one: float) -> float:
    """Deviation of a noisy sum, per deviation between people, at that multiple of a magnitude."""
    return 0.97 * 1.19 * multiple * one


@dataclass(frozen=True)
class PrivateScalePlan(ColumnPlan):
    """Everything public of such a mean decided. share: of the budget, for the magnitudes; each:
    epsilon of one of them. final: the clipped sums; for the mean instead counting and tail: epsilon
    of a column's count of the tail and of its joint release."""

    settings: PrivateScale
    share: Fraction
    each: Fraction
    final: ClippedSums | None
    counting: Fraction | None = None
    tail: Fraction | None = None

    estimator = "mean clipped at private magnitudes"
    about = "columns"

    @property
    def rationale(self) -> str:
        found = "a magnitude" if self.settings.center == ZERO else "a median and a magnitude"
        if self.final is None:
            return f"{found} a column by noisy argmax, then sums with a count of the tail"
        return f"{found} a column by noisy argmax, then clipped sums with {self.final.law} noise"

    @property
    def steps(self) -> tuple[Step, ...]:
        d, middle = self.columns, () if self.settings.center == ZERO else (self._middle.choice,)
        magnitudes = Step("magnitudes", self.share, (*middle, self._choice), d)
        if self.final is not None:
            return magnitudes, Step("mean", 1 - self.share, (self.final,))
        assert self.tail is not None
        return (
            magnitudes,
            Step("tail", COUNTING, (self._count,), d),
            Step("mean", 1 - self.share - COUNTING, (self._tail_sums(self.tail),), d),
        )

    @property
    def _choice(self) -> Choice:
        words = f"every score, by {OF} steps at most"
        return Choice("magnitude", self.each, self.relation, 2 * OF, words)

    @property
    def _middle(self) -> MedianChoice:
        return MedianChoice("median", self.each, self.relation)

    @property
    def _count(self) -> NoisyCounts:
        """People beyond 2.5 magnitudes of one column."""
        assert self.counting is not None
        return NoisyCounts.at("count in the tail", self.counting, self.relation)

    def _tail_sums(self, epsilon: Fraction) -> ClippedSums:
        """The sums of one column, corrected at its limits."""
        jump = self.settings.excess_ratio / 2
        return ClippedSums(
            "value, square and tail", REPLACE_ONE, epsilon=epsilon, jumps=(jump, jump)
        )

    def errors(self, guess: float) -> tuple[float, float]:
        """Of people whose center is near zero."""
        if self.final is None:
            assert self.tail is not None
            multiple = NARROWEST
            one = self._tail_sums(self.tail).value_sd
        else:
            multiple, one = BEYOND, self.final.value_sd
        return guess * _spread(multiple, one) / self.n, guess / math.sqrt(self.n)

    def details(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "columns": self.columns,
            "epsilon_of_one_magnitude": float(self.each),
            "range_of_magnitudes": [self.settings.smallest, self.settings.largest],
        }

    def centre(self, curator: Curator, column: int) -> tuple[float, float]:
        """Zero, or a private median of a column, and half a step of the grid that it is on."""
        if self.settings.center == ZERO:
            return 0.0, 0.0
        limits = -self.settings.largest, self.settings.largest
        return self._middle.ask(curator, curator.people, column, limits)

    def magnitude(self, curator: Curator, column: int, centre: float = 0.0) -> float:
        """A magnitude about a center that 50 to 75 % of the people stay below, by noisy argmax."""
        first, last = self.settings.octaves
        cells = curator.people.log_counts(column, centre)
        both = cells[:LOG_BINS] + cells[LOG_ZERO + 1 :]
        # cell j holds 2^((j+LOG_LOW)/2) <= |v| < the next; the zero cell may hold null people and
        # is left out
        inside = np.zeros(last - first + 1, dtype=np.int64)
        edges = np.clip(np.arange(LOG_BINS) + LOG_LOW + 1 - first, 0, last - first)
        np.add.at(inside, edges, both)
        choice = self._choice
        slope = float(choice.scale * min(STEEPEST, Fraction(SLOPES, len(inside))))
        index = curator.ask(choice, quantile_scores(inside, slope))
        return math.pow(2.0, (first + index) / 2)

    def run(self, curator: Curator) -> Outcome:
        centres, sizes, atoms = [], [], []
        for j in range(self.columns):
            centre, half = self.centre(curator, j)
            centres.append(centre)
            sizes.append(self.magnitude(curator, j, centre))
            atoms.append(sizes[-1] <= SHARED * half)
        if self.final is None:
            return self._with_tails(curator, centres, sizes, atoms)
        radii = [BEYOND * size for size in sizes]
        made = clipped_means(
            curator,
            self.final,
            boxes_about(centres, radii),
            self.known,
            self.settings.design_effect,
            WORDS,
            lambda sums: self._enough(sums) and sums.square <= MOST_SQUARE * sums.weight,
        )
        told = {"clip_radius": radii, **made.diagnostics}
        return replace(made, shares=self.shares, diagnostics=told)

    def _enough(self, sums: ColumnSums) -> bool:
        """Whether as many people as the choices need have a value, by what is released of them."""
        number = sums.weight + 2 * sums.weight_noise
        return number * float(self.each) >= self.settings.min_people(self.relation)

    def multiple(self, beyond: float) -> float:
        """The clipping radius over the magnitude at which noise and the allowance for the tail are
        about equal, for that many people beyond 2.5 magnitudes and a tail of index 2."""
        assert self.tail is not None
        balance = self.settings.excess_ratio * beyond * float(self.tail) / (2 * NOISE_HALF)
        return min(max(BEYOND * math.sqrt(max(balance, 0.0)), NARROWEST), WIDEST)

    def _with_tails(
        self, curator: Curator, centres: list[float], sizes: list[float], atoms: list[bool]
    ) -> Outcome:
        assert self.counting is not None
        assert self.tail is not None
        people = curator.people
        near = people.interval_sums(boxes_about(centres, [BEYOND * size for size in sizes]))
        count = self._count
        beyond = [
            float(curator.ask(count, as_counts(item.above + item.below))[0])
            for item in near
            if item is not None
        ]
        radii = [self.multiple(n) * size for n, size in zip(beyond, sizes, strict=True)]
        boxes = boxes_about(centres, radii)
        last = self._tail_sums(self.tail)
        means = []
        for box, exact, atom in zip(boxes, people.interval_sums(boxes), atoms, strict=True):
            over = last.over([box])
            (sums,) = curator.ask(over, over.exact([exact]))
            joint = RatioWithMissing.of(sums, self.n)
            enough = self._enough(sums)
            means.append(TailInterval(box, joint, self.settings.excess_ratio, enough, atom))
        statuses = tuple(item.status for item in means)
        return Outcome(
            np.array([item.estimate for item in means]),
            TailIntervals(tuple(means), self.settings.design_effect),
            n=self.n,
            status=release_status(statuses),
            statuses=statuses,
            advice=TOO_FEW if FAILED in statuses else "",
            assumptions=(INDEPENDENT,),
            shares=self.shares,
            diagnostics={
                "clip_radius": radii,
                "weight": [item.joint.present for item in means],
                "people beyond the limits": [item.beyond for item in means],
            },
            follows_from_answers=True,
        )
