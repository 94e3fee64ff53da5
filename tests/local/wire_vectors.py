"""Writes tests/vectors/wire.json: what every implementation of docs/wire-format.md must agree with.

    make vectors

Cases are data of that file: rounds, values, texts and reports as a faulty client would send them,
and the words by which these are refused, which tests hold the gate to. A new case is written there;
what follows from it (a digest, a size, a threshold, a draw, a report) is computed here.

Nothing is random: coins named NAME are the bytes of SHAKE-128 of "privmean-vectors:NAME".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
import zlib
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from privmean.local.clients.client import randomize
from privmean.local.clients.randomizers import (
    bit_threshold,
    code_direction,
    hybrid_share,
    public_words,
    sketch_sign,
    subset_size,
    subset_threshold,
    window,
)
from privmean.local.exact_coins import below, flip_threshold, normals, odds_threshold
from privmean.local.reports import Ticket, decode, payload_size, report_size, ticket_key
from privmean.local.round import CHOSEN, ClientSplit, Round
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round

LEVELS = [0.1, 0.5, 1, 2, 4, 8]
# builders of rounds are held to these; the others are read as they stand in the file
BUILT = {
    "one bit, odd levels": partial(mean_round, 0, 1, epsilon=["1/3", "0.3333333333", "7/5"]),
    "one bit, ladder": partial(
        mean_round, 0, 24, mechanism="one-bit", epsilon=["0.1", 4], step="0.001", sigma=(1.5,)
    ),
    "ball bit": partial(ball_round, 2.5, 5, mechanism="ball-bit", epsilon=LEVELS),
    "hadamard": partial(items_round, 11, mechanism="hadamard", epsilon=LEVELS),
    "votes, hadamard": partial(
        vote_round, [0, -5], [1, 5], 7, mechanism="hadamard", epsilon=[0.5, 1]
    ),
}

PATH = Path(__file__).resolve().parent.parent / "vectors" / "wire.json"
SECRET = bytes(range(32))


def stated(name: str, size: int) -> bytes:
    return hashlib.shake_128(b"privmean-vectors:" + name.encode()).digest(size)


class StatedEntropy:
    """The coins of a name, one after the other. NOT PRIVATE."""

    secure = False

    def __init__(self, name: str, size: int = 1 << 14) -> None:
        self._data, self._place = stated(name, size), 0

    def bytes(self, size: int) -> bytes:
        self._place += size
        assert self._place <= len(self._data)
        return self._data[self._place - size : self._place]

    def word(self) -> int:
        return int.from_bytes(self.bytes(8), "little")


def written(value: object) -> object:
    """A value in JSON: what has no number there is an object that names it."""
    if isinstance(value, list):
        return [written(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": repr(value)}
    if isinstance(value, int) and abs(value) > 2**53:
        return {"integer": str(value)}
    return value


def read(value: object) -> object:
    if isinstance(value, list):
        return [read(item) for item in value]
    if isinstance(value, dict):
        return float(value["double"]) if "double" in value else int(value["integer"])
    return value


def hashed(case: dict[str, Any]) -> dict[str, object]:
    data, key, person = bytes.fromhex(case["data"]), stated("key", 32), b"privmean-vector"
    keyed = hashlib.blake2b(data, digest_size=20, key=key, person=person)
    return {
        "data": data.hex(),
        "blake2b": hashlib.blake2b(data).hexdigest(),
        "blake2b_keyed": keyed.hexdigest(),
        "shake128": hashlib.shake_128(data).hexdigest(200),
        "sha256": hashlib.sha256(data).hexdigest(),
        "hmac_sha256": hmac.digest(key, data, "sha256").hex(),
        "crc32": zlib.crc32(data),
    }


def threshold(case: dict[str, Any]) -> dict[str, object]:
    odds = [(item["favoured"], item["other"]) for item in case["odds"]]
    domains = [item["items"] for item in case["subset"]]
    points = [item["x"] for item in case["one_bit"]]
    return thresholds_of(Fraction(case["epsilon"]), case["epsilon"], odds, domains, points)


def thresholds_of(
    epsilon: Fraction,
    text: str,
    odds: Iterable[tuple[int, int]],
    domains: Iterable[int],
    points: Iterable[float],
) -> dict[str, object]:
    """The thresholds of one epsilon, for these odds, numbers of items and values."""
    law = window(epsilon)
    return {
        "epsilon": text,
        "flip": str(flip_threshold(epsilon)),
        "odds": [
            {"favoured": a, "other": b, "threshold": str(odds_threshold(epsilon, a, b))}
            for a, b in odds
        ],
        "window": {"width": law.width, "threshold": str(law.threshold)},
        "hybrid_share": hybrid_share(epsilon),
        "subset": [
            {
                "items": items,
                "size": subset_size(epsilon, items),
                "threshold": str(subset_threshold(epsilon, items)),
            }
            for items in domains
        ],
        "one_bit": [{"x": x, "threshold": str(bit_threshold(epsilon, x))} for x in points],
    }


def integer(case: dict[str, Any]) -> dict[str, object]:
    return drawn_below(int(case["bound"]), case["coins"], len(case["drawn"]))


def drawn_below(bound: int, coins: str, count: int) -> dict[str, object]:
    entropy = StatedEntropy(coins)
    drawn = [str(below(entropy, bound)) for _ in range(count)]
    return {"bound": str(bound), "coins": coins, "drawn": drawn}


def digested(case: dict[str, Any]) -> dict[str, object]:
    round_ = Round.from_json(case["text"])
    if case["name"] in BUILT:
        round_ = BUILT[case["name"]](persons=1000, seed=round_.seed)
    return {
        "name": case["name"],
        "text": round_.to_json(),
        "digest": round_.digest.hex(),
        "payload_size": payload_size(round_),
        "report_size": report_size(round_),
    }


def reported(known: dict[str, Round], case: dict[str, Any]) -> dict[str, object]:
    round_ = known[case["round"]]
    level = round_.menu.index(Fraction(case["epsilon"]) / round_.messages)
    value, coins, point = read(case["value"]), case["coins"], case.get("point")
    entry = answered(case["round"], round_, value, level, coins, point)
    if "json" in case:
        entry["json"] = decode(bytes.fromhex(str(entry["report"]))).to_json()
    return entry


def answered(
    name: str, round_: Round, value: object, level: int, coins: str, point: int | None
) -> dict[str, object]:
    """A report on a value, from stated coins; with a ticket where the round issues them."""
    epsilon = round_.menu[level] * round_.messages
    entry: dict[str, object] = {
        "round": name,
        "value": written(value),
        "epsilon": str(epsilon),
        "coins": coins,
    }
    if point is not None:
        entry["point"] = point
    ticket = None
    if round_.issued:
        nonce = stated(f"nonce {coins}", 16)
        ticket = Ticket(
            round_.identifier, nonce, level, ticket_key(SECRET, round_.identifier, nonce, level)
        )
        entry["ticket"] = ticket.to_text()
    entropy = StatedEntropy(coins)
    report = randomize(round_, value, epsilon=epsilon, ticket=ticket, entropy=entropy, point=point)
    return {**entry, "report": report.hex()}


def assigned(known: dict[str, Round], case: dict[str, Any]) -> dict[str, object]:
    """What a nonce decides, with no value and no coin."""
    round_, nonce = known[case["round"]], bytes.fromhex(case["nonce"])
    entry: dict[str, object] = {"round": case["round"], "nonce": nonce.hex()}
    if round_.rows is not None and round_.row_choice != CHOSEN:
        entry["row"] = round_.row(nonce)
        if round_.mechanism == "sketch":
            entry["signs"] = [sketch_sign(round_.seed, round_.row(nonce), v) for v in range(8)]
    if round_.coordinates > 1:
        entry["coordinate"] = round_.coordinate(nonce)
    if round_.mechanism == "hybrid":
        entry["branch"] = round_.selector(nonce) >> 32
    if round_.mechanism == "ball-bit":
        data = public_words(round_, nonce)
        words = struct.unpack(f"<{len(data) // 8}Q", data)
        entry["direction"] = normals(list(words))[: round_.dimension]
    if round_.mechanism == "closest":
        last = (round_.candidates or 2) // 2 - 1
        entry["directions"] = {k: code_direction(round_, nonce, k) for k in (0, last)}
    return entry


def part(case: dict[str, Any]) -> dict[str, object]:
    """The part of the clients that a person is in."""
    seed, shares = bytes.fromhex(case["seed"]), tuple(case["shares"])
    parts = [ClientSplit(seed, shares, k) for k in range(len(shares))]
    return {**case, "index": [item.chosen(case["identity"]) for item in parts].index(True)}


def vectors() -> dict[str, object]:
    """The committed file, with what follows from its cases computed anew."""
    cases = json.loads(PATH.read_text())
    known = {case["name"]: Round.from_json(case["text"]) for case in cases["rounds"]}
    return cases | {
        "hashes": [hashed(case) for case in cases["hashes"]],
        "thresholds": [threshold(case) for case in cases["thresholds"]],
        "integers": [integer(case) for case in cases["integers"]],
        "rounds": [digested(case) for case in cases["rounds"]],
        "parts": [part(case) for case in cases["parts"]],
        "assigned": [assigned(known, case) for case in cases["assigned"]],
        "reports": [reported(known, case) for case in cases["reports"]],
    }


def text() -> str:
    """One entry a line, so that a change can be read."""
    sections = []
    for name, value in vectors().items():
        if isinstance(value, list):
            lines = ",\n  ".join(json.dumps(item) for item in value)
            sections.append(f' "{name}": [\n  {lines}\n ]')
        else:
            sections.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(sections) + "\n}\n"


if __name__ == "__main__":
    PATH.write_text(text())
