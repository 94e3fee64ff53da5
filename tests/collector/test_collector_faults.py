"""The collector among bad clients and bad databases: slow, oversized, gone, restarted."""

from __future__ import annotations

import asyncio
import json
import queue
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sql
from collector_server import SERVE, reports_of, serving
from fastapi import HTTPException

from privmean.collector import receive_reports as writer
from privmean.collector.receive_reports import Intake, Writer
from privmean.collector.request_limits import Addresses, Limits
from privmean.collector.store import Offer, Store
from privmean.errors import PrivmeanError
from privmean.local.aggregators.aggregator import Aggregator, ReportValidator
from privmean.local.aggregators.tally import tally
from privmean.local.clients import send
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many


def submit(thread, round_, batch, **options):
    data = batch.to_bytes()
    return thread.submit(
        round_.identifier, ReportValidator(round_).parse(data), len(data), **options
    )


class LostAnswer:
    """An engine whose next commit is done, but whose answer never arrives."""

    def __init__(self, engine):
        self.engine, self.lose = engine, False

    def __getattr__(self, name):
        return getattr(self.engine, name)

    @contextmanager
    def begin(self):
        with self.engine.begin() as link:
            yield link
        if self.lose:
            self.lose = False
            raise sql.exc.OperationalError("COMMIT", None, Exception("the server went away"))


@pytest.mark.slow
def test_a_commit_whose_answer_is_lost_leaves_every_report_in_the_tally(database):
    """Other reports follow before the same ones come again, and somebody reads in between."""
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = Store(database)
    store.register([round_])
    store.engine = LostAnswer(store.engine)
    reader = Store(database)
    first, second, third = (reports_of(round_, n) for n in (30, 20, 10))
    assert store.write([Offer(third)])[0].fresh.all()
    store.engine.lose = True
    with pytest.raises(sql.exc.OperationalError):
        store.write([Offer(first)])
    assert reader.tally(round_).reports == 40
    assert store.write([Offer(second)])[0].fresh.tolist() == [True] * 20
    assert not store.write([Offer(first)])[0].fresh.any()
    expected = tally(first).merge(tally(second)).merge(tally(third))
    store.checkpoint(round_)
    for other in (reader, store, Store(database)):
        assert other.tally(round_).to_bytes() == expected.to_bytes()
        other.close()


def test_clients_that_go_away_do_not_stop_the_writer(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_])
    thread = Writer(store, {round_.identifier: round_})
    gone = [submit(thread, round_, reports_of(round_, 5), light=light) for light in (True, False)]
    assert [future.cancel() for future in gone] == [True, True]
    waiting = submit(thread, round_, reports_of(round_, 7))
    thread.start()
    assert waiting.result(timeout=30).accepted == 7
    thread.stop()
    assert store.tally(round_).reports == 7
    store.close()


def test_what_waits_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "WAITING", 1000)
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_])
    thread = Writer(store, {round_.identifier: round_})
    batch = reports_of(round_, 10)
    futures = [submit(thread, round_, batch) for _ in range(2)]
    with pytest.raises(queue.Full):
        submit(thread, round_, batch)
    thread.start()
    assert [future.result(timeout=30).accepted for future in futures] == [10, 0]
    again = submit(thread, round_, batch)  # there is room again
    assert again.result(timeout=30).duplicate == 10
    thread.stop()
    store.close()


def _open(server, length, path):
    link = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    link.sendall(head.encode())
    return link


