"""What a hostile record can do: one person's record among 400, in every format and engine.

Measured for each: the persons that are found, how many rows of others differ from the honest table,
and the person's own row. The cells of the table show the person's own row (50 before).

    python benchmarks/hostile_records.py
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLEAN = 400
PLACE = 200
WHO = "p200"

LONG = b"x" * 3_000_000
# name: the line of p200 in CSV, in JSON lines
HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "a byte of no UTF-8 in the value": (b"p200,5\xb50,n", b'{"p": "p200", "x": "5\xb50"}'),
    "Latin-1 text in another column": (
        b"p200,50,Jos\xe9", b'{"p": "p200", "x": 50, "note": "Jos\xe9"}'
    ),
    "3 MB of text in another column": (
        b"p200,50,%b" % LONG, b'{"p": "p200", "x": 50, "note": "%b"}' % LONG
    ),
    "3 MB of text before the value": (
        b"p200,%b,50" % LONG, b'{"note": "%b", "p": "p200", "x": 50}' % LONG
    ),
    "a quote that is never closed": (b'p200,50,"oops', b'{"p": "p200", "x": 50, "note": "oops'),
    "a quote before the value": (b'p200,"50,n', b'{"p": "p200", "x": "50, "note": n}'),
    "a stray quote before the id": (b'"p200,50,n', b'{""p": 1, "p": "p200", "x": 50}'),
    "half a surrogate pair": (
        b"p200,50,\xed\xa0\x80", b'{"p": "p200", "x": 50, "note": "\\ud800"}'
    ),
    "the line breaks off": (b"p200", b'{"p": "p200", "x": 5'),
    "a carriage return and another record": (
        b"p200,50,a\rp201,99999,b", b'{"p": "p200", "x": 50}\r{"p": "p201", "x": 99999}'
    ),
    "no value at all": (b"p200,,", b'{"p": "p200"}'),
    "nan": (b"p200,nan,n", b'{"p": "p200", "x": NaN}'),
    "infinity": (b"p200,inf,n", b'{"p": "p200", "x": 1e999}'),
    "decimal comma": (b'p200,"1,5",n', b'{"p": "p200", "x": 1,5}'),
    "$1.50": (b"p200,$1.50,n", b'{"p": "p200", "x": $1.50}'),
    "NUL bytes": (b"p200,5\x000,\x00", b'{"p": "p200", "x": 5\x00, "note": "\x00"}'),
    "70 000 brackets": (b"p200," + b"[" * 70_000, b'{"p": "p200", "x": ' + b"[" * 70_000),
    "200 000 fields": (b"p200" + b"," * 200_000, b'{"p": "p200"' + b', "x": 1' * 20_000 + b"}"),
    "another's name in the text": (
        b"p200,1,p201", b'{"p": "p200", "note": {"p": "p201", "x": 9}}'
    ),
    "the key of the id twice": (b"p200,1,n,p201", b'{"p": "p200", "x": 1, "p": "p201", "x": 2}'),
}  # fmt: skip
# name: the value and the text of p200 in typed tables
TYPED: dict[str, tuple[float | None, str]] = {
    "3 MB of text in another column": (50.0, LONG.decode()),
    "no value at all": (None, ""),
    "nan": (math.nan, "n"),
    "infinity": (math.inf, "n"),
    "NUL bytes": (5.0, "\0"),
}
ENGINES = ("Parquet", "PyArrow", "pandas", "Polars", "DuckDB relation")


def line(ending: str, who: str, x: float, note: str = "n") -> bytes:
    """An honest line."""
    if ending == "csv":
        return f"{who},{x},{note}".encode()
    return json.dumps({"p": who, "x": x, "note": note}).encode()


def content(ending: str, hostile: bytes | None) -> bytes:
    """A file of 400 persons with one record each; `hostile` stands in the line of p200."""
    head = [b"p,x,note"] if ending == "csv" else []
    lines = [line(ending, f"p{i:03}", i / 4) for i in range(CLEAN)]
    if hostile is not None:
        lines[PLACE] = hostile
    return b"\n".join([*head, *lines]) + b"\n"


def rows(source: Any, **options: Any) -> dict[str, float | None]:
    """The row of every person."""
    from unittest import mock

    import privmean as pm
    from privmean.data import engines

    with mock.patch.object(engines, "IN_MEMORY", -1):  # ids stay with the rows
        people: Any = pm.read(source, person="p", values="x", **options)
    frame = people.frame.to_native()
    found = frame.collect().rows() if hasattr(frame, "collect") else frame.fetchall()
    return {row[0]: row[1] for row in found}


def sources(name: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """The table with a hostile record (or none: "") in every form that can hold it."""
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    for ending, title, place in (("csv", "CSV", 0), ("jsonl", "JSON lines", 1)):
        path = folder / f"t.{ending}"
        path.write_bytes(content(ending, HOSTILE[name][place] if name else None))
        yield title, path
    if name and name not in TYPED:
        return
    x: list[float | None] = [i / 4 for i in range(CLEAN)]
    notes = ["n"] * CLEAN
    if name:
        x[PLACE], notes[PLACE] = TYPED[name]
    table = pa.table({"p": [f"p{i:03}" for i in range(CLEAN)], "x": x, "note": notes})
    pq.write_table(table, folder / "t.parquet")
    yield "Parquet", folder / "t.parquet"
    yield "PyArrow", table
    yield "pandas", table.to_pandas()
    yield "Polars", pl.from_arrow(table)
    yield "DuckDB relation", duckdb.from_arrow(table)


def said(honest: dict[str, float | None], found: dict[str, float | None]) -> str:
    """What a record did, in words."""
    moved = sum(honest[who] != found.get(who) for who in honest if who != WHO)
    own = "lost" if WHO not in found else "missing" if found[WHO] is None else f"{found[WHO]:g}"
    if len(found) == CLEAN and not moved:
        return own
    return f"**{len(found)} persons, {moved} others moved**, {own}"


def main() -> None:
    import report

    titles = ("CSV", "JSON lines", *ENGINES)
    lines: list[list[object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        honest = {title: rows(source) for title, source in sources("", folder)}
        for kind in HOSTILE:
            found = {
                title: said(honest[title], rows(source)) for title, source in sources(kind, folder)
            }
            lines.append([kind, *(found.get(title, "–") for title in titles)])
    words = f"One record of one of {CLEAN} people is replaced. A cell shows the person's own row "
    words += "after it (50 before), and in bold what else changed; – : the format cannot hold it."
    text = report.table(["the record of one person holds", *titles], lines)
    report.publish(
        "hostile-records",
        "One hostile record",
        f"{words}\n\n{text}",
        command="python benchmarks/hostile_records.py",
    )


if __name__ == "__main__":
    main()
