"""Deliberately broken twins of what is audited: each must be caught, or the audit says nothing.

A twin is made around the real thing: a plan that runs before a curator who breaks one mechanism, or
people who answer a little too much. Nothing of the package is patched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

from auditing.rows import Case, Recorded, every_case, neighbours, plan_of, shape_of, table_of
from privmean.auditing.audit_local import STREAMED, audit_local, audit_streams
from privmean.auditing.findings import Findings, budget_of
from privmean.auditing.measure_loss import CHOICES, PROCEDURES, numbers
from privmean.auditing.replay import name_of
from privmean.data.person_table import ColumnCounts
from privmean.errors import InfeasibleError
from privmean.estimators.regression.panel import PanelTable
from privmean.local.clients.randomizers import RANDOMIZERS, Randomizer
from privmean.mechanisms.choices import Exponential, choose
from privmean.mechanisms.curator import EachColumn
from privmean.noise.noise_source import Noise, SimulatedNoise
from privmean.privacy.privacy_events import Threshold
from privmean.privacy.profile_events import ThresholdOfSum
from privmean.release.result_numbers import Outcome

PERCENT = Fraction(101, 100)


# --- mechanisms, broken ---------------------------------------------------------------------------
class Narrowed:
    """Noise one percent narrower than it was asked for."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noise, name)

    def laplace(self, size: int, scale: Fraction) -> Any:
        return self._noise.laplace(size, Fraction(scale) / PERCENT)

    def gaussian(self, size: int, scale: float) -> Any:
        return self._noise.gaussian(size, scale / float(PERCENT))

    def argmax(self, scores: Any, scale: Fraction) -> int:
        return self._noise.argmax(scores, Fraction(scale) / PERCENT)


