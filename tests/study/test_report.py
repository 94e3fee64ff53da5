"""The report of a study: one page that needs nothing else, and says what was stored."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import privmean as pm
from plain_words import retired_terms
from privmean.study.study_report import page

FIELDS = (
    "Data set", "State of the data", "Holder of the data", "Asked by", "Who sees the outputs",
    "Contact", "Unit of protection", "Neighboring datasets", "Treated as public", "Trust model",
    "Parameters", "What they mean", "Composition", "Budget period", "Place on the ledger",
    "Mechanisms", "Noise", "Choices from the data", "Software", "Engine", "Run", "Not covered",
    "Known limits",
)  # fmt: skip


def made(name="A & B <study>", **card):
    rng = np.random.default_rng(2)
    people = pm.read(
        {"who": np.arange(2000), "x <i>": rng.normal(5, 1, 2000)}, person="who", values="x <i>"
    )
    study = pm.Study(people, epsilon=1.0, delta=1e-12, name=name, card=card)
    study.add("level", pm.Mean())
    study.add("limited", pm.Mean(assume=(0, 10)), weight=3)
    study.add("lost", pm.Mean(assume=pm.SubGaussian(sd=1e-9)))
    return study.release()


@pytest.fixture(scope="module")
def found():
    return made(audience="the board", data="panel")


@pytest.fixture(scope="module")
def text(found):
    return page(json.loads(json.dumps(found.to_dict())), table="panel.csv by who", analyst="ann")


class Checked(HTMLParser):
    """Tags that are opened and closed in turn."""

    VOID = ("meta", "circle", "line", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            assert name not in ("src", "href", "onload"), (tag, name, value)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(text):
    tags = Checked(text).seen
    assert "script" not in tags
    assert "link" not in tags
    assert "img" not in tags
    assert tags.count("svg") == 2  # none for the question that failed
    addresses = set(re.findall(r"https?://[^\"\s]+", text))
    assert addresses == set()


def test_the_page_says_every_number_that_was_stored(found, text):
    for _, row in found.rows():
        for value in (row.estimate, row.lower, row.upper):
            if np.isfinite(value):
                assert f">{value:.5g}<" in text
    assert found.to_dict()["provenance"]["digest"] in text
    assert found.provenance.time.replace("T", " ").replace("+00:00", " UTC") in text


def test_names_cannot_become_markup(text):
    assert "A &amp; B &lt;study&gt;" in text
    assert "x &lt;i&gt;" in text
    assert "<i>" not in text


def test_a_failed_question_is_there_with_its_advice(found, text):
    assert found.failed == ("lost",)
    section = text.split("<h3>lost</h3>")[1].split("</section>")[0]
    assert "failed" in section
    assert found["lost"].advice[:30] in unescape(section)


def test_failed_and_doubtful_questions_are_named_at_the_top(text):
    head = text.split("<main>")[0]
    assert "<strong>No estimate:</strong> lost." in head
    assert "no estimate" in text.split("<h2>Assumptions</h2>")[1].split("</table>")[0]


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(4)
    who = np.arange(3000)
    columns = {"who": who, "y": rng.normal(2, 0.4, 3000), "x": rng.normal(0, 1, 3000),
               "g": np.where(who % 100 == 0, "few", np.where(who % 2, "odd", "even"))}  # fmt: skip
    study = pm.Study(pm.Table(columns, person="who"), epsilon=12.0, noise=pm.SimulatedNoise(3))
    keys = ("odd", "even", "few")
    study.add("groups", pm.Mean("y", by="g", keys=keys, contrasts="odd - even"))
    study.add("slope", pm.Regression("y ~ x"), weight=60)
    return page(json.loads(json.dumps(study.release().to_dict())))


def test_groups_and_their_comparisons_have_axes_of_their_own(grouped):
    """On one axis intervals of means far from zero and of a difference are points."""
    section = grouped.split("<h3>groups</h3>")[1].split("</section>")[0]
    pictures = section.split("<figure>")[1:]
    assert len(pictures) == 2
    assert "odd - even" not in pictures[0]
    assert "odd - even" in pictures[1]
    assert len(grouped.split("<h3>slope</h3>")[1].split("</section>")[0].split("<figure>")) == 3


def test_people_of_private_groups_are_not_called_public(grouped):
    section = grouped.split("<h3>groups</h3>")[1].split("</section>")[0]
    assert re.search(r"n = [\d,]+ people \(noisy\)", section)
    assert "people (public)" in grouped.split("<h3>slope</h3>")[1]
    assert section.count('<th class="n">n</th>') == 1


def test_a_status_without_advice_is_explained(grouped):
    section = grouped.split("<h3>groups</h3>")[1].split("</section>")[0]
    assert "<strong>low_precision</strong>: The interval is wide compared" in section
    assert "Read with care:</strong> groups (low_precision)" in grouped.split("<main>")[0]


def test_reports_have_no_retired_term(text, grouped):
    pages = {"report": text, "report of groups": grouped}
    plain = [(name, unescape(re.sub("<[^>]+>", " ", page))) for name, page in pages.items()]
    assert retired_terms(plain) == []


def test_the_card_has_every_field(text):
    card = text.split("Release card")[1]
    for field in FIELDS:
        assert f"<th>{field}</th>" in card, field
    for word in ("the board", "panel", "ann", "one person with all records", "replace-one"):
        assert word in card


def test_a_card_has_no_other_fields():
    with pytest.raises(pm.ArgumentError, match="is not a field of the card"):
        made(colour="red")


def test_the_parts_of_the_bill_add_up_to_the_whole(text):
    widths = [float(item) for item in re.findall(r'class="bar" style="width:([\d.]+)%"', text)]
    assert len(widths) == 3
    assert sum(widths) == pytest.approx(100, abs=0.1)


def test_a_simulated_study_says_so_first():
    people = pm.read(np.random.default_rng(1).normal(5, 1, 900))
    study = pm.Study(people, epsilon=1.0, noise=pm.SimulatedNoise(1)).add("level", pm.Mean())
    text = page(study.release().to_dict())
    assert "SIMULATED" in text.split("<main>")[0]


def test_the_report_is_made_again_from_the_file(found, text):
    stored = json.loads(json.dumps(found.to_dict()))
    assert page(stored, table="panel.csv by who", analyst="ann") == text


@pytest.mark.system
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_it_light_and_dark(tmp_path, text, dark):
    from matplotlib.image import imread

    (tmp_path / "report.html").write_text(text)
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    command = [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", *scheme,
               "--window-size=900,1400", f"--screenshot={tmp_path / 'shot.png'}",
               f"file://{tmp_path / 'report.html'}"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    picture = imread(tmp_path / "shot.png")[..., :3].mean(axis=2)
    ground = np.median(picture)
    assert (ground < 0.2) if dark else (ground > 0.9)
    assert (np.abs(picture - ground) > 0.4).mean() > 0.01  # something is written on it


@pytest.mark.system
def test_it_prints_to_a4(tmp_path, text):
    (tmp_path / "report.html").write_text(text)
    command = [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu",
               "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'report.pdf'}",
               f"file://{tmp_path / 'report.html'}"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    boxes = re.findall(rb"/MediaBox\s*\[([\d. ]+)\]", (tmp_path / "report.pdf").read_bytes())
    assert 1 <= len(boxes) < 12
    for box in boxes:
        _, _, width, height = (float(x) for x in box.split())
        assert (round(width), round(height)) == (595, 842)
