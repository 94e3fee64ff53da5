"""What an audit found, by mechanism, and how findings of several processes are put together.

What the package audits of itself before a curator: one line each.

A new estimator or question is one line of `SUBJECTS`. Settings suit about 600 people whose values
are about normal with mean 3 and deviation 1; the tables are often otherwise, since privacy depends
on no assumption.

What must be on a tape, found in the code: mechanisms, fields of questions, relations, budgets.

Nothing is listed by hand. A mechanism is a class with losses that draws; a field is one of a
question, away from its default. What no tape has is named.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from fractions import Fraction
from functools import cache
from importlib import import_module
from inspect import isabstract
from typing import TYPE_CHECKING, Any, NamedTuple

from privmean.api.parse_question import QUESTIONS, fields_of, question_class
from privmean.auditing.fixed_noise import Asked
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.concentration import Bounded, SubGaussian, UnknownScale
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean, RecordWeights
from privmean.estimators.means.bounded import BoundedMean
from privmean.estimators.means.default_mean import DefaultMean
from privmean.estimators.moment_variance import MomentVariance
from privmean.estimators.quantiles import Quantiles
from privmean.estimators.regression.private_scale import PrivateScale
from privmean.estimators.winsorized import RandomEffects, WinsorizedMean
from privmean.inference.status import STATUSES
from privmean.privacy.budget import ADD_REMOVE, NEIGHBORS, REPLACE_ONE, Budget, Relation
from privmean.questions.regression import Regression
from privmean.questions.regression_options import WorkingErrors

if TYPE_CHECKING:
    from privmean.questions.base import Estimator, Question

MOST_SHOWN = 20


@dataclass
class Mechanism:
    """runs: pairs of exact answers of neighbors; largest: loss over declared loss; unmeasured:
    pairs whose loss no pair of answers can show; shifted: pairs measured from the draws alone."""

    runs: int = 0
    largest: Fraction = Fraction(0)
    violations: int = 0
    unmeasured: int = 0
    shifted: int = 0

    def add(self, other: Mechanism) -> None:
        self.largest = max(self.largest, other.largest)
        _sum(self, other, "runs", "violations", "unmeasured", "shifted")

    def to_dict(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "largest_loss_over_declared": float(self.largest),
            "largest_exact": str(self.largest),
            "violations": self.violations,
            "not_measured": self.unmeasured,
            "measured_by_shifts_too": self.shifted,
        }


class Violation(NamedTuple):
    """where: the subject, budget, neighbors; what: in words, without any value of the table."""

    where: str
    what: str


@dataclass
class Findings:
    """runs: replays on neighbors. differences: control flow or outcome differed. refused: subjects
    that a table or budget did not allow, with the reason. seen: what was on tapes (`coverage`)."""

    runs: int = 0
    recorded: int = 0
    differences: int = 0
    count: int = 0
    mechanisms: dict[str, Mechanism] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def mechanism(self, name: str) -> Mechanism:
        return self.mechanisms.setdefault(name, Mechanism())

    def violated(self, where: str, what: str) -> None:
        self.count += 1
        if len(self.violations) < MOST_SHOWN:
            self.violations.append(Violation(where, what))

    def paired(self, name: str, share: Fraction, where: str, wrong: str) -> None:
        """A pair of inputs of what has no curator, its share of the declared loss, and what is
        wrong with it."""
        self.runs += 1
        self.mechanism(name).add(Mechanism(1, share, int(bool(wrong))))
        if wrong:
            self.violated(where, wrong)

    def add(self, other: Findings) -> None:
        _sum(self, other, "runs", "recorded", "differences", "count")
        for name, item in other.mechanisms.items():
            self.mechanism(name).add(item)
        self.subjects = dict(Counter(self.subjects) + Counter(other.subjects))
        self.violations += other.violations[: MOST_SHOWN - len(self.violations)]
        self.refused |= other.refused
        self.seen |= other.seen

    @classmethod
    def of(cls, parts: Iterable[Findings]) -> Findings:
        found = cls()
        for part in parts:
            found.add(part)
        return found


def _sum(one: object, other: object, *names: str) -> None:
    for name in names:
        setattr(one, name, getattr(one, name) + getattr(other, name))


PURE = (("epsilon", 2.0), ("delta", 0.0))
MIXED = (("epsilon", 2.0), ("delta", 1e-6))
ZCDP = (("rho", 1.0),)
LARGE = (("epsilon", 6.0), ("delta", 1e-6))
Said = tuple[tuple[str, float], ...]
GENEROUS: tuple[Said, ...] = (  # so that plans for few people come to their last step
    (("epsilon", 60.0), ("delta", 0.0)),
    (("epsilon", 60.0), ("delta", 1e-6)),
    (("rho", 30.0),),
)
ANY = (PURE, MIXED, ZCDP)
BOTH: tuple[Relation, ...] = (REPLACE_ONE, ADD_REMOVE)
REPLACED: tuple[Relation, ...] = (REPLACE_ONE,)
NEAR = (-9.0, 9.0)
MOMENT = BoundedMoment(4, 1.4, range=NEAR)


@dataclass(frozen=True)
class Subject:
    """made: the estimator or question. cap: of records, for means over records. weight: of its
    cases among the runs (those that take long get fewer)."""

    name: str
    made: Estimator | Question
    budgets: tuple[Said, ...] = ANY
    relations: tuple[Relation, ...] = BOTH
    dimensions: tuple[int, ...] = (1, 2)
    n: int = 601
    max_records: int | None = None
    weight: float = 1.0


SUBJECTS: tuple[Subject, ...] = (
    # --- the mean -----------------------------------------------------------------------------
    Subject("default", DefaultMean(), dimensions=(1,)),
    Subject("default, interval first", DefaultMean(target="mean"), dimensions=(1,)),
    Subject("default, columns", DefaultMean(), (MIXED, ZCDP), REPLACED, (2, 5), 1200, weight=0.3),
    Subject("default, columns, interval first", DefaultMean(target="mean"), (MIXED,), REPLACED,
        (4,), 1200, weight=0.3),
    Subject("default, records", DefaultMean(), dimensions=(1,), max_records=5),
    Subject("bounded", BoundedMean((0.0, 8.0)), dimensions=(1, 3)),
    Subject("limits", WinsorizedMean(Bounded(0.0, 8.0))),
    Subject("limits, records", WinsorizedMean(Bounded(0.0, 8.0)), max_records=5),
    Subject("sub-Gaussian", WinsorizedMean(SubGaussian(sd=1.0)), (MIXED,), BOTH, (1, 2, 8)),
    Subject("in a range", WinsorizedMean(SubGaussian(sd=1.0), range=NEAR)),
    Subject("in a range, records", WinsorizedMean(SubGaussian(sd=1.0), range=NEAR), max_records=3),
    Subject("unknown scale", WinsorizedMean(UnknownScale()), (MIXED,), REPLACED, (1, 4)),
    Subject("random effects", RandomEffects(0.5, 1.0, 10, (30,) * 20, range=NEAR).estimator(),
        relations=REPLACED, dimensions=(1,), n=600),
    Subject("bounded moment", HeavyTailedMean(MOMENT)),
    Subject("bounded moment, whole line", HeavyTailedMean(BoundedMoment(4, 1.4)), (MIXED,),
        dimensions=(1, 3, 8)),
    Subject("bounded moment, private radius",
        HeavyTailedMean(MOMENT, private_radius=True), (PURE, MIXED), REPLACED, weight=0.3),
    Subject("bounded moment, weights by records",
        HeavyTailedMean(BoundedMoment(4, 1.4, range=NEAR, records=2),
        weights=RecordWeights(max_records=5)), max_records=5, dimensions=(2,), weight=0.3),
    Subject("anisotropic", AnisotropicMean(1.0), (MIXED,), dimensions=(1, 2, 5), weight=0.1),
    Subject("anisotropic, filtered mean alone", AnisotropicMean(1.0, method="average"), (LARGE,),
        weight=0.1),
    Subject("anisotropic, unknown covariance", AnisotropicMean(), (LARGE,), REPLACED, (3,), 4000,
        weight=0.02),
    Subject("magnitudes", PrivateScale(2.0**-10, 2.0**10), ANY, REPLACED, (1, 3)),
    Subject("magnitudes about medians", PrivateScale(center="median"), ANY, REPLACED, (1, 3)),
    Subject("quantiles of one column", Quantiles((0.25, 0.5)), ANY, dimensions=(1,)),
    # --- questions ----------------------------------------------------------------------------
    Subject("regression, public sizes", Regression("y ~ a", effect="per_person", scales={"a": 2.0}),
        relations=REPLACED, dimensions=(2,)),
    Subject("regression, assumed errors",
        Regression("y ~ a", effect="per_person", assume=WorkingErrors(1.0, 1.0,
        coefficient_bounds=NEAR)),
        dimensions=(2,)),
    Subject("variance, nothing given", MomentVariance(), GENEROUS, dimensions=(1,)),
)  # fmt: skip


def budget_of(said: Said, relation: Relation) -> Budget:
    """The budget that a line of the list names."""
    return Budget(**dict(said), neighbors=relation)


Seen = set[tuple[str, str]]
# what no tape can have, with the reason
APART: dict[tuple[str, str], str] = {
    ("mechanism", "PublishedHistogram"): "of privmean.published, which no other room may import",
}


@cache
def modules() -> tuple[Any, ...]:
    names = [
        item.name for item in pkgutil.walk_packages(import_module("privmean").__path__, "privmean.")
    ]
    inner = ("privmean.auditing", "privmean.__main__", "privmean.cli", "privmean.collector")
    return tuple(import_module(name) for name in names if not name.startswith(inner))


@cache
def mechanisms() -> tuple[type, ...]:
    """Every class that has losses and draws noise, but those that others finish."""
    found = {}
    for module in modules():
        for item in vars(module).values():
            if isinstance(item, type) and item.__module__.startswith("privmean."):
                named = {*dir(item), *getattr(item, "__dataclass_fields__", ())}
                own = {"draw", "events"} <= named  # a field has no value in its class
                protocol = getattr(item, "_is_protocol", False)
                if own and not protocol and not isabstract(item):
                    found[item.__name__] = item
    return tuple(found[name] for name in sorted(found))


@cache
def everything() -> dict[str, frozenset[str]]:
    """What there is, kind by kind."""
    fields = {
        f"{kind}.{item.name}" for kind in QUESTIONS for item in fields_of(question_class(kind))
    }
    return {
        "mechanism": frozenset(item.__name__ for item in mechanisms()),
        "field": frozenset(fields),
        "relation": frozenset(NEIGHBORS),
        "status": frozenset(row.code for row in STATUSES),
        "budget": frozenset(("pure", "approximate", "zCDP")),
    }


def of_question(question: Asked) -> Iterator[tuple[str, str]]:
    """Its fields that are not at their default."""
    kind: Any = type(question)
    for item in fields_of(kind):
        if item.required or item.default is MISSING or getattr(question, item.name) != item.default:
            yield "field", f"{question.kind}.{item.name}"


def of_terms(said: Mapping[str, float], relation: str) -> Iterator[tuple[str, str]]:
    """The relation and the kind of budget."""
    yield "relation", relation
    yield "budget", "zCDP" if said.get("rho") else "approximate" if said.get("delta") else "pure"


def of_answers(answers: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The classes that drew."""
    for item in answers:
        for name in {type(item.mechanism).__name__}.union(*(x.by for x in item.requests)):
            yield "mechanism", name


