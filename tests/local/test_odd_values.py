"""Odd values, odd rounds, crashes: a client neither raises by its value nor draws twice."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import shutil
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError, PrivmeanError
from privmean.local import Client, Ledger, Round, mean_round, person_mean, slope
from privmean.local.aggregators.aggregator import ReportValidator
from privmean.local.clients.client import randomize
from privmean.local.round_builders import ball_round, items_round, vote_round
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.local.vectorized import item_indices, randomize_many, table_of, unit_values
from privmean.noise.noise_source import SimulatedNoise


class Odd:
    """A value whose every use fails, with an error of its own."""

    def __float__(self):
        raise RuntimeError("secret")

    def __iter__(self):
        raise RuntimeError("secret")

    def __gt__(self, other):
        raise RuntimeError("secret")


class Late(Odd):
    """Fails after some entries."""

    def __iter__(self):
        yield 1.0
        raise ZeroDivisionError("secret")


class Huge(Odd):
    def __float__(self):
        raise OverflowError("secret")


ODD = [
    None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 10**400, -(10**400), 2**64,
    2**53 + 1, True, "7", "x", "", b"7", "9" * 5000, Decimal("sNaN"), Decimal("1e999999"),
    Fraction(10**400, 3), 1j, [], [None], [1, 2, 3], [1, "x", 3], [[1]], {}, {"a": 1}, object(),
    -3, 2.5, range(2), [math.nan, 1, 2], [math.inf, -math.inf, 0], [1e308] * 3, [5e-324] * 3,
    Odd(), Late(), Huge(),
    np.datetime64("NaT"), np.array([1.0, 2.0]), np.ma.masked,
]  # fmt: skip
ROUNDS = [
    mean_round(0, 10, epsilon=[1, 2], persons=9, mechanism=name)
    for name in ("one-bit", "piecewise", "hybrid")
]
ROUNDS += [mean_round([0, 0, 0], [1, 1, 1], epsilon=1, persons=9)]
ROUNDS += [
    ball_round(2, d, epsilon=2, persons=9, mechanism=name)
    for name, d in (("ball-bit", 1), ("ball-bit", 3), ("closest", 3))
]
ROUNDS += [
    items_round(21, epsilon=1, persons=9, mechanism=name, other=other)
    for name in ("hadamard", "sketch", "subset")
    for other in (None, 20)
]
ROUNDS += [items_round(2**53, epsilon=1, persons=9, mechanism="sketch")]
ROUNDS += [vote_round(-1, 1, 5, epsilon=1, persons=9)]
IDS = [f"{item.mechanism} {k}" for k, item in enumerate(ROUNDS)]


@pytest.mark.parametrize("round_", ROUNDS, ids=IDS)
def test_no_value_raises_and_every_value_sends_a_good_report(round_):
    gate = ReportValidator(round_)
    for value in (*ODD, itertools.count()):  # a vector without an end is of another shape
        assert gate.reason(randomize(round_, value, epsilon=2)) == ""


@pytest.mark.parametrize("round_", ROUNDS, ids=IDS)
def test_a_table_of_odd_values_is_read_as_each_alone(round_):
    """Nothing raises, and no person's entry changes what another's is read as."""
    values = [value for value in ODD if not isinstance(value, Late)]
    nonces = np.zeros((len(values), 2), dtype=np.uint64)
    batch = randomize_many(round_, values, epsilon=2, noise=SimulatedNoise(1))
    assert ReportValidator(round_).parse(batch.to_bytes(simulated=True)).refused == {}
    if round_.items is None and round_.dimension is None:
        read = lambda some, number: unit_values(round_, some, nonces[:number])  # noqa: E731
    elif round_.items is not None:
        read = lambda some, number: item_indices(round_, some, nonces[:number])  # noqa: E731
    else:
        read = lambda some, number: table_of(some, number, round_.dimension)  # noqa: E731
    together = read(values, len(values))
    for k, value in enumerate(values):
        assert np.array_equal(read([value], 1)[0], together[k], equal_nan=True)


@pytest.mark.parametrize("round_", ROUNDS, ids=IDS)
def test_no_array_of_values_makes_a_warning(round_):
    """Long doubles beyond doubles, and NaNs that signal."""
    width = round_.dimension or round_.coordinates
    signal = np.array([0x7F800001, 0], dtype=np.uint32).view(np.float32)
    double = np.array([0x7FF0000000000001, 0], dtype=np.uint64).view(np.float64)
    large = np.array([np.nextafter(np.longdouble(np.inf), 0), 0.5])
    for values in (signal, double, large):
        given = values if width == 1 else np.column_stack([values] * width)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            randomize_many(round_, given, epsilon=16, noise=SimulatedNoise(1))


def test_arrays_of_every_kind_are_read():
    round_ = items_round(5, epsilon=1, persons=9)
    nonces = np.zeros((3, 2), dtype=np.uint64)
    for kind in ("u1", "u8", "i8", "f4", "f8", "O"):
        assert item_indices(round_, np.array([0, 4, 9], dtype=kind), nonces).tolist() == [0, 4, -1]
    masked = np.ma.array([0, 1, 2], mask=[False, True, False])
    assert item_indices(round_, masked, nonces).tolist() == [0, -1, 2]
    mean = mean_round(0, 10, epsilon=1, persons=9)
    assert unit_values(mean, np.ma.array([10, 10, 0], mask=[0, 1, 0]), nonces).tolist() == [
        1,
        0,
        -1,
    ]
    for wrong in (np.zeros((3, 2)), np.zeros(4)):
        with pytest.raises(ArgumentError):
            item_indices(round_, wrong, nonces)
        with pytest.raises(ArgumentError):
            unit_values(mean, wrong, nonces)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats() | st.integers() | st.sampled_from(ODD[:22]), max_size=30))
def test_no_records_break_a_mean(records):
    result = person_mean(records)
    assert math.isnan(result) or abs(result) < math.inf


def test_no_records_break_a_summary():
    for records in (None, 5, "abc", Odd(), Late(), [Odd(), 3.0], [[1]], {1: 2}):
        person_mean(records)
        slope(records, [1.0, 2.0])
        slope([[1.0], [2.0]], records)
        slope([records, records], records)
    assert math.isnan(person_mean(None))
    assert person_mean([Odd(), 3.0, None]) == 3.0
    largest = sys.float_info.max
    for number in range(1, 60):  # the mean of equal numbers, at the end of the range
        assert person_mean([largest] * number) == pytest.approx(largest)
        assert person_mean([-math.inf] * number) == pytest.approx(-largest)
        assert abs(person_mean([largest, -largest] * number)) < largest * 1e-9


# fields of a round, each with values that it cannot have; the vectors have more
HOSTILE = {
    "menu": [
        ["1e999999999"], ["1e-999999999"], ["9" * 4000 + "/" + "9" * 4000], [1e308], [math.nan],
        [True], [-1], ["-1"], "12", {"1": 2}, [[1]], [f"{k}/2000" for k in range(2, 4000)],
    ],
    "lower": ["1", ["x"], [math.inf], [True], [10**400]],
    "persons": [10**400, "many", True, math.inf],
    "seed": [5],
    "beta": [math.nan],
    "closes": [-1, -1e400],
    "part": [
        [1], {"seed": "00"}, {"seed": "00" * 32, "shares": [10**400, 1], "index": True},
        {"seed": "00" * 32, "shares": 5, "index": 0},
    ],
    "row_choice": [[]],
    "mechanism": [["one-bit"]],
}  # fmt: skip
MANY = {"menu": [f"{k}/2000" for k in range(2, 900)], "lower": [0] * 10**6, "upper": [1] * 10**6}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HOSTILE, "together"])
def test_a_hostile_round_is_refused_at_once(name):
    good = mean_round(0, 1, epsilon=1, persons=9).to_dict()
    for change in [{name: value} for value in HOSTILE[name]] if name in HOSTILE else [MANY]:
        start = time.process_time()
        with pytest.raises(ArgumentError):
            Round.from_dict({**good, **change})
        assert time.process_time() - start < 5


def test_texts_that_are_no_rounds():
    for text in ("[" * 100_000, b"\xff\xfe", '{"format":' * 5000, "NaN", "1" * 5000, "", "null"):
        with pytest.raises(ArgumentError):
            Round.from_json(text)


def test_a_server_keeps_a_bounded_number_of_sums():
    with pytest.raises(ArgumentError, match="numbers"):
        items_round(2**24, epsilon=[k / 100 for k in range(1, 200)], persons=9)
    with pytest.raises(ArgumentError):
        items_round(2**54, epsilon=1, persons=9, mechanism="sketch")


def test_equal_rounds_have_equal_texts():
    plain = mean_round(0, 1, epsilon=1, persons=9, seed=bytes(32))
    other = mean_round(
        np.float64(0), np.int64(1), epsilon=np.float64(1), persons=np.int64(9), seed=bytes(32),
        beta=np.float32(0.25),
    )  # fmt: skip
    assert Round.from_json(other.to_json()).digest == other.digest
    assert mean_round(0, 1, epsilon=1, persons=9.0, seed=bytes(32)).digest == plain.digest


# -- the ledger


def test_a_copied_ledger_is_the_whole_truth_or_refused(tmp_path):
    """A copy taken whenever a report was handed out holds it, and is refused when another was."""
    rounds = [mean_round(0, 1, epsilon=1, persons=9) for _ in range(3)]
    client = Client(epsilon=1, ledger=Ledger(tmp_path / "l", limit=3))
    sent = []
    for k, round_ in enumerate(rounds):
        sent.append(client.report(round_, 1))
        shutil.copy(tmp_path / "l", tmp_path / "while it is open")
        with contextlib.suppress(ArgumentError):
            assert Ledger(tmp_path / "while it is open", limit=3).spent() == k + 1
        client.ledger.close()
        shutil.copy(tmp_path / "l", tmp_path / f"copy{k}")
        copied = Client(epsilon=1, ledger=Ledger(tmp_path / f"copy{k}", limit=3))
        assert copied.ledger.spent() == k + 1
        assert [copied.report(item, 0) for item in rounds[: k + 1]] == sent
    for moved in (False, True):
        with pytest.raises(ArgumentError, match="old copy"):
            Ledger(tmp_path / "copy0", limit=3, moved=moved)
    shutil.copyfile(tmp_path / "copy0", tmp_path / "l")
    with pytest.raises(PrivmeanError, match="old copy"):
        client.report(rounds[2], 1)
    (tmp_path / "l").unlink()
    with pytest.raises(PrivmeanError, match="ledger"):  # not made again behind the client's back
        client.report(rounds[2], 1)
    (tmp_path / "l").touch()
    with pytest.raises(PrivmeanError, match="is empty"):
        Ledger(tmp_path / "l", limit=3)


def test_a_ledger_that_cannot_be_used_says_so(tmp_path):
    round_ = mean_round(0, 1, epsilon=1, persons=9)
    with pytest.raises(ArgumentError):
        Ledger("", limit=1)
    with pytest.raises(PrivmeanError, match="ledger"):
        Ledger(tmp_path / "no folder" / "l", limit=1)
    (tmp_path / "text").write_text("this is no database, whatever it says" * 99)
    with pytest.raises(PrivmeanError, match="ledger"):
        Ledger(tmp_path / "text", limit=1)
    ledger = Ledger(tmp_path / "l", limit=1)
    client = Client(epsilon=1, ledger=ledger)

    ledger._opened[0]._execute("PRAGMA query_only = ON")
    with pytest.raises(PrivmeanError, match="may not be written"):
        client.report(round_, 1)
    assert ledger.spent() == 0
    assert client.report(round_, 1) == client.report(round_, 0)


def test_threads_share_a_ledger(tmp_path):
    """Through one handle or each through its own: whoever is first makes the report."""
    round_ = mean_round(0, 1, epsilon=1, persons=9)
    client = Client(epsilon=1, ledger=Ledger(tmp_path / "l", limit=1))

    def answer(value):
        other = Client(epsilon=1, ledger=Ledger(tmp_path / "l", limit=1))
        sent = client.report(round_, value), other.report(round_, value)
        other.ledger.close()
        return sent

    with ThreadPoolExecutor(8) as pool:
        assert len({report for sent in pool.map(answer, [0, 1] * 20) for report in sent}) == 1


ANSWER = """
import sys
from privmean.local import Client, Ledger, Round
rounds = [Round.from_json(line) for line in open(sys.argv[1])]
sys.stdin.readline()
client = Client(epsilon=1, ledger=Ledger(sys.argv[2], limit=len(rounds)))
for round_ in rounds:
    print(round_.identifier.hex(), client.report(round_, float(sys.argv[3])).hex(), flush=True)
