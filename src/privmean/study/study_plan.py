"""The plan of a study: what each question gets, and what to expect of it. Reads no data.

How the budget of a study is shared among its questions, from public numbers alone.

Questions with a wanted error get the least part that reaches it. The others share what is left so
that the weighted geometric mean of their errors, each over its sampling error, is least
(docs/proofs/study.md, section 2). Ways of composing are tried, all of them valid, with looks that
questions share (section 5) and without:

* sums: parts of epsilon (and delta), or of rho, that add up;
* curves, where a delta is given: those parts, and parts that are of epsilon or of rho by question,
  all made larger by the largest factor for which all mechanism calls still compose to the budget.

The way with the least errors is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from privmean.bisection import bisect_ratio, smallest_int
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.groups.group_plan import GroupPlan
from privmean.estimators.means.region_mean import SharedLocationQuery
from privmean.inference.status import SUPPRESSED
from privmean.output import MISSING, HasOutput, Output, TableRow, count, decimals, number
from privmean.pipeline import Plan, WrapperPlan
from privmean.plain_data import digest, plain_tree
from privmean.privacy.budget import LARGEST_EPSILON, REPLACE_ONE, SMALLEST_EPSILON, Budget
from privmean.privacy.guarantee import Guarantee, privacy_text
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.formatting import assumed_of
from privmean.study.budget_shares import (
    SUMS,
    AllocationTask,
    BudgetAllocation,
    QuestionShare,
    bill,
    grow_shares,
    guess_of,
    least_errors,
    noise_of,
    ratio_of,
)
from privmean.study.shared_locations import (
    Looks,
    StudyQuestion,
    can_share_location,
    plan_of,
    shared_location_events,
)

PURPOSE = "privmean study plan"
ACCOUNTING = {
    "sums": "basic composition",
    "curves": "numerical composition",
    "sums of rho": "basic composition of zCDP",
}
FEW = 0.1  # noise over sampling error that hardly matters


@dataclass(frozen=True)
class PlanRow:
    """One question in the plan, by the names of its JSON. share: of the budget; predicted_error and
    predicted_noise: error and its part from privacy noise, at the question's guess_sd (at 1 where
    there is none: then both are in units of the deviation between people); least_persons: the
    smallest number of people at which this plan works (None where none is planned for); reason: why
    the question has this share."""

    name: str
    ask: str
    budget: str
    share: float
    predicted_error: float
    predicted_noise: float
    in_deviations_between_persons: bool
    predicted_error_with_twice_the_weight: float
    least_persons: int | None
    method: str
    rationale: str
    reason: str

    @property
    def errors(self) -> tuple[float, float, float]:
        """The predicted error, and its parts from sampling and from privacy noise."""
        error, noise = self.predicted_error, self.predicted_noise
        return error, math.sqrt(max(error**2 - noise**2, 0.0)), noise


@dataclass(frozen=True)
class StudyPlan(HasOutput):
    """Plan of a study before data are read: budget split, plans and privacy accounting.

    Attributes
    ----------
    items : tuple of StudyQuestion
        The questions.
    shapes : dict
        Public shape of the table of each question.
    budget : Budget
        Budget of the whole study.
    allotment : BudgetAllocation
        Budget split and shared location queries.
    name : str
        Name of the study.

    Examples
    --------
    study = pm.Study(pm.example("wages"), person="id", epsilon=1.0)
    study.add("level", pm.Mean("ln_wage"), weight=2)
    study.add("hours", pm.Mean("hours", assume=(0, 100)))
    print(study.plan(4000))
    """

    items: tuple[StudyQuestion, ...]
    shapes: Mapping[str, PublicShape]
    budget: Budget
    allotment: BudgetAllocation
    name: str = ""

    @property
    def parts(self) -> tuple[QuestionShare, ...]:
        return self.allotment.parts

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The events of the study: fixed before any data, whatever is asked of it."""
        return bill(self.parts, self.shared_locations)

    @property
    def shared_locations(self) -> tuple[SharedLocationQuery, ...]:
        """Shared location queries, run once before the questions, in the order of the events."""
        return tuple(self.allotment.looks.values())

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole."""
        public = dict.fromkeys(word for part in self.parts for word in part.plan.public)
        return Guarantee.of(
            self.budget,
            self.budget.neighbors,
            self.events,
            public=(*public, "the questions"),
            note="one guarantee for all questions together; no question has one that adds to it",
        ).require()

    @property
    def digest(self) -> str:
        """What the plan is bound by: parts, settings, shapes, events."""
        return digest(
            PURPOSE,
            {
                "budget": self.budget.to_dict(),
                "neighbors": self.budget.neighbors,
                "questions": [
                    {
                        "name": part.name,
                        "question": repr(item.question),
                        "columns": list(self.shapes[item.name].columns),
                        "budget": part.budget.to_dict(),
                        "lines": [line.to_dict() for line in part.lines],
                    }
                    for item, part in zip(self.items, self.parts, strict=True)
                ],
                "shared_locations": [
                    line.to_dict() for line in shared_location_events(self.shared_locations)
                ],
            },
        )

    def lines(self) -> tuple[PlanRow, ...]:
        """One line a question."""
        return tuple(
            self._line(item, part) for item, part in zip(self.items, self.parts, strict=True)
        )

    def _line(self, item: StudyQuestion, part: QuestionShare) -> PlanRow:
        guess = guess_of(item)
        error, noise = part.plan.predict(guess)["rmse"], noise_of(part.plan, guess)
        return PlanRow(
            item.name,
            item.question.kind,
            part.budget.describe(),
            self._share(part.size, part.rho),
            error,
            noise,
            item.guess_sd is None,
            self._doubled(item, guess),
            self._least(item, part),
            part.plan.estimator,
            part.plan.rationale,
            self._reason(item, error, noise) + self._hidden(item, part.plan, guess),
        )

    def _reason(self, item: StudyQuestion, error: float, noise: float) -> str:
        """Why a question has its share, in words."""
        if item.error is not None:
            return f"target error {item.error:g}"
        if len(self.items) == 1:
            return "the only question"
        weight = f"weight {item.weight:g}"
        sampling = math.sqrt(max(error**2 - noise**2, 0.0))
        if not sampling:
            return weight
        ratio = noise / sampling
        small = "; hardly any noise, so it needs little" if ratio < FEW else ""
        return f"{weight}; noise is {ratio:.0%} of the sampling error{small}"

    def _hidden(self, item: StudyQuestion, plan: Plan, guess: float) -> str:
        """That all groups of a question are too small for its part, if they are equally large and
        people are in as many of them as count."""
        inner = plan.inner if isinstance(plan, WrapperPlan) else plan
        n, asked = self.shapes[item.name].count, item.question
        keys = getattr(asked, "keys", None)  # a curve has bins, of other rules
        if not (n and keys and isinstance(inner, GroupPlan) and inner.labels):
            return ""
        in_all = n * min(getattr(asked, "max_groups", 1), len(inner.labels))
        if any(line.status != SUPPRESSED for line in inner.forecast(in_all, guess, n)):
            return ""
        few = f"{len(inner.labels)} groups of about {in_all // len(inner.labels):,} people"
        return f"; {few} are expected to be suppressed: ask for fewer or raise the budget"

    def _share(self, size: float, rho: float) -> float:
        """The part of what all looks and questions cost: by epsilon where parts of epsilon add up,
        by zCDP elsewhere."""
        if self.allotment.way == SUMS:
            looks = math.fsum(float(look.pure) for look in self.shared_locations)
            return size / (looks + math.fsum(part.size for part in self.parts))
        looks = math.fsum(line.rho for line in shared_location_events(self.shared_locations))
        return rho / (looks + math.fsum(part.rho for part in self.parts))

    def looked(self) -> tuple[tuple[SharedLocationQuery, float, tuple[str, ...]], ...]:
        """Each shared location query, its budget share, and the questions that use it."""
        return tuple(
            (
                look,
                self._share(float(look.pure), math.fsum(line.rho for line in look.events)),
                tuple(part.name for part in self.parts if look in part.looks),
            )
            for look in self.shared_locations
        )

    def _doubled(self, item: StudyQuestion, guess: float) -> float:
        """The predicted error with twice the weight, by sums of shares."""
        if item.error is not None or len(self.items) == 1:
            return math.nan
        found = self.allotment
        free = [i for i, x in enumerate(self.items) if x.error is None]
        sizes = np.array([found.sizes[i] for i in free])
        ratios = np.array([ratio_of(self.items[i], self.parts[i].plan) for i in free])
        weights = np.array(
            [self.items[i].weight * (2 if self.items[i] is item else 1) for i in free]
        )
        scaled = ratios**2 * sizes**found.power
        place = [self.items[i] for i in free].index(item)
        after = least_errors(scaled, weights, float(sizes.sum()), found.power)[place]
        factor, own = float(after / sizes[place]), self.parts[free[place]].own
        if own.rho is not None:
            larger = replace(own, rho=own.rho * factor)
        else:
            assert own.epsilon is not None
            larger = replace(own, epsilon=own.epsilon * factor ** (1 / (3 - found.power)))
        try:
            made = self._planned(item, larger, self.shapes[item.name])
        except (InfeasibleError, ArgumentError):
            return math.nan
        return made.predict(guess)["rmse"]

    def _least(self, item: StudyQuestion, part: QuestionShare) -> int | None:
        """The smallest public number of people at which the question can be answered so."""
        shape = self.shapes[item.name]

        def works(persons: int) -> bool:
            known = persons if shape.n is not None else None
            try:
                made = self._planned(
                    item,
                    part.own,
                    replace(shape, n=known, n_guess=None if known else persons),
                )
            except (InfeasibleError, ArgumentError):
                return False
            # a plan for people of a private number does not refuse few: it fails with them
            return persons >= getattr(made, "least_persons", 1)

        return smallest_int(works, 1, most=10**9)

    def _planned(self, item: StudyQuestion, own: Budget, shape: PublicShape) -> Plan:
        return plan_of(item.question, shape, own, self.allotment.looks)

    def _part(self, name: str) -> QuestionShare:
        return next(part for part in self.parts if part.name == name)

    def describe(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "budget": self.budget.to_dict(),
            "neighbors": self.budget.neighbors,
            "way": self.allotment.way,
            "digest": self.digest,
            "shared_locations": [
                {"name": look.name, "share": share, "serves": list(serves)}
                for look, share, serves in self.looked()
            ],
            "questions": [plain_tree(asdict(line)) for line in self.lines()],
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per question: question, ask, share, budget, error, sampling, noise,
        error_at_twice_the_weight, minimum_n, reason.

        backend: "pandas", "polars" or "pyarrow"; None takes one that is imported or installed.

        Example:
            plan.to_frame("polars")
        """
        from privmean.data.list_columns import frame_of

        found = self.lines()
        columns: dict[str, list[Any]] = {
            "question": [line.name for line in found],
            "ask": [line.ask for line in found],
            "share": [line.share for line in found],
            "budget": [line.budget for line in found],
        }
        for place, cause in enumerate(("error", "sampling", "noise")):
            columns[cause] = [line.errors[place] for line in found]
        columns["error_at_twice_the_weight"] = [
            line.predicted_error_with_twice_the_weight for line in found
        ]
        columns["minimum_n"] = [line.least_persons for line in found]
        columns["reason"] = [line.reason for line in found]
        return frame_of(columns, backend)

    def output(self) -> Output:
        """The plan as a table, from public numbers alone."""
        found = self.lines()
        unguessed = [line for line in found if line.in_deviations_between_persons]
        # the smallest number in deviations between people sets the decimals of all of these
        shared = [min(x for line in unguessed for x in line.errors if x > 0)] if unguessed else []
        rows = [
            TableRow(line.name, _cells(line, *(shared if line in unguessed else ())))
            for line in found
        ]
        unit = "between-person standard deviations" if shared else "the column's units"
        if shared and len(unguessed) < len(found):
            unit += ", or in the column's units where guess_sd is given"
        elif shared:
            unit += "; pass guess_sd for the column's units"
        notes = [("*", f"Predicted root mean squared error in {unit}.")]
        for look, share, serves in self.looked():
            name = look.name[:1].upper() + look.name[1:]
            notes.append(("", f"{name}: {share:.1%} of the budget, shared by {', '.join(serves)}."))
        notes.append(("", f"Accounting: {ACCOUNTING[self.allotment.way]}."))
        return Output(
            f"Study plan: {self.name}" if self.name else "Study plan",
            sample=self._sample,
            columns=("budget", "error*", "sampling*", "noise*", "error* at 2x weight", "minimum n"),
            rows=tuple(rows),
            notes=tuple(notes),
            paragraphs=(
                ("Shares", "".join(f"\n{line.name}: {line.reason}" for line in found)),
                ("Privacy", privacy_text(self.guarantee)),
                *assumed_of([said for shape in self.shapes.values() for said in shape.declared]),
            ),
        )

    @property
    def _sample(self) -> str:
        known = sorted({shape.count for shape in self.shapes.values() if shape.count})
        public = "public" if self.budget.neighbors == REPLACE_ONE else "a public guess"
        people = f"n = {', '.join(f'{n:,}' for n in known)} people ({public})"
        loss = privacy_text(self.guarantee).partition(", person level")[0]
        return f"{people}; {loss}; planning charges nothing"


