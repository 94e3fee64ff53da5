"""Honest clients of a collector while 64 others do their worst, against the same clients alone.

Usage: python benchmarks/collector_hostile.py [--quick]
Everything stays on this machine: each client has an address of its own in 127.0.0.0/8. Quiet and
hostile turns alternate; the ratio of their rates is what counts, on a busy machine too.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from privmean.local.round import Round
from privmean.local.round_builders import mean_round
from privmean.local.vectorized import randomize_many
from report import publish, table

HONEST, HOSTILE = 8, 64
A_REQUEST = 20  # reports of an honest request
KINDS = ("junk", "slow headers", "slow bodies", "replays", "oversize")
BODY = 1 << 22
BINARY, LINES = "application/octet-stream", "application/x-ndjson"
SERVE = "from privmean.cli.collect import app; app()"


class Service:
    """A collector process on SQLite, on a port of its own."""

    def __init__(self, folder: Path, round_: Round) -> None:
        path = folder / "round.json"
        path.write_text(round_.to_json())
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, "serve", "--public-results", "--round", str(path),
             "--database", f"sqlite:///{folder}/reports.db", "--port", str(self.port)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def cpu(self) -> float:
        """CPU seconds of the service so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """The most memory it ever had, MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1024

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Turn:
    """One stretch of time: what honest clients got done, and what hostile ones heard."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.reports = 0
        self.failed: Counter[str] = Counter()
        self.waits: list[float] = []
        self.heard: Counter[str] = Counter()
        self.lock = threading.Lock()


