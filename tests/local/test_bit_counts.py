"""Ones are counted alike by NumPy and by bytes."""

import numpy as np
import pytest

from privmean.local.aggregators.tally import bit_count, counted_by_bytes


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.uint64, np.int64])
@pytest.mark.parametrize("shape", [(0,), (7,), (3, 4)])
def test_both_ways_count_the_same(kind, shape):
    most = np.iinfo(kind).max
    words = np.random.default_rng(1).integers(0, most, shape, dtype=kind, endpoint=True)
    expected = [number.bit_count() for number in words.ravel().tolist()]
    for count in (bit_count, counted_by_bytes):
        assert count(words).ravel().tolist() == expected
        assert count(words).shape == shape
    assert counted_by_bytes(words[::-1]).ravel().tolist() == count(words[::-1]).ravel().tolist()
