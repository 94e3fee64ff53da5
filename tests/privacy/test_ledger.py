"""A ledger never lets more be spent than its total, whatever happens to the process."""

import hashlib
import json
import math
import os
import subprocess
import sys
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privmean as pm
from privmean.errors import (
    ArgumentError,
    BudgetExceededError,
    InfeasibleError,
    PrivmeanError,
    PrivmeanWarning,
)
from privmean.privacy.budget import Budget
from privmean.privacy.compose import pure_epsilon
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger import Ledger
from privmean.privacy.ledger_log import Journal, JournalDamaged
from privmean.privacy.neighbor_relations import stated
from privmean.privacy.privacy_events import Gaussian, Laplace, Pure, Threshold

TENTH = Budget(epsilon=0.1)
LATTICE = 2.0**20


def charge(ledger, cost=TENTH, neighbors="replace-one", **more):
    return ledger.charge(cost, neighbors, **more)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "ledger.jsonl"
    return Ledger(path, epsilon=1.0, delta=1e-6)


# --- what may be spent ---------------------------------------------------------------------------


def test_ten_tenths_make_one_and_the_eleventh_is_refused(ledger):
    for _ in range(10):
        charge(ledger)
    assert ledger.left().epsilon == 0
    with pytest.raises(BudgetExceededError, match=r"needs epsilon=0\.1, .* left"):
        charge(ledger)
    assert len(ledger.entries) == 10


def test_a_refused_charge_spends_nothing(ledger):
    charge(ledger, Budget(epsilon=0.9))
    for cost in (Budget(epsilon=0.2), Budget(epsilon=0.05, delta=1e-5)):
        before = ledger.left()
        with pytest.raises(BudgetExceededError):
            charge(ledger, cost)
        assert ledger.left() == before
    charge(ledger)  # what is left can still be spent


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 0.6), st.sampled_from([0.0, 1e-7, 4e-7])), min_size=1, max_size=12
    )
)
@settings(max_examples=50, deadline=None)
def test_more_charges_never_lower_the_total_and_it_is_never_passed(costs):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    spent = ledger.spent()
    for epsilon, delta in costs:
        fits = spent.epsilon + Fraction(repr(epsilon)) <= 1 and spent.delta + Fraction(
            repr(delta)
        ) <= Fraction(1, 10**6)
        if fits:
            charge(ledger, Budget(epsilon=epsilon, delta=delta))
            assert ledger.spent().epsilon > spent.epsilon
        else:
            with pytest.raises(BudgetExceededError):
                charge(ledger, Budget(epsilon=epsilon, delta=delta))
        now = ledger.spent()
        assert now.epsilon >= spent.epsilon
        assert now.delta >= spent.delta
        spent = now
    assert spent.epsilon <= 1
    assert spent.delta <= Fraction(1, 10**6)
    assert ledger.left().epsilon == 1 - spent.epsilon


def test_rho_adds():
    ledger = Ledger(rho=0.5)
    charge(ledger, Budget(rho=0.2))
    charge(ledger, Budget(epsilon=0.4))  # epsilon^2/2
    assert ledger.spent().rho == Fraction(28, 100)
    charge(ledger, [Gaussian("sum", 0.2 * LATTICE, LATTICE, 3)])
    assert math.isclose(float(ledger.left().rho), 0.2)
    with pytest.raises(BudgetExceededError):
        charge(ledger, Budget(rho=0.21))
    with pytest.raises(ArgumentError, match="its own delta"):
        charge(ledger, Budget(epsilon=0.1, delta=1e-9))
    with pytest.raises(ArgumentError, match="its own delta"):
        charge(ledger, [Laplace("h", 1, 9), Threshold("t", 1e-9, 50.0)])


def test_losses_are_charged_by_their_sums():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    histogram = Laplace("h", 2, 8, cells_changed=2)
    charge(ledger, [histogram, Threshold("t", 3e-7, 50.0), Pure("x", "1/10")])
    assert ledger.spent().epsilon == Fraction(35, 100)
    assert ledger.spent().delta == Fraction(3e-7)
    with pytest.raises(ArgumentError, match="requires a delta"):
        charge(ledger, [Gaussian("sum", LATTICE, LATTICE, 1)])
    with pytest.raises(ArgumentError, match="cannot be charged to a ledger of epsilon"):
        charge(ledger, Budget(rho=0.01))
    with pytest.raises(ArgumentError, match="empty"):
        charge(ledger, [])


