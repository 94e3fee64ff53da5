"""The report of a study: two pages for readers, an appendix, Markdown; they say what was stored."""

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
from privmean.inference.status import STATUSES
from privmean.study.study_report import ACCOUNTING, MARKDOWN, REPORT, pages

FIELDS = (
    "Data set", "Purpose", "Period of the data", "State of the data", "Holder of the data",
    "Asked by", "Who sees the outputs", "Contact", "Unit of protection", "Neighboring datasets",
    "Treated as public", "Trust model", "Parameters", "What they mean", "Composition",
    "Budget period", "Place on the ledger", "Mechanisms", "Noise", "Choices from the data",
    "Software", "Engine", "Run", "Not covered", "Known limits",
)  # fmt: skip


def made(name="A & B <study>", **card):
    rng = np.random.default_rng(2)
    people = pm.read(
        {"who": np.arange(2000), "x <i>": rng.normal(5, 1, 2000)}, person="who", values="x <i>"
    )
    study = pm.Study(people, epsilon=1.0, delta=1e-12, name=name, card=card)
    study.add("level", pm.Mean(), label="level of <x>", unit="m|s", note="A *remark*.")
    study.add("limited", pm.Mean(assume=(0, 10)), weight=3)
    study.add("lost", pm.Mean(assume=pm.SubGaussian(sd=1e-9)))
    return study.release()


def stored_again(release):
    return json.loads(json.dumps(release.to_dict()))


@pytest.fixture(scope="module")
def found():
    return made(audience="the board", data="panel", purpose="To see <it>.", period="2001 to 2009")


@pytest.fixture(scope="module")
def files(found):
    return pages(stored_again(found), table="panel.csv by who", analyst="ann")


@pytest.fixture(scope="module")
def text(files):
    return files[REPORT]


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


def spaced(text):
    return unescape(text).replace("\N{NO-BREAK SPACE}", " ")


def section(page, name):
    return page.split(f"<h3>{name}</h3>")[1].split("</section>")[0]


@pytest.mark.slow
def test_the_pages_need_nothing_else(files):
    for name in (REPORT, ACCOUNTING):
        tags = Checked(files[name]).seen
        assert not {"script", "link", "img"} & set(tags)
        assert re.findall(r"https?://[^\"\s]+", files[name]) == []
    assert Checked(files[REPORT]).seen.count("svg") == 2  # none for the question that failed


def test_every_question_has_its_sentence(found, files):
    sentence = found["level"].sentence("level of <x>", "m|s")
    for name in ("level", "limited"):
        expected = sentence if name == "level" else found[name].sentence()
        assert expected in spaced(section(files[REPORT], name))
    assert "There is no estimate" in section(files[REPORT], "lost")
    assert sentence.replace("<", r"\<").replace(">", r"\>").replace("|", r"\|") in files[MARKDOWN]
    assert "A *remark*." in section(files[REPORT], "level")
    assert r"A \*remark\*." in files[MARKDOWN]


@pytest.mark.slow
def test_every_number_that_was_stored_is_there(found, files):
    for name in found.names:
        for row in found[name].output(noise=True).rows:
            for cell in row.cells if "lost" not in name else ():
                assert f">{cell}<" in files[ACCOUNTING]
        for row in found[name].output().rows if name != "lost" else ():
            assert all(f">{cell}<" in files[REPORT] for cell in row.cells)
            assert " | ".join(row.cells) in files[MARKDOWN]
    assert all(found.to_dict()["provenance"]["digest"] in page for page in files.values())


def test_names_cannot_become_markup(files):
    for name in (REPORT, ACCOUNTING):
        assert "A &amp; B &lt;study&gt;" in files[name]
        assert "x &lt;i&gt;" in files[name]
        assert "<i>" not in files[name]
    assert r"A & B \<study\>" in files[MARKDOWN]


def test_the_head_says_what_the_study_is(files):
    head = unescape(files[REPORT].split("<main>")[0])
    for word in ("To see <it>.", "panel", "2001 to 2009", "n = 2,000 people (public)", "ann"):
        assert word in head, word
    assert "State of the data" not in head  # nobody stated it


def test_a_failed_question_has_its_advice_in_the_appendix(found, files):
    assert found.failed == ("lost",)
    assert found["lost"].advice[:30] in unescape(section(files[ACCOUNTING], "lost"))
    cautions = files[REPORT].split("Cautions")[1].split("</section>")[0]
    assert re.search(r"<strong>\w no estimate</strong> \(lost\)", cautions)


