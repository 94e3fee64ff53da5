"""Copies in the place of the original: whatever inode number they got, no noise is drawn twice."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time

import numpy as np
import pytest

from file_copying import copied
from privmean.errors import ArgumentError
from privmean.storage import file_identity as identity
from privmean.storage.append_log import DurableLog
from privmean.storage.file_identity import Identity
from privmean.streams import MeanStream
from privmean.streams.buffered_toeplitz import Buffered

MEAN = {
    "epsilon": 1.0, "delta": 1e-6, "max_participations": 50, "min_separation": 1, "steps": 100,
    "bounds": (0.0, 5.0), "strategy": Buffered((0.25, 0.07), (0.6, 0.96)),
}  # fmt: skip


def written(path, *entries):
    log = DurableLog.create(path, "test", entries[:1])
    for entry in entries[1:]:
        log.append(entry)
    log.close()


def read(path, **how):
    found: list[bytes] = []
    DurableLog.open(path, "test", found.append, **how).close()
    return found


def added(path, *entries, anew=(), **how):
    log = DurableLog.open(path, "test", lambda _: None, **how)
    for entry in entries:
        log.append(entry)
    if anew:
        assert log.replace(anew)
    log.close()


# --- numbers given again -------------------------------------------------------------------------
def test_a_copy_in_the_place_of_the_lost_original_is_refused(tmp_path, reused):
    """cp run.state backup.state; the stream goes on; both lost; the backup copied back."""
    path, backup = tmp_path / "run.state", tmp_path / "backup.state"
    with MeanStream(state=path, **MEAN) as stream:
        stream.extend(["a", "b"], [1.0, 2.0])
    copied(path, backup)
    with MeanStream.resume(path) as stream:
        shown = stream.extend(["c"], [3.0])
    path.unlink()
    (tmp_path / "run.state.seen").unlink()
    copied(backup, path)
    with pytest.raises(ArgumentError, match="is a copy, or was moved"):
        MeanStream.resume(path)
    with MeanStream.resume(path, moved=True) as stream:
        assert stream.steps == shown[-1].step - 1
    MeanStream.resume(path).close()


def test_a_copy_with_the_number_that_writing_anew_set_free_is_refused(
    tmp_path, reused, monkeypatch
):
    monkeypatch.setattr("privmean.streams.state_file.SLACK", -(10**9))
    path = tmp_path / "run.state"
    with MeanStream(state=path, **MEAN) as stream:
        copied(path, tmp_path / "backup.state")
        stream.extend(["a", "b"], [1.0, 2.0])  # writes anew
        copied(tmp_path / "backup.state", tmp_path / "try.state")
        with pytest.raises(ArgumentError, match="is a copy, or was moved"):
            MeanStream.resume(tmp_path / "try.state")


def test_an_inode_number_that_is_given_again_is_no_proof(tmp_path):
    """With the file system's own numbers, as often as it takes to see one again."""
    if Identity.of(tmp_path).born is None:
        pytest.skip("this file system tells no time of birth")
    written(tmp_path / "old", b"a")
    path, old = tmp_path / "log", (tmp_path / "old").read_bytes()
    os.rename(tmp_path / "old", path)
    inode = path.stat().st_ino
    os.rename(path, tmp_path / "backup")
    shutil.copy(tmp_path / "backup", tmp_path / "kept")
    (tmp_path / "backup").unlink()
    (tmp_path / "old.seen").unlink()
    time.sleep(0.05)
    for number in range(500):
        (tmp_path / f"{number}").write_bytes(old)
        if (tmp_path / f"{number}").stat().st_ino == inode:
            with pytest.raises(ArgumentError, match="is a copy"):
                read(tmp_path / f"{number}")
            return
    pytest.skip("this file system gave the number to none of 500 new files")


# --- hard links ----------------------------------------------------------------------------------
def test_a_file_of_two_names_is_refused_until_one_is_gone_or_it_is_said_to_be_moved(tmp_path):
    path, alias = tmp_path / "log", tmp_path / "alias"
    written(path, b"a", b"b")
    os.link(path, alias)
    for name in (path, alias):
        with pytest.raises(ArgumentError, match=r"2 names \(hard links\)") as caught:
            read(name)
        assert str(name) in str(caught.value)
        assert "Remove the others" in str(caught.value)
    alias.unlink()
    assert read(path) == [b"a", b"b"]
    os.link(path, alias)
    assert read(path, moved=True) == [b"a", b"b"]
    added(path, b"c")  # said once
    for moved in (False, True):
        with pytest.raises(ArgumentError, match="written anew, and the new file went on"):
            read(alias, moved=moved)
    assert read(path) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("when", ["before", "while it is written", "renamed"])
