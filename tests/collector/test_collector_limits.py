"""The collector's limits: each alone, and all of them while somebody does their worst."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import numpy as np
import pytest
from collector_server import reports_of, serving

from cli_runner import shell
from privmean.collector.receive_reports import PART, Throttle, Writer, cost
from privmean.collector.request_limits import (
    Addresses,
    Limits,
    OpenConnections,
    addresses_of,
    network,
)
from privmean.collector.store import Answers, Store
from privmean.errors import ArgumentError
from privmean.local.aggregators.aggregator import ReportValidator, TooManyRefused
from privmean.local.clients import send
from privmean.local.reports import Ticket, decode, ticket_key
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many

ROUND = mean_round(0, 10, epsilon=1, persons=100_000)
JUNK = {
    "lines": b"x\n" * (1 << 20),
    "starts": b"LD\x01" * (1 << 20),
    "zeros": b"0\n" * (1 << 20),
    "empty lines": b"\n" * (1 << 22),
    "spaces": b" \n" * (1 << 21),
    "one line": b"[" * (1 << 22),
    "objects": b"{}\n" * (1 << 20),
    "lists": b"[" + b"[]," * (1 << 20) + b"[]]",
}


def reports(n, round_=ROUND):
    return reports_of(round_, n).to_bytes()


def forged(n):
    round_ = mean_round(0, 10, epsilon=1, persons=1000, issued=True)
    from privmean.local.clients.client import randomize

    nonce = bytes(16)
    ticket = Ticket(round_.identifier, nonce, 0, ticket_key(bytes(32), round_.identifier, nonce, 0))
    return round_, randomize(round_, 5, epsilon=1, ticket=ticket) * n


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(JUNK))
@pytest.mark.parametrize("json_lines", [True, False])
def test_junk_is_given_up_early(kind, json_lines):
    """CPU time against as many bytes of good reports: 137 to 456 times as much without a limit."""
    gate = ReportValidator(ROUND)
    good = reports(len(JUNK[kind]) // 43)
    gate.parse(good)

    def spent(work):
        start = time.process_time()
        work()
        return time.process_time() - start

    def junk():
        parse = gate.parse_json if json_lines else gate.parse
        with suppress(TooManyRefused):
            assert len(parse(JUNK[kind], most_odd=100).batch) == 0

    least = min(spent(lambda: gate.parse(good)) for _ in range(3))
    assert min(spent(junk) for _ in range(3)) < 4 * least + 0.02


def test_a_limit_of_odd_pieces_is_a_number_of_pieces():
    gate = ReportValidator(ROUND)
    stream = reports(3) + b"LD\x01" * 100 + reports(2)
    found = gate.parse(stream, most_odd=101)
    assert (len(found.batch), found.refused.total()) == (5, found.total - 5)
    same = gate.parse(stream)
    assert same.refused == found.refused
    with pytest.raises(TooManyRefused):
        gate.parse(stream, most_odd=found.refused.total() - 1)
    # what is refused among many at once is no trouble: damaged, late, out of range
    damaged = bytearray(reports(500))
    damaged[42::43] = bytes(500 * [7])
    assert gate.parse(bytes(damaged), most_odd=1).refused == {"damaged": 500}
    round_, stream = forged(300)
    assert ReportValidator(round_, secret=b"\x01" * 32).parse(stream).refused == {"not issued": 300}
    with pytest.raises(TooManyRefused):
        ReportValidator(round_, secret=b"\x01" * 32).parse(stream, most_odd=299)
    assert len(ReportValidator(round_, secret=bytes(32)).parse(stream, most_odd=0).batch) == 300
    lines = b"".join(decode(reports(1)).to_json().encode() + b"\n" for _ in range(4))
    odd = gate.parse_json(lines + b"{}\n" * 5 + b" \r\n\n" + lines)
    assert (len(odd.batch), odd.total, odd.refused) == (8, 13, {"not a report": 5})
    long = lines[:-2] + b" " * 5000 + b"}"
    assert gate.parse_json(long).refused == {"wrong length": 1}


def test_trouble_rises_with_what_was_for_nothing_and_falls_with_time():
    now = [0.0]
    limits = Limits(trouble=100, calm=10, flight=50, receiving=100, heavy=50, light=10)
    addresses = Addresses(limits, lambda: now[0])
    assert addresses.welcome("a")
    addresses.charge("a", 99)
    assert addresses.welcome("a")
    addresses.charge("a", 1e9)
    assert not addresses.welcome("a")
    assert addresses.welcome("b")
    now[0] = 9.9  # at most twice the limit is held against anybody
    assert not addresses.welcome("a")
    now[0] = 10.1
    assert addresses.welcome("a")
    assert not addresses.light("a")
    now[0] = 20
    assert addresses.trouble("a") == 0
    addresses.take("a", 50)
    assert addresses.fits("a")
    assert not addresses.fits("a", 1)  # more than one address may have on its way
    assert not addresses.fits("c", 20)  # the rest is for who brings little
    assert addresses.fits("c", 10)
    assert addresses.first("a", 10)  # it is the only one
    assert not addresses.first("a", 11)
    addresses.take("c", 10)
    assert not addresses.first("a", 10)
    assert addresses.first("c", 10)
    addresses.give_back("c", 10)
    addresses.give_back("a", 50)
    assert addresses.receiving == 0
    assert addresses.light("a")
    for k in range(20_000):
        addresses.charge(str(k), 1)
    assert len(addresses._trouble) == 10_000


def test_the_largest_group_loses_a_connection_when_there_are_too_many():
    class Link:
        open = True

        def cut(self):
            self.open = False

    crowd = OpenConnections(Limits(connections=10, per_address=8, proxies=("10.0.0.1",)))
    many = [Link() for _ in range(9)]
    assert [crowd.enter(link, "a") for link in many] == [True] * 8 + [False]
    others = [Link() for _ in range(4)]
    for k, link in enumerate(others):
        assert crowd.enter(link, str(k))
    assert [link.open for link in many[:3]] == [False, False, True]  # the oldest
    assert len(crowd) == 10
    proxied = [Link() for _ in range(20)]  # whom a proxy speaks for is limited by request
    assert all(crowd.enter(link, "10.0.0.1") for link in proxied)
    crowd.leave(many[0], "a")  # twice is once
    for link in proxied:
        crowd.leave(link, "10.0.0.1")
    assert len(crowd) == 10
    full = OpenConnections(Limits(connections=2, per_address=2))
    assert [full.enter(Link(), name) for name in "abc"] == [True, True, False]


def test_networks_and_proxies():
    assert network("::ffff:10.0.0.1") == network("10.0.0.1") == "10.0.0.1"
    assert network("2001:db8::1") == network("2001:db8::ffff:2") != network("2001:db8:0:1::1")
    assert network("fe80::1%eth0") == "fe80::/64"
    assert (network(None), network("x" * 99)) == ("", "x" * 64)
    assert addresses_of(["::1", "10.0.0.1"]) == ("::1", "10.0.0.1")
    with pytest.raises(ArgumentError):
        addresses_of(["proxy.example"])
    with pytest.raises(ArgumentError):
        Limits(patience=0)
    with pytest.raises(ArgumentError):
        Limits(per_address=0)


def test_work_that_can_wait_gets_a_seventh_and_all_of_it_when_alone():
    now = [100.0]
    pace = Throttle(lambda: now[0])
    pace.worked(1.0)
    assert pace.rest() == 0  # nothing else is there
    pace.first()
    assert pace.rest() == 6
    now[0] += 0.9
    pace.first()
    now[0] += 0.9
    assert pace.rest() == pytest.approx(4.2)
    now[0] += 0.2
    assert pace.rest() == 0  # nothing urgent came any more


@pytest.mark.slow
def test_a_large_request_does_not_hold_up_a_small_one(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([ROUND])
    thread = Writer(store, {ROUND.identifier: ROUND})
    gate, order, futures = ReportValidator(ROUND), [], []
    sizes = {"large": 5 * PART + 7, "small": 20, "tiny": 1}
    for name, size in sizes.items():
        data = reports(size)
        future = thread.submit(
            ROUND.identifier, gate.parse(data + b"?"), len(data), light=name != "large"
        )
        future.add_done_callback(lambda done, name=name: order.append((name, done.result())))
        futures.append(future)
    thread.start()
    for future in futures:
        future.result(timeout=30)
    thread.stop()
    assert [name for name, _ in order] == ["small", "tiny", "large"]
    for name, receipt in order:
        assert (receipt.accepted, receipt.duplicate) == (sizes[name], 0)
        assert receipt.rejected == {"truncated": 1}
    assert store.tally(ROUND).reports == sum(sizes.values())
    assert store.tally(ROUND).rejected == {"truncated": 3}
    store.close()


@pytest.mark.slow
def test_large_requests_are_given_up_when_their_sender_goes_or_the_service_stops(tmp_path):
    """Part of them is stored; nobody was told that they were, and the same again counts once."""
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([ROUND])
    data = reports(4 * PART)
    parsed = ReportValidator(ROUND).parse(data)
    thread = Writer(store, {ROUND.identifier: ROUND})
    gone, left = (thread.submit(ROUND.identifier, parsed, 1, light=False) for _ in range(2))
    write = store.write

    def written(offers):
        if store.tally(ROUND).reports:  # one part is stored
            assert gone.cancel()
            thread._open = False
        return write(offers)

    store.write = written
    thread.start()
    with pytest.raises(InterruptedError):
        left.result(timeout=30)
    thread.stop()
    some = store.tally(ROUND).reports
    assert 0 < some < 4 * PART
    assert thread._bytes == 0
    store.write = write
    again = Writer(store, {ROUND.identifier: ROUND})
    again.start()
    receipt = again.submit(ROUND.identifier, parsed, 1, light=False).result(timeout=30)
    assert (receipt.accepted, receipt.duplicate) == (4 * PART - some, some)
    again.stop()
    store.close()


def test_an_estimate_is_made_once_for_all_readers(tmp_path, monkeypatch):
    from privmean.collector import store as answers

    round_ = mean_round(0, 10, epsilon=[0.5, 1], persons=1000)
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_])
    made, real, now = [], answers.estimate, 0.0

    def slow(tally, **options):
        nonlocal now
        made.append(options)
        time.sleep(pause)  # the other readers arrive meanwhile
        now += pause
        return real(tally, **options)

    # a clock of its own: what counts as slow does not depend on the machine
    monkeypatch.setattr(answers, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(answers, "estimate", slow)
    pause = 0.0
    kept = Answers(store)
    first = kept.get(round_)
    assert kept.get(round_) == first
    assert made == [{"weights": "tested", "epsilon_cap": None}]
    kept.get(round_, "uniform")
    kept.get(round_, "minimax", "0.5")
    assert made[1:] == [
        {"weights": "uniform", "epsilon_cap": None},
        {"weights": "minimax", "epsilon_cap": "1/2"},
    ]
    from privmean.collector.store import Offer

    pause = 0.3
    store.write([Offer(ReportValidator(round_).parse(reports(5, round_)).batch)])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(kept.get, [round_] * 8))
    assert len(made) == 4
    store.write([Offer(ReportValidator(round_).parse(reports(5, round_)).batch)])
    assert json.loads(kept.get(round_))["reports"] == 5  # slow ones are kept for a while
    for wrong in ({"weights": "best"}, {"cap": "0.7"}, {"cap": "nan"}):
        with pytest.raises(ArgumentError):
            kept.get(round_, **wrong)
    pause = 0.0
    for k in range(70):
        kept.get(mean_round(0, k + 1, epsilon=1, persons=9))
    assert len(kept._kept) <= 64
    store.close()


@pytest.mark.slow
def test_what_was_seen_of_epsilon_is_said_over_http(tmp_path):
    round_ = mean_round(-1, 1, epsilon=[0.5, 4], persons=4000)
    own = np.where(np.arange(4000) < 3000, 0.5, 4.0)
    values = np.where(own == 4.0, 0.9, -0.3)
    batch = randomize_many(round_, values, epsilon=own)
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        path = f"/rounds/{round_.identifier.hex()}/estimate"
        assert json.loads(server.get(path)[1])["relation"] is None
        send.send(server.url, round_, batch.to_bytes())
        found = {
            name: json.loads(server.get(f"{path}?weights={name}")[1])
            for name in ("tested", "uniform", "minimax")
        }
        default = json.loads(server.get(path)[1])
        assert default == found["tested"]
        assert default["relation"]["found"]
        assert default["relation"]["words"].startswith("the levels of epsilon disagree")
        # the mean is 0, and the radius holds 95 % of releases: three of them hold all but 1e-6
        assert abs(default["value"][0]) <= 3 * default["radius"]
        assert found["minimax"]["value"][0] > found["minimax"]["radius"]
        assert "may be off" in found["minimax"]["relation"]["words"]
        capped = json.loads(server.get(f"{path}?weights=minimax&epsilon_cap=0.5")[1])
        assert capped["raw"] == pytest.approx(found["uniform"]["raw"])
        for wrong in ("weights=best", "epsilon_cap=2", "epsilon_cap=" + "9" * 3000, "beta=0.1"):
            status, said = server.get(f"{path}?{wrong}")
            assert status == 422
            assert b"one of" in said
        listed = json.loads(server.get("/rounds")[1])
        assert listed[0]["levels"] == ["0.5", "4"]


def half_a_header(server, source):
    link = socket.create_connection(("127.0.0.1", server.port), 30, source_address=(source, 0))
    link.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    return link


def is_closed(link, within):
    link.settimeout(within)
    try:
        return link.recv(1000) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.slow
def test_half_headers_and_idle_connections_end(tmp_path):
    """One byte a second does not keep a header open; others are served all the while."""
    path = f"/rounds/{ROUND.identifier.hex()}/reports"
    with serving(tmp_path, [ROUND], f"sqlite:///{tmp_path}/r.db", "--patience", 1.5,
                 "--per-address", 40) as server:  # fmt: skip
        start = time.monotonic()
        with ExitStack() as stack:
            links = [stack.enter_context(half_a_header(server, "127.0.0.9")) for _ in range(150)]
            silent = socket.create_connection(("127.0.0.1", server.port), 30)
            stack.enter_context(silent)
            status, answer = server.post(path, reports(5), source="127.0.0.8")
            assert (status, json.loads(answer)["accepted"]) == (200, 5)
            assert sum(is_closed(link, 0.3) for link in links[40:]) == 110  # above the limit
            while time.monotonic() - start < 2.5:
                for link in links[:5]:
                    try:
                        link.sendall(b"X")
                    except OSError:
                        break
                time.sleep(0.2)
            assert all(is_closed(link, 10) for link in [*links[:40], silent])
        assert server.post(path, reports(5), source="127.0.0.9")[0] == 200  # no grudge
        # a slow body ends too, with a word
        with socket.create_connection(("127.0.0.1", server.port), 30) as body:
            body.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
                "Content-Length: 4300\r\n\r\n".encode()
            )
            for _ in range(10):
                body.sendall(b"x")
                time.sleep(0.2)
            assert b" 408 " in body.recv(1000)


@pytest.mark.slow
def test_junk_is_refused_as_a_whole_and_then_has_to_wait(tmp_path):
    path = f"/rounds/{ROUND.identifier.hex()}/reports"
    with serving(tmp_path, [ROUND], f"sqlite:///{tmp_path}/r.db", "--penalty", 0.3) as server:
        junk = reports(3) + JUNK["lines"]
        answers = [server.post(path, junk, "application/x-ndjson", "127.0.0.7") for _ in range(2)]
        assert [status for status, _ in answers] == [400, 400]
        assert b"100 pieces" in answers[0][1]
        for _ in range(12):
            start = time.monotonic()
            status, _ = server.post(path, junk, "application/x-ndjson", "127.0.0.7")
            assert time.monotonic() - start >= 0.3  # a refusal takes its time
            if status == 429:
                break
        assert status == 429
        assert server.get(path.replace("reports", "estimate"), "127.0.0.7")[0] == 429
        assert server.post(path, reports(9), source="127.0.0.6")[0] == 200
        found = json.loads(server.get(path.replace("reports", "estimate"))[1])
        assert (found["reports"], found["rejected"]) == (9, {})


@pytest.mark.slow
def test_a_proxy_is_believed_only_where_it_is_said(tmp_path):
    """The address that a request is counted under is the last one that no proxy has."""
    path = f"/rounds/{ROUND.identifier.hex()}/reports"
    claim = {"X-Forwarded-For": "127.9.9.9, 203.0.113.5"}
    junk = JUNK["lines"]
    for proxied in (False, True):
        (tmp_path / str(proxied)).mkdir()
        options = ("--penalty", 0.1, *(("--proxy", "127.0.0.5") if proxied else ()))
        database = f"sqlite:///{tmp_path}/{proxied}.db"
        with serving(tmp_path / str(proxied), [ROUND], database, *options) as server:
            for _ in range(14):
                status, _ = server.post(
                    path, junk, "application/x-ndjson", "127.0.0.5", headers=claim
                )
                if status == 429:
                    break
            assert status == 429
            # the proxy itself, and whom else it speaks for
            assert server.post(path, reports(1), source="127.0.0.5")[0] == (200 if proxied else 429)
            other = {"X-Forwarded-For": "203.0.113.5, 203.0.113.77"}
            assert server.post(path, reports(1), source="127.0.0.5", headers=other)[0] == (
                200 if proxied else 429
            )
            # nobody else can speak for others
            assert server.post(path, reports(1), source="127.0.0.4", headers=claim)[0] == 200
    file, database = tmp_path / "False" / "round0.json", f"sqlite:///{tmp_path}/x.db"
    asked = ("collect", "serve", "--public-results", "--round", file, "--database", database)
    result = shell(*asked, "--proxy", "nonsense")
    assert result.exit_code == 2
    assert "is not an address" in result.output


@pytest.mark.slow
def test_an_answer_that_nobody_reads_is_given_up(tmp_path):
    round_ = items_round(1 << 20, epsilon=1, persons=1000)
    path = f"/rounds/{round_.identifier.hex()}/tally"
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db", "--patience", 1) as server:
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", server.port))
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        time.sleep(4)
        link.settimeout(20)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        read = 0
        with link, suppress(ConnectionError):
            while piece := link.recv(1 << 16):
                read += len(piece)
        assert 0 < read < 8 << 20  # the rest was given up
        assert len(server.get(path)[1]) > 8 << 20


def test_the_cost_of_a_request():
    gate = ReportValidator(ROUND)
    from privmean.local.aggregators.aggregator import Aggregator

    server = Aggregator(ROUND)
    data = reports(100)
    parsed = gate.parse(data)
    assert cost(parsed, server.take(parsed)) == 0  # nothing was for nothing
    assert cost(parsed, server.take(parsed)) == 12  # all of it was
