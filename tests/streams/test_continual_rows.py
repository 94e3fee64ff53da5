"""Whatever arrives becomes rows of doubles, at once or cell by cell alike, and never an error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privmean.streams.record_sources import as_number, as_rows


class Odd:
    def __float__(self):
        raise TypeError


CELLS = {
    "doubles": np.array([1e308, -0.0, math.nan, 5e-324]),
    "singles": np.array([1e-45, 3.3, math.inf, -1.0], dtype=np.float32),
    "halves": np.array([6e-8, 65504, -math.inf, math.nan], dtype=np.float16),
    "integers": np.array([2**63 - 1, -(2**63), 2**53 + 1, 0]),
    "words": np.array([2**64 - 1, 2**64 - 1025, 2**53 + 1, 0], dtype=np.uint64),
    "long doubles": np.array(["1e4000", "1.1", "-1e4000", "nan"], dtype=np.longdouble),
    "flags": np.array([True, False, True, False]),
    "texts": np.array(["1", "x", "", "nan"]),
    "objects": np.array([None, "2.5", Odd(), 10**400], dtype=object),
    "times": np.array(["2020-01-01", "NaT", "2021-01-01", "NaT"], dtype="datetime64[D]"),
}


@pytest.mark.parametrize("name", CELLS)
def test_an_array_is_read_as_its_cells(name):
    """To the last bit, whether it comes as an array or as a list of its cells."""
    cells = CELLS[name]
    with np.errstate(over="ignore"):
        whole = as_rows([cells, [1.0, 2, 3, 4]], 4)
        single = as_rows([list(cells), [1.0, 2, 3, 4]], 4)
    assert whole.tobytes() == single.tobytes()
    assert whole[0].tobytes() == np.array([as_number(cell) for cell in cells]).tobytes()


@pytest.mark.parametrize("value", [3.5, np.float32(3.5), np.array(3.5), np.array([3.5]), "3.5"])
def test_one_number_may_come_in_any_shape(value):
    assert as_rows([value], 1).tolist() == [[3.5]]


@pytest.mark.parametrize(
    "value",
    [None, np.array(None), np.array("x"), np.array(3.5), np.zeros(3), np.zeros((2, 1)),
     np.zeros((0, 2)), [1.0], "12", object(), np.zeros((2, 2))],
)  # fmt: skip
def test_what_is_no_row_is_missing_and_no_error(value):
    """An error would tell something of the value."""
    assert np.isnan(as_rows([value], 2)).all()
