"""Random dirty tables and questions of every kind, in every home, against the slow reference.

What hides a wrong double is a value near an edge: limits, origins, widths and centres are taken
from the table's own values as often as from anywhere.
"""

from __future__ import annotations

import atexit
import decimal
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import people_reference as reference
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import sql_tables

from privmean.data import engines
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval, ClippedRows, L2Ball, Standardization
from privmean.data.read import read

HOMES = ("numpy", "array", "arrow", "relation", "parquet", "polars", "lazy")
FILES = ("csv", "json", "pandas")  # of tables of doubles alone (`of_rows`)
SQL = sql_tables.ENGINES
TINY, TOP = 5e-324, 1.7976931348623157e308
ODD = (
    None, math.nan, math.inf, -math.inf, 0.0, -0.0, TINY, -TINY, 2.2e-308, TOP, -TOP, 1e308, 1e300,
    -1e300, 0.1, 0.2, 0.3, 0.5, -0.5, 0.49999999999999994, 1.0, 2.0**53 + 2, 2.0**52 + 0.5,
    2.0**40, -(2.0**40), 2.0**-40, 2.0**22, -(2.0**22), 2.0**23 + 0.5, 2.0**12 + 2.0**-40,
    2.0**-0.5, -(2.0**-0.5), 1e-12, -1e-12, 123456789.125,
)  # fmt: skip


@dataclass
class Table:
    """Records (id, values) of one random table, its Arrow form and how it is read.

    rows_of_persons: the rows are persons already, in memory, taken as they are (no grid, no limit).
    """

    rows: list[tuple[Any, ...]]
    arrow: pa.Table
    options: dict[str, Any]
    resolution: float
    max_records: int | None
    rows_of_persons: bool = False
    people: list[tuple[Any, list[float | None], list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        plain = [(who, *map(_double, values)) for who, *values in self.rows]
        if self.rows_of_persons:
            rows = [[None if _none(x) else x for x in values] for _, *values in plain]
            self.people = [
                (i, row, [int(x is not None) for x in row]) for i, row in enumerate(rows)
            ]
        else:
            self.people = reference.group(plain, self.resolution)

    @property
    def width(self) -> int:
        return self.arrow.num_columns - 1

    @property
    def values(self) -> list[list[float | None]]:
        return [values for _, values, _ in self.people]


def _none(x: float | None) -> bool:
    return x is None or math.isnan(x)


def _double(x: Any) -> float | None:
    return None if x is None else float(x)


# --- tables ---------------------------------------------------------------------------------------


def _decimal(rng: random.Random) -> float:
    return rng.randint(-600, 600) / 10


def _wild(rng: random.Random) -> float:
    return rng.gauss(0, 1) * 10.0 ** rng.randint(-14, 14)


def _bits(rng: random.Random) -> float:
    return float(np.array(rng.getrandbits(64), np.uint64).view(np.float64))


def _binary(rng: random.Random) -> float:
    """A multiple of a power of two: it lies on edges."""
    return math.ldexp(rng.randint(-40, 40), rng.randint(-44, 4))


def _column(rng: random.Random) -> tuple[pa.DataType, Callable[[], Any]]:
    """The type of a column and how its entries are drawn."""
    few = [rng.choice((_decimal, _wild, _binary))(rng) for _ in range(3)]
    base, scale = _wild(rng), 10.0 ** rng.randint(-9, 3)
    kinds: tuple[tuple[pa.DataType, Callable[[], Any]], ...] = (
        (pa.float64(), lambda: _decimal(rng)),
        (pa.float64(), lambda: _wild(rng)),
        (pa.float64(), lambda: _binary(rng)),
        (pa.float64(), lambda: _bits(rng)),
        (pa.float64(), lambda: rng.choice(ODD)),
        (pa.float64(), lambda: rng.choice(few)),
        (pa.float64(), lambda: few[0]),
        (pa.float64(), lambda: base + scale * rng.gauss(0, 1)),
        (pa.float64(), lambda: TINY * rng.randint(-(2**20), 2**20)),
        (pa.float64(), lambda: None),
        (pa.int64(), lambda: rng.randint(-60, 200)),
        (pa.int64(), lambda: rng.choice((2**63 - 1, -(2**63), 2**53 + 1, rng.getrandbits(60)))),
        (pa.uint64(), lambda: rng.getrandbits(rng.choice((3, 53, 54, 64)))),
        (pa.int8(), lambda: rng.randint(-128, 127)),
        (pa.float32(), lambda: float(np.float32(_wild(rng)))),
        (pa.bool_(), lambda: rng.random() < 0.5),
        (pa.decimal128(18, 1), lambda: decimal.Decimal(rng.randint(-(10**6), 10**6)).scaleb(-1)),
    )
    return rng.choice(kinds)


def table(rng: random.Random) -> Table:
    width, persons = rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 5, 12, 30))
    size = rng.choice((0, 1, persons, 40, 40))
    words = rng.random() < 0.3
    names = [f"{rng.choice('aBé0 Ω')}{i}" for i in range(persons)] if words else range(persons)
    missing = rng.choice((0.0, 0.1))
    who = [None if rng.random() < missing / 2 else rng.choice(names) for _ in range(size)]
    if rng.random() < 0.3 and size:  # one row a person, so that values meet no mean
        who = list(names)
    columns = []
    for _ in range(width):
        kind, draw = _column(rng)
        odd = rng.choice((0.0, 0.2)) if kind == pa.float64() else 0.0
        entries = [rng.choice(ODD) if rng.random() < odd else draw() for _ in who]
        columns.append((kind, [None if rng.random() < missing else item for item in entries]))
    arrays = [pa.array(items, kind) for kind, items in columns]
    ids = pa.array(who, pa.string() if words else pa.int64())
    arrow = pa.table([ids, *arrays], names=["who", *(f"x{j}" for j in range(width))])
    resolution = 2.0**-36 if rng.random() < 0.4 else 2.0 ** rng.randint(-36, 100)
    cap = rng.choice((None, None, 1, 3, 2**20))
    options = {} if cap is None else {"estimand": "records", "max_records": cap}
    rows = list(zip(who, *(items for _, items in columns), strict=True))
    return Table(
        rows, arrow, options | {"resolution": resolution}, resolution, cap, rng.random() < 0.1
    )


