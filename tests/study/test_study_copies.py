"""Copies of a run's folder, and of what is in it: no answer is drawn twice under one charge."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

import privmean as pm
from file_copying import copied
from privmean.errors import ArgumentError
from privmean.storage.file_identity import Identity
from privmean.study.answer_log import AnswerLog, CannotResume
from privmean.study.run_folder import DRAWS, LOCK, RECEIPT, RUN
from privmean.study.write_outputs import run_in


class Killed(BaseException):
    """A process that ends here."""


@pytest.fixture
def study():
    made = pm.Study(
        pm.read(np.random.default_rng(3).normal(5, 1, 900)), epsilon=1.0, delta=1e-6, name="copied"
    )
    made.add("level", pm.Mean())
    made.add("limited", pm.Mean(assume=(0.0, 10.0)))
    return made


def charged(study, folder, book):
    """A run that was stopped after its receipt, before any answer."""

    def die(*_):
        raise Killed

    pm.Ledger(book, epsilon=1.0, delta=1e-6)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AnswerLog, "answer", die)
        with pytest.raises(Killed):
            run_in(study, folder, ledger=pm.Ledger.open(book))
    assert (folder / RECEIPT).exists()
    assert not (folder / DRAWS).exists()


def test_a_folder_copied_back_in_its_place_is_refused(tmp_path, study, reused):
    page, backup, book = tmp_path / "page", tmp_path / "backup", tmp_path / "book"
    charged(study, page, book)
    copied(page, backup)
    run_in(study, page, ledger=pm.Ledger.open(book))
    shutil.rmtree(page)
    copied(backup, page)
    with pytest.raises(CannotResume, match="is a copy"):
        run_in(study, page, ledger=pm.Ledger.open(book))
    assert not (page / DRAWS).exists()


def test_a_folder_whose_lock_has_another_name_is_refused(tmp_path, study):
    page, other, book = tmp_path / "page", tmp_path / "other", tmp_path / "book"
    charged(study, page, book)
    shutil.copytree(page, other, copy_function=os.link)
    for folder in (page, other):
        with pytest.raises(ArgumentError, match=r"study\.lock.* has 2 names \(hard links\)"):
            run_in(study, folder, ledger=pm.Ledger.open(book))
        assert not (folder / DRAWS).exists()
    shutil.rmtree(other)
    stored = run_in(study, page, ledger=pm.Ledger.open(book))
    os.link(page / LOCK, tmp_path / "name")
    assert run_in(study, page, ledger=pm.Ledger.open(book)) == stored  # nothing is drawn any more


def test_a_name_left_behind_of_the_lock_tells_which_answers_were_given(tmp_path, study):
    page, other, book = tmp_path / "page", tmp_path / "other", tmp_path / "book"
    charged(study, page, book)
    other.mkdir()
    for name in (RUN, RECEIPT):
        shutil.copy(page / name, other / name)
    run_in(study, page, ledger=pm.Ledger.open(book))
    os.rename(page / LOCK, other / LOCK)
    with pytest.raises(CannotResume, match=r"draws\.jsonl is an old copy, or was removed"):
        run_in(study, other, ledger=pm.Ledger.open(book))
    assert not (other / DRAWS).exists()


@pytest.mark.parametrize("left", [0, 1])
def test_answers_that_are_missing_are_not_drawn_again(tmp_path, study, left):
    page = tmp_path / "page"
    run_in(study, page)
    (page / "release.json").unlink()
    kept = (page / DRAWS).read_bytes().splitlines(keepends=True)
    (page / DRAWS).write_bytes(b"".join(kept[:left]))
    with pytest.raises(CannotResume, match=f"{len(kept) - left} answers of this run are missing"):
        run_in(study, page)
    assert (page / DRAWS).read_bytes() == b"".join(kept[:left])
    (page / DRAWS).write_bytes(b"".join(kept))
    run_in(study, page)
    assert (page / DRAWS).read_bytes() == b"".join(kept)


def place_of(page):
    return json.loads((page / RUN).read_text())["place"]


def test_a_run_of_an_older_version_goes_on_and_says_more_then(tmp_path, study, reused):
    """Its lock is empty, and its place has no birth."""
    page, book = tmp_path / "page", tmp_path / "book"
    charged(study, page, book)
    run_in(study, page, ledger=pm.Ledger.open(book))
    (page / "release.json").unlink()
    os.truncate(page / LOCK, 0)
    stated = json.loads((page / RUN).read_text())
    (page / RUN).write_text(json.dumps({**stated, "place": stated["place"][:2]}))
    kept = (page / DRAWS).read_bytes()
    run_in(study, page, ledger=pm.Ledger.open(book))
    assert (page / DRAWS).read_bytes() == kept
    assert (page / LOCK).stat().st_size == len(kept.splitlines())
    assert place_of(page) == stated["place"]
    assert len(pm.Ledger.open(book).entries) == 1
    copied(page, tmp_path / "copy")
    with pytest.raises(CannotResume, match="is a copy"):
        run_in(study, tmp_path / "copy", ledger=pm.Ledger.open(book))


def test_without_a_birth_device_and_number_tell_as_before(tmp_path, study, unborn):
    page, book = tmp_path / "page", tmp_path / "book"
    charged(study, page, book)
    assert place_of(page)[2] is None
    copied(page, tmp_path / "copy")
    with pytest.raises(CannotResume, match="is a copy"):
        run_in(study, tmp_path / "copy", ledger=pm.Ledger.open(book))
    run_in(study, page, ledger=pm.Ledger.open(book))


@pytest.mark.parametrize("place", [None, 5, [], [1], ["a", "b"], [1, 2, 3, 4], [1, 2, "c"]])
def test_a_place_that_is_none_is_that_of_a_copy(tmp_path, study, place):
    page, book = tmp_path / "page", tmp_path / "book"
    charged(study, page, book)
    stated = json.loads((page / RUN).read_text())
    (page / RUN).write_text(json.dumps({**stated, "place": place}))
    with pytest.raises(CannotResume, match="is a copy"):
        run_in(study, page, ledger=pm.Ledger.open(book))


def test_the_birth_of_the_lock_is_written(tmp_path, study):
    page = tmp_path / "page"
    run_in(study, page)
    here = Identity.of(page / LOCK)
    assert place_of(page)[1:] == [here.inode, here.born]
