"""Whether the text of a value can move the id of an event: pairs of lines with hostile texts.

    python benchmarks/event_lines.py --lines 100000

Each pair is two lines of one id, group and time and of two texts of the values. JSON lines in three
forms and CSV in three (unquoted; quoted; quoted only where needed), the value before the id, before
the group, or last. A CSV header with the id or the group between two values is refused.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter

from privmean.data.text_record import TextFormat
from privmean.streams.record_sources import Reader
from report import publish, table

PIECES = [
    b"nan", b".5", b"1,5", b"1,2,3", b",", b",,", b"-Infinity", b"1e999", b'"', b'""', b'"x', b'x"',
    b'","', b'"a","b', b"'", b"{", b"}", b"[", b"]", b":", b"\\", b"\\\\", b"\xff", b"null", b"",
    b'"\\', b"0x1", b"\r", b"\0", b" ", b"\t", b"3", b"-0", b"u9", b"north", b";", b"\xe2\x80\xa8",
]  # fmt: skip
IDS = [b"u1", b"17", b"Zo\xc3\xab", b"a b", b"x-y", b"nan", b"o'neil", b"u1,2", b'say "hi"', b"0"]
ORDERS = {
    "value first": (b"v", b"p", b"g"),
    "value before the group": (b"p", b"v", b"g"),
    "value last": (b"p", b"g", b"v"),
    "two values first": (b"v", b"w", b"p", b"g"),
    "a column that is not read": (b"v", b"x", b"p", b"g"),
}


def quoted(text: bytes) -> bytes:
    return b'"%b"' % text.replace(b'"', b'""')


def where_needed(text: bytes) -> bytes:
    return quoted(text) if b"," in text or b'"' in text else text


def strings(text: bytes) -> bytes:
    return json.dumps(text.decode("utf-8", "replace")).encode()


def raw(text: bytes) -> bytes:
    """A value as it is: no JSON, as broken writers make it."""
    return text.replace(b'"p"', b"").replace(b'"g"', b"")


CSV = {
    "csv, values as they are": (lambda text: text, where_needed),
    "csv, all in quotes": (quoted, quoted),
    "csv, quotes where needed": (where_needed, where_needed),
}
JSON = {
    "json, strings": (strings, strings),
    "json, values as they are": (raw, strings),
    "json, numbers or null": (lambda text: text if text in (b"3", b"null") else b"1", strings),
}


def hostile(random_: random.Random) -> bytes:
    return b"".join(random_.choice(PIECES) for _ in range(random_.randint(1, 4)))


def line_of(form: str, order: tuple[bytes, ...], texts: dict[bytes, bytes]) -> bytes:
    value, public = (CSV | JSON)[form]
    written = {k: (value if k in (b"v", b"w") else public)(text) for k, text in texts.items()}
    if form in CSV:
        return b",".join(written[key] for key in order)
    return b"{%b}" % b", ".join(b'"%b": %b' % (key, written[key]) for key in order)


def read(form: str, order: tuple[bytes, ...], line: bytes) -> tuple[str | None, ...]:
    kind = "csv" if form in CSV else "jsonl"
    values = tuple(key.decode() for key in order if key in (b"v", b"w"))
    reader = Reader("p", values, kind, TextFormat(), ("g",))
    lines = [b",".join(order), line] if kind == "csv" else [line]
    (event,) = reader.read(lines)
    return event.person, *event.public


def compared(number: int, seed: int) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Pairs by form and order; those whose id or group moved; those where one of a pair lost it."""
    random_ = random.Random(seed)
    pairs: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    kinds = [(form, order) for form in CSV | JSON for order in ORDERS]
    for k in range(number):
        form, order = kinds[k % len(kinds)]
        texts = {key: hostile(random_) for key in ORDERS[order]}
        texts |= {b"p": random_.choice(IDS), b"g": random_.choice([b"north", b"s,t", b"3"])}
        texts |= {b"x": random_.choice([b"", b"note", b"a, b"])} if b"x" in texts else {}
        said = f"{form}; {order}"
        pairs[said] += 1
        calm = {key: b"1" for key in (b"v", b"w") if key in texts}
        one = read(form, ORDERS[order], line_of(form, ORDERS[order], texts))
        two = read(form, ORDERS[order], line_of(form, ORDERS[order], texts | calm))
        assert two == (texts[b"p"].decode(), texts[b"g"].decode()), (form, order, texts, two)
        both = zip(one, two, strict=True)
        moved[said] += any(a not in (b, None) for a, b in both)
        lost[said] += None in one
    return pairs, moved, lost


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    start = time.process_time()
    pairs, moved, lost = compared(said.lines, said.seed)
    took = time.process_time() - start
    rows = [[*key.split("; "), pairs[key], moved[key], lost[key]] for key in pairs]
    words = f"All: {pairs.total()} pairs, {moved.total()} moved, {lost.total()} lost; "
    words += f"{took / pairs.total() * 1e6:.0f} microseconds per pair."
    publish(
        "event-lines",
        "Lines of event files with one hostile field",
        f"{words}\n\n{table(['form', 'order', 'pairs', 'moved', 'lost'], rows)}",
        command=f"python benchmarks/event_lines.py --lines {said.lines} --seed {said.seed}",
    )


if __name__ == "__main__":
    main()
