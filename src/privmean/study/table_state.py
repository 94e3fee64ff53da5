"""Whether a table is still the one that a run began with: its files, its roster, what they hold.

Sizes, times and numbers of files tell without reading; where they differ, as after a `chmod`, a
`touch`, a copy or a backup by hard links, the digest decides. Of a database the address is all
that is compared, and of a frame or arrays in memory nothing but the roster.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from privmean.data.list_columns import roster_texts
from privmean.data.open_path import FORMS
from privmean.data.table import Table
from privmean.data.text_files import ending

LARGEST = 1 << 30  # bytes that are read for a digest; of more, pieces from all over the files
PIECE = 1 << 20


def table_state(source: object) -> dict[str, Any]:
    """What a table is made of, as plain data; nothing for people in memory."""
    if not isinstance(source, Table):
        return {}
    files = _files(source.source)
    return {"files": {name: _stat(path) for name, path in files.items()}, **_told(source, files)}


def is_table(source: object, before: Mapping[str, Any]) -> bool:
    """Whether the table is in a state of `table_state`, as far as can be told."""
    if not isinstance(source, Table):
        return not before
    files = _files(source.source)
    stats = {name: _stat(path) for name, path in files.items()}
    told = {name: said for name, said in before.items() if name != "files"}
    if files and stats == before.get("files"):
        return told.get("roster") == _roster(source)
    return told == _told(source, files)


def _told(source: Table, files: Mapping[str, Path]) -> dict[str, str | None]:
    """What tells one table from another, whatever its times are."""
    found = {"roster": _roster(source)}
    if files:
        return found | {"digest": _digest(files)}
    given = source.source
    return found | {"address": str(given) if isinstance(given, str | os.PathLike) else None}


def _roster(source: Table) -> str | None:
    """A digest of the ids of a roster."""
    ids = None if source.roster is None else roster_texts(source.roster)
    if not isinstance(ids, Iterable):
        return None
    return hashlib.sha256(repr([str(item) for item in ids]).encode()).hexdigest()


def _files(source: object) -> dict[str, Path]:
    if not isinstance(source, str | os.PathLike):
        return {}
    path = Path(source)
    if path.is_dir():
        found = (file for file in path.rglob("*") if ending(file) in FORMS)
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


def _digest(files: Mapping[str, Path]) -> str:
    sizes = {name: (_stat(path) or [0])[0] for name, path in files.items()}
    step = PIECE * max(1, -(-sum(sizes.values()) // LARGEST))
    found = hashlib.blake2b(digest_size=32)
    for name, path in files.items():
        size = sizes[name]
        found.update(f"{name}\n{size}\n".encode("utf-8", "surrogateescape"))
        with suppress(OSError), path.open("rb") as file:  # what cannot be read is no table either
            for place in (*range(0, size, step), max(0, size - PIECE)):
                file.seek(place)
                found.update(file.read(PIECE))
    return found.hexdigest()
