"""Every script of benchmarks/ still runs, each at its smallest setting, on a copy of the folder.

BENCHMARKS_TRIAL=1 makes `report.few` give the least number of runs. Scripts whose engine or package
is missing say so and end. Their tables are not looked at.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import privmean as pm

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 0.7  # of the processor, after which a script of LONG is left
PARTS = 4
TABLES = ROOT.parent / "shared" / "data"  # development tables, which are no part of the project
# which need them
ON_TABLES = ["coefficient_scale", "continual_events", "default_mean", "groups", "several_columns"]
PANEL = "nlswork.parquet"

# scripts that end by themselves, and what makes them small
SMALL = {
    "arms": "--runs 2",
    "boolean_groups": "--runs 2",
    "change": "",
    "collector_reads": "--quick",
    "continual_peer": "--quick",
    "continual_throughput": "--quick",
    "curves": "--runs 2 --names lognormal",
    "default_mean_laws": "--runs 2 --sizes 1000",
    "default_mean_zeros": "--runs 2",
    "event_lines": "--lines 600",
    "fuzz_homes": "--cases 1",
    "fuzz_text": "--cases 2",
    "gee": "--runs 2 --panel {panel}",
    "groups_heaps": "--runs 2",
    "groups_speed": "--records 10000 --persons 1000 --groups 5 --runs 1",
    "heavy_radius": "--runs 2 --sizes 1000",
    "larger_than_memory": "--quick --records 10000 --persons 1000 --memory-limit 1GB",
    "local_frequency": "--quick",
    "many_columns": "--runs 2",
    "passes": "",
    "peers": "--publish",
    "records_coverage": "--runs 2 --sizes 1500 --epsilons 1",
    "regression_intervals": "--runs 2 --panels normal",
    "reproduce": "none",
    "spark": "--quick --records 10000 --persons 100 --repeats 1",
    "staged_charges": "--ledgers 12",
    "stream_radius": "--runs 2",
    "streams_pictures": "",
    "two_servers": "--runs 2 --persons 2000",
}

# scripts that two runs do not make quick: they are left after SECONDS, if nothing went wrong
LONG = {
    "coefficient_scale": ("--runs 2", "regressions of whole tables"),
    "ledger_charge": ("--before {src}/..", "whole processes"),
    "stream_step": ("--before {src}/..", "whole processes"),
    "wrong_uses": ("", "commands run in processes of their own"),
    "anisotropic": ("--quick", "dimension 10,000"),
    "audit_calls": ("--minutes 1", "calls over every source"),
    "audit_twins": ("", "every twin of every mechanism"),
    "continual_events": ("--quick", "streams of every development table"),
    "continual_rates": ("--quick", "strategies are optimized"),
    "continual_tables": ("--quick", "strategies are optimized"),
    "default_mean": ("--runs 2 --sets development", "24 columns"),
    "dependent_figures": ("--quick", "many cells"),
    "false_alarms": ("--runs 2", "every question"),
    "gallery_panels": ("", "whole tables"),
    "groups": ("--runs 2 --samples 2 --epsilons 1", "whole tables"),
    "heavy_tails": ("--quick", "rounds of 2,000 people and 100 records"),
    "high_dimension": ("--quick", "100 columns"),
    "hostile_records": ("", "every format and engine"),
    "intervals": ("--quick", "50 runs of many cells"),
    "lemmas": ("", "enumerates wide lattices"),
    "local_central": ("--quick", "100,000 clients"),
    "local_choices": ("", "millions of reports"),
    "local_coverage": ("--quick", "many rounds"),
    "local_poisoning": ("", "nonces are tried"),
    "local_related": ("--quick", "many rounds"),
    "local_reproduction": ("--quick", "many rounds"),
    "local_scale": ("--quick", "a million reports"),
    "longitudinal": ("--releases 2 --panel {panel}", "panels are simulated"),
    "main_job": ("--quick", "every column of the development tables"),
    "noise": ("--rounds 1", "a million draws a law"),
    "ok_stands": ("--runs 2", "every question and law"),
    "pooled": ("--runs 2 --panel {panel}", "20,000 people"),
    "quantiles": ("--runs 2 --data {data}", "many cells"),
    "several_columns": ("--runs 2", "six panels of the development tables"),
    "size": ("", "parses the whole source"),
    "stream_intervals": ("--runs 2", "streams of 20,000 records"),
    "streams_default": ("--runs 2", "strategies are optimized"),
    "study": ("{panel} --runs 2", "eleven questions"),
    "tapes_twins": ("--neighbors 1", "twins of every mechanism"),
    "variance": ("--quick", "40 releases of many cells"),
    "verify_edits": ("", "22,000 edits"),
    "winsorized": ("--quick", "many cells"),
}

# what is no script by itself, or starts so many processes that it is tried elsewhere
LEFT_OUT = {
    "audit": "`privmean audit` is tried in tests/auditing",
    "bench_speed": "a module of speed_cases.py",
    "collector_hostile": "serves a collector to 10 hostile clients: 10 s",
    "continual_kill": "kills processes for 6 s; tests/streams has its cases",
    "engines": "needs the environment of `make engines`, which runs it",
    "fault_machine": "kills processes; tests/storage/test_faults.py",
    "file_to_number": "spawns a pool of processes; its audit is tried in tests/auditing",
    "fuzz": "runs the test suite with fresh cases; tests/benchmarks/test_fuzz.py",
    "gee_figures": "needs statsmodels; what it found is kept in a file",
    "heavy_data": "a module",
    "killing": "a module",
    "local_peer": "runs in the Python of another package",
    "longitudinal_figures": "needs statsmodels; what it found is kept in a file",
    "panels": "a module",
    "plans": "a module",
    "prints_beside": "needs statsmodels in an environment of its own",
    "report": "a module",
    "restorer": "starts processes; tests/storage/test_faults.py",
    "review": "runs ten commands of an hour; tests/benchmarks/test_review.py",
    "small_table": "a hundred processes: the start of each is what it measures",
    "speed": "a process per case; tests/benchmarks/test_speed_suite.py",
    "speed_cases": "a module",
    "speed_mean": "makes tables of millions of records whatever is said",
    "study_kills": "kills processes; tests/study has its cases",
    "study_laws": "a module",
    "verification": "ten whole processes; tests/test_verification.py tries its edits",
    "tapes": "a module",
    "vector_coverage": "starts a pool of three processes",
}


def test_every_script_has_a_place():
    scripts = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    assert sorted([*SMALL, *LONG, *LEFT_OUT]) == scripts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The root of a repository in which scripts may write what they like."""
    made = tmp_path_factory.mktemp("trial") / "root"
    made.mkdir()
    for name in ("benchmarks", "docs"):
        shutil.copytree(ROOT / name, made / name)
    for name in ("tests", "src", "examples", "clients", "Makefile", "README.md"):
        (made / name).symlink_to(ROOT / name)
    if TABLES.exists():
        (made.parent / "shared").symlink_to(TABLES.parent)
    pl.DataFrame(pm.example("nlswork")).write_parquet(made / PANEL)
    return made


