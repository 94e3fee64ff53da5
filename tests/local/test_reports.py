"""The wire format: golden bytes, strictness, fuzzing; the gate's two paths agree."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.aggregator import Aggregator, ReportValidator
from privmean.local.clients.client import randomize
from privmean.local.clients.randomizers import takes_piecewise
from privmean.local.reports import (
    Report,
    ReportError,
    Ticket,
    decode,
    decode_json,
    split,
    ticket_key,
)
from privmean.local.round_builders import ball_round, items_round, mean_round

NAMES = ("one-bit", "piecewise", "hybrid")
ROUNDS = [mean_round(0, 1, epsilon=[1, 2], persons=100, mechanism=name) for name in NAMES]
ROUNDS += [
    ball_round(1, 3, epsilon=2, persons=100, mechanism=name) for name in ("ball-bit", "closest")
]
ROUNDS += [
    items_round(21, epsilon=1, persons=100, mechanism=name)
    for name in ("hadamard", "sketch", "subset")
]
ROUNDS += [items_round(21, epsilon=1, persons=100, row_choice="chosen")]
VALUES = {"ball-bit": [0.1, 0.2, 0.3], "closest": [0.1, 0.2, 0.3]}


def a_report(round_, **options):
    return randomize(round_, VALUES.get(round_.mechanism, 1), epsilon=2, **options)


def sealed(data: bytearray) -> bytes:
    """The bytes with a correct checksum."""
    data[38:42] = struct.pack("<I", zlib.crc32(data[42:], zlib.crc32(data[:38])))
    return bytes(data)


@pytest.mark.parametrize("round_", ROUNDS, ids=lambda r: r.mechanism)
def test_any_changed_byte_is_refused(round_):
    """The checksum covers header and payload; magic, version and lengths have own reasons."""
    data = a_report(round_)
    gate = ReportValidator(round_)
    for place in range(len(data)):
        for change in (1, 0x80, 0xFF):
            bad = bytearray(data)
            bad[place] ^= change
            assert gate.reason(bytes(bad)) != ""
            parsed = gate.parse(bytes(bad))
            assert len(parsed.batch) == 0
            assert parsed.refused.total() == parsed.total >= 1


def test_a_hybrid_report_has_the_form_that_its_nonce_decides():
    hybrid, dice = ROUNDS[2], random.Random(1)
    for nonce in [dice.randbytes(16) for _ in range(60)]:
        report = Report(hybrid.code, hybrid.identifier, nonce, 1, struct.pack("<i", 7))
        expected = "" if takes_piecewise(hybrid, 1, nonce) else "out of range"
        assert ReportValidator(hybrid).reason(report.to_bytes()) == expected


FUZZ = mean_round(0, 1, epsilon=[1, 2], persons=100, seed=bytes(32))
GOOD = [a_report(FUZZ, nonce=bytes([k]) * 16) for k in range(6)]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
@example(b"LD\x01" + b"\xff" * 60)
@example(GOOD[0][:38] + bytes(4) + GOOD[1])
def test_no_bytes_break_the_decoder(data):
    with suppress(ReportError):
        assert decode(data).to_bytes() == data
    assert b"".join(split(data, FUZZ)) == data
    parsed = ReportValidator(FUZZ).parse(data)
    assert len(parsed.batch) + parsed.refused.total() == parsed.total


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(GOOD),
            st.binary(max_size=50),
            st.tuples(st.sampled_from(GOOD), st.integers(0, 42), st.integers(1, 255)).map(
                lambda t: t[0][: t[1]] + bytes([t[0][t[1]] ^ t[2]]) + t[0][t[1] + 1 :]
            ),
            st.tuples(st.sampled_from(GOOD), st.integers(1, 42)).map(lambda t: t[0][: t[1]]),
        ),
        max_size=8,
    )
)
def test_the_fast_and_the_slow_path_agree_on_any_mixture(pieces):
    stream = b"".join(pieces)
    gate = ReportValidator(FUZZ)
    parsed = gate.parse(stream)
    reasons = [gate.reason(piece) for piece in split(stream, FUZZ)]
    assert parsed.refused == Counter(reason for reason in reasons if reason)
    good = [piece for piece, reason in zip(split(stream, FUZZ), reasons, strict=True) if not reason]
    assert parsed.batch.to_bytes(simulated=True) == b"".join(good)
    # what is refused never moves the aggregate
    server, clean = Aggregator(FUZZ), Aggregator(FUZZ)
    server.add(stream)
    clean.add(b"".join(good))
    assert (server.tally.sums == clean.tally.sums).all()
    assert server.tally.fingerprint == clean.tally.fingerprint
    assert server.tally.reports == len({piece[12:28] for piece in good})


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=9), x, max_size=7),
        ).map(json.dumps),
        st.dictionaries(
            st.sampled_from(["version", "mechanism", "round", "nonce", "level", "payload", "mac"]),
            st.one_of(st.integers(-1, 70000), st.sampled_from(["00", "01", "one-bit", "0" * 16])),
        ).map(json.dumps),
    )
)
@example("[" * 100_000)
@example('{"version":1,"mechanism":"one-bit","round":"AA","nonce":"","level":0,"payload":""}')
def test_no_text_breaks_the_json_decoder(text):
    with suppress(ReportError):
        report = decode_json(text)
        assert decode(report.to_bytes()) == report
    parsed = ReportValidator(FUZZ).parse_json(text.encode(errors="replace"))
    assert len(parsed.batch) == 0


def test_json_is_strict():
    good = json.loads(decode(GOOD[0]).to_json())
    assert decode_json(json.dumps(good)).to_bytes() == GOOD[0]
    for name, value in [
        ("version", 1.0), ("version", True), ("level", "0"), ("level", -1), ("level", 65536),
        ("payload", "1"), ("payload", "0G"), ("nonce", good["nonce"].upper() + "zz"),
        ("nonce", "AB" * 16), ("round", "00"), ("mechanism", 1), ("mac", "00"), ("extra", 1),
    ]:  # fmt: skip
        with pytest.raises(ReportError):
            decode_json(json.dumps({**good, name: value}))
    for name in good:
        with pytest.raises(ReportError):
            decode_json(json.dumps({k: v for k, v in good.items() if k != name}))
    server = Aggregator(FUZZ)
    lines = b"\n".join(decode(item).to_json().encode() for item in GOOD)
    receipt = server.add(lines + b"\n\nnonsense\n", json_lines=True)
    assert (receipt.accepted, receipt.rejected) == (6, {"not a report": 1})


def test_tickets_bind_nonce_and_level():
    round_ = mean_round(0, 1, epsilon=[1, 2], persons=10, issued=True)
    secret, nonce = bytes(32), bytes(range(16))
    tickets = [
        Ticket(round_.identifier, nonce, k, ticket_key(secret, round_.identifier, nonce, k))
        for k in (0, 1)
    ]
    assert Ticket.from_text(tickets[1].to_text()) == tickets[1]
    reports = [a_report(round_, ticket=ticket) for ticket in tickets]
    gate = ReportValidator(round_, secret=secret)
    assert [gate.reason(item) for item in reports] == ["", ""]
    assert gate.parse(b"".join(reports)).refused == {}
    assert decode_json(decode(reports[0]).to_json()).to_bytes() == reports[0]
    for none in (None, b"", b"short", ()):  # would refuse every honest report for good
        with pytest.raises(ArgumentError, match="secret"):
            ReportValidator(round_, secret=none)
    other = ReportValidator(round_, secret=b"\x01" * 32)
    assert other.reason(reports[0]) == "not issued"
    assert other.parse(reports[0]).refused == {"not issued": 1}
    for place in (12, 28, 42, 50):  # nonce, level, payload, code
        bad = bytearray(reports[0])
        bad[place] ^= 1
        body = sealed(bad[:43])
        assert gate.reason(body + bytes(bad[43:])) == "not issued"
    assert gate.reason(reports[0][:43]) == "wrong length"
    with pytest.raises(PrivmeanError):
        Ticket.from_text("nonsense")
    with pytest.raises(PrivmeanError):
        a_report(round_)  # no ticket
    with pytest.raises(PrivmeanError):
        randomize(round_, 1, epsilon=1, ticket=tickets[1])  # asks for more than the client allows
    other = mean_round(0, 1, epsilon=[1, 2], persons=10, issued=True)
    with pytest.raises(PrivmeanError):
        a_report(other, ticket=tickets[0])
    with pytest.raises(PrivmeanError):
        a_report(FUZZ, ticket=tickets[0])
