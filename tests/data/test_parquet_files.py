"""Files of one folder are compared by their declared types: no record decides for a folder."""

from __future__ import annotations

import decimal
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privmean as pm

HALF = 1000
IDS = np.arange(2 * HALF)
KINDS = {
    "int64": pa.int64(), "int32": pa.int32(), "uint64": pa.uint64(), "double": pa.float64(),
    "float": pa.float32(), "decimal": pa.decimal128(20, 1), "text": pa.string(),
    "boolean": pa.bool_(), "duration": pa.duration("s"),
}  # fmt: skip
WHOLE = {"int64", "int32", "uint64"}
DOUBLES = {"float", "double"}
EXTREMES = {
    "int64": [2**63 - 1, -(2**63)], "int32": [2**31 - 1], "uint64": [2**64 - 1, 2**63],
    "double": [1e30, -1e300, float("nan"), float("inf"), 0.5], "float": [3e38, float("nan")],
    "decimal": [decimal.Decimal("9" * 19 + ".9"), decimal.Decimal("0.3")],
    "text": ["x", "", "1e400", "NaN"], "boolean": [True], "duration": [2**62],
}  # fmt: skip


def column(kind, items):
    if kind == "text":
        return pa.array([str(item) for item in items], KINDS[kind])
    if kind == "boolean":
        return pa.array([bool(item) for item in items], KINDS[kind])
    if kind == "decimal":
        return pa.array([decimal.Decimal(str(item)) for item in items], KINDS[kind])
    return pa.array(items, KINDS[kind])


def outcome(folder, **said):
    """What a call tells: how many people, or the words of a refusal."""
    try:
        return pm.read(folder, person="p", values="x", **said).size()
    except pm.PrivmeanError as refusal:
        return str(refusal).replace(str(folder), "FOLDER")


@pytest.mark.slow
@pytest.mark.parametrize("last", [3.0, np.nan, np.inf, 1e30])
def test_one_record_does_not_refuse_a_folder(tmp_path, last):
    first = pa.table({"p": IDS[:HALF], "x": np.full(HALF, 3)})
    second = pa.table({"p": IDS[HALF:], "x": np.r_[np.full(HALF - 1, 3.0), last]})
    pq.write_table(first, tmp_path / "2020.parquet")
    pq.write_table(second, tmp_path / "2021.parquet")
    found = pm.mean(tmp_path, "x", person="p", bounds=(0, 8), epsilon=1)
    assert found.n == 2 * HALF


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(KINDS, 2)))
def test_types_alone_say_whether_values_are_read(tmp_path, one, other):
    """The same words whatever one record of the later file holds."""
    said = set()
    for odd in [1, *EXTREMES[other]]:
        for name, kind, items in (("1", one, [1, 0]), ("2", other, [1, odd])):
            ids = [f"{name}a", f"{name}b"]
            pq.write_table(
                pa.table({"p": ids, "x": column(kind, items)}), tmp_path / f"{name}.parquet"
            )
        said.add(outcome(tmp_path))
    assert len(said) == 1
    read = not {one, other} & {"text", "duration"}
    assert said == {4} if read else "does not hold numbers" in str(said) or "differ" in str(said)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(KINDS, 2)))
def test_types_alone_say_whether_ids_are_read(tmp_path, one, other):
    said = set()
    for odd in [1, *EXTREMES[other]]:
        for name, kind, items in (("1", one, [0, 0]), ("2", other, [0, odd])):
            table = pa.table({"p": column(kind, items), "x": [1.0, 2.0]})
            pq.write_table(table, tmp_path / f"{name}.parquet")
        said.add(isinstance(outcome(tmp_path), str))
    kinds = {one, other}
    assert said == {not (kinds <= WHOLE | {"text"} or kinds <= DOUBLES)}


def test_whole_ids_of_several_widths_are_the_same_people(tmp_path):
    top = 2**60
    pq.write_table(pa.table({"p": [top, top + 1, 5], "x": [1.0, 2.0, 3.0]}), tmp_path / "1.parquet")
    for kind, people in ((pa.int32(), 3), (pa.uint64(), 3), (pa.string(), 3)):
        later = pa.table({"p": pa.array(["5"] if kind == pa.string() else [5], kind), "x": [5.0]})
        pq.write_table(later, tmp_path / "2.parquet")
        values = pm.read(tmp_path, person="p", values="x").collect().values
        assert sorted(values[:, 0]) == [1.0, 2.0, 4.0]
        assert len(values) == people


def test_decimals_of_a_later_file_are_not_rounded(tmp_path):
    pq.write_table(pa.table({"p": [1, 2], "x": [3, 3]}), tmp_path / "1.parquet")
    tenths = pa.array([decimal.Decimal("3.3"), decimal.Decimal("3.6")])
    pq.write_table(pa.table({"p": [3, 4], "x": tenths}), tmp_path / "2.parquet")
    values = pm.read(tmp_path, person="p", values="x").collect().values
    assert sorted(values[:, 0]) == [3.0, 3.0, pytest.approx(3.3), pytest.approx(3.6)]


def test_keys_of_whole_numbers_and_doubles(tmp_path):
    """A column with gaps is one of doubles in the file that has them."""
    for name, keys in (("1", pa.array([1, 2] * 500)), ("2", pa.array([1.0, 2.0] * 500))):
        ids = IDS[:HALF] if name == "1" else IDS[HALF:]
        table = pa.table({"p": ids, "x": IDS[:HALF] % 5 * 1.0, "g": keys})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    found = pm.mean(tmp_path, "x", person="p", by="g", keys=[1, 2], epsilon=50)
    assert [round(row.n, -1) for row in found.rows()] == [HALF, HALF]


def test_a_column_that_some_files_lack_is_refused_by_name(tmp_path):
    pq.write_table(pa.table({"p": [1], "x": [1.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"p": [2], "y": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(pm.SchemaError, match="column 'x' is in some of the files"):
        pm.read(tmp_path, person="p", values="x")
    pq.write_table(pa.table({"y": ["1"], "x": [2.0], "p": [2]}), tmp_path / "2.parquet")
    assert pm.read(tmp_path, person="p", values="x").size() == 2  # another order, and more columns
