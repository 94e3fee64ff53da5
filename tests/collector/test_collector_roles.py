"""Who may do what at a collector, rounds that begin and end while it runs, and what is logged."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing

import numpy as np
import pytest
from collector_server import ADMIN, READER, TOKENS, reports_of, serving

from cli_runner import shell
from privmean.collector.collector_parts import Log, Metrics, Roles
from privmean.collector.store import Offer, Store
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.aggregator import ReportValidator
from privmean.local.aggregators.tally import Tally, tally
from privmean.local.clients import send
from privmean.local.clients.client import randomize
from privmean.local.reports import Ticket, ticket_key
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# -- tokens


def test_tokens_are_kept_as_digests_and_compared_whole():
    roles = Roles.of([ADMIN], [READER, READER + "2"])
    assert roles.administrator(f"Bearer {ADMIN}").startswith("admin ")
    assert roles.administrator(f"bearer {ADMIN}") == roles.administrator(f"Bearer {ADMIN}")
    for wrong in ("", ADMIN, f"Basic {ADMIN}", f"Bearer {ADMIN}x", f"Bearer {READER}", "Bearer é"):
        assert roles.administrator(wrong) == ""
    assert roles.reader(f"Bearer {READER}") != roles.reader(f"Bearer {READER}2") != ""
    assert roles.reader(f"Bearer {ADMIN}").startswith("admin ")
    assert roles.reader("Bearer nobody-s-long-token") == ""
    assert Roles.of(public=True).reader("") == "anybody"
    assert Roles.of(public=True).administrator("Bearer ") == ""
    for text in (repr(roles), roles.administrator(f"Bearer {ADMIN}")):
        assert ADMIN not in text
        assert READER not in text
    for bad in ("tiny", "with a space in it, long", "nö" * 20):
        with pytest.raises(ArgumentError) as caught:
            Roles.of([bad])
        assert bad not in str(caught.value)


@pytest.mark.slow
def test_what_each_role_may_do(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    later = items_round(4, epsilon=1, persons=1000, title="later")
    one = f"/rounds/{round_.identifier.hex()}"
    body = later.to_json().encode()
    database = f"sqlite:///{tmp_path}/r.db"
    with serving(
        tmp_path, [round_], database, "--penalty", 0.05, public=False, env=TOKENS
    ) as server:
        for path in ("/", "/healthz", "/rounds", one, "/page.js", "/page.css"):
            assert server.ask("GET", path)[0] == 200, path
        sent = reports_of(round_, 50).to_bytes()
        assert send.send(server.url, round_, sent)["accepted"] == 50
        for path in ("/estimate", "/tally", "/history"):
            assert server.ask("GET", one + path)[0] == 401
            assert server.ask("GET", one + path, token="no-one-s-long-token")[0] == 401
            assert server.ask("GET", one + path, token=READER)[0] == 200
            assert server.ask("GET", one + path, token=ADMIN)[0] == 200
        assert server.ask("GET", "/metrics")[0] == 401
        for token in ("", READER):
            assert server.ask("POST", "/rounds", body, token)[0] == 401
            assert server.ask("POST", one + "/close", token=token)[0] == 401
            assert server.ask("DELETE", one, token=token)[0] == 401
            assert server.ask("GET", "/audit", token=token)[0] == 401
        assert server.ask("POST", "/rounds", b"{}", ADMIN)[0] == 422
        assert server.ask("POST", one + "/revoked", b'{"nonces": []}', ADMIN)[0] == 409
        # a round begins while the service runs
        status, answer = server.ask("POST", "/rounds", body, ADMIN)
        assert (status, json.loads(answer)["digest"]) == (201, later.digest.hex())
        items = randomize_many(later, np.arange(40) % 4, epsilon=1).to_bytes()
        assert send.send(server.url, later, items)["accepted"] == 40
        # and ends: reports come late, results stay
        assert json.loads(server.ask("POST", one + "/close", token=ADMIN)[1])["changed"]
        states = {item["round"]: item["state"] for item in send.fetch_rounds(server.url)}
        assert states == {round_.identifier.hex(): "closed", later.identifier.hex(): "open"}
        more = reports_of(round_, 7).to_bytes()
        assert send.send(server.url, round_, more)["rejected"] == {"late": 7}
        before = Tally.from_bytes(round_, server.ask("GET", one + "/tally", token=READER)[1])
        assert (before.reports, before.rejected) == (50, {"late": 7})
        # the reports go, the tally stays, byte for byte
        assert json.loads(server.ask("POST", one + "/forget", token=ADMIN)[1])["changed"]
        assert send.send(server.url, round_, sent)["rejected"] == {"late": 50}
        after = server.ask("GET", one + "/tally", token=READER)[1]
        assert after == before.to_bytes()
        # and then everything goes, for good
        assert json.loads(server.ask("DELETE", one, token=ADMIN)[1])["changed"]
        for path in ("", "/estimate", "/tally"):
            assert server.ask("GET", one + path, token=READER)[0] == 410
        with pytest.raises(PrivmeanError, match="410"):
            send.send(server.url, round_, sent)
        assert server.ask("POST", "/rounds", round_.to_json().encode(), ADMIN)[0] == 410
        log = json.loads(server.ask("GET", "/audit", token=ADMIN)[1])
        assert [line["action"] for line in log] == [
            "delete", "forget", "close", "open", "open",
        ]  # fmt: skip
        assert {line["who"] for line in log[:4]} == {
            Roles.of([ADMIN]).administrator("Bearer " + ADMIN)
        }
        assert log[-1]["who"] == "command line"
        assert log[1]["detail"] == "50 reports"
    # a restart with the same command does not bring it back
    with serving(tmp_path, [round_], database, public=False, env=TOKENS) as server:
        assert [item["round"] for item in send.fetch_rounds(server.url)] == [later.identifier.hex()]
        items = json.loads(
            server.ask("GET", f"/rounds/{later.identifier.hex()}/estimate", token=READER)[1]
        )
        assert items["reports"] == 40


def test_a_service_says_who_may_read(tmp_path):
    """Public results are a choice, and so is anybody's administration."""
    path = tmp_path / "r.json"
    path.write_text(mean_round(0, 1, epsilon=1, persons=9).to_json())
    (tmp_path / "token").write_text("short\n")
    for options, env, words in (
        (["--round", str(path)], {}, "results must have readers"),
        (["--public-results"], {}, "rounds are required"),
        (
            ["--round", str(path), "--read-token-file", str(tmp_path / "token")],
            {},
            "must have at least 16",
        ),
        (["--round", str(path), "--read-token-file", str(tmp_path / "token")],
         {"PRIVMEAN_READ_TOKEN": READER}, "cannot be combined with a token file"),
        (["--round", str(path), "--public-results", "--keyfile", str(path)], {}, "certificate"),
        (["--round", str(path), "--public-results", "--certfile", str(path)], {}, "PEM"),
    ):  # fmt: skip
        found = shell("collect", "serve", *options, env=env)
        assert found.exit_code == 2
        assert words in found.output
        assert READER not in found.output
        assert "short\n" not in found.output