@pytest.mark.slow
def test_readers_are_given_no_advice_of_analysts(found, files, grouped):
    reports = [files[REPORT], files[MARKDOWN], grouped[REPORT], grouped[MARKDOWN]]
    for page in map(unescape, reports):
        for status in STATUSES:
            assert status.remedy not in page
        assert "Mean(" not in page
        assert found["lost"].advice not in page


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(4)
    who = np.arange(3000)
    columns = {"who": who, "y": rng.normal(2, 0.4, 3000), "x": rng.normal(0, 1, 3000),
               "t": rng.uniform(0, 3, 3000),
               "g": np.where(who % 100 == 0, "few", np.where(who % 2, "odd", "even"))}  # fmt: skip
    study = pm.Study(pm.Table(columns, person="who"), epsilon=12.0, noise=pm.SimulatedNoise(3))
    keys = ("odd", "even", "few")
    study.add("groups", pm.Mean("y", by="g", keys=keys, contrasts="odd - even"))
    study.add("slope", pm.Regression("y ~ x"), weight=60)
    study.add("trend", pm.Curve("y", "t", bins=[0, 1, 2, 3]))
    return pages(stored_again(study.release()))


def test_groups_and_their_comparisons_have_axes_of_their_own(grouped):
    """On one axis intervals of means far from zero and of a difference are points."""
    pictures = section(grouped[REPORT], "groups").split("<figure>")[1:]
    assert len(pictures) == 2
    assert "odd - even" not in pictures[0]
    assert "odd - even" in pictures[1]


def test_a_picture_of_coefficients_leaves_out_the_intercept(grouped):
    pictures = section(grouped[REPORT], "slope").split("<figure>")[1:]
    assert len(pictures) == 1
    assert "Intercept" not in pictures[0]


def test_time_runs_from_left_to_right(grouped):
    (picture,) = section(grouped[REPORT], "trend").split("<figure>")[1:]
    points = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', picture)]
    assert len(points) == 3
    assert points == sorted(points)
    joined = re.findall(r'x1="([\d.]+)" x2="([\d.]+)"[^>]*stroke-opacity="0.6"', picture)
    assert [(float(a), float(b)) for a, b in joined] == [
        (points[0][0], points[1][0]), (points[1][0], points[2][0])
    ]  # fmt: skip


def test_people_of_private_groups_are_not_called_public(grouped):
    caption = grouped[REPORT].split("<caption><strong>groups</strong>")[1].split("</caption>")[0]
    assert re.search(r"n = [\d,]+ people \(noisy\)", caption)
    assert "n = 3,000 people (public)" in grouped[REPORT].split("<main>")[0]


def test_a_caution_says_what_it_means_and_where_it_is(grouped):
    cautions = grouped[REPORT].split("Cautions")[1].split("</section>")[0]
    (letter,) = re.findall(
        r"<strong>(\w) low precision</strong> \(groups\): The interval", cautions
    )
    assert f"<td>{letter}</td>" in grouped[REPORT].split("<h2>Results</h2>")[1]


def test_reports_have_no_retired_term(files, grouped):
    found = {f"{place} {name}": page for place, group in (("one", files), ("two", grouped))
             for name, page in group.items()}  # fmt: skip
    plain = [(name, unescape(re.sub("<[^>]+>", " ", page))) for name, page in found.items()]
    assert retired_terms(plain) == []


def test_the_card_has_every_field(files):
    card = files[ACCOUNTING].split("Release card")[1]
    for field in FIELDS:
        assert f"<th>{field}</th>" in card, field
    for word in ("the board", "panel", "ann", "one person with all records", "replace-one"):
        assert word in card


def test_a_card_has_no_other_fields():
    with pytest.raises(pm.ArgumentError, match="is not a field of the card"):
        made(colour="red")


@pytest.mark.parametrize("word", ["label", "unit", "note"])
def test_words_for_readers_are_text_and_change_no_run(word):
    study = pm.Study(pm.example("wages"), person="id", epsilon=1.0)
    with pytest.raises(pm.ArgumentError, match="is not text"):
        study.add("level", pm.Mean("hours"), **{word: 3})
    study.add("level", pm.Mean("hours"), **{word: "words"})
    study.add("other", pm.Mean("hours"))
    one, two = (repr(item) for item in study.questions.values())
    assert one == two.replace("'other'", "'level'")  # what a run in a folder is bound by


def test_the_shares_add_up_to_the_whole(files):
    table = files[REPORT].split("<h2>Budget and assumptions")[1].split("</table>")[0]
    shares = [float(item) for item in re.findall(r">([\d.]+)%<", table)]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_a_simulated_study_says_so_first(grouped):
    for page, end in ((grouped[REPORT], "<main>"), (grouped[ACCOUNTING], "<main>"),
                      (grouped[MARKDOWN], "## Answers")):  # fmt: skip
        assert "SIMULATED" in page.split(end)[0]


