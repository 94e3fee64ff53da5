"""Text files as a table: which they are, what their columns are called, and how they are opened.

Nothing is guessed from the lines. The columns of CSV files are named by the first line, which is
public then, or by their places; the keys of JSON lines by the caller. What a line says is decided
in `text_record.py`, for every line on its own.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from privmean.data.schema import Columns, one_of
from privmean.data.text_record import TextFormat, csv_fields, lines, refuse
from privmean.errors import ArgumentError, SchemaError

PACKED = (".gz", ".zst")
MARK = b"\xef\xbb\xbf"  # of UTF-8, which some programs write first
OF_JSON = ("encoding", "na_values", "types")


def ending(path: Path) -> str:
    """The ending that tells the format, without that of a compression."""
    suffixes = [item.lower() for item in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def kind(problem: BaseException) -> str:
    """An error's public part: never what the file holds."""
    code = getattr(problem, "strerror", None)
    return str(code or type(problem).__name__)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """A file that cannot be read, or unpacked, is a SchemaError."""
    problem: Exception
    try:
        yield
        return
    except (OSError, EOFError, zlib.error) as found:
        problem = found
    except Exception as found:
        if type(found).__name__ != "ZstdError":
            raise
        problem = found
    raise SchemaError(
        f"{path} cannot be read ({kind(problem)}). Check the path and its permissions."
    )


@dataclass(frozen=True)
class TextFile:
    """One file and how it is written."""

    path: Path
    form: TextFormat

    @contextmanager
    def opened(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """The text of the file from its first line, and the file itself."""
        with self.path.open("rb") as raw:
            stream: Any = raw
            if self.path.suffix.lower() == ".gz":
                stream = gzip.GzipFile(fileobj=raw)
            elif self.path.suffix.lower() == ".zst":
                stream = _unpacked(self.path, raw)
            if self.form.encoding == "utf-8" and stream.peek(len(MARK)).startswith(MARK):
                stream.read(len(MARK))
            yield stream, raw

    def first(self) -> list[str]:
        """The fields of the first line as they stand."""
        with readable(self.path), self.opened() as (stream, _):
            line, _ = next(lines(stream), (b"", False))
        return [field or "" for field in csv_fields(line, replace(self.form, na_values=()))]


def _unpacked(path: Path, raw: IO[bytes]) -> IO[bytes]:
    for name in ("compression.zstd", "backports.zstd"):  # from Python 3.14 on in the library
        try:
            unpacked: IO[bytes] = import_module(name).ZstdFile(raw)
            return unpacked
        except ImportError:
            continue
    raise ArgumentError(
        "source", str(path), "requires backports.zstd", "install privmean[zstd], or unpack the file"
    )


@dataclass(frozen=True)
class TextFiles:
    """Files of one format ("csv" or "json") and one set of columns."""

    files: tuple[TextFile, ...]
    columns: Columns
    form: str

    def headed(self) -> bool:
        """Whether the first line of a file is no record."""
        return self.form == "csv" and self.files[0].form.header is not False


def csv_files(paths: Sequence[Path], text: Mapping[str, Any]) -> TextFiles:
    """CSV files, each with the same first line. text: as from `text.options`."""
    files = []
    for path in paths:
        usual = {"delimiter": "\t"} if ending(path) == ".tsv" else {}
        files.append(TextFile(path, TextFormat(**(usual | dict(text)))))
    names = [item.first() for item in files]
    header = files[0].form.header
    if header is False:
        return _typed(TextFiles(tuple(files), Columns(places=True), "csv"))
    for item, found in zip(files, names, strict=True):
        if not any(found):
            raise SchemaError(
                f"{item.path} has no first line with column names. Add the line, or "
                "use header=False."
            )
        if found != names[0]:
            raise SchemaError(
                f"{files[0].path} and {item.path} do not name the same columns in "
                "their first lines. Use equal headers, or header=False."
            )
    return _typed(TextFiles(tuple(files), Columns(tuple(names[0]), shown=header is True), "csv"))


def _typed(made: TextFiles) -> TextFiles:
    """The files, if they have the columns whose types were declared."""
    for column, _ in made.files[0].form.types:
        one_of(made.columns, "types", column)
    return made


def json_files(paths: Sequence[Path], text: Mapping[str, Any]) -> TextFiles:
    """Files of JSON lines, whose keys the caller names. text: as from `text.options`."""
    refuse(text, "JSON lines", OF_JSON)
    files = tuple(TextFile(path, TextFormat(**text)) for path in paths)
    for item in files:
        item.first()  # whether it can be read
    return TextFiles(files, Columns(), "json")


Making = Callable[[Sequence[Path], Mapping[str, Any]], TextFiles]
READERS: dict[str, Making] = {"csv": csv_files, "json": json_files}
