"""No print, summary, report or command cuts a text short: cautions are read to their end."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import privmean as pm
from asked_calls import CALLS, KINDS, released
from cli_runner import shell
from privmean.noise.noise_source import SimulatedNoise
from privmean.output import WIDTH
from privmean.release.charts import svg
from privmean.release.formatting import assumption_text
from privmean.release.stored_release import Row
from privmean.study.study_report import pages

CUT = re.compile(r"…|(?<![\w(])\.\.\.|\.\.\.$", re.MULTILINE)
LONG = "a_value_whose_name_is_longer_than_a_label_of_a_picture"


def table(size=3000):
    g = np.random.default_rng(7)
    n = 2 * size
    return pl.DataFrame({
        "who": np.repeat(np.arange(size), 2), "v": g.normal(50, 10, n), LONG: g.normal(50, 10, n),
        "group": g.choice(["a", "b", "c"], n),
    })  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: CALLS[number].name)
def test_no_print_of_any_question_is_cut(number):
    release = released(CALLS[number], number, KINDS[number % len(KINDS)])
    if isinstance(release, pm.StudyRelease):
        return
    stored = pm.Release.from_dict(release.to_dict())
    plain = (str(release), release.summary(noise=True), release.details(), str(stored))
    for text in (*plain, release._repr_html_()):
        assert not CUT.search(text), CUT.findall(text)
    assert all(len(line) <= WIDTH for text in plain for line in text.splitlines())
    told = " ".join(str(release).split())
    if not release.failed:
        assert " ".join(assumption_text(release).split()) in told
    advice = release.advice if release.status != "ok" else release.interval().advice
    assert " ".join(advice.split())[1:].rstrip(".") in told


def test_a_study_and_its_report_are_whole():
    questions = {
        "level": pm.Mean("v"), "groups": pm.Mean(LONG, by="group", keys=["a", "b", "c"]),
        "wrong": pm.Mean("v", assume=(1000, 2000)), "middle": pm.Quantile("v"),
    }  # fmt: skip
    study = pm.Study(pm.Table(table(), person="who"), epsilon=2.0, noise=SimulatedNoise(3))
    for name, question in questions.items():
        study.add(name, question)
    release = study.release()
    for text in (str(release), *pages(release.to_dict()).values()):
        assert not CUT.search(text), CUT.findall(text)
    assert f">{LONG}<" in svg([Row(LONG, "", 1.0, 0.1, 0.8, 1.2, 0.9, 1.1)], 0.95)


@pytest.mark.slow
def test_the_command_prints_whole_texts(tmp_path):
    path = tmp_path / "v.csv"
    table().write_csv(path)
    asked = (path, "--person", "who", "--epsilon", 1)
    for command in (
        ("mean", *asked, "--value", "v", "--bounds", 1000, 2000),
        ("mean", *asked, "--value", "v", "--by", "group", "--keys", "a,b,c", "--details"),
        ("quantile", *asked, "--value", "v"),
        ("variance", *asked, "--value", "v"),
    ):
        found = shell(*command)
        assert found.exit_code in (0, 3), found.stderr
        assert not CUT.search(found.stdout)
