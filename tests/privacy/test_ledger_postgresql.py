"""A ledger on a real PostgreSQL server: many writers, writers killed, the server killed."""

import glob
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import privmean as pm
from collector.collector_server import PostgreSQL
from privmean.cli.app import run
from privmean.errors import ArgumentError, BudgetExceededError

pytestmark = pytest.mark.system
VALUES = np.random.default_rng(1).normal(5, 1, 800)


@pytest.fixture(scope="module")
def server():
    """A server of this module's own; without PostgreSQL there is nothing to try, but in CI."""
    found = shutil.which("initdb") or glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found and "CI" not in os.environ:
        pytest.skip("no PostgreSQL is installed")
    made = PostgreSQL()
    made.start()
    yield made
    made.stop()
    made.remove()


@pytest.fixture
def place(server, request):
    return f"{server.url}#{request.node.name}"


@pytest.fixture(params=["postgresql", "sqlite", "file"])
def anywhere(request, tmp_path):
    """All homes of a ledger."""
    if request.param == "postgresql":
        return request.getfixturevalue("place")
    return str(tmp_path / "book") if request.param == "file" else f"sqlite:///{tmp_path}/b.db"


def charge(place, epsilon=0.1):
    return pm.Ledger.open(place).charge(pm.Budget(epsilon), "replace-one", label="x")


@pytest.mark.slow
def test_a_call_is_charged_and_verified(place):
    pm.Ledger(place, epsilon=1.0)
    release = pm.mean(VALUES, epsilon=0.5, assume=(0, 10), ledger=place, label="a", analyst="ann")
    (entry,) = pm.Ledger.open(place).entries
    assert (entry.label, entry.analyst) == ("a", "ann")
    assert pm.verify(release, ledger=place)
    with pytest.raises(BudgetExceededError):
        pm.mean(VALUES, epsilon=0.6, assume=(0, 10), ledger=place)


def test_ledgers_of_one_database_do_not_meet(server):
    for name, total in (("one", 1.0), ("two", 2.0)):
        pm.Ledger(f"{server.url}#{name}", epsilon=total)
    charge(f"{server.url}#one", 1.0)
    assert float(pm.Ledger.open(f"{server.url}#two").left().epsilon) == 2.0
    with pytest.raises(ArgumentError, match="does not exist"):
        pm.Ledger.open(f"{server.url}#three")


# 64 processes that begin at the same moment; each notes what it was told, line by line
MANY = """
import os, sys
import privmean as pm
from privmean.errors import BudgetExceededError
place, folder, epsilon, times = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
ledger = pm.Ledger.open(place)
ledger.price_of(pm.Budget(1.0))
ready, begin = os.pipe()
children = []
for k in range(64):
    child = os.fork()
    if not child:
        os.close(begin)
        os.read(ready, 1)  # ends when the parent closes the pipe
        with open(f"{folder}/told{k}", "w") as told:
            for _ in range(times):
                try:
                    entry = ledger.charge(pm.Budget(epsilon), "replace-one", label=str(k))
                except BudgetExceededError:
                    print("none", file=told, flush=True)
                except Exception:
                    os._exit(1)  # the server is gone; without a traceback of each
                else:
                    print(entry.number, entry.digest, file=told, flush=True)
        os._exit(0)
    children.append(child)
print(*children, flush=True)
sys.stdin.readline()
os.close(begin)
for child in children:
    os.waitpid(child, 0)
"""


def begun(place, folder, epsilon, times):
    """64 writers, waiting for a line, and their process ids."""
    arguments = [sys.executable, "-c", MANY, place, str(folder), str(epsilon), str(times)]
    parent = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return parent, [int(item) for item in parent.stdout.readline().split()]


def told(folder):
    """What all writers were told was charged, and how often they were refused."""
    lines = [x.split() for path in folder.glob("told*") for x in path.read_text().splitlines()]
    made = [(int(item[0]), item[1]) for item in lines if item != ["none"] and len(item) == 2]
    return made, lines.count(["none"])


def entries(place):
    return {(entry.number, entry.digest) for entry in pm.Ledger.open(place).entries}


@pytest.mark.slow
def test_64_processes_spend_no_more_than_there_is(anywhere, tmp_path):
    """Each asks for a tenth of the total at the same moment; ten get it, each its own line."""
    pm.Ledger(anywhere, epsilon=1.0)
    parent, children = begun(anywhere, tmp_path, 0.1, 1)
    assert len(children) == 64
    parent.communicate("\n", timeout=300)
    made, refused = told(tmp_path)
    assert len(made) == len(set(made)) == 10
    assert refused == 54
    assert set(made) == entries(anywhere)
    assert pm.Ledger.open(anywhere).left().epsilon == 0


def writing(place, folder, least):
    """Processes that go on charging, once so many charges were told."""
    pm.Ledger(place, epsilon=100.0)
    parent, children = begun(place, folder, 0.01, 10**6)
    parent.stdin.write("\n")
    parent.stdin.flush()
    deadline = time.monotonic() + 120
    while len(told(folder)[0]) < least and time.monotonic() < deadline:
        time.sleep(0.05)
    return parent, children


@pytest.mark.slow
def test_64_processes_killed_lose_nothing_that_they_were_told(anywhere, tmp_path):
    """kill -9 for one after the other while all write; what none was told may be one line each."""
    parent, children = writing(anywhere, tmp_path, 30)
    for child in children:
        os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    parent.communicate(timeout=60)
    made, _ = told(tmp_path)
    kept = entries(anywhere)
    assert len(made) == len(set(made)) >= 30
    assert set(made) <= kept
    assert len(kept) <= len(made) + 64
    assert [number for number, _ in sorted(kept)] == list(range(1, len(kept) + 1))
    charge(anywhere)  # nothing is locked by the dead


@pytest.mark.slow
def test_a_server_that_is_killed_forgets_no_charge(server, place, tmp_path):
    """SIGQUIT while 64 processes write: what they were told is there after the recovery."""
    parent, children = writing(place, tmp_path, 20)
    server.stop(signal.SIGQUIT)
    try:
        parent.communicate(timeout=120)  # every writer stops with an error
        with pytest.raises(ArgumentError, match="does not answer"):
            charge(place)
        with pytest.raises(ArgumentError, match="does not answer"):
            pm.mean(VALUES, epsilon=0.1, assume=(0, 10), ledger=place)
    finally:
        server.start()
    made, _ = told(tmp_path)
    kept = entries(place)
    assert len(made) >= 20
    assert set(made) <= kept
    assert len(kept) <= len(made) + len(children)


def test_a_charge_asks_for_the_disk_where_the_server_would_not(server, place):
    """synchronous_commit off, as some servers are set: it is on within the charge."""
    import psycopg

    from privmean.privacy.ledger_log import SqlLedger

    pm.Ledger(place, epsilon=1.0)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("ALTER ROLE privmean SET synchronous_commit = off")
    try:
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
        with SqlLedger(place)._transaction() as connection:
            shown = connection.exec_driver_sql("SHOW synchronous_commit").scalar()
        assert shown == "on"
    finally:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER ROLE privmean RESET synchronous_commit")


@pytest.mark.parametrize("url", ["postgresql://user:secret@127.0.0.1:1/none", "sqlite:////no/x.db"])
def test_a_database_that_is_not_there_is_said_without_its_password(url, capsys):
    with pytest.raises(ArgumentError, match="does not answer") as caught:
        pm.Ledger(url, epsilon=1.0)
    assert "secret" not in str(caught.value)
    assert run(["ledger", "show", url]) == 2
    assert "secret" not in capsys.readouterr().err
