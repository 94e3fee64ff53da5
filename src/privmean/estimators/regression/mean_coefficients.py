"""The mean of person-specific coefficients when nothing is known of units, centers and

sizes.

A size of every variable is found first: the half octave of how far a person's own records lie from
their mean; then the people of about these sizes are counted. People are fitted in these units (a
second reading of the table), and each coefficient is then averaged around a private median. Units
that are powers of two change nothing.
docs/proofs/longitudinal.md, section 8.

One person's second moments, shortened to a ball and put on a lattice: elementwise over people.

Every step is one IEEE operation on arrays with one number a person, so that a person's integers are
the same whoever else is in the table; no library product of matrices, whose last bit may depend on
the other rows. docs/proofs/pooled-regression.md, sections 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import Products
from privmean.data.person_table import ClipInterval, Floats, Integers, PersonTable
from privmean.data.schema import PublicShape
from privmean.estimators.means.clipped_mean import ClippedMeans
from privmean.estimators.regression.formula import INTERCEPT, Model, read_formula
from privmean.estimators.regression.panel import (
    FINE,
    Flags,
    PanelTable,
    Working,
    first_reading,
    fit_persons,
    model_records,
    panel_of,
)
from privmean.estimators.regression.polynomial_design import Design, Units, design_of
from privmean.estimators.regression.private_scale import (
    MEDIAN,
    PLACES,
    PrivateScale,
    PrivateScalePlan,
    ScaleChoice,
    edge,
    part_of,
    refuse_unseen,
)
from privmean.estimators.regression.regression_release import NO_VARIATION
from privmean.estimators.regression.tail_intervals import TailIntervals
from privmean.inference.row_intervals import NoInterval
from privmean.inference.status import FAILED, NOT_IDENTIFIED, release_status
from privmean.mechanisms.curator import Curator, Exact, Mechanism, Noisy, ParallelRule
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.pipeline import WrapperPlan
from privmean.privacy.budget import Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome

if TYPE_CHECKING:
    from privmean.data.person_products import Products
    from privmean.data.table import Table

Norm = Literal["l1", "l2"]
BITS = 20  # lattice steps of a factor, and of an influence row, from 0 to the edge
MATRIX_STEPS = 1 << (2 * BITS)  # of a matrix
ROW_STEPS = 1 << BITS
SHORTER = 1 - 2.0**-18
TRIES = 12
LEAST_PIVOT = 2.0**-40  # of the trace: what is below is rounding
Symmetric = dict[tuple[int, int], Floats]  # entries (i, j) with i <= j, one number a person


def entry(matrix: Symmetric, i: int, j: int) -> Floats:
    return matrix[i, j] if i <= j else matrix[j, i]


@dataclass(frozen=True)
class Weighting:
    """cap: None for people weighted equally, or records up to which a person counts. icc: public
    correlation of a person's errors. within: deviations from person means."""

    max_records: int | None = None
    icc: float = 0.0
    within: bool = False


def person_moments(products: Products, design: Design, how: Weighting) -> Symmetric:
    """W: means over own records of products of the regressors and the response (last), weighted;
    zero for a person without a record."""
    place = {name: k for k, (name, _) in enumerate(design.columns)}
    of_variable = {powers: k for k, (_, powers) in enumerate(design.columns)}
    count = products.count
    with np.errstate(all="ignore"):
        share = np.where(count > 0, 1 / count, 0.0)
        mean = [products.sums[:, k] * share for k in range(len(place))]
        one = np.where(count > 0, 1.0, 0.0)
        columns: list[int | None] = []  # what is read, or None for a constant of the person
        own: list[Floats] = []
        for term in design.terms:
            if term.powers:
                columns.append(place[term.name])
                own.append(mean[place[term.name]])
            else:
                columns.append(None)
                constant = one if term.own is None else mean[of_variable[(term.own, 1),]]
                own.append(constant)
        columns.append(len(place) - 1)
        own.append(mean[-1])
        q = len(columns)
        weight = (
            one
            if how.max_records is None
            else np.minimum(count, how.max_records) * (1 / how.max_records)
        )
        if how.within:
            taken = one
        elif how.icc:
            taken = count * how.icc * (1 / (1 + (count - 1) * how.icc))
        else:
            taken = np.zeros(len(count))
        found: Symmetric = {}
        for i in range(q):
            for j in range(i, q):
                a, b = columns[i], columns[j]
                if a is None or b is None:
                    raw = own[i] * own[j]
                else:
                    raw = products.squares[min(a, b), max(a, b)] * share
                found[i, j] = weight * (raw - taken * (own[i] * own[j]))
        usable = np.isfinite(sum(found.values(), np.zeros(len(count))))
        return {at: np.where(usable, item, 0.0) for at, item in found.items()}


