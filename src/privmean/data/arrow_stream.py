"""Record batches to DuckDB through the C stream interface of Arrow, without a copy and without
PyArrow: NumPy arrays are handed over as they are, with Python's `ctypes`.

The structures are those of the Arrow C stream interface. A batch is
released by its consumer, from whatever thread; until then `_Stream` holds its arrays.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from privmean.data.source_types import Array

NULLABLE = 2
FAILED = 5  # EIO
CAPSULE = b"arrow_array_stream"
MESSAGE = ctypes.create_string_buffer(b"the file cannot be read")


@dataclass(frozen=True)
class Texts:
    """`width` texts a row: the UTF-8 bytes `data` between neighbors of `bounds`, one text after
    the other, rows * width + 1 bounds."""

    width: int
    bounds: np.ndarray[Any, np.dtype[np.int32]]
    data: np.ndarray[Any, np.dtype[np.uint8]]


class TextStream:
    """A source of one column `f` for `DuckDBPyConnection.register`: a text a row, or with a greater
    `width` an ARRAY of texts (f[1], ...). It may be scanned again and again: every scan calls
    `batches` anew, which may fail; what failed is told to `failed`."""

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
    """What a consumer calls when it is done with a structure of a kind."""

    def release(struct: ctypes._Pointer[ctypes.Structure]) -> None:
        _held.pop(struct.contents.private_data, None)
        struct.contents.release = kind()

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
        found = _schema_of(_Schema(), b"u", b"f", [])
        if self.source.width > 1:
            found = _schema_of(_Schema(), b"+w:%d" % self.source.width, b"f", [found])
        _schema_of(out.contents, b"+s", b"", [found])
        return 0

    def _next(self, _: object, out: ctypes._Pointer[_Array]) -> int:
        try:
            if self.rows is None:
                self.rows = self.source.batches()
            batch = next(self.rows, None)
            if batch is None:
                out.contents.release = _FreeArray()
                return 0
            texts = len(batch.bounds) - 1
            found = _array_of(_Array(), texts, [None, batch.bounds, batch.data], [])
            if batch.width > 1:
                found = _array_of(_Array(), texts // batch.width, [None], [found])
            _array_of(out.contents, texts // batch.width, [None], [found])
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
    out.length, out.null_count, out.offset = length, 0, 0
    out.n_buffers, out.buffers = len(buffers), addresses
    out.n_children, out.children, out.release = len(children), pointers, _free_array
    _hold(out, (addresses, buffers, pointers, children))
    return out
