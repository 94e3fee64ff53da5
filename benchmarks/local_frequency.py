"""Frequencies of real purchases and speed at a million clients, against pure-ldp in one run.

Usage: python benchmarks/local_frequency.py [--peer-python PATH] [--data DIR] [--quick]
       [--store FILE [--seconds S]]
PATH: Python with pure-ldp, as made by python benchmarks/peers.py --setup --only pureldp
FILE keeps finished runs: after a stop, or after S seconds, the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from peers.environments import PURE_LDP
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.item_law import item_law
from privmean.local.round_builders import items_round
from privmean.local.vectorized import tally_many
from report import publish, table

HERE = Path(__file__).resolve().parent


def one_item_a_person(data: Path) -> tuple[np.ndarray, int]:
    """A basket reports one of its items, drawn by a generator that is keyed by the basket."""
    import pyarrow.parquet as pq

    columns = pq.read_table(data / "groceries.parquet", columns=["person_id", "item"])
    names = columns["item"].to_numpy(zero_copy_only=False)
    persons = columns["person_id"].to_numpy()
    codes = np.unique(names, return_inverse=True)[1]
    chosen = []
    for person in np.unique(persons):
        own = np.sort(codes[persons == person])
        chosen.append(own[np.random.default_rng(int(person)).integers(len(own))])
    return np.array(chosen), int(codes.max()) + 1


def peer(python: str, items: np.ndarray, d: int, names: list[str], *, runs: int, seconds: float):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        np.savez(path, items=items, d=d, epsilon=1.0, names=names, runs=runs, seconds=seconds)
        done = subprocess.run(
            [python, HERE / "local_peer.py", path], capture_output=True, text=True, check=True
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.4f} +- {np.std(values) / math.sqrt(len(values)):.4f}"


def compare(mine: list[float], theirs: list[float]) -> str:
    """The ratio of means with its standard error."""
    ratio = np.mean(mine) / np.mean(theirs)
    errors = [np.std(x) / np.mean(x) / math.sqrt(len(x)) for x in (mine, theirs)]
    return f"{ratio:.4f} +- {ratio * math.hypot(*errors):.4f}"


def exact_variances(d: int, epsilon: float) -> str:
    """Variance of one client's number for an item, given the client's item ."""
    subset = item_law(items_round(d, epsilon=epsilon, persons=9, mechanism="subset"), 0)
    e = math.exp(epsilon)
    buckets = round(e) + 1  # optimized local hashing
    own, rare = e / (e + buckets - 1), 1 / buckets
    laws = [
        ("subset selection", subset.own, subset.rare),
        ("optimized unary", 1 / 2, 1 / (e + 1)),
        (f"local hashing, {buckets} buckets", own, rare),
        ("symmetric unary", 1 / (1 + math.exp(-epsilon / 2)), 1 / (1 + math.exp(epsilon / 2))),
    ]
    rows: list[list[object]] = [
        [name, f"{b * (1 - b) / (a - b) ** 2:.4f}", f"{a * (1 - a) / (a - b) ** 2:.4f}"]
        for name, a, b in laws
    ]
    return table(["oracle", "of another item", "of the client's own item"], rows)


def ours(items: np.ndarray, d: int, mechanism: str, runs: int):
    truth = np.bincount(items, minlength=d) / len(items)
    raw, projected, spent = [], [], []
    for _ in range(runs):
        round_ = items_round(d, epsilon=1, persons=len(items), mechanism=mechanism)
        start = time.process_time()
        answer = estimate(tally_many(round_, items, epsilon=1))
        spent.append(time.process_time() - start)
        raw.append(abs(answer.raw - truth).max())
        projected.append(abs(answer.value - truth).max())
    return {"name": mechanism, "raw": raw, "projected": projected, "seconds": spent}


PEERS = [
    ("optimized unary", 240, 20), ("local hashing", 70, 5), ("fast local hashing", 120, 40),
    ("symmetric unary", 40, 20), ("Hadamard response", 10, 10), ("direct", 10, 10),
    ("threshold histogram", 10, 10), ("Hadamard mechanism", 10, 10),
]  # fmt: skip


class Runs:
    """Finished runs by oracle, kept in a file if there is one."""

    def __init__(self, path: Path | None, seconds: float) -> None:
        self.path, self.until = path, time.monotonic() + seconds
        self.kept = json.loads(path.read_text()) if path and path.exists() else {}

    def done(self, name: str, runs: int, batch: int, more: Callable[[int], dict]) -> dict:
        """The answer of `runs` runs, made `batch` at a time; stops when the time is over."""
        answer = self.kept.setdefault(
            name, {"name": name, "raw": [], "projected": [], "seconds": []}
        )
        while "error" not in answer and len(answer["raw"]) < runs:
            if time.monotonic() > self.until:
                sys.exit("not finished: the same command goes on from here")
            new = more(min(batch, runs - len(answer["raw"])))
            if "error" in new:
                answer["error"] = new["error"]
            else:
                for key in ("raw", "projected", "seconds"):
                    answer[key] += new[key]
            if self.path:
                self.path.write_text(json.dumps(self.kept))
        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", default=PURE_LDP.found)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    given = parser.parse_args()
    if given.peer_python is None or not (given.data / "groceries.parquet").exists():
        print(f"left out: {PURE_LDP.title} or {given.data / 'groceries.parquet'} is not there")
        return
    part = 10 if given.quick else 1
    items, d = one_item_a_person(given.data)
    store = Runs(given.store, given.seconds)
    answers = [
        ("privmean", store.done(m, runs // part, 40, lambda k, m=m: ours(items, d, m, k)))
        for m, runs in (("subset", 1000), ("hadamard", 200))
    ]
    theirs = [
        store.done(
            name,
            runs // part,
            batch,
            lambda k, name=name: peer(given.peer_python, items, d, [name], runs=k, seconds=1e9)[0],
        )
        for name, runs, batch in PEERS
    ]
    contenders = [
        answer for answer in theirs if "error" not in answer and len(answer["raw"]) >= 40 // part
    ]
    answers += [("pure-ldp", answer) for answer in theirs]
    rows: list[list[object]] = []
    for who, answer in answers:
        if "error" in answer:
            rows.append([who, answer["name"], answer["error"], "", "", ""])
            continue
        each = 1e6 * np.mean(answer["seconds"]) / len(items)
        rows.append([
            who, answer["name"], spread(answer["raw"]), spread(answer["projected"]),
            f"{each:.2f}", len(answer["raw"]),
        ])  # fmt: skip
    mine = answers[0][1]
    ratios = table(
        ["subset over pure-ldp's", "raw", "both projected", "as answered"],
        [
            [
                answer["name"],
                compare(mine["raw"], answer["raw"]),
                compare(mine["projected"], answer["projected"]),
                compare(mine["projected"], answer["raw"]),
            ]
            for answer in contenders
        ],
    )
    first = (
        f"One item a basket, {len(items)} baskets, {d} items, epsilon 1; largest error against "
        "the shares in these very baskets; secure coins here, ordinary generators there.\n\n"
        + table(["package", "oracle", "raw", "projected", "CPU us a client", "runs"], rows)
        + "\n\nRatio of mean largest errors, with its standard error (as answered: privmean "
        "projects to the simplex, pure-ldp does not):\n\n"
        + ratios
        + "\n\nExact variance of one client's unbiased number:\n\n"
        + exact_variances(d, 1.0)
    )

    n, d = 10**6, 1024
    weights = 1 / np.arange(1, d + 1) ** 1.2
    draws = np.random.default_rng(1).choice(d, n, p=weights / weights.sum())
    truth = np.bincount(draws, minlength=d) / n
    times, errors = [], []
    for _ in range(5):
        round_ = items_round(d, epsilon=1, persons=n)
        start = time.process_time()
        answer = estimate(tally_many(round_, draws, epsilon=1))
        times.append(time.process_time() - start)
        errors.append(abs(answer.raw - truth).max())
        assert answer.secure
    some = draws if not given.quick else draws[:100_000]
    other = peer(given.peer_python, some, d, ["Hadamard response"], runs=1, seconds=1e9)[0]
    slow = other["seconds"][0] / len(some)
    fast = float(np.median(times)) / n
    second = (
        f"{n} clients, d={d}, epsilon 1, Zipf(1.2), randomize and aggregate:\n\n"
        + table(
            ["", "CPU ns a client", "largest error"],
            [
                [
                    "privmean, Hadamard rows, operating system's entropy",
                    f"{1e9 * fast:.0f}",
                    spread(errors),
                ],
                ["pure-ldp, Hadamard response", f"{1e9 * slow:.0f}", f"{other['raw'][0]:.4f}"],
            ],
        )
        + f"\n\n{slow / fast:.0f} times shorter."
    )
    command = "python benchmarks/local_frequency.py" + (" --quick" if given.quick else "")
    publish(
        "local-frequency",
        "Local frequencies against pure-ldp",
        first + "\n\n" + second,
        command=command,
    )


if __name__ == "__main__":
    main()