@pytest.mark.slow
def test_slow_oversized_and_broken_clients(tmp_path):
    """They get an answer or nothing, nobody else waits, and none of it counts."""
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    path = f"/rounds/{round_.identifier.hex()}/reports"
    database = f"sqlite:///{tmp_path}/r.db"
    with serving(tmp_path, [round_], database, "--penalty", 0.2) as server:
        slow = [_open(server, 43 * 5, path) for _ in range(20)]
        for link in slow:
            link.sendall(reports_of(round_, 2).to_bytes())
        huge = _open(server, 10**15, path)
        assert b" 413 " in huge.recv(100)  # before a byte of it came
        huge.close()
        for kind in ("", "text/plain", "application/json", "multipart/form-data", "x" * 3000):
            assert server.post(path, b"x", kind)[0] == 415
        kind = "application/octet-stream; charset=binary"
        assert json.loads(server.post(path, reports_of(round_, 3).to_bytes(), kind)[1]) == {
            "accepted": 3, "duplicate": 0, "rejected": {},
        }  # fmt: skip
        for link in slow:  # gone in the middle
            link.close()
        same = reports_of(round_, 40).to_bytes()
        with ThreadPoolExecutor(12) as pool:
            answers = pool.map(lambda _: server.post(path, same)[1], range(12))
        receipts = [json.loads(answer) for answer in answers]
        assert sum(item["accepted"] for item in receipts) == 40
        assert sum(item["duplicate"] for item in receipts) == 11 * 40
        assert server.get("/rounds/%00/estimate")[0] == 404
        assert server.post("/rounds", b"")[0] == 401  # nobody administers here
        found = json.loads(server.get(path.replace("reports", "estimate"))[1])
        assert (found["reports"], found["rejected"]) == (43, {})


@pytest.mark.slow
def test_a_body_that_is_slow_long_or_one_of_too_many_ends():
    limits = Limits(
        patience=0.2, pace=500, body=100, receiving=1000, heavy=500, flight=200, light=10
    )

    class Pieces:
        def __init__(self, pieces, pause=0.0, headers=()):
            self.pieces, self.pause, self.headers = pieces, pause, dict(headers)

        async def stream(self):
            for piece in self.pieces:
                yield piece
                await asyncio.sleep(self.pause)
            yield b""

    def status(request, others=0, mine=0):
        addresses = Addresses(limits)
        addresses.take("other", others)
        addresses.take("me", mine)
        taker, body = Intake({}, None, limits, addresses, None), bytearray()
        try:
            asyncio.run(taker._receive(request, "me", body))
            result = bytes(body)
        except HTTPException as error:
            result = error.status_code
        addresses.give_back("me", len(body) + mine)
        assert addresses.receiving == others
        taker.close()
        return result

    assert status(Pieces([b"ab", b"c"])) == b"abc"
    assert status(Pieces([b"ab", b"c"], pause=0.3)) == 408
    assert status(Pieces([b"x" * 20] * 5, pause=0.045)) == b"x" * 100  # it keeps the pace
    assert status(Pieces([b"x"] * 90, pause=0.02)) == 408
    assert status(Pieces([b"ab"] * 60)) == 413
    assert status(Pieces([], headers={"content-length": "101"})) == 413
    assert status(Pieces([b"ab"], headers={"content-length": "-1"})) == b"ab"
    assert status(Pieces([b"ab"]), others=1000) == 503
    assert status(Pieces([b"ab"]), others=900) == b"ab"  # room is kept for who brings little
    assert status(Pieces([b"ab" * 10]), others=900) == 503
    assert status(Pieces([b"ab" * 10]), mine=190) == 503


