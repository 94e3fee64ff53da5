"""Copies of a collector's SQLite file: the whole truth of their moment, or refused."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from collector_server import reports_of

import killing
from killing import Collecting, Count, Reporting
from privmean.collector import sqlite
from privmean.collector.store import Offer, Store
from privmean.errors import PrivmeanError
from privmean.local.round_builders import mean_round
from privmean.storage.witness import Witness


def opened(path):
    return Store(f"sqlite:///{path}")


def held(path, round_):
    """The tally of a file, None if it is refused."""
    try:
        store = opened(path)
    except PrivmeanError as problem:
        if "copied while it was written" not in str(problem):
            raise
        return None
    try:
        return store.tally(round_)
    finally:
        store.close()


def test_after_each_commit_the_file_alone_holds_everything(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = opened(tmp_path / "r.db")
    store.register([round_])
    for total in (30, 50, 70):
        store.write([Offer(reports_of(round_, total - store.tally(round_).reports))])
        store.checkpoint(round_)
        shutil.copy(tmp_path / "r.db", tmp_path / "copy.db")
        assert held(tmp_path / "copy.db", round_).reports == total
        assert held(tmp_path / "r.db", round_).reports == total  # a second process meanwhile
    store.close()


def test_a_process_goes_on_after_another_one_folded_the_entries(tmp_path, monkeypatch):
    """Into one entry that says the same."""
    monkeypatch.setattr(sqlite, "MOST", 6)
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    stores = [opened(tmp_path / "r.db") for _ in range(2)]
    stores[0].register([round_])
    for store in (*stores, *[stores[0]] * 20, stores[1]):
        store.write([Offer(reports_of(round_, 3))])
    assert stores[1].tally(round_).reports == 69
    for store in stores:
        store.close()
    with closing(sqlite3.connect(tmp_path / "r.db")) as link:
        (entries,) = link.execute("SELECT count(*) FROM privmean_entries").fetchone()
    assert entries <= 6
    assert held(tmp_path / "r.db", round_).reports == 69


@pytest.mark.parametrize("names", [True, False])
def test_a_new_file_leaves_nothing_beside_it_but_its_journal(tmp_path, monkeypatch, names):
    def refuse(*_):
        raise PermissionError(1, "no second names here")

    if not names:
        monkeypatch.setattr(os, "link", refuse)
    for _ in range(2):
        opened(tmp_path / "r.db").close()
    found = {path.name for path in tmp_path.iterdir()}
    assert found <= {"r.db", "r.db-journal"}


def test_a_mixture_of_two_moments_is_refused(tmp_path):
    """The first pages of one moment and the others of a later one, wherever the cut is."""
    round_ = mean_round(0, 10, epsilon=1, persons=10_000)
    store = opened(tmp_path / "r.db")
    store.register([round_])
    versions, tallies = [], set()
    for n in (400, 30):
        store.write([Offer(reports_of(round_, n))])
        store.checkpoint(round_)
        versions.append((tmp_path / "r.db").read_bytes())
        tallies.add(store.tally(round_).to_bytes())
    store.close()
    page = 4096
    pages = [[data[at : at + page] for at in range(0, len(data), page)] for data in versions]
    whole: set[bytes] = set()
    refused, number = 0, itertools.count()
    for first, second in (pages, pages[::-1]):
        for cut in range(1, max(len(first), len(second))):
            mixed = [*first[:cut], *second[cut:]]
            (tmp_path / "mixed.db").write_bytes(b"".join(mixed))
            os.rename(tmp_path / "mixed.db", path := tmp_path / f"mixed{next(number)}.db")
            found = held(path, round_)  # nothing but the pages tells
            refused += found is None
            if found is not None:
                whole.add(found.to_bytes())
    assert refused > 20
    assert whole <= tallies


def test_what_is_no_collector_s_file_is_refused(tmp_path):
    (tmp_path / "empty.db").touch()
    link = sqlite3.connect(tmp_path / "other.db")
    link.execute("CREATE TABLE notes (text)")
    link.close()
    (tmp_path / "text.db").write_text("no database, only text that is long enough" * 20)
    for name in ("empty.db", "other.db", "text.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(PrivmeanError, match="not a database of a collector"):
            opened(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("used", [False, True])
def test_an_old_copy_put_back_is_refused(tmp_path, used):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = opened(tmp_path / "r.db")
    store.register([round_])
    shutil.copy(tmp_path / "r.db", tmp_path / "old.db")
    store.write([Offer(reports_of(round_, 30))])
    store.close()
    if used:
        assert held(tmp_path / "old.db", round_).reports == 0  # elsewhere nothing tells
    os.rename(tmp_path / "old.db", tmp_path / "r.db")
    with pytest.raises(PrivmeanError, match="went on by itself" if used else "old copy"):
        opened(tmp_path / "r.db")


def test_a_kill_between_the_commits_of_two_threads_refuses_nothing(tmp_path, monkeypatch):
    """One thread is held between its commit and the note of it; another one waits, and then the
    process is killed."""
    path = tmp_path / "r.db"
    opened(path).close()
    child = os.fork()
    if child == 0:
        store, note = opened(path), Witness.note

        def slow(self, seen, **options):
            if threading.current_thread().name == "first":
                held.set()
                time.sleep(0.2)  # the other one comes as far as it can
                os.kill(os.getpid(), signal.SIGKILL)
            note(self, seen, **options)

        def work():
            if threading.current_thread().name == "second":
                held.wait()
            with store.transaction():
                pass

        held = threading.Event()
        monkeypatch.setattr(Witness, "note", slow)
        threads = [threading.Thread(target=work, name=name) for name in ("second", "first")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    opened(path).close()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size"), [(Collecting, 96), (Reporting, 640)])
def test_killed_again_and_again(tmp_path, kind, size):
    """Whatever was acknowledged or sent is there after a kill, and in copies made at the kill. More
    is to be done than can be between eight kills."""
    rng, count = random.Random(3), Count()
    killing.run(kind(tmp_path, rng, size), tmp_path, rng, 8, count)
    assert count.kills > 3
    assert count.steps == size
    assert sum(count.copies.values()) > 2 * count.kills
    assert not count.refused["all files"]
    assert (count.two, count.lost) == (0, 0)


@pytest.fixture
def looks(monkeypatch):
    """Whether each opening knew the file."""
    found = []
    agrees = sqlite._agrees

    def watched(link, said, *, known):
        found.append(known)
        return agrees(link, said, known=known)

    monkeypatch.setattr(sqlite, "_agrees", watched)
    return found


def test_a_file_that_the_witness_does_not_know_is_looked_through_in_full(tmp_path, looks):
    opened(tmp_path / "r.db").close()
    opened(tmp_path / "r.db").close()
    shutil.copy(tmp_path / "r.db", tmp_path / "copy.db")
    opened(tmp_path / "copy.db").close()
    opened(tmp_path / "copy.db").close()
    assert looks == [False, True, False, True]
