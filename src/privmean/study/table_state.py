"""Whether a table is still the one that a run began with: its files and a digest of what they hold.

Sizes, times and numbers of files tell without reading; where they differ, as after a `chmod`, a
`touch` or a backup by hard links, the digest decides.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

LARGEST = 1 << 30  # bytes of all files together that are read for a digest


def table_state(source: object) -> dict[str, Any]:
    """The files of a table as plain data, with a digest where they are not too large; no files for
    a frame in memory or a database."""
    files = _files(source)
    return {"files": {name: _stat(path) for name, path in files.items()}, "digest": _digest(files)}


def is_table(source: object, state: object) -> bool:
    """Whether the table is in a state of `table_state`, as far as can be told."""
    if not isinstance(state, Mapping) or not isinstance(state.get("files"), Mapping):
        return False
    files = _files(source)
    stats = {name: _stat(path) for name, path in files.items()}
    before: Mapping[str, Any] = state["files"]
    if stats == before:
        return True
    if state.get("digest") is None:  # too large, or forgotten: size and time of the last change
        return {name: stat[:2] for name, stat in stats.items()} == {
            name: list(stat)[:2] for name, stat in before.items()
        }
    return bool(_digest(files) == state["digest"])


def _files(source: object) -> dict[str, Path]:
    if not isinstance(source, str | os.PathLike):
        return {}
    path = Path(source)
    if path.is_dir():
        found = path.rglob("*")
    else:
        names = [str(path)] if path.exists() else glob.glob(str(source), recursive=True)
        found, path = (Path(name) for name in names), path.parent
    return {os.path.relpath(file, path): file for file in sorted(found) if file.is_file()}


def _stat(path: Path) -> list[int]:
    try:
        found = path.stat()
    except OSError:  # gone meanwhile
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _digest(files: Mapping[str, Path]) -> str | None:
    sizes = {name: (_stat(path) or [0])[0] for name, path in files.items()}
    if not files or sum(sizes.values()) > LARGEST:
        return None
    found = hashlib.blake2b(digest_size=32)
    for name, path in files.items():
        found.update(f"{name}\n{sizes[name]}\n".encode("utf-8", "surrogateescape"))
        with suppress(OSError), path.open("rb") as file:  # what cannot be read is no table either
            while piece := file.read(1 << 20):
                found.update(piece)
    return found.hexdigest()
