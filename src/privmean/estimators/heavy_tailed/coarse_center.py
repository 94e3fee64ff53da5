"""A coarse center, what it may cost, and a private radius around it.

The coarse estimate says where the mean is, up to a few standard deviations of a person's value.
Each column gets a histogram of the people's values on a public grid of buckets whose width follows
the assumption; the fullest noisy bucket's middle is the coarse center. Four forms share this plan:

* "selection": pure, over a public range: exact noisy argmax over all buckets;
* "stable": over the whole line: Laplace counts of occupied buckets above a threshold (costs delta);
* "gaussian": over a public range, all columns in one Gaussian query (no delta of its own);
* "gaussian stable": over the whole line, all columns in one Gaussian query and a threshold;

and "public": no data at all, the middle of the public range (a ball around it holds the mean).
Source: Agarwal et al. (2024), Algorithm 1 and Theorems 3.10 and 4.19; how much budget is needed is
derived in docs/proofs/heavy-tails-coarse.md.

The search of a radius, which helps when the moment bound is pessimistic, goes from small radii
upwards and stops where few people remain outside, never beyond the planned radius. It is charged
once. Proof: docs/proofs/heavy-tails-radius.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from scipy import stats
from scipy.special import ndtri

from privmean.data.person_table import PersonTable
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed.clipping_bias import Tail
from privmean.mechanisms.choices import Bins, FirstBelow, NoisyArgmax, SeenArgmax
from privmean.mechanisms.curator import Curator, EachColumn
from privmean.mechanisms.histograms import GaussianStableHistogram, StableHistogram, top_bin
from privmean.mechanisms.noisy_counts import moved_counts
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent

Form = Literal["selection", "stable", "gaussian", "gaussian stable", "public"]
Ranges = tuple[tuple[float, float], ...]
Location = NoisyArgmax | StableHistogram | SeenArgmax | GaussianStableHistogram


@dataclass(frozen=True)
class Coarse:
    """A planned coarse estimate.

    width: of a bucket. offset: planned l2 distance of the center from the mean (with probability
    1 - beta). epsilon: of one column (pure forms); mu: of the query (Gaussian forms); delta: of all
    thresholds together. ranges: the public range of every column, where the form needs one.

    **Guarantees.** Any data: `losses` (docs/proofs/heavy-tails-coarse.md). A failed
    stable histogram is an outcome, charged in full.
    """

    form: Form
    dimension: int
    width: float
    offset: float
    epsilon: Fraction = Fraction(0)
    mu: float = 0.0
    delta: float = 0.0
    ranges: Ranges | None = None
    relation: Relation = REPLACE_ONE

    def cells(self, column: int) -> int:
        """Buckets of one column's public range."""
        assert self.ranges is not None
        lower, upper = self.ranges[column]
        return max(1, math.ceil((upper - lower) / self.width))

    @cached_property
    def mechanisms(self) -> tuple[Location, ...]:
        """One a column that is asked (pure forms), or one for all columns."""
        each, relation = range(self.dimension), self.relation
        name = "coarse center"
        if self.form == "selection":
            return tuple(
                NoisyArgmax.of(self.epsilon, relation, f"{name} of column {j}")
                for j in each
                if self.cells(j) > 1
            )
        if self.form == "stable":
            delta = self.delta / self.dimension
            return tuple(
                StableHistogram.of(self.epsilon, delta, relation, f"{name} of column {j}")
                for j in each
            )
        if self.form == "gaussian":
            return (SeenArgmax.of(self.mu, self.dimension, relation, name),)
        if self.form == "gaussian stable":
            facts = self.mu, self.dimension, relation, name
            return (GaussianStableHistogram.of(*facts, delta=self.delta),)
        return ()

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for step in self.mechanisms for event in step.events)

    @property
    def pure(self) -> Fraction:
        """Epsilon of the pure forms, all columns."""
        return sum((loss.pure for loss in self.events), Fraction(0))

    def _ask(self, curator: Curator, counts: list[Any]) -> list[Any]:
        """The noisy answers of the columns that are asked."""
        if self.form in ("selection", "stable"):
            pairs = zip(self.mechanisms, counts, strict=True)
            return [curator.ask(step, item) for step, item in pairs]
        (made,) = self.mechanisms
        step: Any = made
        return curator.ask(EachColumn(step, 1), counts)

    def find(self, curator: Curator, people: PersonTable) -> tuple[float, ...] | None:
        """The coarse center of `people`, the curator's own or a part of them; None if some column
        has no bucket above its threshold (Gaussian counts: above what noise by itself may have)."""
        if self.form == "public":
            assert self.ranges is not None
            return tuple(lower + (upper - lower) / 2 for lower, upper in self.ranges)
        centers = self._columns(curator, people)
        known = tuple(center for center in centers if center is not None)
        return known if len(known) == self.dimension else None

    def _columns(self, curator: Curator, people: PersonTable) -> list[float | None]:
        half, columns = self.width / 2, range(self.dimension)
        if self.ranges is None:
            kept = self._ask(curator, [people.uniform_counts(j, half) for j in columns])
            tops = [top_bin(item) for item in kept]
            return [None if top is None else 2 * half * top for top in tops]
        bins = [Bins(low, half, self.cells(j)) for j, (low, _) in enumerate(self.ranges)]
        dense = [
            item.all_counts(people.uniform_counts(j, half, item.origin))
            for j, item in enumerate(bins)
        ]
        shown = [j for j in columns if bins[j].number > 1]
        best: dict[int, int | None] = dict.fromkeys(columns, 0)
        best |= dict(zip(shown, self._ask(curator, [dense[j] for j in shown]), strict=True))
        return [
            None if cell is None else min(max(bins[j].center(cell), low), high)
            for (j, cell), (low, high) in zip(best.items(), self.ranges, strict=True)
        ]


