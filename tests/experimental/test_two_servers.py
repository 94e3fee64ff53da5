"""Means by two servers: what Python owes, and the whole of it with two processes where Node and the
library of proofs are at hand (`make two-servers`)."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cli_runner import shell
from privmean.errors import ArgumentError, InfeasibleError
from privmean.experimental.two_servers import Task
from privmean.mechanisms.noisy_counts import MODULUS, NoisyShare
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_law, assert_mean, assert_rate_at_least

FOLDER = Path(__file__).resolve().parents[2] / "clients" / "two-servers"
SMALL = Task((0.0,), (10.0,), Fraction(1), 2, 3, "small")


def split(whole, rng):
    one = [int.from_bytes(rng.bytes(16), "little") % MODULUS for _ in whole]
    return one, [(a - b) % MODULUS for a, b in zip(whole, one, strict=True)]


# --- encoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "whole"),
    [(0, 0), (10, 7), (-math.inf, 0), (1e300, 7), (5.1, 4), (None, 4), (math.nan, 4)],
)
def test_a_value_is_a_whole_number_within_the_limits(value, whole):
    assert SMALL.encode([value]) == (whole,)


def test_a_task_survives_its_text():
    task = Task.of([0, -5], [1, 5], epsilon=0.3, n=7)
    assert Task.from_json(task.to_json()) == task
    assert len(task.identity) == 32
    for text in ("{}", "[]", "no", task.to_json().replace("servers 1", "servers 2")):
        with pytest.raises(ArgumentError, match="is not a task"):
            Task.from_json(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lower": (1.0,), "upper": (1.0,)},
        {"lower": (1.0, 2.0)},
        {"bits": 33},
        {"bits": 0},
        {"n": 0},
        {"upper": (math.inf,)},
    ],
)
def test_wrong_tasks_are_refused(wrong):
    given = {"lower": (0.0,), "upper": (9.0,), "epsilon": Fraction(1), "n": 3, **wrong}
    with pytest.raises(ArgumentError):
        Task(**given)


def test_a_budget_too_small_for_exact_noise_is_refused():
    with pytest.raises(InfeasibleError, match="too small"):
        Task((0.0,), (1.0,), Fraction(1, 10**12), 3, 20, "00" * 16)
    for wrong in (1e-12, 1000.0, "1", None):
        with pytest.raises(ArgumentError, match="epsilon"):
            Task.of(0, 1, epsilon=wrong, n=3)
    with pytest.raises(ArgumentError, match="limits"):
        Task.of("a", 1, epsilon=1, n=3)


# --- noise ----------------------------------------------------------------------------------------


def test_neighbours_attain_the_price_and_never_pass_it():
    mechanism = NoisyShare(3, 2, Fraction(1, 3))
    values = list(product(range(4), repeat=2))
    costs = [mechanism.sensitivity_share(a, b)[0] for a in values for b in values]
    assert max(costs) == 1
    assert mechanism.events[0].pure == Fraction(1, 3)
    cheap = NoisyShare(3, 1, Fraction(1, 3))  # a twin that forgets the second sum
    assert max(cheap.sensitivity_share(a, b)[0] for a in values for b in values) > 1


def test_whoever_knows_one_share_and_one_noise_sees_the_sum_with_the_noise_of_the_other():
    """The exact law of what is left: discrete Laplace of the full scale, whatever the share."""
    rng, noise = np.random.default_rng(1), SimulatedNoise(1)
    mechanism = NoisyShare(7, 1, Fraction(2))
    left = []
    for _ in range(20_000):
        mine, theirs = split([5], rng)
        shown = mechanism.draw(theirs, noise)
        seen = (shown[0] + mine[0] - 5) % MODULUS
        left.append(seen - MODULUS if seen > MODULUS // 2 else seen)
    q = math.exp(-1 / float(mechanism.scale))
    assert_law(np.array(left), lambda k: (1 - q) / (1 + q) * q ** np.abs(k))


@pytest.mark.slow
def test_the_noise_interval_covers_and_the_mean_is_right():
    rng, noise = np.random.default_rng(2), SimulatedNoise(2)
    task = Task((0.0, -1.0), (10.0, 1.0), Fraction(1), 50, 16, "law")
    wholes = [task.encode([float(x), float(y)]) for x, y in rng.uniform(-1, 9, (50, 2))]
    truth = np.array(wholes).mean(axis=0) / (2**16 - 1) * [10, 2] + [0, -1]
    sums = [sum(column) for column in zip(*wholes, strict=True)]
    covered, errors, draws = 0, [], 3000
    for _ in range(draws):
        shares = [task.noisy_share(item, noise) for item in split(sums, rng)]
        found = task.answer(shares, 50, level=0.9)
        covered += int((found.noise_lower[0] <= truth[0]) & (truth[0] <= found.noise_upper[0]))
        errors.append((found.estimate[0] - truth[0]) / found.noise_sd[0])
    assert_rate_at_least(covered, draws, 0.9)
    assert_mean(errors, 0.0)
    assert_mean(np.square(errors), 1.0, slack=0.02)


def test_too_few_persons_have_no_answer():
    with pytest.raises(ArgumentError, match="^n=1: must be at least 2"):
        SMALL.answer([(1,), (2,)], 1)
    with pytest.raises(ArgumentError, match="must be two"):
        SMALL.answer([(1,)], 2)


def test_the_commands_refuse_without_repeating_a_share(tmp_path):
    place = tmp_path / "task"
    place.write_text(SMALL.to_json())
    bad = shell("two-servers", "noise", place, input="[123456, 'x']")
    assert bad.exit_code == 2
    assert "123456" not in bad.stderr
    assert shell("two-servers", "task", "--bounds", "3", "--epsilon", 1, "--n", 2).exit_code == 2
    made = shell("two-servers", "task", "--bounds", "0:1", "--epsilon", 1, "--n", 2)
    assert Task.from_json(made.stdout).n == 2


# --- two processes --------------------------------------------------------------------------------

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules").is_dir(),
    reason="needs Node and the library of proofs: make two-servers",
)
SILENT = "import json,sys; print(json.dumps(json.load(sys.stdin)))"  # a twin without noise
CLIENT = """
import { Task } from "%s/shares.mjs";
import { readFileSync } from "node:fs";
const task = new Task(readFileSync(process.argv[2], "utf8"));
const values = JSON.parse(process.argv[3]);
const made = [];
for (const value of values) made.push(await task.report(value));
console.log(JSON.stringify(made));
"""


class Servers:
    """Both servers of a task, each a process, and what clients say to them."""

    def __init__(self, folder: Path, task: Task, noise: str) -> None:
        self.folder, self.noise = folder, noise
        (folder / "task.json").write_text(task.to_json())
        secrets = {"verify": "5" * 32, "peer": "peer token", "admin": "admin token"}
        (folder / "secrets.json").write_text(json.dumps(secrets))
        self.processes, self.ports = [], []
        for role in (1, 0):
            peer = f"http://127.0.0.1:{self.ports[0]}" if role == 0 else "http://127.0.0.1:9"
            self.processes.append(self.start(role, peer))
            self.ports.append(int(self.processes[-1].stdout.readline().split()[1]))
        self.ports.reverse()

    def start(self, role: int, peer: str) -> subprocess.Popen[str]:
        place = str(self.folder / "task.json")
        command = ["node", str(FOLDER / "server.mjs"), place, "--role", str(role), "--port", "0"]
        command += ["--peer", peer, "--secrets", str(self.folder / "secrets.json")]
        command += ["--state", str(self.folder / "state"), "--privmean", self.noise]
        command += ["--patience", "3"]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder
        )

    def reports(self, values: list[list[float]]) -> list[list[dict[str, object]]]:
        """What honest clients would send: a pair of messages each."""
        script = self.folder / "client.mjs"
        script.write_text(CLIENT % FOLDER)
        done = subprocess.run(
            ["node", str(script), str(self.folder / "task.json"), json.dumps(values)],
            capture_output=True,
            text=True,
            check=True,
        )
        return list(json.loads(done.stdout))

    def post(self, role: int, path: str, body: object, token: str = "") -> tuple[int, dict]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[role]}{path}",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as problem:
            return problem.code, json.loads(problem.read())

    def send(self, pair: list[dict[str, object]]) -> list[int]:
        return [self.post(role, "/reports", pair[role])[0] for role in (0, 1)]

    def take(self, values: list[list[float]]) -> None:
        """Reports of honest clients, which both servers take."""
        for pair in self.reports(values):
            assert self.send(pair) == [201, 201]

    def finish(self) -> tuple[int, dict]:
        return self.post(0, "/finish", {}, "admin token")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture(name="serve")
def serving(tmp_path):
    started = []

    def serve(task, noise):
        started.append(Servers(tmp_path, task, noise))
        return started[-1]

    yield serve
    for item in started:
        item.stop()


@pytest.fixture
def silent(tmp_path):
    """A command that adds no noise."""
    (tmp_path / "silent.py").write_text(SILENT)
    return f"{sys.executable} {tmp_path / 'silent.py'}"


@needs_node
def test_hostile_clients_are_left_out_by_both_servers(serve, silent):
    """With silent noise the sum is exactly that of the honest clients."""
    task = Task((0.0, 0.0), (15.0, 15.0), Fraction(1), 3, 4, "hostile")
    both = serve(task, silent)
    both.take([[1, 15], [7, 0], [99, -3], [3, 2]])
    lies = both.reports([[4, 4]] * 8)

    def shifted(pair, name):  # the first number of a vector, moved by 2
        text = str(pair[0][name])
        number = int.from_bytes(bytes.fromhex(text[:32]), "little") + 2
        pair[0][name] = (number % MODULUS).to_bytes(16, "little").hex() + text[32:]
        return pair

    assert both.send(shifted(lies[0], "measurement")) == [201, 201]  # a bit that is 2 or 3
    assert both.send(shifted(lies[1], "proof")) == [201, 201]
    assert both.send([lies[2][0], lies[3][1] | {"nonce": lies[2][0]["nonce"]}]) == [201, 201]
    assert both.post(0, "/reports", lies[4][0])[0] == 201  # one server alone
    lies[5][1]["parts"] = lies[6][1]["parts"]
    assert both.send(lies[5]) == [201, 201]
    assert both.send([lies[7][0], {**lies[7][1], "task": "another"}]) == [201, 400]
    replay = both.reports([[15, 15]])[0]
    assert both.send(replay) == [201, 201]
    assert both.send(replay) == [409, 409]
    for bad in ({}, [], {"task": "hostile"}, {**lies[6][0], "measurement": "f" * 32}):
        assert both.post(0, "/reports", bad)[0] == 400
    assert both.post(0, "/finish", {}, "peer token")[0] == 401
    assert both.post(1, "/sums", {"persons": 5}, "admin token")[0] == 401
    assert both.post(1, "/sums", {"persons": 5, "digest": "0"}, "peer token")[0] == 409

    status, found = both.finish()
    assert status == 200
    assert found["persons"] == 5
    shares = [[int(item) for item in share] for share in found["shares"]]
    sums = [sum(column) % MODULUS for column in zip(*shares, strict=True)]
    assert sums == [1 + 7 + 15 + 3 + 15, 15 + 0 + 0 + 2 + 15]
    assert both.finish()[1]["shares"] == found["shares"]  # drawn once
    assert both.post(0, "/reports", lies[6][0])[0] == 410


def half_sent(port: int, path: str, length: int, sent: bytes, token: str = "") -> socket.socket:
    """A request of which only a beginning comes."""
    link = socket.create_connection(("127.0.0.1", port), timeout=60)
    words = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{words}Content-Length: {length}\r\n\r\n"
    link.sendall(head.encode() + sent)
    return link


def rest_of(link: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := link.recv(4096):
            found += piece
    return found


@needs_node
def test_what_is_sent_by_halves_holds_up_nobody_and_is_cut(serve, silent):
    both = serve(Task((0.0,), (15.0,), Fraction(1), 3, 4, "halves"), silent)
    halves = [half_sent(port, "/reports", 100, b"{") for port in both.ports for _ in range(20)]
    halves += [half_sent(both.ports[0], "/finish", 2, b"{", "admin token")]
    halves += [half_sent(both.ports[1], "/prepare", 2, b"{", "peer token")]
    try:
        both.take([[3], [5], [7]])  # all of them while the others hang
        status, found = both.finish()
        assert (status, found["persons"], found["refused"]) == (200, 3, 0)
        assert all(rest_of(link)[9:12] in (b"408", b"400", b"") for link in halves)  # they end
    finally:
        for link in halves:
            link.close()


@needs_node
def test_messages_that_are_none_are_refused_at_once(serve):
    both = serve(Task.of(0, 1, epsilon=1, n=3), f"{sys.executable} -m privmean")
    pair = both.reports([[1.0]])[0]
    good = json.dumps(pair[0])
    odd = {
        "too long": b" " * (1 << 16) + good.encode(),
        "a key twice": good.replace("{", '{"nonce": "00", ', 1).encode(),
        "a byte-order mark": b"\xef\xbb\xbf" + good.encode(),
        "another encoding": good.encode("utf-16"),
        "no UTF-8": good.replace("{", '{"\xff": 1, ', 1).encode("latin-1"),
    }
    for why, body in odd.items():
        with half_sent(both.ports[0], "/reports", len(body), body) as link:
            assert b" 400 " in link.recv(4096), why
    with half_sent(both.ports[0], "/reports", 10**9, b"x" * 50_000) as link:
        assert b" 400 " in rest_of(link)  # before all of it was read
    assert both.send(pair) == [201, 201]


@needs_node
def test_the_whole_with_exact_noise(serve, tmp_path):
    task = Task.of(0, 10, epsilon=2, n=30)
    both = serve(task, f"{sys.executable} -m privmean")
    both.take([[float(k % 10)] for k in range(30)])
    status, found = both.finish()
    assert status == 200
    place = tmp_path / "task.json"
    shown = json.loads(shell("two-servers", "answer", place, input=json.dumps(found)).stdout)
    # P(|noise| > 20 deviations) < 1e-8
    assert abs(shown["estimate"][0] - 4.5) < 20 * shown["noise_sd"][0]
    again = both.start(1, "http://127.0.0.1:9")  # a task is served once
    assert "EEXIST" in again.communicate(timeout=60)[1]
    assert again.returncode != 0


@needs_node
def test_too_few_reports_show_nothing(serve):
    both = serve(Task.of(0, 1, epsilon=1, n=3), f"{sys.executable} -m privmean")
    both.take([[0.0], [1.0]])
    assert both.finish() == (409, {"error": "too few reports"})
    digest = {"persons": 2, "digest": "0"}
    assert both.post(1, "/sums", digest, "peer token")[0] == 409
