"""The durable log: what is written stays, and what went back is refused."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading

import pytest

from privmean.errors import ArgumentError, PrivmeanError, PrivmeanWarning
from privmean.storage import durable_log
from privmean.storage.durable_log import DurableLog, LogExists
from privmean.storage.witness import Seen, Witness, folder

KIND = "test"


def opened(path, **options):
    found = []
    return DurableLog.open(path, KIND, found.append, **options), found


def written(path, *entries):
    log, _ = opened(path)
    for entry in entries:
        log.append(entry)
    log.close()


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "state"
    DurableLog.create(place, KIND, [b"a"])
    return place


def payloads(found):
    return [entry.payload for entry in found]


def test_entries_come_back_in_order_with_numbers_and_digests(path):
    log, found = opened(path)
    assert log.append(b"b", b"c").number == 3
    assert [*log.entries()] == [b"a", b"b", b"c"]
    log.close()
    log, again = opened(path)
    assert payloads(again) == [b"a", b"b", b"c"]
    assert [entry.number for entry in again] == [1, 2, 3]
    assert again[0] == found[0]
    assert log.size == 3


def test_a_file_is_its_owners_alone_and_alone_in_its_folder(path):
    written(path, b"b")
    assert path.stat().st_mode & 0o077 == 0
    assert [item.name for item in path.parent.iterdir()] == ["state"]


def test_what_is_there_is_not_made_again(path):
    with pytest.raises(LogExists, match="exists"):
        DurableLog.create(path, KIND)


@pytest.mark.parametrize("content", [b"", b"privmean", b"x" * 5000])
def test_other_files_are_refused(tmp_path, content):
    place = tmp_path / "other"
    place.write_bytes(content)
    with pytest.raises(ArgumentError, match="is empty|is not a test file"):
        opened(place)
    assert place.read_bytes() == content


def test_other_databases_and_kinds_are_refused(tmp_path, path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as link:
        link.execute("CREATE TABLE t (x)")
    link.close()
    for place, kind in ((other, KIND), (path, "another")):
        with pytest.raises(ArgumentError, match="is not a"):
            DurableLog.open(place, kind, print)
    with pytest.raises(ArgumentError, match="is a folder"):
        opened(tmp_path)
    with pytest.raises(ArgumentError, match="cannot be opened"):
        opened(tmp_path / "missing")


def test_a_log_is_held_by_one(path):
    log, _ = opened(path)
    with pytest.raises(ArgumentError, match="is in use"):
        opened(path)
    log.append(b"b")
    log.close()
    opened(path)[0].close()


def test_an_older_file_put_back_is_refused_whatever_put_it_back(path, tmp_path):
    old = tmp_path / "old"
    shutil.copy2(path, old)
    written(path, b"b")
    newest = path.read_bytes()
    path.write_bytes(old.read_bytes())  # into the file that is there
    with pytest.raises(ArgumentError, match="old copy: it holds 1 entries, and 2 were written"):
        opened(path)
    with pytest.raises(ArgumentError, match="old copy"):
        opened(path, moved=True)
    path.write_bytes(newest)
    assert payloads(opened(path)[1]) == [b"a", b"b"]


def test_of_two_copies_one_goes_on(path, tmp_path):
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    log, _ = opened(copy)
    with pytest.raises(ArgumentError, match="is in use"):
        opened(path)
    log.append(b"b")
    log.close()
    with pytest.raises(ArgumentError, match="old copy"):
        opened(path)


def test_a_copy_that_went_on_elsewhere_is_refused_here(path, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    written(path, b"b")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        with pytest.raises(ArgumentError, match="is a copy, or was moved"):
            opened(copy)
        log, _ = opened(copy, moved=True)
        log.append(b"x", b"y")
        log.close()
        opened(copy)[0].close()  # known from now on
    with pytest.raises(ArgumentError, match="went on by itself"):
        opened(copy)


def test_without_a_place_for_the_witness_a_warning_says_what_is_not_noticed(
    path, tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.warns(PrivmeanWarning, match="would not be noticed"):
        log, found = opened(path)
    assert payloads(found) == [b"a"]
    log.append(b"b")
    log.close()


def test_hard_links_modes_and_times_are_no_reason_to_refuse(path, tmp_path):
    os.link(path, tmp_path / "link")
    os.chmod(path, 0o640)
    os.utime(path, (1, 1))
    written(path, b"b")
    assert payloads(opened(path)[1]) == [b"a", b"b"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE privmean_entries SET payload = x'7a' WHERE number = 2",
        "UPDATE privmean_entries SET digest = 'x' WHERE number = 2",
        "DELETE FROM privmean_entries WHERE number = 2",
        "UPDATE privmean_entries SET number = 9 WHERE number = 3",
        "UPDATE privmean_log SET base = 1",
        "DROP TABLE privmean_entries",
    ],
)
def test_what_was_changed_is_refused(path, change):
    written(path, b"b", b"c")
    with sqlite3.connect(path) as link:
        link.execute(change)
    link.close()
    with pytest.raises(ArgumentError, match="is damaged|old copy|is not a"):
        opened(path)


def test_every_turned_bit_and_every_cut_is_refused_or_changes_nothing(path):
    written(path, b"b" * 3000, b"c")
    whole, expected = path.read_bytes(), payloads(opened(path)[1])
    for place in range(0, len(whole), 61):
        for changed in (
            whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :],
            whole[:place],
        ):
            path.write_bytes(changed)
            try:
                log, found = opened(path)
            except ArgumentError:
                continue
            assert payloads(found) == expected
            log.close()
            path.with_name("state-wal").unlink(missing_ok=True)


def test_replaced_entries_go_on_and_are_overwritten(path, tmp_path):
    log, _ = opened(path)
    log.append(b"SECRET" * 1000)
    old = tmp_path / "old"
    shutil.copy(path, old)
    assert log.replace([b"short", *[x for x in log.entries() if len(x) < 9]])
    log.append(b"d")
    log.close()
    assert b"SECRET" not in path.read_bytes()
    log, found = opened(path)
    assert payloads(found) == [b"short", b"a", b"d"]
    log.close()
    with pytest.raises(ArgumentError, match="old copy"):
        opened(old)


def test_a_failed_write_changes_nothing(path):
    log, _ = opened(path)
    log._execute("PRAGMA max_page_count = 4")
    with pytest.raises(PrivmeanError, match="the disk is full"):
        log.append(b"x" * 100_000)
    with pytest.raises(PrivmeanError, match="was closed"):
        log.append(b"b")
    log, found = opened(path)
    assert payloads(found) == [b"a"]
    log._execute("PRAGMA max_page_count = 4")
    assert not log.replace([b"x" * 100_000])
    log.append(b"b")
    assert [*log.entries()] == [b"a", b"b"]


def test_a_fork_holds_nothing_and_harms_nothing(path):
    log, _ = opened(path)
    log.append(b"b")
    child = os.fork()
    if child == 0:
        try:
            log.append(b"c")
        except PrivmeanError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    log.append(b"d")
    log.close()
    assert payloads(opened(path)[1]) == [b"a", b"b", b"d"]


def test_a_new_log_is_known_once_it_has_its_name(tmp_path, monkeypatch):
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(durable_log, "sync_folder", lambda _: os.kill(os.getpid(), 9))
        DurableLog.create(tmp_path / "new", KIND, [b"a"])
    os.waitpid(child, 0)
    assert payloads(opened(tmp_path / "new")[1]) == [b"a"]


def test_a_kill_loses_nothing_and_the_file_without_its_own_log_is_an_old_copy(path, tmp_path):
    child = os.fork()
    if child == 0:
        log, _ = opened(path)
        log.append(b"b")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    with pytest.raises(ArgumentError, match="old copy.*-wal file"):
        opened(copy)
    assert payloads(opened(path)[1]) == [b"a", b"b"]


def test_half_a_note_leaves_the_one_before(path):
    log, _ = opened(path)
    for _ in range(3):
        log.append(b"b")
        last = log.append(b"c").seen
        note = (folder() / log.identity).read_bytes()
        for place in range(0, len(note), 128):
            (folder() / log.identity).write_bytes(
                note[: place + 70] + b"x" * 10 + note[place + 80 :]
            )
            witness = Witness(log.identity)
            with open(folder() / log.identity, "rb") as witness_file:
                witness._handle = witness_file.fileno()
                found = witness.read()
                witness._handle = None
            assert found is not None
            assert last.number - 1 <= found.number <= last.number
        (folder() / log.identity).write_bytes(note)


def test_shared_logs_take_what_others_added(path):
    logs = [opened(path, shared=True) for _ in range(2)]
    for (log, _), entry in zip(logs, (b"b", b"c"), strict=True):
        with log.turn():
            log.append(entry)
    with logs[0][0].turn():
        assert payloads(logs[0][1]) == [b"a", b"c"]
    assert payloads(logs[1][1]) == [b"a", b"b"]
    assert [*logs[0][0].entries()] == [b"a", b"b", b"c"]


def test_a_shared_log_that_was_refused_is_used_no_more(path):
    log, _ = opened(path, shared=True)
    other, _ = opened(path, shared=True)
    with other.turn():
        other.append(b"b", b"c")
    os.truncate(folder() / log.identity, 0)
    witness = Witness(log.identity)
    assert witness.lock(wait=False)
    witness.note(Seen(2, "0" * 64))
    witness.close()
    with pytest.raises(ArgumentError, match="went on by itself"), log.turn():
        pass
    assert not log.usable
    with pytest.raises(PrivmeanError, match="was closed"), log.turn():
        pass


def test_a_shared_log_is_not_usable_where_another_file_has_its_name(path):
    log, _ = opened(path, shared=True)
    assert log.usable
    path.rename(path.with_name("away"))
    assert not log.usable
    path.write_bytes(b"another")
    assert not log.usable


def test_a_log_is_let_go_with_its_last_reference(path):
    opened(path)[0].append(b"b")
    opened(path)[0].close()


def test_an_identity_names_no_file_elsewhere(path):
    with sqlite3.connect(path) as link:
        link.execute("UPDATE privmean_log SET identity = '../elsewhere'")
    link.close()
    with pytest.raises(ArgumentError, match="is not a test file"):
        opened(path)
    assert not (folder().parent / "elsewhere").exists()


def test_many_threads_and_processes_share_a_log(path):
    def work():
        log, _ = opened(path, shared=True)
        for _ in range(5):
            with log.turn():
                log.append(b"x")

    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            os._exit(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(payloads(opened(path)[1])) == 81


def test_the_witness_is_outside_of_the_folder_and_never_ahead(path):
    log, _ = opened(path)
    log.append(b"b")
    identity = log.identity
    log.close()
    assert (folder() / identity).exists()
    assert path.parent not in folder().parents
    witness = Witness(identity)
    assert witness.lock(wait=False)
    assert witness.read().number == 2
    witness.close()