MARGIN = 0.3  # the fullest bucket leads any bucket far from the mean by this share of people
KEPT = 0.4  # and holds at least this share
LARGEST_CELLS = 2**22  # cells that a dense histogram may have, all columns together
FINEST_SHARE = 2**40


def _share(value: float) -> Fraction:
    """A rational of 40 binary places, rounded up."""
    return Fraction(math.ceil(value * FINEST_SHARE), FINEST_SHARE)


@dataclass(frozen=True)
class CoarseNeeds:
    """Public facts from which the budget a coarse estimate needs is computed.

    spread: bound on the standard deviation of a person's value. beta: chance of a wrong bucket.
    wide: use buckets of 6 standard deviations, for which the proof's constants hold, not of 2.
    """

    dimension: int
    n: int
    spread: float
    ranges: Ranges | None
    relation: Relation = REPLACE_ONE
    beta: float = 0.01
    wide: bool = False

    @property
    def cells_changed(self) -> int:
        """Counts of one column that a neighbor changes."""
        return moved_counts(self.relation)

    @property
    def width(self) -> float:
        return (6.0 if self.wide else 2.0) * self.spread

    @property
    def offset(self) -> float:
        """The planned distance of the center from the mean, over all columns."""
        one = self.width if self.wide else 0.75 * self.width
        return math.sqrt(self.dimension) * one

    @property
    def cells(self) -> int:
        """Buckets of all columns together."""
        assert self.ranges is not None
        return sum(max(1, math.ceil((u - v) / self.width)) for v, u in self.ranges)

    def _of(
        self,
        form: Form,
        *,
        offset: float | None = None,
        epsilon: Fraction = Fraction(0),
        mu: float = 0.0,
        delta: float = 0.0,
    ) -> Coarse:
        ranges = None if "stable" in form else self.ranges
        planned = self.offset if offset is None else offset
        return Coarse(
            form, self.dimension, self.width, planned, epsilon, mu, delta, ranges, self.relation
        )

    def public(self) -> Coarse | None:
        """The middle of the public range."""
        if self.ranges is None:
            return None
        offset = math.sqrt(math.fsum(((u - v) / 2) ** 2 for v, u in self.ranges))
        return self._of("public", offset=offset)

    def selection(self) -> Coarse | None:
        """Exact noisy argmax a column, with just the epsilon it needs."""
        if self.ranges is None or self.cells > LARGEST_CELLS:
            return None
        persons = MARGIN * self.n
        if self.wide:
            slack = 2 * math.sqrt(math.log(4 * self.dimension / self.beta) / (2 * self.n))
            persons = self.n * max(1 / 3 - slack, 1e-9)
        need = (
            self.cells_changed
            * math.log((2 if self.wide else 1) * self.cells / self.beta)
            / persons
        )
        return self._of("selection", epsilon=_share(need))

    def stable(self, delta: float) -> Coarse | None:
        """Laplace counts of occupied buckets above a threshold, a column at a time."""
        if delta <= 0 or KEPT * self.n <= 1:
            return None
        d = self.dimension
        shown = (math.log(d / delta) + math.log(d / self.beta)) / (KEPT * self.n - 1)
        right = math.log(self.n * d / self.beta) / (MARGIN * self.n)
        return self._of(
            "stable", epsilon=_share(self.cells_changed * max(shown, right)), delta=delta
        )

    def gaussian(self) -> Coarse | None:
        """Gaussian counts of all buckets of all columns."""
        if self.ranges is None or self.cells > LARGEST_CELLS:
            return None
        deviation = MARGIN / 2 * self.n / math.sqrt(2 * math.log(self.cells / self.beta))
        return self._of("gaussian", mu=math.sqrt(self.cells_changed * self.dimension) / deviation)

    def gaussian_stable(self, delta: float) -> Coarse | None:
        """Gaussian counts of occupied buckets above a threshold, all columns in one query."""
        if delta <= 0 or KEPT * self.n <= 1:
            return None
        d = self.dimension
        hidden = -float(ndtri(delta / d)) + math.sqrt(2 * math.log(d / self.beta))
        deviation = (KEPT * self.n - 1) / hidden
        return self._of(
            "gaussian stable", mu=math.sqrt(self.cells_changed * d) / deviation, delta=delta
        )


