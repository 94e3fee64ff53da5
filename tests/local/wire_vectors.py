"""Writes tests/vectors/wire.json: what every implementation of docs/wire-format.md must agree with.

    make vectors

Nothing is random: coins named NAME are the bytes of SHAKE-128 of "privmean-vectors:NAME". Words of
refusal are stated here by hand, and tests hold the gate to them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

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
from privmean.local.exact_coins import WORD, below, flip_threshold, normals, odds_threshold
from privmean.local.reports import (
    HEADER,
    HEADER_SIZE,
    Report,
    Ticket,
    authentication,
    decode,
    payload_size,
    report_size,
    ticket_key,
)
from privmean.local.round import CHOSEN, RETIRED, SCALARS, ClientSplit, Round
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round

PATH = Path(__file__).resolve().parent.parent / "vectors" / "wire.json"
SECRET = bytes(range(32))
LEVELS = ["1/1000", "1/10", "1/3", "1/2", "61/100", "1", "2", "5/2", "4", "8", "16"]


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


def rounds() -> dict[str, Round]:
    """One round a mechanism and more, each with a seed of its own."""
    two, six = [0.5, 1], [0.1, 0.5, 1, 2, 4, 8]
    mean, ball, items, votes = (
        partial(partial, build) for build in (mean_round, ball_round, items_round, vote_round)
    )
    bit = partial(mean, mechanism="one-bit")
    lower, upper = [0, -1, 1e-5, -0.0], [1, 1, 1e16, 123456.789]
    part = ClientSplit(stated("seed part", 32), (20, 80), 1)
    odd = 'Größe "\u2028\\ \U0001f600\x7f\n'
    near = {"mechanism": "closest", "candidates": 32, "favoured": (12, 4, 1)}
    ladder = {"epsilon": ["0.1", 4], "step": "0.001", "sigma": (1.5,)}
    chosen = {"row_choice": CHOSEN, "epsilon": two}
    asked = {
        "one bit": bit(0, 24, epsilon=two, title="Hours of sleep"),
        "one bit, four coordinates": bit(lower, upper, epsilon=six, title=odd),
        "one bit, tickets": bit(-1, 1, epsilon=two, issued=True),
        "one bit, part of the clients": bit(0, 1, epsilon=1, part=part),
        "one bit, two messages": bit(0, 1, epsilon=[0.5, 1], messages=2),
        "one bit, deadline": bit(0, 1, epsilon=1, closes=1_800_000_000),
        "one bit, odd levels": bit(0, 1, epsilon=["1/3", "0.3333333333", "7/5"]),
        "piecewise": mean(0, 24, epsilon=six, mechanism="piecewise"),
        "hybrid": mean([0, 0], [1, 9], epsilon=six, mechanism="hybrid"),
        "ball bit": ball(2.5, 5, mechanism="ball-bit", epsilon=six),
        "ball bit, one dimension": ball(1, 1, mechanism="ball-bit", epsilon=1),
        "closest": ball(2.5, 5, epsilon=[1, 4, 8], **near),
        "closest, two dimensions": ball(
            1, 2, epsilon=2, **{**near, "candidates": 2, "favoured": (1,)}
        ),
        "one bit, ladder": bit(0, 24, **ladder),
        "one bit, curve": bit(0, 1, epsilon=two, points=(-1.5, 0, 1e-5, 2)),
        "hybrid, curve": mean(0, 1, epsilon=two, points=(0, 0.25, 0.5), mechanism="hybrid"),
        "hadamard": items(11, epsilon=six, mechanism="hadamard"),
        "hadamard, own rows": items(11, mechanism="hadamard", other=10, **chosen),
        "sketch": items(2**40, epsilon=six, mechanism="sketch", rows=2048),
        "sketch, own rows": items(1000, mechanism="sketch", rows=1024, **chosen),
        "subset": items(13, epsilon=six, mechanism="subset"),
        "subset, two items": items(2, epsilon=six, mechanism="subset"),
        "votes": votes(-10, 10, 9, mechanism="subset", epsilon=two),
        "votes, hadamard": votes([0, -5], [1, 5], 7, epsilon=two, mechanism="hadamard"),
    }
    return {
        name: make(persons=1000, seed=stated(f"seed {name}", 32)) for name, make in asked.items()
    }


def hashes() -> list[dict[str, object]]:
    result = []
    for size in (0, 1, 55, 56, 63, 64, 127, 128, 129, 167, 168, 300):
        data = stated(f"data {size}", size)
        key, person = stated("key", 32), b"privmean-vector"
        result.append(
            {
                "data": data.hex(),
                "blake2b": hashlib.blake2b(data).hexdigest(),
                "blake2b_keyed": hashlib.blake2b(
                    data, digest_size=20, key=key, person=person
                ).hexdigest(),
                "shake128": hashlib.shake_128(data).hexdigest(200),
                "sha256": hashlib.sha256(data).hexdigest(),
                "hmac_sha256": hmac.digest(key, data, "sha256").hex(),
                "crc32": zlib.crc32(data),
            }
        )
    return result


def thresholds() -> list[dict[str, object]]:
    odds = ((1, 1), (1, 1000), (3, 10), (2**20, 5))
    points = (-1.0, -0.7, -1e-300, 0.0, 5e-324, 0.1, 1 / 3, 1.0)
    return [thresholds_of(Fraction(text), text, odds, (2, 3, 16, 1000), points) for text in LEVELS]


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


def integers() -> list[dict[str, object]]:
    bounds = (1, 2, 3, 7, 1000, 2**32 + 1, 2**63 + 1, WORD - 1, WORD, WORD + 1, 3**90)
    return [drawn_below(bound, f"below {bound}", 12) for bound in bounds]


def drawn_below(bound: int, coins: str, count: int) -> dict[str, object]:
    entropy = StatedEntropy(coins)
    drawn = [str(below(entropy, bound)) for _ in range(count)]
    return {"bound": str(bound), "coins": coins, "drawn": drawn}


def values_for(round_: Round) -> list[object]:
    odd: list[object] = [None, "", "seven", math.nan, math.inf, -math.inf, 10**400, True]
    if round_.mechanism in SCALARS or round_.bins is not None:
        if round_.coordinates == 1:
            return [0, 7.5, -3, 23.999, 1e300, 5e-324, [0.25], [1, 2], *odd]
        points = [0.3 * (k + 1) for k in range(round_.coordinates)]
        return [points, [math.nan] * round_.coordinates, [math.inf] * round_.coordinates, 5, *odd]
    if round_.dimension is not None:
        d = round_.dimension
        point = [0.7 - 0.3 * k for k in range(d)]
        far = [1e300 * (-1) ** k for k in range(d)]
        some = [point, [0.0] * d, far, [5e-324] * d, [math.inf, *point[1:]], [math.nan] * d, 3]
        return [*some, [1.0] * (d + 1), *odd]
    return [0, 1, (round_.items or 2) - 1, round_.items, -1, 1.5, 0.0, [1], *odd]


def reports(known: dict[str, Round]) -> list[dict[str, object]]:
    result = []
    for name, round_ in known.items():
        for k, value in enumerate(values_for(round_)):
            level = k * 37 % len(round_.menu) if round_.step else k % len(round_.menu)
            point = k % len(round_.points) if round_.points else None
            entry = answered(name, round_, value, level, f"{name} {k}", point)
            if k == 0:
                entry["json"] = decode(bytes.fromhex(str(entry["report"]))).to_json()
            result.append(entry)
    return result


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


def assigned(known: dict[str, Round]) -> list[dict[str, object]]:
    """What a nonce decides, with no value and no coin."""
    result = []
    for name, round_ in known.items():
        for k in range(2):
            nonce = stated(f"assigned {name} {k}", 16)
            entry: dict[str, object] = {"round": name, "nonce": nonce.hex()}
            if round_.rows is not None and round_.row_choice != CHOSEN:
                entry["row"] = round_.row(nonce)
                if round_.mechanism == "sketch":
                    entry["signs"] = [
                        sketch_sign(round_.seed, round_.row(nonce), v) for v in range(8)
                    ]
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
            if len(entry) > 2:
                result.append(entry)
    return result


def parts() -> list[dict[str, object]]:
    seed, shares = stated("seed parts", 32), (20, 30, 50)
    every = [ClientSplit(seed, shares, k) for k in range(3)]
    names = ["", "ada", "Zoë", "\u65e5\u672c", "\U0001f600", "a" * 200, "\ud800"]
    return [
        {
            "seed": seed.hex(),
            "shares": list(shares),
            "identity": name,
            "index": [part.chosen(name) for part in every].index(True),
        }
        for name in names
    ]


def texts_refused(known: dict[str, Round]) -> list[dict[str, str]]:
    """Texts that are no rounds, and why."""
    plain = known["one bit"].to_dict()

    def changed(**changes: object) -> str:
        return json.dumps({**plain, **changes})

    cases = {
        "no object": "[]",
        "no JSON": "{",
        "a key twice": changed().replace("{", '{"persons": 9, ', 1),
        "a key twice, once escaped": changed().replace("{", '{"person\\u0073": 9, ', 1),
        "a byte-order mark": "\ufeff" + changed(),
        "a number beyond all doubles": changed().replace('"upper": [24.0]', '"upper": [1e999]'),
        "another version": changed(version=2),
        "another format": changed(format="something"),
        "an unknown field": changed(colour="red"),
        "an unknown mechanism": changed(mechanism="magic"),
        "no level": changed(menu=[]),
        "levels that fall": changed(menu=["1", "0.5"]),
        "a level twice": changed(menu=["1", "1.0"]),
        "a level too small": changed(menu=["0.0009"]),
        "a level too large": changed(menu=["16.1"]),
        "a level that is no number": changed(menu=["1e999999999"]),
        "no persons": changed(persons=0),
        "half a person": changed(persons=1.5),
        "too many persons": changed(persons=2**30 + 1),
        "a short seed": changed(seed="00"),
        "beta above one half": changed(beta=0.6),
        "bounds in the wrong order": changed(lower=[2], upper=[1]),
        "bounds that do not match": changed(lower=[0, 0]),
        "bounds that are no list": changed(lower=0),
        **{f"a retired mechanism, {name}": changed(mechanism=name) for name in RETIRED},
        "a retired field": changed(grid_bits=12),
        "a title that is none": changed(title=5),
        "issued that is neither true nor false": changed(issued=1),
        "too many messages": changed(messages=65),
        "a part without a share": changed(part={"seed": "00" * 32, "shares": [], "index": 0}),
        "a key of a part twice": changed(
            part={"seed": "00" * 32, "shares": [1], "index": 0}
        ).replace('"index"', '"shares": [1], "index"'),
        "a part beyond its shares": changed(part={"seed": "00" * 32, "shares": [1], "index": 1}),
        "a choice of rows that is none": changed(row_choice="any"),
    }
    ball, item = known["ball bit"].to_dict(), known["hadamard"].to_dict()
    cases |= {
        "tickets and rows of one's own": json.dumps(
            {**item, "issued": True, "row_choice": "chosen"}
        ),
        "a step of no ladder": changed(step="0.3"),
        "a ladder of one level": changed(menu=["1"], step="0.1"),
        "a ladder too long": changed(menu=["0.001", "16"], step="0.0005"),
        "a ladder for items": json.dumps({**item, "step": "0.1"}),
        "a spread of nothing": changed(sigma=[0]),
        "two spreads of one coordinate": changed(sigma=[1, 1]),
        "points that fall": changed(points=[1, 0]),
        "points of two coordinates": changed(lower=[0, 0], upper=[1, 1], points=[0, 1]),
        "points of items": json.dumps({**item, "points": [0, 1]}),
    }
    near = known["closest"].to_dict()
    cases["candidates that are no power of two"] = json.dumps({**near, "candidates": 33})
    cases["too many candidates"] = json.dumps({**near, "candidates": 2048})
    cases["one favoured size for three levels"] = json.dumps({**near, "favoured": [1]})
    cases["more than half favoured"] = json.dumps({**near, "favoured": [17, 4, 1]})
    cases["no candidate favoured"] = json.dumps({**near, "favoured": [12, 4, 0]})
    cases["a line of candidates"] = json.dumps({**near, "dimension": 1})
    cases["a ball of no radius"] = json.dumps({**ball, "radius": 0})
    cases["a ball of no dimension"] = json.dumps({**ball, "dimension": 0})
    cases["a single item"] = json.dumps({**item, "items": 1})
    cases["rows that are no power of two"] = json.dumps({**item, "rows": 12})
    cases["fewer rows than items"] = json.dumps({**item, "rows": 8})
    cases["another item that is none"] = json.dumps({**item, "other": 11})
    return [{"why": why, "text": text} for why, text in cases.items()]


def report_of(round_: Round, payload: bytes, *, level: int = 0, **parts: object) -> Report:
    given = {"mechanism": round_.code, "round_id": round_.identifier, "nonce": bytes(16), **parts}
    return Report(level=level, payload=payload, **given)  # type: ignore[arg-type]


def repacked(data: bytes, place: int, change: bytes) -> bytes:
    """A report with other header bytes and a right checksum."""
    head = bytearray(data[: HEADER.size])
    head[place : place + len(change)] = change
    payload = data[HEADER_SIZE:]
    return bytes(head) + struct.pack("<I", zlib.crc32(payload, zlib.crc32(bytes(head)))) + payload


def judged(known: dict[str, Round]) -> list[dict[str, object]]:
    """Single reports and the word of the gate; "" is accepted. `now` is the time it was read."""
    result: list[dict[str, object]] = []

    def case(name: str, why: str, data: bytes, reason: str, now: int | None = None) -> None:
        entry: dict[str, object] = {"round": name, "why": why, "report": data.hex()}
        result.append({**entry, "reason": reason} | ({} if now is None else {"now": now}))

    plain = known["one bit"]
    good = report_of(plain, b"\1").to_bytes()
    case("one bit", "as it should be", good, "")
    case("one bit", "nothing", b"", "truncated")
    case("one bit", "a header cut short", good[:41], "truncated")
    case("one bit", "no payload", good[:42], "wrong length")
    case("one bit", "a byte too many", good + b"\0", "wrong length")
    case("one bit", "other magic", b"XD" + good[2:], "not a report")
    case("one bit", "another version", repacked(good, 2, b"\2"), "unknown version")
    case("one bit", "mechanism 0", repacked(good, 3, b"\0"), "unknown mechanism")
    case("one bit", "mechanism 200", repacked(good, 3, b"\xc8"), "unknown mechanism")
    for retired, code in RETIRED.items():
        data = repacked(good, 3, bytes([code]))
        case("one bit", f"a retired mechanism, {retired}", data, "retired mechanism")
    case("one bit", "another mechanism", repacked(good, 3, b"\4"), "wrong round")
    case("one bit", "another round", repacked(good, 4, bytes(8)), "wrong round")
    case("one bit", "a level beyond the menu", repacked(good, 28, b"\2\0"), "unknown level")
    case("one bit", "a reserved byte", repacked(good, 37, b"\1"), "reserved field used")
    case("one bit", "a bit flipped", good[:-1] + b"\0", "damaged")
    case("one bit", "a long payload", report_of(plain, b"\1\0").to_bytes(), "wrong length")
    case("one bit", "a code nobody asked", good + bytes(32), "wrong length")
    case("one bit", "a bit that is two", report_of(plain, b"\2").to_bytes(), "out of range")
    late = known["one bit, deadline"]
    good = report_of(late, b"\0").to_bytes()
    case("one bit, deadline", "the last second", good, "", now=1_800_000_000)
    case("one bit, deadline", "after it", good, "late", now=1_800_000_001)

    issued, nonce = known["one bit, tickets"], stated("nonce", 16)
    body = report_of(issued, b"\1", nonce=nonce, level=1)
    for level, reason in ((1, ""), (0, "not issued")):
        key = ticket_key(SECRET, issued.identifier, nonce, level)
        mac = authentication(key, body.body())
        why = "a ticket" if level == 1 else "a ticket of another level"
        case("one bit, tickets", why, replace(body, mac=mac).to_bytes(), reason)
    case("one bit, tickets", "no ticket", body.to_bytes(), "wrong length")

    def payloads(name: str, *cases: tuple[str, bytes, str], level: int = 0) -> None:
        for why, payload, reason in cases:
            case(name, why, report_of(known[name], payload, level=level).to_bytes(), reason)

    i4 = struct.Struct("<i").pack
    payloads(
        "piecewise",
        ("the largest", i4(2**15), ""),
        ("the least", i4(-(2**15)), ""),
        ("beyond", i4(2**15 + 1), "out of range"),
    )
    payloads("hybrid", ("a bit of 1", i4(1), ""), ("a bit of 0", i4(0), "out of range"))
    payloads("ball bit", ("a bit", b"\0", ""), ("no bit", b"\xff", "out of range"))
    payloads(
        "closest",
        ("the last candidate", b"\x1f\0", ""),
        ("a candidate too many", b"\x20\0", "out of range"),
    )
    payloads(
        "one bit, curve",
        ("the last point", b"\3\0\0\0\1", ""),
        ("a point too many", b"\4\0\0\0\1", "out of range"),
        ("no bit at a point", b"\0\0\0\0\2", "out of range"),
    )
    payloads("hybrid, curve", ("a bit of 0 at a point", bytes(8), "out of range"))
    payloads("one bit, ladder", ("the last step", b"\1", ""), level=3900)
    payloads("one bit, ladder", ("a step too far", b"\1", "unknown level"), level=3901)
    payloads("hadamard", ("a bit", b"\1", ""), ("no bit", b"\3", "out of range"))
    payloads(
        "hadamard, own rows",
        ("the last row", b"\x0f\0\0\0\1", ""),
        ("a row too many", b"\x10\0\0\0\1", "out of range"),
    )
    size = subset_size(known["subset"].menu[2], 13)
    some = ((1 << size) - 1).to_bytes(2, "little")
    payloads(
        "subset",
        ("as many items as the level says", some, ""),
        (
            "one item fewer",
            (int.from_bytes(some, "little") >> 1).to_bytes(2, "little"),
            "out of range",
        ),
        (
            "an item beyond the last",
            (int.from_bytes(some, "little") >> 1 | 1 << 13).to_bytes(2, "little"),
            "out of range",
        ),
        level=2,
    )
    return result


def streams(known: dict[str, Round]) -> list[dict[str, object]]:
    """Bodies of requests: what is counted, and what is refused at which place."""
    plain, other = known["one bit"], known["piecewise"]
    a, b = (
        report_of(plain, bytes([k]), nonce=stated(f"stream {k}", 16)).to_bytes() for k in (0, 1)
    )
    alien = report_of(other, bytes(4)).to_bytes()
    line = decode(a).to_json().encode()
    return [
        {"round": "one bit", "body": (a + b).hex(), "accepted": 2, "refused": []},
        {
            "round": "one bit",
            "body": (b"noise" * 9 + a + alien + b[:-1] + b"\7" + b + a[:20]).hex(),
            "accepted": 2,
            "refused": [[0, "not a report"], [2, "wrong round"], [3, "damaged"], [5, "truncated"]],
        },
        {
            "round": "one bit",
            "json_lines": (
                line + b"\r\n\n{}\n" + line.replace(b'"level":0', b'"level":true')
            ).decode(),
            "accepted": 1,
            "refused": [[1, "not a report"], [2, "unknown level"]],
        },
        # bytes that one reader takes and another does not: doubled keys, other encodings
        {
            "round": "one bit",
            "json_bytes": b"\n".join(
                [
                    line.replace(b"{", b'{"level":1,', 1),
                    line.replace(b"{", b'{"level":0,', 1),
                    line.replace(b"{", b'{"\\u006cevel":1,', 1),
                    b"\xef\xbb\xbf" + line,
                    line.decode().encode("utf-16-le"),
                    line.decode().encode("utf-32-be"),
                    line.replace(b"one-bit", b"one-bit\xff"),
                    line.replace(b'"level":0', b'"level":0.0'),
                    line.replace(b'"level":0', b'"level":NaN'),
                    b"[" + line + b"]",
                    b" " + line.replace(b",", b" , ") + b"\t",
                ]
            ).hex(),
            "accepted": 1,
            "refused": [
                *([k, "not a report"] for k in range(7)),
                [7, "unknown level"],
                [8, "not a report"],
                [9, "not a report"],
            ],
        },
    ]


def vectors() -> dict[str, object]:
    known = rounds()
    return {
        "format": "privmean wire vectors",
        "version": 1,
        "secret": SECRET.hex(),
        "hashes": hashes(),
        "thresholds": thresholds(),
        "integers": integers(),
        "rounds": [
            {
                "name": name,
                "text": round_.to_json(),
                "digest": round_.digest.hex(),
                "payload_size": payload_size(round_),
                "report_size": report_size(round_),
            }
            for name, round_ in known.items()
        ],
        "rounds_refused": texts_refused(known),
        "parts": parts(),
        "assigned": assigned(known),
        "reports": reports(known),
        "judged": judged(known),
        "streams": streams(known),
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
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text())
