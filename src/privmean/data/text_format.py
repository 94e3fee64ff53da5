"""How a text file is written: public words of the caller, checked before anything is read."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

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
    given = {name: value for name, value in asked.items() if value is not None}
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
