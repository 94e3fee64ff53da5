"""Whole calls, from raw records in every kind of source to everything that an outsider sees."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

import privmean as pm
from auditing.sources import SOURCES
from privmean.auditing import call_list
from privmean.auditing.call_list import CALLS, CallCase
from privmean.auditing.calls import Called, Table, built, neighbour
from privmean.auditing.findings import GENEROUS, PURE, Findings
from privmean.cli.app import run as command
from privmean.storage.durable_log import DurableLog
from privmean.study.run_folder import KIND, LOG, run_in

EACH = 4  # neighbours of one call from one source
NAMES = [call.name for call in CALLS]
DEAR = ("regression", "study", "curve, levels", "compare, slope")  # a few of them, further down


def in_source(kind, folder):
    return partial(lambda table: SOURCES[kind](table, folder))


CHEAP = [call for call in CALLS if call.rows is None and not call.name.startswith(DEAR)]


def followed(kind, folder, turns, budgets):
    """Calls from one source; the relations and tables go round."""
    found, number = Findings(), list(SOURCES).index(kind)
    for turn in turns:
        for said in budgets:
            relation = ("replace-one", "add-remove")[turn % 2]
            table = call_list.KINDS[(turn + number) % len(call_list.KINDS)]
            case = CallCase(CHEAP[turn], said, relation, table)
            made = call_list.called(case, turn, in_source(kind, folder))
            if made.record(found):
                made.follow(EACH, found)
    assert found.count == 0, found.violations
    assert found.runs == EACH * found.recorded
    return found.recorded


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_a_few_calls_from_every_kind_of_source(kind, tmp_path):
    """A few for each source: together they are spread over the list of calls."""
    every, number = len(SOURCES), list(SOURCES).index(kind)
    turns = range(number, len(CHEAP), every)
    assert followed(kind, tmp_path, turns[number % 3 :: 3], (GENEROUS[1],))


@pytest.mark.long
@pytest.mark.parametrize("kind", SOURCES)
def test_calls_from_every_kind_of_source(kind, tmp_path):
    """Every call that is quick, from two sources."""
    number = list(SOURCES).index(kind)
    turns = [turn for turn in range(len(CHEAP)) if (turn + number) % 5 == 0]
    assert followed(kind, tmp_path, turns, (PURE, GENEROUS[1])) > 5


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["regression, formula 2", "regression, effect", "study, everything"]
)
def test_calls_that_take_long(name):
    found = call_list.run_call(
        CallCase(CALLS[NAMES.index(name)], GENEROUS[1], "replace-one", "normal"), 3, 5
    )
    assert found.count == 0, found.violations
    assert found.runs == 3


PLAIN = built(("y", "g"), ("g",), "normal", 60, 3)


def replayed(ask, runs=6, relation="replace-one", source=Table.arrays):
    """What replays of one call find."""
    found = Findings()
    made = Called(ask, PLAIN, source, "here", relation)
    assert made.record(found)
    made.follow(runs, found)
    return found


def asked(source, noise, ledger):
    return pm.mean(
        source, "y", person="person", epsilon=2, bounds=(0, 8), noise=noise, ledger=ledger
    )


@pytest.mark.slow
def test_an_honest_call_shows_no_difference():
    found = replayed(asked, 20)
    assert (found.count, found.runs) == (0, 20)
    assert found.mechanisms["SumsOver, laplace"].largest > 0.9  # the search comes near the bill


def seen_of(source):
    return float(np.nansum(np.clip(source["y"], -1e9, 1e9)))


LEAKS = {
    "warning": lambda x: warnings.warn(f"mean {x}", stacklevel=1),
    "log": lambda x: logging.getLogger("privmean").info("sum %s", x),
    "out": print,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", LEAKS)
def test_what_is_said_beside_a_release_is_seen(way):
    def ask(source, noise, ledger):
        LEAKS[way](seen_of(source))
        return asked(source, noise, ledger)

    assert replayed(ask).differences


def test_a_refusal_that_follows_a_record_is_seen():
    calls = []

    def ask(source, noise, ledger):
        calls.append(1)
        if len(calls) > 1 and seen_of(source) != calls[0]:
            raise pm.SchemaError("a value is refused")
        calls[0] = seen_of(source)
        return asked(source, noise, ledger)

    assert replayed(ask).differences


@pytest.mark.slow
def test_one_number_of_a_release_without_noise_is_seen():
    def ask(source, noise, ledger):
        made = asked(source, noise, ledger)
        return replace(made, diagnostics={**made.diagnostics, "sum": seen_of(source)})

    assert replayed(ask).differences


@pytest.mark.slow
def test_an_entry_of_a_ledger_that_follows_a_record_is_seen():
    def ask(source, noise, ledger):
        label = f"sum {seen_of(source)}"
        words = {"person": "person", "epsilon": 2, "bounds": (0, 8), "label": label}
        return pm.mean(source, "y", **words, noise=noise, ledger=ledger)

    assert replayed(ask).differences


class Shown:
    """Files and an exit status, as something that is released."""

    def __init__(self, **texts):
        self.texts = texts

    def to_dict(self):
        return self.texts

    def __str__(self):
        return str(self.texts)


@pytest.mark.slow
def test_files_of_a_study_hold_nothing_else(tmp_path):
    turn = iter(range(100))

    def ask(source, noise, _):
        study = pm.Study(pm.Table(source, person="person"), epsilon=60.0)
        study.add("a", pm.Mean("y", assume=(0, 8)))
        study.add("b", pm.Quantile("y", bounds=(0, 8)))
        out = tmp_path / f"run{next(turn)}"
        run_in(study, out, noise=noise)
        entries = []
        DurableLog.open(out / LOG, KIND, lambda entry: entries.append(entry.payload)).close()
        texts = {LOG: b"\n".join(entries).decode()}
        for path in sorted(out.rglob("*")):
            if path.is_file() and path.name != LOG:
                texts[path.relative_to(out).as_posix()] = path.read_text(errors="replace")
        return Shown(**{name: text.replace(out.name, "run") for name, text in texts.items()})

    found = replayed(ask, 4)
    assert found.count == 0, found.violations


def test_the_exit_status_and_output_of_a_command_are_the_same(tmp_path):
    def ask(source, noise, _):
        words = ["mean", source, "--person", "person", "--value", "y", "--epsilon", "2"]
        with mock.patch("privmean.pipeline.ExactNoise", return_value=noise):
            return Shown(status=command([*words, "--bounds", "0,8", "--json"]))

    found = replayed(ask, 4, source=in_source("CSV", tmp_path))
    assert found.count == 0, found.violations


def test_neighbours_differ_in_one_person_and_keep_what_is_public():
    rng = np.random.default_rng(2)
    numbers = (0.0, 1e308, -1.0)
    kept = replace(PLAIN, public=("g",))
    start = None
    for _ in range(60):
        other, what = neighbour(PLAIN, "replace-one", numbers, rng, start)
        changed = [who for who in PLAIN.people if PLAIN.people[who] != other.people[who]]
        assert len(changed) <= 1
        assert what
        start = (other, what) if rng.random() < 0.5 else None
        other, _ = neighbour(kept, "replace-one", numbers, rng)
        for who, own in kept.people.items():
            assert [record[1] for record in own] == [record[1] for record in other.people[who]]
        other, what = neighbour(PLAIN, "add-remove", numbers, rng)
        assert len(other.people) - len(PLAIN.people) == {"left": -1, "joined": 1}[what]


@pytest.mark.slow
def test_a_table_without_its_neighbours_finds_nothing():
    """The harness has a twin: where the neighbour is the table itself, leaks are not seen."""

    def ask(source, noise, ledger):
        print(seen_of(source))
        return asked(source, noise, ledger)

    with mock.patch("privmean.auditing.calls.neighbour", lambda table, *_: (table, "the same")):
        assert replayed(ask).count == 0
    assert replayed(ask).count