def test_a_guarantee_is_charged_at_its_promise_with_its_bill(ledger):
    bill = (Laplace("sum", 1, 5, neighbors="add-remove"),)
    guarantee = Guarantee.of(Budget(epsilon=0.25, delta=1e-7), "add-remove", bill)
    entry = ledger.charge(guarantee, label="mean of x")
    assert entry.amount.epsilon == Fraction(1, 4)  # not 1/5: a plan's rest is not given back
    assert entry.amount.delta == 0  # a pure bill promises no delta
    assert ledger.entries == (entry,)
    assert ledger.entries[0].mechanisms == bill


def test_a_guarantee_whose_bill_breaks_it_is_not_charged(ledger):
    over = Guarantee("replace-one", (Laplace("sum", 1, 1, neighbors="replace-one"),), epsilon=0.5)
    with pytest.raises(Exception, match="internal"):
        ledger.charge(over)
    assert not ledger.entries


def test_one_relation_and_one_unit(ledger):
    charge(ledger)
    with pytest.raises(ArgumentError, match="Use neighbors='replace-one'"):
        charge(ledger, neighbors="add-remove")
    with pytest.raises(ArgumentError, match="unit"):
        charge(ledger, unit="household")
    with pytest.raises(ArgumentError, match="neighbors"):
        ledger.charge(TENTH)
    with pytest.raises(ArgumentError, match="neighbors"):
        ledger.charge(Guarantee("replace-one", (Pure("a", "1/10"),), epsilon=0.1), "add-remove")
    assert len(ledger.entries) == 1


def test_charges_chosen_along_the_way_use_only_sums():
    """Sixty small Gaussian releases would fit a curve fixed beforehand; a filter stops at fifty."""
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    small = Budget(epsilon=0.02, delta=1e-9)
    mu = small.gaussian_mu()
    one = Gaussian("sum", mu * LATTICE, LATTICE, 1)
    guarantee = Guarantee.of(small, "replace-one", stated((one,), "replace-one"))
    from privmean.privacy.calibrate import within

    assert within([one] * 60, Budget(epsilon=1.0, delta=1e-6))
    for _ in range(50):
        ledger.charge(guarantee)
    with pytest.raises(BudgetExceededError):
        ledger.charge(guarantee)


class NoNoise:
    """Noise that must not be drawn."""

    secure = False

    def __getattr__(self, name):
        def draw(*_, **__):
            raise AssertionError(f"{name} was drawn")

        return draw


def test_a_mean_is_charged_before_any_noise_is_drawn(ledger):
    values = np.linspace(0.0, 1.0, 50)
    arguments = {"bounds": (0.0, 1.0), "delta": 1e-7, "ledger": ledger}
    with pytest.raises(BudgetExceededError):
        pm.mean(values, epsilon=1.5, noise=NoNoise(), **arguments)
    assert ledger.left().epsilon == 1
    release = pm.mean(values, epsilon=0.75, **arguments)
    planned = pure_epsilon(ledger.entries[0].mechanisms)
    assert planned == pure_epsilon(release.guarantee.mechanisms) == Fraction(3, 4)
    assert ledger.left().epsilon == Fraction(1, 4)
    with pytest.raises(BudgetExceededError):
        pm.mean(values, epsilon=0.3, noise=NoNoise(), **arguments)
    with pytest.raises(AssertionError, match="drawn"):  # a crash after the charge: it stays spent
        pm.mean(values, epsilon=0.2, noise=NoNoise(), **arguments)
    assert ledger.left().epsilon == Fraction(1, 20)


def test_what_is_refused_at_planning_is_not_charged(ledger):
    with pytest.raises(InfeasibleError):
        pm.mean(np.zeros(20), epsilon=0.5, ledger=ledger)
    assert not ledger.entries


# --- the file ------------------------------------------------------------------------------------


