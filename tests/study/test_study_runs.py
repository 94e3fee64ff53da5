"""A study run in a folder: whenever it stops, one charge, one draw a place, one result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from json_schema import problems
from privmean.cli.app import run
from privmean.errors import ArgumentError
from privmean.study import answer_log as draws_module
from privmean.study.answer_log import AnswerLog, CannotResume
from privmean.study.run_folder import DRAWS, RESULT, RUN, held
from privmean.study.study_file import first_file, read_study, study_of, study_schema
from privmean.study.table_state import is_table, table_state
from privmean.study.write_outputs import run_in

DOCS = Path(__file__).parents[2] / "docs"
HOW = "declarations changed: store json.dumps(study_schema(), indent=2) and a line end there again"
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
class Killed(BaseException):
    """A process that ends here."""


class Clock:
    """Ends the process at the n-th time that something is made durable, before or after it is."""

    def __init__(self, monkeypatch):
        self.left, self.after = 0, False
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def at(self, moment):
        self.left, self.after = moment // 2 + 1, bool(moment % 2)

    def fsync(self, handle):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        self._sync(handle)
        if self.left == 0:
            raise Killed


def test_stopped_at_every_moment_it_charges_once_and_draws_each_answer_once(place, monkeypatch):
    """Every moment between two things that are made durable, before and after each: stopped there,
    then run to its end. What an estimator saw at a place is the same ever after."""
    people = pm.read(np.random.default_rng(3).normal(5, 1, 900))
    clock = Clock(monkeypatch)
    seen: dict[tuple[str, str], str] = {}
    once = draws_module.written

    def study():
        made = pm.Study(people, epsilon=1.0, delta=1e-6, name="killed")
        made.add("level", pm.Mean())
        made.add("limited", pm.Mean(assume=(0.0, 10.0)))
        return made

    answer = AnswerLog.answer

    def watched(self, question, mechanism, draw):
        number = self._places.get(question, 0)
        found = answer(self, question, mechanism, draw)
        key, text = (str(self._path), f"{question}/{number}"), once(found)
        assert seen.setdefault(key, text) == text, "two noises at one place"
        return found

    monkeypatch.setattr(AnswerLog, "answer", watched)
    moments = 0
    while True:
        out, book = place / f"out{moments}", place / f"ledger{moments}"
        clock.left = 0
        ledger = pm.Ledger(book, epsilon=1.0, delta=1e-6)
        clock.at(moments)
        try:
            run_in(study(), out, ledger=ledger)
            break  # it ended before this moment came
        except Killed:
            pass
        clock.left = 0
        kept = (out / DRAWS).read_bytes() if (out / DRAWS).exists() else b""
        whole = kept[: kept.rfind(b"\n") + 1]
        stored = run_in(study(), out, ledger=pm.Ledger.open(book))
        assert len(pm.Ledger.open(book).entries) == 1
        assert (out / DRAWS).read_bytes().startswith(whole)
        assert pm.verify(stored, ledger=pm.Ledger.open(book))
        assert run_in(study(), out, ledger=pm.Ledger.open(book)) == stored
        moments += 1
    assert moments >= 30


def test_a_run_killed_for_good_goes_on_in_another_process(place):
    """kill -9 at moments of the wall clock, then once more in peace."""
    code = (
        "import os, sys, threading, time\n"
        "from privmean.study.study_file import read_study\n"
        "from privmean.study.write_outputs import run_in\n"
        "import privmean as pm\n"
        "study, book = read_study(sys.argv[1]), pm.Ledger.open(sys.argv[3])\n"
        "wait = float(sys.argv[4])\n"
        "threading.Thread(target=lambda: (time.sleep(wait), os.kill(os.getpid(), 9)),"
        " daemon=True).start() if wait else None\n"
        "run_in(study, sys.argv[2], ledger=book)\n"
    )
    pm.Ledger(place / "book", epsilon=2.0, delta=1e-6)
    arguments = [str(place / name) for name in ("study.toml", "out", "book")]
    before = b""
    for wait in (0.8, 1.4, 0):
        command = [sys.executable, "-c", code, *arguments, str(wait)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, -9), done.stderr
        path = place / "out" / DRAWS
        now = path.read_bytes() if path.exists() else b""
        assert now.startswith(before[: before.rfind(b"\n") + 1])
        before = now
    assert len(pm.Ledger.open(place / "book").entries) == 1
    assert pm.verify(place / "out" / RESULT, ledger=place / "book")


def test_an_answer_that_cannot_be_kept_is_not_seen(place, monkeypatch, capsys):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(draws_module, "_append", full)
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert "No space left" in found.err
    assert not (place / "out" / RESULT).exists()
    monkeypatch.undo()
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 0


def test_a_full_disk_is_said_and_the_run_goes_on(place, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privmean.study.run_folder.os.fsync", full)
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 2
    assert (
        "the disk is full. Correct this and run the same command again" in capsys.readouterr().err
    )
    monkeypatch.undo()
    assert call("study", "run", place / "study.toml", "--out", place / "out") == 0


# --- what cannot go on ----------------------------------------------------------------------------
def stopped(place, monkeypatch, moment=14):
    """A run that was stopped after its charge."""
    clock = Clock(monkeypatch)
    clock.at(moment)
    with pytest.raises(Killed):
        run_in(read_study(place / "study.toml"), place / "out")
    clock.left = 0
    assert (place / "out" / DRAWS).exists()


def test_a_changed_table_is_refused_without_a_draw(place, monkeypatch):
    stopped(place, monkeypatch)
    kept = (place / "out" / DRAWS).read_bytes()
    write_table(place / "panel.csv", seed=2)
    with pytest.raises(CannotResume, match="the table changed"):
        run_in(read_study(place / "study.toml"), place / "out")
    assert (place / "out" / DRAWS).read_bytes() == kept


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


def test_a_table_changed_under_the_same_size_and_time_is_refused(place, monkeypatch):
    stopped(place, monkeypatch)
    kept = (place / "out" / DRAWS).read_bytes()
    changed_digit(place / "panel.csv")
    with pytest.raises(CannotResume, match="the table changed"):
        run_in(read_study(place / "study.toml"), place / "out")
    assert (place / "out" / DRAWS).read_bytes() == kept


def test_another_file_of_the_same_size_and_time_is_refused(place, monkeypatch):
    stopped(place, monkeypatch)
    shutil.copy2(place / "panel.csv", place / "other.csv")
    changed_digit(place / "other.csv")
    os.replace(place / "other.csv", place / "panel.csv")
    with pytest.raises(CannotResume, match="the table changed"):
        run_in(read_study(place / "study.toml"), place / "out")


@pytest.mark.parametrize("touched", ["chmod", "hard link", "touch", "copy in its place", "nothing"])
def test_a_table_with_the_same_content_is_the_same(place, monkeypatch, touched):
    stopped(place, monkeypatch)
    panel = place / "panel.csv"
    if touched == "chmod":
        panel.chmod(0o600)
    elif touched == "hard link":
        os.link(panel, place / "backup")
    elif touched == "touch":
        os.utime(panel, (1e9, 1e9))
    elif touched == "copy in its place":
        shutil.copy(panel, place / "other")
        os.replace(place / "other", panel)
    assert run_in(read_study(place / "study.toml"), place / "out")


def test_of_large_tables_size_and_time_tell(place, monkeypatch):
    monkeypatch.setattr("privmean.study.table_state.LARGEST", 1000)
    stopped(place, monkeypatch)
    (place / "panel.csv").chmod(0o600)
    os.utime(place / "panel.csv", (1e9, 1e9))
    with pytest.raises(CannotResume, match="the table changed"):
        run_in(read_study(place / "study.toml"), place / "out")


@pytest.mark.parametrize("named", ["folder", "pattern"])
def test_every_file_of_a_table_counts(place, named):
    folder = place / "parts"
    folder.mkdir()
    for k in range(3):
        (folder / f"{k}.csv").write_text(f"who,y\n{k},1.0\n")
    source = str(folder if named == "folder" else folder / "*.csv")
    state = json.loads(json.dumps(table_state(source)))
    assert is_table(source, state)
    changed_digit(folder / "1.csv")
    assert not is_table(source, state)
    changed_digit(folder / "1.csv")
    (folder / "1.csv").write_text("who,y\n1,1.0\n")
    assert is_table(source, state)
    os.rename(folder / "1.csv", folder / "4.csv")
    assert not is_table(source, state)
    assert is_table([1, 2], table_state([1, 2]))
    assert not is_table(source, None)


def test_what_tells_a_table_is_private_and_forgotten(place, monkeypatch):
    """A digest of a table is no noisy answer: nobody who is shown the folder gets it."""
    stopped(place, monkeypatch)
    file = place / "out" / "run.json"
    digest = json.loads(file.read_text())["table"]["digest"]
    assert file.stat().st_mode & 0o077 == 0
    assert run_in(read_study(place / "study.toml"), place / "out")
    for path in (place / "out").iterdir():
        assert digest not in path.read_text()
    state = json.loads(file.read_text())
    assert state["table"]["digest"] is None
    state["table"]["digest"] = digest  # as where a run was stopped just before
    file.write_text(json.dumps(state))
    assert run_in(read_study(place / "study.toml"), place / "out")
    assert digest not in file.read_text()


def test_a_copied_folder_is_refused_without_a_draw(place, monkeypatch):
    stopped(place, monkeypatch)
    shutil.copytree(place / "out", place / "copy")
    with pytest.raises(CannotResume, match="is a copy"):
        run_in(read_study(place / "study.toml"), place / "copy")
    assert run_in(read_study(place / "study.toml"), place / "out")


def test_another_study_in_the_folder_is_refused(place):
    run_in(read_study(place / "study.toml"), place / "out")
    (place / "study.toml").write_text(FILE.replace("weight = 2", "weight = 3"))
    with pytest.raises(ArgumentError, match="another study"):
        run_in(read_study(place / "study.toml"), place / "out")


def test_a_second_run_in_the_folder_waits_for_nobody(place):
    with held(place / "out"), pytest.raises(ArgumentError, match="another run"):
        run_in(read_study(place / "study.toml"), place / "out")


@pytest.mark.parametrize("change", ["an answer", "a line lost", "no JSON"])
def test_damaged_answers_are_refused_and_nothing_is_drawn_again(place, monkeypatch, change):
    stopped(place, monkeypatch)
    path = place / "out" / DRAWS
    lines = path.read_text().splitlines(keepends=True)
    if change == "an answer":
        parts = json.loads(lines[0])
        parts[2] = json.loads(lines[1])[2]
        lines[0] = json.dumps(parts) + "\n"
    elif change == "no JSON":
        lines[0] = "?\n"
    else:
        parts = json.loads(lines[0])
        lines[0] = json.dumps([parts[0], parts[1][:-1] + "0", *parts[2:]]) + "\n"
    path.write_text("".join(lines))
    kept = path.read_bytes()
    with pytest.raises(CannotResume):
        run_in(read_study(place / "study.toml"), place / "out")
    assert path.read_bytes() == kept


def kept_as(path, text):
    """A forged file of one answer, with its check made anew, and the question that asks for it."""

    class Asked:
        events = ()

    what = draws_module._what(Asked())
    line = ["q/0", what, text, draws_module._check("q/0", what, text)]
    path.write_text(json.dumps(line) + "\n")
    return AnswerLog(path).answer("q", Asked(), lambda: pytest.fail("drawn again"))


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
def test_kept_answers_can_do_nothing_but_be_answers(tmp_path, text):
    """A file that somebody forged makes no object that no mechanism answers with, and runs
    nothing."""
    with pytest.raises(CannotResume, match="no answer"):
        kept_as(tmp_path / DRAWS, text)
    assert [item.name for item in tmp_path.iterdir()] == [DRAWS]


def test_a_pickle_is_no_answer(tmp_path):
    import base64
    import pickle

    class Evil:
        def __reduce__(self):
            return pm.Ledger, (str(tmp_path / "owned"),)

    for text in (pickle.dumps(Evil(), 0).decode(), base64.b64encode(pickle.dumps(Evil())).decode()):
        with pytest.raises(CannotResume, match="no answer"):
            kept_as(tmp_path / DRAWS, text)
    assert not (tmp_path / "owned").exists()


def test_no_seed_and_no_raw_noise_is_in_any_file(place):
    run_in(read_study(place / "study.toml"), place / "out")
    names = {path.name for path in (place / "out").iterdir()}
    assert names == {
        "study.lock", "run.json", "receipt.json", "draws.jsonl", "release.json", "report.html",
        "level.csv", "trend.csv", "slope.csv",
    }  # fmt: skip
    for name in names - {"draws.jsonl"}:
        assert "seed" not in (place / "out" / name).read_text()


# --- the command ----------------------------------------------------------------------------------
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


def test_run_json_names_the_place_and_no_person(place):
    run_in(read_study(place / "study.toml"), place / "out")
    stated = json.loads((place / "out" / RUN).read_text())
    assert set(stated) == {"run", "declared", "plan", "table", "place"}


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
