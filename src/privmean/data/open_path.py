"""A path to a table: one file, a folder, or a pattern; Parquet, CSV or JSON lines."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from privmean.data.duckdb_engine import Engine
from privmean.data.parquetfiles import ParquetTable, parquet_table
from privmean.data.text_files import READERS, ending, kind
from privmean.data.text_format import refuse
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.data.text_scan import TextTable

CHECK = "check the path"
FORMS = {
    ".parquet": "parquet", ".pq": "parquet", ".parq": "parquet",
    ".csv": "csv", ".tsv": "csv",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
}  # fmt: skip


def open_table(engine: Engine, path: str, text: Mapping[str, object]) -> ParquetTable | TextTable:
    """The table behind a path. text: what the caller says of text files (`text.options`)."""
    where = Path(path)
    if not path:
        raise ArgumentError("source", path, "is empty", CHECK)
    try:
        if where.is_dir():
            return _folder(engine, path, where, text)
        is_file = where.is_file()
        if not is_file and (path == "-" or where.exists()):  # a pipe, a device
            raise ArgumentError(
                "source", path, "is not a file", "write the records to a regular file"
            )
        if not is_file and not any(sign in path for sign in "*?["):
            raise ArgumentError("source", path, "does not exist", CHECK)
        form = _form(where)
        if form == "parquet":
            return _parquet(engine, path, _literally(path) if is_file else path, text)
        files = [where] if is_file else _matching(path)
    except (OSError, ValueError) as problem:  # a name too long, a folder that may not be read
        if isinstance(problem, ArgumentError):
            raise
        raise ArgumentError("source", path, f"cannot be read ({kind(problem)})", CHECK) from None
    if not files:
        raise ArgumentError("source", path, "does not exist", CHECK)
    return _texts(form, files, text)


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a path means text files, whose columns have no types of their own."""
    where = Path(path)
    if where.is_dir():
        return not any(where.rglob("*.parquet"))
    return FORMS.get(ending(where)) in READERS


def _folder(
    engine: Engine, path: str, where: Path, text: Mapping[str, object]
) -> ParquetTable | TextTable:
    """The files of a folder, which are of one format; hidden ones are left out."""
    columnar = any(item.is_file() for item in where.rglob("*.parquet"))
    files: dict[str, list[Path]] = {}
    for item in sorted(where.rglob("*")):
        form = FORMS.get(ending(item))
        hidden = any(part.startswith((".", "_")) for part in item.relative_to(where).parts)
        if form in READERS and not hidden and item.is_file():
            files.setdefault(form, []).append(item)
    if len(files) + columnar > 1:
        raise ArgumentError(
            "source", path, "is a folder with tables of several formats",
            "give a pattern such as 'folder/*.csv'",
        )  # fmt: skip
    if columnar:
        return _parquet(engine, path, _literally(str(where)) + "/**/*.parquet", text)
    if not files:
        raise ArgumentError(
            "source",
            path,
            "is a folder without .parquet, .csv or .jsonl files",
            "name another folder, or one file",
        )
    ((form, found),) = files.items()
    return _texts(form, found, text)


def _texts(form: str, files: Sequence[Path], text: Mapping[str, object]) -> TextTable:
    from privmean.data.text_scan import TextTable

    return TextTable(READERS[form](files, text))


def _matching(pattern: str) -> list[Path]:
    found = (Path(item) for item in glob.glob(pattern, recursive=True))
    return sorted(item for item in found if item.is_file())


def _form(path: Path) -> str:
    form = FORMS.get(ending(path))
    if form is None:
        raise ArgumentError(
            "source",
            str(path),
            f"file type {ending(path) or '(none)'} is not supported",
            "convert it to Parquet or CSV, or pass a DataFrame",
        )
    return form


def _literally(path: str) -> str:
    """A path whose own *, ? and [ are not read as a pattern."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in path)


def _parquet(engine: Engine, path: str, pattern: str, text: Mapping[str, object]) -> ParquetTable:
    refuse(text, "Parquet")
    return parquet_table(engine, path, pattern)