@pytest.mark.slow
def test_the_report_is_made_again_from_the_file(found, files):
    assert pages(stored_again(found), table="panel.csv by who", analyst="ann") == files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("report.html", {"accounting.html"}), ("wages.html", {"wages-accounting.html"}),
        ("wages-report.html", {"wages-accounting.html"}), ("report.md", set()),
    ],
)  # fmt: skip
def test_a_report_names_its_appendix(found, tmp_path, name, others):
    found.report(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {name, *others}
    for other in others:
        assert other in (tmp_path / name).read_text()


# --- in a browser ---------------------------------------------------------------------------------
def large(number):
    """A study of so many questions, with long tables, notes and cautions."""
    card = {
        "purpose": "Do women with a college degree earn more, and how did wages change? " * 2,
        "data": "a national survey of young women", "period": "1968 to 1988",
        "date": "as published", "contact": "data office, room 12",
    }  # fmt: skip
    table = pm.Table(pm.example("nlswork"), person="person_id")
    study = pm.Study(
        table, epsilon=8, delta=1e-6, name="Wages", card=card, noise=pm.SimulatedNoise(5)
    )
    keys, years = list(range(1, 13)), list(range(1968, 1990))
    formula = "ln_wage ~ collgrad + C(race, levels=[1, 2, 3]) + ttl_exp + tenure + union"
    several = ["7 - 6", "4 - 6", "11 - 6"]
    questions = {
        "level": pm.Mean("ln_wage"),
        "industries": pm.Mean("ln_wage", by="ind_code", keys=keys, contrasts=several),
        "years": pm.Curve("ln_wage", "year", bins=years),
        "quartiles": pm.Quantile("ln_wage", q=(0.1, 0.25, 0.5, 0.75, 0.9)),
        "returns": pm.Regression(formula),
        "time": pm.Mean("ln_wage", by="year", keys=years[:10]),
        "hours": pm.Mean("hours", by="collgrad", keys=[0, 1], contrasts=["1 - 0"]),
        "two columns": pm.Mean(["tenure", "ttl_exp"]),
        "spread": pm.Variance("hours"),
    }
    for name, question in list(questions.items())[:number]:
        note = "A remark for the readers of this question, of about one and a half lines."
        study.add(name, question, label="log wage", note=note)
    return pages(stored_again(study.release()), analyst="Ann Analyst")[REPORT]


def drawn(page, folder, *more):
    """The page in a headless browser, with what more it is asked for."""
    (folder / "report.html").write_text(page)
    command = [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", *more,
               f"file://{folder / 'report.html'}"]  # fmt: skip
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout.decode()


@pytest.mark.system
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_it_light_and_dark(tmp_path, text, dark):
    from matplotlib.image import imread

    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    drawn(
        text, tmp_path, *scheme, "--window-size=900,1400", f"--screenshot={tmp_path / 'shot.png'}"
    )
    picture = imread(tmp_path / "shot.png")[..., :3].mean(axis=2)
    ground = np.median(picture)
    assert (ground < 0.2) if dark else (ground > 0.9)
    assert (np.abs(picture - ground) > 0.4).mean() > 0.01  # something is written on it


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("number", [1, 4, 6, 9])
def test_it_prints_on_two_pages_of_a4(tmp_path, number):
    target = tmp_path / "report.pdf"
    drawn(large(number), tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={target}")
    boxes = re.findall(rb"/MediaBox\s*\[([\d. ]+)\]", target.read_bytes())
    assert len(boxes) == 2
    for box in boxes:
        _, _, width, height = (float(x) for x in box.split())
        assert (round(width), round(height)) == (595, 842)


@pytest.mark.slow
@pytest.mark.system
def test_nothing_leaves_the_screen_of_a_phone(tmp_path):
    """The widest right end of any element, written into the title by a script of the test."""
    frame = (
        "<iframe id=f width=400 height=900 style='border:0'></iframe><script>"
        "f.srcdoc=JSON.parse(document.getElementById('page').textContent);f.onload=()=>{"
        "document.title='right '+Math.max(...[...f.contentDocument.body.querySelectorAll('*')]"
        ".map(x=>Math.round(x.getBoundingClientRect().right)))+' end'}</script>"
    )
    page = json.dumps(large(9)).replace("<", "\\u003c")
    told = drawn(
        f'<script type="application/json" id=page>{page}</script>{frame}', tmp_path, "--dump-dom",
        "--virtual-time-budget=5000",
    )  # fmt: skip
    (right,) = re.findall(r"<title>right (\d+) end</title>", told)
    assert 300 < int(right) <= 400