def _cells(line: PlanRow, *shared: float) -> tuple[str, ...]:
    """The cells of a question; shared: the number that sets the decimals of several questions."""
    least = min([*shared, *(x for x in line.errors if x > 0)][:1] if shared else line.errors)
    places, doubled = decimals(least), line.predicted_error_with_twice_the_weight
    numbers = [number(x, places, least) for x in (*line.errors, doubled)]
    return (
        f"{line.share:.1%}",
        *numbers,
        MISSING if line.least_persons is None else count(line.least_persons),
    )


DELTA_APART = (0.5, 0.1)  # parts of delta for questions that need one, where curves use the rest
# factors at which curves begin: parts by sums must gain as much; parts of rho never fit less
GAIN, START = 1.02, 0.999


def allot(
    items: Sequence[StudyQuestion],
    shapes: Mapping[str, PublicShape],
    budget: Budget,
    *,
    looking: bool = True,
) -> BudgetAllocation:
    """The best of the ways. looking: whether columns can be looked at (those of a table). Raises
    InfeasibleError, saying what would do, if there is none."""
    items = tuple(items)
    plain = AllocationTask(items, shapes, budget, remedy=lambda: _remedy(items, shapes, budget))
    every = plain.looks(1) if looking and can_share_location(budget) else {}
    shared = {column: look for column, look in every.items() if column in plain.shared}
    sets: list[Looks] = [{}, *(looks for looks in (shared, every) if looks)]
    if shared == every:
        sets = sets[:2]
    found = _by_sums([plain.beside(looks) for looks in sets])
    first = min(found, key=plain.value)
    if budget.epsilon is not None and budget.delta > 0:
        for looks in sets:
            found += _by_curves(plain.beside(looks), found, first)
    best: BudgetAllocation = min(found, key=plain.value)
    return best


