"""One table in the shape of every source that `read` takes, and all questions at once."""

from __future__ import annotations

import json
import math
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import people_reference as reference
import polars as pl
import pyarrow as pa

from privmean.data import engines
from privmean.data.person_table import ClipInterval, ClippedRows, L2Ball, Standardization
from privmean.data.read import read

COLUMNS = ("x", "y")
MOST = 1 << 22
BOXES = (ClipInterval(-3.0, 7.0), ClipInterval(0.1, 0.30000000000000004))
UNITS = (Standardization(-3.0, 7.0, 0.3, 0.7), Standardization(-1e3, 2.0, -0.1, 3.0))
ENDS = {"lower": tuple(u.ends[0] for u in UNITS), "upper": tuple(u.ends[1] for u in UNITS)}
CUTS = tuple(
    ClippedRows(
        *(L2Ball((0.0, 0.0), size * radius, step) for size in (1, (3 + part) / 4, part)), **ENDS
    )
    for radius, part, step in ((2.0, 0.9, 2.0**-18), (700.0, 0.5, 0.01))
)
SHELLS = (0.0, 2.0**-20, 0.5, 1.0, 2.5, 1e4)
HALF = 2.0**-0.5
PARTS = (  # of a column: sign, step, first, parts
    (0, 1, 2.0**-40, 0, 4096), (0, -1, 2.0, 1, 300), (1, -1, 0.25, 0, 64), (1, 1, 2.0**-108, 0, 8),
    (0, 1, 2.0**64, 0, 3), (1, 1, 2.0**-4, 2**44 - 5, 16),
)  # fmt: skip
EDGES = [2.0**-40, 2.0**40, 1.0, 2 * HALF, HALF, 0.1, 7.0, -3.0, 0.25, 1024 * HALF]
SPECIAL = [
    None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300, -1e300, 5e-324, -5e-324, 2.0**53 + 2,
    2.0**22, -(2.0**22), math.nextafter(2.0**22, 0), 2.0**23 + 0.5,
    0.49999999999999994, -0.5, 2.0**12 + 2.0**-40, 1e-12, -1e-12, 123456789.125,
    *EDGES, *(-e for e in EDGES), *(math.nextafter(e, 0) for e in EDGES),
    *(math.nextafter(-e, 0) for e in EDGES), *(math.nextafter(e, 1e9) for e in EDGES),
]  # fmt: skip


def text(value):
    return "" if value is None else repr(value)


def columns_of(rows):
    ids = [row[0] for row in rows]
    return ids, [row[1] for row in rows], [row[2] for row in rows]


def sources(rows, folder):
    """Name -> (source, keywords) for the rows (id, x, y)."""
    ids, x, y = columns_of(rows)
    kind = pl.String if any(isinstance(i, str) for i in ids) else pl.Int64
    frame = pl.DataFrame(
        {"who": ids, "x": x, "y": y},
        schema={"who": kind, "x": pl.Float64, "y": pl.Float64},
        strict=False,
    )
    arrow = pa.table(
        {
            "who": pa.array(ids, pa.string() if kind == pl.String else pa.int64()),
            "x": pa.array(x, pa.float64()),
            "y": pa.array(y, pa.float64()),
        }
    )
    parquet, csv, lines = (folder / f"t.{end}" for end in ("parquet", "csv", "jsonl"))
    frame.write_parquet(parquet)
    csv.write_text("who,x,y\n" + "".join(f"{text_id(i)},{text(a)},{text(b)}\n" for i, a, b in rows))
    first = '{"who": null, "x": null, "y": null}\n'
    lines.write_text(first + "".join(_json(i, a, b) for i, a, b in rows))
    connection = duckdb.connect()
    connection.register("arrow", arrow)
    connection.execute("CREATE TABLE records AS FROM arrow")
    person = {"person": "who", "values": list(COLUMNS)}
    matrix = np.array(
        [[math.nan if v is None else v for v in (a, b)] for a, b in zip(x, y, strict=True)]
    )
    found = {
        "parquet": (str(parquet), person),
        "csv": (csv, person),
        "json": (str(lines), person),
        "polars": (frame, person),
        "lazy": (frame.lazy(), person),
        "arrow": (arrow, person),
        "pandas": (pd.DataFrame({"who": pd.array(ids, "object"), "x": x, "y": y}).astype(
            {"who": "str" if kind == pl.String else "Int64", "x": float, "y": float}), person),
        "relation": (connection.table("records"), person),
        "array": (
            matrix.reshape(-1, 2), {"person": np.array(ids, dtype=object) if kind == pl.String
            else np.ma.masked_invalid([math.nan if i is None else i for i in ids]),
            "values": list(COLUMNS)},
        ),
    }  # fmt: skip
    return found