def of_rows(rows: list[tuple[Any, ...]], cap: int | None = None) -> Table:
    """The table of these records (id, x, y): of doubles, with whole numbers or texts as ids."""
    ids, *columns = zip(*rows, strict=True) if rows else ((), (), ())
    kind = pa.string() if any(isinstance(who, str) for who in ids) else pa.int64()
    arrays = [pa.array(ids, kind), *(pa.array(items, pa.float64()) for items in columns)]
    arrow = pa.table(arrays, names=["who", *(f"x{j}" for j in range(len(columns)))])
    options = {} if cap is None else {"estimand": "records", "max_records": cap}
    return Table(rows, arrow, options, 2.0**-36, cap)


def dirty_rows(ids: Any, size: int, rng: random.Random) -> list[tuple[Any, ...]]:
    """Records of some people, a few without an id, with odd values and others of any size."""

    def number() -> float | None:
        return rng.choice([rng.choice(ODD), rng.uniform(-10, 10), _wild(rng)])

    return [
        (rng.choice(ids) if rng.random() > 0.1 else None, number(), number()) for _ in range(size)
    ]


# --- homes ----------------------------------------------------------------------------------------


@cache
def _connection() -> Any:
    """One for all relations: a table of some rows takes less time than a connection."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    atexit.register(_connection.cache_clear)  # before the interpreter ends
    return connection


def homes(found: Table, folder: Path, which: tuple[str, ...] = HOMES) -> Iterator[tuple[str, Any]]:
    """The people of a table in each home. "numpy" is made of the reference's rows."""
    if found.rows_of_persons:
        which = ("numpy",)
    named = {"person": "who", "values": [f"x{j}" for j in range(found.width)], **found.options}
    for home in which:
        if home == "numpy":
            shape = (len(found.people), found.width)
            rows = [[math.nan if v is None else v for v in row] for row in found.values]
            counts = np.array([c for _, _, c in found.people], dtype=np.int64).reshape(shape)
            kept = None if found.max_records is None else counts
            columns = tuple(named["values"])
            yield (
                home,
                ArrayPersonTable(
                    np.array(rows, float).reshape(shape), columns, kept, found.max_records
                ),
            )
        elif home == "array":
            held = [row for row in found.rows if row[0] is not None]
            rows = [[math.nan if v is None else float(v) for v in row[1:]] for row in held]
            matrix = np.array(rows, float).reshape(len(held), found.width)
            kind = object if found.arrow.schema.field(0).type == pa.string() else np.int64
            ids = np.array([row[0] for row in held], dtype=kind)
            yield home, read(matrix, **(named | {"person": ids}))
        elif home == "arrow":
            with mock.patch.object(engines, "IN_MEMORY", 1 << 22):
                people = read(found.arrow, **named)
            yield home, people
        elif home == "relation":
            connection = _connection()
            connection.register("records", found.arrow)
            yield home, read(connection.table("records"), **named)
            connection.unregister("records")
        elif home == "parquet":
            pq.write_table(found.arrow, folder / "t.parquet")
            with mock.patch.object(engines, "IN_MEMORY", -1):  # rows stay in the engine
                people = read(folder / "t.parquet", **named)
            yield home, people
        elif home in FILES:
            source = _pandas(found) if home == "pandas" else _text_file(found, folder, home)
            yield home, read(source, **named)
        elif home in SQL:
            table = sql_tables.put(home, found.arrow)
            yield home, read(table, **named)
            sql_tables.drop(home, table)
        else:
            frame = pl.from_arrow(found.arrow)
            yield home, read(frame if home == "polars" else frame.lazy(), **named)


