"""The append-only file: any copy is a true beginning or refused, and what can be noticed is."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading

import pytest

from forked_process import forked
from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.append_log import DurableLog

ENTRIES = [b"", b"one", b"\n\n\0\xff", b"x" * 300, b"last"]


def read(path, **how):
    """The entries of a file, which is then let go."""
    found: list[bytes] = []
    DurableLog.open(path, "test", found.append, **how).close()
    return found


def written(path, entries=ENTRIES):
    log = DurableLog.create(path, "test", entries[:2])
    for entry in entries[2:]:
        log.append(entry)
    log.close()
    return path.read_bytes()


def test_entries_come_back_in_order(tmp_path):
    written(tmp_path / "log")
    assert read(tmp_path / "log") == ENTRIES
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    log.append(b"more")
    assert list(log.entries()) == [*ENTRIES, b"more"]
    log.close()
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "log.seen").stat().st_mode) == 0o600


def test_every_beginning_of_the_file_is_a_true_one_or_refused(tmp_path):
    """As a copy: refused unless it ends with an entry. As a file that a crash cut off: never more
    than its last entry is missing."""
    data = written(tmp_path / "log")
    (tmp_path / "log.seen").unlink()
    ends, refused = {}, set()
    for cut in range(len(data) + 1):
        copy = tmp_path / "copy"
        copy.write_bytes(data[:cut])
        try:
            ends[cut] = read(copy, moved=True)
        except ArgumentError as problem:
            refused.add(problem.problem)
        (tmp_path / "copy.seen").unlink(missing_ok=True)
    assert refused == {
        "is empty",
        "is not a test file of this version",
        "is cut off at its beginning",
        "is a copy whose end is cut off",
    }
    assert list(ends.values()) == [ENTRIES[:k] for k in (2, 3, 4, 5)]
    assert max(ends) == len(data)
    for cut in range(min(ends), len(data) + 1):
        with (tmp_path / "log").open("r+b") as file:  # the file itself, in its place
            file.write(data[:cut])
            file.truncate()
        assert read(tmp_path / "log") == ends[max(end for end in ends if end <= cut)]
        (tmp_path / "log.seen").unlink()


def test_every_changed_bit_is_refused(tmp_path):
    data = written(tmp_path / "log", [b"a", b"bc"])
    for bit in range(8 * len(data)):
        for flip in (1 << bit % 8, 0):
            with (tmp_path / "log").open("r+b") as file:
                file.seek(bit // 8)
                file.write(bytes([data[bit // 8] ^ flip]))
            if flip:
                with pytest.raises(ArgumentError):
                    read(tmp_path / "log")
    assert read(tmp_path / "log") == [b"a", b"bc"]


def test_a_copy_is_refused_until_it_is_said_to_be_the_newest(tmp_path):
    written(tmp_path / "log")
    shutil.copy(tmp_path / "log", tmp_path / "copy")
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "copy")
    assert read(tmp_path / "copy", moved=True) == ENTRIES
    assert read(tmp_path / "copy") == ENTRIES  # it is the original from now on
    os.rename(tmp_path / "copy", tmp_path / "renamed")  # the same file: no copy
    assert read(tmp_path / "renamed") == ENTRIES


@pytest.mark.parametrize("way", ["over", "renamed", "with its note"])
def test_an_old_copy_put_back_is_refused_whatever_is_said(tmp_path, way):
    path, old = tmp_path / "log", tmp_path / "old"
    written(path)
    shutil.copy(path, old)
    log = DurableLog.open(path, "test", lambda _: None)
    log.append(b"more")
    log.close()
    if way == "over":
        shutil.copyfile(old, path)
    elif way == "renamed":
        os.rename(old, path)
    else:
        shutil.copy(tmp_path / "log.seen", tmp_path / "old.seen")
        path = old
    for moved in (False, True):
        with pytest.raises(ArgumentError, match=r"old copy: it holds 3 entries, and 4 were"):
            read(path, moved=moved)


@pytest.mark.parametrize("anew", [False, True])
def test_a_copy_that_went_on_by_itself_is_refused_here(tmp_path, anew):
    written(tmp_path / "log")
    shutil.copy(tmp_path / "log", tmp_path / "copy")
    for name, count in (("copy", 3), ("log", 2)):
        log = DurableLog.open(tmp_path / name, "test", lambda _: None, moved=True)
        for k in range(count):
            log.append(f"{name} {k}".encode())
        if anew and name == "log":
            log.replace([b"all"])
        log.close()
    newest = (tmp_path / "log").read_bytes()
    shutil.copyfile(tmp_path / "copy", tmp_path / "log")
    with pytest.raises(ArgumentError, match="went on by itself"):
        read(tmp_path / "log", moved=True)
    (tmp_path / "log").write_bytes(newest)
    assert len(read(tmp_path / "log", moved=anew)) == (1 if anew else 7)


def test_a_kill_between_writing_anew_and_the_note_is_no_stray(tmp_path, monkeypatch):
    written(tmp_path / "log")
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    monkeypatch.setattr(log, "_noted", lambda: None)
    assert log.replace([b"all of it"])
    log.close()
    assert read(tmp_path / "log") == [b"all of it"]


def test_a_new_log_of_the_same_name_is_not_an_old_one(tmp_path):
    written(tmp_path / "log")
    (tmp_path / "log").unlink()
    written(tmp_path / "log", [b"a", b"b"])
    assert read(tmp_path / "log") == [b"a", b"b"]


def test_writing_anew_keeps_what_is_noticed(tmp_path):
    path = tmp_path / "log"
    written(path)
    shutil.copy(path, tmp_path / "old")
    log = DurableLog.open(path, "test", lambda _: None)
    assert log.replace([b"all", b"of it"])
    log.append(b"more")
    with pytest.raises(ArgumentError, match="is in use"):
        read(path)
    log.close()
    assert read(path) == [b"all", b"of it", b"more"]
    shutil.copyfile(tmp_path / "old", path)
    with pytest.raises(ArgumentError, match="old copy"):
        read(path)


def test_a_file_that_cannot_be_written_anew_stays_as_it_is(tmp_path, monkeypatch):
    def busy(*_):
        raise OSError(errno.EBUSY, "mounted")

    log = DurableLog.create(tmp_path / "log", "test", ENTRIES)
    monkeypatch.setattr("privmean.storage.append_log.os.rename", busy)
    assert not log.replace([b"short"])
    log.append(b"more")
    log.close()
    assert read(tmp_path / "log") == [*ENTRIES, b"more"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.seen"]


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("some text\n" * 100)
    written(tmp_path / "log")
    (tmp_path / "half").write_bytes((tmp_path / "log").read_bytes()[:60])
    for name, problem in {
        "empty": "is empty",
        "text": "not a test file",
        "half": "cut off at its beginning",
        "none": "cannot be opened",
        "": "cannot be opened",
    }.items():
        with pytest.raises(ArgumentError, match=problem):
            read(tmp_path / name)
    with pytest.raises(ArgumentError, match="not a other file"):
        DurableLog.open(tmp_path / "log", "other", lambda _: None)
    with pytest.raises(ArgumentError, match="exists"):
        DurableLog.create(tmp_path / "log", "test")
    with pytest.raises(ArgumentError, match="cannot be created"):
        DurableLog.create(tmp_path / "no folder" / "log", "test")


def test_one_at_a_time_also_among_threads(tmp_path):
    written(tmp_path / "log")
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    with pytest.raises(ArgumentError, match="is in use"):
        read(tmp_path / "log", patience=0.1)
    threading.Timer(0.1, log.close).start()
    assert read(tmp_path / "log", patience=10.0) == ENTRIES
    with pytest.raises(PrivmeanError, match="closed"):
        log.append(b"")


def test_a_fork_neither_writes_nor_holds_the_lock(tmp_path):
    written(tmp_path / "log")
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    ends, tried = os.pipe(), os.pipe()

    def child():
        with pytest.raises(PrivmeanError, match="fork"):
            log.append(b"second")
        os.close(ends[1])
        os.write(tried[1], b"!")
        os.read(ends[0], 1)  # until the parent is done

    with forked(child):
        os.close(ends[0])
        assert os.read(tried[0], 1) == b"!"
        log.append(b"first")
        log.close()
        assert read(tmp_path / "log") == [*ENTRIES, b"first"]
        os.close(ends[1])


@pytest.mark.parametrize("moment", range(3))
def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path, monkeypatch, moment):
    """No space at all, after half an entry, or at the very synchronisation."""
    written(tmp_path / "log")
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    real = os.write

    def full(handle, data, *, room=(0, 20, 10**6)[moment]):
        if len(data) <= room:
            return real(handle, data)
        if room and len(data) == size:
            return real(handle, bytes(data)[:room])
        raise OSError(errno.ENOSPC, "No space left on device")

    def unsynced(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    size = 48 + 1 + 100
    with monkeypatch.context() as patched:
        patched.setattr("privmean.storage.append_log.os.write", full)
        if moment == 2:
            patched.setattr("privmean.storage.append_log.os.fsync", unsynced)
        with pytest.raises(PrivmeanError, match="the disk is full. Nothing of this batch"):
            log.append(b"x" * 100)
    with pytest.raises(PrivmeanError, match="Open it again"):
        log.append(b"")
    assert read(tmp_path / "log") == ENTRIES
