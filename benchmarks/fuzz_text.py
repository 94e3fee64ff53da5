"""Hostile lines among clean ones: whether a record of a text file can change anything but its own
person. Random bytes stand in one person's line; every other person's row, the roster and the exit
status must stay bit for bit the same, and the hostile row must be what the rules say of that line.

A file holds many hostile persons, each with one line, and clean persons between them; every
tenth file is read by the command line too, once as it is and once with one hostile line only.

    python benchmarks/fuzz_text.py --cases 100000 [--seed 1] [--publish]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest import mock

from privmean.cli.app import run
from privmean.data import engines
from privmean.data.read import read
from privmean.data.text_record import TextFormat, csv_fields, ended_line, json_fields, number

BATCH = 500  # hostile persons in a file
RESOLUTION = 2.0**-36
CLEAN = "clean-7c1e"  # an id that no hostile bytes make up
PIECES = [
    b'"', b'""', b"'", b"\\", b",", b";", b"\t", b":", b"{", b"}", b"[", b"]", b"\r", b"\0", b" ",
    b"\xff", b"\xc3", b"\xe2\x82", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x85",
    b"\xf0\x9f\x98\x80", b"1", b"-", b"+", b".", b"e", b"E9", b"_", b"null", b"NaN", b"inf",
    b"\x1a", b"true", b"\\u", b"\\u00e9", b"\\ud800", b"\\udc00", b"\\u0000", b"\\q", b'"p":',
    b'"x":', b'"p"', b"p",
    b"NA", b"-9", b"1e400", b"1,5", b"1_000", b"12345678901234567890123", b"nan(1)", b'","', b"//",
]  # fmt: skip
CSV_FORMATS = (
    {}, {"delimiter": ";", "decimal": ","}, {"quote": ""}, {"encoding": "latin-1"},
    {"delimiter": "\t", "quote": "'"}, {"na_values": ["NA", "-9"]}, {"encoding": "cp1252"},
)  # fmt: skip
JSON_FORMATS = ({}, {"encoding": "latin-1"}, {"na_values": ["NA", "-9"]}, {})


def junk(rng: random.Random) -> bytes:
    pieces = []
    for _ in range(rng.choice((1, 1, 2, 3, 5, 9))):
        pieces.append(rng.choice(PIECES) if rng.random() < 0.8 else rng.randbytes(rng.randrange(6)))
    if rng.random() < 0.01:
        pieces.append(rng.choice((b"x", b"[", b",", b'"', b'""')) * rng.randrange(200_000))
    return b"".join(pieces).replace(b"\n", b"")


def hostile(rng: random.Random, kind: str, who: bytes, comma: bytes) -> bytes:
    """A line that starts as an honest one; half of the time also its id is in danger."""
    x = b"%d.25" % rng.randrange(100)
    if kind == "csv":
        line = bytearray(comma.join((who, x, b"note")))
    else:
        line = bytearray(b'{"p": "%b", "x": %b, "note": "n"}' % (who, x))
        if rng.random() < 0.3:
            line = bytearray(b'{"note": "n", "x": "%b", "p": %b}' % (x, who[1:]))
    first = 0 if rng.random() < 0.5 else line.index(who[1:]) + len(who)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(first, len(line) + 1)
        line[at : at + rng.choice((0, 0, 1, 3))] = junk(rng)
    return bytes(line[: rng.randrange(first, len(line) + 1)] if rng.random() < 0.1 else line)


def expected(kind: str, lines: list[bytes], form: TextFormat) -> dict[str, float | None]:
    """The row of every person, from the rules for one line and whole numbers."""
    sums: dict[str, list[int]] = {}
    limit = RESOLUTION * 2.0**80
    for line in lines:
        bare = ended_line(line)
        if kind == "csv":
            who, text = csv_fields(bare, form, [0, 1])
        else:
            who, text = json_fields(bare, ["p", "x"], form).values()
        if who is None:
            continue
        own = sums.setdefault(who, [0, 0])
        value = number(text, form)
        if value is not None:
            own[0] += math.floor(min(max(value, -limit), limit) / RESOLUTION + 0.5)
            own[1] += 1
    return {
        who: min(max(float(total), -(2.0**100)), 2.0**100) * RESOLUTION / count if count else None
        for who, (total, count) in sums.items()
    }


def write(path: Path, kind: str, lines: list[bytes], form: TextFormat) -> None:
    head = [form.delimiter.join(("p", "x", "note")).encode()] if kind == "csv" else []
    path.write_bytes(b"\n".join([*head, *lines]) + b"\n")


def command(path: Path, written: dict[str, object]) -> tuple[object, ...]:
    """What somebody outside sees of a release that is certain to succeed."""
    words = ["mean", str(path), "--person", "p", "--value", "x", "--epsilon", "90", "--json"]
    for name, value in written.items():
        values = value if isinstance(value, list) else [value]
        option = "--na-value" if name == "na_values" else f"--{name}"
        words += [part for item in values for part in (option, str(item))]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*words, "--bounds", "0", "200"])
    found = json.loads(out.getvalue() or "{}")
    return status, found.get("n"), found.get("status"), err.getvalue()


def clean(kind: str, i: int, form: TextFormat) -> bytes:
    x = f"{i / 8!r}".replace(".", form.decimal)
    if kind == "csv":
        return form.delimiter.join((f"{CLEAN}{i}", x, "n")).encode()
    return f'{{"p": "{CLEAN}{i}", "x": {x}, "note": "n"}}'.encode()


def same(a: float | None, b: float | None) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and a.hex() == b.hex())


def batch(kind: str, rng: random.Random, folder: Path, index: int) -> Counter[str]:
    formats = CSV_FORMATS if kind == "csv" else JSON_FORMATS
    written: dict[str, object] = dict(formats[index % len(formats)])
    form = TextFormat(**written)
    found: Counter[str] = Counter()
    lines, bad = [], []
    for i in range(BATCH):
        bad.append(hostile(rng, kind, b"h%d" % i, form.delimiter.encode()))
        lines += [clean(kind, i, form), bad[-1]]
    path = folder / f"t{index}.{'csv' if kind == 'csv' else 'jsonl'}"
    write(path, kind, lines, form)
    with mock.patch.object(engines, "IN_MEMORY", -1):  # ids stay with the rows
        people = read(path, person="p", values="x", **written)
    rows = dict(people.frame.to_native().project("p, v0").fetchall())
    wanted = expected(kind, lines, form)
    found["cases"] += BATCH
    found["ids read"] += sum(len(expected(kind, [line], form)) for line in bad)
    for who in wanted.keys() | rows.keys():
        place = "clean" if who.startswith(CLEAN) else "hostile"
        found[f"{place} rows"] += 1
        if who not in rows or who not in wanted or not same(rows[who], wanted[who]):
            found[f"{place} rows that differ"] += 1
            print(f"{kind} {written} {who!r}: {rows.get(who)} for {wanted.get(who)}")
    honest = [clean(kind, i, form) for i in range(200)]
    if index % 10 == 0:
        seen = set()
        for i in range(5):
            write(path, kind, [*honest[:100], bad[i], *honest[100:]], form)
            people = read(path, person="p", values="x", roster=[f"{CLEAN}{j}" for j in range(200)],
                          **written)  # fmt: skip
            seen.add(people.matrix().tobytes())
            others = expected(kind, [bad[i]], form).keys() - {f"{CLEAN}{j}" for j in range(200)}
            status, persons, *words = command(path, written)
            seen.add((status, persons - len(others), *words))
        found["single lines"] += 5
        found["single lines that show"] += len(seen) != 2
    path.unlink()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="hostile lines a format")
    parser.add_argument("--seed", type=int, help="without it, a fresh one")
    parser.add_argument("--publish", action="store_true", help="store the results")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}")
    rows: list[list[object]] = []
    failed = 0
    for kind, title in (("csv", "CSV"), ("json", "JSON lines")):
        rng, found, start = random.Random(f"{seed} {kind}"), Counter[str](), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            for index in range(-(-options.cases // BATCH)):
                found += batch(kind, rng, Path(folder), index)
        wrong = found["clean rows that differ"] + found["single lines that show"]
        failed += wrong + found["hostile rows that differ"]
        rows.append(
            [title, found["cases"], f"{found['ids read'] / found['cases']:.1%}",
             found["clean rows"], found["clean rows that differ"],
             found["hostile rows"], found["hostile rows that differ"],
             found["single lines"], found["single lines that show"],
             f"{time.process_time() - start:.0f}"]
        )  # fmt: skip
    header = [
        "format", "hostile lines", "with an id", "rows of others", "changed",
        "rows of hostile lines", "not by the rules", "lines tried alone by the command",
        "seen from outside", "CPU s",
    ]  # fmt: skip
    import report

    text = report.table(header, rows)
    if options.publish:
        report.publish(
            "fuzz-text",
            "Hostile lines in text files",
            f"Seed {seed}. Random bytes stand in every hostile line, half of the time only behind "
            f"its id.\n\n{text}",
            command=f"python benchmarks/fuzz_text.py --cases {options.cases} --publish",
        )
    else:
        print(text)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
