"""The client half: light, total, frugal. Rounds as public text."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError, BudgetExceededError
from privmean.local import (
    Aggregator,
    Client,
    ClientSplit,
    Ledger,
    Round,
    mean_round,
    person_mean,
    slope,
)
from privmean.local.clients.client import randomize
from privmean.local.reports import decode
from privmean.local.round_builders import ball_round, items_round, vote_round
from privmean.local.two_round_mean import WinsorizedRounds


def test_a_retry_sends_the_same_bytes_and_spends_nothing(tmp_path):
    round_ = mean_round(0, 1, epsilon=[0.5, 1], persons=10)
    ledger = Ledger(tmp_path / "ledger", limit=2)
    client = Client(epsilon=0.9, ledger=ledger)
    first = client.report(round_, 0.3)
    assert decode(first).level == 0
    # another value, another process, another epsilon: what was sent stays what was sent
    again = Client(epsilon=1, ledger=Ledger(tmp_path / "ledger", limit=2))
    assert all(again.report(round_, value) == first for value in (0.3, 0.9, math.nan, None))
    assert again.ledger.spent() == Fraction(1, 2)


def test_the_ledger_stops_before_it_spends(tmp_path):
    ledger = Ledger(tmp_path / "ledger", limit=1.5)
    client = Client(epsilon=1, ledger=ledger)
    rounds = [mean_round(0, 1, epsilon=1, persons=10) for _ in range(3)]
    sent = client.report(rounds[0], 0)
    for round_ in rounds[1:]:
        with pytest.raises(BudgetExceededError):
            client.report(round_, 0)
    assert ledger.spent() == 1
    assert client.report(rounds[0], 1) == sent
    half = mean_round(0, 1, epsilon=0.5, persons=10)
    assert client.report(half, 0) is not None
    assert ledger.spent() == Fraction(3, 2)


def test_a_ledger_of_another_machine_is_used_when_it_is_said_to_be_moved(tmp_path, monkeypatch):
    path = tmp_path / "me.db"
    round_ = mean_round(0, 1, epsilon=1, persons=10)
    sent = Client(epsilon=1, ledger=Ledger(path, limit=2)).report(round_, 0.5)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(ArgumentError, match="moved from another machine"):
        Ledger(path, limit=2)
    moved = Ledger(path, limit=2, moved=True)
    moved.close()
    assert Client(epsilon=1, ledger=moved).report(round_, 0.9) == sent


def test_simulations_are_not_sent_by_mistake():
    from privmean.local.exact_coins import SimulatedEntropy
    from privmean.local.vectorized import randomize_many
    from privmean.noise.noise_source import SimulatedNoise

    round_ = mean_round(0, 1, epsilon=1, persons=10)
    with pytest.raises(ArgumentError):
        Client(epsilon=1, ledger=Ledger(":memory:", limit=1), entropy=SimulatedEntropy(1))
    batch = randomize_many(round_, [0.5], epsilon=1, noise=SimulatedNoise(1))
    with pytest.raises(ArgumentError):
        batch.to_bytes()
    assert len(batch.to_bytes(simulated=True)) == 43
    issued = mean_round(0, 1, epsilon=1, persons=10, issued=True)
    with pytest.raises(ArgumentError):
        randomize_many(issued, [0.5], epsilon=1).to_bytes()


def test_a_crash_while_randomizing_leaves_nothing_behind(tmp_path):
    ledger = Ledger(tmp_path / "ledger", limit=2)

    def crash():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        ledger.once(bytes(32), Fraction(1), crash)
    assert ledger.spent() == 0
    assert ledger.once(bytes(32), Fraction(1), lambda: b"x") == b"x"


def test_a_client_never_answers_above_its_epsilon():
    round_ = mean_round(0, 1, epsilon=[0.5, 1, 2], persons=10)
    assert [decode(randomize(round_, 0, epsilon=e)).level for e in (0.5, 0.99, 1, 16)] == [
        0, 0, 1, 2,
    ]  # fmt: skip
    with pytest.raises(ArgumentError):
        randomize(round_, 0, epsilon=0.4)
    with pytest.raises(ArgumentError):
        Client(epsilon=math.inf, ledger=Ledger(":memory:", limit=1))
    with pytest.raises(ArgumentError):
        randomize(round_, 0, epsilon=1, nonce=b"short")


def test_parts_are_public_disjoint_and_of_the_right_size():
    seed = bytes(range(32))
    parts = [ClientSplit(seed, (20, 80), k) for k in (0, 1)]
    names = [f"person {k}" for k in range(5000)]
    chosen = Counter(tuple(part.chosen(name) for part in parts) for name in names)
    assert set(chosen) == {(True, False), (False, True)}
    assert 850 < chosen[(True, False)] < 1150
    round_ = mean_round(0, 1, epsilon=1, persons=10, part=parts[0])
    asked = next(name for name in names if parts[0].chosen(name))
    other = next(name for name in names if not parts[0].chosen(name))
    ledger = Ledger(":memory:", limit=1)
    assert Client(epsilon=1, ledger=ledger, identity=other).report(round_, 0) is None
    assert ledger.spent() == 0
    assert Client(epsilon=1, ledger=ledger, identity=asked).report(round_, 0)
    with pytest.raises(ArgumentError):
        Client(epsilon=1, ledger=ledger).report(round_, 0)


def test_a_client_of_two_rounds_answers_one():
    protocol = WinsorizedRounds.of(-50, 50, tau=2, epsilon=1, persons=100)
    import numpy as np

    from privmean.local.two_round_mean import Location

    location = Location(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1, bool), 5)
    for k in range(30):
        ledger = Ledger(":memory:", limit=5)
        client = Client(epsilon=1, ledger=ledger, identity=str(k))
        sent = [client.report(r, 3.0) for r in (protocol.vote(), protocol.mean(location))]
        assert sum(item is not None for item in sent) == 1
        assert ledger.spent() == 1


ROUNDS = [
    mean_round(0, 1, epsilon=[0.1, "1/3", 2], persons=10, title="x", closes=5, issued=True),
    mean_round([0, -1], [1, 1], epsilon=1, persons=10, mechanism="piecewise"),
    ball_round(2, 3, epsilon=4, persons=10, mechanism="closest"),
    items_round(7, epsilon=1, persons=10, mechanism="sketch", row_choice="chosen", other=6),
    vote_round(0, 1, 5, epsilon=1, persons=10, part=ClientSplit(bytes(32), (1, 2), 1)),
]


@pytest.mark.parametrize("round_", ROUNDS, ids=lambda r: r.mechanism)
def test_a_round_is_its_text(round_):
    again = Round.from_json(round_.to_json())
    assert again == round_
    assert again.digest == round_.digest
    assert round_.identifier == round_.digest[:8]
    values = json.loads(round_.to_json())
    for name, value in [("persons", 11), ("beta", 0.06), ("title", "other"), ("seed", "11" * 32)]:
        assert Round.from_dict({**values, name: value}).digest != round_.digest


@pytest.mark.parametrize(
    "make",
    [
        lambda: mean_round(0, 1e300, epsilon=1, persons=5),
        lambda: ball_round(1, 10**6, epsilon=1, persons=5),
        lambda: items_round(2**25, epsilon=1, persons=5, mechanism="hadamard"),
        lambda: vote_round(0, 1, 1, epsilon=1, persons=5),
        lambda: ClientSplit(bytes(31), (1,), 0),
    ],
)
def test_impossible_rounds_are_refused(make):
    with pytest.raises(ArgumentError):
        make()


BASE = {"epsilon": 1, "persons": 5}
MAKERS = {
    "lower upper epsilon persons sigma points mechanism beta step closes messages": lambda **said: (
        mean_round(**{"lower": 0, "upper": 1, **BASE, **said})
    ),
    "radius dimension candidates favoured": lambda **said: ball_round(
        **{"radius": 1, "dimension": 3, **BASE, **said}
    ),
    "items other rows row_choice": lambda **said: items_round(**{"items": 5, **BASE, **said}),
    "persons oversize": lambda **said: items_round(5, mechanism="sketch", **{**BASE, **said}),
    "bins": lambda **said: vote_round(0, 1, **BASE, **said),
    "tau persons beta shares half_width reach": lambda **said: WinsorizedRounds.of(
        0, 100, **{"tau": 3, **BASE, **said}
    ).vote(),
}


@pytest.mark.parametrize("names", MAKERS)
def test_what_is_no_number_of_a_round_is_refused_by_name(names):
    for name in names.split():
        for wrong in ("x", b"x", math.nan, {}, object(), 10**400, 1j, ["a"]):
            with pytest.raises(ArgumentError):
                MAKERS[names](**{name: wrong})


def test_a_round_has_nothing_that_its_mechanism_would_pass_over():
    rounds = (
        mean_round(0, 1, **BASE),
        ball_round(1, 3, **BASE),
        items_round(5, **BASE),
        vote_round(0, 1, 4, **BASE),
    )
    more = {
        "lower": [0], "upper": [1], "sigma": [1], "points": [0, 1], "radius": 1, "dimension": 3,
        "items": 5, "other": 1, "bins": 4, "rows": 8, "candidates": 8,
        "favoured": [1],
    }  # fmt: skip
    for round_ in rounds:
        said = json.loads(round_.to_json())
        assert Round.from_dict(said) == round_
        own = (
            {"lower", "upper", "sigma", "points"}
            if round_.mechanism == "one-bit"
            else {"other", "bins", "items"}
        )
        for name in set(more) - set(said) - own:
            with pytest.raises(ArgumentError, match=name):
                Round.from_dict({**said, name: more[name]})


def test_a_round_that_is_over_spends_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l", limit=2)
    client = Client(epsilon=1, ledger=ledger)
    with pytest.raises(ArgumentError, match="is over"):
        client.report(mean_round(0, 1, **BASE, closes=5), 0.5)
    assert ledger.spent() == 0


@pytest.mark.parametrize("wrong", ["{}", b"", None, 7])
def test_a_text_is_no_round_and_no_ticket(wrong):
    client = Client(epsilon=1, ledger=Ledger(":memory:", limit=1))
    with pytest.raises(ArgumentError, match="round"):
        client.report(wrong, 0.5)
    with pytest.raises(ArgumentError, match="round"):
        Aggregator(wrong)
    with pytest.raises(ArgumentError, match="ticket"):
        client.report(mean_round(0, 1, **BASE, issued=True), 0.5, ticket=wrong)
    with pytest.raises(ArgumentError, match="path"):
        Ledger(wrong if wrong != "{}" else "", limit=1)


def test_person_means():
    assert person_mean([1, 2, 6]) == 3
    assert person_mean([1, None, math.nan, "x", 3]) == 2
    assert math.isnan(person_mean([]))
    assert math.isnan(person_mean([None]))
    assert person_mean([1e308] * 4) == pytest.approx(1e308)
    assert person_mean([math.inf, 0]) > 8e307


def test_slopes():
    xs = [[1, float(t)] for t in range(10)]
    assert slope(xs, [3 + 2 * t for t in range(10)]) == pytest.approx([3, 2])
    assert slope([*xs, [1, math.nan]], [3 + 2 * t for t in range(10)] + [0]) == pytest.approx(
        [3, 2]
    )
    assert all(map(math.isnan, slope([[1, 2]] * 5, [1] * 5)))
    assert all(map(math.isnan, slope([[1, 2.0]], [1])))
    assert slope([], []) == []
    assert all(map(math.isnan, slope([[1e300, 1], [1, 1e300]], [1, 1])))
    assert slope([[0.0, 1.0], [1.0, 0.0]], [5, 7]) == pytest.approx([7, 5])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.floats() | st.none(), max_size=3), st.floats() | st.text(max_size=2)),
        max_size=6,
    )
)
def test_slopes_never_raise(rows):
    result = slope([row for row, _ in rows], [y for _, y in rows])
    assert len(result) == max((len(row) for row, _ in rows), default=0)


@pytest.mark.skipif(os.name != "posix", reason="the mode of a file is a thing of POSIX")
def test_only_its_owner_may_read_a_ledger(tmp_path):
    """Also with an open umask, also what lies beside it, also a file that was let go."""
    old = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "ledger", limit=2)
        Client(epsilon=1, ledger=ledger).report(mean_round(0, 1, epsilon=1, persons=9), 0.5)
        beside = list(tmp_path.iterdir())
        assert tmp_path / "ledger" in beside
        assert {path.stat().st_mode & 0o777 for path in beside} == {0o600}
        ledger.close()
        (tmp_path / "ledger").chmod(0o644)
        assert Ledger(tmp_path / "ledger", limit=2).spent() == 1
        assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)