def transformed(matrix: Symmetric, rows: Floats) -> Symmetric:
    """B W B' for released B."""
    q = len(rows)
    half: list[list[Floats]] = []
    for a in range(q):
        line = []
        for d in range(q):
            total = np.zeros(len(matrix[0, 0]))
            for c in range(q):
                if rows[a][c]:
                    total = total + rows[a][c] * entry(matrix, c, d)
            line.append(total)
        half.append(line)
    found: Symmetric = {}
    for a in range(q):
        for b in range(a, q):
            total = np.zeros(len(matrix[0, 0]))
            for d in range(q):
                if rows[b][d]:
                    total = total + half[a][d] * rows[b][d]
            found[a, b] = total
    return found


def matrix_sizes(matrix: Symmetric, norm: Norm) -> Floats:
    """Frobenius norm, or the sum of absolute values of the upper triangle."""
    total = np.zeros(len(matrix[0, 0]))
    for (i, j), item in matrix.items():
        if norm == "l1":
            total = total + np.abs(item)
        else:
            total = total + (item * item if i == j else 2 * (item * item))
    return total if norm == "l1" else np.sqrt(total)


def _factor(matrix: Symmetric) -> Symmetric:
    """G, upper triangular with G'G = the matrix: pivots that are not positive give zero rows."""
    q = max(i for i, _ in matrix) + 1
    rest = dict(matrix)
    trace = sum((np.abs(rest[k, k]) for k in range(q)), np.zeros(len(rest[0, 0])))
    found: Symmetric = {}
    with np.errstate(all="ignore"):
        for k in range(q):
            pivot = rest[k, k]
            good = pivot > LEAST_PIVOT * trace
            root = np.where(good, 1 / np.sqrt(np.where(good, pivot, 1.0)), 0.0)
            for j in range(k, q):
                found[k, j] = rest[k, j] * root
            for i in range(k + 1, q):
                for j in range(i, q):
                    rest[i, j] = rest[i, j] - found[k, i] * found[k, j]
    return found


def lattice_matrices(
    matrix: Symmetric, radius: float, norm: Norm
) -> dict[tuple[int, int], Integers]:
    """Z = G'G in whole numbers, positive semidefinite exactly, of norm at most 2^40 for a matrix of
    norm `radius`: longer ones are shortened, and a matrix that is not finite is zero."""
    q = max(i for i, _ in matrix) + 1
    with np.errstate(all="ignore"):
        size = matrix_sizes(matrix, norm)
        short = np.where(size > radius, radius / size, 1.0)
        unit = np.sqrt(short) * (ROW_STEPS / math.sqrt(radius))
        factor = {at: item * unit for at, item in _factor(matrix).items()}
        finite = np.isfinite(sum((np.abs(x) for x in factor.values()), size))
    unit = np.where(finite, 1.0, 0.0)
    for attempt in range(TRIES):
        whole = {
            at: np.trunc(np.clip(np.where(finite, item, 0.0) * unit, -ROW_STEPS, ROW_STEPS)).astype(
                np.int64
            )
            for at, item in factor.items()
        }
        found: dict[tuple[int, int], Integers] = {}
        for i in range(q):
            for j in range(i, q):
                total = np.zeros(len(size), dtype=np.int64)
                for k in range(i + 1):
                    total = total + whole[k, i] * whole[k, j]
                found[i, j] = total
        over = _too_long(found, norm)
        if not over.any():
            return found
        unit = np.where(over, 0.0 if attempt == TRIES - 2 else unit * SHORTER, unit)
    return found


def _too_long(matrix: dict[tuple[int, int], Integers], norm: Norm) -> Flags:
    if norm == "l1":
        total = sum((np.abs(x) for x in matrix.values()), np.zeros_like(matrix[0, 0]))
        long: Flags = total > MATRIX_STEPS
        return long
    # entries below 2^53 are exact as doubles; the room is for the rounding of squares and sums
    real = {at: item.astype(np.float64) for at, item in matrix.items()}
    square = np.zeros(len(real[0, 0]))
    for (i, j), item in real.items():
        square = square + (item * item if i == j else 2 * (item * item))
    over: Flags = square > float(MATRIX_STEPS) ** 2 * (1 - 2.0**-40)
    return over


def influence_rows(matrix: Symmetric, residual: Floats, regressors: Floats) -> list[Floats]:
    """A_t' W u for every target t: its regressor row A_t (released) and the residual's row u."""
    q = len(residual)
    inner = []
    for c in range(q):
        total = np.zeros(len(matrix[0, 0]))
        for d in range(q):
            if residual[d]:
                total = total + entry(matrix, c, d) * residual[d]
        inner.append(total)
    rows = []
    for row in regressors:
        total = np.zeros(len(matrix[0, 0]))
        for c in range(q):
            if row[c]:
                total = total + row[c] * inner[c]
        rows.append(total)
    return rows


