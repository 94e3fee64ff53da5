"""Sending again with growing pauses, in batches, and what waits while there is no network."""

from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collector.collector_server import serving
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local import Client, Ledger, Outbox, mean_round
from privmean.local.clients import send

ROUND = mean_round(0, 1, epsilon=1, persons=100, seed=b"5" * 32)
TAKEN = (200, {}, {"accepted": 1, "duplicate": 0, "rejected": {}})


@contextmanager
def server(*answers):
    """Answers as told: (status, headers, body) or a function of the body; keeps what came."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, body))
            answer = answers[min(len(seen), len(answers)) - 1]
            if answer is None:
                self.close_connection = True
                return
            status, headers, said = answer(body) if callable(answer) else answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}", seen
        made.shutdown()
        thread.join()


@pytest.fixture
def pauses(monkeypatch):
    result = []
    monkeypatch.setattr(send.time, "sleep", result.append)
    return result


@pytest.mark.slow
def test_the_same_bytes_go_again_with_growing_pauses(pauses):
    answers = [None, (503, {}, {}), (429, {"Retry-After": "9"}, {}), (200, {}, "?"), TAKEN]
    with server(*answers) as (url, seen):
        assert send.send(url, ROUND, b"x" * 43)["accepted"] == 1
    path = f"/rounds/{ROUND.identifier.hex()}/reports"
    assert seen == [(path, b"x" * 43)] * 5
    assert pauses[2] == 9
    for attempt in (0, 1, 3):
        assert 0.125 * 2**attempt <= pauses[attempt] <= 0.25 * 2**attempt


def test_pauses_end_at_a_minute_and_believe_no_nonsense():
    assert all(4 <= send.pause(30) <= 8 for _ in range(50))
    assert len({send.pause(30) for _ in range(50)}) > 40  # clients do not come at once
    assert send.pause(0, "100000") == 60
    for odd in ("-5", "1e9", "tomorrow", "", "9" * 9):
        assert send.pause(0, odd) <= 0.25


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        {},
        [],
        1,
        "ok",
        {"accepted": 1},
        {**TAKEN[2], "accepted": "1"},
        {**TAKEN[2], "duplicate": None},
        {**TAKEN[2], "rejected": 0},
        {**TAKEN[2], "rejected": {"late": "many"}},
    ],
)
def test_what_is_no_receipt_has_taken_nothing(tmp_path, pauses, odd):
    outbox = Outbox(tmp_path / "out.db")
    with server((200, {}, odd)) as (url, _):
        with pytest.raises(send.NotSent) as caught:
            send.send(url, ROUND, b"x" * 43, attempts=2)
        assert caught.value.kept
        outbox.put(url, ROUND, b"x" * 43)
        assert outbox.flush(attempts=1)["waiting"] == len(outbox) == 1


@pytest.mark.slow
def test_a_refusal_for_good_is_said_at_once(pauses):
    with server((415, {}, {})) as (url, seen), pytest.raises(send.NotSent) as caught:
        send.send(url, ROUND, b"x")
    assert (caught.value.status, caught.value.kept, len(seen), pauses) == (415, False, 1, [])


@pytest.mark.slow
def test_many_reports_go_in_bodies_that_fit(pauses):
    reports = [bytes([k]) * 43 for k in range(100)]
    assert [len(batch) for batch in send.batches(reports, 43 * 30)] == [30, 30, 30, 10]
    assert list(send.batches([])) == []

    def small(body):
        counts = {"accepted": len(body) // 43 - 1, "duplicate": 1, "rejected": {"late": 1}}
        return (413, {}, {}) if len(body) > 500 else (200, {}, counts)

    with server(small) as (url, seen):
        total = send.send_many(url, ROUND, iter(reports))
    taken = [body for _, body in seen if len(body) <= 500]
    assert b"".join(taken) == b"".join(reports)
    number = len(taken)
    assert total == {
        "accepted": 100 - number,
        "duplicate": number,
        "rejected": {"late": number},
    }


@pytest.mark.slow
def test_an_outbox_keeps_what_found_no_answer(tmp_path, pauses):
    path = tmp_path / "out.db"
    with server(None, (503, {}, {}), TAKEN) as (url, seen), server((404, {}, {})) as (gone, _):
        for report in (b"a" * 43, b"a" * 43, b"b" * 43):
            Outbox(path).put(url, ROUND, report)
        Outbox(path).put(gone, ROUND, b"a" * 43)
        assert len(Outbox(path)) == 3
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        first = Outbox(path).flush(attempts=2)
        assert (first["accepted"], first["waiting"], len(first["problems"])) == (0, 2, 2)
        assert len(Outbox(path)) == 2  # the round that is no more is given up
        second = Outbox(path).flush(attempts=2)
        assert (second["accepted"], second["waiting"], second["problems"]) == (1, 0, [])
        assert len(Outbox(path)) == 0
        assert {len(body) for _, body in seen} == {86}  # both in one request


@pytest.mark.slow
def test_a_queue_made_offline_is_counted_once(tmp_path):
    """Many threads put and flush; a collector that comes later counts each report once."""
    rounds = [mean_round(0, 1, epsilon=1, persons=100, title=str(k)) for k in range(3)]
    path = tmp_path / "out.db"
    with serving(tmp_path, rounds, f"sqlite:///{tmp_path}/r.db") as collector:
        url = collector.url

        def person(k):
            client = Client(epsilon=1, ledger=Ledger(":memory:", limit=3))
            for round_ in rounds:
                Outbox(path).put(url, round_, client.report(round_, k / 10))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(person, range(10)))
        assert len(Outbox(path)) == 30
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda _: Outbox(path).flush(), range(3)))
        assert sum(item["accepted"] for item in found) == 30
        assert [item["problems"] for item in found] == [[], [], []]
        assert len(Outbox(path)) == 0


def test_what_is_no_outbox_is_refused_in_words(tmp_path):
    (tmp_path / "text").write_text("this is no database, and longer than a header" * 50)
    with pytest.raises(PrivmeanError, match="outbox"):
        Outbox(tmp_path / "text")
    with pytest.raises(PrivmeanError, match="outbox"):
        Outbox(tmp_path / "no folder" / "out.db")
    box = Outbox(tmp_path / "out.db")
    with pytest.raises(ArgumentError):
        box.put("no address", ROUND, b"x")
    assert len(box) == 0