"""


def _answering(tmp_path, value):
    return subprocess.Popen(
        [sys.executable, "-c", ANSWER, str(tmp_path / "rounds"), str(tmp_path / "ledger"), value],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_processes_that_are_killed_never_send_two_reports_for_one_round(tmp_path):
    """Four processes at once make a new ledger and answer; two are killed and started again."""
    rounds = [mean_round(0, 1, epsilon=1, persons=9) for _ in range(40)]
    (tmp_path / "rounds").write_text("\n".join(item.to_json() for item in rounds))
    seen: dict[str, set[str]] = {item.identifier.hex(): set() for item in rounds}
    for last in (False, True):
        running = [_answering(tmp_path, value) for value in ("0", "1", "0", "1")]
        for process in running:  # all are imported by now, or soon
            process.stdin.write("go\n")
            process.stdin.flush()
        lines = [running[0].stdout.readline() for _ in range(3)]
        if not last:
            for process in running[:2]:
                process.kill()
        for process in running:
            out, err = process.communicate(timeout=60)
            assert "Traceback" not in err, err
            lines += out.splitlines()
        for line in lines:
            round_id, _, report = line.strip().partition(" ")
            if len(report) == 86:  # a killed process may leave half a line
                seen[round_id].add(report)
    assert {len(reports) for reports in seen.values()} == {1}
    ledger = Ledger(tmp_path / "ledger", limit=40)
    assert ledger.spent() == 40


# -- two rounds


@pytest.mark.parametrize("shares", [None, (20, 80)])
def test_two_rounds_bill_each_person_once(shares):
    """Each allows 0.5 or 2 for everything it sends; nobody spends more, and the promise says so."""
    n = 600
    own = np.repeat([0.5, 2.0], [n // 3, n - n // 3])
    protocol = WinsorizedRounds.of(-50, 50, tau=2, epsilon=[0.5, 1, 2], persons=n, shares=shares)
    votes = protocol.vote()
    assert [float(item) for item in votes.menu] == [
        e / (2 if shares is None else 1) for e in (0.5, 1, 2)
    ]
    values = np.random.default_rng(1).normal(7, 1, n)
    names = [f"p{k}" for k in range(n)]
    found = protocol.run(values, epsilon=own, identities=names, noise=SimulatedNoise(2))
    promise = found.guarantee()
    assert "all reports of one person" in promise["unit"]
    assert promise["epsilon"] == {"0.5": 200, "1": 0, "2": 400}
    assert promise["epsilon"] == json.loads(json.dumps(found.to_dict()))["guarantee"]["epsilon"]
    assert "0.5 (200), 1 (0), 2 (400)" in " ".join(found.summary().split())
    measured = [item.reports for item in found.levels]
    if shares is None:
        assert measured == [200, 0, 400]
    else:
        chosen = ~np.array([votes.part.chosen(name) for name in names])
        assert measured == [int(chosen[:200].sum()), 0, int(chosen[200:].sum())]


def test_two_rounds_take_one_name_a_person():
    protocol = WinsorizedRounds.of(-50, 50, tau=2, epsilon=1, persons=3)
    for names in (["a", "b"], ["a", "b", "a"], "ab"):
        with pytest.raises(ArgumentError):
            protocol.run([1.0, 2.0, 3.0], epsilon=1, identities=names)