# -- rounds in the store


@pytest.mark.slow
def test_close_forget_and_delete_on_every_database(database):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    first, second = Store(database), Store(database)
    first.register([round_])
    batch = reports_of(round_, 300)
    first.write([Offer(batch.take(slice(0, 200)))])
    second.write([Offer(batch.take(slice(200, 300)))])
    key = round_.identifier
    assert not first.book.forget(round_, "test")  # open: nothing goes
    assert first.book.close(key, "test")
    assert not second.book.close(key, "test")
    outcome = second.write([Offer(reports_of(round_, 5))])[0]
    assert outcome.late.all()
    assert not outcome.fresh.any()
    whole = second.tally(round_)
    assert (whole.reports, whole.rejected) == (300, {"late": 5})
    assert first.book.forget(round_, "test")
    assert first.tally(round_).to_bytes() == whole.to_bytes()
    assert second.tally(round_).to_bytes() == whole.to_bytes()  # it knew the reports
    first.checkpoint(round_)
    second.write([Offer(batch.take(slice(0, 9)))])
    third = Store(database)
    assert third.tally(round_).to_bytes() == whole.to_bytes()
    assert third.book.entries()[0][key].state == "tally only"
    assert third.book.delete(key, "test")
    assert not first.book.delete(key, "test")
    assert key not in first.book.entries()[0]
    assert key in first.book.entries()[1]
    assert first.register([round_]) == []
    first.write([Offer(batch)])
    assert first.tally(round_).reports == 0
    for store in (first, second, third):
        store.close()


def test_a_failure_in_the_middle_of_forgetting_forgets_nothing(database, monkeypatch):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = Store(database)
    store.register([round_])
    store.write([Offer(reports_of(round_, 60))])
    store.book.close(round_.identifier, "test")
    real = store.book._clear

    def failing(link, key):
        real(link, key)
        raise InterruptedError

    monkeypatch.setattr(store.book, "_clear", failing)
    for work in (lambda: store.book.forget(round_, "test"),
                 lambda: store.book.delete(round_.identifier, "test")):  # fmt: skip
        with pytest.raises(InterruptedError):
            work()
        fresh = Store(database)
        assert fresh.book.entries()[0][round_.identifier].state == "closed"
        assert fresh.tally(round_).reports == store.tally(round_).reports == 60
        assert fresh.book.audit()[0]["action"] == "close"
        fresh.close()
    store.close()


