"""A study run in a folder: whenever it stops, one charge, one draw a place, one result."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import runpy
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stopped_runs
from stopped_runs import kept_in

import privmean as pm
from json_schema import problems
from privmean.cli.app import run
from privmean.errors import ArgumentError
from privmean.storage.entry_chain import Chain
from privmean.study import stored_answers
from privmean.study.run_folder import LOG, RESULT, run_in
from privmean.study.stored_answers import AnswerLog, CannotResume, is_table, table_state, written
from privmean.study.study_file import first_file, read_study, study_of

DOCS = Path(__file__).parents[2] / "docs"
study_schema = runpy.run_path(str(DOCS / "site-tools" / "study_schema.py"))["schema"]
HOW = "declarations changed: python docs/site-tools/study_schema.py"
FILE = """
[study]
name = "a page"
audience = "the board"
[table]
source = "panel.csv"
person = "who"
[budget]
epsilon = 2.0
delta = 1e-6
[questions.level]
ask = "mean"
values = ["y"]
weight = 2
[questions.trend]
ask = "curve"
value = "y"
time = "t"
bins = [0, 1, 2, 9]
assume = "0,10"
[questions.slope]
ask = "regression"
formula = "y ~ x"
"""


def write_table(path, seed=1, persons=3000):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), 4)
    x, t = rng.normal(0, 1, len(who)), rng.uniform(0, 3, len(who))
    y = np.repeat(rng.normal(5, 1, persons), 4) + 0.5 * x + rng.normal(0, 0.3, len(who))
    lines = [f"{a},{b:.4f},{c:.4f},{d:.4f}" for a, b, c, d in zip(who, t, x, y, strict=True)]
    path.write_text("\n".join(["who,t,x,y", *lines]) + "\n")


@pytest.fixture
def place(tmp_path):
    write_table(tmp_path / "panel.csv")
    (tmp_path / "study.toml").write_text(FILE)
    return tmp_path


def call(*arguments):
    return run([str(item) for item in arguments])


# --- stopped at any moment ------------------------------------------------------------------------
@pytest.mark.slow
def test_stopped_at_every_moment_it_charges_once_and_draws_each_answer_once(place, monkeypatch):
    """Killed before and after everything that makes something durable, then run to its end. What an
    estimator saw at a place is the same ever after; the charge is whole, or settled at what was
    asked once all of that is kept."""
    from study_kills import child

    who, y = np.arange(900), np.random.default_rng(3).normal(5, 1, 900)
    people = pm.Table({"who": who, "y": y, "empty": y * np.nan}, person="who")

    def study():
        made = pm.Study(people, epsilon=2.0, name="killed")
        made.add("limited", pm.Mean("y", assume=(0.0, 10.0)))
        made.add("empty", pm.Mean("empty"))
        return made

    answer, seen = AnswerLog.answer, place / "seen"

    def watched(self, question, mechanism, draw):
        number = self._places.get(question, 0)
        found = answer(self, question, mechanism, draw)
        with seen.open("a") as file:
            file.write(json.dumps([f"{question}/{number}", written(found)]) + "\n")
        return found

    monkeypatch.setattr(AnswerLog, "answer", watched)
    moment, left = 0, []
    while True:
        out, book = place / f"out{moment}", place / f"ledger{moment}"
        pm.Ledger(book, epsilon=2.0)
        seen.write_text("")
        run = functools.partial(run_in, study(), out, ledger=pm.Ledger.open(book))
        if not child(run, moment):
            break
        entries = pm.Ledger.open(book).entries
        left.append((entries[0].counted if entries else None, len(kept_in(out)), len(entries)))
        stored = run()
        known = {}
        for line in seen.read_text().splitlines():
            at, text = json.loads(line)
            assert known.setdefault(at, text) == text, "two noises at one place"
        assert {at: text for at, (_, text) in kept_in(out).items()} == known
        (entry,) = pm.Ledger.open(book).entries
        assert entry.settlement is not None
        assert pm.verify(stored, ledger=pm.Ledger.open(book))
        assert run() == stored == json.loads((out / RESULT).read_text())
        moment += 1
    assert moment >= 60
    for counted, answers, _ in left:
        if counted is None:
            assert not answers
        elif counted != entry.amount:
            assert (counted, answers) == (entry.counted, len(known))
    assert {counted for counted, _, _ in left} == {None, entry.amount, entry.counted}


def full(*_):
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


@pytest.mark.slow
def test_an_answer_that_cannot_be_kept_is_not_seen(place, monkeypatch, capsys):
    add = Chain.add
    monkeypatch.setattr(
        Chain,
        "add",
        lambda self, entries: (full if b"answer" in b"".join(entries) else add)(self, entries),
    )
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert "the disk is full" in found.err
    assert "run the same command again" in found.err
    assert not kept_in(place / "out")
    monkeypatch.undo()
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a file for people", "the result"])
def test_a_full_disk_is_said_and_the_run_goes_on(place, monkeypatch, capsys, what):
    def no_room(*_):
        raise OSError(28, "No space left on device")

    if what == "the result":
        monkeypatch.setattr(Chain, "replace", full)
    else:
        monkeypatch.setattr(os, "replace", no_room)
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 2
    said = "the disk is full. Correct this and run the same command again"
    assert said in capsys.readouterr().err
    assert not (place / "out" / RESULT).exists()
    monkeypatch.undo()
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 0


# --- what cannot go on ----------------------------------------------------------------------------
def stopped(place):
    """A run that was stopped when its second answer was kept; what it kept."""
    stopped_runs.stopped(read_study(place / "study.toml"), place / "out", 2)
    kept = kept_in(place / "out")
    assert len(kept) == 2
    return kept


def another(place):
    write_table(place / "panel.csv", seed=2)


def changed_under_its_time(place):
    changed_digit(place / "panel.csv")


def replaced_under_its_time(place):
    shutil.copy2(place / "panel.csv", place / "other.csv")
    changed_digit(place / "other.csv")
    os.replace(place / "other.csv", place / "panel.csv")


def changed_digit(path):
    """One digit of one value, in the file itself; size and times of it stay as they were."""
    before = path.stat()
    text = path.read_text()
    at = text.index(".", len(text) // 2) + 1
    with path.open("r+") as file:
        file.seek(at)
        file.write("7" if text[at] != "7" else "3")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.slow
@pytest.mark.parametrize("change", [another, changed_under_its_time, replaced_under_its_time])
def test_a_changed_table_is_refused_without_a_draw(place, change):
    kept = stopped(place)
    change(place)
    stopped_runs.refused(
        "the table changed", run_in, read_study(place / "study.toml"), place / "out"
    )
    assert kept_in(place / "out") == kept


def test_of_large_tables_pieces_are_compared(place, monkeypatch):
    monkeypatch.setattr("privmean.study.stored_answers.PIECE", 100)
    monkeypatch.setattr("privmean.study.stored_answers.LARGEST", 1000)
    panel = place / "panel.csv"
    state = table_state(pm.Table(panel, person="who"))
    os.utime(panel, (1e9, 1e9))
    assert is_table(pm.Table(panel, person="who"), state)
    text = panel.read_bytes()
    for place_ in (0, -100):
        changed = bytearray(text)
        changed[place_] ^= 1
        panel.write_bytes(changed)
        assert not is_table(pm.Table(panel, person="who"), state)


@pytest.mark.parametrize("named", ["folder", "pattern"])
def test_every_file_of_a_table_counts(place, named):
    folder = place / "parts"
    folder.mkdir()
    for k in range(3):
        (folder / f"{k}.csv").write_text(f"who,y\n{k},1.0\n")
    source = pm.Table(str(folder if named == "folder" else folder / "*.csv"), person="who")
    state = json.loads(json.dumps(table_state(source)))
    assert is_table(source, state)
    changed_digit(folder / "1.csv")
    assert not is_table(source, state)
    (folder / "1.csv").write_text("who,y\n1,1.0\n")
    assert is_table(source, state)
    (folder / "notes.txt").touch()  # is no table
    assert is_table(source, state)
    os.rename(folder / "1.csv", folder / "4.csv")
    assert not is_table(source, state)
    assert not is_table([1, 2], state)
    assert is_table([1, 2], table_state([1, 2]))
    assert not is_table(source, table_state([1, 2]))


def test_addresses_are_compared_as_they_are_written():
    def table(name):
        return pm.Table(f"postgresql://host/base#{name}", person="who")

    state = json.loads(json.dumps(table_state(table("one"))))
    assert is_table(table("one"), state)
    assert not is_table(table("two"), state)


@pytest.mark.slow
def test_what_tells_a_table_is_private_and_forgotten(place):
    """A digest of a table is no noisy answer: nobody who is shown the folder gets it."""
    stopped(place)
    log = place / "out" / LOG
    digest = table_state(pm.Table(place / "panel.csv", person="who"))["digest"].encode()
    assert digest in log.read_bytes()
    assert log.stat().st_mode & 0o077 == 0
    assert run_in(read_study(place / "study.toml"), place / "out")
    for path in (place / "out").iterdir():
        assert digest not in path.read_bytes()


@pytest.mark.slow
def test_another_study_in_the_folder_is_refused(place):
    run_in(read_study(place / "study.toml"), place / "out")
    (place / "study.toml").write_text(FILE.replace("weight = 2", "weight = 3"))
    with pytest.raises(ArgumentError, match="another study"):
        run_in(read_study(place / "study.toml"), place / "out")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE privmean_entries AS e SET payload = (SELECT payload FROM privmean_entries"
        " WHERE number = e.number + 1) WHERE number = 3",
        "DELETE FROM privmean_entries WHERE number = 4",
        "UPDATE privmean_entries SET payload = x'3f' WHERE number = 3",
    ],
)
def test_damaged_answers_are_refused_and_nothing_is_drawn_again(place, change):
    stopped(place)
    with contextlib.closing(sqlite3.connect(place / "out" / LOG)) as link, link:
        link.execute(change)
    for _ in range(2):
        with pytest.raises(CannotResume, match="is damaged|is an old copy"):
            run_in(read_study(place / "study.toml"), place / "out")


def kept_as(text):
    """What a forged answer is read as, by the question that asks for it."""

    class Asked:
        events = ()

    kept = {"q/0": (stored_answers._what(Asked()), text)}
    answers = AnswerLog(kept, lambda *_: pytest.fail("drawn again"))
    return answers.answer("q", Asked(), lambda: pytest.fail("drawn again"))


@pytest.mark.parametrize(
    "text",
    [
        '["Ledger","owned"]',
        '["object"]',
        '["ColumnSums",1,2]',
        '["array","|O",[1],"AAAA"]',
        '["array","<f8",[2],"AAAAAAAAAAA="]',
        '["float","1e3"]',
        '{"ColumnSums": 1}',
        "[]",
        "cos\nsystem\n(S'touch owned'\ntR.",
        "[" * 100000,
    ],
)
def test_kept_answers_can_do_nothing_but_be_answers(text):
    """A file that somebody forged makes no object that no mechanism answers with, and runs
    nothing."""
    with pytest.raises(CannotResume, match="no answer"):
        kept_as(text)


@pytest.mark.slow
def test_no_seed_and_no_raw_noise_is_in_any_file(place):
    run_in(read_study(place / "study.toml"), place / "out")
    names = {path.name for path in (place / "out").iterdir()}
    assert names == {
        "run.log", "receipt.json", "release.json", "report.html", "report.md", "accounting.html",
        "level.csv", "trend.csv", "slope.csv",
    }  # fmt: skip
    for name in names - {"run.log"}:
        assert "seed" not in (place / "out" / name).read_text()


# --- the command ----------------------------------------------------------------------------------
@pytest.mark.slow
def test_the_command_plans_runs_verifies_and_runs_again_for_nothing(place, capsys):
    pm.Ledger(place / "book", epsilon=2.0, delta=1e-6)
    assert call("study", "plan", place / "study.toml", "--n", "3000") == 0
    out = capsys.readouterr().out
    assert "minimum n" in out
    arguments = ("study", "run", place / "study.toml", "--out", place / "out", "--ledger",
                 place / "book", "--analyst", "ann")  # fmt: skip
    ended = call(*arguments)
    assert ended in (0, 3)  # the noise is real: a question may fail
    first = (place / "out" / RESULT).read_text()
    assert call("verify", place / "out" / RESULT, "--ledger", place / "book") == 0
    assert "Finished before" not in capsys.readouterr().out
    assert call(*arguments) == ended
    assert "Finished before; nothing was drawn or charged again." in capsys.readouterr().out
    assert (place / "out" / RESULT).read_text() == first
    (entry,) = pm.Ledger.open(place / "book").entries
    assert entry.about["analyst"] == "ann"
    assert entry.about["table"] == "panel.csv by who"
    rows = (place / "out" / "trend.csv").read_text().splitlines()
    assert rows[0].startswith("term,group,estimate,std_error")
    assert len(rows) == 4


@pytest.mark.slow
def test_a_failed_question_ends_with_3_and_the_others_are_there(place):
    more = '[questions.lost]\nask = "mean"\nvalues = ["y"]\nassume = "sub-gaussian sd=1e-9"\n'
    text = FILE.replace("delta = 1e-6", "delta = 1e-12") + more
    (place / "study.toml").write_text(text)
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 3
    stored = json.loads((place / "out" / RESULT).read_text())
    assert [item["release"]["status"] for item in stored["questions"]][-1] == "failed"
    assert stored["questions"][0]["release"]["estimate"][0] is not None
    assert pm.verify(stored)
    assert "FAILED" not in (place / "out" / "report.html").read_text()[:200]


def test_init_writes_a_file_that_runs_once_a_column_is_chosen(place):
    out = place / "new.toml"
    assert call("study", "init", place / "panel.csv", "--person", "who", "--out", out) == 0
    assert call("study", "init", place / "panel.csv", "--person", "who", "--out", out) == 2
    assert call("study", "plan", out, "--n", "3000") == 0
    assert "who" in out.read_text()
    assert "# columns are not shown" in out.read_text()


def test_init_shows_the_columns_of_a_first_line_that_is_no_record(place):
    out = place / "new.toml"
    arguments = ("study", "init", place / "panel.csv", "--person", "who", "--out", out)
    assert call(*arguments, "--header") == 0
    text = out.read_text()
    assert "# columns: who, t, x, y" in text
    assert "header = true" in text
    assert call("study", "plan", out) == 0
    assert call("study", "run", out, "--out", place / "out") == 0


def test_columns_are_read_from_the_schema_alone():
    text = first_file("panel.parquet", "who", ["who", 'od"d', "y"])
    import tomllib

    stated = tomllib.loads(text)
    assert stated["questions"]["first"]["values"] == ['od"d']
    assert problems(stated, study_schema()) == []


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("weight = 2", "wieght = 2", "Did you mean weight"),
        ('ask = "curve"', 'ask = "curv"', "Did you mean curve"),
        ("epsilon = 2.0", "epsilom = 2.0", "Did you mean epsilon"),
        ("epsilon = 2.0", 'epsilon = "2"', "number"),
        ("[budget]", "[bugdet]", "Did you mean budget"),
        ('person = "who"', "", "person"),
        ("bins = [0, 1, 2, 9]", "bins = [0, 1, 2, 9]\nbims = 3", "Did you mean bins"),
        ('audience = "the board"', "simultaneous = 1", "boolean"),
        ("weight = 2", 'weight = 2\nlevel = "x"', "is not an argument of mean"),
        ("weight = 2", 'weight = 2\nby = "t"\nkeys = 7', "questions.level.keys=7"),
        ("bins = [0, 1, 2, 9]", "bins = [2, 1]", "questions.trend.bins="),
    ],
)
def test_words_that_are_not_known_are_refused_with_a_near_one(place, capsys, old, new, word):
    assert old in FILE
    (place / "study.toml").write_text(FILE.replace(old, new, 1))
    assert call("study", "plan", place / "study.toml", "--n", "3000") == 2
    assert word in capsys.readouterr().err


def test_keys_are_said_with_commas_as_on_the_command_line():
    said = {"ask": "mean", "values": ["y"], "by": "t", "contrasts": "a - b"}
    found = []
    for keys in ("a,b", ["a", "b"]):
        stated = {"table": {"source": "x.csv", "person": "who"}, "budget": {"epsilon": 1.0}}
        made = study_of(stated | {"questions": {"q": {**said, "keys": keys}}})
        found.append(made.questions["q"].question.grouping)
    assert found[0] == found[1]
    assert found[0].labels == ("a", "b")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('values = ["y"]', 'values = ["yy"]', "level.values='yy': is not a column of the table"),
        ('time = "t"', 'time = "tt"', "trend.time='tt': is not a column"),
        ("y ~ x", "y ~ xx", "slope.formula='xx': is not a column"),
    ],
)
def test_a_plan_refuses_columns_that_are_not_there(place, capsys, old, new, word):
    """The names are public: a slip of the pen is said before a run, with what was meant."""
    assert old in FILE
    (place / "study.toml").write_text(FILE.replace(old, new, 1))
    assert call("study", "plan", place / "study.toml") == 2
    assert word in capsys.readouterr().err
    assert call("study", "plan", place / "study.toml", "--n", "3000") == 0  # opens no table


def test_a_file_that_is_not_there_is_said_in_words(tmp_path, capsys):
    assert call("study", "plan", tmp_path / "none.toml") == 2
    words = "cannot be read: No such file or directory. Give a TOML file of questions."
    assert words in capsys.readouterr().err
    (tmp_path / "odd.toml").write_bytes(b"\xff")
    assert call("study", "plan", tmp_path / "odd.toml") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_published_schema_is_that_of_the_declarations():
    path = DOCS / "schemas" / "study.schema.json"
    assert json.loads(path.read_text()) == study_schema(), HOW
    import tomllib

    stated = tomllib.loads(FILE)
    assert problems(stated, study_schema()) == []
    stated["questions"]["level"]["wieght"] = 2
    assert problems(stated, study_schema()) != []
    with pytest.raises(ArgumentError):
        study_of(stated)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_planning_reads_the_column_of_persons_and_no_other(place, kind, monkeypatch):
    import polars as pl

    from privmean.data.read import read

    frame = pl.read_csv(place / "panel.csv").vstack(
        pl.DataFrame(
            {"who": [None], "t": [1.0], "x": [1.0], "y": [1.0]}, schema_overrides={"who": pl.Int64}
        )
    )
    path = place / f"t.{kind}"
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    table = pm.Table(str(path), person="who")
    assert table.count_people() == pm.read(str(path), person="who", values="y").size() == 3000
    monkeypatch.setattr("privmean.data.read.read", lambda *a, **k: 1 / 0)
    assert read is not None
    study = pm.Study(table, epsilon=1.0).add("level", pm.Mean("y"))
    assert study.plan().shapes["level"].n == 3000


@pytest.mark.slow
def test_runs_that_are_killed_go_on_with_what_they_drew():
    """A few of the kills of benchmarks/study_kills.py, in a process of their own."""
    code = (
        "import json, study_kills\n"
        "found = study_kills.measured(5, seed=7)\n"
        "print(json.dumps([found.kills, found.answers, dict(found.wrong)]))\n"
    )
    root = Path(__file__).parents[2]
    places = os.pathsep.join([str(root / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": places},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kills, answers, wrong = json.loads(done.stdout)
    assert kills == 5
    assert answers >= 10
    assert len(wrong) >= 6
    assert not any(wrong.values()), wrong
