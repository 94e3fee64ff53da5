"""The bulk sampler from outside: what it takes, keeps, refuses, and who is asked when."""

import hashlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from forked_process import forked
from privmean.errors import PrivmeanError
from privmean.noise import bulk_draws as bulk
from privmean.noise import noise_source
from privmean.noise.noise_source import ExactNoise, RecordedNoise, SimulatedNoise


def no_words(size):
    raise AssertionError("no entropy is needed here")


@pytest.mark.parametrize(
    "scale",
    [0.0, -1.0, math.nan, math.inf, 2.0**-11, math.nextafter(2.0**52, math.inf), Fraction(3), 3,
     np.float64(3.0)],
)  # fmt: skip
def test_only_a_float_in_the_range_is_a_scale(scale):
    with pytest.raises(ValueError, match="scale"):
        bulk.Table(scale, 2)


@pytest.mark.parametrize("power", [0, 3, -1])
def test_there_are_two_laws(power):
    with pytest.raises(ValueError, match="power"):
        bulk.Table(3.0, power)


@pytest.mark.parametrize("scale", [2.0**-10, 0.7, 63.9, 64.0, 1e9, 2.0**52])
@pytest.mark.parametrize("power", [1, 2])
def test_tables_hold_their_blocks_and_cannot_be_written(scale, power):
    table = bulk.Table(scale, power)
    assert 1 <= table.blocks <= (1021 if power == 1 else 362)
    assert 1 <= table.peak < 2**16
    assert table.block.max() == table.blocks - 1
    for array in (table.block, table.level, table.height):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    "words",
    [
        lambda size: np.zeros(size, dtype=np.int64),
        lambda size: np.zeros(size, dtype=np.dtype(np.uint64).newbyteorder()),
        lambda size: np.zeros(size + 1, dtype=np.uint64),
        lambda size: np.zeros((size, 1), dtype=np.uint64),
        lambda size: np.zeros(0, dtype=np.uint64),
    ],
    ids=["signed", "byte order", "too many", "matrix", "none"],
)
def test_a_source_that_gives_something_else_is_refused(words):
    with pytest.raises(ValueError, match="source"):
        bulk.Table(3.0, 2).draw(5, words)


def test_nothing_is_drawn_for_nothing():
    found = bulk.Table(3.0, 2).draw(0, no_words)
    assert found.shape == (0,)
    assert found.dtype == np.int64


def test_one_draw_where_no_word_is_crossed():
    table = bulk.Table(2.0**30, 2)
    asked = []

    def zeros(size):
        asked.append(size)
        return np.full(size, 5, dtype=np.uint64)

    assert table.draw(1, zeros).tolist() == [5]
    assert asked == [9, 0]


@pytest.mark.parametrize("law", [(1.5, 1), (40.0, 1), (3.0, 2), (2.0**40, 1)], ids=str)
def test_one_draw_is_the_first_accepted_candidate(law):
    """Of any words, and of words at the borders of the kinds of cells, with either sign."""
    table = bulk.Table(*law)
    cells = (0, table.sure - 1, table.sure, table.tail - 1, table.tail, table.tail + 1)
    firsts = [sign << 63 | cell << 47 | place for sign in (0, 1) for cell in cells
              for place in (0, 1) if cell < 2**16]  # fmt: skip
    for number, first in enumerate([None] * 1000 + firsts * 5):
        found = []
        for asked in (table.one, lambda words: next(accepted(table, words))):
            rest, begin = SimulatedNoise(number).bits64, [] if first is None else [first]

            def words(size, rest=rest, begin=begin):
                return np.array([begin.pop()], np.uint64) if begin else rest(size)

            found.append(int(asked(words)))
        assert found[0] == found[1]


def accepted(table, words):
    while True:
        yield from table._candidates(words(1), words)


def test_nothing_is_kept_between_calls():
    """Two calls use the words of two calls, and nothing of the first shows in the second."""
    table, words = bulk.Table(7.0, 1), SimulatedNoise(1).bits64
    table.draw(1000, words)
    before = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in vars(table).items()
    }
    again = table.draw(50, SimulatedNoise(2).bits64)
    assert np.array_equal(again, bulk.Table(7.0, 1).draw(50, SimulatedNoise(2).bits64))
    assert vars(table).keys() == before.keys()
    assert all(np.array_equal(value, before[name]) for name, value in vars(table).items())


def test_a_draw_beyond_64_bits_is_an_error_before_anything_is_returned():
    """1100 ones in a row, below 2^-1000: never a number that wrapped around."""
    table = bulk.Table(2.0**52, 2)
    tail = (table.tail << 47) | 1
    calls = []

    def words(size):
        calls.append(size)
        if len(calls) == 1:
            return np.full(size, tail, dtype=np.uint64)
        ones = len(calls) < 22
        return np.full(size, 2**64 - 1 if ones else 0, dtype=np.uint64)

    with pytest.raises(OverflowError, match="64 bits"):
        table.draw(3, words)
    assert len(calls) > 17


PRINTS = {
    (3.3, 2): "194deda373ef18bc",
    (2.0**43, 2): "1b9437bfe8cf5026",
    (2.0**20, 1): "fe6ce778232bd44c",
}