MISS = 0.05  # chance that noise stops the search too early at some candidate


@dataclass(frozen=True)
class RadiusSearch:
    """Radii tried upwards until about `outside` people lie beyond.

    **Guarantees.** epsilon-DP (replace-one) for any data and any fixed or released center: one
    noisy threshold, noisy counts of people outside growing balls, one answer, then it ends.
    """

    candidates: tuple[float, ...]
    outside: int
    epsilon: Fraction

    @property
    def mechanism(self) -> FirstBelow:
        words = "each count of people beyond, by one (above a noisy threshold, one answer)"
        return FirstBelow("private radius", self.outside, self.epsilon, REPLACE_ONE, words)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.mechanism.events

    def expected(self, tail: Tail, persons: int, offset: float) -> float:
        """The radius that values without large outliers are expected to give: the candidate beyond
        which no more than `outside` people lie, the center off by `offset`."""
        inside = stats.chi2.isf(self.outside / persons, tail.dimension) / tail.dimension
        least = math.hypot(offset, tail.size * math.sqrt(inside))
        return next((item for item in self.candidates if item >= least), math.inf)

    def find(self, curator: Curator, center: Sequence[float]) -> float | None:
        """The first candidate with a noisy count at most the noisy threshold; None if none has."""
        people = curator.people
        persons = people.size()
        beyond = (persons - people.count_in_ball(center, radius) for radius in self.candidates)
        index = curator.ask(self.mechanism, beyond)
        return None if index is None else self.candidates[index]


def search_one_column(
    spread: float, planned: float, persons: int, epsilon: Fraction
) -> RadiusSearch | None:
    """The search for one column: 72 radii, a factor sqrt(2) apart; None if n is too small."""
    return _search(
        [spread * 2.0 ** (j / 2 - 16) for j in range(72)], planned, persons, epsilon, 0.0
    )


def search_ball(
    size: float, planned: float, persons: int, epsilon: Fraction, least: float
) -> RadiusSearch | None:
    """The search for a ball: 80 radii, a factor 2^(1/4) apart, from size/64 upwards.

    least: people outside that the final noise hides anyway (sqrt(d)/mu).
    """
    return _search([size * 2.0 ** (j / 4 - 6) for j in range(80)], planned, persons, epsilon, least)


def _search(
    grid: Sequence[float], planned: float, persons: int, epsilon: Fraction, least: float
) -> RadiusSearch | None:
    outside = math.ceil(max(2 / float(epsilon) * math.log(len(grid) / MISS), least))
    candidates = tuple(radius for radius in grid if radius < planned)
    if outside > persons / 3 or not candidates:
        return None
    return RadiusSearch(candidates, outside, epsilon)


@dataclass(frozen=True)
class Outside:
    """What the end of a search says of those beyond the radius found, at no further cost.

    tails, offset: the assumption, and how far the center may be from the mean.
    """

    search: RadiusSearch
    n: int
    tails: tuple[Tail, ...]
    offset: float

    def share(self, alpha: float) -> float:
        """A bound on the probability of lying beyond, wrong with chance `alpha` at most.

        The count at the end was at most `outside` plus the threshold's noise less its own; the
        latter, and Clopper and Pearson's bound, are taken for all candidates at once.
        """
        scale, tried = 2 / float(self.search.epsilon), len(self.search.candidates)
        noise = scale * (math.log(3 / alpha) + math.log(3 * tried / alpha))
        most = self.search.outside + math.ceil(noise) + 1
        if most >= self.n:
            return 1.0
        return float(stats.beta.ppf(1 - alpha / (3 * tried), most + 1, self.n - most))

    def bias(self, alpha: float) -> float:
        """A bound on the bias of clipping in any direction, wrong with chance `alpha` at most."""
        return bias.of_share(self.tails, self.share(alpha), self.offset)
