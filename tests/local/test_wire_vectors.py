"""The committed vectors of docs/wire-format.md, from both sides."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest
import wire_vectors
from wire_vectors import PATH, SECRET, StatedEntropy, read

from privmean.errors import ArgumentError
from privmean.local.aggregators.aggregator import Aggregator, ReportValidator, TooManyRefused
from privmean.local.clients.client import randomize
from privmean.local.reports import ReportError, Ticket, decode, decode_json, report_size
from privmean.local.round import CODES, Round

VECTORS = json.loads(PATH.read_text())
ROUNDS = {item["name"]: Round.from_json(item["text"]) for item in VECTORS["rounds"]}


def test_the_committed_file_is_what_make_vectors_writes():
    assert wire_vectors.text() == PATH.read_text(), "run `make vectors`, and read what changed"


STRANGE_DECIMALS = {
    "a context of the thread": (
        "decimal.setcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP, Emax=9, Emin=-9))\n"
    ),
    # what every context that does not say otherwise is made after, in all threads
    "the default of all contexts": (
        "default = decimal.DefaultContext\n"
        "default.rounding, default.clamp = decimal.ROUND_UP, 1\n"
        "for signal in default.traps: default.traps[signal] = True\n"
        "decimal.setcontext(default.copy())\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("strange", STRANGE_DECIMALS.values(), ids=STRANGE_DECIMALS)
def test_the_decimals_of_the_caller_change_nothing(strange):
    """The thresholds and the texts of rounds are computed with a precision of their own, and no
    signal of decimal arithmetic is raised on the way to a report."""
    said = (
        f"import decimal, sys\n{strange}"
        f"sys.path[:0] = {[str(PATH.parent.parent / 'local')]!r}\n"
        "import wire_vectors\n"
        "print(wire_vectors.text() == wire_vectors.PATH.read_text())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, text=True, check=False
    )  # a process of its own: thresholds are remembered
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("case", VECTORS["rounds_refused"], ids=lambda case: case["why"])
def test_what_is_no_round_is_refused(case):
    with pytest.raises(ArgumentError):
        Round.from_json(case["text"])


def test_reports_are_reproduced_from_their_coins():
    answered = set()
    for case in VECTORS["reports"]:
        round_ = ROUNDS[case["round"]]
        ticket = Ticket.from_text(case["ticket"]) if "ticket" in case else None
        report = randomize(
            round_,
            read(case["value"]),
            epsilon=case["epsilon"],
            ticket=ticket,
            entropy=StatedEntropy(case["coins"]),
            **({"point": case["point"]} if "point" in case else {}),
        )
        assert report.hex() == case["report"], case["coins"]
        if "json" in case:
            assert decode(report).to_json() == case["json"]
            assert decode_json(case["json"]) == decode(report)
        answered.add(round_.mechanism)
    assert answered == set(CODES)


def test_a_client_of_every_mechanism_needs_no_numerical_library(tmp_path):
    """Rounds are read, answered, kept and queued with the standard library alone."""
    said = (
        "import json, sys\n"
        "from privmean.local import Client, Ledger, Outbox, Round\n"
        "from privmean.local.clients import send\n"
        "from privmean.local.clients.client import randomize\n"
        f"known = json.load(open({str(PATH)!r}))['rounds']\n"
        "rounds = [Round.from_json(item['text']) for item in known]\n"
        "for r in rounds:\n"
        "    if not r.issued:\n"
        "        point = 0 if r.points else None\n"
        "        randomize(r, [0.5, 1, 2], epsilon=r.menu[-1] * r.messages, point=point)\n"
        "client = Client(epsilon=1, ledger=Ledger('ledger', limit=1))\n"
        "Outbox('outbox').put('http://127.0.0.1:9', rounds[0], client.report(rounds[0], 7))\n"
        "heavy = {'numpy', 'scipy', 'duckdb', 'opendp', 'narwhals', 'fastapi', 'sqlalchemy'}\n"
        "print(len(rounds), sorted(heavy & {m.split('.')[0] for m in sys.modules}))\n"
        "print([m for m in sys.modules if 'aggregators' in m])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", said], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{len(ROUNDS)} []\n[]\n"


def test_every_report_is_counted_by_an_aggregator():
    for name, round_ in ROUNDS.items():
        mine = [bytes.fromhex(c["report"]) for c in VECTORS["reports"] if c["round"] == name]
        server = Aggregator(round_, secret=SECRET if round_.issued else None)
        receipt = server.add(b"".join(mine))
        assert (receipt.accepted, receipt.rejected) == (len(mine), {}), name


@pytest.mark.parametrize("case", VECTORS["judged"], ids=lambda case: case["why"])
def test_the_gate_says_the_stated_word(case):
    round_, data = ROUNDS[case["round"]], bytes.fromhex(case["report"])
    gate = ReportValidator(round_, secret=SECRET if round_.issued else None)
    assert gate.reason(data, now=case.get("now")) == case["reason"]
    if len(data) != report_size(round_):
        return  # as a body it would be taken apart otherwise
    words = [case["reason"]] if case["reason"] else []
    parsed = gate.parse(data, now=case.get("now"))
    assert list(parsed.refused.elements()) == words
    assert len(parsed.batch) == (not words)
    try:
        line = decode(data).to_json().encode()
    except ReportError:
        return
    parsed = gate.parse_json(line, now=case.get("now"))
    assert list(parsed.refused.elements()) == words


def test_bodies_are_taken_apart_as_stated():
    for case in VECTORS["streams"]:
        gate = ReportValidator(ROUNDS[case["round"]])
        if "body" in case:
            body, parse = bytes.fromhex(case["body"]), gate.parse
        elif "json_bytes" in case:
            body, parse = bytes.fromhex(case["json_bytes"]), gate.parse_json
        else:
            body, parse = case["json_lines"].encode(), gate.parse_json
        parsed = parse(body)
        assert parsed.refused == Counter(reason for _, reason in case["refused"])
        assert len(parsed.batch) == case["accepted"]
        odd = sum(reason != "damaged" for _, reason in case["refused"])
        if odd:
            with pytest.raises(TooManyRefused):
                parse(body, most_odd=odd - 1)
