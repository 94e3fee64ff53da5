"""One value from a Parquet record to a printed number: eight named stops, no room entered again.

A room is a folder of `src/privmean`, or a module beside them. The stops are those of
docs/architecture.md; each counts where it hands the value on, when its function returns.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

import privmean
from privmean.cli.app import run

ROOT = str(Path(privmean.__file__).parent)
STOPS = (
    ("data/parquet_files.py", "ParquetTable.records"),  # the engine's scan holds the record
    ("data/person_records.py", "person_rows"),  # rounded, limited, part of its person's mean
    ("data/array_table.py", "ArrayPersonTable.interval_sums"),  # clipped, part of one whole number
    ("mechanisms/clipped_sum.py", "SumsOver.draw"),  # with noise: no longer private
    ("estimators/means/bounded.py", "BoundedMeanPlan.run"),  # part of an estimate
    ("pipeline.py", "execute"),  # of a release, with its privacy accounting
    ("inference/interval.py", "RowIntervals.interval"),  # between two ends
    ("release/formatting.py", "output"),  # a table
)


def returned(call):
    """(file, function) of everything in the package that returned, in order."""
    found = []

    def note(frame, event, _):
        code = frame.f_code
        if event == "return" and code.co_filename.startswith(ROOT):
            found.append((code.co_filename[len(ROOT) + 1 :], code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_a_value_passes_eight_stops_and_no_room_twice(tmp_path):
    import duckdb

    path = str(tmp_path / "t.parquet")
    duckdb.sql(
        "COPY (SELECT i // 3 AS who, 1.5 + (i * 7919 % 1000) / 250 AS x FROM range(3000) t(i)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    said = ["mean", path, "--person", "who", "--value", "x", "--bounds", "1", "6"]
    printed, status = io.StringIO(), []
    with redirect_stdout(printed):
        found = returned(lambda: status.append(run([*said, "--epsilon", "1"])))
    assert status == [0]
    assert "estimate" in printed.getvalue()
    places = [found.index(stop) for stop in STOPS]
    assert places == sorted(places)
    rooms = [file.split("/")[0] for file, _ in STOPS]
    entered = [room for k, room in enumerate(rooms) if k == 0 or room != rooms[k - 1]]
    assert len(STOPS) <= 8
    assert len(entered) == len(set(entered)) == 6
