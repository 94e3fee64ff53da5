"""What 0.2 stored is read, verified and continued today: see stored_02/make.txt."""

import json
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from cli_runner import shell
from privmean.api.renamed_arguments import VALUES
from privmean.collector.store import Offer, Store
from privmean.inference.status import OLD_STATUSES
from privmean.local import Client, Ledger, ReportError, Round
from privmean.local.reports import decode, decode_json
from privmean.local.vectorized import randomize_many
from privmean.published import BandedInverse, Decaying
from privmean.streams import MeanStream, MeanToeplitz, WithholdRelease
from privmean.streams.strategies import Buffered

STORED = Path(__file__).parent / "stored_02"
EXPECTED = json.loads((STORED / "expected.json").read_text())
RELEASES = EXPECTED["releases"]
STUDY = STORED / "study"
QUICK = Buffered((0.25, 0.07), (0.6, 0.96))
STREAM = {
    "epsilon": 1.0, "delta": 1e-6, "max_participations": 5, "min_separation": 4, "steps": 200,
    "bounds": (0.0, 10.0), "strategy": QUICK,
}  # fmt: skip
WITHHELD = {
    "epsilon": 1.0, "delta": 1e-6, "max_records": 8, "persons": 50, "bounds": (0.0, 10.0),
    "strategy": QUICK,
}  # fmt: skip


def stored(name):
    return json.loads((STORED / f"{name}.json").read_text())


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_read_with_its_numbers_and_verified(name):
    text, expected = stored(name), RELEASES[name]
    assert bool(pm.verify(text)) == expected["verified"] == (name != "simulated")
    assert text == stored(name)
    found = pm.Release.from_dict(text)
    assert found.status == OLD_STATUSES.get(expected["status"], expected["status"])
    np.testing.assert_array_equal(np.ravel(found.estimate), expected["estimate"])
    if expected["lower"]:
        np.testing.assert_array_equal(found.interval().lower, expected["lower"])
        np.testing.assert_array_equal(found.interval().upper, expected["upper"])
    assert found.guarantee.verify()
    assert found.to_dict() == text
    assert found.summary()


@pytest.mark.parametrize("name", [name for name in RELEASES if name != "simulated"])
def test_a_changed_release_is_noticed(name):
    text = stored(name)
    text["guarantee"]["epsilon"] = text["guarantee"]["epsilon"] / 2
    assert not pm.verify(text)


def test_a_guarantee_is_read_and_verified():
    found = pm.Guarantee.from_dict(stored("guarantee"))
    assert found.verify()
    assert found.epsilon == 2.0
    assert found.neighbors == "replace-one"


def test_a_ledger_goes_on(tmp_path):
    path = tmp_path / "ledger"
    shutil.copy(STORED / "ledger", path)
    with pytest.warns(pm.PrivmeanWarning, match="0.2 with 2 charges was converted"):
        ledger = pm.Ledger.open(path)
    assert len(ledger.entries) == EXPECTED["ledger"]["entries"] == 2
    assert ledger.spent().to_dict() == EXPECTED["ledger"]["spent"]
    for name in ("mean", "bounded"):
        assert pm.verify(stored(name), ledger=ledger)
    given = {"bounds": (0, 10), "ledger": ledger}
    release = pm.mean(np.full(100, 5.0), epsilon=9.5, **given)
    assert pm.verify(release.to_dict(), ledger=pm.Ledger.open(path))
    assert len(pm.Ledger.open(path).entries) == 3
    with pytest.raises(pm.BudgetExceededError):
        pm.mean(np.full(100, 5.0), epsilon=9.5, **given)


