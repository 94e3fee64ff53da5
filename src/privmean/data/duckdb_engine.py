"""The DuckDB of our own that reads files and tables in memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privmean import validate
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

OF_ANOTHER_PROCESS: list[DuckDBPyConnection] = []
DIRECT = 2**26  # bytes a thread for a table of people that the id itself indexes
STATE = 24  # bytes of one exact sum and its count
LEAST_ROOM = 4 * 2**20  # bytes of memory without which it answers nothing


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
        self.meter: Any = None  # says how far a scan is that DuckDB cannot measure

        if threads is not None:
            threads = validate.whole("threads", threads, least=1)
        if temp_directory is not None and not Path(temp_directory).is_dir():
            raise ArgumentError(
                "temp_directory", temp_directory, "is not a folder", "make it first"
            )
        try:
            self.temp_directory = tempfile.mkdtemp(prefix="privmean-", dir=temp_directory)
        except OSError as error:
            problem = f"is not a folder that can be made: {error.strerror}"
            remedy = "name a folder where you may write"
            raise ArgumentError("temp_directory", temp_directory, problem, remedy) from None
        self.connection = duckdb.connect()
        self._finalizer = weakref.finalize(
            self, _close, self.connection, self.temp_directory, os.getpid()
        )
        self._set("temp_directory", quoted(self.temp_directory))
        # asked for, DuckDB knows how far it is; showing it is ours (read_progress.py). Without
        # ipywidgets a notebook refuses both settings, and has and shows no progress
        with contextlib.suppress(duckdb.InvalidInputException):
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
            if self._room() < LEAST_ROOM:
                raise ArgumentError(
                    "memory_limit", memory_limit, "is too small", "give one such as '4GB'"
                )

    def _room(self) -> int:
        """The memory limit in bytes; 0 where there is not even room to ask."""
        import duckdb

        try:
            ((limit,),) = self._asked("SELECT current_setting('memory_limit')")
        except duckdb.Error:
            return 0
        return _bytes(limit)

    def direct(self, width: int) -> None:
        """Let a table of people with `width` sums be indexed by the id itself where that is small.

        DuckDB does so for integer ids whose range (from the statistics of the file) is narrow; it
        halves the time to group. Every thread holds one such table, which bounds the range.
        """
        ((threads, limit),) = self._asked(
            "SELECT current_setting('threads'), current_setting('memory_limit')"
        )
        states = min(DIRECT, _bytes(limit) // (8 * int(threads))) // (STATE * max(1, width))
        self._set("perfect_ht_threshold", str(max(0, min(32, states.bit_length() - 1))))

    def rest(self) -> None:
        """Give memory that a query has left free back to the system.

        DuckDB's threads keep it for themselves until they end, so they end: another number of
        threads starts others.
        """
        ((threads,),) = self._asked("SELECT current_setting('threads')")
        for number in (int(threads) + 1, threads):
            self._set("threads", str(number))

    def _asked(self, query: str) -> list[tuple[Any, ...]]:
        """All rows of an answer: one that is not read to its end would hold the connection."""
        rows: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        return rows

    def _set(self, option: str, value: str) -> None:
        self.connection.execute(f"SET {option} = {value}")


def _bytes(size: str) -> int:
    """A size as DuckDB prints it ("2.7 GiB") in bytes."""
    number, unit = size.split()
    scale = {"bytes": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}.get(unit, 50)
    return int(float(number) * 2**scale)


def _close(connection: DuckDBPyConnection, temp_directory: str, process: int) -> None:
    """A fork has none of DuckDB's threads and cannot close what the process that made it uses: it
    keeps the connection, and that process its folder."""
    if os.getpid() != process:
        OF_ANOTHER_PROCESS.append(connection)
        return
    connection.close()
    shutil.rmtree(temp_directory, ignore_errors=True)


def quoted(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def name(identifier: str) -> str:
    """An SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'


def created_enums(relation: DuckDBPyRelation) -> set[tuple[str, ...]]:
    """The texts of each type that somebody created: DuckDB makes others of categories in memory."""
    query = "SELECT labels FROM duckdb_types() WHERE logical_type = 'ENUM' AND NOT internal"
    return {tuple(row[0]) for row in relation.query("privmean_types", query).fetchall()}
