"""How DuckDB scans text files: fields of blocks of lines, turned into ids and numbers by SQL.

Many lines of text at once: blocks of whole lines, split into fields by NumPy.

What a field is, `text_record.py` says. Here lines that hold nothing unusual are split many at a
time; a line of CSV that is long, or whose quotes are not plainly around its fields, is given to
`text_record.py` itself, and a line of JSON that is not written like one of three in its block to
DuckDB's parser. Either way gives the same fields; so neither a result nor an error can depend on
what stands in other lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from itertools import count
from operator import or_
from typing import IO, TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from privmean.data import text_record as text
from privmean.data.duckdb_engine import Array, Engine, Places, Texts, TextStream, quoted
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

BLOCK = 1 << 19  # bytes read at a time: also what bounds the memory of the engine's JSON parser
# of an array made and freed first: glibc keeps memory for arrays up to the largest freed so far,
# and maps larger ones anew each, which takes longer than to fill them
KEPT_MAPPED = 1 << 23
SHORT = 1 << 16  # bytes of a line that goes the common way
FEED = ord("\n")
MARGIN = 256  # bytes behind a block, so that some can be looked at from any place in it
LEAD = MARGIN - 64  # bytes before a value of JSON that are compared
# what stands before a value (the quote of the one before, a comma or brace, a key, a quote) and the
# value, without the quote behind it; and what follows the last one
_MEMBER = re.compile(rb'(("?)([{,]) ?"([^"\\]*)": ?("?))(?:(?<=")[^"\\]*|(?<!")[^"\\,}]*)')
_TAIL = re.compile(rb'("?)(?:\}|, ?"[^"\\]*":)')
# bytes that start a bare value, and two that start one that stands for itself: no null, no nan
OTHERS = np.array([byte > ord(" ") and chr(byte) not in '"[{' for byte in range(256)])
WORDS = np.array([chr(i).isalnum() and i < 128 and chr(i) not in "nN" for i in range(256)])
STARTS = np.where(np.arange(256) == ord("-"), WORDS[:, None], WORDS).ravel()
MINUS_ZERO = int.from_bytes(b"-0", "little")

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Marks = Callable[[bytes], Bytes]


def blocks(stream: IO[bytes], width: int) -> Iterator[tuple[bytes, bool]]:
    """A stream in blocks of whole lines, larger ones where many columns are asked for; True marks a
    block that is the begin (see `text.LONGEST`) of one long line. Only the last line may lack its
    line feed."""
    rest, size = b"", BLOCK * (1 + width // 64)
    while data := stream.read(size):
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
    """The fields at `places` of all lines. One that is missing is empty, and in the columns
    `numbers` what DuckDB takes for a number and `text_record.number` does not: 1_000."""
    utf8 = replace(form, encoding="utf-8")
    for block, is_long in blocks(stream, len(places)):
        if is_long:
            odd = [csv_fields(bare(block), form, places)]
        else:
            common = _reencoded(block, form.encoding)
            texts, quaint = _split(common, utf8, places, numbers)
            yield texts
            odd = [csv_fields(text.ended_line(line), utf8, places) for line in quaint]
        if odd:
            yield _written(odd, numbers)


def json_texts(
    stream: IO[bytes], form: TextFormat, keys: Sequence[str], numbers: Set[int] = frozenset()
) -> Iterator[Texts]:
    """The same of `keys`, and as the last column the lines that have to be parsed."""
    for block, is_long in blocks(stream, 1):
        common, long = (b"", [block]) if is_long else _apart(block)
        if common:
            yield from _members(_reencoded(common, form.encoding), keys, numbers)
        if long:
            rows = [[*json_fields(bare(line), keys, form).values(), None] for line in long]
            yield _written(rows, numbers)


def _reencoded(block: bytes, encoding: str) -> bytes:
    """A block in valid UTF-8: what `text.decoded` makes of every line. No sequence of bytes that
    is one character reaches beyond a line, so the block may be decoded whole."""
    if block.isascii():
        return block
    return decoded(block, encoding).encode()


def _separators(data: Bytes, signs: Iterable[int]) -> Places:
    """The places of the signs, that before the first line, and the end of the last line where no
    line feed ends it."""
    first, *others = signs
    hits = data == first
    for sign in others:
        hits |= data == sign
    end = np.full(int(data[-1] != FEED), len(data))
    return np.concatenate(([-1], np.flatnonzero(hits), end))


def _apart(block: bytes) -> tuple[bytes, list[bytes]]:
    """The lines of a block that are short, and the long ones."""
    at = 0
    while len(block) - at > SHORT and (end := block.rfind(b"\n", at, at + SHORT)) >= 0:
        at = end + 1
    if len(block) - at <= SHORT:  # no line is long
        return block, []
    signs = _separators(np.frombuffer(block, np.uint8), [FEED])
    common, long, at = [], [], 0
    for start, end in _lines(signs, np.diff(signs) > SHORT):
        common.append(block[at:start])
        long.append(block[start:end])
        at = end
    return b"".join([*common, block[at:]]), long


def _split(
    block: bytes, form: TextFormat, places: Sequence[int], numbers: Set[int]
) -> tuple[Texts, list[bytes]]:
    """The texts of `csv_texts`, and the lines left out of them."""
    data = np.frombuffer(block + bytes(MARGIN), np.uint8)
    odd: list[bytes] = []
    plain = None
    quoted = form.quote.encode() in block if form.quote else False
    parts = [FEED, ord(form.delimiter), *map(ord, form.quote if quoted else "")]
    signs = _separators(data[: len(block)], parts)
    if quoted:
        kinds = data[signs[1:-1]]
        is_feed = np.concatenate(([True], kinds == FEED, [True]))  # so is what comes before
        plain, outside = _quoted(data, signs, is_feed, kinds == ord(form.quote))
        odd = [block[i:j] for i, j in _lines(signs[is_feed], ~plain)]
        signs = signs[outside]
    sign, last = _signs_of_lines(data, signs)
    fields = []
    for j, place in enumerate(places):
        end = sign(place + 1)
        start = np.minimum(sign(place) + 1, end)  # an empty one at the end where there is none
        if b"\r" in block:
            ended = (end == last) & (start < end)
            end = end - (ended & (data[np.maximum(end - 1, 0)] == ord("\r")))
        if plain is not None:
            marked = plain & (start < end) & (data[start] == ord(form.quote))
            start, end = start + marked, end - marked
        end = _present(block, data, start, end, number=j in numbers)
        fields.append((start, end) if plain is None else (start[plain], end[plain]))
    return Texts(fields, data), odd


def _signs_of_lines(data: Bytes, signs: Places) -> tuple[Callable[[int], Places], Places]:
    """The place of each line's k-th sign (0: of the one before the line; beyond the last: of the
    last), and of the last. Where all lines have as many signs, they lie at equal distances."""
    kinds = data[signs[1:-1]]
    feeds = np.concatenate(([0], np.flatnonzero(kinds == FEED) + 1, [len(signs) - 1]))
    before, last = feeds[:-1], feeds[1:]  # signs before and at the end of every line
    each, rest = divmod(len(signs) - 1, len(last))
    if rest == 0 and np.array_equal(last, np.arange(each, len(signs), each)):
        return lambda k: signs[min(k, each) :: each][: len(last)], signs[each::each]
    return lambda k: signs[np.minimum(before + k, last)], signs[last]


def _present(block: bytes, data: Bytes, start: Places, end: Places, *, number: bool) -> Places:
    """The ends of fields, so that those of blanks only or too wide are empty, and those with a low
    line that should be a number."""
    gone = end - start > text.WIDEST
    if any(blank in block for blank in BLANKS.encode()):
        blank = (data[start] <= ord(" ")) & (data[np.maximum(end - 1, 0)] <= ord(" "))
        for i in np.flatnonzero(blank & (start < end)):
            gone[i] |= not block[start[i] : end[i]].strip(BLANKS.encode())
    if number and b"_" in block:
        low = np.flatnonzero(data == ord("_"))
        field = np.searchsorted(start, low, "right") - 1
        gone[field[(field >= 0) & (low < end[field])]] = True
    return np.where(gone, start, end) if gone.any() else end


def _members(block: bytes, keys: Sequence[str], numbers: Set[int]) -> Iterator[Texts]:
    """The texts of `json_texts` in a block without long lines. A line that is written as one of
    three samples gives the texts that `json_fields` reads in it; any other goes to the parser."""
    wanted = {key.encode(errors="surrogatepass"): j for j, key in enumerate(keys)}
    data = np.frombuffer(block + bytes(MARGIN), np.uint8)
    feeds = _separators(data[: len(block)], [FEED])
    first, last = feeds[:-1] + 1, feeds[1:]
    marks = _marks(block, data)
    for share in (0.0, 0.5, 1.0):
        i = int(share * len(first[1:]))
        shape = _shape(block[first[i] : last[i]], wanted) if len(first) else None
        if shape is None:
            continue
        plain, found = shape.fields(data, marks, first, last, numbers)
        kept = slice(None) if plain.all() else np.flatnonzero(plain)
        yield Texts([*((start[kept], end[kept]) for start, end in found), None], data)
        first, last = first[~plain], last[~plain]
    if len(first):
        yield Texts([*[None] * len(keys), (first, last)], data)


@dataclass(frozen=True)
class Shape:
    """How a line of JSON is written, up to what follows the last value asked for. members: the
    bytes before each value, from the end of the one before (those before a string end with its
    quote), and which of the values asked for it is, if any. tail: the bytes after the last one."""

    members: tuple[tuple[bytes, int | None], ...]
    tail: bytes

    def fields(
        self, data: Bytes, marks: Marks, first: Places, last: Places, numbers: Set[int]
    ) -> tuple[Flags, list[tuple[Places, Places]]]:
        """Which of the lines are written so, and where the values asked for stand in these.

        All bytes outside of the values are compared, and a value ends at the first sign that it
        cannot hold: so it is the one that `json_fields` reads.
        """
        at, plain, found = first, last - first <= WIDEST, {}
        for lead, place in self.members:
            signs = (b'"\\' if lead.endswith(b'"') else b",}") + b"_" * (place in numbers)
            pieces, start = _pieces(data, at, len(lead) + 2), at + len(lead)
            at = np.minimum(_next(marks(signs), start), last)
            plain &= _stands(pieces, lead)
            two = np.ndarray(len(at), "<u2", pieces, len(lead), pieces.strides).astype(np.int64)
            if not lead.endswith(b'"'):
                plain &= OTHERS[two & 255] if place is None else _begins(data, two, start, at)
            elif place is not None:
                plain &= two & 255 > ord(" ")
            if place is not None:
                found[place] = start, at
        plain &= _stands(_pieces(data, at, len(self.tail)), self.tail)
        return plain, [found[j] for j in range(len(found))]


def _shape(line: bytes, wanted: Mapping[bytes, int]) -> Shape | None:
    """The shape of a line that has all values asked for."""
    members: list[tuple[bytes, int | None]] = []
    left, at, quote = dict(wanted), 0, b""
    while left:
        member = _MEMBER.match(line, at)
        if member is None or member[2] != quote or (member[3] == b"{") != (not members):
            return None
        members.append((member[1], left.pop(member[4], None)))
        quote, at = member[5], member.end()
    tail = _TAIL.match(line, at)
    if tail is None or tail[1] != quote or max(len(tail[0]), *(len(m[0]) for m in members)) > LEAD:
        return None
    return Shape(tuple(members), tail[0])


def _pieces(data: Bytes, at: Places, size: int) -> Array:
    """The bytes from each place on, in whole words."""
    width = -(-size // 8) * 8
    found: Array = np.ndarray(len(data) - width + 1, f"V{width}", data, strides=(1,))[at]
    return found


def _stands(pieces: Array, literal: bytes) -> Flags:
    """Whether each piece starts with these bytes."""
    words = pieces.view(np.dtype("<u8")).reshape(len(pieces), -1)
    same = np.ones(len(pieces), bool)
    for k in range(0, len(literal), 8):
        part = literal[k : k + 8]
        kept = np.uint64(256 ** len(part) - 1)
        same &= (words[:, k // 8] & kept) == np.uint64(int.from_bytes(part, "little"))
    return same


def _marks(block: bytes, data: Bytes) -> Marks:
    """Where some signs stand in `data`, a bit a byte. Each is looked for once, if at all."""
    each = cache(lambda sign: np.packbits(data == sign, bitorder="little"))
    return lambda signs: reduce(or_, [each(sign) for sign in signs if sign in block])


def _next(marks: Bytes, start: Places) -> Places:
    """The place of the first mark from each place on; the end where there is none."""
    windows = np.ndarray(len(marks) - 7, "<u8", marks, strides=(1,))
    ahead = windows[start >> 3] >> (start & 7).view(np.uint64)
    found: Places = start + np.frexp((ahead & -ahead).astype(float))[1] - 1  # the lowest bit
    far = np.flatnonzero(ahead == 0)
    if len(far):
        places = np.flatnonzero(np.unpackbits(marks, bitorder="little"))
        found[far] = np.append(places, 8 * len(marks))[np.searchsorted(places, start[far])]
    return found


def _begins(data: Bytes, two: Places, start: Places, end: Places) -> Flags:
    """Where a bare word stands for itself (its first bytes are `two`): not null, nan or -0, and no
    blanks behind it."""
    found: Flags = STARTS[two] & ((two != MINUS_ZERO) | (end - start > 2))
    return found & (data[np.maximum(end - 1, 0)] > ord(" "))


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


def _written(rows: Sequence[Sequence[str | None]], numbers: Set[int]) -> Texts:
    """Rows of texts, written one after the other."""
    pieces = [
        b"" if piece is None or (j in numbers and "_" in piece) else piece.encode()
        for row in rows
        for j, piece in enumerate(row)
    ]
    bounds = np.cumsum([0, *map(len, pieces)]).astype(np.int64)
    starts, ends = (part.reshape(len(rows), -1).T for part in (bounds[:-1], bounds[1:]))
    fields = list(zip(starts, ends, strict=True))
    return Texts(fields, np.frombuffer(b"".join(pieces), np.uint8))


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
        numbers = {j for j, item in enumerate(wanted) if item not in as_text}
        made = make(self.source, wanted, numbers, engine)
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
    """What a format needs: texts a row, how a stream is split, and the query that makes the texts
    asked for (t0, t1, ...; null: missing) of a registered stream."""

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
    np.empty(KEPT_MAPPED, np.uint8)
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


def _csv(source: TextFiles, wanted: Sequence[str], numbers: Set[int], _: Engine) -> Scan:
    places = [source.columns.place(item) for item in wanted]

    def split(stream: IO[bytes], form: TextFormat) -> Iterator[Texts]:
        return csv_texts(stream, form, places, numbers)

    return Scan(len(places), split, "FROM {}".format)


def _json(source: TextFiles, keys: Sequence[str], numbers: Set[int], engine: Engine) -> Scan:
    """Of lines that are to be parsed, DuckDB's own parser where one is a JSON object (e: what
    stands behind each key), and `json_fields` where it is none, or where the two could write a text
    differently."""
    form = replace(source.files[0].form, encoding="utf-8")
    function = f"privmean_json_{next(_numbers)}"

    def tolerant(line: str) -> list[str | None]:
        return list(json_fields(bare(line.encode()), keys, form).values())

    engine.connection.create_function(
        function, tolerant, ["VARCHAR"], "VARCHAR[]", exception_handling="return_null",
        side_effects=True,  # said so that a condition on the texts does not make them twice
    )  # fmt: skip
    pointers = ", ".join(quoted(_pointer(key)) for key in keys)
    places, line = range(len(keys)), f"t{len(keys)}"
    written = [k for k in places if k not in numbers or form.na_values]
    hard = ["e IS NULL", *(_hard(f"e[{k + 1}]") for k in written)]
    parsed_texts = (
        (_number_text if k in numbers else _present_text)(f"t[{k + 1}]") for k in places
    )
    texts = [f"coalesce(t{k}, {item}) AS t{k}" for k, item in enumerate(parsed_texts)]

    def query(label: str) -> str:
        parsed = (  # asked first whether it is JSON: TRY would take all lines beside it one by one
            f"SELECT *, CASE WHEN strlen({line}) <= {WIDEST} AND starts_with({line}, '{{') AND "
            f"json_valid({line}) THEN TRY(json_extract_string({line}, [{pointers}])) END AS e "
            f"FROM {label}"
        )
        tried = (
            f"CASE WHEN {line} IS NULL THEN NULL WHEN {' OR '.join(hard)} THEN {function}({line}) "
            "ELSE e END AS t"
        )
        return f"SELECT {', '.join(texts)} FROM (SELECT *, {tried} FROM ({parsed}))"

    def split(stream: IO[bytes], own: TextFormat) -> Iterator[Texts]:
        return json_texts(stream, own, keys, numbers)

    return Scan(len(keys) + 1, split, query)


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
