"""Lines of events to (person, values), by the rules of `privmean.data.text_record`.

A line that has an id is an event, whatever the text of its values: what is not a number is a
missing value. A line without a readable id, or without the group or the time that a stream asks
for, is no event; such lines are counted.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from privmean import validate
from privmean.data.text_format import TextFormat
from privmean.data.text_record import LONGEST, csv_fields, ended_line, json_fields, number
from privmean.errors import SchemaError
from privmean.streams.coerce_records import person_name


class InputRecord(NamedTuple):
    """One arrival: who, the values, and the texts of further public keys (a group, a time)."""

    person: str | None
    values: list[float | None]
    public: tuple[str | None, ...] = ()


class Reader:
    """Lines to events. A line whose person cannot be read has person None.

    kind: jsonl, csv, or auto: the first sign of the first line tells. CSV has a header. Nothing is
    raised because of an event, the first one included: only a header can lack a column. public:
    further keys whose texts are read as they are.
    """

    def __init__(
        self,
        person: str,
        values: tuple[str, ...],
        kind: str = "auto",
        form: TextFormat | None = None,
        public: tuple[str, ...] = (),
    ) -> None:
        self.person = person
        self.values = values
        self.public = public
        self.kind = validate.choice("format", kind, ["auto", "jsonl", "csv"])
        self._form = form or TextFormat()
        sign = re.escape(self._form.quote.encode() or b'"')
        # a field in quotes, and what follows up to the delimiter
        self._enclosed = re.compile(b"%b[^%b]*+(?:%b%b[^%b]*+)*+%b[^%b]*+" % ((sign,) * 7))
        self._columns: list[int] | None = None
        self._width = 0

    def read(self, lines: list[bytes]) -> list[InputRecord]:
        """The events of some lines without their ends (blank ones and the header are none)."""
        events: list[InputRecord] = []
        for line in lines:
            if not line.strip():
                continue
            if self.kind == "auto":
                start = line.removeprefix(b"\xef\xbb\xbf").lstrip()
                self.kind = "jsonl" if start.startswith(b"{") else "csv"
            if self.kind == "jsonl":
                texts = self._fields(line.removeprefix(b"\xef\xbb\xbf"))
            elif self._columns is None:
                self._columns = self._header(line)
                continue
            else:
                texts = self._cells(line)
            last = 1 + len(self.values)
            numbers = [number(text, self._form) for text in texts[1:last]]
            events.append(InputRecord(person_name(texts[0]), numbers, tuple(texts[last:])))
        return events

    def _fields(self, line: bytes) -> list[str | None]:
        """The texts of the keys; where a line is no JSON, the public ones are looked for anywhere
        in it: a broken value hides none of them."""
        keys = (self.person, *self.values, *self.public)
        found = json_fields(line, keys, self._form)
        hidden = [name for name in (self.person, *self.public) if found[name] is None]
        if hidden and not _is_json(line):
            for name in hidden:
                found[name] = self._anywhere(line, name)
        return [found[key] for key in keys]

    def _anywhere(self, line: bytes, name: str) -> str | None:
        """The first text of a key in a line that is broken elsewhere."""
        key = json.dumps(name, ensure_ascii=False).encode()
        for place in re.finditer(re.escape(key) + rb"\s*:", line):
            again = json_fields(b"{" + line[place.start() :], [name], self._form)
            if again[name] is not None:
                return again[name]
        return None

    def _header(self, line: bytes) -> list[int]:
        cells = csv_fields(line.removeprefix(b"\xef\xbb\xbf"), self._form)
        names = [(cell or "").strip() for cell in cells]
        self._width = len(names)
        for key in (self.person, *self.values, *self.public):
            if key not in names:
                raise SchemaError(
                    f"the first line, read as a CSV header of {len(names)} columns, does "
                    f"not name {key!r}. Give a header, --format jsonl or other columns."
                )
        places = {key: names.index(key) for key in (self.person, *self.values, *self.public)}
        inner = sorted(places[value] for value in self.values)
        for key in (self.person, *self.public):
            if inner[0] < places[key] < inner[-1]:
                raise SchemaError(
                    f"the CSV column {key!r} stands between two columns of values, where "
                    "a delimiter in a value would move it. Put it before or after them, "
                    "or send JSON lines."
                )
        return list(places.values())

    def _cells(self, line: bytes) -> list[str | None]:
        """The texts of the columns that are read, in their order.

        No text of a value moves another column: those before the first value are found from the
        left, those behind the last value from the right.
        """
        assert self._columns is not None
        values = self._columns[1 : 1 + len(self.values)]
        first, last = min(values), max(values)
        pieces = line.split(self._form.delimiter.encode())
        cells = csv_fields(line, self._form)
        if len(cells) == len(pieces) == self._width:
            return [cells[place] for place in self._columns]
        if len(cells) < self._width <= len(pieces):
            # a quote that would swallow delimiters of its neighbors is a plain sign
            cells = [self._alone(piece) for piece in pieces]
        before = self._outer(pieces, first)
        behind = self._outer(pieces[::-1], self._width - 1 - last, -1)
        if len(pieces) < self._width or len(line) >= LONGEST:
            behind = []  # the end is not there

        def text(place: int) -> str | None:
            if place < first:
                return before[place] if place < len(before) else None
            if place > last:
                back = self._width - 1 - place
                return behind[back] if back < len(behind) else None
            return cells[place] if place < len(cells) else None

        return [text(place) for place in self._columns]

    def _outer(self, pieces: list[bytes], count: int, way: int = 1) -> list[str | None]:
        """The first `count` fields of a line that was split at every delimiter. way: -1 where the
        pieces come from the end. A field in quotes may be of several pieces, but leaves one to each
        of the other columns."""
        quote, comma = self._form.quote.encode(), self._form.delimiter.encode()
        found: list[str | None] = []
        at = 0
        while len(found) < count and at < len(pieces):
            field, size = pieces[at], 1
            if quote and field.count(quote) % 2:
                most = len(pieces) - (self._width - 1 - len(found))
                ends = (k for k in range(at + 1, most) if pieces[k].count(quote) % 2)
                if (end := next(ends, None)) is not None:
                    joined = comma.join(pieces[at : end + 1][::way])
                    if self._enclosed.fullmatch(joined):
                        field, size = joined, end + 1 - at
            found.append(self._alone(field))
            at += size
        return found

    def _alone(self, field: bytes) -> str | None:
        return csv_fields(field, self._form)[0]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


class Lines:
    """Bytes as they come to lines without their ends; of a very long line, its beginning."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        """The lines that are finished by these bytes."""
        *whole, rest = data.split(b"\n")
        lines = []
        for part in whole:
            self._hold(part)
            lines.append(ended_line(bytes(self._held)))
            self._held.clear()
        self._hold(rest)
        return lines

    def _hold(self, part: bytes) -> None:
        self._held += part[: LONGEST - len(self._held)]

    def rest(self) -> bytes:
        """What came after the last line feed."""
        return bytes(self._held)