def honest(turn: Turn, port: int, address: str, source: str, bodies: list[bytes]) -> None:
    """Send one small request after the other; what was not acknowledged is sent again."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=(source, 0))
    while not turn.over.is_set() and bodies:
        start = time.perf_counter()
        try:
            link.request("POST", address, bodies[-1], {"Content-Type": BINARY})
            answer = link.getresponse()
            said = json.loads(answer.read())
            if answer.status != 200:
                raise http.client.HTTPException(str(answer.status))
            assert said["accepted"] + said["duplicate"] == A_REQUEST
            bodies.pop()
            with turn.lock:
                turn.reports += said["accepted"]
                turn.waits.append(time.perf_counter() - start)
        except (OSError, http.client.HTTPException) as problem:
            link.close()
            with turn.lock:
                turn.failed[type(problem).__name__] += 1
            turn.over.wait(0.1)
    link.close()


JUNK = {LINES: b"x\n" * (BODY // 2), BINARY: (b"LD\x01" * (BODY // 3 + 1))[:BODY]}
ZEROS = bytes(BODY)


def hostile(turn: Turn, port: int, address: str, source: str, kind: str, replay: bytes) -> None:
    """Do one kind of harm, again and again, as fast as the service lets."""
    host = "Host: x\r\n"
    start = f"POST {address} HTTP/1.1\r\n{host}Content-Type: %s\r\nContent-Length: %d\r\n\r\n"

    def post(link: socket.socket, body: bytes, type_: str, length: int = -1) -> str:
        link.sendall((start % (type_, len(body) if length < 0 else length)).encode())
        link.sendall(body)
        return link.recv(100)[9:12].decode() or "closed"

    def drip(link: socket.socket) -> str:
        for _ in range(600):
            if turn.over.wait(0.2):
                return "still open"
            link.sendall(b"X")
        return "still open"

    def once(link: socket.socket, k: int) -> str:
        if kind == "junk":
            type_ = (LINES, BINARY)[k % 2]
            return post(link, JUNK[type_], type_)
        if kind == "replays":
            return post(link, replay, BINARY)
        if kind == "oversize":
            return post(link, ZEROS, BINARY, (1 << 40, 1 << 23)[k % 2])
        if kind == "slow headers":
            link.sendall(f"GET / HTTP/1.1\r\n{host}".encode())
        else:
            link.sendall((start % (BINARY, BODY)).encode())
        return drip(link)

    for k in range(100_000):
        if turn.over.is_set():
            return
        try:
            with socket.create_connection(
                ("127.0.0.1", port), timeout=20, source_address=(source, 0)
            ) as link:
                heard = once(link, k)
        except OSError as problem:
            heard = "timeout" if isinstance(problem, TimeoutError) else "closed"
        with turn.lock:
            turn.heard[heard] += 1


def play(seconds: float, starts: list[Callable[[Turn], None]]) -> tuple[Turn, float]:
    turn = Turn()
    threads = [threading.Thread(target=start, args=(turn,)) for start in starts]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    spent = time.perf_counter() - begin
    reports = turn.reports
    turn.over.set()
    for thread in threads:
        thread.join()
    turn.reports = reports
    return turn, spent


def army(port: int, address: str, kinds: tuple[str, ...], replay: Path) -> None:
    """All hostile clients, in a process of their own: until its standard input ends."""
    body = replay.read_bytes()
    turn = Turn()
    threads = [
        threading.Thread(
            target=hostile,
            args=(turn, port, address, f"127.0.2.{k + 1}", kinds[k % len(kinds)], body),
        )
        for k in range(HOSTILE)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    turn.over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(turn.heard))


def measured(kinds: tuple[str, ...], seconds: float, turns: int) -> list[object]:
    """A row: rates of honest reports alone and among hostile clients of these kinds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        round_ = mean_round(0, 1, epsilon=1, persons=10**6)
        address = f"/rounds/{round_.identifier.hex()}/reports"
        replay = randomize_many(round_, np.full(90_000, 0.3), epsilon=1).to_bytes()
        size = 43 * A_REQUEST

        def supply() -> list[bytes]:
            more = randomize_many(round_, np.full(40_000, 0.3), epsilon=1).to_bytes()
            return [more[k : k + size] for k in range(0, len(more), size)]

        service = Service(folder, round_)
        quiet: list[float] = []
        loud: list[float] = []
        waits: list[float] = []
        cpu: list[float] = []
        calm: list[float] = []
        heard: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        try:
            stock = [supply() for _ in range(HONEST)]
            goods = [
                lambda turn, k=k: honest(turn, service.port, address, f"127.0.1.{k + 1}", stock[k])
                for k in range(HONEST)
            ]
            attack = [sys.executable, __file__, "--army", str(service.port), address,
                      ",".join(kinds), str(folder / "replay")]  # fmt: skip
            (folder / "replay").write_bytes(replay)
            play(2, goods)  # warm
            for _ in range(turns):
                before = service.cpu()
                turn, spent = play(seconds, goods)
                calm.append((service.cpu() - before) / spent)
                quiet.append(turn.reports / spent)
                others = subprocess.Popen(
                    attack, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                time.sleep(1)
                before = service.cpu()
                turn, spent = play(seconds, goods)
                cpu.append((service.cpu() - before) / spent)
                loud.append(turn.reports / spent)
                said, _ = others.communicate(timeout=60)
                waits += turn.waits
                heard += Counter(json.loads(said))
                failed += turn.failed
                time.sleep(1)
            memory = service.memory()
        finally:
            service.stop()
    answers = ", ".join(f"{word} {count}" for word, count in sorted(heard.items()))
    waits.sort()
    return [
        ", ".join(kinds) if len(kinds) < len(KINDS) else "all five",
        f"{statistics.mean(quiet):.0f}",
        f"{statistics.mean(loud):.0f}",
        f"{statistics.mean(loud) / statistics.mean(quiet):.2f}",
        f"{min(b / a for a, b in zip(quiet, loud, strict=True)):.2f}",
        f"{1000 * waits[int(0.99 * len(waits))]:.0f}" if waits else "",
        sum(failed.values()),
        f"{statistics.mean(calm):.2f}, {statistics.mean(cpu):.2f}",
        memory,
        answers,
    ]


def main() -> None:
    if sys.argv[1:2] == ["--army"]:
        army(int(sys.argv[2]), sys.argv[3], tuple(sys.argv[4].split(",")), Path(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="all kinds together only")
    quick = parser.parse_args().quick
    rows = [measured(KINDS, 10, 1 if quick else 2)]
    if not quick:
        rows += [measured((kind,), 6, 1) for kind in KINDS]
    text = (
        f"{HONEST} honest clients send {A_REQUEST} reports a request, one after the other, to a "
        f"collector on SQLite with full synchronisation; {HOSTILE} hostile ones send 4 MB of lines "
        "or of beginnings of reports (junk), a byte every 0.2 s of a header or a body, 90,000 "
        "valid reports again and again (replays), or 4 MB of a body that says it is 8 MB or 1 TB. "
        "Quiet and hostile turns follow each other in one run, and all of it shares the cores "
        f"(load at the end {os.getloadavg()[0]:.1f}). Answers: status codes; closed: cut by the "
        "service; still open: when the turn was over.\n\n"
        + table(
            ["64 hostile clients", "honest reports a second, quiet", "among them", "ratio",
             "lowest ratio of a turn", "99 % of honest requests within, ms", "failed (sent again)",
             "processors of the service, quiet and then", "MB at most", "what they heard"],
            rows,
        )
    )  # fmt: skip
    command = "python benchmarks/collector_hostile.py" + (" --quick" if quick else "")
    publish("collector-hostile", "A collector among hostile clients", text, command=command)


if __name__ == "__main__":
    main()