def test_a_name_left_behind_by_writing_anew_is_refused(tmp_path, monkeypatch, when):
    path, alias = tmp_path / "log", tmp_path / "alias"
    written(path, b"a", b"b")
    log = DurableLog.open(path, "test", lambda _: None)
    rename = os.rename

    def linked(source, target):
        os.link(path, alias)
        rename(source, target)

    if when == "before":
        os.link(path, alias)
    elif when == "renamed":
        rename(path, alias)
    else:
        monkeypatch.setattr("privmean.storage.append_log.os.rename", linked)
    assert log.replace([b"both"])
    log.append(b"c")
    log.close()
    for moved in (False, True):
        with pytest.raises(ArgumentError, match="written anew, and the new file went on"):
            read(alias, moved=moved)
    assert read(path) == [b"both", b"c"]


def test_a_copy_that_ends_while_the_file_is_written_anew_is_one_like_any_other(tmp_path):
    path, alias = tmp_path / "log", tmp_path / "alias"
    written(path, b"a")
    os.link(path, alias)
    added(path, anew=[b"a"], moved=True)
    copied(alias, tmp_path / "copy")  # the old file with its last words
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "copy")
    added(tmp_path / "copy", b"b", moved=True)
    assert read(tmp_path / "copy") == [b"a", b"b"]


def test_a_stream_s_hidden_name_draws_nothing(tmp_path, monkeypatch):
    path, alias = tmp_path / "run.state", tmp_path / "alias.state"
    with MeanStream(state=path, **MEAN) as stream:
        stream.extend(["a", "b"], [1.0, 2.0])
    os.link(path, alias)
    with pytest.raises(ArgumentError, match="hard links"):
        MeanStream.resume(alias)
    with MeanStream.resume(path, moved=True) as stream:
        stream.extend(list(range(20)), np.ones(20))
    with pytest.raises(ArgumentError, match="old copy"):
        MeanStream.resume(alias, moved=True)
    with MeanStream.resume(path) as stream:
        assert [item.step for item in stream.releases()] == list(range(1, stream.steps + 1))


class Crash(BaseException):
    pass


@pytest.mark.parametrize("at", range(9))
def test_a_crash_while_a_file_of_two_names_is_written_anew_can_only_refuse(
    tmp_path, monkeypatch, at
):
    """Of both names, one at most goes on, with all entries; or neither, and the new file lies
    beside."""
    path, alias = tmp_path / "log", tmp_path / "alias"
    written(path, b"a", b"b")
    log = DurableLog.open(path, "test", lambda _: None)
    os.link(path, alias)
    left = [at]

    class Dying:
        def __getattr__(self, name):
            call = getattr(os, name)
            if name not in ("write", "pwrite", "fsync", "ftruncate", "rename", "truncate"):
                return call

            def change(*arguments):
                left[0] -= 1
                if left[0] < 0:
                    raise Crash
                return call(*arguments)

            return change

    with monkeypatch.context() as patched:
        for module in ("append_log", "file_io", "last_seen"):
            patched.setattr(f"privmean.storage.{module}.os", Dying())
        with contextlib.suppress(Crash):
            log.replace([b"a", b"b"])
    log.close()
    (tmp_path / "log.seen").unlink()  # nothing but the file tells
    found = []
    for name in (path, alias):
        with contextlib.suppress(ArgumentError):
            found.append(read(name))
    assert found in ([], [[b"a", b"b"]])
    if not found and "written anew" in refusal(path):
        os.rename(tmp_path / "log.new", path)
        found = [read(path)]
        assert "written anew" in refusal(alias)
    alias.unlink()
    assert read(path) == [b"a", b"b"]


def refusal(path):
    with pytest.raises(ArgumentError) as caught:
        read(path)
    return str(caught.value)


def test_a_name_that_cannot_be_given_leaves_all_as_it_was(tmp_path, monkeypatch):
    def busy(*_):
        raise OSError(errno.EBUSY, "mounted")

    written(tmp_path / "log", b"a")
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    os.link(tmp_path / "log", tmp_path / "alias")
    monkeypatch.setattr("privmean.storage.append_log.os.rename", busy)
    assert not log.replace([b"a"])
    log.append(b"b")
    log.close()
    assert (tmp_path / "alias").read_bytes() == (tmp_path / "log").read_bytes()
    (tmp_path / "alias").unlink()
    assert read(tmp_path / "log") == [b"a", b"b"]


