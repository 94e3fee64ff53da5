"""Faults at calls that change files, backups put back: every store, a few of each."""

from __future__ import annotations

import json

import pytest

import fault_machine
import restorer

STORES = {
    "stream", "withhold-release, batches", "client ledger", "budget ledger", "study run",
    "collector, SQLite",
}  # fmt: skip


def results(tmp_path, *arguments):
    done = fault_machine.preloaded(list(arguments), tmp_path)
    if done is None:
        pytest.skip("no C compiler")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_fault_loses_nothing_refuses_nothing_and_draws_nothing_twice(tmp_path):
    found = results(tmp_path, "--quick")
    assert {name for name, *_ in found} == STORES
    for name, fault, counts in found:
        assert counts.pop("faults") >= 1, (name, fault)
        assert not any(counts.values()), (name, fault, counts)


@pytest.mark.slow
def test_a_log_that_syncs_nothing_is_caught(tmp_path):
    found = results(tmp_path, "--twin", "--only", "withhold-release, batches")
    killed, cut = (counts for _, _, counts in found)
    assert cut.pop("faults") > 0
    assert any(cut.values())
    assert killed.pop("faults") > 0
    assert not any(killed.values())  # the system itself goes on


@pytest.mark.slow
def test_backups_put_back_are_refused_and_a_store_s_own_file_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "witness"))
    works = fault_machine.works(tmp_path / "input")
    for work in works:
        work.warm(tmp_path / f"warm {work.name}")
        for tool in ("cp -a", "cat >", "mv"):
            found = restorer.restored(work, tmp_path / "here", tool, 1)
            assert found == {"restores": 1, "refused": 1, "second": 0}, (work.name, tool)
        own = restorer.harmless(work, tmp_path / "here", len(restorer.HARMLESS))
        assert own == {"changes": len(restorer.HARMLESS), "refused": 0}, work.name


def test_the_restorer_sees_a_second_noise_where_nothing_can_refuse(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "witness"))
    work = fault_machine.works(tmp_path / "input")[1]
    work.warm(tmp_path / "warm")
    found = restorer.restored(work, tmp_path / "here", restorer.SNAPSHOT, 2)
    assert found["refused"] == 0 < found["second"]