@pytest.mark.parametrize("law", PRINTS, ids=str)
def test_a_seed_gives_the_same_draws_on_every_machine(law):
    """Integers and correctly rounded operations only: one fingerprint for all platforms."""
    draws = bulk.Table(*law).draw(10**5, SimulatedNoise(19).bits64)
    assert hashlib.sha256(draws.astype("<i8").tobytes()).hexdigest()[:16] == PRINTS[law]


# --- who is asked ---------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """Which sampler is asked, call by call."""
    found = []

    def spied(name, action):
        def call(*arguments):
            found.append(name)
            return action(*arguments)

        return call

    noise_source._before.cache_clear()
    monkeypatch.setattr(bulk.Table, "draw", spied("bulk", bulk.Table.draw))
    monkeypatch.setattr(bulk.Table, "one", spied("bulk", bulk.Table.one))
    for name in ("_laplace", "_gaussian"):
        monkeypatch.setattr(noise_source, name, spied("single", getattr(noise_source, name)))
    return found


@pytest.mark.parametrize(
    ("law", "size", "scale", "sampler"),
    [
        ("gaussian", 1, 2.0**40, "single"),
        ("gaussian", bulk.LEAST[2] - 1, 2.0**40, "single"),
        ("gaussian", bulk.LEAST[2], 2.0**40, "bulk"),
        ("gaussian", bulk.LEAST[2], 2.0**-11, "single"),
        ("gaussian", bulk.LEAST[2], 2.0**-10, "bulk"),
        ("gaussian", bulk.LEAST[2], 2.0**52, "bulk"),
        ("gaussian", bulk.LEAST[2], 2.0**53, "single"),
        ("laplace", bulk.LEAST[1] - 1, Fraction(10, 3), "single"),
        ("laplace", bulk.LEAST[1], Fraction(10, 3), "bulk"),
        ("laplace", bulk.LEAST[1], Fraction(2**52) + Fraction(1, 3), "single"),
        ("laplace", 0, Fraction(10, 3), "single"),
    ],
)
def test_size_and_scale_alone_choose_the_sampler(asked, law, size, scale, sampler):
    for _ in range(2):  # the second time with everything in place
        noise_source._before.cache_clear()
        draws = getattr(ExactNoise(), law)(size, scale)
        assert draws.shape == (size,)
        assert draws.dtype == np.int64
    assert asked == [sampler] * 2


def test_a_scale_that_is_asked_for_again_gets_a_table(asked):
    """Once its draws would have paid for the table; other scales and laws are other tables."""
    for _ in range(20):
        assert ExactNoise().laplace(1, Fraction(10, 3)).shape == (1,)
    assert asked == ["single"] * 10 + ["bulk"] * 10
    ExactNoise().laplace(1, Fraction(7, 3))
    ExactNoise().gaussian(1, 10 / 3)
    assert asked[20:] == ["single"] * 2


def test_the_scale_is_rounded_up_before_the_table_is_made(monkeypatch):
    scales = []
    made = bulk.table
    monkeypatch.setattr(bulk, "table", lambda s, power: scales.append(s) or made(s, power))
    ExactNoise().laplace(600, Fraction(10, 3))
    assert Fraction(scales[0]) >= Fraction(10, 3) > Fraction(math.nextafter(scales[0], 0))


def test_the_entropy_is_that_of_the_operating_system(monkeypatch):
    """Every word comes from os.urandom, and is not drawn ahead."""
    taken = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: taken.append(size) or real(size))
    ExactNoise().gaussian(10_000, 2.0**40)
    assert 8 * 10_000 <= sum(taken) < 8 * 11_500
    before = len(taken)
    ExactNoise().gaussian(300, 2.0**40)
    assert len(taken) > before


def test_recorded_noise_keeps_one_record_a_call_and_replays_it():
    first = RecordedNoise(ExactNoise())
    drawn = [first.gaussian(1000, 2.0**40), first.laplace(3, Fraction(5)), first.gaussian(2, 3.0)]
    kept = first.take_drawn()
    assert [len(item) for item in kept] == [1000, 3, 2]
    second = RecordedNoise(SimulatedNoise(1))
    second.replay(kept)
    again = [
        second.gaussian(1000, 2.0**40),
        second.laplace(3, Fraction(5)),
        second.gaussian(2, 3.0),
    ]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))
    second.require_replayed()
    third = RecordedNoise(SimulatedNoise(1))
    third.replay(kept)
    with pytest.raises(PrivmeanError, match="draws noise differently"):
        third.gaussian(999, 2.0**40)


def test_parents_and_children_draw_their_own(tmp_path):
    noise = ExactNoise()
    noise.gaussian(300, 2.0**40)

    def child(name):
        np.save(tmp_path / name, noise.gaussian(300, 2.0**40))

    for name in ("one.npy", "two.npy"):
        with forked(lambda n=name: child(n)):
            pass
    mine = noise.gaussian(300, 2.0**40)
    parts = [mine, np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy")]
    # 900 draws of scale 2^40: two equal by chance below 2e-7
    assert len(np.unique(np.concatenate(parts))) == 900


def test_threads_share_a_table_and_no_draw():
    bulk.table.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: ExactNoise().gaussian(300, 2.0**50), range(64)))
    draws = np.concatenate(parts)
    assert len(np.unique(draws)) == len(draws)  # equal by chance: below 1e-6
