"""Which file it is: one identity while it is used, another for every copy."""

from __future__ import annotations

import os
import shutil
import time
from types import SimpleNamespace

import pytest

from privmean.storage import file_identity as identity
from privmean.storage.file_identity import Identity


def test_an_identity_stays_while_the_file_is_used_and_no_copy_has_it(tmp_path):
    (tmp_path / "a").write_text("x")
    first = Identity.of(tmp_path / "a")
    if first.born is None:
        pytest.skip("this file system tells no time of birth")
    assert abs(first.born / 1e9 - time.time()) < 60
    (tmp_path / "a").write_text("more")
    with (tmp_path / "a").open() as file:
        assert Identity.of(file.fileno()) == first
    os.utime(tmp_path / "a", (5, 5))
    os.chmod(tmp_path / "a", 0o600)
    os.rename(tmp_path / "a", tmp_path / "b")
    assert Identity.of(tmp_path / "b") == first
    time.sleep(0.05)
    shutil.copy2(tmp_path / "b", tmp_path / "c")
    assert Identity.of(tmp_path / "c").born != first.born


def test_a_record_says_as_much_as_it_holds():
    whole, weak = Identity(5, 100), Identity(5)
    assert whole.is_of(whole)
    assert whole.is_of(weak)
    assert weak.is_of(weak)
    assert not weak.is_of(whole)
    assert not Identity(5, 101).is_of(whole)
    assert not Identity(6, 100).is_of(whole)
    assert not Identity(6).is_of(weak)
    assert whole.tells_more_than(weak)
    assert not weak.tells_more_than(weak)
    assert not whole.tells_more_than(whole)
    assert weak.number == 5
    assert 0 <= whole.number < 2**63
    assert len({whole.number, Identity(5, 101).number, Identity(6, 100).number}) == 3


def test_births_of_other_systems(monkeypatch):
    def born(system, **told):
        found = SimpleNamespace(st_ctime_ns=5, **told)
        with monkeypatch.context() as patched:
            patched.setattr(identity, "SYSTEM", system)
            patched.setattr(identity, "os", SimpleNamespace(stat=lambda handle: found))
            return identity._born(0)

    assert born("darwin", st_birthtime=7.5) == 7_500_000_000
    assert born("freebsd14", st_birthtime=-1.0) is None
    assert born("other") is None
    assert born("win32") == 5
    assert born("win32", st_birthtime_ns=6) == 6


@pytest.mark.parametrize("why", ["no such call", "refused", "not told"])
def test_no_birth_where_linux_does_not_tell_it(monkeypatch, why):
    def call(handle, path, flags, mask, found):
        return -1 if why == "refused" else 0

    monkeypatch.setattr(identity, "SYSTEM", "linux")
    monkeypatch.setattr(identity, "_statx", lambda: None if why == "no such call" else call)
    assert identity._born(0) is None