def of_release(made: Asked) -> Iterator[tuple[str, str]]:
    """Every status that a release, an outcome, or one of a study says."""
    stack = [made]
    while stack:
        item = stack.pop()
        if hasattr(item, "to_dict"):
            item = item.to_dict()
        elif hasattr(item, "outcome") or hasattr(item, "statuses"):
            item = vars(getattr(item, "outcome", item))
        if isinstance(item, Mapping):
            codes = (item.get("status"), *(item.get("statuses") or ()))
            yield from (("status", code) for code in codes if code and isinstance(code, str))
            stack += item.values()
        elif isinstance(item, list | tuple):
            stack += item


def covered(
    seen: Seen,
    names: Mapping[str, frozenset[str]] | None = None,
    apart: Mapping[tuple[str, str], str] = APART,
) -> list[tuple[str, str, str, str]]:
    """One row per kind: how many of all are on tape, the share, and what is missing. seen: what was
    on tapes. names: what there is. apart: what no tape can have, and why."""
    found = []
    for kind, every in (names or everything()).items():
        wanted = sorted(name for name in every if (kind, name) not in apart)
        left = [name for name in wanted if (kind, name) not in seen]
        have, total = len(wanted) - len(left), len(wanted)
        found.append((kind, f"{have} of {total}", f"{100 * have / total:.0f} %", ", ".join(left)))
    return found
