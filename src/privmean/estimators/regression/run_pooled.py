"""One regression for all people: noisy second moments, then one step of noisy score contributions.

Center and limits of every variable by private choices; two rounds of noisy sums of people's second
moments, the second in whitened regressors and residuals; then the sum of score contributions of the
coefficients asked for, shortened to a ball, with their products. Every branch of a run depends on
the plan and on noisy answers only; where an answer says that nothing can be told, what is left of
the budget stays unspent. docs/proofs/pooled-regression.md, sections 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import blocks
from privmean.data.person_table import PersonTable
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.column_plan import ColumnPlan
from privmean.estimators.find_region import FOUND, ClippingRegion
from privmean.estimators.means.region_mean import centre_of, spread_of
from privmean.estimators.noise_budget import Counts, NoiseBudget, ask_counts, plans_by_law
from privmean.estimators.regression.panel import (
    AGAIN,
    MATRIX_STEPS,
    ROW_STEPS,
    PanelTable,
    Symmetric,
    Weighting,
    added,
    influence_rows,
    joined,
    lattice_matrices,
    lattice_rows,
    matrix_sizes,
    panel_of,
    parts,
    person_moments,
    row_sizes,
    transformed,
    triangle,
)
from privmean.estimators.regression.polynomial_design import Design
from privmean.estimators.regression.pooled_intervals import SEEN, Coefficients, eigen, times
from privmean.estimators.regression.private_scale import LOWEST, ScaleChoice, edge
from privmean.estimators.regression.score_lengths import (
    LAPLACE,
    SURE,
    Lengths,
    Radius,
    misread,
    seen_counts,
    usual_size,
)
from privmean.inference.interval import dependence
from privmean.inference.status import (
    EXTREME_OUTLIERS,
    FAILED,
    NOT_IDENTIFIED,
    OK,
    OUTLIERS_CLIPPED,
    SUPPRESSED,
)
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import as_counts, moved_counts
from privmean.mechanisms.private_location import PrivateCenter, PrivateLimits, edges, side_counts
from privmean.mechanisms.row_sums import MatrixSums, RowProducts
from privmean.output import count_noun
from privmean.pipeline import Step
from privmean.privacy.budget import Budget
from privmean.release.result_numbers import Outcome

LOOK, COUNT = Fraction(10, 100), Fraction(10, 100)  # of what goes to shortened rows
SEARCH, MOMENTS, SCORE = Fraction(15, 100), Fraction(40, 100), Fraction(45, 100)
LIMITS_NEED = 100.0  # people times epsilon that a choice of limits needs
# for the search: the first share at which that choice has so many
MORE = (
    (Fraction(5, 100), 6 * LIMITS_NEED),
    (Fraction(10, 100), 4.5 * LIMITS_NEED),
    (Fraction(15, 100), 3 * LIMITS_NEED),
    (Fraction(20, 100), 2 * LIMITS_NEED),
    (Fraction(25, 100), 1.5 * LIMITS_NEED),
    (Fraction(35, 100), 0.0),
)
CENTER = Fraction(1, 4)  # of the search of a variable; the rest for its limits
ROUNDS = (Fraction(4, 10), Fraction(6, 10))
CHOICE = Fraction(15, 100)  # of a round, for the length at which matrices are shortened
CELLS = 31  # half octaves in which score contributions are looked at, from 2^-7
# people whose score contributions are clipped exceed the bound on average by no more than so many
# bounds: no heavier than a Pareto tail of index 3
EXCESS = 0.5
ALIKE = 4.0  # epsilon over mu of equal noise, at deltas from 1e-7 to 1e-5
FEWEST = {"gaussian": (300.0, 1), "laplace": (300.0, 2)}  # n epsilon over p, or p^2


@dataclass(frozen=True)
class Target:
    """What is released: a weighted sum of coefficients, by name."""

    name: str
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Pooled:
    """The estimator. design, weighting: the regression and what a person counts. targets: what is
    released; all coefficients if None. units: public centers and scales of variables (a half octave
    of the spread). design_effect: public factor on the sampling variance. single: one coefficient
    may bear all of what clipping takes, else each bears an equal share. looked: variables whose
    center and scale a private search of their column gives.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    formula, settings and, under replace-one, the number of people.
    """

    design: Design
    weighting: Weighting
    targets: tuple[Target, ...] | None = None
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    design_effect: float = 1.0
    single: bool = False
    looked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "design_effect")

    @property
    def asked(self) -> tuple[Target, ...]:
        if self.targets is not None:
            return self.targets
        return tuple(Target(name, ((name, 1.0),)) for name in self.design.names)

    @property
    def centered(self) -> bool:
        """Whether distances of variables are from a center that is looked for."""
        return self.design.centred and not self.weighting.within

    @property
    def searched(self) -> tuple[str, ...]:
        known = (*self.units, *self.looked)
        return tuple(name for name in self.design.numeric if name not in known)

    def plan(self, budget: Budget, shape: PublicShape) -> PooledPlan:
        """Everything decided before data are read; InfeasibleError where public numbers tell that
        the answer would be noise."""
        n, p = shape.number(), len(self.design.terms)
        if shape.dimension != p:
            raise ArgumentError(
                "people", shape.dimension, "does not match the formula of the plan", "plan again"
            )
        plans = plans_by_law(budget, partial(PooledPlan, budget, n, self))
        fit = [item for item in plans if item.needed <= 1]
        if not fit:
            best = min(plans, key=lambda item: item.needed)
            raise InfeasibleError(
                f"n={n} is too small for {count_noun(p, 'coefficient')} with {budget.describe()}",
                f"about {math.ceil(n * best.needed)} people, "
                f"{math.ceil(100 * best.needed) / 100:.3g} times the epsilon, "
                + ("a delta such as 1e-6, " if budget.is_pure else "")
                + "fewer terms, or public scales of the variables",
            )
        return min(fit, key=lambda item: item.one_noise)


@dataclass(frozen=True)
class PooledPlan(ColumnPlan):
    """Every mechanism of a pooled regression. The accounting of any run is covered by these lines:
    one that stops early leaves some out, and one that releases fewer numbers does so at the same
    strength."""

    settings: Pooled
    parts: NoiseBudget
    estimator = "one-step GEE"
    about = "formula"
    guessed = ("design number",)

    @property
    def rationale(self) -> str:
        return (
            f"scales of {len(self.settings.searched)} variables by private choice, two rounds of "
            f"second moments, then score contributions of {self.width} numbers with "
            f"{self.parts.word} noise"
        )

    @property
    def shape(self) -> PublicShape:
        return PublicShape(self.settings.design.names, self.known, self.n)

    @property
    def width(self) -> int:
        """How many numbers are asked for: the plan is for that many, whatever survives."""
        return len(self.settings.asked)

    @property
    def order(self) -> int:
        """Of the matrices: regressors and the response."""
        return len(self.settings.design.terms) + 1

    # --- shares -----------------------------------------------------------------------------------
    @cached_property
    def split(self) -> tuple[Fraction, Fraction, Fraction]:
        """Shares of the search, the moments and the score."""
        if not self.settings.searched:
            return Fraction(0), MOMENTS + SEARCH * Fraction(4, 10), SCORE + SEARCH * Fraction(6, 10)
        more = self._search - SEARCH
        return self._search, MOMENTS - more * Fraction(45, 100), SCORE - more * Fraction(55, 100)

    @cached_property
    def _search(self) -> Fraction:
        """The share of all searches of centers and scales."""
        return next(
            share for share, enough in MORE if self.n * self._limits_epsilon(share) >= enough
        )

    def _limits_epsilon(self, share: Fraction) -> Fraction:
        """Of the limits of one variable, where all searches have this share."""
        each = share / len(self.settings.searched)
        return self.parts.epsilon(each * (1 - CENTER) if self.settings.centered else each)

    @property
    def needed(self) -> float:
        """How many times the people (or epsilon) the rules of thumb ask for."""
        p = len(self.settings.design.terms)
        factor, power = FEWEST[self.parts.law]
        epsilon = float(self.budget.pure_epsilon())
        if self.budget.rho is not None:  # as an epsilon with a small delta gives that noise
            epsilon *= ALIKE
        found = [factor * float(p**power) / (self.n * epsilon)]
        if self.settings.searched:
            found.append(LIMITS_NEED / (self.n * float(self._limits_epsilon(MORE[-1][0]))))
        return max(found)

    @property
    def one_noise(self) -> float:
        """Predicted noise of one number, in deviations of its influence over all people."""
        k = self.width
        if self.parts.laplace:
            return 2.2 * k * math.sqrt(2) * self.rows.scale / self.n
        return 2.2 * math.sqrt(k) * self.rows.scale / self.n

    @property
    def kappa(self) -> float:
        """At how many times the typical size matrices are shortened: more where noise is small,
        since what is shortened is a bias that no noise explains."""
        if self.parts.laplace:  # sums over a triangle grow with the square of the order
            signal = self.n * float(self.budget.pure_epsilon()) / (4 * self.order)
            most = signal / self.order >= 350
        else:
            signal = self.n * float(self.parts.strength) / self.order
            most = signal >= 1000
        return 4.0 if most else 2.0 if signal >= 250 else 1.4

    # --- mechanisms -------------------------------------------------------------------------------
    def center(self, name: str) -> PrivateCenter:
        """Of the person means of a variable."""
        epsilon = self.parts.epsilon(CENTER * self._search / len(self.settings.searched))
        return PrivateCenter(f"center of {name}", epsilon, self.relation)

    def limits(self, name: str, digit: float = 0.0) -> PrivateLimits:
        """Of the distances of a variable from its center, or from person means."""
        epsilon = self._limits_epsilon(self._search)
        return PrivateLimits(f"limits of {name}", epsilon, self.relation, digit)

    @property
    def sizes(self) -> Counts:
        """Of the matrices of round 1, by length."""
        moved = moved_counts(self.relation)
        part = self.split[1] * ROUNDS[1] * CHOICE
        return self.parts.counts("moment norms", part, self.relation, moved)

    @property
    def length(self) -> ScaleChoice:
        """The choice of the length of matrices in round 0."""
        part = self.split[1] * ROUNDS[0] * CHOICE
        epsilon, bounded = self.parts.epsilon(part), not self.parts.laplace
        return ScaleChoice("moment norm", epsilon, self.relation, bounded)

    def matrices(self, turn: int) -> MatrixSums:
        part = self.split[1] * ROUNDS[turn] * (1 - CHOICE)
        return MatrixSums(
            "second moments", self.order, MATRIX_STEPS, self.relation, **self.parts.sums(part)
        )

    @property
    def rest(self) -> Fraction:
        """The share of the search of lengths, of the sums of shortened rows and of the count of
        those that were too long."""
        return self.split[2]

    @property
    def look(self) -> Counts:
        moved = moved_counts(self.relation)
        return self.parts.counts("score contributions", self.rest * LOOK, self.relation, moved)

    @property
    def beyond(self) -> Counts:
        return self.parts.counts("clipped-score count", self.rest * COUNT, self.relation, 1)

    @property
    def surprise(self) -> float:
        """Deviations of a number of people that noise explains but in 1e-4."""
        return SURE + LAPLACE * self.parts.laplace

    @property
    def rows(self) -> RowProducts:
        return self.rows_of(self.width)

    def rows_of(self, width: int) -> RowProducts:
        """The joint release of fewer numbers at the same strength, where some are left out."""
        share = self.parts.sums(self.rest * (1 - LOOK - COUNT))
        name = "score contributions and products"
        return RowProducts(name, width, ROW_STEPS, self.relation, short=ROW_STEPS // 2, **share)

    @property
    def steps(self) -> tuple[Step, ...]:
        search: list[PrivateCenter | PrivateLimits] = []
        for name in self.settings.searched:
            search += [self.center(name)] if self.settings.centered else []
            search.append(self.limits(name))
        rounds = ((self.length.choice, self.matrices(0)), (self.sizes, self.matrices(1)))
        scales, moments, scores = self.split
        return (
            Step("scales", scales, tuple(search)),
            Step("moments", moments, tuple(item for pair in rounds for item in pair)),
            Step("scores", scores, (self.look, self.beyond, self.rows)),
        )

    def errors(self, guess: float) -> tuple[float, float]:
        """Of one coefficient whose score contributions have that deviation between people."""
        return guess * self.one_noise, guess * math.sqrt(self.settings.design_effect / self.n)

    def details(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "terms": list(self.settings.design.names),
            "law": self.parts.law,
            "kappa": self.kappa,
            "released": [target.name for target in self.settings.asked],
            "searched": list(self.settings.searched),
            "noise_in_deviations_of_an_influence": self.one_noise,
        }

    def check_table(self, people: PersonTable) -> None:
        panel_of(people)

    def after(self, places: tuple[ClippingRegion, ...]) -> PooledPlan | None:
        """The plan that goes on from shared locations of the variables `looked`, in order."""
        if any(place.outcome != FOUND for place in places):
            return None
        found = {
            name: (centre_of(place), spread_of(place))
            for name, place in zip(self.settings.looked, places, strict=True)
        }
        units = {**self.settings.units, **found}
        return replace(self, settings=replace(self.settings, units=units, looked=()))

    def run(self, curator: Curator) -> Outcome:
        return PooledRun(self, curator, panel_of(curator.people)).outcome()


# limits over the scale, where the center is 0 and elsewhere: most people have a 0 where it is,
# and shortened matrices lose the others if their values are large
REACH = {"laplace": (2.0, 2.0), "gaussian": (1.0, 4.0)}
SMALLEST, LARGEST = 2.0**-20, 2.0**39  # limits in the public range
SHORTEST = -8  # half octave of the least length of matrices
FLOOR, STRICT = 0.05, 1.5  # eigenvalues below these (times the noise) are not told apart
LEAK = 0.15  # part of a coefficient in such directions up to which it is shown
THIN = 0.03  # least share of people at a declared level
RANGE = "A variable varies by less than 2^-20 or is larger than 2^39: give it in another unit."
UNSEEN = (
    "Score contributions are far larger than the units found. The noise hid the scale of a "
    "variable, most of its values are the same, or tails are very long. Give scales or bounds, or "
    "use logarithms."
)
HIDDEN = "The noise hides the regressors."
ENTANGLED = "The noise does not tell the terms apart."


@dataclass(frozen=True)
class Fitted:
    """What the moments gave, in the metric of the last round. rows: B, from standardized columns;
    start: the coefficients there; values, vectors: of the last matrix of regressors; bad: which
    directions are not identified; off: noise of an entry; variance: of residuals; thin: regressors
    at a rare level; lost: terms that are left out; cut: what that matrix lost by shortening;
    shrunk: how much smaller each direction is than the first round had it, beyond the noise."""

    lost: tuple[int, ...]
    rows: Floats
    start: Floats
    values: Floats
    vectors: Floats
    bad: np.ndarray[tuple[int], np.dtype[np.bool_]]
    off: float
    variance: float
    thin: tuple[int, ...]
    cut: float
    shrunk: Floats


@dataclass(frozen=True)
class PooledRun:
    """One release under way."""

    plan: PooledPlan
    curator: Curator
    people: PanelTable

    def outcome(self) -> Outcome:
        design, settings = self.plan.settings.design, self.plan.settings
        units, unseen, reached = self.units()
        assert self.people.again is not None
        products = self.people.again(units)
        if products is None:
            return replace(self._nothing(FAILED, AGAIN), follows_from_answers=False)
        if not reached:
            return self._nothing(NOT_IDENTIFIED, RANGE)
        hidden = self.hidden(unseen)
        if all(hidden):
            return self._nothing(NOT_IDENTIFIED, UNSEEN)
        made = (person_moments(part, design, settings.weighting) for part in products.parts())
        moments = joined(made, len(products.count))
        lost = design.made_of(unseen)
        fitted = self.moments(moments, lost)
        if fitted.bad.all():
            return self._nothing(FAILED, HIDDEN)
        return self.score(moments, fitted, units, hidden)

    # --- center and scale -------------------------------------------------------------------------
    def units(self) -> tuple[dict[str, tuple[float, float]], set[str], bool]:
        """Center and scale of each variable, those of which too few people have another value than
        the center for their limits to be seen, and whether all lie within the public range."""
        plan, people = self.plan, self.people
        found = dict(plan.settings.units)
        unseen: set[str] = set()
        inside = True
        for name in plan.settings.searched:
            center, digit = 0.0, 0.0
            if plan.settings.centered:
                means = _column(people.means(name)).column_counts(0)
                center, digit = self.curator.ask(plan.center(name), means)
            about = None if plan.settings.weighting.within else center
            away = _column(people.distances(name, about)).column_counts(0)
            sides = side_counts(away.half_octaves(0.0))
            _, above = self.curator.ask(plan.limits(name, digit), sides)
            reach = float(edges()[above])
            if not reach:
                unseen.add(name)
            inside &= not reach or reach >= SMALLEST
            inside &= abs(center) + reach < LARGEST
            found[name] = center, (reach or 1.0) / REACH[plan.parts.law][center != 0]
        return found, unseen, inside

    def hidden(self, unseen: set[str]) -> list[bool]:
        """Of everything asked for, whether it is made of a variable whose size was not found."""
        design = self.plan.settings.design
        terms = {design.names[j] for j in design.made_of(unseen)}
        return [
            design.response in unseen
            or any(weight and name in terms for name, weight in item.weights)
            for item in self.plan.settings.asked
        ]

    # --- second moments ---------------------------------------------------------------------------
    def moments(self, moments: Symmetric, lost: tuple[int, ...]) -> Fitted:
        """Two rounds: the second sees whitened regressors and residuals of the first. lost: terms
        in units that are noise, which are left out of the equation of the others."""
        plan, p, n = self.plan, self.plan.order - 1, self.plan.n
        rows: Floats = np.eye(p + 1)
        rows[lost, lost] = 0.0
        thin: tuple[int, ...] = ()
        sizes = np.ones(p)  # of each direction of the first round once it is whitened
        for turn in (0, 1):
            made = (transformed(part, rows) for part in parts(moments))
            seen = joined(made, len(moments[0, 0]))
            sums = plan.matrices(turn)
            radius, cut = self._length(turn, seen)
            places = triangle(p + 1)
            whole = (lattice_matrices(part, radius, plan.parts.norm) for part in parts(seen))
            # some people at once: their entries, at most 2^40, have room
            exact = added([int(part[at].sum()) for at in places] for part in whole)
            noisy = self.curator.ask(sums, exact)
            matrix = np.zeros((p + 1, p + 1))
            for (i, j), value in zip(places, noisy, strict=True):
                matrix[i, j] = matrix[j, i] = value * radius / n
            diagonal, off = (item * radius / n for item in sums.noise)
            if turn == 0:
                thin = self._thin(matrix)
            left, right = matrix[:p, :p], matrix[:p, p]
            floor = 2 * off * math.sqrt(p)
            values, vectors = eigen(left)
            kept = np.maximum(values, floor)
            inverse = np.where(values > floor, 1 / kept, np.maximum(values, 0.0) / kept**2)
            start = times(vectors, (inverse * times(vectors.T, right[:, None])[:, 0])[:, None])[
                :, 0
            ]
            rest = float(
                matrix[p, p]
                - 2 * (right @ start)
                + (kept * times(vectors.T, start[:, None])[:, 0] ** 2).sum()
            )
            variance = max(rest, diagonal, 1e-3 * abs(float(matrix[p, p])), 1e-12)
            if turn == 1:
                bad = values < max(STRICT * floor, FLOOR)
                before = times(np.ascontiguousarray(vectors.T) ** 2, sizes[:, None])[:, 0]
                shrunk = np.where(bad, 0.0, np.maximum(before - floor - values, 0.0))
                return Fitted(
                    lost, rows, start, values, vectors, bad, off, variance, thin, cut, shrunk
                )
            sizes = np.clip(values / kept, 0.0, 1.0)
            change = np.zeros((p + 1, p + 1))
            change[:p, :p] = (vectors / np.sqrt(kept)).T
            change[p, p] = 1 / math.sqrt(variance)
            change[p, :p] = -start / math.sqrt(variance)
            rows = times(change, rows)
        raise AssertionError("two rounds")

    def _length(self, turn: int, seen: Symmetric) -> tuple[float, float]:
        """At which matrices are shortened, and what they lose by it where that is known:
        some times the usual length; once regressors are whitened, what noise and counts of lengths
        make best. Who has no record has length 0 and is in no cell."""
        plan, p = self.plan, self.plan.order - 1
        size = matrix_sizes(seen, plan.parts.norm)
        if turn == 0:
            cells = _column(np.where(size > 0, size, np.nan)).log_counts(0, 0.0)
            place = plan.length.ask(self.curator, cells, SHORTEST - LOWEST)
            return plan.kappa * edge(place), 0.0
        lengths = self._lengths(size / plan.order, plan.sizes)
        noise = plan.matrices(1).noise[1] * math.sqrt(p)
        length, cut = lengths.length_of_least_error(noise / plan.n, plan.n)
        return length * plan.order, cut * plan.order

    def _thin(self, matrix: Floats) -> tuple[int, ...]:
        """Declared levels that hold few or nearly all people, by the first round."""
        design = self.plan.settings.design
        if "Intercept" not in design.names or self.plan.settings.weighting.within:
            return ()
        one = design.names.index("Intercept")
        total = matrix[one, one]
        return tuple(
            j for j in design.declared if min(matrix[j, j], total - matrix[j, j]) < THIN * total
        )

    # --- the score --------------------------------------------------------------------------------
    def score(
        self,
        moments: Symmetric,
        fitted: Fitted,
        units: dict[str, tuple[float, float]],
        hidden: list[bool],
    ) -> Outcome:
        plan, settings, n = self.plan, self.plan.settings, self.plan.n
        design, p = settings.design, plan.order - 1
        scale = units[design.response][1]
        centre = units[design.response][0] if design.centred else 0.0
        last = fitted.rows[p]
        # raw coefficients = toward (in the last metric) + constant
        toward = scale / last[p] * times(design.expansion(units).T, fitted.rows[:p, :p].T)
        constant = -scale / last[p] * times(design.expansion(units).T, last[:p, None])[:, 0]
        if "Intercept" in design.names:
            constant[design.names.index("Intercept")] += centre
        weights = np.zeros((len(settings.asked), p))
        for t, target in enumerate(settings.asked):
            for name, weight in target.weights:
                weights[t, design.names.index(name)] = weight
        toward, constant = times(weights, toward), times(weights, constant[:, None])[:, 0]
        good = ~fitted.bad
        inverse = times(
            fitted.vectors[:, good] / fitted.values[good],
            np.ascontiguousarray(fitted.vectors[:, good].T),
        )
        size_bad = np.sqrt((times(toward, fitted.vectors[:, fitted.bad]) ** 2).sum(axis=1))
        size_all = np.sqrt((times(toward, fitted.vectors) ** 2).sum(axis=1))
        statuses = [OK] * len(weights)
        for t in range(len(weights)):
            if hidden[t]:
                statuses[t] = NOT_IDENTIFIED
            elif any(weights[t, j] for j in fitted.thin):
                statuses[t] = SUPPRESSED
            elif size_bad[t] > LEAK * size_all[t]:
                statuses[t] = NOT_IDENTIFIED
        kept = [t for t, status in enumerate(statuses) if status == OK]
        if not kept:
            made = Coefficients.none(self._names, tuple(statuses), plan.parts.law)
            return self._told(made, ENTANGLED)
        influence = times(toward, inverse)[kept]
        units_of = np.sqrt(
            np.maximum(fitted.variance * (influence * toward[kept]).sum(axis=1), 1e-300)
        )
        residual = last - times(fitted.start[None, :], fitted.rows[:p])[0]
        regressors = times(influence / units_of[:, None], fitted.rows[:p])
        values = np.concatenate(
            [influence_rows(part, residual, regressors) for part in parts(moments)], axis=1
        )
        look = self._look(values)
        if look is None:
            return self._nothing(NOT_IDENTIFIED, UNSEEN)
        radius, usual, tail = look
        units_of, values = units_of * usual, values / usual
        k = len(kept)
        limit = radius.limit * plan.parts.longest(k)
        rows, everybody = plan.rows_of(k), blocks(values.shape[1])
        cut = (lattice_rows(values[:, some], limit, plan.parts.norm) for some in everybody)
        noisy = self.curator.ask(rows, added(rows.exact(part) for part in cut))
        step = np.array(noisy[:k]) * limit / n
        size = 1 + float((fitted.start**2).sum())
        short = limit * rows.short / rows.steps
        second = np.zeros((k, k))
        for (i, j), value in zip(triangle(k), noisy[k:], strict=True):
            second[i, j] = second[j, i] = value * short**2 / n
        estimate = times(toward[kept], fitted.start[:, None])[:, 0] + constant[kept]
        made = Coefficients.of(
            self._names,
            tuple(statuses),
            plan.parts.law,
            kept=tuple(kept),
            start=estimate,
            units=units_of,
            step=step,
            second=second,
            scale=rows.scale * limit / n,
            limit=limit,
            squares=radius.squares / n,
            beyond=radius.beyond / n,
            beyond_sd=radius.beyond_sd / n,
            tail=tail,
            persons=n,
            leak=size_bad[kept],
            inverse=times(toward[kept], inverse),
            lost=times(toward[kept], fitted.vectors * fitted.shrunk),
            backward=np.asarray(np.linalg.pinv(toward[kept]), dtype=np.float64),
            off=fitted.off,
            cut=fitted.cut,
            size=size,
            design_effect=settings.design_effect,
            excess=EXCESS,
            single=settings.single,
            without=tuple(design.names[j] for j in fitted.lost),
        )
        return self._told(made)

    def _lengths(self, size: Floats, asked: Counts) -> Lengths:
        """Noisy counts of lengths on half octaves."""
        edges = np.array([2.0 ** ((j - 14) / 2) for j in range(CELLS)])
        cell = np.searchsorted(edges, size[size > 0], side="right")  # without a record: nowhere
        counts: Integers = np.bincount(cell, minlength=CELLS + 1).astype(np.int64)
        return Lengths(ask_counts(self.curator, asked, counts), asked.sd, edges)

    def _look(self, values: Floats) -> tuple[Radius, float, str] | None:
        """From noisy counts of the lengths of score contributions: the length at which they are
        shortened, with the noisy people beyond it; their usual size, of which that is a multiple;
        and the status. Where more people are beyond the length than expected, the lengths are read
        again up to where they hold as many. None where lengths are in units that cannot be theirs.
        """
        plan, k = self.plan, len(values)
        size = row_sizes(values, self.plan.parts.norm) / plan.parts.longest(k)
        lengths = self._lengths(size, plan.look)
        noisy, sd = lengths.counts, lengths.sd
        usual = usual_size(noisy, sd, lengths.edges)
        lengths = replace(lengths, edges=lengths.edges / usual)
        if misread(noisy, sd, lengths.edges, plan.n, laplace=plan.parts.laplace):
            return None
        found = partial(
            lengths.radius_of_least_width,
            plan.rows_of(k).scale * plan.parts.longest(k) * plan.parts.unit,
            persons=plan.n,
            beyond_sd=plan.beyond.sd,
        )
        radius = found(seen_counts(noisy, sd))
        cut = int(np.count_nonzero(size > radius.limit * usual))
        beyond = float(ask_counts(self.curator, plan.beyond, as_counts(cut))[0])
        more = beyond - radius.beyond > plan.surprise * math.hypot(plan.beyond.sd, radius.beyond_sd)
        clipped = OUTLIERS_CLIPPED if beyond > SEEN * plan.beyond.sd else OK
        radius = replace(radius, beyond=beyond, beyond_sd=plan.beyond.sd)
        if not more:
            return radius, usual, clipped
        longer = found(lengths.holding(radius))
        if longer.limit <= radius.limit:
            return radius, usual, EXTREME_OUTLIERS
        number, deviation = lengths.beyond(longer.limit, radius)
        return replace(longer, beyond=number, beyond_sd=deviation), usual, clipped

    # --- words ------------------------------------------------------------------------------------
    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(target.name for target in self.plan.settings.asked)

    def _nothing(self, status: str, why: str) -> Outcome:
        names = self._names
        made = Coefficients.none(names, (status,) * len(names), self.plan.parts.law)
        return self._told(made, why)

    def _told(self, made: Coefficients, why: str = "") -> Outcome:
        plan = self.plan
        return Outcome(
            made.estimate,
            made,
            n=plan.known,
            status=made.status,
            statuses=made.every_status,
            advice=why or made.advice,
            assumptions=(dependence(plan.settings.design_effect),),
            shares=plan.shares,
            diagnostics=made.diagnostics,
            estimand="pooled regression",
            follows_from_answers=True,
        )


def _column(values: Floats) -> ArrayPersonTable:
    return ArrayPersonTable(values[:, None], ("x",))
