"""The web service: durable, idempotent, on SQLite and on a real PostgreSQL, seen in a browser."""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from collector_server import reports_of, serving

from privmean.collector.store import Offer, Store
from privmean.errors import PrivmeanError
from privmean.local.aggregators.aggregator import Aggregator
from privmean.local.aggregators.tally import Tally, tally
from privmean.local.clients import send
from privmean.local.reports import decode
from privmean.local.round_builders import items_round, mean_round


def offer(batch):
    return [Offer(batch)]


@pytest.mark.slow
def test_a_store_keeps_the_first_report_of_a_nonce(database):
    round_ = mean_round(0, 10, epsilon=[1, 2], persons=1000)
    store = Store(database)
    store.register([round_])
    store.register([round_])
    assert round_.identifier in store.book.entries()[0]
    batch = reports_of(round_, 300)
    assert store.write(offer(batch))[0].fresh.all()
    assert not store.write(offer(batch))[0].fresh.any()
    assert not store.write(offer(batch))[0].conflict.any()
    payload = batch.payload.copy()
    payload[:7] ^= 1
    changed = type(batch)(round_, batch.nonces, batch.levels, payload)
    outcome = store.write(offer(changed))[0]
    assert outcome.conflict.sum() == 7
    assert not outcome.fresh.any()
    # a stream that repeats itself, in one transaction with another one
    more = reports_of(round_, 20)
    twice = more.take(np.r_[0:20, 0:20])
    outcomes = store.write([Offer(twice), Offer(more)])
    assert outcomes[0].fresh.tolist() == [True] * 20 + [False] * 20
    assert not outcomes[1].fresh.any()
    expected = tally(batch).merge(tally(more))
    expected.rejected = store.tally(round_).rejected
    assert store.tally(round_).to_bytes() == expected.to_bytes()
    assert expected.rejected == {"conflict": 7}
    # another process sees the same, before and after a stored tally, and writes beside it
    store.checkpoint(round_)
    store.checkpoint(round_)
    extra = reports_of(round_, 50)
    store.write(offer(extra))
    second = Store(database)
    assert second.tally(round_).to_bytes() == store.tally(round_).to_bytes()
    last = reports_of(round_, 30)
    assert second.write(offer(last))[0].fresh.all()
    assert not store.write(offer(last))[0].fresh.any()
    second.checkpoint(round_)
    total = expected.merge(tally(extra)).merge(tally(last))
    assert store.tally(round_).to_bytes() == total.to_bytes()
    assert second.tally(round_).to_bytes() == total.to_bytes()
    store.close()
    second.close()


def test_two_writers_racing_for_the_same_nonces(database):
    round_ = mean_round(0, 10, epsilon=1, persons=1000)
    stores = [Store(database), Store(database)]
    stores[0].register([round_])
    batches = [reports_of(round_, 40) for _ in range(6)]

    def written(store, batch):
        while True:
            try:
                return int(store.write(offer(batch))[0].fresh.sum())
            except Exception:
                time.sleep(0.01)  # a deadlock was resolved against us: nothing was stored

    with ThreadPoolExecutor(2) as pool:
        fresh = pool.map(lambda store: [written(store, batch) for batch in batches], stores)
    assert sum(map(sum, fresh)) == 240
    whole = Tally.empty(round_)
    for batch in batches:
        whole = whole.merge(tally(batch))
    for store in stores:
        assert store.tally(round_).to_bytes() == whole.to_bytes()
        store.close()