@pytest.mark.slow
@pytest.mark.system
def test_a_database_that_is_restarted(tmp_path, postgres_server):
    """PostgreSQL stops at once, twice, under load: 503, and then everything counts once."""
    round_ = mean_round(0, 10, epsilon=1, persons=100_000)
    path = f"/rounds/{round_.identifier.hex()}"
    work = [reports_of(round_, 25).to_bytes() for _ in range(60)]
    done: list[int] = []
    refused = []
    with serving(tmp_path, [round_], postgres_server.url) as server:

        def client(first):
            for k in range(first, len(work), 3):
                while True:
                    status, answer = server.post(path + "/reports", work[k])
                    if status == 200:
                        assert sum(json.loads(answer)[w] for w in ("accepted", "duplicate")) == 25
                        done.append(k)
                        break
                    refused.append(status)
                    time.sleep(0.02)

        threads = [threading.Thread(target=client, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for goal in (10, 30):
            while len(done) < goal:
                time.sleep(0.005)
            postgres_server.stop(signal.SIGQUIT)
            assert server.get(path + "/estimate")[0] == 503
            while goal == 10 and not refused:
                time.sleep(0.005)
            postgres_server.start()
        for thread in threads:
            thread.join()
        state = server.get(path + "/tally")[1]
        assert set(refused) == {503}
    offline = Aggregator(round_)
    for body in work:
        offline.add(body)
    assert state == offline.tally.to_bytes()


@pytest.mark.slow
def test_a_locked_database_is_waited_for(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        other = sqlite3.connect(tmp_path / "r.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        receipts = []
        data = reports_of(round_, 9).to_bytes()
        thread = threading.Thread(
            target=lambda: receipts.append(send.send(server.url, round_, data))
        )
        thread.start()
        time.sleep(0.5)
        assert receipts == []  # nothing is acknowledged
        path = f"/rounds/{round_.identifier.hex()}/estimate"
        assert json.loads(server.get(path)[1])["reports"] == 0  # and readers do not wait
        other.execute("COMMIT")
        other.close()
        thread.join()
        assert receipts == [{"accepted": 9, "duplicate": 0, "rejected": {}}]


@pytest.mark.slow
def test_many_processes_start_on_a_new_database(tmp_path):
    url = f"sqlite:///{tmp_path}/r.db"
    code = (
        "import sys\nfrom privmean.collector.store import Store\n"
        "from privmean.local.round_builders import mean_round\n"
        "sys.stdin.readline()\n"
        f"store = Store({url!r})\n"
        "store.register([mean_round(0, 1, epsilon=1, persons=9, seed=bytes(32))])\n"
        "print(store.writer)\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    writers = [process.communicate("\n", timeout=60)[0].strip() for process in running]
    assert sorted(writers) == ["1", "2", "3", "4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "url",
    [
        "nonsense", "mysql://u@h/d", "oracle:///x", "sqlite:////nowhere/x.db",
        "postgresql://u:secret@127.0.0.1:9/x", "postgresql+nodriver://u@h/x",
    ],
)  # fmt: skip
def test_a_database_that_does_not_work_is_said_in_words(tmp_path, url):
    round_ = mean_round(0, 1, epsilon=1, persons=9)
    (tmp_path / "r.json").write_text(round_.to_json())
    done = subprocess.run(
        [sys.executable, "-c", SERVE, "serve", "--public-results", "--database", url,
         "--round", str(tmp_path / "r.json"), "--port", "0"],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("privmean: the database")
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.slow
def test_a_domain_too_large_to_list_is_refused_in_words(tmp_path):
    round_ = items_round(2**40, epsilon=1, persons=100, mechanism="sketch")
    path = f"/rounds/{round_.identifier.hex()}"
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        reports = randomize_many(round_, np.arange(30), epsilon=1).to_bytes()
        assert send.send(server.url, round_, reports)["accepted"] == 30
        status, words = server.get(path + "/estimate")
        assert status == 422
        assert b"item_oracle" in words


@pytest.mark.parametrize(
    "body", [b"", b"[", b"7", b"[1]", b'[["a"]]', b"[" * 10**5, b"\xff", b"null"]
)
def test_a_server_that_answers_nonsense(body):
    """Whatever answers, the client says so in words."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            link, _ = listener.accept()
            link.recv(10_000)
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            link.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(PrivmeanError, match="answer"):
            send.fetch_rounds(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


@pytest.mark.parametrize(
    "server", ["127.0.0.1:9", "localhost", "file:///etc", "http://", "http://a b", "http://[::1"]
)
def test_addresses_that_are_none(server):
    round_ = mean_round(0, 1, epsilon=1, persons=9)
    with pytest.raises(PrivmeanError):
        send.fetch_rounds(server)
    with pytest.raises(PrivmeanError):
        send.fetch_round(server, "00" * 8)
    with pytest.raises(PrivmeanError):
        send.send(server, round_, b"", attempts=1)
