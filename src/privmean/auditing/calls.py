"""Whole calls: from raw records to everything that an outsider sees, recorded and replayed.

A call is made once with noise that writes a tape. On a neighbor, whose records differ in one
person, the same call gets the same noisy answers: then all that can be seen must be the same, from
the release to warnings, the log, refusals and the ledger.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice, product
from typing import Any, cast

import numpy as np

from privmean.auditing.findings import Findings
from privmean.auditing.fixed_noise import Answer, Asked
from privmean.auditing.measure_loss import numbers, same, steady
from privmean.auditing.replay import (
    Compared,
    Parted,
    Recording,
    Replaying,
    Transcript,
    inspected,
    measured,
)
from privmean.data.engines import framed
from privmean.errors import PrivmeanError
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import REPLACE_ONE

Record = tuple[Any, ...]
PERSON = "person"
MANY = 20  # records of a hostile person
CLIMBING = 0.5  # of the neighbors start from the dearest so far
EVERY = 5  # for one neighbor in so many every text is made; for others the release is compared
FORMS = {
    "json": "to_dict", "text": "__str__", "rows": "rows", "details": "details", "frame": "to_frame",
}  # fmt: skip
TEXTS = ("", "another", "\U0010ffff", "a")
# infinities, the largest and the smallest doubles, edges of logarithmic bins
STRANGE = (
    math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 2.0**40, -(2.0**40),
    math.nextafter(2.0**40, 0), 2.0**-40, math.nextafter(2.0**-40, 0), 1e18, -1e18, 1.0, -1.0,
)  # fmt: skip
MOST_EDGES = 400


@dataclass(frozen=True)
class Table:
    """Records of everybody. people: the records of each person, by id; names: of the columns;
    texts: those that hold text; public: those that a neighbor keeps, with the number of records.
    order: of all records, by a seed (0: person by person)."""

    names: tuple[str, ...]
    people: dict[Any, tuple[Record, ...]]
    texts: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    order: int = 0

    def put(self, who: Answer, own: tuple[Record, ...]) -> Table:
        """The same table with these records of one person."""
        return replace(self, people={**self.people, who: own})

    def columns(self) -> dict[str, list[Any]]:
        """Every record of everybody, column by column; None where there is none."""
        rows = [(who, *record) for who, own in self.people.items() for record in own]
        if self.order:
            np.random.default_rng(self.order).shuffle(rows)
        listed = [list(column) for column in zip(*rows, strict=True)]
        return dict(zip((PERSON, *self.names), listed or [[]] * (1 + len(self.names)), strict=True))

    def arrays(self) -> dict[str, Any]:
        """The same as NumPy arrays: NaN where there is no number."""
        made = {}
        for name, column in self.columns().items():
            if name in self.texts:
                made[name] = np.array([item or "" for item in column], dtype=str)
            elif name == PERSON:
                made[name] = np.array(column)
            else:
                numbers = [math.nan if item is None else item for item in column]
                made[name] = np.array(numbers, dtype=float)
        return made

    def quickest(self) -> Any:
        """In memory, where reading takes least time: as a Polars frame, if it is installed."""
        found = framed(self.columns(), self.names, self.texts)
        return self.arrays() if found is None else found


Ask = Callable[[Any, Any, Any], Any]  # a source, noise, a ledger: a release
Source = Callable[[Table], Any]


def seen(
    ask: Ask, source: object, noise: object, known: tuple[Any, dict[str, str]] | None = None
) -> tuple[dict[str, str], Any]:
    """What an outsider sees of a call, as texts by name, and the release. known: a release and its
    texts, which are not made anew where this one is the same in every field."""
    from privmean.privacy.ledger import Ledger

    large: dict[str, Any] = (
        {"rho": 100.0} if getattr(ask, "rho", False) else {"epsilon": 100.0, "delta": 0.1}
    )
    ledger = Ledger(**large)
    out, err, told, made = io.StringIO(), io.StringIO(), io.StringIO(), None
    log, handler = logging.getLogger("privmean"), logging.StreamHandler(told)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    before = log.level, log.disabled
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.disabled = False
    shown: dict[str, str] = {"refused": ""}
    caught = warnings.catch_warnings(record=True, action="always")
    with caught as warned, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            made = ask(source, noise, ledger)
            again = known if known is not None and same(made, known[0]) else None
            shown |= {name: again[1][name] for name in FORMS} if again else faces(made)
        except Exception as problem:
            shown["refused"] = f"{type(problem).__name__}: {problem}"
            if not isinstance(problem, PrivmeanError):
                shown["trace"] = "".join(traceback.format_exception(problem)[-3:])
    log.removeHandler(handler)
    log.setLevel(before[0])
    log.disabled = before[1]
    shown["warned"] = "\n".join(f"{item.category.__name__}: {item.message}" for item in warned)
    shown |= {"out": out.getvalue(), "err": err.getvalue(), "log": told.getvalue()}
    shown["ledger"] = "\n".join(map(repr, ledger.entries))
    return {name: steady(text) for name, text in shown.items()}, made


def faces(made: Asked) -> dict[str, str]:
    """Every form of a release as text, "" where it has none."""
    found = dict.fromkeys(FORMS, "")
    for name, method in FORMS.items():
        with contextlib.suppress(ImportError):  # a frame needs pandas
            form: Any = getattr(made, method, str)()
            if name == "json":
                form = json.dumps(form, allow_nan=False)
            elif hasattr(form, "to_csv"):
                form = f"{[*map(str, form.dtypes)]}\n{form.to_csv()}"
            found[name] = str(form)
    return found


@dataclass
class Called:
    """A call that was recorded; `replay` makes it on a neighbor."""

    ask: Ask
    table: Table
    source: Source
    where: str
    relation: str
    seed: int = 0
    tape: Transcript = field(default_factory=Transcript)
    shown: dict[str, str] = field(default_factory=dict)
    made: Any = None

    def record(self, found: Findings) -> bool:
        """Whether the call was answered. What is refused is not recorded as a run."""
        noise = Recording(self.tape, SimulatedNoise(self.seed))
        self.shown, self.made = seen(self.ask, self.source(self.table), noise)
        if self.shown["refused"]:
            if "trace" in self.shown:  # no refusal: what fails on some tables tells of them
                found.violated(self.where, f"fails: {self.shown['refused'].split(':')[0]}")
            else:
                found.refused[self.where] = "no plan for this budget, these neighbors, this table"
            return False
        found.recorded += 1
        if noise.requests:
            found.violated(self.where, "noise is drawn beside every mechanism")
        inspected(self.tape.answers, self.where, found)
        return True

    def replay(self, other: Table, what: str, found: Findings, every: bool = True) -> Fraction:
        """The same call on a neighbor; the largest share of a loss."""
        found.runs += 1
        compared = Compared()
        noise = Replaying(self.tape, compared)
        shown: dict[str, str] = {}
        with contextlib.suppress(Parted):
            known = None if every else (self.made, self.shown)
            shown, _ = seen(self.ask, self.source(other), noise, known)
            noise.finish()
        if not compared.difference:
            names = dict.fromkeys((*self.shown, *shown))
            others = [name for name in names if shown.get(name) != self.shown.get(name)]
            if others:
                compared.difference = f"an outsider sees a difference: {', '.join(others)}"
        if compared.difference:
            found.differences += 1
            found.violated(self.where, f"{what}: {compared.difference}")
        return measured(self.tape.answers, compared, self.where, found)

    def follow(self, runs: int, found: Findings) -> None:
        """So many neighbors, and those that lie near the dearest of them."""
        rng = np.random.default_rng(self.seed)
        numbers = [*STRANGE, *edges(self.tape)]
        dearest, best = Fraction(-1), cast("Near | None", None)
        for turn in range(runs):
            start = best if best is not None and rng.random() < CLIMBING else None
            other, what = neighbour(self.table, self.relation, numbers, rng, start)
            share = self.replay(other, what, found, every=turn % EVERY == 0)
            if share >= dearest:
                dearest, best = share, (other, what)


def edges(tape: Transcript) -> list[float]:
    """Numbers that the recorded run asked with (limits, origins, centers and radii around them),
    and their neighbors among the doubles."""
    found: dict[float, None] = {}
    for item in tape.answers:
        asked = [float(number) for number in islice(numbers(item.mechanism), 64)]
        found |= dict.fromkeys(asked)
        for first, second in product(asked[:8], asked[:8]):
            found |= {first + second: None, first - second: None}
        if len(found) > MOST_EDGES:
            break
    listed = [item for item in found if math.isfinite(item)][:MOST_EDGES]
    beside = [math.nextafter(item, way) for item in listed for way in (-math.inf, math.inf)]
    return listed + beside


Near = tuple[Table, str]


def neighbour(
    table: Table,
    relation: str,
    numbers: Sequence[float],
    rng: np.random.Generator,
    start: Near | None = None,
) -> Near:
    """A table that differs in one person, and what was done; start: one to begin from."""
    ids = list(table.people)

    def entry(name: str) -> Answer:
        if name in table.texts:
            return str(rng.choice([*TEXTS, *_some(table, name, rng)]))
        way = rng.random()
        if way < 0.1:
            return None
        known = _some(table, name, rng) if way < 0.4 else numbers
        return float(known[int(rng.integers(len(known)))])

    def own(kept: tuple[Record, ...]) -> tuple[Record, ...]:
        if not table.public:
            kept = ((None,) * len(table.names),) * int(rng.choice([1, 1, 2, 3, MANY]))
        made = [
            tuple(old if name in table.public else entry(name) for name, old in named)
            for named in (zip(table.names, record, strict=True) for record in kept)
        ]
        alike = not table.public and rng.random() < 0.3
        return tuple(made[:1] * len(made) if alike else made)

    if start is not None:  # a step of the climb: one entry, one record more or less, the order
        changed = [who for who, has in start[0].people.items() if table.people.get(who) != has]
        if changed:
            who = changed[0]
            return _stepped(start[0], who, entry, rng), start[1]
    who = ids[int(rng.integers(min(8, len(ids)) if rng.random() < 0.5 else len(ids)))]
    if relation == REPLACE_ONE:
        return table.put(who, own(table.people[who])), "replaced"
    if rng.random() < 0.4 and len(ids) > 1:
        rest = {one: has for one, has in table.people.items() if one != who}
        return replace(table, people=rest), "left"
    new = {_unused(ids, rng): own(())}
    people = {**new, **table.people} if rng.random() < 0.5 else {**table.people, **new}
    return replace(table, people=people), "joined"


def _stepped(
    table: Table, who: Answer, entry: Callable[[str], Any], rng: np.random.Generator
) -> Table:
    own, order = list(table.people[who]), table.order
    way, at = rng.random(), int(rng.integers(len(own)))
    free = [k for k, name in enumerate(table.names) if name not in table.public]
    if table.public or way < 0.6:
        k = free[int(rng.integers(len(free)))]
        own[at] = (*own[at][:k], entry(table.names[k]), *own[at][k + 1 :])
    elif way < 0.75:
        own.append(own[at])
    elif way < 0.9 and len(own) > 1:
        del own[at]
    else:
        order = 1 + at
    return replace(table.put(who, tuple(own)), order=order)


def _some(table: Table, name: str, rng: np.random.Generator) -> list[Any]:
    """Entries that others have."""
    at, ids = table.names.index(name), list(table.people)
    found = []
    for _ in range(4):
        own = table.people[ids[int(rng.integers(len(ids)))]]
        found += [record[at] for record in own if record[at] is not None]
    return found or ["" if name in table.texts else 0.0]


def _unused(ids: Sequence[Any], rng: np.random.Generator) -> Answer:
    """An id that nobody has: before all others, or after them."""
    if isinstance(ids[0], str):
        return str(rng.choice(["", "\U0010ffff"])) + "new"
    return min(ids) - 1 if rng.random() < 0.5 else max(ids) + 1


def built(
    names: Sequence[str], texts: Sequence[str], kind: str, persons: int, seed: int,
    public: Sequence[str] = (),
) -> Table:  # fmt: skip
    """People with one to three records: about normal, or much worse (see `hostile.TABLES`)."""
    rng = np.random.default_rng(seed)
    center = {"far": 1e9, "beyond": 1e15}.get(kind, 3.0)
    spread = {"constant": 0.0, "wide": 100.0, "beyond": 1e15}.get(kind, 1.0)
    people: dict[Any, tuple[Record, ...]] = {}
    for person in range(persons):
        size = int(rng.integers(1, 4))
        arm = str(person % 2)
        own = []
        for at in range(size):
            shift = rng.standard_t(1.2) if kind == "heavy" else spread * rng.normal()
            row: list[Any] = []
            for k, name in enumerate(names):
                if name in texts:
                    level = "abc"[int(rng.integers(3))]
                    row.append(arm if name == "arm" else level)
                elif name == "t":
                    row.append(float(at) + 0.25)
                elif kind == "empty" or (kind == "gaps" and person % 2) or name == kind[3:]:
                    row.append(None)
                elif kind == "collinear" and name == "z":
                    row.append(row[names.index("x")])
                elif person < 6 and kind != "constant":
                    row.append((None, 1e308, -1e308, 0.0, 2.0**40, 5e-324)[person])
                else:
                    row.append(float(center + shift * (k == 0) + spread * rng.normal()))
            own.append(tuple(row))
        people[person] = tuple(own)
    return Table(tuple(names), people, tuple(texts), tuple(public))


def columns_of(question: Asked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of numbers and of texts that a question reads."""

    def said(*words: str) -> list[str]:
        given = [getattr(question, word, None) or () for word in words]
        return [name for item in given for name in ((item,) if isinstance(item, str) else item)]

    numbers, texts = said("values", "value", "baseline", "time"), said("by", "arms")
    model = getattr(question.summary, "model", None)
    if model is not None:
        numbers, texts = [*model.columns, *said("time")], model.texts
    return tuple(name for name in dict.fromkeys(numbers) if name not in texts), tuple(texts)


def own_records(table: Asked, question: Asked) -> Table:
    """The records of a table of one's own, as far as the question reads them."""
    from privmean.data.engines import fetch
    from privmean.data.open_source import open_source, typed

    numbers, texts = columns_of(question)
    opened = open_source(table.source, table.text, table.resources.limits())
    types = opened.records(table.person, (*numbers, *texts), texts).collect_schema()
    first = len(numbers)
    whole = {name for j, name in enumerate(texts, first) if types[f"x{j}"].is_numeric()}
    numbers += tuple(name for name in texts if name in whole)  # keys and arms may be numbers
    texts = tuple(name for name in texts if name not in whole)
    frame = opened.records(table.person, (*numbers, *texts), texts)
    people: dict[Any, list[Record]] = {}
    for who, *record in fetch(typed(frame, table.person, (*numbers, *texts), texts)):
        people.setdefault(who, []).append(tuple(record))
    people.pop(None, None)
    listed = {who: tuple(own) for who, own in people.items()}
    return Table((*numbers, *texts), listed, texts)
