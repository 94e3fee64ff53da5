"""One line of a text file to one record: CSV and JSON lines, read so that a line can change nothing
but its own record.

These are the rules; `text_scan.py` applies them to many lines at once, and the tests compare the
two. Every function is total: any bytes give a result, in memory bounded by `LONGEST`.

* A line ends at a line feed; a carriage return before it belongs to the end. Nothing else ends a
  line, and no line is continued in the next.
* Bytes that the encoding does not know become U+FFFD and their two hexadecimal digits, inside
  their own field; so two ids that differ in such bytes stay two ids.
* A field that (without blanks) is empty or stands for missing, or that is longer than `WIDEST`
  bytes, is missing. A line of `LONGEST` bytes or more is cut there: what lies before the cut is
  read, the field that is cut is missing.

How a text file is written: public words of the caller, checked before anything is read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypedDict, Unpack

from privmean.errors import ArgumentError

BLANKS = " \t"
TYPES = ("boolean", "unsigned")  # that a caller can declare


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written. All of it is public: nothing is guessed from the lines.

    delimiter, quote: one character each (quote "": quotes mean nothing). decimal: "." or ",".
    encoding: UTF-8, or any encoding of one byte a character that contains ASCII ("latin-1",
    "cp1252", ...). header: whether the first line names the columns; None is yes, but then no
    message shows the names, since the line could be a record. na_values: texts that mean missing,
    beside the empty one. types: of columns, by name or as "COLUMN=TYPE"; a value that its type
    excludes is missing.
    """

    delimiter: str = ","
    quote: str = '"'
    decimal: str = "."
    encoding: str = "utf-8"
    header: bool | None = None
    na_values: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _sign("delimiter", self.delimiter, "give ',' or ';' or a tab")
        if self.quote != "":
            _sign("quote", self.quote, "give '\"', or '' for none")
        if self.delimiter == self.quote:
            raise ArgumentError(
                "quote", self.quote, "must differ from the delimiter", "give two characters"
            )
        if self.decimal not in (".", ","):
            raise ArgumentError("decimal", self.decimal, "must be '.' or ','", "give '.' or ','")
        object.__setattr__(self, "encoding", known_encoding(self.encoding))
        if self.header not in (None, True, False):
            raise ArgumentError(
                "header", self.header, "must be True or False", "give True or False"
            )
        words: Any = self.na_values
        listed = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
        if not listed:
            raise ArgumentError("na_values", words, "is not a list of words", "give ['NA', '-9']")
        object.__setattr__(self, "na_values", tuple(dict.fromkeys(w.strip(BLANKS) for w in words)))
        object.__setattr__(self, "types", _types(self.types))


class Words(TypedDict, total=False):
    """What a caller may say of text files: the fields of `TextFormat`, None for nothing."""

    delimiter: str | None
    quote: str | None
    decimal: str | None
    encoding: str | None
    header: bool | None
    na_values: Sequence[str]
    types: Mapping[str, str] | Sequence[str] | None


def options(**asked: Unpack[Words]) -> dict[str, Any]:
    """What the caller says of text files, as fields of `TextFormat`; checked."""
    given = {
        name: value
        for name, value in asked.items()
        if value is not None and not (isinstance(value, tuple) and not value)
    }
    if given:
        TextFormat(**given)  # type: ignore[arg-type]
    return {
        name: value for name, value in given.items() if value or name not in ("na_values", "types")
    }


def refuse(given: Mapping[str, object], what: str, but: Sequence[str] = ()) -> None:
    """Refuse options of text files that would be ignored."""
    for name, value in given.items():
        if name not in but:
            raise ArgumentError(name, value, f"is not used by {what}", "remove it")