def test_deleted_reports_are_gone_from_the_file(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_])
    batch = reports_of(round_, 100)
    store.write([Offer(batch)])
    nonce = batch.nonces[50].astype("<u8").tobytes()
    assert nonce in (tmp_path / "r.db").read_bytes()
    store.book.close(round_.identifier, "test")
    store.book.forget(round_, "test")
    assert nonce not in (tmp_path / "r.db").read_bytes()
    store.close()
    again = Store(f"sqlite:///{tmp_path}/r.db")
    assert again.tally(round_).reports == 100
    again.close()


def test_rounds_close_and_go_in_time(database):
    soon = mean_round(0, 10, epsilon=1, persons=1000, closes=1000)
    open_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = Store(database)
    store.register([soon, open_])
    store.write([Offer(reports_of(soon, 20)), Offer(reports_of(open_, 20))])
    state = lambda: {  # noqa: E731
        key: entry.state for key, entry in store.book.entries()[0].items()
        if key in (soon.identifier, open_.identifier)
    }  # fmt: skip
    expire = lambda now: store.book.expire(now, forget=10.0, delete=100.0)  # noqa: E731
    assert soon.identifier not in expire(1000.0)
    assert soon.identifier in expire(1001.0)
    assert state() == {soon.identifier: "closed", open_.identifier: "open"}
    assert soon.identifier in expire(1011.0)
    assert state()[soon.identifier] == "tally only"
    assert store.tally(soon).reports == 20
    assert soon.identifier in expire(1101.0)
    assert state() == {open_.identifier: "open"}
    who = [(line["action"], line["who"]) for line in store.book.audit()][:3]
    assert who == [("delete", "retention"), ("forget", "retention"), ("close", "deadline")]
    store.close()


def test_revoked_tickets_bring_nothing(database):
    secret = bytes(range(32))
    round_ = mean_round(0, 10, epsilon=1, persons=1000, issued=True)
    store = Store(database)
    store.register([round_])
    held = []
    for k in range(6):
        nonce = bytes([k]) * 16
        held.append(
            Ticket(round_.identifier, nonce, 0, ticket_key(secret, round_.identifier, nonce, 0))
        )
    made = [randomize(round_, 3.0, epsilon=1, ticket=ticket) for ticket in held]
    gate = ReportValidator(round_, secret=secret)
    assert store.write([Offer(gate.parse(b"".join(made[:2])).batch)])[0].fresh.all()
    assert store.book.revoke(round_.identifier, [t.nonce for t in held[1:4]], "test") == 3
    assert store.book.revoke(round_.identifier, [held[1].nonce], "test") == 0
    outcome = store.write([Offer(gate.parse(b"".join(made)).batch)])[0]
    assert outcome.revoked.tolist() == [False, True, True, True, False, False]
    assert outcome.fresh.tolist() == [False] * 4 + [True] * 2
    found = store.tally(round_)
    assert (found.reports, found.rejected) == (4, {"revoked": 3})
    fresh = Store(database)
    assert fresh.tally(round_).to_bytes() == found.to_bytes()
    fresh.close()
    store.close()


@pytest.mark.slow
def test_a_round_that_another_collector_opened_is_served(tmp_path, database):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    later = mean_round(0, 20, epsilon=1, persons=1000)
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with (
        serving(folders[0], [round_], database, "--penalty", 0.05, env=TOKENS) as first,
        serving(folders[1], [round_], database, env=TOKENS) as second,
    ):
        # neither has a secret: such a round is not offered here, and one that a process with the
        # secret offered is not answered with "not issued", which would be for good
        issued = mean_round(0, 20, epsilon=1, persons=1000, issued=True)
        status, said = first.ask("POST", "/rounds", issued.to_json().encode(), ADMIN)
        assert (status, b"accepts only reports with tickets" in said) == (422, True)
        with closing(Store(database)) as other:
            other.register([issued])
        until(lambda: first.ask("GET", f"/rounds/{issued.identifier.hex()}")[0] == 200)
        with pytest.raises(send.NotSent) as kept:
            send.send(first.url, issued, b"LD" * 40, attempts=1)
        assert (kept.value.status, kept.value.kept) == (503, True)
        assert first.ask("POST", "/rounds", later.to_json().encode(), ADMIN)[0] == 201
        place = f"/rounds/{later.identifier.hex()}"
        until(lambda: second.ask("GET", place)[0] == 200)
        batch = reports_of(later, 60)
        for server, part in ((first, slice(0, 20)), (second, slice(20, 60))):
            assert send.send(server.url, later, batch.take(part).to_bytes())["rejected"] == {}
        for server in (first, second):
            assert server.ask("GET", place + "/tally")[1] == tally(batch).to_bytes()
        # closed at one, no other stores anything any more
        assert second.ask("POST", place + "/close", token=ADMIN)[0] == 200
        late = reports_of(later, 5).to_bytes()
        assert send.send(first.url, later, late)["rejected"] == {"late": 5}


