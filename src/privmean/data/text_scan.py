"""How DuckDB scans text files: fields from `text_blocks.py`, turned into ids and numbers by SQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import IO, TYPE_CHECKING

import narwhals as nw

from privmean.data import text_blocks as textblocks
from privmean.data.arrow_stream import Texts, TextStream
from privmean.data.duckdb_engine import Engine, quoted
from privmean.data.key_text import TRUTH
from privmean.data.schema import Columns
from privmean.data.text_files import TextFiles, kind
from privmean.data.text_format import BLANKS, TextFormat
from privmean.data.text_record import WIDEST, json_fields, lines

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_numbers = count()
Split = Callable[[IO[bytes], TextFormat], Iterator[Texts]]


@dataclass(frozen=True)
class TextTable:
    """Text files that DuckDB can scan."""

    source: TextFiles

    @property
    def columns(self) -> Columns:
        return self.source.columns

    def declared(self, column: str) -> nw.dtypes.DType | None:
        """The type that the caller declared of a column: a text file has none of its own."""
        kind = dict(self.source.files[0].form.types).get(column)
        return {None: None, "boolean": nw.Boolean(), "unsigned": nw.UInt64()}[kind]

    def records(
        self, engine: Engine, person: str, values: Sequence[str], texts: Sequence[str] = ()
    ) -> DuckDBPyRelation:
        """The records (p, x0, x1, ...): only these columns, text turned into doubles (but for the
        columns `texts`)."""
        wanted = tuple(dict.fromkeys((person, *values)))
        as_text = {person, *texts}
        make = _csv if self.source.form == "csv" else _json
        made = make(self.source, wanted, as_text, engine)
        meter = engine.meter = Meter(self.source)
        label = f"privmean_text_{next(_numbers)}"
        stream = TextStream(made.width, partial(_scanned, self.source, made.split, meter), meter)
        engine.connection.register(label, stream)
        form, source = self.source.files[0].form, made.query(label)
        fields = [_field(f"t{j}", item in as_text, form) for j, item in enumerate(wanted)]
        for j in made.numbers:
            fields[j] = f"CASE WHEN n{j} IS NOT NULL THEN n{j} ELSE {fields[j]} END"
        for item, its in form.types:
            if item in wanted and item not in as_text:
                j = wanted.index(item)
                fields[j] = _of_type(its, fields[j], f"t{j}")
        chosen = [f"{fields[wanted.index(item)]} AS x{j}" for j, item in enumerate(values)]
        return engine.connection.sql(
            f"SELECT {', '.join([f'{fields[0]} AS p', *chosen])} FROM ({source})"
        )


@dataclass(frozen=True)
class Scan:
    """What a format needs: texts a row, how a stream is split, and the query that makes texts
    (t0, t1, ...; null or empty: missing) of a registered stream. numbers: where it makes a double
    (n0, n1, ...) too, which counts if it is not null."""

    width: int
    split: Split
    query: Callable[[str], str]
    numbers: Sequence[int] = ()


class Meter:
    """How far a scan is, and why it stopped."""

    def __init__(self, source: TextFiles) -> None:
        self.total = sum(os.path.getsize(item.path) for item in source.files)
        self.done = self.here = 0
        self.path = self.problem = ""

    def start(self) -> None:
        self.done = self.here = 0

    def next(self) -> None:
        self.done, self.here = self.done + self.here, 0

    def query_progress(self) -> float:
        """Per cent of the bytes."""
        return 100.0 * (self.done + self.here) / max(1, self.total)

    def __call__(self, problem: BaseException) -> None:
        self.problem = f"{self.path} cannot be read to its end ({kind(problem)})"


def _scanned(source: TextFiles, split: Split, meter: Meter) -> Iterator[Texts]:
    """All files from their starts; a header is no record."""
    meter.start()
    for item in source.files:
        meter.path = str(item.path)
        with item.opened() as (stream, raw):
            if source.headed():
                next(lines(stream), None)
            for batch in split(stream, item.form):
                meter.here = raw.tell()
                yield batch
        meter.next()


def _csv(source: TextFiles, wanted: Sequence[str], _: Set[str], __: Engine) -> Scan:
    place = [source.columns.place(item) for item in wanted]
    places = sorted(set(place))
    fields = [f"f[{2 * places.index(item) + 2}] AS t{j}" for j, item in enumerate(place)]

    def split(stream: IO[bytes], form: TextFormat) -> Iterator[Texts]:
        return textblocks.csv_texts(stream, form, places)

    return Scan(2 * len(places), split, lambda label: f"SELECT {', '.join(fields)} FROM {label}")


def _json(source: TextFiles, wanted: Sequence[str], as_text: Set[str], engine: Engine) -> Scan:
    """DuckDB's own parser where a line is a JSON object (e: what is written behind each key), and
    `json_fields` (t) where it is none, or where the two could write a value differently."""
    form = replace(source.files[0].form, encoding="utf-8")
    keys = list(wanted)
    function = f"privmean_json_{next(_numbers)}"

    def tolerant(line: str) -> list[str | None]:
        return list(json_fields(textblocks.bare(line.encode()), keys, form).values())

    engine.connection.create_function(
        function, tolerant, ["VARCHAR"], "VARCHAR[]", exception_handling="return_null"
    )
    pointers = ", ".join(quoted(_pointer(key)) for key in keys)
    numbers = [k for k, key in enumerate(keys) if key not in as_text and not form.na_values]
    written = ", ".join(
        [
            *(f"e[{k + 1}] AS e{k}" for k in range(len(keys))),
            *(f"TRY_CAST(e[{k + 1}] AS DOUBLE) AS n{k}" for k in numbers),
        ]
    )
    hard = " OR ".join(
        [
            "e IS NULL",
            *(_hard(k, as_text=k not in numbers) for k in range(len(keys))),
        ]
    )
    kept = [f"n{k}" for k in numbers]
    names = ", ".join([*(f"e{k}" for k in range(len(keys))), *kept])
    texts = [
        f"CASE WHEN t IS NOT NULL THEN t[{k + 1}] WHEN starts_with(e{k}, '\"') THEN {_inner(k)} "
        f"WHEN e{k} <> 'null' THEN e{k} END AS t{k}"
        for k in range(len(keys))
    ]

    def query(label: str) -> str:
        parsed = (
            f"SELECT f, CASE WHEN strlen(f) <= {WIDEST} AND starts_with(f, '{{') AND json_valid(f) "
            f"THEN TRY(json_extract(f, [{pointers}]))::VARCHAR[] END AS e FROM {label}"
        )
        apart = f"SELECT f, e, {written} FROM ({parsed})"
        tried = f"SELECT {names}, CASE WHEN {hard} THEN {function}(f) END AS t FROM ({apart})"
        return f"SELECT {', '.join([*texts, *kept])} FROM ({tried})"

    def split(stream: IO[bytes], own: TextFormat) -> Iterator[Texts]:
        return textblocks.json_texts(stream, own, keys)

    return Scan(1, split, query, numbers)


def _inner(k: int) -> str:
    """What stands between the quotes; only what starts with a blank is looked at closely."""
    inner = f"e{k}[2:-2]"
    return f"CASE WHEN {inner} >= '!' OR trim({inner}, {quoted(BLANKS)}) <> '' THEN {inner} END"


def _hard(k: int, *, as_text: bool) -> str:
    """Where what the parser writes may not be what stands in the line: strings with an escape and,
    if the text counts, numbers that are not plainly whole, other words, objects and arrays."""
    escaped = f"contains(e{k}, '\\')"
    if not as_text:
        return f"n{k} IS NULL AND coalesce({escaped}, false)"
    other = f"coalesce(TRY_CAST(e{k} AS BIGINT)::VARCHAR, '') <> e{k}"
    text = f"CASE WHEN starts_with(e{k}, '\"') THEN {escaped} ELSE {other} END"
    return f"coalesce({text} AND e{k} <> 'null', false)"


def _pointer(key: str) -> str:
    """A key of the outer object as a JSON pointer (RFC 6901)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _of_type(kind: str, number: str, text: str) -> str:
    """A number where the declared type of its column has it, else missing."""
    if kind == "unsigned":
        return f"CASE WHEN {number} >= 0 THEN {number} END"
    yes, no = (", ".join(map(quoted, words)) for words in TRUTH)
    word = f"trim({text}, {quoted(BLANKS)})"
    return (
        f"CASE WHEN {word} IN ({yes}) THEN 1 WHEN {word} IN ({no}) THEN 0 "
        f"WHEN {number} IN (0, 1) THEN {number} END"
    )


def _field(text: str, as_text: bool, form: TextFormat) -> str:
    """A text as what it means (`text.missing`, `text.number`)."""
    if form.na_values:
        words = ", ".join(quoted(word) for word in ("", *form.na_values))
        blanks = quoted(BLANKS)
        text = f"CASE WHEN trim({text}, {blanks}) NOT IN ({words}) THEN {text} END"
    if as_text:
        return f"nullif({text}, '')"
    # DuckDB takes 1_000 for a number, and does not always read long ones right
    odd, point = f"contains({text}, '_')", text
    if form.decimal == ",":
        odd, point = f"{odd} OR contains({text}, '.')", f"replace({text}, ',', '.')"
    return f"CASE WHEN {odd} THEN NULL ELSE TRY_CAST({point} AS DOUBLE) END"
