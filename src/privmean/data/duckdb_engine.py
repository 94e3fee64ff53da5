"""The DuckDB of our own that reads files and tables in memory.

What records may be given as, in types: nothing here imports an engine or runs.

Record batches to DuckDB through the C stream interface of Arrow, without a copy and without
PyArrow: NumPy arrays are handed over as they are, with Python's `ctypes`.

The structures are those of the Arrow C stream interface. A batch is
released by its consumer, from whatever thread; until then `_Stream` holds its arrays.

A progress bar while DuckDB reads: how far the scan is, and nothing about what it finds.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from rich.console import Console


class Frame(Protocol):
    """A data frame of pandas, Polars (also lazy) or PySpark, a PyArrow table, a DuckDB relation."""

    @property
    def columns(self) -> Any: ...

    def join(self, *args: Any, **kwargs: Any) -> Any: ...


Array: TypeAlias = npt.NDArray[Any]
Places: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = Array | Sequence[float] | Sequence[np.floating] | Sequence[np.integer]
Rows: TypeAlias = Numbers | Sequence[Sequence[float]]
Ids: TypeAlias = Array | Sequence[str] | Sequence[int]
Person: TypeAlias = str | Ids  # the name of a column; for an array of records, an id a row
Roster: TypeAlias = Array | Iterable[object]

# a path, a folder or a pattern of files; a frame; arrays by name, one entry a record; an array
Records: TypeAlias = "str | os.PathLike[str] | Frame | Mapping[str, Numbers | Ids] | Array"


NULLABLE = 2
FAILED = 5  # EIO
UNKNOWN = -1
CAPSULE = b"arrow_array_stream"
INSIDE = 12  # bytes of a text that stand in its view
# what is kept of 16 bytes for each length up to `INSIDE`, and of those of a longer text
KEPT = np.frombuffer(
    b"".join(b"\0" * 4 + b"\xff" * n + b"\0" * (INSIDE - n) for n in (*range(INSIDE + 1), 4)), "V16"
)
MESSAGE = ctypes.create_string_buffer(b"the file cannot be read")


@dataclass(frozen=True)
class Texts:
    """Rows of texts: those of a column are the UTF-8 bytes of `data` from one array of places to
    another; an empty text is null, and so are all of a column that is None."""

    fields: Sequence[tuple[Places, Places] | None]
    data: npt.NDArray[np.uint8]

    def columns(self) -> list[_Array]:
        """As Arrow wants them: views of 16 bytes, each a length and then up to 12 bytes of text,
        or 4 of them, the number of the buffer (0) and the place in it."""
        own = [field for field in self.fields if field is not None]
        padded = np.concatenate((np.zeros(4, np.uint8), self.data, np.zeros(INSIDE, np.uint8)))
        parts = np.ndarray(len(self.data) + 1, "V16", padded, strides=(1,))
        start = np.concatenate([field[0] for field in own])
        length = np.concatenate([field[1] for field in own]) - start
        views = parts[start].view(np.int64).reshape(-1, 2)
        views &= KEPT[np.minimum(length, len(KEPT) - 1)].view(np.int64).reshape(-1, 2)
        fields = views.view(np.int32)
        fields[:, 0] = length
        far = np.flatnonzero(length > INSIDE)
        fields[far, 3] = start[far] + 4
        sizes, rows = np.array([len(padded)]), len(own[0][0])
        views = views.reshape(len(own), rows, 2)
        filled = length.reshape(len(own), rows) > 0
        bits = np.packbits(filled, axis=1, bitorder="little")
        columns = zip(views, filled, bits, strict=True)
        made = (
            _array_of(_Array(), rows, [None if some.all() else valid, one, padded, sizes], [])
            for one, some, valid in columns
        )
        return [_nulls(rows) if field is None else next(made) for field in self.fields]


def _nulls(rows: int) -> _Array:
    """A column without a text."""
    buffers = [np.zeros(size, np.uint8) for size in (-(-rows // 8), 16 * rows, 0)]
    return _array_of(_Array(), rows, buffers, [])


class TextStream:
    """A source of text columns t0, t1, ... for `DuckDBPyConnection.register`. It may be scanned
    again and again: every scan calls `batches` anew, which may fail; what failed is told to
    `failed`."""

    def __init__(
        self,
        width: int,
        batches: Callable[[], Iterator[Texts]],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.width = width
        self.batches = batches
        self.failed = failed
        self._streams: list[_Stream] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self._streams = [item for item in self._streams if not item.done]
        self._streams.append(_Stream(self))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self._streams[-1].struct), CAPSULE, None)


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Struct(ctypes.Structure):
    pass


_SCHEMA, _ARRAY, _STREAM = ctypes.POINTER(_Schema), ctypes.POINTER(_Array), ctypes.POINTER(_Struct)
_FreeSchema = ctypes.CFUNCTYPE(None, _SCHEMA)
_FreeArray = ctypes.CFUNCTYPE(None, _ARRAY)
_FreeStream = ctypes.CFUNCTYPE(None, _STREAM)
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, _STREAM, _SCHEMA)
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, _STREAM, _ARRAY)
_GetError = ctypes.CFUNCTYPE(ctypes.c_void_p, _STREAM)

_Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(_SCHEMA)), ("dictionary", _SCHEMA), ("release", _FreeSchema),
    ("private_data", ctypes.c_void_p),
]  # fmt: skip
_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(_ARRAY)),
    ("dictionary", _ARRAY), ("release", _FreeArray), ("private_data", ctypes.c_void_p),
]  # fmt: skip
_Struct._fields_ = [
    ("get_schema", _GetSchema), ("get_next", _GetNext), ("get_last_error", _GetError),
    ("release", _FreeStream), ("private_data", ctypes.c_void_p),
]  # fmt: skip

_held: dict[int, Any] = {}  # what a consumer has not released yet
_numbers = itertools.count(1)


def _release(kind: Any) -> Any:
    """What a consumer calls when it is done with a structure of a kind, and with those of its
    children that it did not take over."""

    def release(struct: ctypes._Pointer[ctypes.Structure]) -> None:
        own = struct.contents
        for child in own.children[: own.n_children]:
            if child.contents.release:
                release(child)
        own.release = kind()
        _held.pop(own.private_data, None)

    return kind(release)


_free_schema, _free_array = _release(_FreeSchema), _release(_FreeArray)


def _hold(struct: ctypes.Structure, things: object) -> None:
    number = next(_numbers)
    _held[number] = things
    struct.private_data = number


class _Stream:
    """One scan."""

    def __init__(self, source: TextStream) -> None:
        self.source = source
        self.rows: Iterator[Texts] | None = None
        self.done = False
        self.calls = (
            _GetSchema(self._schema), _GetNext(self._next), _GetError(self._error),
            _FreeStream(self._free),
        )  # fmt: skip
        self.struct = _Struct(*self.calls, None)

    def _schema(self, _: object, out: ctypes._Pointer[_Schema]) -> int:
        names = (b"t%d" % j for j in range(self.source.width))
        _schema_of(out.contents, b"+s", b"", [_schema_of(_Schema(), b"vu", x, []) for x in names])
        return 0

    def _next(self, _: object, out: ctypes._Pointer[_Array]) -> int:
        try:
            if self.rows is None:
                self.rows = self.source.batches()
            batch = next(self.rows, None)
            if batch is None:
                out.contents.release = _FreeArray()
                return 0
            columns = batch.columns()
            _array_of(out.contents, columns[0].length, [None], columns)
        except BaseException as problem:  # nothing may pass into the engine's own code
            self.source.failed(problem)
            return FAILED
        return 0

    def _error(self, _: object) -> int:
        return ctypes.addressof(MESSAGE)

    def _free(self, stream: ctypes._Pointer[_Struct]) -> None:
        stream.contents.release = _FreeStream()
        self.rows, self.done = None, True


def _schema_of(out: _Schema, kind: bytes, name: bytes, children: list[_Schema]) -> _Schema:
    pointers = (_SCHEMA * len(children))(*map(ctypes.pointer, children))
    out.format, out.name, out.metadata, out.flags = kind, name, None, NULLABLE
    out.n_children, out.children, out.release = len(children), pointers, _free_schema
    _hold(out, (kind, name, pointers, children))
    return out


def _array_of(
    out: _Array,
    length: int,
    buffers: Sequence[Array | None],
    children: Sequence[_Array],
) -> _Array:
    places = [None if item is None else item.ctypes.data for item in buffers]
    addresses = (ctypes.c_void_p * len(buffers))(*places)
    pointers = (_ARRAY * len(children))(*map(ctypes.pointer, children))
    out.length, out.offset = length, 0
    out.null_count = 0 if buffers[0] is None else UNKNOWN
    out.n_buffers, out.buffers = len(buffers), addresses
    out.n_children, out.children, out.release = len(children), pointers, _free_array
    _hold(out, (addresses, buffers, pointers, children))
    return out


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

        self.progress = validate.flag("progress", progress)
        self.meter: Any = None  # says how far a scan is that DuckDB cannot measure

        if threads is not None:
            threads = validate.whole("threads", threads, least=1)
        if temp_directory is not None:
            temp_directory = validate.path("temp_directory", temp_directory, "name a folder")
            if not Path(temp_directory).is_dir():
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
        # asked for, DuckDB knows how far it is; showing it is ours (duckdb_engine.py). Without
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


def identifier(identifier: str) -> str:
    """An SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'


def created_enums(relation: DuckDBPyRelation) -> set[tuple[str, ...]]:
    """The texts of each type that somebody created: DuckDB makes others of categories in memory."""
    query = "SELECT labels FROM duckdb_types() WHERE logical_type = 'ENUM' AND NOT internal"
    return {tuple(row[0]) for row in relation.query("privmean_types", query).fetchall()}


INTERVAL = 0.2  # seconds between two looks
PATIENCE = 0.5  # seconds before anything is shown: short jobs stay silent


@contextmanager
def shown(connection: DuckDBPyConnection, wanted: bool) -> Iterator[None]:
    """Show the progress of the query that runs inside, on standard error, if `wanted`."""
    if not wanted:
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(connection, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(
    connection: DuckDBPyConnection, done: threading.Event, console: Console | None = None
) -> None:
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("reading records"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=100.0)
        while not done.wait(INTERVAL):
            share = float(connection.query_progress())
            if share >= 0:
                progress.update(task, completed=min(share, 100.0))