# -- what a service says of itself


def test_metrics_count_in_the_text_format():
    metrics = Metrics()
    metrics.add("privmean_reports_total", 3, outcome="accepted")
    metrics.add("privmean_reports_total", outcome='odd "\n\\')
    text = metrics.text(lambda: [("privmean_rounds", {"state": "open"}, 2)])
    lines = text.splitlines()
    assert "# TYPE privmean_reports_total counter" in lines
    assert 'privmean_reports_total{outcome="accepted"} 3' in lines
    assert r'privmean_reports_total{outcome="odd \"\n\\"} 1' in lines
    assert 'privmean_rounds{state="open"} 2' in lines
    for line in lines:
        assert re.fullmatch(r"#.*|[a-z_]+(\{[a-z]+=\".*\"\})? [-+.e0-9]+", line), line


@pytest.mark.slow
def test_logs_and_metrics_hold_nothing_of_a_report(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000, title="Hours")
    one = f"/rounds/{round_.identifier.hex()}"
    batch = reports_of(round_, 30)
    secret_words = [item.tobytes().hex() for item in batch.nonces]
    with (tmp_path / "log").open("w") as log:
        options = ("--log", "requests", "--penalty", 0.05)
        with serving(
            tmp_path, [round_], f"sqlite:///{tmp_path}/r.db", *options, env=TOKENS, log=log
        ) as server:
            send.send(server.url, round_, batch.to_bytes() + b"x")
            assert server.ask("GET", one + "/estimate?weights=uniform&secret=word")[0] == 422
            assert server.ask("GET", one + "/estimate?weights=uniform")[0] == 200
            assert server.ask("GET", "/nowhere/secret-word")[0] == 404
            assert server.ask("GET", "/audit", token="a-wrong-and-long-token")[0] == 401
            assert server.ask("POST", one + "/close", token=ADMIN)[0] == 200
            text = server.ask("GET", "/metrics")[1].decode()
            server.process.send_signal(0)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "request"] == [
        "started", "close", "stopped",
    ]  # fmt: skip
    requests = [(line["method"], line["route"], line["status"]) for line in lines
                if line["event"] == "request"]  # fmt: skip
    assert requests == [
        ("POST", "/rounds/{round_id}/reports", 200),
        ("GET", "/rounds/{round_id}/estimate", 422),
        ("GET", "/rounds/{round_id}/estimate", 200),
        ("GET", "other", 404),
        ("GET", "/audit", 401),
        ("POST", "/rounds/{round_id}/close", 200),
        ("GET", "/metrics", 200),
    ]
    whole = text + (tmp_path / "log").read_text()
    private = ("secret", "word", "127.0.0.1", ADMIN, READER, "wrong-and", "uniform")
    for word in (*secret_words, *private):
        assert word not in whole, word
    assert 'privmean_reports_total{outcome="accepted"} 30' in text
    assert 'privmean_reports_total{outcome="truncated"} 1' in text
    assert 'privmean_rounds{state="closed"} 1' in text
    assert 'route="/rounds/{round_id}/reports",status="200"} 1' in text


def test_a_log_with_addresses_is_asked_for(tmp_path, capsys):
    log = Log("requests", addresses=True)
    log.request(status=200, address="x")
    Log("actions").request(status=200)
    Log("none").action("started")
    assert json.loads(capsys.readouterr().err)["address"] == "x"


@pytest.mark.slow
def test_pages_of_another_origin_may_report_where_that_is_said(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    path = f"/rounds/{round_.identifier.hex()}/reports"
    other = "https://127.0.0.1:1"
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db", "--origin", other) as server:
        for origin, allowed in ((other, other), ("https://127.0.0.1:2", None)):
            with closing(server.link()) as link:
                headers = {"Origin": origin, "Content-Type": "application/octet-stream"}
                link.request("POST", path, reports_of(round_, 3).to_bytes(), headers)
                answer = link.getresponse()
                answer.read()
                assert answer.status == 200
                assert answer.getheader("access-control-allow-origin") == allowed
        assert json.loads(server.ask("GET", "/healthz")[1]) == {"status": "ok"}


@pytest.mark.slow
@pytest.mark.system
def test_health_follows_the_database(tmp_path, postgres_server):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    with serving(tmp_path, [round_], postgres_server.url) as server:
        assert server.ask("GET", "/healthz")[0] == 200
        postgres_server.stop()
        try:
            until(lambda: server.ask("GET", "/healthz")[0] == 503)
        finally:
            postgres_server.start()
        until(lambda: server.ask("GET", "/healthz")[0] == 200)
