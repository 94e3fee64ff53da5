"""The command line as its users see it: output, exit status, and nothing on standard error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import COMMANDS as LINES
from privmean.cli.app import run
from privmean.privacy.guarantee import Guarantee


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("cli") / "ratings.csv"
    person = np.repeat(np.arange(2000), 5)
    level = rng.normal(3, 0.5, 2000)[person]
    score = level + rng.normal(0, 1, len(person))
    lines = ["student,score,word_a,word_b,note"]
    lines += [f"{p},{s:.3f},{s / 2:.3f},1,x" for p, s in zip(person, score, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


MEAN = "mean T --person student --value score"  # T: the table


def mean(table, *more):
    return [table if word == "T" else word for word in MEAN.split()] + list(more)


def call(capsys, *arguments):
    status = run(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_main_job_prints_estimate_interval_and_promise(capsys, table):
    status, out, err = call(capsys, *mean(table, "--epsilon", "1"))
    assert status == 0
    assert err == ""
    assert "95% confidence interval" in out
    assert "Privacy: epsilon = 1 (pure DP), person level, replace-one." in out
    assert "right at most 74% of the time with it" in " ".join(out.split())
    assert "\nIntervals: include sampling error and privacy noise" in out
    assert "(the guarantee does not): people are independent; " in " ".join(out.split())
    assert "n = 2,000 people (public), weighted equally" in out
    assert "\nMethod: default mean. Full record: release.details()" in out


def test_details_say_all(capsys, table):
    status, out, _ = call(capsys, *mean(table, "--epsilon", "1", "--details"))
    assert status == 0
    assert "\nBudget split: " in out
    assert "\nAssumes (accuracy only, not privacy):\n  people are independent\n" in out
    assert "\nPrivacy accounting:\n" in out


def test_json_is_one_object_and_nothing_else(capsys, table):
    asked = mean(table, "--epsilon", "1", "--delta", "1e-6", "--json")
    status, out, err = call(capsys, *asked)
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert len(result["estimate"]) == 1
    assert result["interval"]["level"] == 0.95
    assert result["interval"]["lower"][0] < result["estimate"][0] < result["interval"]["upper"][0]
    guarantee = result["guarantee"]
    assert (guarantee["unit"], guarantee["neighbors"]) == ("person", "replace-one")
    assert guarantee["epsilon"] == 1.0
    assert all({"name", "loss"} <= set(item) for item in guarantee["mechanisms"])
    assert Guarantee.from_dict(guarantee).verify()
    assert result["n"] == 2000
    assert result["columns"] == ["score"]
    assert result["secure"] is True
    assert {"estimator", "assumptions", "provenance"} <= set(result)
    assert result["provenance"]["engine"]["name"] == "duckdb"


def test_an_example_replaces_no_other_file(capsys, tmp_path):
    mine, new = tmp_path / "mine.csv", tmp_path / "new.csv"
    mine.write_text("my only copy")
    status, _, err = call(capsys, "example", "wages", str(mine))
    assert status == 2
    assert "already exists. Name another file" in err
    assert mine.read_text() == "my only copy"
    assert [call(capsys, "example", "wages", str(new))[0] for _ in range(2)] == [0, 0]


def test_a_private_failure_exits_with_3_and_says_what_to_change(capsys, table):
    """Each of 2000 nearly lone bins is found with probability delta: 1e-6 would be a false alarm
    in a few hundred runs."""
    asked = mean(table, "--epsilon", "1", "--delta", "1e-12", "--sd", "1e-7")
    status, out, _ = call(capsys, *asked)
    assert status == 3
    assert "\nfailed: No estimate was found; the budget was charged." in out
    status, out, _ = call(capsys, *asked, "--json")
    assert status == 3
    result = json.loads(out)
    assert result["status"] == "failed"
    assert result["estimate"] == [None]
    assert result["advice"]
    assert Guarantee.from_dict(result["guarantee"]).verify()


@pytest.mark.slow
@pytest.mark.parametrize("column", ["text", "empty", "few"])
def test_a_column_of_hardly_any_numbers_exits_with_3_and_says_why(capsys, tmp_path, column):
    lines = ["p,text,empty,few"]
    for k in range(2000):
        lines.append(f"{k},{'abc'[k % 3]},,{50 + k % 7 if k % 50 == 0 else ''}")
    table = tmp_path / "t.csv"
    table.write_text("\n".join(lines) + "\n")
    asked = ["mean", str(table), "--person", "p", "--value", column, "--epsilon", "1"]
    status, out, _ = call(capsys, *asked)
    assert status == 3
    assert "\nfailed: No estimate was found" in out
    reasons = (
        "Check that the column is numeric",
        "Too few people have a value",
    )  # as the noise falls
    assert any(reason in " ".join(out.split()) for reason in reasons)
    status, out, _ = call(capsys, *asked, "--json")
    result = json.loads(out)
    assert status == 3
    assert result["estimate"] == [None]
    assert result["interval"]["upper"] == [None]
    assert any(reason in result["advice"] for reason in reasons)


def completed(monkeypatch, capsys, line):
    """What bash gets for a line, at its end."""
    words = line.split(" ")
    monkeypatch.setenv("_PRIVMEAN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert run([]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.split()


def test_shells_complete_commands_and_options(monkeypatch, capsys):
    assert completed(monkeypatch, capsys, "privmean me") == ["mean"]
    assert set(completed(monkeypatch, capsys, "privmean ")) == set(LINES)
    assert completed(monkeypatch, capsys, "privmean mean t.csv --val") == [
        "--value",
        "--values-from",
    ]
    assert completed(monkeypatch, capsys, "privmean study ") == ["init", "plan", "run"]
    monkeypatch.delenv("_PRIVMEAN_COMPLETE")
    assert "--show-completion" in call(capsys, "--help")[1]  # the scripts are Typer's


@pytest.mark.slow
def test_a_comparison_without_its_effect_exits_with_3(capsys, tmp_path):
    """One arm is shown and the other is not: what was asked, their difference, has no estimate.
    Noise shows the small arm in 6 % of runs: eight such in a row are a false alarm in 10^9."""
    table = tmp_path / "t.csv"
    rows = [f"{k},{50 + k % 7},{'new' if k < 5 else 'old'}" for k in range(3000)]
    table.write_text("\n".join(["p,x,arm", *rows]) + "\n")
    study = tmp_path / "study.toml"
    study.write_text(
        f'[table]\nsource = "{table}"\nperson = "p"\n[budget]\nepsilon = 1.0\n[questions.q]\n'
        'ask = "compare"\nvalue = "x"\narms = "arm"\nlevels = ["new", "old"]\n'
    )
    levels = ["--arm", "new", "--arm", "old", "--epsilon", "1"]
    shell = ["compare", str(table), "--person", "p", "--value", "x", "--arms", "arm", *levels]

    def hidden(*asked):
        status, out, _ = call(capsys, *asked, "--json")
        stored = json.loads(out)
        stored = stored["questions"][0]["release"] if "questions" in stored else stored
        assert (status == 3) == (not pm.Release.from_dict(stored).answered)
        return stored if status == 3 and stored["status"] == "suppressed" else None

    files = ["study", "run", str(study), "--out"]
    for asked in (lambda k: shell, lambda k: [*files, str(tmp_path / f"out{k}")]):
        stored = next(found for k in range(8) if (found := hidden(*asked(k))))
        assert stored["p_value"] is None
        assert stored["estimate"][1] is not None
        made = pm.Release.from_dict(stored)
        assert not made.answered
        assert not made.failed


def test_wildcards_select_columns(capsys, table):
    status, out, _ = call(
        capsys,
        *["mean", table, "--person", "student", "--values-from", "word_*", "--header"],
        *["--epsilon", "2", "--bounds", "0", "5", "--json"],
    )
    assert status == 0
    assert json.loads(out)["columns"] == ["word_a", "word_b"]


@pytest.mark.slow
def test_covariance_is_a_number_numbers_or_a_file(capsys, table, tmp_path):
    np.save(tmp_path / "matrix.npy", np.diag([1.0, 0.3]))
    (tmp_path / "matrix.txt").write_text("1, 0\n0 0.3\n")
    (tmp_path / "line.txt").write_text("1,0.3\n")
    common = mean(table, "--value", "word_a", "--epsilon", "2", "--delta", "1e-6", "--json")
    common += ["--method", "anisotropic beta=0.1"]
    plans = []
    files = [str(tmp_path / item) for item in ("matrix.npy", "matrix.txt", "line.txt")]
    for given in ["1,0.3", *files]:
        status, out, err = call(capsys, *common, "--assume", f"covariance {given}")
        assert (status, err) == (0, "")
        plans.append(json.loads(out)["plan"])
    assert all(item == plans[0] for item in plans)
    (tmp_path / "words.txt").write_text("a b\n")
    status, out, err = call(capsys, *common, "--assume", f"covariance {tmp_path / 'words.txt'}")
    assert (status, out) == (2, "")
    assert "--assume" in err
    assert "a b" not in err


def test_plan_reads_nothing_and_prints_the_persons_needed(capsys):
    status, out, err = call(
        capsys,
        *["plan", "--n", "2000", "--epsilon", "1", "--guess-sd", "0.5"],
        *["--target-error", "0.02", "--json"],
    )
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert result["predicted"]["rmse"] > 0.5 / 2000**0.5
    assert result["required_n"] > (0.5 / 0.02) ** 2
    status, out, _ = call(capsys, "plan", "--n", "2000", "--epsilon", "1")
    assert status == 0
    assert "error sampling noise" in " ".join(out.split())


def test_ledger_file_stops_the_release_that_would_overspend(capsys, table, tmp_path):
    path = str(tmp_path / "ledger.jsonl")
    pm.Ledger(path, epsilon=1.5).close()
    common = mean(table, "--epsilon", "1")
    assert call(capsys, *common, "--ledger", path)[0] == 0
    status, out, err = call(capsys, *common, "--ledger", path)
    assert (status, out) == (2, "")
    assert "ledger" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{MEAN} word_a --epsilon 1", "--value score --value word_a"),
        ("mean --person student --value=score word_a T", "--value score --value word_a"),
        ("compare T --person student --value score --arms a --arm 1 2", "--arm 1 --arm 2"),
        ("curve T --person student --value score --bins 1 2 --time t", "commas into a list"),
        ("regress T score ~ word_a --person student", "quotes around a text"),
        ("mean T --value score --epsilon 1", "--person"),  # Typer's lowest version calls it None
        ("mean T --person student --epsilon 1", "--value"),
        (f"{MEAN} --epsilon 0.01", "people"),
        (f"{MEAN} --epsilon 1 --estimand records", "--max-records is"),
        (f"{MEAN} --epsilon 1 --sd 1 --bounds 1 5", "combined with --bounds"),
        ("curve T --time t --bins 1,0 --person p --value x --epsilon 1", "Use --bins 0.0,1.0"),
        ("quantile T --q 50 --person p --value x --epsilon 1", "Use --q 0.25,0.5,0.75"),
        (
            "curve T --time t --bins 0,1 --by g --arm a --arm a --person p --value x --epsilon 1",
            "Give --arm 0 --arm 1 for",
        ),
        ("variance T --within 0 1 --person p --value x --epsilon 1", "no range is needed"),
        ("mean T --by g --keys a,a --person p --value x --epsilon 1", "Name each key once"),
        ("curve T --person p --value y --time t --bins 0,1 --epsilon 1 --plot x.txt", "--plot"),
        ("ledger nope", "See `privmean ledger --help`"),
        ("nope", "See `privmean --help`"),
        ("mean T --person student --value scroe --epsilon 1 --header", "score"),
        # what a library function calls values is called as this command says it
        ("mean T --person student --value nope --epsilon 1", "--value='nope': is not a column"),
        ("mean T --person nope --value score --epsilon 1", "--person='nope': is not a column"),
        (
            "curve T --person student --value score --time nope --bins 1,2 --epsilon 1",
            "--time='nope': is not a column",
        ),
        (
            "compare T --person student --value score --arms nope --epsilon 1",
            "--arms='nope': is not a column",
        ),
        (
            f"{MEAN} --by student --keys 1 --epsilon 1",
            "--by='student': is the column of person ids",
        ),
        ("regress T score~nope --person student --epsilon 1", "formula='score~nope': has 'nope'"),
        # words of Python are those of the line, and several values are said as the line takes them
        ("mean T --person nope --value x --epsilon 1", "5 fields; use --header"),
        ("mean T --person student --value score,x --epsilon 1", "Repeat the option: --value A"),
        (
            "compare T --person student --value score --by note --pair 1,0 --epsilon 1",
            "Repeat the option: --pair A --pair B",
        ),
        ("variance T --person p --value x --method moment --epsilon 1", "or leave it out"),
        ("mean - --person student --value score --epsilon 1", "source='-': is not a file"),
        ("mean s3://b/x.parquet --person p --value v --epsilon 1", "s3://...': is not a supported"),
        ("ledger create nowhere/no.ledger --epsilon 1 --limit */mnth=2", "--limit='*/mnth=2'"),
        ("verify T --key nowhere.pub", "--key='nowhere.pub': cannot be read"),
    ],
)
def test_wrong_lines_are_refused_with_a_remedy(capsys, table, line, said):
    status, out, err = call(capsys, *(table if word == "T" else word for word in line.split()))
    assert status == 2
    assert out == ""
    assert err.startswith("privmean: ")
    assert err.count("\n") == 1
    assert said in err


def test_an_interrupted_command_says_what_stays(capsys, monkeypatch, table):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("privmean.api.run_question.execute", stopped)
    status, out, err = call(capsys, *mean(table, "--epsilon", "1"))
    assert (status, out) == (130, "")
    assert "what was charged to a ledger stays charged" in err


@pytest.mark.slow
def test_a_full_disk_is_called_that(table):
    """After the charge: what the system says holds nothing of records."""
    asked = mean(table, "--epsilon", "1")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "privmean", *asked],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "the disk is full" in done.stderr
    assert "stays charged" in done.stderr


AT_THE_END = """
import atexit, os, sys, tempfile, threading, time
import privmean.cli
folder = tempfile.TemporaryDirectory()
print(folder.name)
sys.argv = ["privmean", *{line}]
atexit.register(lambda: print("registered"))
thread = threading.Thread(target=lambda: (time.sleep({wait}), sys.stdout.write("a thread\\n")))
thread.start()
if not {wait}:
    thread.join()
{entry}()
"""


@pytest.mark.parametrize("wait", [0, 0.2])
@pytest.mark.parametrize(("line", "status"), [(["--version"], 0), (["--none"], 2)], ids=str)
def test_a_command_ends_as_any_program_does(line, status, wait):
    """What is written, threads, exits that are registered, temporary folders and the status."""
    ends = []
    for entry in ("privmean.cli.main", "privmean.cli.console"):
        code = AT_THE_END.format(line=line, wait=wait, entry=entry)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        folder, *rest = done.stdout.splitlines()
        assert done.returncode == status
        assert not Path(folder).exists()
        ends.append((sorted(rest), done.stderr))
    assert ends[0] == ends[1]
    assert {"registered", "a thread"} <= set(ends[1][0])


@pytest.mark.parametrize("line", [["--version"], ["--help"]])
def test_a_full_disk_ends_a_command_as_it_ends_any_program(line):
    ends = []
    for entry in ("main", "console"):
        code = f"import sys; from privmean.cli import {entry}; sys.argv[1:] = {line}; {entry}()"
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False
            )
        ends.append((done.returncode, done.stderr.splitlines()[-1:]))
    assert ends[0] == ends[1]
    assert ends[0][0] != 0