def _by_sums(works: Sequence[AllocationTask]) -> list[BudgetAllocation]:
    """Parts that add up, with each set of looks where that can be had."""
    refused: InfeasibleError | None = None
    found = []
    for work in works:
        try:
            found.append(work.sums())
        except InfeasibleError as error:
            refused = refused or error
    if not found:
        assert refused is not None
        raise refused
    return found


def _by_curves(
    work: AllocationTask, sums: Sequence[BudgetAllocation], first: BudgetAllocation
) -> list[BudgetAllocation]:
    """Parts by sums with these looks, and parts of either kind, grown."""
    found: list[BudgetAllocation | None] = []
    for by_sums in sums:
        if by_sums.looks == work.taken:
            for kept in DELTA_APART if any(part.own.delta for part in by_sums.parts) else (1.0,):
                owns = [replace(part.own, delta=part.own.delta * kept) for part in by_sums.parts]
                found.append(_grown(work, owns, GAIN))
    for kept in DELTA_APART:
        try:
            owns = work.mixed(first, kept)
        except (InfeasibleError, ArgumentError):
            continue
        found.append(_grown(work, owns, START))
        if not any(own.delta for own in owns):
            break  # nobody needs a delta: the other part would be the same
    return [item for item in found if item is not None]


def _grown(work: AllocationTask, owns: Sequence[Budget], start: float) -> BudgetAllocation | None:
    try:
        return grow_shares(work, owns, start)
    except (InfeasibleError, ArgumentError):
        return None