def _types(given: object) -> tuple[tuple[str, str], ...]:
    """Columns with their types, each once."""
    listed = list(given.items()) if isinstance(given, Mapping) else given
    remedy = f"use for example types={{'y': 'boolean'}}; the types are {', '.join(TYPES)}"
    if not isinstance(listed, list | tuple):
        raise ArgumentError("types", given, "does not name columns with their types", remedy)
    found: dict[str, str] = {}
    for item in listed:
        column, kind = item if isinstance(item, tuple) else str(item).rpartition("=")[::2]
        if not column or kind not in TYPES:
            raise ArgumentError("types", item, "is not a column with its type", remedy)
        if column in found:
            raise ArgumentError("types", column, "has two types", "give one type per column")
        found[column] = kind
    return tuple(found.items())


def _sign(name: str, value: object, remedy: str) -> None:
    if not (isinstance(value, str) and len(value) == 1 and value.isascii()) or value in "\r\n\0":
        raise ArgumentError(name, value, "must be one ASCII character", remedy)
    if value.isalnum() or value in "+-._":
        raise ArgumentError(name, value, "must not be part of an id or a number", remedy)


def known_encoding(encoding: str) -> str:
    """The codec's own name, where each line can be decoded without its neighbors."""
    if isinstance(encoding, str) and encoding == "utf-8":
        return encoding
    remedy = "use for example 'latin-1' or 'cp1252', or convert the file to UTF-8"
    try:
        name = codecs.lookup(encoding).name
        # every byte alone and beside others, and what starts an escape in some encodings
        every = bytes(range(256)) + b"\\u0041\\x41+AEE-~{AB~}&AEE-"
        text = every.decode(name, "replace")
        one_by_one = "".join(bytes([byte]).decode(name, "replace") for byte in every)
    except (LookupError, TypeError, ValueError):
        raise ArgumentError("encoding", encoding, "is not known", remedy) from None
    if name in ("utf-8", "utf-8-sig"):
        return "utf-8"
    ascii_alike = text[:128].encode("ascii", "replace") == every[:128]
    if text != one_by_one or len(text) != len(every) or not ascii_alike:
        raise ArgumentError("encoding", encoding, "must use one byte per character", remedy)
    return name


LONGEST = 1 << 26  # bytes of a line that are looked at
WIDEST = 1 << 16  # bytes of a field (in UTF-8) that can be an id or a number
SPACES = " \t\n\r\v\f"  # around a number

_MARK = "privmean.text"  # how undecodable bytes are written


def _marked(problem: UnicodeError) -> tuple[str, int]:
    assert isinstance(problem, UnicodeDecodeError)
    lost = problem.object[problem.start : problem.end]
    return "".join(f"\ufffd{byte:02x}" for byte in lost), problem.end


codecs.register_error(_MARK, _marked)


