"""`privmean stream` and `privmean stream plan`."""

import json
import os
import signal
import subprocess
import sys
import xml.dom.minidom

import pytest
from continual_reference import BUDGET, EVENTS, ROWS

from cli_runner import shell
from privmean.streams import MeanStream
from privmean.streams.compare_strategies import candidates
from privmean.streams.run_stream import thin
from privmean.streams.strategies import Buffered
from privmean.streams.toeplitz_matrices import Participation

PATTERN = ["--max-participations", "4", "--min-separation", "2"]


def test_one_line_of_json_a_release(feed):
    result = feed(ROWS, *EVENTS, "--bounds", "0", "10")
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert set(lines[0]) == {
        "step", "arrivals", "records", "waiting", "estimate", "noise_sd", "noise_interval",
        "population_interval",
    }  # fmt: skip
    assert "epsilon = 1, delta = 1e-06 (approximate DP)" in result.stderr
    assert "fixed public times" in " ".join(result.stderr.split())


def test_csv_gives_the_same_steps(feed):
    text = "v,x,p\n" + "".join(f'{row["v"]},"a,b",{row["p"]}\n' for row in ROWS)
    a = feed(text, *EVENTS, "--clip", "5", "--seed", "1", "--quiet")
    b = feed(ROWS, *EVENTS, "--clip", "5", "--seed", "1", "--quiet")
    assert a.stdout == b.stdout != ""
    assert a.stderr == b.stderr == ""
    assert json.loads(a.stdout.splitlines()[0])["secure"] is False


def test_restart_writes_the_same_lines_and_goes_on(feed, tmp_path):
    arguments = [*EVENTS, "--clip", "5", "--state", str(tmp_path / "s"), "--quiet"]
    first = feed(ROWS[:17], *arguments)
    again = feed(ROWS[:17], *arguments)
    assert again.stdout == first.stdout
    longer = feed(ROWS, *arguments)
    assert longer.stdout.startswith(first.stdout)
    assert len(longer.stdout) > len(first.stdout)
    quietly = feed(ROWS, *arguments, "--no-replay")
    assert quietly.stdout == ""


def test_append_takes_new_events_only(feed, tmp_path):
    arguments = [*EVENTS, "--clip", "5", "--state", str(tmp_path / "s"), "--quiet", "--append"]
    first = feed(ROWS[:17], *arguments)
    second = feed(ROWS[17:], *arguments)
    arrivals = [json.loads(x)["arrivals"] for x in (first.stdout + second.stdout).splitlines()]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == 28  # the 29th is the fifth of its person
    steps = [json.loads(x)["step"] for x in (first.stdout + second.stdout).splitlines()]
    assert steps == list(range(1, len(steps) + 1))