def least_epsilon(
    items: Sequence[StudyQuestion], shapes: Mapping[str, PublicShape], budget: Budget
) -> float | None:
    """The least epsilon (at the same delta) at which everything wanted can be had, to 1 %, rounded
    up; None if no epsilon is enough."""

    def enough(epsilon: float) -> bool:
        try:
            larger = Budget(epsilon, budget.delta, neighbors=budget.neighbors)
            plain = AllocationTask(tuple(items), shapes, larger)
            shared = plain.beside(plain.looks(2)) if can_share_location(larger) else plain
            _by_sums([plain, shared] if shared.taken else [plain])
        except (InfeasibleError, ArgumentError):
            return False
        return True

    if not enough(LARGEST_EPSILON):
        return None
    _, high = bisect_ratio(lambda x: not enough(x), SMALLEST_EPSILON, LARGEST_EPSILON, 1.01)
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    return math.ceil(high / unit - 1e-9) * unit


def _remedy(
    items: tuple[StudyQuestion, ...], shapes: Mapping[str, PublicShape], budget: Budget
) -> str:
    """What is enough: a larger epsilon, or fewer wishes."""
    needed = least_epsilon(items, shapes, budget)
    ways = [] if needed is None else [f"give epsilon={needed:.3g}"]
    wishes = [item for item in items if item.error is not None]
    for item in wishes if len(items) > 1 else ():
        others = [other for other in items if other is not item]
        found = least_epsilon(others, shapes, budget)
        if found is not None:
            ways.append(f"remove question {item.name!r} and give epsilon={found:.3g}")
    return ", or ".join([*ways, "accept larger errors"])
