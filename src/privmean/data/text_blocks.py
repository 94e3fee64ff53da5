"""Many lines of text at once: blocks of whole lines, split into fields by NumPy.

What a field is, `text_record.py` says. Here lines that hold nothing unusual are split many at a
time; a line that is long, or whose quotes are not plainly around its fields, is given to
`text_record.py` itself. Which of the two happens is decided for every line by that line alone, and
both give the same fields; so neither a result nor an error can depend on what stands in other
lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from privmean.data import text_record as text
from privmean.data.arrow_stream import Texts
from privmean.data.text_format import BLANKS, TextFormat
from privmean.data.text_record import csv_fields, decoded, json_fields

BLOCK = 1 << 20  # bytes read at a time: also what bounds the memory of the engine's JSON parser
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


def csv_texts(stream: IO[bytes], form: TextFormat, places: Sequence[int]) -> Iterator[Texts]:
    """The fields at `places` (each once, ascending) of all lines. Texts come in pairs: what lies
    before a field, then the field. A field that is missing is empty."""
    utf8 = replace(form, encoding="utf-8")
    for block, is_long in blocks(stream):
        if is_long:
            odd = [csv_fields(bare(block), form, places)]
        else:
            common = _reencoded(block, form.encoding)
            bounds, quaint = _split(common, utf8, places)
            yield from _batches(bounds, np.frombuffer(common, np.uint8), 2 * len(places))
            odd = [csv_fields(text.ended_line(line), utf8, places) for line in quaint]
        if odd:
            yield from _written(
                [[part for field in row for part in ("", field or "")] for row in odd]
            )


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


def _split(block: bytes, form: TextFormat, places: Sequence[int]) -> tuple[Places, list[bytes]]:
    """Bounds of the texts of `csv_texts`, and the lines left out of them."""
    data = np.frombuffer(block, np.uint8)
    odd: list[bytes] = []
    plain = None
    quoted = form.quote.encode() in block if form.quote else False
    found = [ord("\n"), ord(form.delimiter), *([ord(form.quote)] if quoted else [])]
    signs = np.concatenate((np.full(1, -1, np.int32), _separators(data, *found)))
    kinds = data[signs[1:-1]]
    is_feed = np.concatenate(([True], kinds == ord("\n"), [True]))  # so is what comes before
    if quoted:
        plain, outside = _quoted(data, signs, is_feed, kinds == ord(form.quote))
        odd = [block[i:j] for i, j in _lines(signs[is_feed], ~plain)]
        signs, is_feed = signs[outside], is_feed[outside]
    feeds = np.flatnonzero(is_feed)
    before, last = feeds[:-1], feeds[1:]  # signs before and at the end of every line
    bounds = np.zeros(2 * len(places) * len(last) + 1, dtype=np.int32)
    table = bounds[1:].reshape(len(last), 2 * len(places))
    for i, place in enumerate(places):
        first = np.minimum(before + place, last)
        after = np.minimum(first + 1, last)
        end = signs[after]
        start = np.minimum(signs[first] + 1, end)  # an empty one at the end where there is none
        if b"\r" in block:
            ended = (after == last) & (start < end)
            end -= ended & (data[np.maximum(end - 1, 0)] == ord("\r"))
        if plain is not None:
            marked = plain & (start < end) & (_first(data, start) == ord(form.quote))
            start, end = start + marked, end - marked
        table[:, 2 * i], table[:, 2 * i + 1] = start, _present(block, data, start, end)
    if plain is not None and odd:
        bounds = np.concatenate((np.zeros(1, np.int32), table[plain].ravel()))
    return bounds, odd


def _first(data: Bytes, start: Places) -> Bytes:
    """The byte at each place; at the end, some other."""
    return data[np.minimum(start, len(data) - 1)]


def _present(block: bytes, data: Bytes, start: Places, end: Places) -> Places:
    """The ends of fields, so that those of blanks only or too wide are empty."""
    for blank in BLANKS.encode():
        if blank in block:
            hits = (_first(data, start) == blank) & (start < end)
            for i in np.flatnonzero(hits):
                if not block[start[i] : end[i]].strip(BLANKS.encode()):
                    end[i] = start[i]
    return np.where(end - start > text.WIDEST, start, end)


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