def test_names_of_a_copy_are_refused_and_left_as_they_are(tmp_path):
    """Backups whose unchanged files are one file: the one that is gone on from is taken out."""
    written(tmp_path / "log", b"a")
    copied(tmp_path / "log", tmp_path / "monday")
    os.link(tmp_path / "monday", tmp_path / "tuesday")
    before = (tmp_path / "monday").read_bytes()
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "tuesday")
    added(tmp_path / "tuesday", b"b", moved=True)
    assert read(tmp_path / "tuesday") == [b"a", b"b"]
    assert (tmp_path / "monday").read_bytes() == before
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "monday")


def test_what_a_crash_left_beside_is_no_state(tmp_path, monkeypatch):
    def die(*_):
        raise Crash

    written(tmp_path / "log", b"a")
    log = DurableLog.open(tmp_path / "log", "test", lambda _: None)
    with monkeypatch.context() as patched:
        patched.setattr("privmean.storage.append_log.os.rename", die)
        with pytest.raises(Crash):
            log.replace([b"a"])
    log.close()
    os.link(tmp_path / "log.new", tmp_path / "hidden")
    added(tmp_path / "log", b"b")
    assert not (tmp_path / "log.new").exists()
    with pytest.raises(ArgumentError, match="is empty"):
        read(tmp_path / "hidden")
    written(tmp_path / "log.new", b"another log")  # what is not of this log stays
    assert read(tmp_path / "log") == [b"a", b"b"]
    assert read(tmp_path / "log.new") == [b"another log"]


# --- older files, and systems that tell less -----------------------------------------------------
def of_older_version(path, *entries):
    """A file that names its inode alone."""
    from privmean.storage import append_log as durable

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(durable, "_said", lambda place: {"place": place.inode})
        written(path, *entries)
    assert b"born" not in path.read_bytes()


def test_files_of_older_versions_are_read_and_say_more_at_the_next_entry(tmp_path, reused):
    path = tmp_path / "log"
    of_older_version(path, b"a")
    assert read(path) == [b"a"]
    assert b"born" not in path.read_bytes()  # reading writes nothing
    copied(path, tmp_path / "early")
    assert read(tmp_path / "early") == [b"a"]  # its number is all that was written
    added(path, b"b", b"c")
    assert path.read_bytes().count(b'"born"') == 1
    assert read(path) == [b"a", b"b", b"c"]
    copied(path, tmp_path / "late")
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "late")


def test_a_file_of_an_older_version_is_moved_and_written_anew_as_ever(tmp_path):
    path = tmp_path / "log"
    of_older_version(path, b"a")
    shutil.copy(path, tmp_path / "copy")
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "copy")
    assert read(tmp_path / "copy", moved=True) == [b"a"]
    added(path, anew=[b"all"])
    assert b'"born"' in path.read_bytes()
    assert read(path) == [b"all"]


def test_without_a_birth_the_number_and_the_note_tell_as_before(tmp_path, unborn):
    path = tmp_path / "log"
    written(path, b"a")
    assert b'"born": null' in path.read_bytes()
    copied(path, tmp_path / "copy")
    with pytest.raises(ArgumentError, match="is a copy"):
        read(tmp_path / "copy")
    added(path, b"b", anew=[b"all"])
    added(path, b"c")
    assert read(path) == [b"all", b"c"]
    os.link(path, tmp_path / "alias")
    with pytest.raises(ArgumentError, match="hard links"):
        read(tmp_path / "alias")
    shutil.copyfile(tmp_path / "copy", path)
    with pytest.raises(ArgumentError, match="old copy"):
        read(path, moved=True)


def test_a_birth_that_is_not_told_any_more_is_refused_until_it_is_said(tmp_path, monkeypatch):
    if Identity.of(tmp_path).born is None:
        pytest.skip("this file system tells no time of birth")
    written(tmp_path / "log", b"a")
    monkeypatch.setattr(identity, "_born", lambda handle: None)
    with pytest.raises(ArgumentError, match="is a copy, or was moved"):
        read(tmp_path / "log")
    assert read(tmp_path / "log", moved=True) == [b"a"]
    assert read(tmp_path / "log") == [b"a"]
    monkeypatch.undo()
    assert read(tmp_path / "log") == [b"a"]
