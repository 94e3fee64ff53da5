"""A run's folder that went back, or is there twice: no answer is drawn twice under one charge."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
import stopped_runs
from stopped_runs import kept_in

import privmean as pm
from privmean.errors import ArgumentError
from privmean.study.run_folder import LOG, RECEIPT, RESULT, held, run_in
from privmean.study.stored_answers import AnswerLog, CannotResume


@pytest.fixture
def study():
    made = pm.Study(
        pm.read(np.random.default_rng(3).normal(5, 1, 900)), epsilon=1.0, delta=1e-6, name="copied"
    )
    made.add("level", pm.Mean())
    made.add("limited", pm.Mean(assume=(0.0, 10.0)))
    return made


@pytest.fixture
def page(tmp_path):
    pm.Ledger(tmp_path / "book", epsilon=1.0, delta=1e-6)
    return tmp_path / "page"


def go_on(study, page, **options):
    return run_in(study, page, ledger=pm.Ledger.open(page.parent / "book"), **options)


def stopped(study, page, answers=0):
    stopped_runs.stopped(study, page, answers, run=go_on)


def refused(study, page, words):
    """Whatever is said of it."""
    for moved in (False, True):
        stopped_runs.refused(words, go_on, study, page, error=CannotResume, moved=moved)


def shell(command, **places):
    for name, place in places.items():
        command = command.replace(name, str(place))
    subprocess.run(command, shell=True, check=True, capture_output=True)


RESTORES = {
    "cp -a": "cp -a BACKUP/. PAGE",
    "cp": "cp BACKUP/* PAGE",
    "cat": "for file in $(ls BACKUP); do cat BACKUP/$file > PAGE/$file; done",
    "tar": "tar -C BACKUP -c . | tar -C PAGE -x",
    "rsync": "rsync -a --inplace BACKUP/ PAGE",
    "mv": "rm -r PAGE; mv BACKUP PAGE",
    "the folder": "rm -r PAGE; cp -a BACKUP PAGE",
    "the log alone": "cp BACKUP/run.log PAGE/run.log",
}


@pytest.mark.slow
@pytest.mark.parametrize("answers", [0, 1])
@pytest.mark.parametrize("tool", RESTORES)
def test_a_restored_backup_is_refused_and_the_newest_goes_on(tmp_path, study, page, tool, answers):
    if tool == "rsync" and not shutil.which("rsync"):
        pytest.skip("no rsync here")
    backup, newest = tmp_path / "backup", tmp_path / "newest"
    stopped(study, page, answers)
    shutil.copytree(page, backup)
    stopped(study, page, answers + 2)
    kept = kept_in(page)
    shutil.copytree(page, newest)
    shell(RESTORES[tool], PAGE=page, BACKUP=backup)
    refused(study, page, "is an old copy: .* Put the newest one back")
    shell(RESTORES[tool], PAGE=page, BACKUP=newest)
    go_on(study, page)
    assert kept.items() <= kept_in(page).items()


def test_a_backup_from_before_the_end_is_refused(tmp_path, study, page):
    stopped(study, page, 1)
    shutil.copytree(page, tmp_path / "backup")
    stored = go_on(study, page)
    shutil.copytree(page, tmp_path / "newest")
    shell(RESTORES["cp -a"], PAGE=page, BACKUP=tmp_path / "backup")
    refused(study, page, "is an old copy")
    shell(RESTORES["cp -a"], PAGE=page, BACKUP=tmp_path / "newest")
    assert go_on(study, page) == stored


def test_of_a_folder_and_its_copy_one_goes_on(tmp_path, study, page):
    stopped(study, page, 1)
    copy = tmp_path / "copy"
    shutil.copytree(page, copy)
    with held(copy), pytest.raises(ArgumentError, match="is used by another run"):
        go_on(study, page)
    stored = go_on(study, copy)
    refused(study, page, "is an old copy")
    assert len(pm.Ledger.open(tmp_path / "book").entries) == 1
    assert go_on(study, copy) == stored


def test_names_of_one_log_are_one_run(tmp_path, study, page):
    stopped(study, page, 1)
    other = tmp_path / "other"
    shutil.copytree(page, other, copy_function=os.link)
    stored = go_on(study, other)
    assert go_on(study, page) == stored


def test_a_moved_folder_goes_on(tmp_path, study, page, monkeypatch):
    stopped(study, page, 1)
    kept = kept_in(page)
    os.rename(page, tmp_path / "here")
    stopped(study, tmp_path / "here", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    with pytest.raises(CannotResume, match=r"or was moved from another machine .* \(--moved\)"):
        go_on(study, tmp_path / "here")
    go_on(study, tmp_path / "here", moved=True)
    assert kept.items() <= kept_in(tmp_path / "here").items()


def test_a_folder_whose_log_is_missing_is_refused(study, page):
    stopped(study, page, 1)
    log = (page / LOG).read_bytes()
    (page / LOG).unlink()
    assert (page / RECEIPT).exists()
    refused(study, page, r"run\.log is missing.* Put the newest one back")
    assert not (page / LOG).exists()
    (page / LOG).write_bytes(log)
    stored = go_on(study, page)
    (page / LOG).unlink()
    (page / RECEIPT).unlink()
    refused(study, page, r"run\.log is missing")
    assert json.loads((page / RESULT).read_text()) == stored


def test_a_killed_run_without_the_log_s_own_log_is_refused(study, page):
    pid = os.fork()
    if pid == 0:
        answer = AnswerLog.answer

        def killing(*arguments):
            answer(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        AnswerLog.answer = killing
        go_on(study, page)
    os.waitpid(pid, 0)
    wal = page / f"{LOG}-wal"
    saved = wal.read_bytes()
    wal.unlink()
    refused(study, page, "is an old copy: .* with its -wal file")
    wal.write_bytes(saved)
    assert len(kept_in(page)) == 1
    go_on(study, page)


def test_files_for_people_are_no_part_of_the_run(study, page):
    stored = go_on(study, page)
    for name in (RESULT, RECEIPT):
        (page / name).unlink()
    assert go_on(study, page) == stored == json.loads((page / RESULT).read_text())
