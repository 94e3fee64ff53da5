"""Deliberately broken twins of what is audited: each must be caught, or the audit says nothing.

A twin is made around the real thing: a curator who breaks one mechanism on its way, a plan that
runs otherwise, or people who answer a little too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

from altered_noise import Narrow
from auditing.broken import narrow, unbilled
from auditing.rows import Case, Recorded, every_case, neighbours, planned
from privmean.auditing.audit_local import STREAMED, audit_local, audit_streams
from privmean.auditing.findings import Findings
from privmean.auditing.measure_loss import CHOICES, PROCEDURES, numbers
from privmean.auditing.replay import name_of
from privmean.data.person_table import ColumnCounts
from privmean.errors import InfeasibleError
from privmean.estimators.regression.panel import PanelTable
from privmean.local.clients.randomizers import RANDOMIZERS, Randomizer
from privmean.mechanisms.curator import EachColumn, TrustedCurator
from privmean.noise.noise_source import Noise, SimulatedNoise
from privmean.privacy.privacy_events import Threshold
from privmean.privacy.profile_events import ThresholdOfSum
from privmean.release.result_numbers import Outcome

PERCENT = Fraction(101, 100)


# --- mechanisms, broken ---------------------------------------------------------------------------
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


def from_floats(base: type) -> Any:
    """`draw` with noise made of doubles."""
    real = base.draw
    return {"draw": lambda self, exact, noise: real(self, exact, Words(noise))}


def from_elsewhere(base: type) -> Any:
    """`draw` with noise of its own."""
    real, own = base.draw, lambda: SimulatedNoise(int(GLOBAL.integers(2**60)))
    return {"draw": lambda self, exact, noise: real(self, exact, own())}


def retried(base: type) -> Any:
    """`draw` until what comes out suits."""

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        while True:
            noisy = base.draw(self, exact, noise)
            if math.floor(sum(numbers(noisy))) % 2:
                return noisy

    return {"draw": draw}


def low_threshold(base: type) -> Any:
    """With a threshold one percent low, billed as the right one."""

    def threshold(self: Any) -> float:
        right = as_class(self, base).threshold
        low = right / float(PERCENT)
        return math.floor(low) if isinstance(right, int) else low

    return {
        "threshold": property(threshold),
        "events": property(lambda self: as_class(self, base).events),
    }


def as_class(mechanism: Any, base: type) -> Any:
    made = object.__new__(base)
    made.__dict__.update(mechanism.__dict__)
    return made


@cache
def twin_class(base: type, kind: Callable[[type], Any]) -> type:
    """The class with what `kind` breaks: always the same one, so that its name tells nothing."""
    return type(base.__name__, (base,), kind(base))


def twin_of(kind: Callable[[type], Any], mechanism: Any) -> Any:
    if kind is low_threshold and isinstance(mechanism, EachColumn):
        return replace(mechanism, step=twin_of(kind, mechanism.step))
    return as_class(mechanism, twin_class(type(mechanism), kind))


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
@contextmanager
def breaking(
    name: str,
    broken: Callable[[Any], Any] | None = None,
    exact: Callable[[Any], Any] | None = None,
    peeks: bool = False,
) -> Iterator[None]:
    """Curators break the mechanisms called `name`, or their exact answers, before they ask them, or
    ask people with a limit that follows private values."""
    real, change = TrustedCurator.ask, exact

    def ask(self: TrustedCurator, mechanism: Any, exact: Any) -> Any:
        if name_of(mechanism) != name:
            return real(self, mechanism, exact)
        if hasattr(exact, "__next__"):
            exact = tuple(exact)
        if peeks:
            peek(self.people)
        if change is not None:
            exact = change(exact)
        return real(self, mechanism if broken is None else broken(mechanism), exact)

    with mock.patch.object(TrustedCurator, "ask", ask):
        yield


def peek(people: Any) -> None:
    if isinstance(people, PanelTable):
        name, *_ = people.own
        people.distances(name, float(np.sum(people.means(name) > 3.0)))
    else:
        above = float(people.count_outside(0, -3.0, 3.0)[1])
        people.count_outside(0, -above, above)


@contextmanager
def everybody() -> Iterator[None]:
    """Disjoint parts of people are everybody, each."""
    real = TrustedCurator.parallel

    def parallel(self: TrustedCurator, name: str, people: Any, **more: Any) -> Any:
        return real(self, name, [self.people] * len(people), **more)

    with mock.patch.object(TrustedCurator, "parallel", parallel):
        yield


TWINS: dict[str, dict[str, Any]] = {
    "noise 1 % narrow": {"broken": partial(twin_of, partial(narrow, times=PERCENT))},
    "a person counts 1 % more": {"exact": amplified},
    "threshold 1 % low": {"broken": partial(twin_of, low_threshold)},
    "one answer unbilled": {"broken": partial(twin_of, unbilled)},
    "two answers billed once": {"broken": Both},
    "noise from floats": {"broken": partial(twin_of, from_floats)},
    "noise from elsewhere": {"broken": partial(twin_of, from_elsewhere)},
    "drawn again on failure": {"broken": partial(twin_of, retried)},
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


def counted_twice(base: type) -> Any:
    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        if isinstance(exact, ColumnCounts):
            return base.draw(self, TwiceCounted(exact.people, exact.column), noise)
        return base.draw(self, tuple(2 * side for side in exact), noise)

    return {"draw": draw}


def without_noise(base: type) -> Any:
    """The exact median, next to a draw that nothing is done with."""

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        drawn = base.draw(self, exact, noise)
        values, people = exact.distribution()
        if not len(values):
            return drawn
        middle = np.searchsorted(np.cumsum(people), people.sum() / 2)
        return float(self.numbers.rounded(values)[middle]), drawn[1]

    return {"draw": draw}


def near_the_data(base: type) -> Any:
    """Octaves up to that of the largest value alone."""

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        size = np.abs(exact.distribution()[0]).max(initial=0.0)
        high = int(np.clip(np.ceil(np.log2(size)) if size else 0, -60, 64))
        return base.draw(replace(self, numbers=replace(self.numbers, high=high)), exact, noise)

    return {"draw": draw}


def no_farther(base: type) -> Any:
    """No limit is beyond the farthest value."""

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        ends = (int(np.count_nonzero(side)) for side in exact)
        drawn = base.draw(self, exact, noise)
        return tuple(min(pair) for pair in zip(drawn, ends, strict=True))

    return {"draw": draw}


WEIGHTED: dict[tuple[str, str], Any] = {
    ("PrivateCenter", "a weighted count"): counted_twice,
    ("PrivateLimits", "a weighted count"): counted_twice,
    ("PrivateCenter", "without its noise"): without_noise,
    ("PrivateCenter", "a prior from the data"): near_the_data,
    ("PrivateLimits", "not beyond the farthest value"): no_farther,
}


def weighted_caught(name: str, twin: str, case: Case) -> int:
    """How many violations an audit finds of this twin of a choice with weights."""
    kind = WEIGHTED[name, twin]
    return caught(case, {"name": name, "broken": partial(twin_of, kind)}, runs=5)


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


def asked(case: Case) -> list[Any]:
    """The mechanisms that a case asks."""
    plan, rows = planned(case, 0)
    recorded = Recorded.of(plan, rows, case.where, 0, Findings())
    return [item.mechanism for item in recorded.tape.answers]


def specimens() -> dict[str, list[Case]]:
    """For every mechanism that any subject asks, the first cases that do."""
    found: dict[str, list[Case]] = {}
    for case in every_case():
        if case.table != "normal":
            break
        try:
            names = {name_of(item) for item in asked(case)}
        except InfeasibleError:
            continue
        for name in names:
            if len(found.setdefault(name, [])) < TRIED:
                found[name].append(case)
    return found


def mechanism_of(name: str, case: Case) -> Any:
    """The first mechanism of this name that the case asks."""
    return next(item for item in asked(case) if name_of(item) == name)


def caught(
    case: Case,
    twin: Mapping[str, Any],
    *,
    runs: int = 60,
    way: Callable[[Any, Any], Outcome] | None = None,
) -> int:
    """How many violations an audit finds of a twin of a mechanism, or of a plan's way to run."""
    plan, rows = planned(case, 0)
    found = Findings()
    with ExitStack() as stack:
        if twin:
            stack.enter_context(breaking(**twin))
        recorded = Recorded.of(plan if way is None else TwinPlan(plan, way), rows, "twin", 0, found)
        near = neighbours(rows, case.relation, recorded.tape, 0)
        for _, neighbour in zip(range(runs), near, strict=False):
            if found.count:
                break
            recorded.replay(neighbour, found)
    return found.count