@pytest.mark.slow
def test_the_service_from_outside(tmp_path, database):
    round_ = mean_round(0, 10, epsilon=[0.5, 1], persons=1000, title="Hours of sleep")
    other = items_round(10, epsilon=1, persons=1000)
    with serving(tmp_path, [round_, other], database, "--penalty", 0.2) as server:
        path = f"/rounds/{round_.identifier.hex()}"
        listed = {item["round"]: item for item in send.fetch_rounds(server.url)}
        assert listed[round_.identifier.hex()]["digest"] == round_.digest.hex()
        assert send.fetch_round(server.url, round_.identifier.hex()) == round_
        reports = reports_of(round_, 500).to_bytes()
        assert send.send(server.url, round_, reports)["accepted"] == 500
        receipt = send.send(server.url, round_, reports + b"rubbish" + reports[:43])
        assert receipt == {"accepted": 0, "duplicate": 501, "rejected": {"truncated": 1}}
        line = decode(reports_of(round_, 1).to_bytes()).to_json().encode()
        status, answer = server.post(path + "/reports", line, "application/x-ndjson")
        assert (status, json.loads(answer)["accepted"]) == (200, 1)
        assert server.post(path + "/reports", b"", "text/plain")[0] == 415
        with pytest.raises(PrivmeanError, match="Send fewer"):
            send.send(server.url, round_, bytes((1 << 22) + 1))
        odd = server.post(path + "/reports", bytes(3 << 20))  # one piece, however long
        assert json.loads(odd[1])["rejected"] == {"not a report": 1}
        assert server.post("/rounds/00/reports", b"")[0] == 404
        assert server.get("/rounds/xyz/estimate")[0] == 404
        found = json.loads(server.get(path + "/estimate")[1])
        assert (found["reports"], found["rejected"]) == (501, {"truncated": 1, "not a report": 1})
        assert found["raw"][0] == pytest.approx(7, abs=5 * found["spread"][0])
        state = Tally.from_bytes(round_, server.get(path + "/tally")[1])
        offline = Aggregator(round_)
        offline.add(reports)
        offline.add(line, json_lines=True)
        offline.add(b"rubbish")
        offline.add(bytes(100))
        assert state.to_bytes() == offline.tally.to_bytes()
        items = reports_of(other, 100).to_bytes()
        assert send.send(server.url, other, items)["accepted"] == 100
        shares = json.loads(server.get(f"/rounds/{other.identifier.hex()}/estimate")[1])
        assert sum(shares["value"]) == pytest.approx(1)
        # a wrong round's reports go nowhere
        some = reports[: 43 * 100]
        assert send.send(server.url, other, some)["rejected"] == {"wrong round": 100}
        with pytest.raises(PrivmeanError, match="refuses the request"):
            send.send(server.url, other, reports)
    with pytest.raises(PrivmeanError):
        send.send(server.url, round_, reports, attempts=1)
    with pytest.raises(PrivmeanError):
        send.fetch_rounds(server.url)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_counts_twice(tmp_path, database):
    """Clients send at once and repeat what was not acknowledged; the server dies in between."""
    round_ = mean_round(0, 10, epsilon=1, persons=100_000)
    clients, batches, size, kills = 6, 30, 25, 1
    work = [[reports_of(round_, size).to_bytes() for _ in range(batches)] for _ in range(clients)]
    path = f"/rounds/{round_.identifier.hex()}"
    acknowledged: list[list[int]] = [[] for _ in range(clients)]
    errors = [0] * clients
    with serving(tmp_path, [round_], database) as server:

        def client(k):
            link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            for j, body in enumerate(work[k]):
                while True:
                    try:
                        link.request(
                            "POST", path + "/reports", body,
                            {"Content-Type": "application/octet-stream"},
                        )  # fmt: skip
                        answer = link.getresponse()
                        receipt = json.loads(answer.read())
                        assert answer.status == 200
                        assert receipt["accepted"] + receipt["duplicate"] == size
                        acknowledged[k].append(j)
                        break
                    except (OSError, http.client.HTTPException):
                        errors[k] += 1
                        link.close()
                        time.sleep(0.05)
            link.close()

        threads = [threading.Thread(target=client, args=(k,)) for k in range(clients)]
        for thread in threads:
            thread.start()
        for step in range(1, kills + 1):
            goal = step * clients * batches // (kills + 2)
            while sum(map(len, acknowledged)) < goal:
                time.sleep(0.005)
            server.kill()
            done = [list(item) for item in acknowledged]
            # what was acknowledged by then is in the database, though no server runs
            store = Store(database)
            known = Aggregator(round_)
            for k, item in enumerate(done):
                for j in item:
                    known.add(work[k][j])
            assert store.tally(round_).reports >= known.tally.reports
            assert all(not store.write(offer_bytes(round_, work[k][j]))[0].fresh.any()
                       for k, item in enumerate(done) for j in item[-3:])  # fmt: skip
            store.close()
            server.start()
        for thread in threads:
            thread.join()
        assert [len(item) for item in acknowledged] == [batches] * clients
        assert sum(errors) > 0  # the kills were noticed
        state = server.get(path + "/tally")[1]
    offline = Aggregator(round_)
    for item in work:
        for body in item:
            offline.add(body)
    assert state == offline.tally.to_bytes()
    assert offline.tally.reports == clients * batches * size


def offer_bytes(round_, body):
    from privmean.local.aggregators.aggregator import ReportValidator

    return [Offer(ReportValidator(round_).parse(body).batch)]