def _pandas(found: Table) -> pd.DataFrame:
    kinds = {name: float for name in found.arrow.column_names}
    kinds["who"] = "str" if found.arrow.schema.field(0).type == pa.string() else "Int64"
    columns = found.arrow.to_pydict()
    return pd.DataFrame(columns | {"who": pd.array(columns["who"], "object")}).astype(kinds)


def _text_file(found: Table, folder: Path, kind: str) -> Path:
    path, names = folder / f"t.{kind}", found.arrow.column_names
    if kind == "csv":
        lines = [",".join(names)]
        for who, *values in found.rows:
            shown = ("" if x is None else repr(x) for x in values)
            lines.append(",".join(["" if who is None else str(who), *shown]))
    else:
        path = folder / "t.jsonl"
        lines = [json.dumps(dict.fromkeys(names))]
        lines += [json.dumps(dict(zip(names, map(_in_json, row), strict=True)))
                  for row in found.rows]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def _in_json(x: Any) -> Any:
    return str(x) if x in (math.inf, -math.inf) else x


# --- questions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One question of `People`: how to ask it, and the reference's answer."""

    name: str
    ask: Callable[[Any], Any]
    answer: Callable[[], Any]


class Numbers:
    """Public numbers of questions, often the table's own values."""

    def __init__(self, found: Table, rng: random.Random) -> None:
        self.rng = rng
        self.own = [v for row in found.values for v in row if v is not None and abs(v) < 2.0**180]

    def place(self) -> float:
        rng = self.rng
        if self.own and rng.random() < 0.6:
            v = rng.choice(self.own)
            return rng.choice((v, math.nextafter(v, math.inf), math.nextafter(v, 0)))
        return rng.choice((0.0, 0.3, _decimal(rng), _wild(rng), _binary(rng)))

    def size(self) -> float:
        """A positive number: a distance, in units of the table or anyhow."""
        rng = self.rng
        if len(self.own) > 1 and rng.random() < 0.6:
            gap = abs(rng.choice(self.own) - rng.choice(self.own))
            if 1e-290 < gap < math.inf:
                return gap / rng.choice((1, 2, 3, 7, 33, 66, 1000))
        dyadic = math.ldexp(1.0, rng.randint(-60, 60))
        return rng.choice((0.1, 0.2, 0.7, 5.0, 176 / 66, dyadic, 10.0 ** rng.uniform(-20, 20)))

    def on_edge(self, origin: float) -> float:
        """A half width of bins for which one of the table's values lies on an edge."""
        away = abs(self.rng.choice(self.own) - origin) if self.own else 0.0
        half = away / (2 * self.rng.randint(0, 100) + 1)
        return half if 1e-290 < half < math.inf else self.size()

    def interval(self) -> tuple[float, float]:
        low = self.place()
        high = max(self.place(), low + self.size())
        if not low < high:
            high = math.nextafter(low, math.inf)
        if not low < high or (high - low) / 2 == 0.0:
            low, high = -1.0, 1.0
        return low, high

    def box(self) -> ClipInterval:
        return ClipInterval(*self.interval())

    def part(self) -> tuple[int, float, int, int]:
        """Sign, step, first and parts of `part_counts`."""
        size, parts = abs(self.place()), self.rng.choice((1, 2, 64, 4096))
        exponent = self.rng.randint(-108, 64)
        if size > 0.0 and self.rng.random() < 0.8:  # about one of the table's values
            exponent = math.frexp(size)[1] - self.rng.randint(-2, 44)
        step = math.ldexp(1.0, max(-108, min(64, exponent)))
        first = max(0, int(min(size / step, 2.0**44)) - self.rng.randrange(parts))
        return self.rng.choice((-1, 1)), step, first, parts

    def ball(self, width: int, most: int) -> L2Ball:
        bits = self.rng.randint(0, most)
        radius = self.size()
        step = radius / self.rng.uniform(2.0**bits, 2.0 ** (bits + 0.9))
        center = tuple(self.place() for _ in range(width))
        if self.rng.random() < 0.3:
            step = 2.0 ** math.ceil(math.log2(radius) - bits)
        elif self.own and self.rng.random() < 0.5:  # a value a whole number of steps away
            away = abs(self.rng.choice(self.own) - center[0])
            step = max(step, away / math.ceil(away / step)) if step < away < math.inf else step
        return L2Ball(center, radius, min(step, radius))

    def standard(self) -> Standardization:
        low, high = self.interval()
        middle = low + (high - low) * self.rng.random()
        return Standardization(low, high, min(max(middle, low), high), self.size())