@pytest.mark.parametrize(
    ("name", "kind", "given"),
    [("stream", MeanStream, STREAM), ("withheld", WithholdRelease, WITHHELD)],
)
def test_a_stream_resumes_with_equal_answers(tmp_path, name, kind, given):
    for file in (name, f"{name}.seen"):
        shutil.copy(STORED / file, tmp_path / file)
        (tmp_path / file).chmod(0o600)
    ids, values = np.arange(20) % 9, np.linspace(0, 10, 20)

    def check(items):
        stored = EXPECTED[name]
        for key in ("step", "estimate", "arrivals", "records"):
            assert [item.get(key) for item in items] == [item.get(key) for item in stored]
        sds = [item["noise_sd"] for item in items]  # their last digits depend on the processor
        assert sds == pytest.approx([item["noise_sd"] for item in stored], rel=1e-12)

    with kind(state=tmp_path / name, moved=True, **given) as stream:
        old = [item.to_dict() for item in stream.releases()]
        check(old)
        assert stream.arrivals == 60
        new = stream.extend(ids.tolist(), values)
        everything = [item.to_dict() for item in stream.releases()]
    assert len(new) > 0
    with kind(state=tmp_path / name, **given) as again:
        assert [item.to_dict() for item in again.releases()] == everything
        check(everything[: len(old)])


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("inverse", BandedInverse(MeanToeplitz(), 4)), ("decaying", Decaying(0.06)), ("damped", None)],
)
def test_streams_of_retired_strategies_go_on_by_their_stored_coefficients(tmp_path, name, strategy):
    settings = {**STREAM, "max_participations": 3, "steps": 40, "strategy": strategy}
    for file in (f"stream_{name}", f"stream_{name}.seen"):
        shutil.copy(STORED / file, tmp_path / file)
        (tmp_path / file).chmod(0o600)
    with MeanStream.resume(tmp_path / f"stream_{name}", moved=True) as stream:
        shown = [float(item.estimate[0]) for item in stream.releases()]
        assert shown == json.loads((STORED / "retired_strategies.json").read_text())[name]
        assert len(list(stream.extend([7, 8, 9], [1.0, 2.0, 3.0]))) == 3
    if strategy is not None:
        with MeanStream(state=tmp_path / f"stream_{name}", **settings) as again:
            assert again.plan.guarantee.verify()


@pytest.mark.slow
def test_a_collector_counts_the_same_reports_and_takes_more(tmp_path):
    for file in ("collector", "collector.seen"):
        shutil.copy(STORED / file, tmp_path)
    round_ = Round.from_dict(EXPECTED["collector"]["round"])
    address = f"sqlite:///{tmp_path / 'collector'}"
    for more in (0, 5):
        store = Store(address)
        store.register([round_])
        assert store.tally(round_).to_bytes().hex() == EXPECTED["collector"]["tally"]
        store.write([Offer(randomize_many(round_, np.full(more, 7.0), epsilon=1))])
        assert store.tally(round_).reports == EXPECTED["collector"]["reports"] + more
        store.close()


def test_a_collector_names_the_stored_round_of_a_retired_mechanism(tmp_path):
    for file in ("collector", "collector.seen"):
        shutil.copy(STORED / file, tmp_path)
    retired = json.loads((STORED / "retired_rounds.json").read_text())[0]["round"]
    with sqlite3.connect(tmp_path / "collector") as link:
        link.execute("update privmean_rounds set description = ?", [json.dumps(retired)])
    link.close()
    store = Store(f"sqlite:///{tmp_path / 'collector'}")
    with pytest.raises(pm.PrivmeanError, match=r"stored round [0-9a-f]{16}: mechanism='laplace'"):
        store.book.entries()
    store.close()


def test_an_old_copy_of_a_collector_s_file_is_refused(tmp_path):
    shutil.copy(STORED / "collector", tmp_path)
    identity, number, mark = (STORED / "collector.seen").read_text().split()
    later = f"{identity} {int(number) + 1:020d} {mark}\n"
    (tmp_path / "collector.seen").write_text(later)
    with pytest.raises(pm.PrivmeanError, match="old copy"):
        Store(f"sqlite:///{tmp_path / 'collector'}")


def test_a_client_ledger_sends_the_same_report_and_keeps_its_limit(tmp_path):
    for file in ("client_ledger", "client_ledger.seen"):
        shutil.copy(STORED / file, tmp_path / file)
        (tmp_path / file).chmod(0o600)
    round_ = Round.from_dict(stored("round"))
    ledger = Ledger(tmp_path / "client_ledger", limit=2, moved=True)
    assert ledger.spent() == Fraction(EXPECTED["client"]["spent"])
    sent = Client(epsilon=1, ledger=ledger).report(round_, 0.9)
    assert sent.hex() == EXPECTED["client"]["report"]
    assert ledger.spent() == Fraction(EXPECTED["client"]["spent"])


