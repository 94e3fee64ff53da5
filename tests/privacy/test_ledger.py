"""A ledger never lets more be spent than its total, whatever happens to the process."""

import contextlib
import math
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
)
from privmean.privacy.budget import Budget
from privmean.privacy.compose import pure_epsilon, stated
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger import Ledger
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
    from privmean.privacy.compose import within

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
        with pytest.raises(ArgumentError, match="is empty"):
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


def names(name):
    """A file of SQLite, and what lies beside it while it is open."""
    return [name, f"{name}-wal", f"{name}-shm"]


def test_processes_that_make_one_ledger_at_once_make_one(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda _: charge(Ledger(path, epsilon=1.0)).number, range(8))
    assert sorted(made) == list(range(1, 9))
    assert {item.name for item in tmp_path.iterdir()} <= set(names("ledger.jsonl"))


def test_a_charge_knows_its_place(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)
    made = [charge(ledger, label=label) for label in ("a", "b")]
    assert [entry.number for entry in made] == [1, 2]
    assert len({entry.digest for entry in made}) == 2
    assert Ledger(path).entries == tuple(made)
    memory = Ledger(epsilon=1.0)
    assert [charge(memory).number for _ in range(2)] == [1, 2]
    assert len({entry.digest for entry in memory.entries}) == 2


def test_a_backup_put_back_over_the_file_is_refused(tmp_path):
    """cp -a backup/* . writes into the files that are there."""
    path, backup = tmp_path / "book" / "ledger", tmp_path / "backup"
    path.parent.mkdir()
    ledger = Ledger(path, epsilon=1.0)
    charge(ledger, Budget(epsilon=0.6))
    ledger.close()
    shutil.copytree(path.parent, backup)
    charge(ledger, Budget(epsilon=0.4))
    ledger.close()
    subprocess.run(f"cp -a {backup}/* .", shell=True, cwd=path.parent, check=True)
    for use in (lambda: charge(ledger), lambda: Ledger(path), lambda: Ledger.open(path).left()):
        with pytest.raises(
            ArgumentError, match="ledger=.*old copy: it holds 2 entries, and 3 were written"
        ):
            use()


def test_a_backup_put_back_while_the_ledger_is_open_gives_no_budget_back(tmp_path):
    path, backup = tmp_path / "ledger", tmp_path / "backup"
    ledger = Ledger(path, epsilon=1.0)
    charge(ledger, Budget(epsilon=0.5))
    ledger.close()
    shutil.copy(path, backup)
    charge(ledger, Budget(epsilon=0.5))
    shutil.copy(backup, path)
    for use in (lambda: charge(ledger), lambda: charge(Ledger(path))):
        with pytest.raises((BudgetExceededError, ArgumentError)):
            use()
    ledger.close()  # what SQLite had beside the file is in it now, or does not fit
    with pytest.raises((BudgetExceededError, ArgumentError)):
        charge(Ledger(path))


def test_each_user_has_a_witness_of_the_same_ledger(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    charge(Ledger(path, epsilon=1.0))
    shutil.copy(path, tmp_path / "old")
    with monkeypatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        charge(Ledger(path))
    charge(Ledger(path))
    assert len(Ledger(path).entries) == 3
    shutil.copy(tmp_path / "old", path)
    for state in (tmp_path / "other", os.environ["XDG_STATE_HOME"]):
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        with pytest.raises(ArgumentError, match="old copy"):
            Ledger(path)


def test_another_ledger_of_the_same_name_is_noticed(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(path, epsilon=1.0)
    charge(ledger)
    ledger.close()
    Ledger(tmp_path / "other", epsilon=1.0).close()
    os.replace(tmp_path / "other", path)
    with pytest.raises(ArgumentError, match="was replaced by another ledger"):
        charge(ledger)


def test_a_process_that_reads_the_file_by_hand_loses_no_charge(tmp_path):
    """It lets go of SQLite's locks by that, and others take away what lies beside the file."""
    path = tmp_path / "ledger"
    ledger = Ledger(path, epsilon=0.3)
    charge(ledger)
    assert path.read_bytes()
    subprocess.run([sys.executable, "-c", ONE, str(path)], check=True)
    assert charge(ledger).number == 3
    for each in (ledger, Ledger(path)):
        with pytest.raises(BudgetExceededError):
            charge(each)


ONE = """
import sys, privmean as pm
pm.Ledger.open(sys.argv[1]).charge(pm.Budget(0.1), "replace-one")
"""


def test_a_forked_process_goes_on_with_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger", epsilon=1.0)
    charge(ledger)
    child = os.fork()
    if not child:
        os._exit(charge(ledger).number)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert charge(ledger).number == 3


def test_a_deleted_file_is_noticed(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=1.0)
    charge(ledger)
    path.unlink()
    with pytest.raises(ArgumentError, match="cannot be opened"):
        charge(ledger)


def test_a_charge_that_cannot_be_written_is_not_made(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl", epsilon=1.0)
    with ledger._open():
        pass
    ledger._home._opened[0]._execute("PRAGMA max_page_count = 4")
    with pytest.raises(PrivmeanError, match="the disk is full.*does not count"):
        charge(ledger, label="x" * 100_000)
    assert ledger.entries == ()
    charge(ledger)
    assert ledger.left().epsilon == Fraction(9, 10)


WRITER = """
import sys
from privmean.errors import BudgetExceededError
from privmean.privacy.budget import Budget
from privmean.privacy.ledger import Ledger
ledger = Ledger(sys.argv[1])
made = 0
try:
    while True:
        ledger.charge(Budget(epsilon=float(sys.argv[2])), "replace-one")
        made += 1
except BudgetExceededError:
    print(made)
"""


@pytest.mark.parametrize("home", ["file", "database"])
def test_processes_that_write_at_once_never_overspend(tmp_path, home):
    path = tmp_path / "ledger.jsonl" if home == "file" else f"sqlite:///{tmp_path}/b.db#team"
    Ledger(path, epsilon=2.0)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), "0.05"], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    made = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert sum(made) == 40 == len(Ledger(path).entries)
    assert Ledger(path).left().epsilon == 0


def test_threads_that_share_one_ledger_never_overspend(ledger):

    def spent(_):
        with contextlib.suppress(BudgetExceededError):
            return charge(ledger, Budget(epsilon=0.02)).number

    with ThreadPoolExecutor(4) as pool:
        made = [number for number in pool.map(spent, range(80)) if number]
    assert sorted(made) == [entry.number for entry in ledger.entries] == list(range(1, 51))


def test_it_says_what_it_holds(ledger):
    charge(ledger, Budget(epsilon=0.25, delta=1e-7))
    assert "left epsilon=0.75" in repr(ledger)
    assert ledger.total == Budget(epsilon=1.0, delta=1e-6)
    assert "delta=9e-07" in ledger.left().describe()
