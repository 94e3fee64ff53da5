"""The help of every command: one line for each option, in panels, within 80 columns."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from privmean.cli import app as cli
from privmean.cli.app import COMMANDS as LINES
from privmean.cli.app import run
from privmean.cli.derive_command import commands

ROOT = Path(__file__).resolve().parents[2]
PANELS = ["Data", "Question", "Privacy", "Output"]


def every_command():
    cli._add("")
    waiting = [((), get_command(cli.app))]
    while waiting:
        path, command = waiting.pop()
        yield path, command
        below = getattr(command, "commands", {})
        waiting += [((*path, name), item) for name, item in below.items()]


COMMANDS = dict(every_command())
OURS = [
    (path, item)
    for path, command in COMMANDS.items()
    for item in command.params
    if item.name not in ("install_completion", "show_completion")
    # an older Typer keeps the help of arguments to itself
    and (item.param_type_name == "option" or item.help)
]


@pytest.mark.parametrize(("path", "item"), OURS, ids=lambda x: getattr(x, "name", str(x)))
def test_an_option_has_one_short_line_of_help(path, item):
    assert item.help, path
    assert "\n" not in item.help
    # a small letter behind a bracket begins a style of Rich, which is not shown
    assert not re.search(r"\[[a-z#/@]", item.help), item.help
    assert len(item.help) <= 60, item.help
    assert item.help[0].isupper()
    assert item.help.endswith(".")


def test_a_command_has_one_line_of_help():
    for path, command in COMMANDS.items():
        first = (command.help or "").split("\n\n")[0]
        assert first, path
        assert len(first) <= 72, first
        assert first.endswith("."), first
        assert "\n" not in first, first
        assert "persons" not in command.help, path


def test_every_command_that_charges_a_ledger_names_label_and_analyst():
    """Where a ledger limits each analyst, a command that names none could not be charged."""
    names = {path: {item.name for item in command.params} for path, command in COMMANDS.items()}
    others = ("ledger", "verify", "collect")  # show, check or plan a ledger, or keep a client's
    charging = [
        found for path, found in names.items() if "ledger" in found and path[0] not in others
    ]
    assert len(charging) >= 9
    assert all({"label", "analyst"} <= found for found in charging)


@pytest.mark.parametrize("name", commands().values())
def test_the_options_of_a_question_are_in_panels(name):
    found = [item.rich_help_panel for item in COMMANDS[(name,)].params]
    assert set(found) == set(PANELS)
    order = list(dict.fromkeys(item for item in found if item is not None))
    assert [order.index(panel) for panel in PANELS] == sorted(order.index(p) for p in PANELS)


@pytest.mark.parametrize(
    ("name", "text"), [("stream", "extra kafka"), ("regress", "k[2]=1 k[1]=-1")]
)
def test_brackets_in_a_help_are_shown(capsys, monkeypatch, name, text):
    monkeypatch.setenv("COLUMNS", "120")
    assert run([name, "--help"]) == 0
    assert text in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], *([name] for name in LINES)], ids=str)
def test_help_fits_80_columns(capsys, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*arguments, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") > 5
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["maen"], "privmean has no command 'maen'. Did you mean mean?"),
        (["stream", "plna"], "privmean stream has no command 'plna'. Did you mean plan?"),
        (
            ["fixed-design", "x.csv"],
            "privmean has no command 'fixed-design'. Use pm.FixedDesign in Python.",
        ),
        (["mean", "t.csv", "--vlaue", "x"], "privmean mean has no option --vlaue. Did you mean"),
        (["regress", "t.csv", "--formula", "y ~ x"], "--formula. Write the formula alone."),
        (["mean", "t.csv", "--lower", "0"], "has no option --lower. Use --bounds LOWER UPPER."),
        (["mean", "t.csv", "--qqqq", "x"], "has no option --qqqq. See `privmean mean --help`."),
        (["mean", "t.csv", "--value", "b"], "--person is required. Name the column that identif"),
        (["mean", "t.csv", "--epsilon", "one"], "--epsilon='one': is not a number. Set the"),
        (["mean", "t.csv", "--bounds", "1"], "--bounds requires 2 values. Write --bounds VALUE1"),
        (["mean", "t.csv", "--bounds", "0,100", "--epsilon", "1"], "Write --bounds VALUE1 VALUE2"),
        (["mean", "t.csv", "--epsilon"], "--epsilon requires 1 value. Set the privacy budget"),
        (["mean", "t.csv", "x", "--person", "p"], "has no argument 'x' here. Write --value x."),
    ],
)
def test_a_wrong_command_line_is_told_what_to_write(capsys, line, text):
    assert run(line) == 2
    assert text in capsys.readouterr().err


def test_the_demo_uses_options_that_exist(monkeypatch):
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    said = []
    monkeypatch.setitem(demo["main"].__globals__, "write_tables", lambda: None)
    monkeypatch.setitem(demo["main"].__globals__, "run", lambda _, command: said.append(command))
    demo["main"]()
    assert len(said) > 3
    for command in said:
        _, name, *words = shlex.split(command)
        known = {flag for item in COMMANDS[(name,)].params for flag in item.opts}
        assert {word for word in words if word.startswith("--")} <= known, command
