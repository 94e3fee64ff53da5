"""`privmean collect` without a server: rounds, tickets, reports in files, aggregation."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cli_runner import shell
from privmean.cli import collect as secrets
from privmean.local.aggregators.tally import Tally, tally
from privmean.local.clients import randomizers
from privmean.local.round import Round
from privmean.local.vectorized import randomize_many


def run(*words, code=0):
    result = shell("collect", *words)
    assert result.exit_code == code, result.output
    return result.output


def sent(folder, name, *words, stdin=None, env=None, code=0, out="reports"):
    place = ("--out", folder / out) if out else ()
    result = shell(
        "collect", "report", "--epsilon", 1, "--ledger", folder / f"{name}.ledger", "--limit", 1,
        "--round", folder / "round.json", *place, *words, input=stdin, env=env,
    )  # fmt: skip
    assert result.exit_code == code, result.output
    return result.output


def test_from_a_round_to_an_estimate(tmp_path):
    made = run("round", tmp_path / "round.json", "--epsilon", 0.5, "--epsilon", 1,
               "--n", 500, "--lower", 0, "--upper", 10, "--title", "Sleep")  # fmt: skip
    round_ = Round.from_json((tmp_path / "round.json").read_text())
    assert round_.digest.hex() in made
    out = tmp_path / "reports.bin"
    for _ in range(2):  # the retry is the same report
        sent(tmp_path, "ann", "7.5", "--digest", round_.digest.hex(), out="reports.bin")
    sent(tmp_path, "bob", "nan", "--json", out="reports.jsonl")
    assert "published" in sent(tmp_path, "eve", "1", "--digest", "00", code=2)
    assert "a place for the report" in sent(tmp_path, "eve", "1", code=2, out="")
    assert not (tmp_path / "eve.ledger").exists()
    many = randomize_many(round_, np.full(400, 7.5), epsilon=1)
    (tmp_path / "many.bin").write_bytes(many.to_bytes())
    files = [out, tmp_path / "reports.jsonl", tmp_path / "many.bin"]
    options = ("--round", tmp_path / "round.json", "--json", "--tally", tmp_path / "t")
    found = json.loads(run("aggregate", *files, *options))
    assert (found["reports"], found["duplicate"], found["rejected"]) == (402, 1, {})
    assert found["raw"][0] == pytest.approx(7.5, abs=5 * found["spread"][0])
    # the tally stands for its reports, in any company
    rest = randomize_many(round_, np.full(100, 7.5), epsilon=0.5)
    (tmp_path / "rest.bin").write_bytes(rest.to_bytes())
    shown = run("aggregate", tmp_path / "rest.bin", tmp_path / "t", *options[:2])
    assert "502 reports" in shown
    stored = Tally.from_bytes(round_, (tmp_path / "t").read_bytes())
    assert (stored.merge(tally(rest))).reports == 502
    assert "twice" in run("aggregate", tmp_path / "t", tmp_path / "t", *options[:2], code=2)
    assert "Choose one" in run("aggregate", out, *options[:2], "--weights", "x", code=2)
    assert "No such file" in run("aggregate", tmp_path / "none", *options[:2], code=2)


def test_tickets_come_from_an_option_a_file_or_the_environment(tmp_path):
    run("round", tmp_path / "round.json", "--epsilon", 1, "--n", 9, "--items", 5, "--issued")
    issue = ("tickets", "--round", tmp_path / "round.json", "--secret-file", tmp_path / "key")
    first, second, third = run(*issue, "--count", 3).split()
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    held, told = ("--ticket-file", tmp_path / "ticket"), {"PRIVMEAN_TICKET": third}
    (tmp_path / "ticket").write_text(second + "\n")
    sent(tmp_path, "a", "4", "--ticket", first)
    sent(tmp_path, "b", *held, "--value-file", "-", stdin="3")
    sent(tmp_path, "c", env={**told, "PRIVMEAN_VALUE": "3"})
    both = sent(tmp_path, "d", "3", *held, env=told, code=2)
    assert "cannot be combined with another ticket" in both
    assert "--ticket is required by this round" in sent(tmp_path, "d", "4", code=2)
    options = ("aggregate", tmp_path / "reports", "--round", tmp_path / "round.json", "--json")
    found = json.loads(run(*options, "--secret-file", tmp_path / "key"))
    assert (found["reports"], found["rejected"]) == (3, {})
    assert "accepts only reports with tickets" in run(*options, code=2)
    run(*issue, "--count", 1, "--level", 7, code=2)


def test_every_kind_of_round(tmp_path):
    base = ("--epsilon", 1, "--n", 100)
    for kind in (
        ("--radius", 2, "--dimension", 3),
        ("--items", 20, "--mechanism", "subset"),
        ("--lower", 0, "--upper", 1, "--bins", 4),
    ):
        run("round", tmp_path / kind[0], *base, *kind)
        Round.from_json((tmp_path / kind[0]).read_text())
    assert "must have one question" in run("round", tmp_path / "x", *base, code=2)
    assert "privmean: --items" in run("round", tmp_path / "x", *base, "--items", 1, code=2)
    assert "already exists" in run("round", tmp_path / kind[0], *base, *kind, code=2)
    assert "epsilon=0.0" in run("round", tmp_path / "x", "--epsilon", 0, *base[2:], *kind, code=2)


BOUNDS = ("--lower", 0, "--upper", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*BOUNDS, "--items", 5), "the round must have one question"),
        ((*BOUNDS, "--dimension", 3), "the round must have one question"),
        (("--radius", 2), "the round must have one question"),
        (("--radius", 2, "--dimension", 3, "--bins", 4), "the round must have one question"),
        (("--radius", 2, "--dimension", 0), "dimension=0"),
        (("--items", 4, "--sigma", 1), "--sigma=1.0: is not used by hadamard"),
        ((*BOUNDS, "--closes", 86400), "--closes=86400: must lie in the future"),
        *(((*BOUNDS, "--points", f"0:1:{n}"), "cannot be read") for n in (0, 1, -4, 10**15)),
        *(((*BOUNDS, "--points", said), "points=nan") for said in ("nan", "0:nan:3")),
        ((*BOUNDS, "--sigma", "inf"), "privmean: --sigma="),
        ((*BOUNDS, "--sigma", -1), "privmean: --sigma="),
        (("--lower", "nan", "--upper", 1), "privmean: --lower="),
        (("--lower", 0, "--upper", "inf"), "privmean: --upper="),
    ],
)
def test_a_round_that_nobody_meant_is_not_written(tmp_path, words, said):
    file = tmp_path / "round.json"
    assert said in run("round", file, "--epsilon", 1, "--n", 9, *words, code=2)
    assert not file.exists()


def test_wrong_words_are_refused_before_anything_is_spent(tmp_path):
    file, plain, odd = (tmp_path / name for name in ("round.json", "plain.json", "odd"))
    for path, more in ((file, ["--issued"]), (plain, [])):
        run("round", path, "--epsilon", 1, "--n", 9, *BOUNDS, *more)
    odd.write_bytes(b"\xff\xfe")
    issue = ("tickets", "--secret-file", tmp_path / "key", "--count")
    for count in (0, -3):
        assert f"count={count}" in run(*issue, count, "--round", file, code=2)
    assert "must be a round that issues tickets" in run(*issue, 1, "--round", plain, code=2)
    assert not (tmp_path / "key").exists()
    own = ("report", "1", "--epsilon", 1, "--limit", 1, "--ledger", tmp_path / "l", "--round")
    for words, said in (
        ((file, "--out", odd, "--ticket-file", odd), "ticket-file"),
        ((plain, "--out", odd, "--round-id", "ab"), "round-id"),
        *(((plain, "--server", it), "server") for it in ("http://h:99999", "http://[::1", "h")),
    ):
        assert f"privmean: --{said}=" in run(*own, *words, code=2)
    assert not (tmp_path / "l").exists()
    for server in ("http://h:99999", "http://[::1", "h"):
        assert "privmean: --server=" in run("close", "ab", "--server", server, code=2)
    assert "token-file" in run("close", "ab", "--server", "http://h", "--token-file", odd, code=2)
    served = ("serve", "--public-results", "--database", f"sqlite:///{tmp_path / 'd'}", "--round")
    for words, said in (
        ((plain, "--port", 70000), "port=70000"),
        ((plain, "--port", -1), "port=-1"),
        ((plain, "--host", ""), "host=''"),
        ((plain, "--origin", "https://localhost/"), "origin='https://localhost/'"),
        ((file,), "accepts only reports with tickets"),
        ((file, "--secret-file", odd), "secret-file="),
    ):
        assert said in run(*served, *words, code=2)
    assert not (tmp_path / "d").exists()


def test_errors_of_the_client(tmp_path):
    run("round", tmp_path / "round.json", "--epsilon", 1, "--n", 9, "--lower", 0,
        "--upper", 1)  # fmt: skip
    common = ("report", "0.5", "--epsilon", 1, "--ledger", tmp_path / "l", "--limit", 1)
    assert "a place for the report" in run(*common, code=2)
    assert "does not answer" in run(*common, "--server", "http://127.0.0.1:9", code=2)
    run("round", tmp_path / "two.json", "--epsilon", 1, "--n", 9, "--lower", 0, "--upper", 1)
    run(*common, "--round", tmp_path / "round.json", "--out", tmp_path / "o")
    spent = run(*common, "--round", tmp_path / "two.json", "--out", tmp_path / "o", code=2)
    assert "ledger has epsilon=0 left" in spent
    assert (tmp_path / "o").stat().st_size == 43


def test_the_report_command_stays_light():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from privmean.cli.collect import app\n"
        "CliRunner().invoke(app, ['report', '--help'])\n"
        "print(sorted({'numpy', 'scipy', 'fastapi', 'sqlalchemy', 'opendp'} & set(sys.modules)))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_value_comes_from_a_file_the_environment_or_standard_input(tmp_path):
    """Five homes of one value, and one of them is the command line."""
    run("round", tmp_path / "round.json", "--epsilon", 1, "--n", 99, "--lower", 0,
        "--upper", 10, "--mechanism", "piecewise")  # fmt: skip
    round_ = Round.from_json((tmp_path / "round.json").read_text())
    values = []

    def spy(round_, level, value, nonce, source):
        values.append(value)
        return bytes(4)

    held = tmp_path / "value"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(randomizers.RANDOMIZERS, round_.mechanism, spy)
        held.write_text("7.5\n")
        sent(tmp_path, "a", "--value-file", held)
        sent(tmp_path, "b", "--value-file", "-", stdin="7.5")
        sent(tmp_path, "d", env={"PRIVMEAN_VALUE": "7.5"})
        sent(tmp_path, "e", "7.5")
        patch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        patch.setattr("getpass.getpass", lambda _: "7.5")
        assert secrets.private_value(None, None) == [7.5]  # a terminal asks
        assert values == [7.5] * 4
        values.clear()
        for k, odd in enumerate((b"", b"  \n", b"nan", b"\xff\xfe", b"seven", b"1e999999")):
            held.write_bytes(odd)  # what stands there decides nothing but the report
            sent(tmp_path, f"odd{k}", "--value-file", held)
        assert [str(value) for value in values] == ["nan"] * 5 + ["inf"]
        values.clear()
        held.write_text("1, 2\n3")
        sent(tmp_path, "v", "--value-file", held)
        assert values == [[1.0, 2.0, 3.0]]
    twice = sent(tmp_path, "x", "--value-file", held, env={"PRIVMEAN_VALUE": "1"}, code=2)
    assert "twice" in twice
    assert "twice" in sent(tmp_path, "x", "5", "--value-file", held, code=2)
    assert "--value-file" in sent(tmp_path, "x", stdin="7", code=2)  # said, not guessed
    assert "No such file" in sent(tmp_path, "x", "--value-file", tmp_path / "none", code=2)
    assert not (tmp_path / "x.ledger").exists()
