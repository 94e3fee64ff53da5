"""Lines of events to (person, values), by the rules of `privmean.people.text`.

A line that has an id is an event, whatever the text of its values: what is not a number is a
missing value. A line without a readable id, or without the group or the time that a stream asks
for, is no event; such lines are counted.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import NamedTuple

from privmean import validate
from privmean.continual.rows import person_name
from privmean.errors import SchemaError
from privmean.people.text import LONGEST, csv_fields, ended_line, json_fields, number
from privmean.people.textformat import TextFormat


class Event(NamedTuple):
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
        self._plain = replace(self._form, quote="")
        self._columns: list[int] | None = None
        self._width = 0

    def read(self, lines: list[bytes]) -> list[Event]:
        """The events of some lines without their ends (blank ones and the header are none)."""
        events: list[Event] = []
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
                cells = self._cells(line)
                texts = [cells[k] if k < len(cells) else None for k in self._columns]
            last = 1 + len(self.values)
            numbers = [number(text, self._form) for text in texts[1:last]]
            events.append(Event(person_name(texts[0]), numbers, tuple(texts[last:])))
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
                    f"the first line, taken as a CSV header of {len(names)} columns, does not name "
                    f"{key!r}; give a header, or --format jsonl, or other columns"
                )
        return [names.index(key) for key in (self.person, *self.values, *self.public)]

    def _cells(self, line: bytes) -> list[str | None]:
        """The fields; a quote that would swallow delimiters of its neighbours is a plain sign."""
        cells = csv_fields(line, self._form)
        if len(cells) != self._width and self._form.quote:
            plain = csv_fields(line, self._plain)
            if len(plain) == self._width:
                return plain
        return cells


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