def test_another_input_is_refused_by_ids_alone(feed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [*EVENTS, "--clip", "5", "--state", "kept", "--quiet"]
    feed(ROWS[:17], *arguments)
    other_values = [{**row, "v": 1e9} for row in ROWS[:17]]
    assert feed(other_values, *arguments).exit_code == 0
    other_ids = [{**row, "p": "w"} for row in ROWS[:17]]
    result = feed(other_ids, *arguments)
    assert result.exit_code == 2
    named, remedy = "privmean: --state='kept': has read ", "with --append.\n"
    assert result.stderr.startswith(f"{named}other records than the input begins with. Give")
    assert result.stderr.endswith(remedy)
    result = feed(ROWS[:5], *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{named}12 more records than the input holds. Give")
    assert result.stderr.endswith(remedy)


def test_dirty_events_never_stop_the_stream(feed):
    text = "".join(json.dumps(row) + "\n" for row in ROWS[:3]) + (
        '\n{"p": "a"}\n{"p": null, "v": 1}\nnot json\n[1]\n{"p": "b", "v": NaN}\n'
        '{"p": "c", "v": 1'
        + "0" * 6000
        + '}\n{"p": 4, "v": "x"}\n{"p": true, "v": 2}\n{"p": "d", "v": 3'
    )
    result = feed(text.encode() + b"\xff\xfe\n", *EVENTS, "--clip", "5", "--quiet")
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[-1])["arrivals"] == 3 + 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a,b\n1,2\n", EVENTS, "does not name 'p'"),
        ("p,b\n1,2\n", EVENTS, "does not name 'v'"),
        (ROWS, ["stream", "--value", "v", *BUDGET, *PATTERN], "--person"),
        (ROWS, ["stream", "--person", "p", "--value", "v", *BUDGET], "participations"),
        (ROWS, ["stream", "--person", "p", "--value", "v", *PATTERN], "epsilon"),
    ],
)
def test_wrong_use_exits_with_2(feed, text, arguments, message):
    result = feed(text, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_without_a_region_it_says_what_it_waits_for(feed):
    result = feed(ROWS, *EVENTS)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "1,000 people have come" in " ".join(result.stderr.split())


@pytest.mark.slow
def test_pictures(feed, tmp_path):
    result = feed(
        ROWS, *EVENTS, "--clip", "5", "--quiet", "--seed", "3",
        "--html", str(tmp_path / "o.html"),
    )  # fmt: skip
    assert result.exit_code == 0
    page = (tmp_path / "o.html").read_text()
    assert "SIMULATED" in page
    assert "http" not in page  # nothing is loaded from elsewhere
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    points = xml.dom.minidom.parseString(svg).getElementsByTagName("polyline")[0]
    assert len(points.getAttribute("points").split()) > 20


def test_pictures_of_nothing(feed, tmp_path):
    arguments = ["--html", str(tmp_path / "o.html")]
    assert feed("", *EVENTS, "--clip", "5", *arguments).exit_code == 0
    assert "nothing released yet" in (tmp_path / "o.html").read_text()


def test_thinning_keeps_the_ends():
    settings = {"epsilon": 1.0, "delta": 1e-6, "max_participations": 1, "min_separation": 1}
    strategy = Buffered((0.2,), (0.5,))
    running = MeanStream(**settings, bounds=(0.0, 1.0), strategy=strategy)
    released = running.extend(list(range(1000)), [0.5] * 1000)
    path = thin(released, most=50)
    assert 50 <= len(path) <= 101
    assert path[0] is released[0]
    assert path[-1] is released[-1]
    assert thin([]) == []


# --- plan -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--dimension", "0"], "dimension=0"),
        (["--clip", "-1"], "clip=-1.0"),
        (["--neighbors", "x"], "neighbors='x'"),
        (["--epsilon", "1"], "delta=0.0"),
        (["--delta", "1e-6"], "delta=1e-06"),
    ],
)
def test_a_plan_of_no_stream_is_refused(words, named):
    usual = ["--steps", "10", "--max-participations", "2", "--min-separation", "2"]
    result = shell("stream", "plan", *usual, *words)
    assert (result.exit_code, named in result.stderr) == (2, True), result.stderr


@pytest.mark.slow
def test_plan_shows_the_error_at_given_times():
    arguments = ["--steps", "300", "--max-participations", "2", "--min-separation", "150"]
    command = ["stream", "plan", *arguments, "--time", "10", "--time", "250"]
    plan = json.loads(shell(*command, "--json").stdout)
    assert plan["goal"] == "times"
    found = {item["name"]: item for item in plan["strategies"]}
    assert found["identity"]["sensitivity"] == pytest.approx(2**0.5)
    # equal and independent noise, two participations: sqrt(2)/sqrt(t)
    errors = {item["step"]: item["rmse"] for item in found["identity"]["at"]}
    assert errors == pytest.approx({10: (2 / 10) ** 0.5, 250: (2 / 250) ** 0.5})
    goals = [item["rmse_goal"] for item in plan["strategies"]]
    assert goals == sorted(goals)
    header = shell(*command).stdout
    assert "at 10" in header
    assert "at 250" in header


@pytest.mark.slow
def test_a_search_tells_what_it_evaluates():
    told = []
    found = candidates(Participation(2, 100), 200, watch=told.append)
    assert sorted(told) == sorted(item.strategy.name for item in found)


# --- a real process ----------------------------------------------------------------------------


@pytest.mark.slow
def test_interrupt_ends_between_batches(tmp_path):
    """Ctrl-C while waiting for input: exit 130, everything read so far is safe."""
    script = "import sys; from privmean.cli.app import run; sys.exit(run())"
    arguments = [*EVENTS, "--clip", "5", "--state", str(tmp_path / "s")]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, bufsize=0,
    )  # fmt: skip
    process.stdin.write("".join(json.dumps(row) + "\n" for row in ROWS[:5]).encode())
    process.stdin.flush()
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, problems = process.communicate(timeout=60)
    assert process.returncode == 130, problems
    assert json.loads(first)["step"] == 1
    assert b"Stream: stopped\n5 records" in problems
    assert b"Traceback" not in problems
    lines = [json.loads(line) for line in (first + out).splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
