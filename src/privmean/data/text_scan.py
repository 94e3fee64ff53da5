"""How DuckDB scans text files: fields of blocks of lines, turned into ids and numbers by SQL.

Many lines of text at once: blocks of whole lines, split into fields by NumPy.

What a field is, `text_record.py` says. Here lines that hold nothing unusual are split many at a
time; a line that is long, or whose quotes are not plainly around its fields, is given to
`text_record.py` itself. Which of the two happens is decided for every line by that line alone, and
both give the same fields; so neither a result nor an error can depend on what stands in other
lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import IO, TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from privmean.data import text_record as text
from privmean.data.duckdb_engine import Engine, Texts, TextStream, quoted
from privmean.data.key_text import TRUTH
from privmean.data.schema import Columns
from privmean.data.text_files import TextFiles, kind
from privmean.data.text_record import (
    BLANKS,
    WIDEST,
    TextFormat,
    csv_fields,
    decoded,
    json_fields,
    lines,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

BLOCK = 1 << 18  # bytes read at a time: also what bounds the memory of the engine's JSON parser
SHORT = 1 << 16  # bytes of a line that goes the common way
ROWS = 1 << 18  # texts in a batch

Places = np.ndarray[Any, np.dtype[Any]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def blocks(stream: IO[bytes]) -> Iterator[tuple[bytes, bool]]:
    """A stream in blocks of whole lines; True marks a block that is the begin (see `text.LONGEST`)
    of one long line. Only the last line may lack its line feed."""
    rest = b""
    while data := stream.read(BLOCK):
        if len(rest) > SHORT:
            rest, data = _long(stream, rest, data)
            yield rest, True
            rest = b""
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut], False
            rest = data[cut:]
        else:
            rest += data
    if rest:
        yield rest, len(rest) > SHORT


def _long(stream: IO[bytes], start: bytes, data: bytes) -> tuple[bytes, bytes]:
    """One long line up to the limit, and what was read behind it."""
    pieces, length = [start], len(start)
    while data:
        end = data.find(b"\n") + 1 or len(data)
        if length <= text.LONGEST:  # one byte more tells that there is more
            pieces.append(data[: min(end, text.LONGEST + 1 - length)])
        length += end
        if data[end - 1 : end] == b"\n":
            return b"".join(pieces), data[end:]
        data = stream.read(BLOCK)
    return b"".join(pieces), b""


def bare(line: bytes) -> bytes:
    """The line without its end, or, of a line that is too long, its begin: as `text.lines` does."""
    return line[: text.LONGEST] if len(line) > text.LONGEST else text.ended_line(line)


def csv_texts(
    stream: IO[bytes], form: TextFormat, places: Sequence[int], numbers: Set[int] = frozenset()
) -> Iterator[Texts]:
    """The fields at `places` (each once, ascending) of all lines. Texts come in pairs: what lies
    before a field, then the field. A field that is missing is empty, and of `numbers` what DuckDB
    takes for a number and `text_record.number` does not: 1_000."""
    utf8 = replace(form, encoding="utf-8")
    for block, is_long in blocks(stream):
        if is_long:
            odd = [csv_fields(bare(block), form, places)]
        else:
            common = _reencoded(block, form.encoding)
            bounds, quaint = _split(common, utf8, places, numbers)
            yield from _batches(bounds, np.frombuffer(common, np.uint8), 2 * len(places))
            odd = [csv_fields(text.ended_line(line), utf8, places) for line in quaint]
        if odd:
            yield from _written([_paired(row, places, numbers) for row in odd])


def _paired(row: Sequence[str | None], places: Sequence[int], numbers: Set[int]) -> list[str]:
    """The texts of one line that was read alone."""
    fields = zip(row, places, strict=True)
    kept = ["" if not field or (place in numbers and "_" in field) else field
            for field, place in fields]  # fmt: skip
    return [part for field in kept for part in ("", field)]


def json_texts(stream: IO[bytes], form: TextFormat, keys: Sequence[str]) -> Iterator[Texts]:
    """The lines themselves, one text a row; of a long line, an object with `keys` only."""
    for block, is_long in blocks(stream):
        long = [block]
        if not is_long:
            bounds, common, long = _apart(block)
            written = _reencoded(common, form.encoding)
            data = np.frombuffer(written, np.uint8)
            if written is not block:
                bounds = _line_bounds(data)
            yield from _batches(bounds, data, 1)
        if long:
            found = (json_fields(bare(line), keys, form) for line in long)
            yield from _written([[json.dumps(row, ensure_ascii=False)] for row in found])


def _line_bounds(data: Bytes) -> Places:
    """Where lines begin, and the end."""
    if not len(data):
        return np.zeros(1, np.int32)
    feeds = _separators(data, ord("\n"))
    bounds = np.zeros(len(feeds) + 1, np.int32)
    np.minimum(feeds + 1, len(data), out=bounds[1:])
    return bounds


def _reencoded(block: bytes, encoding: str) -> bytes:
    """A block in valid UTF-8: what `text.decoded` makes of every line. No sequence of bytes that
    is one character reaches beyond a line, so the block may be decoded whole."""
    if block.isascii():
        return block
    return decoded(block, encoding).encode()


def _separators(data: Bytes, *signs: int) -> Places:
    """The places of the signs, and the end of the last line where no line feed ends it."""
    hits = data == signs[0]
    for sign in signs[1:]:
        hits |= data == sign
    found = np.flatnonzero(hits).astype(np.int32)
    return found if data[-1] == ord("\n") else np.append(found, np.int32(len(data)))


def _apart(block: bytes) -> tuple[Places, bytes, list[bytes]]:
    """The bounds of all lines of a block, the lines that are short, and the long ones."""
    bounds = _line_bounds(np.frombuffer(block, np.uint8))
    common, long, at = [], [], 0
    for i in np.flatnonzero(np.diff(bounds) > SHORT):
        start, end = int(bounds[i]), int(bounds[i + 1])
        common.append(block[at:start])
        long.append(block[start:end])
        at = end
    return bounds, b"".join([*common, block[at:]]) if long else block, long


def _split(
    block: bytes, form: TextFormat, places: Sequence[int], numbers: Set[int]
) -> tuple[Places, list[bytes]]:
    """Bounds of the texts of `csv_texts`, and the lines left out of them."""
    data = np.frombuffer(block, np.uint8)
    odd: list[bytes] = []
    plain = None
    quoted = form.quote.encode() in block if form.quote else False
    found = [ord("\n"), ord(form.delimiter), *([ord(form.quote)] if quoted else [])]
    signs = np.concatenate((np.full(1, -1, np.int32), _separators(data, *found)))
    if quoted:
        kinds = data[signs[1:-1]]
        is_feed = np.concatenate(([True], kinds == ord("\n"), [True]))  # so is what comes before
        plain, outside = _quoted(data, signs, is_feed, kinds == ord(form.quote))
        odd = [block[i:j] for i, j in _lines(signs[is_feed], ~plain)]
        signs = signs[outside]
    sign, ends = _signs_of_lines(data, signs)
    bounds = np.zeros(2 * len(places) * len(ends) + 1, dtype=np.int32)
    table = bounds[1:].reshape(len(ends), 2 * len(places))
    for i, place in enumerate(places):
        end = sign(place + 1)
        start = np.minimum(sign(place) + 1, end)  # an empty one at the end where there is none
        if b"\r" in block:
            ended = (end == ends) & (start < end)
            end = end - (ended & (data[np.maximum(end - 1, 0)] == ord("\r")))
        if plain is not None:
            marked = plain & (start < end) & (_first(data, start) == ord(form.quote))
            start, end = start + marked, end - marked
        table[:, 2 * i] = start
        table[:, 2 * i + 1] = _present(block, data, start, end, number=place in numbers)
    if plain is not None and odd:
        bounds = np.concatenate((np.zeros(1, np.int32), table[plain].ravel()))
    return bounds, odd


def _signs_of_lines(data: Bytes, signs: Places) -> tuple[Callable[[int], Places], Places]:
    """The place of each line's k-th sign (0: of the one before the line; beyond the last: of the
    last), and of the last. Where all lines have as many signs, they lie at equal distances."""
    count = np.count_nonzero(data == ord("\n")) + int(data[-1] != ord("\n"))
    each, rest = divmod(len(signs) - 1, count)
    if rest == 0 and np.all(data[signs[each:-1:each]] == ord("\n")):
        return lambda k: signs[min(k, each) :: each][:count], signs[each::each]
    is_feed = np.concatenate(([True], data[signs[1:-1]] == ord("\n"), [True]))
    feeds = np.flatnonzero(is_feed)
    before, last = feeds[:-1], feeds[1:]  # signs before and at the end of every line
    return lambda k: signs[np.minimum(before + k, last)], signs[last]


def _first(data: Bytes, start: Places) -> Bytes:
    """The byte at each place; at the end, some other."""
    return data[np.minimum(start, len(data) - 1)]


def _present(block: bytes, data: Bytes, start: Places, end: Places, *, number: bool) -> Places:
    """The ends of fields, so that those of blanks only or too wide are empty, and those with a low
    line that should be a number."""
    gone = end - start > text.WIDEST
    if any(blank in block for blank in BLANKS.encode()):
        hits = _blank(_first(data, start)) & _blank(data[np.maximum(end - 1, 0)]) & (start < end)
        for i in np.flatnonzero(hits):
            gone[i] |= not block[start[i] : end[i]].strip(BLANKS.encode())
    if number and b"_" in block:
        low = np.flatnonzero(data == ord("_"))
        field = np.searchsorted(start, low, "right") - 1
        gone[field[(field >= 0) & (low < end[field])]] = True
    return np.where(gone, start, end) if gone.any() else end


def _blank(signs: Bytes) -> Flags:
    found: Flags = (signs == ord(BLANKS[0])) | (signs == ord(BLANKS[1]))
    return found


def _lines(feeds: Places, which: Flags) -> Iterator[tuple[int, int]]:
    for i in np.flatnonzero(which):
        yield int(feeds[i]) + 1, int(feeds[i + 1]) + 1


def _quoted(data: Bytes, marks: Places, is_feed: Flags, kinds: Flags) -> tuple[Flags, Flags]:
    """Which lines have quotes around whole fields only, and which marks separate fields there.

    marks: delimiters, line feeds (`is_feed`) and quotes (`kinds`, without both ends), in order."""
    is_quote = np.concatenate(([False], kinds, [False]))
    feeds = np.flatnonzero(is_feed)
    count = np.cumsum(is_quote, dtype=np.int32)
    start = np.repeat(count[feeds[:-1]], np.diff(feeds))
    inside = np.append(False, (count[1:] - start) % 2 == 1)  # behind the mark, in its own line
    gap = np.diff(marks)
    beside = (gap == 1) & ~is_quote[:-1] & is_quote[1:]  # a quote at the begin of a field
    ends = (gap == 1) & is_quote[:-1] & ~is_quote[1:]  # at its end, or before a carriage return
    maybe = np.flatnonzero((gap == 2) & is_quote[:-1] & is_feed[1:])
    ends[maybe] = data[marks[maybe] + 1] == ord("\r")
    fits = np.where(inside[1:-1], beside[:-1], ends[1:]) | ~is_quote[1:-1]
    wrong = np.append(~fits, False)
    wrong |= is_feed[1:] & inside[1:]  # a quote that is not closed
    plain = np.add.reduceat(wrong, feeds[:-1], dtype=np.int32) == 0
    return plain, is_feed | ~(is_quote | inside)


def _batches(bounds: Places, data: Bytes, width: int) -> Iterator[Texts]:
    step = max(1, ROWS // width) * width
    for start in range(0, len(bounds) - 1, step):
        yield Texts(width, np.ascontiguousarray(bounds[start : start + step + 1]), data)


def _written(rows: Sequence[Sequence[str]]) -> Iterator[Texts]:
    """Rows of texts, written one after the other."""
    pieces = [piece.encode() for row in rows for piece in row]
    bounds = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in pieces], out=bounds[1:])
    data = np.frombuffer(b"".join(pieces) or b"\0", np.uint8)
    yield from _batches(bounds.astype(np.int32), data, len(rows[0]))


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
    (t0, t1, ...; null: missing; of a number, nothing that only DuckDB takes for one) of a
    registered stream."""

    width: int
    split: Split
    query: Callable[[str], str]


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