def row_sizes(rows: list[Floats], norm: Norm) -> Floats:
    total = np.zeros(len(rows[0]))
    for item in rows:
        total = total + (np.abs(item) if norm == "l1" else item * item)
    return total if norm == "l1" else np.sqrt(total)


def lattice_rows(rows: list[Floats], radius: float, norm: Norm) -> list[Integers]:
    """The rows shortened to the ball and truncated: of norm at most 2^20 in whole numbers; a row
    that is not finite is zero."""
    with np.errstate(all="ignore"):
        size = row_sizes(rows, norm)
        unit = np.where(size > radius, radius / size, 1.0) * (ROW_STEPS / radius)
        finite = np.isfinite(size)
        scaled = [np.where(finite, item * unit, 0.0) for item in rows]
    unit = np.ones(len(size))
    for attempt in range(TRIES):
        whole = [
            np.trunc(np.clip(item * unit, -ROW_STEPS, ROW_STEPS)).astype(np.int64)
            for item in scaled
        ]
        if norm == "l1":
            over = sum((np.abs(x) for x in whole), np.zeros_like(whole[0])) > ROW_STEPS
        else:
            over = sum((x * x for x in whole), np.zeros_like(whole[0])) > ROW_STEPS**2
        if not over.any():
            break
        unit = np.where(over, 0.0 if attempt == TRIES - 2 else unit * SHORTER, unit)
    return whole


def triangle(q: int) -> list[tuple[int, int]]:
    """The entries of an upper triangle, row by row."""
    return [(i, j) for i in range(q) for j in range(i, q)]


UNITS = Fraction(3, 20)  # of the budget, for the sizes of variables
SURE = Fraction(1, 10)  # of that, on top of it: for the people of these sizes
NEAR = 4  # half octaves from a size that is theirs
CLEAR = 2.0  # noise scales of their number, which noise by itself is in 7 %
FEWEST = 40.0  # people times epsilon of one size
LARGEST, SMALLEST = 2.0**10, 2.0**-12  # of coefficients in units of the sizes
AGAIN = "The table could not be read a second time as it was the first."
RANGE = "A variable is smaller than 2^-40 or larger than 2^39: give it in another unit."


@dataclass(frozen=True)
class CoefficientPanel:
    """What the mean of person-specific coefficients asks of a table."""

    formula: str
    fixed_effects: bool
    time: str | None = None

    @cached_property
    def model(self) -> Model:
        return read_formula(self.formula, intercept=not self.fixed_effects)

    @cached_property
    def design(self) -> Design:
        """Variables are not moved: a person's slopes are the same wherever their zero lies."""
        return replace(design_of(self.model, within=self.fixed_effects), centred=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.names)

    def reduce(self, table: Table) -> PanelTable:
        """Private, spends nothing."""
        return first_reading(table, self.model, self.design, self._again)

    def _again(self, table: Table, units: Units) -> Products:
        asked = self.design.whole(units)
        steps = [math.ldexp(1.0, FINE)] * len(asked)
        return model_records(table, self.model, self.time).products(asked, steps)


@dataclass(frozen=True)
class MeanCoefficients:
    """The estimator. threshold: least eigenvalue of a person's X'X/T about person means, in units
    of the sizes found; records: least number of them; target, design_effect: see `PrivateScale`.

    Guarantees: the budget given to `plan`, for one person with all records and any data.
    """

    design: Design
    fixed_effects: bool
    working: Working
    threshold: float
    records: int
    target: str
    design_effect: float = 1.0

    def plan(self, budget: Budget, shape: PublicShape) -> MeanCoefficientsPlan:
        """Everything decided before data are read; InfeasibleError if a size is mostly noise."""
        number = len(self.design.numeric)
        each = part_of(budget, UNITS, number)
        sure = part_of(budget, UNITS * SURE, 1)
        refuse_unseen(
            shape.number(), budget, each, FEWEST,
            f"find the scales of {number} variables", "a larger epsilon, or public scales",
        )  # fmt: skip
        left = 1 - UNITS * (1 + SURE)
        if budget.rho is None:
            rest = replace(budget, epsilon=float(budget.pure_epsilon() * left))
            each = (budget.pure_epsilon() - rest.pure_epsilon() - sure) / number
        else:
            rest = replace(budget, rho=budget.rho * float(left))
        inner = PrivateScale(SMALLEST, LARGEST, self.target, 1.0, self.design_effect, MEDIAN)
        return MeanCoefficientsPlan(self, budget, each, sure, inner.plan(rest, shape))