# --- plans, streams and clients, broken -------------------------------------------------------
@dataclass(frozen=True)
class TwinPlan:
    """The plan, run in another way."""

    plan: Any
    way: Callable[[Any, Any], Outcome]

    @property
    def budget(self) -> Any:
        return self.plan.budget

    @property
    def events(self) -> Any:
        return self.plan.events

    def run(self, curator: Any) -> Outcome:
        return self.way(self.plan, curator)


def with_exact_count(plan: Any, curator: Any) -> Outcome:
    outcome = plan.run(curator)
    nothing = np.isnan(curator.people.matrix()).sum()
    return replace(outcome, diagnostics={**outcome.diagnostics, "nulls": int(nothing)})


def with_own_roster(plan: Any, curator: Any) -> Outcome:
    there = ~np.isnan(curator.people.matrix()).all(axis=1)
    return replace(plan.run(curator), n=int(there.sum()))


def run_again(plan: Any, curator: Any) -> Outcome:
    outcome = plan.run(curator)
    return outcome if outcome.status == "ok" else plan.run(curator)


def with_everybody(plan: Any, curator: Any) -> Outcome:
    with everybody():
        return plan.run(curator)


# the subject, its table, and the way to run
PLANS: dict[str, tuple[str, str, Callable[[Any, Any], Outcome]]] = {
    "an exact count in the outcome": ("bounded", "normal", with_exact_count),
    "a roster of those who have a value": ("bounded", "normal", with_own_roster),
    "run again on failure, unplanned": ("sub-Gaussian", "empty", run_again),
    "both parts are everybody": ("anisotropic, unknown covariance", "normal", with_everybody),
}


def plan_caught(twin: str) -> int:
    subject, kind, way = PLANS[twin]
    case = next(x for x in every_case() if x.of.name == subject and x.table == kind)
    return caught(case, {}, way=way)


def streams_caught() -> dict[str, int]:
    """Streams whose noise is one percent narrow, where the pattern that is tried is the worst."""
    found = {}
    for item in STREAMED:
        if item.name in ("bands", "once"):
            findings = Findings()
            make = item.make
            narrowed = replace(item, make=lambda noise, make=make: make(Narrow(noise, PERCENT)))
            audit_streams(findings, [narrowed])
            found[item.name] = findings.count
    return found


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