def _csv(source: TextFiles, wanted: Sequence[str], as_text: Set[str], _: Engine) -> Scan:
    place = [source.columns.place(item) for item in wanted]
    places = sorted(set(place))
    texts = {at for at, item in zip(place, wanted, strict=True) if item in as_text}
    fields = [f"f[{2 * places.index(item) + 2}] AS t{j}" for j, item in enumerate(place)]

    def split(stream: IO[bytes], form: TextFormat) -> Iterator[Texts]:
        return csv_texts(stream, form, places, set(places) - texts)

    return Scan(2 * len(places), split, lambda label: f"SELECT {', '.join(fields)} FROM {label}")


def _json(source: TextFiles, wanted: Sequence[str], as_text: Set[str], engine: Engine) -> Scan:
    """DuckDB's own parser where a line is a JSON object (e: what stands behind each key), and
    `json_fields` where it is none, or where the two could write a text differently."""
    form = replace(source.files[0].form, encoding="utf-8")
    keys = list(wanted)
    function = f"privmean_json_{next(_numbers)}"

    def tolerant(line: str) -> list[str | None]:
        return list(json_fields(bare(line.encode()), keys, form).values())

    engine.connection.create_function(
        function, tolerant, ["VARCHAR"], "VARCHAR[]", exception_handling="return_null",
        side_effects=True,  # said so that a condition on the texts does not make them twice
    )  # fmt: skip
    pointers = ", ".join(quoted(_pointer(key)) for key in keys)
    written = [key in as_text or bool(form.na_values) for key in keys]
    hard = ["e IS NULL", *(_hard(f"e[{k + 1}]") for k, text in enumerate(written) if text)]
    texts = [
        f"{(_present_text if key in as_text else _number_text)(f't[{k + 1}]')} AS t{k}"
        for k, key in enumerate(keys)
    ]

    def query(label: str) -> str:
        parsed = (  # asked first whether it is JSON: TRY would take all lines beside it one by one
            f"SELECT f, CASE WHEN strlen(f) <= {WIDEST} AND starts_with(f, '{{') AND json_valid(f) "
            f"THEN TRY(json_extract_string(f, [{pointers}])) END AS e FROM {label}"
        )
        tried = f"CASE WHEN {' OR '.join(hard)} THEN {function}(f) ELSE e END AS t"
        return f"SELECT {', '.join(texts)} FROM (SELECT {tried} FROM ({parsed}))"

    def split(stream: IO[bytes], own: TextFormat) -> Iterator[Texts]:
        return json_texts(stream, own, keys)

    return Scan(1, split, query)


