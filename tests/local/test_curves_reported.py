"""Curves from reports that name their design point, over the wire and from a tally alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privmean.errors import ArgumentError
from privmean.local import Client, Ledger, Round, Tally, curve, mean_round, randomize, tally_many
from privmean.local.aggregators.aggregator import Aggregator, ReportValidator
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import tally
from privmean.local.exact_coins import signal
from privmean.local.reports import HEADER_SIZE, Ticket, decode, payload_size, ticket_key
from privmean.local.round import SCALARS
from privmean.local.round_builders import items_round
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise

POINTS = tuple(k / 8 for k in range(9))


def made(mechanism="one-bit", n=4000, epsilon=(1, 2), **options):
    round_ = mean_round(
        0, 10, epsilon=list(epsilon), persons=n, mechanism=mechanism, points=POINTS, **options
    )
    rng = np.random.default_rng(4)
    place = rng.integers(0, len(POINTS), n)
    values = 5 + 3 * np.sin(2 * math.pi * np.array(POINTS)[place])
    own = np.where(rng.random(n) < 0.5, *epsilon)
    return round_, randomize_many(round_, values, epsilon=own, points=place), place


@pytest.mark.parametrize("mechanism", SCALARS)
def test_a_tally_of_points_gives_the_curve(mechanism):
    """Reports in the table form, through the gate, summed a point: the weighted mean near x."""
    round_, batch, place = made(mechanism)
    assert payload_size(round_) == (5 if mechanism == "one-bit" else 8)
    parsed = ReportValidator(round_).parse(batch.to_bytes())
    assert (len(parsed.batch), parsed.refused) == (4000, {})
    counted = Tally.from_bytes(round_, tally(parsed.batch).to_bytes())
    by_point = counted.counts.reshape(2, len(POINTS), -1).sum(axis=(0, 2))
    assert by_point.tolist() == np.bincount(place, minlength=len(POINTS)).tolist()
    at = np.linspace(0, 1, 5)
    truth = 5 + 3 * np.sin(2 * math.pi * at)
    distance = np.abs(np.array(POINTS)[place] - at[:, None]) / 0.3
    kernel = np.maximum(1 - distance**2, 0.0)
    for weights in ("tested", "minimax", "uniform"):
        found = curve(counted, at, bandwidth=0.3, weights=weights)
        assert (np.abs(found.value - truth) < 6 * found.spread + 20 * 0.3).all()
        if mechanism == "one-bit":
            c = np.array([1 / signal(item) for item in round_.menu])[batch.levels]
            y = (2.0 * batch.payload[:, -1] - 1.0) * c
            w = kernel * (1.0 if found.used == "uniform" else c**-2)
            assert found.value == pytest.approx(5 + 5 * (w @ y) / w.sum(axis=1), rel=1e-9)
            assert found.effective == pytest.approx(w.sum(axis=1) ** 2 / (w**2).sum(axis=1))
    assert curve(counted, bandwidth=0.3).at.tolist() == list(POINTS)
    found = estimate(counted)
    assert found.value.shape == (len(POINTS),)
    each = 5 + 3 * np.sin(2 * math.pi * np.array(POINTS))
    assert (np.abs(found.raw - each) < 6 * found.spread).all()
    assert "design point" in found.target


def test_a_shift_of_the_range_shifts_the_curve():
    """Bounds far from zero lose no digits."""
    at = np.array([0.25, 0.5])
    found = []
    for offset in (0.0, 1e9):
        round_ = mean_round(
            offset, offset + 1, epsilon=1, persons=900, points=POINTS, seed=bytes(32)
        )
        counted = tally_many(round_, np.full(900, offset), epsilon=1, points=np.arange(900) % 9)
        found.append((curve(counted, at, bandwidth=0.3), offset))
    for item, offset in found:
        assert (item.spread > 0.02).all()
        assert (item.spread < 0.2).all()
        assert (np.abs(item.value - offset) < 6 * item.spread).all()


def test_one_client_s_report_names_its_point(tmp_path):
    round_, _, _ = made(issued=False)
    client = Client(epsilon=1, ledger=Ledger(tmp_path / "l.db", limit=1))
    for wrong in (None, -1, 9, 1.5):
        with pytest.raises(ArgumentError, match="point"):
            client.report(round_, 3.0, point=wrong)
    report = client.report(round_, 3.0, point=7)
    assert client.report(round_, 9.0, point=7) == report
    assert decode(report).payload[:4] == b"\x07\x00\x00\x00"
    server = Aggregator(round_)
    assert server.add(report).accepted == 1
    assert server.tally.counts.reshape(2, -1)[0].tolist() == [0] * 7 + [1, 0]
    again = Round.from_json(round_.to_json())
    assert again == round_
    assert again.points == POINTS
    with pytest.raises(ArgumentError, match="is not used by this round"):
        randomize(mean_round(0, 1, epsilon=1, persons=9), 0.5, epsilon=1, point=0)
    with pytest.raises(ArgumentError, match="not used by this round"):
        randomize_many(
            mean_round(0, 1, epsilon=1, persons=9), [0.5], epsilon=1, points=np.array([0])
        )


def test_a_point_that_is_none_is_refused():
    round_, batch, _ = made(n=50)
    payload = batch.payload.copy()
    payload[:3, 0] = 9
    payload[3, 3] = 128
    odd = type(batch)(round_, batch.nonces, batch.levels, payload)
    parsed = ReportValidator(round_).parse(odd.to_bytes())
    assert parsed.refused == {"out of range": 4}
    for k, data in enumerate(odd.to_bytes()[i : i + HEADER_SIZE + 5] for i in range(0, 235, 47)):
        assert ReportValidator(round_).reason(data) == ("out of range" if k < 4 else "")


def test_points_that_do_not_fit_a_round_are_refused():
    for points in ([1, 1], [math.nan]):
        with pytest.raises(ArgumentError, match="points"):
            mean_round(0, 1, epsilon=1, persons=9, points=points)
    with pytest.raises(ArgumentError, match="design points"):
        curve(Tally.empty(mean_round(0, 1, epsilon=1, persons=9)), bandwidth=1)


def test_few_reports_are_no_curve():
    """Two equal bits have no spread of their own: they were shown as certain, out of the range."""
    round_ = mean_round(0, 1, epsilon=[1, 2], persons=99, points=[0.0, 0.5, 1.0])
    noise = SimulatedNoise(2)
    for n, shown in ((0, False), (1, False), (2, False), (300, True)):
        for _ in range(4):
            given = {"epsilon": np.resize([1.0, 2.0], n), "points": np.zeros(n, dtype=int)}
            batch = randomize_many(round_, np.ones(n), **given, noise=noise)
            found = curve(tally(batch), bandwidth=0.2)
            assert np.isfinite(found.value).tolist() == [shown, False, False]
            if n:
                assert (found.spread[0] < 0.5) == shown


def test_a_client_with_a_ticket_chooses_nothing():
    """Row, coordinate, direction and branch follow from the ticket's nonce; a round whose clients
    choose their row issues none. Without tickets all of a client's reports may fall on one
    coordinate."""
    with pytest.raises(ArgumentError, match="row_choice"):
        items_round(8, epsilon=1, persons=9, issued=True, row_choice="chosen")
    rng = np.random.default_rng(1)
    for issued in (False, True):
        round_ = mean_round([0] * 10, [1] * 10, epsilon=1, persons=999, issued=issued)
        liked = (
            nonce for nonce in iter(lambda: rng.bytes(16), b"") if not round_.coordinate(nonce)
        )
        made = []
        for nonce in (next(liked) for _ in range(30)):
            # of a ticket that was never issued the key can only be guessed
            held = Ticket(round_.identifier, nonce, 0, rng.bytes(32)) if issued else None
            given = {} if issued else {"nonce": nonce}
            made.append(randomize(round_, [1.0] * 10, epsilon=1, ticket=held, **given))
        parsed = ReportValidator(round_, secret=b"s" * 32).parse(b"".join(made))
        if issued:
            assert parsed.refused == {"not issued": 30}
        else:
            assert tally(parsed.batch).counts.tolist() == [30] + [0] * 9


def test_tickets_of_an_older_secret_count_until_it_is_withdrawn():
    round_ = mean_round(0, 1, epsilon=1, persons=9, issued=True)
    old, new = b"o" * 32, b"n" * 32
    reports = []
    for secret in (old, new):
        nonce = bytes([secret[0]]) * 16
        ticket = Ticket(
            round_.identifier, nonce, 0, ticket_key(secret, round_.identifier, nonce, 0)
        )
        reports.append(randomize(round_, 0.5, epsilon=1, ticket=ticket))
    stream = b"".join(reports)
    assert len(ReportValidator(round_, secret=(new, old)).parse(stream).batch) == 2
    assert ReportValidator(round_, secret=new).parse(stream).refused == {"not issued": 1}
    assert ReportValidator(round_, secret=bytes(32)).parse(stream).refused == {"not issued": 2}
