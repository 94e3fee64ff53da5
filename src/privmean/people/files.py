"""Files to records, through DuckDB: Parquet, CSV and JSON lines.

Nothing is guessed from the data. In text files the first line gives the names (CSV) or the keys
(JSON lines) and is public; every field is read as text and turned into a double on its own, so
that one person's odd entry cannot change the type of a column. What cannot be read as a number is
null. Lines that are no CSV or JSON at all are no records.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from privmean import validate
from privmean.errors import ArgumentError, SchemaError

T = TypeVar("T")

CHECK = "check the path"
LONGEST_LINE = 1 << 22  # characters of the line that names the columns

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".parq": "parquet",
    ".csv": "csv", ".tsv": "csv",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
}  # fmt: skip

DIRECT = 2**26  # bytes a thread for a table of persons that the id itself indexes
STATE = 24  # bytes of one exact sum and its count


class Engine:
    """A DuckDB connection of our own, in memory; what it spills to disk goes with it.

    memory_limit, threads, temp_directory: how it may use the machine; progress: whether to show how
    far reading is. They change no result.
    """

    def __init__(
        self,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | None = None,
        progress: bool = False,
    ) -> None:
        import duckdb

        self.progress = progress

        if threads is not None:
            threads = validate.whole("threads", threads, least=1)
        if temp_directory is not None and not Path(temp_directory).is_dir():
            raise ArgumentError("temp_directory", temp_directory, "is no folder", "make it first")
        self.connection = duckdb.connect()
        self.spill = tempfile.mkdtemp(prefix="privmean-", dir=temp_directory)
        self._finalizer = weakref.finalize(self, _close, self.connection, self.spill)
        self._set("temp_directory", quoted(self.spill))
        # asked for, DuckDB knows how far it is; showing it is ours (progress.py)
        self._set("enable_progress_bar", str(progress).lower())
        self._set("enable_progress_bar_print", "false")
        self._set("preserve_insertion_order", "false")
        self._set("allocator_bulk_deallocation_flush_threshold", "'16MB'")  # give memory back
        self._set("read_ahead_depth", "1")  # parts of a file in memory that nobody works on yet
        self._set("pandas_analyze_sample", "0")  # types of objects are never sniffed
        if threads is not None:
            self._set("threads", str(threads))
        if memory_limit is not None:
            try:
                self._set("memory_limit", quoted(str(memory_limit)))
            except duckdb.Error:
                raise ArgumentError(
                    "memory_limit", memory_limit, "is not a size", "give one such as '4GB'"
                ) from None

    def direct(self, width: int) -> None:
        """Let a table of persons with `width` sums be indexed by the id itself where that is small.

        DuckDB does so for integer ids whose range (from the statistics of the file) is narrow; it
        halves the time to group. Every thread holds one such table, which bounds the range.
        """
        threads, limit = self.connection.execute(
            "SELECT current_setting('threads'), current_setting('memory_limit')"
        ).fetchone()
        states = min(DIRECT, _bytes(limit) // (8 * int(threads))) // (STATE * max(1, width))
        self._set("perfect_ht_threshold", str(max(0, min(32, states.bit_length() - 1))))

    def rest(self) -> None:
        """Give memory that a query has left free back to the system.

        DuckDB's threads keep it for themselves until they end, so they end: another number of
        threads starts others.
        """
        (threads,) = self.connection.execute("SELECT current_setting('threads')").fetchone()
        for number in (int(threads) + 1, threads):
            self._set("threads", str(number))

    def _set(self, option: str, value: str) -> None:
        self.connection.execute(f"SET {option} = {value}")


def _bytes(size: str) -> int:
    """A size as DuckDB prints it ("2.7 GiB") in bytes."""
    number, unit = size.split()
    scale = {"bytes": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}.get(unit, 50)
    return int(float(number) * 2**scale)


def _close(connection: Any, spill: str) -> None:
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)


def quoted(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def name(identifier: str) -> str:
    """An SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True)
class Table:
    """A file as a table: its form, the names of its columns, and how SQL scans it."""

    form: str
    columns: tuple[str, ...]
    source: str

    def records(self, person: str, values: Sequence[str], texts: Sequence[str] = ()) -> str:
        """SQL for the records (p, x0, x1, ...): only these columns, text turned into doubles (but
        for the columns `texts`)."""
        wanted = [person, *values]
        scan, fields, text = self.source, [name(item) for item in wanted], True
        if self.form == "parquet":
            text = False
        elif self.form == "csv":
            fields = [f"f{self.columns.index(item)}" for item in wanted]
        else:
            kinds = ", ".join(f"{quoted(item)}: 'VARCHAR'" for item in wanted)
            scan = (
                f"read_json({self.source}, format = 'newline_delimited', "
                f"columns = {{{kinds}}}, ignore_errors = true)"
            )
        chosen = [f"{fields[0]} AS p"]
        for j, field in enumerate(fields[1:]):
            number = text and values[j] not in texts
            chosen.append(f"TRY_CAST({field} AS DOUBLE) AS x{j}" if number else f"{field} AS x{j}")
        return f"SELECT {', '.join(chosen)} FROM {scan}"