def questions(found: Table, rng: random.Random) -> list[Question]:
    """Every question of `People`, with numbers drawn for this table."""
    numbers, width = Numbers(found, rng), found.width
    parts = rng.choice((2, 3, 64))
    index = rng.randrange(parts)
    asked = [
        Question("size", lambda p: p.size(), lambda: len(found.people)),
        *_basic(found, numbers, rng),
        Question("matrix", lambda p: _bytes(p.matrix()), lambda: _bytes(found.values, width)),
    ]
    inner, scaled = replace(found), replace(found, max_records=None)
    inner.people = found.people[index::parts]
    for one in _basic(inner, numbers, rng):
        asked.append(_within(one, f"part, {one.name}", lambda p: p.split(index, parts)))
    units = [numbers.standard() if rng.random() < 0.8 else None for _ in range(width)]
    if all(item is None for item in units):
        units[0] = numbers.standard()
    chosen = [(j, item) for j, item in enumerate(units) if item is not None]
    seen = [[reference.in_units(row[j], item) for j, item in chosen] for row in found.values]
    scaled.people = [(None, row, []) for row in seen]
    same = Question(
        "standardized", lambda p: _bytes(p.matrix()), lambda: _bytes(scaled.values, len(chosen))
    )
    of_units = _rows(scaled, len(chosen), Numbers(scaled, rng), rng)
    for one in (same, *of_units):
        asked.append(_within(one, f"units, {one.name}", lambda p: p.standardized(units)))
    asked.append(_clipped_rows(found, chosen, numbers, rng))
    return asked


def _clipped_rows(
    found: Table, chosen: list[tuple[int, Standardization]], numbers: Numbers, rng: random.Random
) -> Question:
    """Rows in units, cut to balls, with what lies beyond."""
    opened: list[Standardization | None] = [None] * found.width
    for j, item in chosen:
        opened[j] = item.opened
    radius, inner = numbers.size(), rng.uniform(0.1, 1)
    step = radius / rng.choice((2**19, 70_000, 37))
    zero = (0.0,) * len(chosen)
    balls = [L2Ball(zero, size * radius, step) for size in (1, (3 + inner) / 4, inner)]
    low, high = zip(*(item.ends for _, item in chosen), strict=True)
    cut = ClippedRows(*balls, lower=low, upper=high)
    seen = [[reference.in_units(row[j], item.opened) for j, item in chosen] for row in found.values]

    def ask(people: Any) -> Any:
        sums = people.standardized(opened).clipped_row_sums(cut)
        return sums.z, sums.present, sums.besides, sums.tails

    return Question("units, clipped_row_sums", ask, lambda: reference.clipped_row_sums(seen, cut))


def _within(one: Question, name: str, door: Callable[[Any], Any]) -> Question:
    return Question(name, lambda p: one.ask(door(p)), one.answer)