def text_id(who):
    return "" if who is None else str(who)


def _json(who, *values):
    words = {None: "null", math.inf: '"inf"', -math.inf: '"-inf"'}
    shown = ["NaN" if v is not None and math.isnan(v) else words.get(v) or repr(v) for v in values]
    return f'{{"who": {json.dumps(who)}, "x": {shown[0]}, "y": {shown[1]}}}\n'


def homes(rows, folder, which, **options):
    """People of engines of our own come into memory, but those of the Parquet file stay."""
    found, people = sources(rows, folder), {}
    for name in which:
        with mock.patch.object(engines, "IN_MEMORY", -1 if name == "parquet" else MOST):
            people[name] = read(found[name][0], **found[name][1], **options)
    return people


def answers(people):
    """Every question, as plain Python integers."""

    def boxes(found):
        return [None if item is None else vars(item) for item in found]

    def ball(found):
        return found.z, found.present, found.besides

    x, y = BOXES
    part = people.split(1, 3)
    units = people.standardized(UNITS)
    opened = people.standardized([unit.opened for unit in UNITS])
    return {
        "size": people.size(),
        "log 0": people.log_counts(0, 0.0).tolist(),
        "log 0.3": people.log_counts(1, 0.3).tolist(),
        "half octaves 0": people.half_octave_counts(0, 0.0).tolist(),
        "half octaves 0.3": people.half_octave_counts(1, 0.3).tolist(),
        "parts": [people.part_counts(*item).tolist() for item in PARTS],
        "column": in_column(people.column_counts(1)),
        "missing": [people.missing(0), people.missing(1)],
        "uniform": people.uniform_counts(0, 0.25, 0.1),
        "uniform tiny": people.uniform_counts(1, 1e-300),
        "pairs": people.pair_counts(0, -45, 41).tolist(),
        "pairs narrow": people.pair_counts(1, -2, 2).tolist(),
        "boxes": boxes(people.interval_sums([x, y])),
        "one box": boxes(people.interval_sums([None, x])),
        "below": people.counts_below(0, (-3.0, -1.0, 0.0, 2.5, 9.0)).tolist(),
        "beyond": [
            people.count_outside(0, -1.0, 2.5),
            people.count_outside(0, -3.0, 2.5),
            people.count_outside(0, 0, 9),
        ],
        "ball": ball(people.ball_sums(L2Ball((0.1, -0.2), 5.0, 2.0**-16))),
        "ball coarse": ball(people.ball_sums(L2Ball((0.0, 0.0), 1.0, 0.25))),
        "ball and sizes": ball(people.ball_sums(L2Ball((0.1, -0.2), 5.0, 2.0**-16), "sizes")),
        "in units": ball(units.ball_sums(L2Ball((0.0, 0.0), 2.0, 2.0**-18), "squares")),
        "tails in units": [
            (item.z, item.present, item.besides, item.tails)
            for item in map(opened.clipped_row_sums, CUTS)
        ],
        "shells in units": units.norm_counts(SHELLS).tolist(),
        "one in units": people.standardized([None, UNITS[0]]).norm_counts(SHELLS).tolist(),
        "in ball": people.count_in_ball((0.0, 0.1), 4.0),
        "part": part.size(),
        "part boxes": boxes(part.interval_sums([x, y])),
        "part of part": part.split(0, 2).pair_counts(0, -20, 20).tolist(),
    }


def in_column(counts):
    """What `ColumnCounts` tells."""
    _, *part = PARTS[2]
    values, people = counts.distribution()
    return [
        counts.present, counts.half_octaves(0.3).tolist(), counts.parts(*part).tolist(),
        counts.outside(0.0, 0.0), (values.tolist(), people.tolist()),
    ]  # fmt: skip


def column_expected(values):
    known, (_, *part) = [v for v in values if v is not None], PARTS[2]
    return [
        len(known), reference.half_octave_counts(known, 0.3), reference.part_counts(known, *part),
        (sum(v < 0 for v in known), sum(v > 0 for v in known)), reference.distribution(known),
    ]  # fmt: skip