def test_a_restart_remembers(tmp_path):
    path = tmp_path / "ledger.jsonl"
    first = Ledger(path, epsilon=1.0, delta=1e-6)
    bill = (Laplace("s", 1, 4, neighbors="replace-one"),)
    first.charge(Guarantee("replace-one", bill, epsilon=0.25), label="größe")
    for again in (Ledger(path), Ledger(path, epsilon=1.0, delta=1e-6)):
        assert again.entries == first.entries
        assert again.left().epsilon == Fraction(3, 4)
    charge(Ledger(path), Budget(epsilon=0.75))
    with pytest.raises(BudgetExceededError):
        charge(first)  # the older object sees what the newer one spent
    lines = path.read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]
    assert json.loads(lines[0])["schema"] == "privmean-ledger-2"
    assert [json.loads(line)["bytes"] for line in lines] == [len(line) for line in lines]


def test_the_total_cannot_be_changed_on_the_way(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(path, epsilon=1.0)
    for other in ({"epsilon": 2.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5}):
        with pytest.raises(ArgumentError, match="must match the total"):
            Ledger(path, **other)
    for nothing in ({}, {"delta": 1e-6}):
        with pytest.raises(ArgumentError, match="epsilon"):
            Ledger(tmp_path / "new.jsonl", **nothing)
        with pytest.raises(ArgumentError, match="epsilon"):
            Ledger(**nothing)


def test_only_a_file_that_exists_is_opened(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(ArgumentError, match="does not exist"):
        Ledger.open(path)
    assert not path.exists()
    Ledger(path, rho=0.5).close()
    assert Ledger.open(path).total == Budget(rho=0.5)
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    for arguments in ({}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5}):
        with pytest.raises(JournalDamaged, match="no complete first line"):
            Ledger(empty, **arguments)
    assert empty.read_bytes() == b""
    for nowhere in (tmp_path / "no folder" / "ledger.jsonl", tmp_path):
        with pytest.raises(ArgumentError, match="ledger"):
            Ledger(nowhere, epsilon=1.0)


@pytest.mark.parametrize(
    "address",
    ["postgresql://u:secret@[::1/d", "postgresql:d", "sqlite:d", "sqlite://", "sqlite:///:memory:",
     "mysql://u:secret@h/d", "sqlite3:///d", f"sqlite:///d#{201 * 'n'}", "sqlite:///d#a\0b"],
)  # fmt: skip
def test_an_address_that_keeps_no_ledger_is_refused_in_words(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    for make in (lambda: Ledger(address, epsilon=1.0), lambda: Ledger.open(address)):
        with pytest.raises(ArgumentError, match="ledger=") as refused:
            make()
        assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_looking_for_a_ledger_makes_no_database(tmp_path):
    with pytest.raises(ArgumentError, match="does not exist"):
        Ledger.open(f"sqlite:///{tmp_path}/none.db#x")
    assert list(tmp_path.iterdir()) == []


def test_a_torn_last_line_is_dropped_wherever_it_was_cut(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)
    charge(ledger, label="kept")
    whole = path.read_bytes()
    charge(ledger, label="torn")
    torn = path.read_bytes()
    for cut in range(len(whole) + 1, len(torn) - 1):
        path.write_bytes(torn[:cut])
        with pytest.warns(PrivmeanWarning, match="line 3, the last entry, is cut off"):
            again = Ledger(path)
        assert [entry.label for entry in again.entries] == ["kept"]
        assert again.cut_off == cut - len(whole)
        assert path.read_bytes() == torn[:cut], "reading must change nothing"
    charge(again, label="next")
    assert path.read_bytes().startswith(whole)
    assert [entry.label for entry in Ledger(path).entries] == ["kept", "next"]
    assert again.cut_off == 0
    # all of the line but its end: it may have counted, so it counts
    assert [json.loads(line)["label"] for line in torn.splitlines()[1:]] == ["kept", "torn"]
    path.write_bytes(torn[:-1])
    assert [entry.label for entry in Ledger(path).entries] == ["kept", "torn"]
    charge(Ledger(path), label="next")
    assert [entry.label for entry in Ledger(path).entries] == ["kept", "torn", "next"]


def labels(path):
    """What a ledger remembers, or None if it is refused."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is cut off after", PrivmeanWarning)
            return [entry.label for entry in Ledger(path, epsilon=1.0).entries]
    except (JournalDamaged, ArgumentError):
        return None


def three_charges(path):
    ledger = Ledger(path, epsilon=1.0)
    for label in ("one", "two", "größer"):
        charge(ledger, label=label)
    return path.read_bytes()


def test_no_single_bit_can_make_a_charge_vanish(tmp_path):
    """Every bit of a file of three charges, the last line end included: refused, or not changed."""
    path = tmp_path / "ledger.jsonl"
    whole = three_charges(path)

    def kept():
        try:
            with Journal(path).locked() as session:  # what a ledger reads, without its sums
                return [entry["label"] for entry in session.entries[1:]]
        except JournalDamaged:
            return None

    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            assert kept() in (None, ["one", "two", "größer"]), (place, bit)
            assert path.read_bytes() == damaged, "a damaged file must stay as evidence"
    last = len(whole) - 1
    for byte in set(range(256)) - {ord("\n")}:
        path.write_bytes(whole[:last] + bytes([byte]))
        assert labels(path) is None


def test_a_file_cut_anywhere_is_an_older_one_or_is_refused(tmp_path):
    """Cut inside the first line nothing is left of the total, and it is no new ledger either."""
    path = tmp_path / "ledger.jsonl"
    whole = three_charges(path)
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends) - 1  # complete lines, without their end too
        found = labels(path)
        assert found == (None if kept < 0 else ["one", "two", "größer"][:kept]), cut
        assert path.read_bytes() == whole[:cut]


def test_a_ledger_of_an_older_privmean_is_read_and_continued(tmp_path):
    """Its lines state no length; a whole one with a damaged line end is refused all the same."""

    def line(before, entry):
        text = json.dumps(entry, sort_keys=True)
        digest = hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()
        return json.dumps({**entry, "digest": digest}).encode(), digest

    path = tmp_path / "ledger.jsonl"
    total = {"epsilon": 1.0, "delta": 0.0}
    first, digest = line("privmean", {"number": 0, "schema": "privmean-ledger-1", "total": total})
    bill = {"name": "sum", "sensitivity": "1", "scale": "10", "spread": 1, "joint": False,
            "mechanism": "discrete Laplace", "loss": {"epsilon": 0.1}}  # fmt: skip
    charged = {
        "number": 1, "label": "old", "spent": {"epsilon": "1/10", "delta": "0"},
        "relation": "replace-one", "unit": "person", "when": "", "mechanisms": [bill],
    }  # fmt: skip
    second, digest = line(digest, charged)
    whole = first + b"\n" + second + b"\n"
    for cut in range(len(first) + 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert labels(path) == []
    for byte in set(range(256)) - {ord("\n")}:
        path.write_bytes(whole[:-1] + bytes([byte]))
        assert labels(path) in (None, ["old"])  # a space there is no harm
    path.write_bytes(whole[:-1])
    assert labels(path) == ["old"]
    charge(Ledger(path), label="new")
    assert labels(path) == ["old", "new"]
    assert path.read_bytes().startswith(whole)
    assert Ledger(path).left().epsilon == Fraction(8, 10)


def test_processes_that_make_one_ledger_at_once_make_one(tmp_path):
    path = tmp_path / "ledger.jsonl"
    made = []

    def create():
        made.append(Ledger(path, epsilon=1.0).charge(TENTH, "replace-one").number)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(1, 9))
    assert [item.name for item in tmp_path.iterdir()] == ["ledger.jsonl"]


def test_a_charge_knows_its_place(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)
    made = [charge(ledger, label=label) for label in ("a", "b")]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(entry.number, entry.digest) for entry in made] == [
        (line["number"], line["digest"]) for line in lines[1:]
    ]
    assert Ledger(path).entries == tuple(made)
    memory = Ledger(epsilon=1.0)
    assert [charge(memory).number for _ in range(2)] == [1, 2]
    assert len({entry.digest for entry in memory.entries}) == 2


@pytest.mark.parametrize("line", [0, 1, 2])
def test_any_other_damage_is_refused(tmp_path, line):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)
    for label in ("a", "b"):
        charge(ledger, label=label)
    lines = path.read_bytes().splitlines(keepends=True)
    damages = {
        "changed": [*lines[:line], lines[line].replace(b"1", b"2", 1), *lines[line + 1 :]],
        "removed": lines[:line] + lines[line + 1 :],
        "blank": [*lines[:line], b"\n", *lines[line + 1 :]],
        "zeros": [*lines[:line], b"\0" * 20 + b"\n", *lines[line + 1 :]],
        "repeated": [*lines[: line + 1], *lines[line:]],
    }
    if line == 2:
        del damages["removed"]  # the last line alone can be cut off unnoticed: keep backups away
    for data in damages.values():
        path.write_bytes(b"".join(data))
        with pytest.raises(JournalDamaged):
            Ledger(path)
        with pytest.raises(JournalDamaged):
            charge(ledger)


def test_a_deleted_file_is_noticed(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)
    charge(ledger)
    path.unlink()
    with pytest.raises(JournalDamaged, match="replaced"):
        charge(ledger)


def test_a_charge_that_cannot_be_written_is_not_made(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)

    def broken(_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(PrivmeanError, match=r"no space.*Nothing was released"):
            charge(ledger)
    assert len(ledger.entries) <= 1  # it may have reached the disk; it is never counted twice
    left = ledger.left().epsilon
    charge(ledger)
    assert ledger.left().epsilon == left - Fraction(1, 10)


def test_every_charge_is_flushed_before_it_counts(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.jsonl", epsilon=1.0)
    flushed = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (flushed.append(file), real(file)))
    charge(ledger)
    assert len(flushed) == 1


WRITER = """
import sys
from privmean.errors import BudgetExceededError
from privmean.privacy.budget import Budget
from privmean.privacy.ledger import Ledger
ledger = Ledger(sys.argv[1])
made = 0
try:
    while True:
        ledger.charge(Budget(epsilon=0.05), "replace-one", label=sys.argv[2])
        made += 1
except BudgetExceededError:
    print(made)
"""


def test_processes_that_write_at_once_never_overspend(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(path, epsilon=2.0)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(i)], stdout=subprocess.PIPE, text=True
        )
        for i in range(4)
    ]
    made = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert sum(made) == 40 == len(Ledger(path).entries)
    assert Ledger(path).left().epsilon == 0


def test_threads_that_share_one_ledger_never_overspend(ledger):
    made = []

    def spend():
        try:
            while True:
                charge(ledger, Budget(epsilon=0.02))
                made.append(1)
        except BudgetExceededError:
            pass

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 50 == len(ledger.entries)


@pytest.mark.filterwarnings("ignore:.*is cut off")
def test_a_process_killed_at_any_point_leaves_a_ledger_that_can_be_read(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(path, epsilon=100.0)
    counts = []
    for wait in (0.0, 0.01, 0.03, 0.06):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), "x"], stdout=subprocess.DEVNULL
        )
        start = len(Ledger(path).entries)
        while len(Ledger(path).entries) == start:
            assert writer.poll() is None  # it writes until it is killed
        threading.Event().wait(wait)
        writer.kill()
        writer.wait()
        ledger = Ledger(path)
        counts.append(len(ledger.entries))
        assert ledger.spent().epsilon == Fraction(1, 20) * counts[-1]
    assert counts == sorted(counts)


def test_it_says_what_it_holds(ledger):
    charge(ledger, Budget(epsilon=0.25, delta=1e-7))
    assert "left epsilon=0.75" in repr(ledger)
    assert ledger.total == Budget(epsilon=1.0, delta=1e-6)
    assert "delta=9e-07" in ledger.left().describe()


def test_a_ledger_that_cannot_be_made_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privmean.privacy.ledger_log.os.fsync", full)
    with pytest.raises(ArgumentError, match="cannot be made: the disk is full"):
        Ledger(tmp_path / "book", epsilon=1.0)
    assert not list(tmp_path.iterdir())