def _present_text(text: str) -> str:
    """Null for blanks; only what starts with a sign below "!" is looked at closely."""
    return f"CASE WHEN {text} >= '!' OR trim({text}, {quoted(BLANKS)}) <> '' THEN {text} END"


def _number_text(text: str) -> str:
    """Null for what DuckDB takes for a number and `text_record.number` does not: 1_000."""
    return f"CASE WHEN NOT contains({text}, '_') THEN {text} END"


def _hard(text: str) -> str:
    """Where what the parser writes may not be what stands in the line: numbers that are not plainly
    whole, words for such as are none, objects and arrays. Strings are what they say."""
    whole = ", ".join(f"TRY_CAST({text} AS {kind})::VARCHAR" for kind in ("BIGINT", "HUGEINT"))
    number = (
        f"CASE WHEN coalesce({whole}, '') = {text} THEN false "
        f"ELSE TRY_CAST({text} AS DOUBLE) IS NOT NULL END"
    )
    none = f"strlen({text}) = 3 AND lower({text}) = 'nan'"
    other = f"starts_with({text}, '{{') OR starts_with({text}, '[') OR ({none})"
    return f"coalesce(CASE WHEN {text} < ':' THEN {number} ELSE {other} END, false)"


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
        return text
    if form.decimal == ",":
        point = f"TRY_CAST(replace({text}, ',', '.') AS DOUBLE)"
        return f"CASE WHEN NOT contains({text}, '.') THEN {point} END"
    return f"TRY_CAST({text} AS DOUBLE)"