def lines(stream: IO[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The lines of a binary stream without their ends, and whether a line feed ended each.

    Of a line longer than LONGEST, the first LONGEST bytes.
    """
    while line := stream.readline(LONGEST):
        rest, cut = line, False
        while not rest.endswith(b"\n") and (rest := stream.readline(LONGEST)):
            cut = True
        yield line if cut else ended_line(line), rest.endswith(b"\n")


def ended_line(line: bytes) -> bytes:
    """A line without its line feed and the carriage return before it."""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def decoded(raw: bytes, encoding: str) -> str:
    """Text of any bytes."""
    return raw.decode(encoding, _MARK)


def missing(text: str, form: TextFormat) -> bool:
    """Whether a field says that there is nothing."""
    bare = text.strip(BLANKS)
    return not bare or bare in form.na_values


def number(text: str | None, form: TextFormat) -> float | None:
    """The double that a field says, or None. Infinities are numbers, NaN is none."""
    if text is None or missing(text, form):
        return None
    bare = text.strip(SPACES)
    if form.decimal == ",":
        if "." in bare:
            return None  # a thousands separator, or another format
        bare = bare.replace(",", ".")
    if bare.startswith("+-"):
        bare = bare[1:]  # as DuckDB reads it
    if not bare.isascii() or bare != bare.strip() or "_" in bare:
        return None
    try:
        found = float(bare)
    except ValueError:
        return None
    return None if found != found else found  # noqa: PLR0124 (NaN)


def csv_fields(
    line: bytes, form: TextFormat, places: Sequence[int] | None = None
) -> list[str | None]:
    """The fields of one line of CSV: all, or those at `places` (None where there is none).

    A field that starts with a quote ends at the quote that is not doubled; what follows up to the
    delimiter is part of it. Where no such quote comes, the first quote is dropped and the field is
    read as if it had none. A quote elsewhere is a character like others.
    """
    last = None if places is None else max(places, default=-1)
    cut = len(line) >= LONGEST
    cells: list[Cell | None] = list(_cells(line, form, last if last is None else last + cut))
    if cut and (last is None or len(cells) <= last + 1):
        cells[-1] = None
    asked = range(len(cells)) if places is None else places
    return [_text(cells[k], form) if k < len(cells) else None for k in asked]


Cell = tuple[bytes, bytes]  # what stands between quotes, and what follows


def _cells(line: bytes, form: TextFormat, last: int | None) -> Iterator[Cell]:
    comma, quote = form.delimiter.encode(), form.quote.encode()
    if not quote or quote not in line:
        cells = line.split(comma) if last is None else line.split(comma, last + 1)[: last + 1]
        yield from ((b"", cell) for cell in cells)
        return
    closing = re.compile(b"[^%b]*+(?:%b%b[^%b]*+)*+%b" % ((re.escape(quote),) * 5))
    at, place = 0, 0
    while last is None or place <= last:
        start, inside = at, b""
        if line.startswith(quote, at):
            start += 1
            if found := closing.match(line, start):
                inside = line[start : found.end() - 1].replace(quote * 2, quote)
                start = found.end()
        end = line.find(comma, start)
        yield inside, line[start : end if end >= 0 else len(line)]
        if end < 0:
            return
        at, place = end + 1, place + 1


def _text(cell: Cell | None, form: TextFormat) -> str | None:
    if cell is None or sum(map(len, cell)) > WIDEST:
        return None
    return _kept("".join(decoded(part, form.encoding) for part in cell), form)


_BLANK = re.compile(rb"[ \t\r\n\v\f]*+")
_BETWEEN = re.compile(rb"[ \t\r\n\v\f,]*+")
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_BARE = re.compile(rb"[^,}]*+")
_COLON = re.compile(rb"[ \t\r\n\v\f]*+:[ \t\r\n\v\f]*+")
_NEST = re.compile(rb'[^"{}\[\]]*+(["{}\[\]])')
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_MEANING = {b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r", b"t": "\t"}


def json_fields(
    line: bytes, keys: Sequence[str], form: TextFormat | None = None
) -> dict[str, str | None]:
    """The texts of `keys` in one line that should be a JSON object; None where there is none.

    A string gives its text, a number (or another bare word) itself, null, NaN, objects and arrays
    nothing; the first of equal keys counts. A line that is no JSON is read as far as it can be: a
    value that is none, or that has no end, is missing, and the others are read; a key that was not
    met on the way is looked for in the whole line.
    """
    form = form or TextFormat()
    found: dict[str, str | None] = {}
    if not _scanned(line, set(keys), found, form):
        for key in keys:
            if key not in found:
                found[key] = _searched(line, key, form)
    return {key: found.get(key) for key in keys}


def _scanned(line: bytes, keys: set[str], found: dict[str, str | None], form: TextFormat) -> bool:
    """Fill `found` from the outer object; False where the line was not understood throughout."""
    at = _end(_BLANK, line, 0)
    if line[at : at + 1] != b"{":
        return True  # no object: nothing is looked for
    at, before, clean = at + 1, None, True
    while True:
        at = _end(_BETWEEN, line, at)
        if at >= len(line):
            return False
        if line[at : at + 1] == b"}":
            return clean
        named = _STRING.match(line, at)
        colon = _COLON.match(line, named.end()) if named else None
        if not (named and colon):  # what came before was no whole value
            clean = False
            if before is not None:
                found[before] = None
            at = _past(line, at)
            continue
        key = _unescaped(named[1], form) if len(named[1]) <= 6 * WIDEST else None
        wanted = key if key in keys and key not in found else None
        text, at, whole = _value(line, colon.end(), form, wanted is not None)
        clean &= whole
        before = wanted
        if wanted is not None:
            found[wanted] = text


def _value(line: bytes, at: int, form: TextFormat, wanted: bool) -> tuple[str | None, int, bool]:
    """The text of the value at `at`, the place after it, and whether it was a whole value."""
    first = line[at : at + 1]
    text = None
    if first == b'"':
        string = _STRING.match(line, at)
        if string is None:
            return None, len(line), False
        end = string.end()
        if wanted and len(string[1]) <= 6 * WIDEST:
            text = _kept(_unescaped(string[1], form), form)
    elif first in (b"{", b"["):
        end = _nested(line, at)
    else:
        bare = _BARE.match(line, at)
        assert bare is not None
        end = bare.end()
        word = bare[0].strip()
        if wanted and len(word) <= WIDEST:
            text = _kept(decoded(word, form.encoding), form)
            if text is not None and text.lower().strip("+-") in ("null", "nan"):
                text = None
            elif text == "-0":
                text = "0"  # the whole number that JSON means
    after = _end(_BLANK, line, end)
    if line[after : after + 1] in (b",", b"}"):
        return text, after, True
    return None, _past(line, end), False


def _past(line: bytes, at: int) -> int:
    """The place of the next comma or brace: what lies before it is no JSON."""
    bare = _BARE.match(line, at)
    assert bare is not None
    return bare.end()


def _nested(line: bytes, at: int) -> int:
    depth = 0
    while sign := _NEST.match(line, at):
        at = sign.end()
        if sign[1] == b'"':
            string = _STRING.match(line, at - 1)
            if string is None:
                return len(line)
            at = string.end()
            continue
        depth += 1 if sign[1] in b"{[" else -1
        if depth <= 0:
            return at
    return len(line)


def _searched(line: bytes, key: str, form: TextFormat) -> str | None:
    """The value behind the first `"key":` in a line that is no JSON."""
    try:
        raw = re.escape(key.encode(form.encoding))
    except UnicodeEncodeError:
        return None
    name = re.search(b'"%b"' % raw + _COLON.pattern, line)
    return _value(line, name.end(), form, True)[0] if name else None


def _kept(text: str, form: TextFormat) -> str | None:
    return None if missing(text, form) or len(text.encode()) > WIDEST else text


def _unescaped(raw: bytes, form: TextFormat) -> str:
    """The text of a JSON string. Escapes that are none stay as they are, and so do halves of
    surrogate pairs that are alone."""
    if b"\\" not in raw:
        return decoded(raw, form.encoding)
    parts, at, high = [], 0, ""
    for escape in _ESCAPE.finditer(raw):
        between = raw[at : escape.start()]
        if high and (between or not escape[2]):
            parts.append(f"\\u{high}")
            high = ""
        parts.append(decoded(between, form.encoding))
        at = escape.end()
        if escape[1]:
            parts.append(_MEANING.get(escape[1], escape[1].decode()))
            continue
        digits = escape[2].decode()
        code = int(digits, 16)
        if high and 0xDC00 <= code < 0xE000:
            parts.append(chr(0x10000 + (int(high, 16) - 0xD800) * 1024 + code - 0xDC00))
            high = ""
            continue
        if high:
            parts.append(f"\\u{high}")
            high = ""
        if 0xD800 <= code < 0xDC00:
            high = digits
        else:
            parts.append(f"\\u{digits}" if 0xDC00 <= code < 0xE000 else chr(code))
    if high:
        parts.append(f"\\u{high}")
    return "".join(parts) + decoded(raw[at:], form.encoding)


def _end(rule: re.Pattern[bytes], line: bytes, at: int) -> int:
    found = rule.match(line, at)
    return at if found is None else found.end()
