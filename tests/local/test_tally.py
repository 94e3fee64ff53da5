"""Tallies: the same bytes in any grouping and order, files in bounded memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import PrivmeanError
from privmean.local.aggregators import aggregator as files_module
from privmean.local.aggregators.aggregator import Aggregator, ReportValidator, aggregate_files
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import (
    Batch,
    Tally,
    bit_count,
    counted_by_bytes,
    tally,
)
from privmean.local.reports import decode
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise

N = 240


def rounds():
    for name in ("one-bit", "piecewise", "hybrid"):
        yield mean_round([0, 0], [1, 2], epsilon=[1, 3], persons=N, mechanism=name), 2
    for name in ("ball-bit", "closest"):
        yield ball_round(1, 4, epsilon=[1, 3], persons=N, mechanism=name), 4
    for name in ("hadamard", "sketch", "subset"):
        yield items_round(12, epsilon=[1, 3], persons=N, mechanism=name), 0
    yield vote_round([0, 0], [1, 1], 5, epsilon=[1, 3], persons=N), 2


def make(round_, width, n=N, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 12, n) if width == 0 else rng.uniform(-0.5, 1, (n, width))
    own = rng.choice([1.0, 3.0], n)
    return randomize_many(round_, values, epsilon=own, noise=SimulatedNoise(seed))


CASES = [(round_, make(round_, width)) for round_, width in rounds()]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(range(len(CASES))))
def test_any_grouping_and_order_gives_the_same_bytes(seed, case):
    round_, batch = CASES[case]
    whole = tally(batch).to_bytes()
    dice = random.Random(seed)
    order = list(range(N))
    dice.shuffle(order)
    cuts = sorted(dice.sample(range(1, N), dice.randint(1, 8)))
    groups = [order[a:b] for a, b in zip([0, *cuts], [*cuts, N], strict=True)]
    parts = [
        tally(Batch(round_, batch.nonces[g], batch.levels[g], batch.payload[g], batch.secure))
        for g in groups
    ]
    while len(parts) > 1:
        first = parts.pop(dice.randrange(len(parts)))
        second = parts.pop(dice.randrange(len(parts)))
        if dice.random() < 0.5:  # over the wire in between
            first = Tally.from_bytes(round_, first.to_bytes())
        parts.append(first.merge(second))
    assert parts[0].to_bytes() == whole


@pytest.mark.parametrize(("round_", "batch"), CASES, ids=[c[0].mechanism for c in CASES])
def test_a_stored_tally_is_the_tally(round_, batch, monkeypatch):
    monkeypatch.setattr("privmean.local.aggregators.tally.CHUNK", 7)
    counted = tally(batch)
    data = counted.to_bytes()
    again = Tally.from_bytes(round_, data)
    assert again.to_bytes() == data
    assert again.squares == counted.squares
    assert estimate(again).to_dict() == estimate(counted).to_dict()
    for place in (0, 9, 60, len(data) // 2, len(data) - 1):
        bad = bytearray(data)
        bad[place] ^= 1
        with pytest.raises(PrivmeanError):
            Tally.from_bytes(round_, bytes(bad))
    with pytest.raises(PrivmeanError):
        Tally.from_bytes(round_, data[:20])


def test_tallies_of_other_rounds_are_refused():
    first, second = (mean_round(0, 1, epsilon=1, persons=5) for _ in range(2))
    with pytest.raises(PrivmeanError):
        Tally.empty(first).merge(Tally.empty(second))
    with pytest.raises(PrivmeanError):
        Tally.from_bytes(first, Tally.empty(second).to_bytes())


def test_squares_are_exact_integers():
    round_ = mean_round(0, 1, epsilon=0.001, persons=N, mechanism="piecewise")
    batch = randomize_many(round_, np.zeros(N), epsilon=0.001, noise=SimulatedNoise(1))
    y = [int(x) for x in batch.payload.view("<i4")[:, 0]]
    assert max(map(abs, y)) > 2**14
    assert tally(batch).squares == [sum(x * x for x in y)]
    assert int(tally(batch).sums[0, 0]) == sum(y)


def test_the_fingerprint_is_the_sum_of_all_nonces(monkeypatch):
    monkeypatch.setattr("privmean.local.aggregators.tally.CHUNK", 50)
    round_ = mean_round(0, 1, epsilon=1, persons=N, mechanism="one-bit")
    batch = randomize_many(round_, np.linspace(0, 1, N), epsilon=1, noise=SimulatedNoise(2))
    words = np.random.default_rng(3).integers(0, 2**64, (N, 2), dtype=np.uint64)
    words[:100] = 2**64 - 1
    words[100:150] = 2**32 - 1
    total = tally(Batch(round_, words, batch.levels, batch.payload, batch.secure))
    total = total.merge(tally(batch))
    nonces = [*words.tolist(), *batch.nonces.tolist()]
    assert total.fingerprint == sum(low + (high << 64) for low, high in nonces) % 2**128
    ones = 2 * int(batch.payload[:, 0].sum())
    assert (total.counts.tolist(), total.sums.tolist()) == ([2 * N], [[2 * ones - 2 * N]])


def write(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("block", [100, 1 << 23])
def test_files_give_the_bytes_of_one_server(tmp_path, monkeypatch, block):
    monkeypatch.setattr(files_module, "BLOCK", block)
    round_ = mean_round(0, 1, epsilon=[1, 3], persons=1000)
    batch = make(round_, 1, n=900)
    size = 43
    stream = batch.to_bytes(simulated=True)
    reports = [stream[k : k + size] for k in range(0, len(stream), size)]
    changed = bytearray(reports[0])
    changed[42] ^= 1
    import zlib

    changed[38:42] = zlib.crc32(changed[42:], zlib.crc32(changed[:38])).to_bytes(4, "little")
    pieces = {
        "a.bin": b"".join(reports[:300]),
        "b.bin": b"".join(reports[290:500]) + b"junk" + b"".join(reports[500:600]),
        "c.jsonl": b"\n".join(decode(r).to_json().encode() for r in reports[600:700]) + b"\n{}\n",
        "d.bin": bytes(changed) + b"".join(reports[700:]) + reports[0] + reports[5][:20],
        "e.bin": b"",
    }
    paths = [write(tmp_path, name, data) for name, data in pieces.items()]
    server = Aggregator(round_)
    repeated = 0
    for name, data in pieces.items():
        repeated += server.add(data, json_lines=name.endswith("jsonl")).duplicate
    counted, again = aggregate_files(round_, paths, bucket_bytes=2000)
    assert counted.to_bytes() == server.tally.to_bytes()
    assert again == repeated == 11
    assert counted.reports == 900
    assert counted.rejected == {"conflict": 1, "not a report": 1, "truncated": 2}
    clean, _ = aggregate_files(round_, [write(tmp_path, "f", stream)])
    assert (clean.sums == counted.sums).all()
    # tallies mix with reports, and the same one twice is refused
    half = tally(batch.take(np.arange(900) < 450)).to_bytes()
    rest = write(tmp_path, "g", b"".join(reports[450:]))
    other = write(tmp_path, "h", half)
    mixed, _ = aggregate_files(round_, [other, rest])
    assert mixed.sums.tolist() == clean.sums.tolist()
    assert mixed.fingerprint == clean.fingerprint
    with pytest.raises(PrivmeanError):
        aggregate_files(round_, [other, write(tmp_path, "i", half)])


def test_many_buckets_and_long_reports(tmp_path):
    round_ = items_round(2000, epsilon=1, persons=300, mechanism="subset")
    batch = randomize_many(round_, np.arange(300) % 7, epsilon=1, noise=SimulatedNoise(3))
    path = write(tmp_path, "x", batch.to_bytes(simulated=True) * 2)
    counted, again = aggregate_files(round_, [path], bucket_bytes=10_000)
    assert again == 300
    parsed = ReportValidator(round_).parse(batch.to_bytes(simulated=True))
    assert counted.to_bytes() == tally(parsed.batch).to_bytes()


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