def failed(names, folder) -> str:
    """What scripts said that failed."""
    said = {name: (arguments, 0.0) for name, arguments in SMALL.items()}
    said |= {name: (arguments, SECONDS) for name, (arguments, _) in LONG.items()}
    jobs = []
    for name in names:
        arguments, seconds = said[name]
        arguments = arguments.format(src=ROOT / "src", panel=folder / PANEL, data=folder)
        jobs.append((name, arguments.split(), seconds))
    return "\n".join(f"{name}: {words}" for name, words in tried(jobs, folder).items() if words)


def tried(jobs, folder):
    """What `trial.py` found of scripts with their arguments and seconds."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("trial.py")), str(folder)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"BENCHMARKS_TRIAL": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_scripts_run_at_their_smallest_settings(part, folder):
    names = sorted({*SMALL, *LONG} - {*ON_TABLES})
    assert not (words := failed(names[part::PARTS], folder)), words


@pytest.mark.slow
@pytest.mark.skipif(not TABLES.exists(), reason=f"needs the tables of {TABLES.parent.name}/data")
def test_scripts_run_on_the_development_tables(folder):
    assert not (words := failed(ON_TABLES, folder)), words


@pytest.mark.slow
def test_a_script_that_fails_is_noticed(folder):
    """And one that is left in the middle, or ends by itself, is not."""
    texts = {"broken": "1 / 0", "refused": "raise SystemExit('no')", "endless": "while True: pass",
             "ended": "import sys; sys.exit(0)"}  # fmt: skip
    for name, text in texts.items():
        (folder / "benchmarks" / f"{name}.py").write_text(text)
    found = tried([(name, [], 0.2) for name in texts], folder)
    assert "ZeroDivisionError" in found["broken"]
    assert found["refused"]
    assert found["endless"] == found["ended"] == ""