@dataclass(frozen=True)
class MeanCoefficientsPlan(WrapperPlan):
    """Sizes at `each` epsilon, a count at `sure`, then the means of coefficients by `inner`; not
    these lines if a size stays hidden or the table cannot be read again."""

    settings: MeanCoefficients
    budget: Budget
    each: Fraction
    sure: Fraction
    inner: PrivateScalePlan
    estimator = "mean of clipped person-specific coefficients"

    @property
    def rationale(self) -> str:
        return f"sizes of variables by noisy argmax, people fitted in them; {self.inner.rationale}"

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        sizes = [
            loss for name in self.settings.design.numeric for loss in self._size(name).choice.events
        ]
        return (*sizes, *self._present.events, *self.inner.events)

    def _size(self, name: str) -> ScaleChoice:
        return ScaleChoice(f"scale of {name}", self.each, self.relation)

    @property
    def _present(self) -> NoisyCounts:
        """Of the people who are near the sizes of all variables."""
        return NoisyCounts.at("count at these scales", self.sure, self.relation)

    def describe(self) -> dict[str, Any]:
        kept = self.inner.describe()
        return kept | {
            "budget": self.budget.to_dict(),
            "epsilon_of_one_size": float(self.each),
            "epsilon_of_their_count": float(self.sure),
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    def check_table(self, people: PersonTable) -> None:
        panel_of(people)

    def run(self, curator: Curator) -> Outcome:
        people, settings = panel_of(curator.people), self.settings
        assert people.again is not None
        units: dict[str, tuple[float, float]] = {}
        reached, near = True, np.ones(people.size(), dtype=bool)
        for name in settings.design.numeric:
            own = people.spreads(name)
            size = self._size(name)
            place = size.ask(curator, ArrayPersonTable(own[:, None], (name,)).log_counts(0, 0.0))
            reached &= place < PLACES
            near &= (own >= edge(place - 1 - NEAR)) & (own < edge(place + NEAR))
            # the next power of two, so that a change of unit by one changes no digit
            units[name] = 0.0, 2.0 ** math.ceil(math.log2(edge(place)) - 0.25)
        (number,) = curator.ask(self._present, as_counts(int(near.sum())))
        seen = number >= CLEAR * self._present.scale
        products = people.again(units)
        if products is None:
            return replace(self._nothing(FAILED, AGAIN), follows_from_answers=False)
        if not (reached and seen):
            return self._nothing(NOT_IDENTIFIED, NO_VARIATION if reached else RANGE)
        rows = fit_persons(
            products,
            working=settings.working,
            within=settings.fixed_effects,
            threshold=settings.threshold,
            least=settings.records,
            scales=(1.0,) * (len(settings.design.names) + 1),
            moved=settings.design.names[:1] == (INTERCEPT,),
        )
        fitted = ArrayPersonTable(rows, settings.design.names, engine=people.engine)
        outcome = self.inner.run(_Fitted(curator, fitted))
        *terms, response = settings.design.sizes(units)
        return _in_units(outcome, [response / size for size in terms], units)

    def _nothing(self, status: str, why: str) -> Outcome:
        number = len(self.settings.design.names)
        statuses = (status,) * number
        return Outcome(
            np.full(number, math.nan), NoInterval(number), status=release_status(statuses),
            statuses=statuses, advice=why, follows_from_answers=True,
        )  # fmt: skip


@dataclass(frozen=True)
class _Fitted:
    """The curator of a release, asked about what was fitted from its people's records."""

    curator: Curator
    people: PersonTable

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.curator.events

    def ask(self, mechanism: Mechanism[Exact, Noisy], exact: Exact) -> Noisy:
        return self.curator.ask(mechanism, exact)

    def parallel(
        self, name: str, people: Sequence[PersonTable], **written: Unpack[ParallelRule]
    ) -> tuple[Curator, ...]:
        return self.curator.parallel(name, people, **written)


def _in_units(outcome: Outcome, factors: list[float], units: Units) -> Outcome:
    """Coefficients of the formula's own terms from those in units of the sizes."""
    made = outcome.intervals
    assert isinstance(made, TailIntervals | ClippedMeans)
    columns = tuple(
        replace(item, box=ClipInterval(item.box.lower * factor, item.box.upper * factor))
        for item, factor in zip(made.columns, factors, strict=True)
        if item is not None
    )
    told = dict(outcome.diagnostics)
    told["clip_radius"] = [x * f for x, f in zip(told["clip_radius"], factors, strict=True)]
    told["sizes"] = {name: size for name, (_, size) in units.items()}
    return replace(
        outcome,
        estimate=outcome.estimate * np.array(factors),
        intervals=replace(made, columns=columns),  # type: ignore[arg-type]
        diagnostics=told,
    )
