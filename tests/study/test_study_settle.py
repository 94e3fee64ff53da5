"""A study is settled once, at what its looks and its questions asked; killed at any point between
the reserve and the result it counts whole or settled, and once settled it draws nothing more."""

from __future__ import annotations

import os
import signal
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from forked_process import fork
from privmean.estimators.means.region_mean import SharedLocationQuery
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.privacy.ledger import Ledger
from privmean.study.run_folder import ANSWER, RunFolder, held, run_in
from privmean.study.stored_answers import AnswerLog, CannotResume
from privmean.study.study import run

TOTAL = {"epsilon": 5.0}
PERSONS = 3000


def study(*names):
    """Two questions share a look at a column; two others find no value, nor does a look."""
    rng = np.random.default_rng(3)
    who = np.arange(PERSONS)
    y = rng.normal(5, 1, PERSONS)
    table = pm.Table({"who": who, "y": y, "z": y * np.nan}, person="who")
    made = pm.Study(table, epsilon=4.0, name="settled")
    questions = {
        "level": pm.Mean("y"), "again": pm.Mean("y", method="default"),
        "limited": pm.Mean("y", assume=(0, 9)), "empty": pm.Mean("z"),
        "nothing": pm.Mean("z"),
    }  # fmt: skip
    for name in names or ("limited", "empty"):
        made.add(name, questions[name])
    return made


def asked(found):
    """Epsilon of what the looks and the releases asked, each once, counted here."""
    looks = [line for look in found.plan.shared_locations for line in look.events]
    sums = sum((line.pure for line in looks), Fraction(0))
    for answer in found.answers:
        if answer.release is not None:
            own = list(answer.release.guarantee.mechanisms)
            for line in (line for look in answer.part.looks for line in look.events):
                own.remove(next(item for item in own if item.pure == line.pure))
            sums += sum((line.pure for line in own), Fraction(0))
    return sums


# --- what counts ----------------------------------------------------------------------------------


def test_lines_of_a_shared_look_count_once():
    book = Ledger(**TOTAL)
    found = study("level", "again", "empty").release(ledger=book)
    assert found.plan.shared_locations
    assert all(answer.release is not None for answer in found.answers)
    (entry,) = book.entries
    assert entry.counted.epsilon == asked(found)
    assert entry.counted.epsilon < 4
    assert pm.verify(found, ledger=book)
    assert "came back" in str(found)


def test_a_look_that_finds_nothing_costs_itself_alone():
    book = Ledger(**TOTAL)
    found = study("limited", "empty", "nothing").release(ledger=book)
    assert [answer.part.looks != () for answer in found.answers] == [False, True, True]
    (entry,) = book.entries
    assert entry.counted.epsilon == asked(found) < 3
    assert pm.verify(found, ledger=book)


@pytest.mark.parametrize("names", [("limited", "empty"), ("limited", "empty", "nothing")])
def test_verify_refuses_a_settlement_below_the_bill_of_the_study(names):
    book, forged = Ledger(**TOTAL), Ledger(**TOTAL)
    found = study(*names).release(ledger=book)
    promise = found.guarantee
    entry = forged.charge(promise)
    less = [line for line in promise.mechanisms if line.name.startswith("limited")]
    forged.settle(entry, less)
    (entry,) = forged.entries
    assert entry.counted.epsilon < asked(found)
    stored = found.to_dict()
    stored["provenance"]["ledger"] |= {"number": entry.number, "digest": entry.digest}
    problems = pm.verify(stored, ledger=forged).problems
    assert any("less than what was asked" in problem for problem in problems)


def test_a_question_or_a_look_that_is_lost_to_an_error_settles_nothing(monkeypatch):
    def fails(*_, **__):
        raise RuntimeError

    shared = "limited", "level", "again"
    for kind, names in ((NoisyCounts, ("limited", "empty")), (SharedLocationQuery, shared)):
        with monkeypatch.context() as broken:
            book = Ledger(**TOTAL)
            broken.setattr(kind, "draw" if kind is NoisyCounts else "run", fails)
            found = study(*names).release(ledger=book)
            assert any(answer.release is None for answer in found.answers)
            assert any(answer.release is not None for answer in found.answers)
            (entry,) = book.entries
            assert entry.settlement is None
            assert asked(found) < 4  # there would be something to give back
            assert pm.verify(found, ledger=book)


# --- killed ---------------------------------------------------------------------------------------


def killing(owner, name, *, after=0, told=lambda *_: True):
    """Kill this process as a method is called, or the given number of such calls after it."""
    real, calls = getattr(owner, name), []

    def made(self, *given, **how):
        if told(*given):
            calls.append(name)
            if len(calls) > after:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *given, **how)

    setattr(owner, name, made)


def is_answer(name, *_):
    return name == ANSWER


POINTS = {
    "before the reserve": lambda: killing(Ledger, "charge"),
    "before the receipt": lambda: killing(RunFolder, "charged"),
    "between answers": lambda: killing(RunFolder, "_add", after=1, told=is_answer),
    "before it is settled": lambda: killing(Ledger, "settle"),
    "before the result": lambda: killing(RunFolder, "finish"),
}


@pytest.mark.slow
@pytest.mark.parametrize("home", ["file", "database"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_of_its_points_it_counts_what_was_drawn_at_least(tmp_path, point, home):
    book = tmp_path / "ledger" if home == "file" else f"sqlite:///{tmp_path}/team.db"
    out = tmp_path / "out"
    Ledger(book, **TOTAL).close()

    def work():
        POINTS[point]()
        run_in(study(), out, ledger=Ledger.open(book))

    _, status = os.waitpid(fork(work), 0)
    assert os.WIFSIGNALED(status)
    entries = Ledger.open(book).entries
    if point == "before the reserve":
        assert not entries
    else:
        (entry,) = entries
        assert entry.amount.epsilon == 4
        assert (entry.settlement is not None) == (point == "before the result")
    with held(out) as folder:
        before = dict(folder.answers)
    stored = run_in(study(), out, ledger=Ledger.open(book))
    (entry,) = Ledger.open(book).entries
    with held(out) as folder:
        assert before.items() <= folder.answers.items()
    releases = [item["release"]["guarantee"] for item in stored["questions"]]
    lines = [line for promise in releases for line in pm.Guarantee.from_dict(promise).mechanisms]
    assert entry.counted.epsilon == sum(line.pure for line in lines) < 4
    assert pm.verify(stored, ledger=Ledger.open(book))
    assert run_in(study(), out, ledger=Ledger.open(book)) == stored


@pytest.mark.slow
def test_a_run_that_was_settled_draws_nothing_that_is_not_kept():
    """Resumed with all its answers it gives the same release; with one removed it is refused."""
    book, kept = Ledger(**TOTAL), {}

    def again():
        draws = AnswerLog(dict(kept), lambda at, *answer: kept.__setitem__(at, answer))
        return run(study(), ledger=book, draws=draws.of, run_id="r")

    def kept_of(found):
        return [answer.release.estimate.tolist() for answer in found.answers]

    first = again()
    (entry,) = book.entries
    assert entry.settlement is not None
    assert np.array_equal(kept_of(again()), kept_of(first), equal_nan=True)
    assert book.entries == (entry,)
    whole = dict(kept)
    assert len(whole) >= 2
    for place in whole:
        kept.clear()
        kept |= {at: answer for at, answer in whole.items() if at != place}
        with pytest.raises(CannotResume, match="nothing more is drawn"):
            again()
        assert place not in kept
    assert book.entries == (entry,)
    with pytest.raises(pm.ArgumentError, match="has ended"):  # without what was kept
        run(study(), ledger=book, run_id="r")