def _basic(found: Table, numbers: Numbers, rng: random.Random) -> list[Question]:
    width, values = found.width, found.values
    j = rng.randrange(width)
    column = [row[j] for row in values]
    origin, place = numbers.place(), numbers.place()
    half = rng.choice((numbers.size(), numbers.on_edge(place)))
    if rng.random() < 0.3:  # as a range is cut into bins
        ends, bins = sorted(rng.sample(range(-200, 200), 2)), rng.randint(1, 60)
        half = (ends[1] - ends[0]) / (2 * bins)
        place = ends[0] + half
    low = rng.randint(-120, 100)
    high = low + rng.randint(0, 90)
    boxes = [numbers.box() if rng.random() < 0.8 else None for _ in range(width)]
    ends, part = numbers.interval(), numbers.part()
    below, (lower, upper) = sorted(ends), ends

    def of_column(name: str, *given: Any) -> Question:
        """A question about one column, which the reference answers by the same name."""
        answered = getattr(reference, name)
        return Question(
            name, lambda p: _plain(getattr(p, name)(j, *given)), lambda: answered(column, *given)
        )

    def of_box(k: int, box: ClipInterval) -> dict[str, int]:
        counts = [c[k] for _, _, c in found.people]
        return reference.interval_sums([row[k] for row in values], counts, found.max_records, box)

    return [
        of_column("log_counts", origin),
        of_column("half_octave_counts", origin),
        of_column("part_counts", *part),
        of_column("missing"),
        of_column("uniform_counts", half, place),
        of_column("pair_counts", low, high),
        Question(
            "interval_sums",
            lambda p: [item and vars(item) for item in p.interval_sums(boxes)],
            lambda: [box and of_box(k, box) for k, box in enumerate(boxes)],
        ),
        Question(
            "column_counts",
            lambda p: in_column(p.column_counts(j), part),
            lambda: column_expected(column, part),
        ),
        Question(
            "counts_below",
            lambda p: p.counts_below(j, below).tolist(),
            lambda: [sum(v is not None and v < x for v in column) for x in below],
        ),
        Question(
            "count_outside",
            lambda p: p.count_outside(j, *ends),
            lambda: (
                sum(v is not None and v < lower for v in column),
                sum(v is not None and v > upper for v in column),
            ),
        ),
        *_rows(found, width, numbers, rng),
    ]


def _rows(found: Table, width: int, numbers: Numbers, rng: random.Random) -> list[Question]:
    """Questions about whole rows."""
    values = found.values
    besides = rng.choice((None, "sizes", "squares"))
    ball = numbers.ball(width, 20 if besides else 29)
    known = [row for row in values if all(v is not None for v in row)]
    norms = [math.hypot(*rng.choice(known)) if known else 1.0 for _ in range(3)]
    edges = sorted(rng.choice((numbers.size(), rng.choice(norms))) for _ in range(6))
    center, radius = tuple(numbers.place() for _ in range(width)), numbers.size()
    if known and rng.random() < 0.6:
        radius = math.dist(rng.choice(known), center)
        radius = radius if 1e-290 < radius < math.inf else 1.0
    return [
        Question(
            f"ball_sums {besides or ''}".strip(),
            lambda p: _ball(p.ball_sums(ball, besides)),
            lambda: reference.ball_sums(values, ball, besides),
        ),
        Question(
            "norm_counts",
            lambda p: p.norm_counts(edges).tolist(),
            lambda: reference.norm_counts(values, edges),
        ),
        Question(
            "count_in_ball",
            lambda p: p.count_in_ball(center, radius),
            lambda: reference.count_in_ball(values, center, radius),
        ),
    ]


def in_column(counts: Any, part: tuple[int, float, int, int]) -> list[Any]:
    """What `ColumnCounts` tells."""
    values, people = counts.distribution()
    return [
        counts.present, counts.half_octaves(0.3).tolist(), counts.parts(*part).tolist(),
        counts.outside(0.0, 0.0), (values.tolist(), people.tolist()),
    ]  # fmt: skip


def column_expected(values: Any, part: tuple[int, float, int, int]) -> list[Any]:
    known = [v for v in values if v is not None]
    return [
        len(known), reference.half_octave_counts(known, 0.3), reference.part_counts(known, *part),
        (sum(v < 0 for v in known), sum(v > 0 for v in known)), reference.distribution(known),
    ]  # fmt: skip


def _plain(answer: Any) -> Any:
    return answer.tolist() if isinstance(answer, np.ndarray) else answer


def _ball(sums: Any) -> tuple[Any, ...]:
    return sums.z, sums.present, sums.besides


def _bytes(rows: Any, width: int | None = None) -> bytes:
    """Rows bit for bit, but for the sign of a zero and what stands for a null."""
    if width is not None:
        rows = [[math.nan if v is None else v for v in row] for row in rows]
        rows = np.array(rows, float).reshape(len(rows), width)
    return (np.where(np.isnan(rows), math.nan, rows) + 0.0).tobytes()


@dataclass(frozen=True)
class Mismatch:
    """Where a home and the reference part."""

    home: str
    question: str
    found: Any
    expected: Any


def mismatches(
    found: Table, asked: list[Question], folder: Path, which: tuple[str, ...] = HOMES
) -> list[Mismatch]:
    expected = [one.answer() for one in asked]
    wrong = []
    for home, people in homes(found, folder, which):
        for one, right in zip(asked, expected, strict=True):
            answer = one.ask(people)
            if answer != right:
                wrong.append(Mismatch(home, one.name, answer, right))
    return wrong