def edges():
    """Powers of two, edges of half octaves and of parts, their neighbours, and what is far out."""
    ends = [2.0**k * size for k in range(-72, 72) for size in (1.0, HALF, 0.75)]
    ends += [math.ldexp(1.0, k) for k in (-1074, -1073, -1022, -109, -108, -107, 511, 512, 1023)]
    ends += [k * 2.0**-4 for k in range(2**44 - 7, 2**44 + 15)] + [k / 4 for k in range(70)]
    near = [math.nextafter(e, toward) for e in ends for toward in (0.0, math.inf)]
    sizes = [*ends, *near, 1e-300, 1e200, 1.7976931348623157e308]
    return [*sizes, *(0.0 - v for v in sizes), None]  # no engine holds a zero with a sign


def edges_told(people):
    """Of people with one value each, those of `edges`."""
    return {
        **{f"half octaves {origin}": people.half_octave_counts(0, origin).tolist()
           for origin in (0.0, 1.0, -0.3)},
        **{f"parts {part}": people.part_counts(0, *part).tolist() for _, *part in PARTS},
        "column": in_column(people.column_counts(0)),
    }  # fmt: skip


def edges_expected(values):
    return {
        **{f"half octaves {origin}": reference.half_octave_counts(values, origin)
           for origin in (0.0, 1.0, -0.3)},
        **{f"parts {part}": reference.part_counts(values, *part) for _, *part in PARTS},
        "column": column_expected(values),
    }  # fmt: skip


def expected(rows, cap=None, resolution=2.0**-36):
    """The same from the reference."""
    table = reference.group(rows, resolution)

    def boxes(persons, chosen):
        return [
            None if box is None else reference.interval_sums(
                [v[j] for _, v, _ in persons], [c[j] for _, _, c in persons], cap, box
            )
            for j, box in enumerate(chosen)
        ]  # fmt: skip

    x, y = BOXES
    values = [v for _, v, _ in table]
    first, second = [v[0] for v in values], [v[1] for v in values]
    part = table[1::3]
    units = [
        [reference.in_units(v, unit) for v, unit in zip(row, UNITS, strict=True)] for row in values
    ]
    opened = [
        [reference.in_units(v, unit.opened) for v, unit in zip(row, UNITS, strict=True)]
        for row in values
    ]
    return {
        "size": len(table),
        "log 0": reference.log_counts(first, 0.0),
        "log 0.3": reference.log_counts(second, 0.3),
        "half octaves 0": reference.half_octave_counts(first, 0.0),
        "half octaves 0.3": reference.half_octave_counts(second, 0.3),
        "parts": [reference.part_counts((first, second)[j], *item) for j, *item in PARTS],
        "column": column_expected(second),
        "missing": [reference.missing(first), reference.missing(second)],
        "uniform": reference.uniform_counts(first, 0.25, 0.1),
        "uniform tiny": reference.uniform_counts(second, 1e-300, 0.0),
        "pairs": reference.pair_counts(first, -45, 41),
        "pairs narrow": reference.pair_counts(second, -2, 2),
        "boxes": boxes(table, [x, y]),
        "one box": boxes(table, [None, x]),
        "below": [
            sum(v is not None and v < edge for v in first) for edge in (-3.0, -1.0, 0.0, 2.5, 9.0)
        ],
        "beyond": [
            (
                sum(v is not None and v < low for v in first),
                sum(v is not None and v > up for v in first),
            )
            for low, up in ((-1.0, 2.5), (-3.0, 2.5), (0, 9))
        ],
        "ball": reference.ball_sums(values, L2Ball((0.1, -0.2), 5.0, 2.0**-16)),
        "ball coarse": reference.ball_sums(values, L2Ball((0.0, 0.0), 1.0, 0.25)),
        "ball and sizes": reference.ball_sums(values, L2Ball((0.1, -0.2), 5.0, 2.0**-16), "sizes"),
        "in units": reference.ball_sums(units, L2Ball((0.0, 0.0), 2.0, 2.0**-18), "squares"),
        "tails in units": [reference.clipped_row_sums(opened, cut) for cut in CUTS],
        "shells in units": reference.norm_counts(units, SHELLS),
        "one in units": reference.norm_counts(
            [[reference.in_units(v[1], UNITS[0])] for v in values], SHELLS
        ),
        "in ball": reference.count_in_ball(values, (0.0, 0.1), 4.0),
        "part": len(part),
        "part boxes": boxes(part, [x, y]),
        "part of part": reference.pair_counts([v[0] for _, v, _ in part[0::2]], -20, 20),
    }
