"""What the command line refuses is named by the option that said it; remedies can be said, too."""

import subprocess
import sys

import pytest
from typer.main import get_command

from cli_runner import shell
from privmean.cli import app
from privmean.errors import PrivmeanError
from privmean.streams.run_stream import ReleaseFile

STREAM = [
    "stream", "--person", "p", "--value", "v", "--epsilon", "1", "--delta", "1e-6",
    "--max-participations", "2", "--min-separation", "1", "--steps", "8",
]  # fmt: skip
WITHHOLD = [
    "withhold", "--person", "p", "--value", "v", "--epsilon", "1", "--delta", "1e-6",
    "--max-records", "2", "--bounds", "0:5",
]  # fmt: skip
BOUNDS = ["--bounds", "0", "5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*WITHHOLD, "--spread", "0"], "--spread=0.0: must be greater than 0"),
        ([*STREAM, "--clip", "-1"], "--clip=-1.0: must be greater than 0"),
        ([*STREAM, *BOUNDS, "--clip", "3"], "with --clip. Give --bounds or --clip"),
        ([*STREAM, "--center", "3"], "--center=[3.0]: requires a radius. Give --clip"),
        ([*STREAM, *BOUNDS, "--value", "w"], "Use --clip and --center"),
        ([*STREAM, *BOUNDS, "--goal", "times"], "--time=(): is empty"),
        ([*STREAM, *BOUNDS, "--time", "3"], "--time=(3,): requires"),
        ([*STREAM, *BOUNDS, "--epsilon", "inf"], "--epsilon=inf"),
        ([*STREAM, *BOUNDS, "--delta", "1"], "--delta=1.0"),
        (["plan", "--n", "9", *BOUNDS, "--rho", "1e9"], "--rho=1"),
        ([*STREAM, *BOUNDS, "--format", "xml"], "--format='xml': is not one of"),
        ([*STREAM, *BOUNDS, "--kafka", "x"], "--kafka='x': is not HOST:PORT/TOPIC"),
        ([*STREAM, *BOUNDS, "--kafka", ""], "--kafka='': is not HOST:PORT/TOPIC"),
        ([*STREAM, *BOUNDS, "--seed", "-1"], "--seed=-1: is not a seed"),
        ([*STREAM, "--bounds", "0", "1e-320"], "--bounds=(0.0, 1e-320): must be at least 1e-120"),
        ([*STREAM, *BOUNDS, "--first-release", "9"], "--first-release=9: must lie within"),
        ([*STREAM, "--period", "day", "--time-column", "t"], "Give --bounds or --clip"),
        ([*STREAM, *BOUNDS, "--period", "day", "--time-column", "t", "--filler"],
         "Remove --release-every and --filler"),
    ],
)  # fmt: skip
def test_an_option_is_named(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    result = shell(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_full_disk_is_told_with_the_file(tmp_path):
    words = ["--lower", 0, "--upper", 1, "--epsilon", 1, "--n", 100]
    round_ = tmp_path / "round.json"
    assert shell("collect", "round", round_, *words).exit_code == 0
    assert "/dev/full: the disk is full" in shell("collect", "round", "/dev/full", *words).stderr
    result = shell(
        "collect", "report", "0.5", "--epsilon", 1, "--ledger", tmp_path / "own", "--limit", 2,
        "--round", round_, "--out", "/dev/full",
    )  # fmt: skip
    assert result.exit_code == 2
    assert "/dev/full: the disk is full" in result.stderr


def test_room_is_asked_for_where_the_disk_is_full_alone(tmp_path):
    with pytest.raises(PrivmeanError, match="No such file.*Correct this") as gone:
        ReleaseFile(tmp_path / "none" / "x").follow(iter(()))
    assert "make room" not in str(gone.value)


def test_a_conflict_with_an_option_names_it(tmp_path):
    (tmp_path / "t.csv").write_text("p,v,g\n1,2,a\n")
    line = ["mean", tmp_path / "t.csv", "--person", "p", "--value", "v", "--by", "g"]
    result = shell(*line, "--epsilon", "1", "--estimand", "records")
    assert result.exit_code == 2
    assert "--estimand='records': cannot be combined with --by. Remove it" in result.stderr


TEXTS = [
    "1", "-3", "007", "1.5", "1e-6", "1E6", "1.", ".5", "+1", "1e400", "1e-400", "9" * 15, "9" * 40,
    "0." + "1234567" * 9, " 1", "1_000", "inf", "nan", "0x10", "", "y", "two words", "\u00e9",
    "\u0663", "\t", "a\nb", "\udcff",
]  # fmt: skip


@pytest.mark.parametrize("text", [None, *TEXTS])
def test_options_are_read_as_typer_reads_them(text):
    command, other = (get_command(app._needed(["mean"])).commands["mean"] for _ in range(2))
    app._read_plainly(other, [])
    context = command.context_class(command)

    def outcome(param, value):
        try:
            return repr(param.process_value(context, value))
        except Exception as refused:
            return type(refused), str(refused)

    for param, mine in zip(command.params, other.get_params(context), strict=False):
        assert mine.name == param.name
        value = [text] if text is not None and param.multiple else text
        assert outcome(mine, value) == outcome(param, value)
        assert outcome(mine, param.default) == outcome(param, param.default)


def test_a_plain_line_needs_no_validators(tmp_path):
    code = (
        "import sys; from privmean.cli.app import run; "
        f"run(['mean', {str(tmp_path / 'none.csv')!r}, '--person', 'p', '--value', 'y', "
        "'--epsilon', '1.5', '--level', '.9']); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert "does not exist" in done.stderr