class Words:
    """Noise of the right size made of words and doubles, as the float leaks of old were."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noise, name)

    def _uniform(self, size: int) -> Any:
        return (self._noise.bits64(size).astype(float) + 0.5) / 2.0**64

    def laplace(self, size: int, scale: Fraction) -> Any:
        u = self._uniform(size) - 0.5
        with np.errstate(divide="ignore"):
            drawn = -float(scale) * np.sign(u) * np.log1p(-2 * np.abs(u))
        return np.rint(np.clip(drawn, -(2.0**60), 2.0**60)).astype(np.int64)

    def gaussian(self, size: int, scale: float) -> Any:
        angle = np.cos(2 * math.pi * self._uniform(size))
        drawn = scale * np.sqrt(-2 * np.log(self._uniform(size))) * angle
        return np.rint(drawn).astype(np.int64)


GLOBAL = np.random.default_rng(5)


@cache
def twin_class(base: type, twin: str) -> type:
    """The class with what `twin` breaks: always the same one, so that its name tells nothing."""

    def narrow(self: Any, exact: Any, noise: Noise) -> Any:
        return base.draw(self, exact, Narrowed(noise))

    def floats(self: Any, exact: Any, noise: Noise) -> Any:
        return base.draw(self, exact, Words(noise))

    def elsewhere(self: Any, exact: Any, noise: Noise) -> Any:
        return base.draw(self, exact, SimulatedNoise(int(GLOBAL.integers(2**60))))

    def retried(self: Any, exact: Any, noise: Noise) -> Any:
        while True:  # until what comes out suits
            noisy = base.draw(self, exact, noise)
            if math.floor(sum(numbers(noisy))) % 2:
                return noisy

    def unbilled(self: Any, exact: Any, noise: Noise) -> Any:
        return _whole(self, base).draw(exact, noise)  # some draw by the losses that they declare

    def sharper(self: Any, exact: Any, noise: Noise) -> Any:
        made = _whole(self, base)
        if base is Exponential:
            return choose(exact, PERCENT / made.scale, noise)
        return replace(made, epsilon=PERCENT * made.epsilon).draw(exact, noise)

    broken: dict[str, dict[str, Any]] = {
        "noise 1 % narrow": {"draw": sharper if issubclass(base, CHOICES) else narrow},
        "noise from floats": {"draw": floats},
        "noise from elsewhere": {"draw": elsewhere},
        "drawn again on failure": {"draw": retried},
        "one answer unbilled": {
            "events": property(lambda _: ()),
            "sensitivity_share": lambda *_: (),
            "draw": unbilled,
        },
        "threshold 1 % low": {
            "threshold": property(lambda self: lowered(_whole(self, base).threshold)),
            "events": property(lambda self: _whole(self, base).events),
        },
    }
    return type(base.__name__, (base,), broken[twin])


def lowered(threshold: float) -> float:
    low = threshold / float(PERCENT)
    return math.floor(low) if isinstance(threshold, int) else low


def _whole(mechanism: Any, base: type) -> Any:
    made = object.__new__(base)
    made.__dict__.update(mechanism.__dict__)
    return made


def breaking(twin: str) -> Callable[[Any], Any]:
    """What makes this twin of a mechanism."""

    def broken(mechanism: Any) -> Any:
        if twin == "threshold 1 % low" and isinstance(mechanism, EachColumn):
            return replace(mechanism, step=broken(mechanism.step))
        return _whole(mechanism, twin_class(type(mechanism), twin))

    return broken


@dataclass(frozen=True)
class Both:
    """Two answers of one mechanism for the price of one."""

    step: Any

    @property
    def events(self) -> Any:
        return self.step.events

    def sensitivity_share(self, exact: Any, other: Any) -> Any:
        shares = self.step.sensitivity_share(exact, other)
        return tuple(2 * share for share in shares)

    def draw(self, exact: Any, noise: Noise) -> Any:
        self.step.draw(exact, noise)
        return self.step.draw(exact, noise)


def amplified(exact: Any) -> Any:
    """Answers in which everybody counts for one percent more (in small counts: twice)."""
    if isinstance(exact, bool | str) or exact is None:
        return exact
    if isinstance(exact, int | np.integer):
        return int(exact) + int(exact) // 50 if abs(int(exact)) > 10**6 else 2 * int(exact)
    if isinstance(exact, np.ndarray):
        return 2 * exact
    if isinstance(exact, Mapping):
        return {key: amplified(value) for key, value in exact.items()}
    if is_dataclass(exact) and not isinstance(exact, type):
        named = {item.name: amplified(getattr(exact, item.name)) for item in fields(exact)}
        return type(exact)(**named)
    return type(exact)(amplified(item) for item in exact)


# --- curators, broken -----------------------------------------------------------------------------
@dataclass
class Breaking:
    """A curator who breaks the mechanisms called `name` on their way to the real one."""

    curator: Any
    name: str
    broken: Callable[[Any], Any] | None = None
    exact: Callable[[Any], Any] | None = None
    peeks: bool = False

    @property
    def people(self) -> Any:
        return self.curator.people

    @property
    def events(self) -> Any:
        return self.curator.events

    def ask(self, mechanism: Any, exact: Any) -> Any:
        if name_of(mechanism) != self.name:
            return self.curator.ask(mechanism, exact)
        if not isinstance(exact, list | tuple | dict | int) and hasattr(exact, "__next__"):
            exact = tuple(exact)
        if self.peeks:  # limits from private values
            self._peek()
        if self.exact is not None:
            exact = self.exact(exact)
        return self.curator.ask(mechanism if self.broken is None else self.broken(mechanism), exact)

    def _peek(self) -> None:
        """Ask with a limit that follows private values."""
        people = self.people
        if isinstance(people, PanelTable):
            name, *_ = people.own
            people.distances(name, float(np.sum(people.means(name) > 3.0)))
        else:
            above = float(people.count_outside(0, -3.0, 3.0)[1])
            people.count_outside(0, -above, above)

    def parallel(self, name: str, people: Any, **more: Any) -> Any:
        return tuple(
            Breaking(item, self.name, self.broken, self.exact, self.peeks)
            for item in self.curator.parallel(name, people, **more)
        )


@dataclass
class Everybody:
    """A curator whose disjoint parts are everybody, each."""

    curator: Any

    @property
    def people(self) -> Any:
        return self.curator.people

    def ask(self, mechanism: Any, exact: Any) -> Any:
        return self.curator.ask(mechanism, exact)

    def parallel(self, name: str, people: Any, **more: Any) -> Any:
        return self.curator.parallel(name, [self.people] * len(people), **more)


@dataclass(frozen=True)
class TwinPlan:
    """The plan, before a curator who breaks things."""

    plan: Any
    breaking: Mapping[str, Any]
    leak: bool = False
    roster: bool = False
    retries: bool = False
    whole: bool = False

    @property
    def budget(self) -> Any:
        return self.plan.budget

    @property
    def events(self) -> Any:
        return self.plan.events

    def run(self, curator: Any) -> Outcome:
        twin = Breaking(curator, **self.breaking) if self.breaking else curator
        if self.whole:
            twin = Everybody(curator)
        outcome = self.plan.run(twin)
        if self.leak:  # an exact count beside the answers
            nothing = np.isnan(curator.people.matrix()).sum()
            outcome = replace(outcome, diagnostics={**outcome.diagnostics, "nulls": int(nothing)})
        if self.roster:  # persons are those who have a value
            there = ~np.isnan(curator.people.matrix()).all(axis=1)
            outcome = replace(outcome, n=int(there.sum()))
        if self.retries and outcome.status != "ok":
            outcome = self.plan.run(twin)
        return outcome


TWINS: dict[str, dict[str, Any]] = {
    "noise 1 % narrow": {"broken": breaking("noise 1 % narrow")},
    "a person counts 1 % more": {"exact": amplified},
    "threshold 1 % low": {"broken": breaking("threshold 1 % low")},
    "one answer unbilled": {"broken": breaking("one answer unbilled")},
    "two answers billed once": {"broken": Both},
    "noise from floats": {"broken": breaking("noise from floats")},
    "noise from elsewhere": {"broken": breaking("noise from elsewhere")},
    "drawn again on failure": {"broken": breaking("drawn again on failure")},
    "limits from private values": {"peeks": True},
}


# --- choices with weights, broken -----------------------------------------------------------------
@dataclass(frozen=True)
class TwiceCounted(ColumnCounts):
    """Everybody counts twice."""

    @property
    def present(self) -> int:
        return 2 * super().present

    def half_octaves(self, origin: float) -> Any:
        return 2 * super().half_octaves(origin)

    def parts(self, *where: Any) -> Any:
        return 2 * super().parts(*where)

    def outside(self, lower: float, upper: float) -> Any:
        return tuple(2 * count for count in super().outside(lower, upper))


def replace_of(mechanism: Any, **changes: Any) -> Any:
    """An instance of the class that this one breaks."""
    return replace(_whole(mechanism, type(mechanism).__base__), **changes)


def _sharp(self: Any, exact: Any, noise: Noise) -> Any:
    return replace_of(self, epsilon=2 * self.epsilon).draw(exact, noise)


def _counted_twice(self: Any, exact: Any, noise: Noise) -> Any:
    if isinstance(exact, ColumnCounts):
        exact = TwiceCounted(exact.people, exact.column)
    else:
        exact = tuple(2 * side for side in exact)
    return replace_of(self).draw(exact, noise)


def _median(self: Any, exact: Any, noise: Noise) -> Any:
    """The exact one, next to a draw that nothing is done with."""
    drawn = replace_of(self).draw(exact, noise)
    values, people = exact.distribution()
    if not len(values):
        return drawn
    value = self.numbers.rounded(values)[np.searchsorted(np.cumsum(people), people.sum() / 2)]
    return float(value), drawn[1]


def _near_the_data(self: Any, exact: Any, noise: Noise) -> Any:
    """Octaves up to that of the largest value alone."""
    size = np.abs(exact.distribution()[0]).max(initial=0.0)
    high = int(np.clip(np.ceil(np.log2(size)) if size else 0, -60, 64))
    return replace_of(self, numbers=replace(self.numbers, high=high)).draw(exact, noise)


def _no_farther(self: Any, exact: Any, noise: Noise) -> Any:
    """No limit is beyond the farthest value."""
    drawn = replace_of(self).draw(exact, noise)
    ends = (int(np.count_nonzero(side)) for side in exact)
    return tuple(min(pair) for pair in zip(drawn, ends, strict=True))


WEIGHTED: dict[tuple[str, str], Any] = {
    ("PrivateCenter", "twice as sharp"): _sharp,
    ("PrivateLimits", "twice as sharp"): _sharp,
    ("PrivateCenter", "a weighted count"): _counted_twice,
    ("PrivateLimits", "a weighted count"): _counted_twice,
    ("PrivateCenter", "without its noise"): _median,
    ("PrivateCenter", "a prior from the data"): _near_the_data,
    ("PrivateLimits", "not beyond the farthest value"): _no_farther,
}


def weighted_caught(name: str, twin: str, case: Case) -> int:
    """How many violations an audit finds of this twin of a choice with weights."""

    @cache  # always the same class, so that its name tells nothing
    def made(base: type) -> type:
        return type(base.__name__, (base,), {"draw": WEIGHTED[name, twin]})

    def broken(mechanism: Any) -> Any:
        return _whole(mechanism, made(type(mechanism)))

    return caught(case, {"name": name, "broken": broken}, runs=5)


def applies(twin: str, mechanism: Any) -> bool:
    """Whether there is such a twin of this mechanism."""
    step = mechanism.step if isinstance(mechanism, EachColumn) else mechanism
    if isinstance(step, PROCEDURES):
        words = ("one answer unbilled", "noise from elsewhere", "limits from private values")
        return twin in words or (isinstance(step, CHOICES) and twin == "noise 1 % narrow")
    if twin == "threshold 1 % low":
        return any(isinstance(loss, Threshold | ThresholdOfSum) for loss in mechanism.events)
    if twin in ("noise from floats", "drawn again on failure"):
        kind = type(step).__name__
        choice = isinstance(step, CHOICES) or kind in ("Choice", "NoisyArgmax", "FirstBelow")
        by_rejection = getattr(step, "law", "") == "k-norm"
        return not choice and not by_rejection
    return True


TRIED = 4  # cases of a mechanism: not every one comes to the edge of its loss


def specimens() -> dict[str, list[Case]]:
    """For every mechanism that any subject asks, the first cases that do."""
    found: dict[str, list[Case]] = {}
    for case in every_case():
        if case.table != "normal":
            break
        try:
            rows = table_of(case.of, case.table, case.dimension, 0)
            budget = budget_of(case.said, case.relation)
            plan = plan_of(case.of.made, budget, shape_of(rows, case.relation))
        except InfeasibleError:
            continue
        recorded = Recorded.of(plan, rows, case.where, 0, Findings())
        for name in {name_of(item.mechanism) for item in recorded.tape.answers}:
            if len(found.setdefault(name, [])) < TRIED:
                found[name].append(case)
    return found


def mechanism_of(name: str, case: Case) -> Any:
    """The first mechanism of this name that the case asks."""
    rows = table_of(case.of, case.table, case.dimension, 0)
    budget = budget_of(case.said, case.relation)
    plan = plan_of(case.of.made, budget, shape_of(rows, case.relation))
    recorded = Recorded.of(plan, rows, case.where, 0, Findings())
    return next(x.mechanism for x in recorded.tape.answers if name_of(x.mechanism) == name)


def caught(
    case: Case,
    breaking: Mapping[str, Any],
    *,
    runs: int = 60,
    **more: bool,
) -> int:
    """How many violations an audit of this twin finds."""
    subject = case.of
    rows = table_of(subject, case.table, case.dimension, 0)
    plan = plan_of(subject.made, budget_of(case.said, case.relation), shape_of(rows, case.relation))
    twin: Any = TwinPlan(plan, breaking, **more)
    found = Findings()
    recorded = Recorded.of(twin, rows, "twin", 0, found)
    near = neighbours(rows, case.relation, recorded.tape, 0)
    for _, neighbour in zip(range(runs), near, strict=False):
        if found.count:
            break
        recorded.replay(neighbour, found)
    return found.count


# --- plans, streams and clients, broken -------------------------------------------------------
PLANS: dict[str, tuple[str, dict[str, bool]]] = {
    "an exact count in the outcome": ("bounded", {"leak": True}),
    "a roster of those who have a value": ("bounded", {"roster": True}),
    "run again on failure, unplanned": ("sub-Gaussian", {"retries": True}),
    "both parts are everybody": ("anisotropic, unknown covariance", {"whole": True}),
}


def plan_caught(twin: str) -> int:
    subject, more = PLANS[twin]
    kind = "empty" if more.get("retries") else "normal"
    case = next(x for x in every_case() if x.of.name == subject and x.table == kind)
    return caught(case, {}, **more)


def streams_caught() -> dict[str, int]:
    """Streams whose noise is one percent narrow, where the pattern that is tried is the worst."""
    found = {}
    for item in STREAMED:
        if item.name in ("bands", "once"):
            findings = Findings()
            make = partial(_narrowed, item.make)
            audit_streams(findings, [replace(item, make=make)])
            found[item.name] = findings.count
    return found


def _narrowed(make: Callable[[Noise], Any], noise: Noise) -> Any:
    return make(Narrowed(noise))  # type: ignore[arg-type]


def clients_caught() -> dict[str, int]:
    """Clients whose coins are those of an epsilon one percent larger."""

    def broken(run: Randomizer) -> Randomizer:
        def client(round_: Any, level: int, value: Any, nonce: bytes, entropy: Any) -> bytes:
            louder = tuple(item * PERCENT for item in round_.menu)
            return run(replace(round_, menu=louder), level, value, nonce, entropy)

        return client

    findings = Findings()
    with mock.patch.dict(RANDOMIZERS, {name: broken(run) for name, run in RANDOMIZERS.items()}):
        audit_local(findings, thorough=False)
    return {name: item.violations for name, item in findings.mechanisms.items()}
