"""Ten million reports in bounded memory, and a collector under load that is killed in the middle.

Usage: python benchmarks/local_scale.py [--quick]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from privmean.local.aggregators.tally import Tally, add
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many
from report import publish, table

AGGREGATE = """
import resource, sys, time
from privmean.local import Round
from privmean.local.aggregators.aggregator import aggregate_files
round_ = Round.from_json(open(sys.argv[1]).read())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
tally, again = aggregate_files(round_, sys.argv[3:])
spent, cpu = time.perf_counter() - start, time.process_time() - cpu
open(sys.argv[2], "wb").write(tally.to_bytes())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(tally.reports, again, spent, cpu, before // 1024, after // 1024)
"""


def files(sizes: list[int], folder: Path) -> str:
    """Aggregate files of so many reports in a fresh process; time and peak memory."""
    rows: list[list[object]] = []
    for n in sizes:
        round_ = items_round(1024, epsilon=[0.5, 1], persons=n)
        (folder / "round.json").write_text(round_.to_json())
        expected = Tally.empty(round_)
        rng = np.random.default_rng(n)
        with (folder / "reports").open("wb") as stream:
            for _ in range(0, n, 250_000):
                own = rng.choice([0.5, 1.0], 250_000)
                batch = randomize_many(round_, rng.integers(0, 1024, 250_000), epsilon=own)
                add(expected, batch)
                stream.write(batch.to_bytes())
            stream.write(batch.to_bytes())  # a last block that came twice
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                AGGREGATE,
                *(folder / x for x in ("round.json", "t", "reports")),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        reports, again, spent, cpu, before, after = done.stdout.split()
        assert (int(reports), int(again)) == (n, 250_000)
        assert (folder / "t").read_bytes() == expected.to_bytes()
        size = (folder / "reports").stat().st_size / 1e6
        each = 1e6 * float(cpu) / n
        row = [n, f"{size:.0f}", f"{float(spent):.1f}", f"{float(cpu):.1f}", f"{each:.2f}"]
        rows.append([*row, before, after])
        (folder / "reports").unlink()
    return table(
        [
            "reports",
            "MB on disk",
            "seconds",
            "CPU seconds",
            "CPU us a report",
            "MB after imports",
            "MB at the peak",
        ],
        rows,
    )


class Service:
    """A collector process on SQLite."""

    def __init__(self, folder: Path, database: str, round_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.command = [
            sys.executable, "-c", "from privmean.cli.collect import app; app()", "serve", "--round",
            str(round_path), "--database", database, "--port", str(self.port),
        ]  # fmt: skip
        self.folder = folder

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()


def load(n: int, batch_size: int, clients: int, folder: Path, *, kill: bool) -> list[object]:
    """Concurrent clients send everything, repeating what was not acknowledged."""
    round_ = mean_round(0, 1, epsilon=1, persons=n)
    path = folder / "load.json"
    path.write_text(round_.to_json())
    database = folder / f"load{batch_size}.db"
    expected = Tally.empty(round_)
    bodies = []
    for _ in range(n // batch_size):
        batch = randomize_many(round_, np.full(batch_size, 0.3), epsilon=1)
        add(expected, batch)
        bodies.append(batch.to_bytes())
    service = Service(folder, f"sqlite:///{database}", path)
    service.start()
    address = f"/rounds/{round_.identifier.hex()}"
    done = [0] * clients
    repeated = [0] * clients
    slowest = [0.0] * clients

    def client(k: int) -> None:
        link = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        for body in bodies[k::clients]:
            while True:
                try:
                    start = time.perf_counter()
                    link.request(
                        "POST", address + "/reports", body,
                        {"Content-Type": "application/octet-stream"},
                    )  # fmt: skip
                    answer = link.getresponse()
                    receipt = json.loads(answer.read())
                    assert answer.status == 200
                    repeated[k] += receipt["duplicate"]
                    done[k] += receipt["accepted"] + receipt["duplicate"]
                    slowest[k] = max(slowest[k], time.perf_counter() - start)
                    break
                except (OSError, http.client.HTTPException):
                    link.close()
                    time.sleep(0.05)
        link.close()

    threads = [threading.Thread(target=client, args=(k,)) for k in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    down = 0.0
    if kill:
        while sum(done) < n // 2:
            time.sleep(0.01)
        stopped = time.perf_counter()
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        service.start()
        down = time.perf_counter() - stopped
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - start - down
    link = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    link.request("GET", address + "/tally")
    state = link.getresponse().read()
    link.close()
    service.process.send_signal(signal.SIGINT)
    service.process.wait()
    assert service.process.stdout is not None
    service.process.stdout.close()
    assert sum(done) == n
    same = "identical bytes" if state == expected.to_bytes() else "DIFFERENT"
    return [
        n, batch_size, clients, "yes" if kill else "no", f"{n / spent:.0f}",
        f"{1000 * max(slowest):.0f}", sum(repeated), same,
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = files([10**6] if quick else [10**6, 10**7], folder)
        sizes = [(200_000, 1000), (20_000, 50), (2_000, 1)]
        if quick:
            sizes = [(20_000, 1000), (4_000, 50), (500, 1)]
        rows = [load(n, batch, 16, folder, kill=False) for n, batch in sizes]
        rows.append(load(*sizes[0], 16, folder, kill=True))
    second = table(
        ["reports", "a request", "clients at once", "kill -9 half-way", "reports a second",
         "slowest request, ms", "sent again", "tally against the offline one"],
        rows,
    )  # fmt: skip
    text = (
        "Hadamard rows, d=1024, two levels, one-bit reports of 43 bytes in one file, the last "
        "250 000 twice; each nonce is counted once; a fresh process.\n\n"
        + first
        + "\n\nThe collector on SQLite with full synchronisation, clients on the same machine "
        f"({os.cpu_count()} cores for both, other work ran: load {os.getloadavg()[1]:.1f}); "
        "a request is answered after its commit.\n\n" + second
    )
    command = "python benchmarks/local_scale.py" + (" --quick" if quick else "")
    publish("local-scale", "Local reports at scale", text, command=command)


if __name__ == "__main__":
    main()