@pytest.mark.parametrize("path", [STUDY / "out" / "release.json", STORED / "shared.json"])
def test_a_study_release_is_read_and_verified(path):
    text = json.loads(path.read_text())
    assert pm.verify(text)
    assert pm.Guarantee.from_dict(text["guarantee"]).verify()
    for question in text["questions"]:
        found = pm.Release.from_dict(question["release"])
        assert found.guarantee.verify()
        assert found.to_dict() == question["release"]
    text["questions"][0]["release"]["estimate"][0] += 1
    assert not pm.verify(text)


@pytest.mark.filterwarnings("ignore:.*0.2 with 1 charges was converted")
def test_a_study_release_is_in_its_ledger(tmp_path):
    text = json.loads((STUDY / "out" / "release.json").read_text())
    shutil.copy(STUDY / "book", tmp_path / "book")
    assert pm.verify(text, ledger=pm.Ledger.open(tmp_path / "book"))


def test_shared_locations_of_a_study_are_read():
    text = stored("shared")
    assert [look["column"] for look in text["looks"]] == ["y"]
    text["looks"][0]["lines"].pop()
    assert not pm.verify(text)


def run_of(folder):
    """What a run in a copy of the stored folder says; no file is changed."""
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    found = shell("study", "run", "study.toml", "--out", "out", "--ledger", "book")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    return found


@pytest.fixture
def study_folder(tmp_path, monkeypatch):
    folder = tmp_path / "study"
    shutil.copytree(STUDY, folder)
    monkeypatch.chdir(folder)
    with pytest.warns(pm.PrivmeanWarning, match="was converted"):
        pm.Ledger.open(folder / "book").close()
    return folder


def test_a_finished_study_run_gives_its_result(study_folder):
    found = run_of(study_folder)
    assert found.exit_code == EXPECTED["study"]["exit"]
    assert "Finished before; nothing was drawn or charged again" in found.stdout
    file = study_folder / "study.toml"
    file.write_text(file.read_text().replace('"a page"', '"another"'))
    found = run_of(study_folder)
    assert found.exit_code == 2
    assert "holds the run of another study" in found.stderr


def test_a_study_run_that_was_stopped_is_not_mixed_with_one_of_today(study_folder):
    """Its questions and plan were written by the names of 0.2."""
    (study_folder / "out" / "release.json").unlink()
    found = run_of(study_folder)
    assert found.exit_code == 2
    assert "a run of privmean 0.2 was stopped here. End it with that version." in found.stderr


def test_an_old_key_is_not_read_in_place_of_one_of_today():
    made = pm.mean(np.arange(400.0), epsilon=1.0, bounds=(0, 400)).to_dict()
    assert pm.Release.from_dict(made | {"persons": 7}).n == made["n"] == 400
    two = made | {"guarantee": made["guarantee"] | {"relation": "add-remove"}}
    assert pm.Release.from_dict(two).guarantee.neighbors == "replace-one"


def test_rounds_and_reports_of_retired_mechanisms_are_refused_with_what_to_use():
    for kept in json.loads((STORED / "retired_rounds.json").read_text()):
        name = kept["round"]["mechanism"]
        said = VALUES["mechanism", name]
        with pytest.raises(pm.ArgumentError, match=f"mechanism='{name}'") as refused:
            Round.from_dict(kept["round"])
        assert said in str(refused.value)
        for read, report in (
            (decode, bytes.fromhex(kept["report"])),
            (decode_json, json.dumps({"version": 1, "mechanism": name, "round": "00" * 8,
                                      "nonce": "00" * 16, "level": 0, "payload": "00"})),
        ):  # fmt: skip
            with pytest.raises(ReportError, match="retired mechanism") as refused:
                read(report)
            assert said in str(refused.value)