def open_table(connection: Any, path: str, delimiter: str | None) -> Table:
    """The table behind a path: a file, a folder of Parquet files, or a glob of Parquet files."""
    where = Path(path)
    if not path:
        raise ArgumentError("source", path, "is empty", CHECK)
    try:
        is_folder, is_file = where.is_dir(), where.is_file()
        inside = sum(item.is_file() for item in where.rglob("*.parquet")) if is_folder else 0
    except (OSError, ValueError) as problem:  # a name too long, a folder that may not be read
        raise ArgumentError(
            "source", path, f"cannot be looked at ({_kind(problem)})", CHECK
        ) from None
    if is_folder:
        if not inside:
            raise ArgumentError(
                "source",
                path,
                "is a folder without .parquet files",
                "name another folder, or one text file",
            )
        return _parquet(connection, path, _literally(str(where)) + "/**/*.parquet")
    pattern = any(sign in path for sign in "*?[")
    if not is_file and not pattern:
        raise ArgumentError("source", path, "there is no such file", CHECK)
    form = _form(where)
    if is_file:
        if form == "parquet":
            return _parquet(connection, path, _literally(str(where)))
        return _csv(where, delimiter) if form == "csv" else _json(where)
    if form != "parquet":
        raise ArgumentError(
            "source", path, "is a pattern of text files", "give one file, or use Parquet"
        )
    return _parquet(connection, path, path)


def _form(path: Path) -> str:
    suffixes = [item.lower() for item in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    form = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if form is None:
        raise ArgumentError(
            "source",
            str(path),
            "has an ending that says nothing about its format",
            "use .parquet, .csv, .tsv, .jsonl, .ndjson or .json, or pass a frame",
        )
    return form


def _literally(path: str) -> str:
    """A path whose own *, ? and [ are not read as a pattern."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in path)


def _parquet(connection: Any, path: str, pattern: str) -> Table:
    import duckdb

    from privmean.people.kinds import as_written

    scan = f"read_parquet({quoted(pattern)}, hive_types_autocast = false)"
    missing, columns = False, []
    try:
        missing = not connection.execute(
            f"SELECT 1 FROM glob({quoted(pattern)}) LIMIT 1"
        ).fetchall()
        if not missing:
            columns = connection.execute(f"SELECT * FROM {scan} LIMIT 0").description
            scan = as_written(connection, pattern, scan, (item[0] for item in columns))
    except duckdb.Error:  # its words may quote what the file holds
        columns = []
    if missing:
        raise ArgumentError("source", path, "there is no such file", CHECK)
    if not columns:
        raise SchemaError(
            f"{path} cannot be read as Parquet: it is damaged, something else, or may not be read"
        )
    return Table("parquet", tuple(item[0] for item in columns), scan)


def _first(path: Path, rule: Callable[[Iterator[str]], T]) -> T:
    """What `rule` makes of the first lines of a text file, plain or gzipped."""
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="", errors="replace") as lines:
                return rule(_short(lines))
        with path.open(encoding="utf-8-sig", newline="", errors="replace") as lines:
            return rule(_short(lines))
    except (OSError, EOFError, zlib.error, csv.Error) as problem:
        kind = _kind(problem)
    raise SchemaError(f"{path} cannot be read ({kind})")


def _short(lines: Any) -> Iterator[str]:
    """Lines of a file, up to a length at which they are no line of names."""
    while line := lines.readline(LONGEST_LINE):
        yield line


def _kind(problem: Exception) -> str:
    """An error's public part: never what the file holds."""
    code = getattr(problem, "strerror", None)
    return str(code or type(problem).__name__)


def _csv(path: Path, delimiter: str | None) -> Table:
    if delimiter is None:
        delimiter = "\t" if ".tsv" in [item.lower() for item in path.suffixes] else ","
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ArgumentError("delimiter", delimiter, "is not one character", "give ',' or ';'")
    names = _first(path, lambda lines: next(csv.reader(lines, delimiter=delimiter), []))
    if not names:
        raise SchemaError(f"{path} has no first line with the names of its columns")
    fields = ", ".join(f"{quoted(f'f{j}')}: 'VARCHAR'" for j in range(len(names)))
    # padding needs one reader: with several, a line break inside quotes would be an error
    scan = (
        f"read_csv({quoted(_literally(str(path)))}, auto_detect = false, header = true, "
        f"delim = {quoted(delimiter)}, quote = '\"', escape = '\"', columns = {{{fields}}}, "
        "null_padding = true, strict_mode = false, ignore_errors = true, parallel = false)"
    )
    return Table("csv", tuple(names), scan)


def _json(path: Path) -> Table:
    first = _first(path, lambda lines: next((line for line in lines if line.strip()), ""))
    try:
        keys = json.loads(first)
    except (ValueError, RecursionError):
        keys = None
    if not isinstance(keys, dict) or not keys:
        raise SchemaError(
            f"the first line of {path} is not a JSON object; write one object a line "
            "(its keys name the columns)"
        )
    return Table("json", tuple(keys), quoted(_literally(str(path))))
