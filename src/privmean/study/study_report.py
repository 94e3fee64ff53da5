"""The report of a study: one HTML page that needs nothing else, made from what was stored.

Anyone with release.json can make the page again; only the author and the table's name come from
elsewhere, where they are given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from privmean.errors import ArgumentError
from privmean.inference.status import OK, find_status, read_status
from privmean.privacy import older_names
from privmean.privacy.guarantee import RELATION_WORDS, Guarantee, risk_sentence
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.charts import cell, labels, svg
from privmean.release.formatting import assumption_text, people_text, sentences, title
from privmean.release.provenance import NAME
from privmean.release.release import Release
from privmean.release.result_rows import Row

SIDE_CHANNELS = (
    "how long the run took, its use of memory and the sizes of its temporary files",
    "the machine and its operating system: a reader of the table can read it without privmean",
    "the choice of questions, columns, weights and budget, if it depended on the data",
)
LIMITS = (
    "it hides one person with all records; facts about many people together, or about a person "
    "that clustered people reveal, are not hidden",
    "other releases about the same people add to the loss: a ledger adds them up",
    "accuracy depends on the stated assumptions; privacy does not",
)
SLIM = 32  # letters of a name that is not broken into lines
SHORT = 12  # rows of a question that is kept on one page
WAYS = {
    "sums": "basic composition",
    "curves": "numerical composition of all mechanism calls, fixed before data were read",
    "sums of rho": "zCDP composition: the rho of all mechanism calls are added",
}


def page(stored: Mapping[str, Any], *, table: str = "", analyst: str = "") -> str:
    """The report of a stored study. table, analyst: what the page says of them."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError:
        raise ArgumentError("report", None, "requires jinja2", "install jinja2") from None
    text = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        text
    )
    return str(made.render(**_facts(stored, table, analyst)))


def write_report(
    stored: Mapping[str, Any], path: str | Path, *, table: str = "", analyst: str = ""
) -> None:
    """The same, written to a file."""
    Path(path).write_text(page(stored, table=table, analyst=analyst), encoding="utf-8")


def _facts(stored: Mapping[str, Any], table: str, analyst: str) -> dict[str, Any]:
    promise = Guarantee.from_dict(dict(stored["guarantee"]))
    stored = older_names.study(stored)
    shares = {item["name"]: item["share"] for item in stored["plan"]["questions"]}
    made = stored[NAME]
    questions = [_question(item, shares) for item in stored["questions"]]
    return {
        "name": stored["name"],
        "warning": stored.get("warning", ""),
        "time": made["time"].replace("T", " ").replace("+00:00", " UTC"),
        "level": f"{100 * stored['level']:g} %",
        "together": stored["simultaneous"],
        "questions": questions,
        "unanswered": [x["name"] for x in questions if not x["answered"]],
        "flagged": [f"{x['name']} ({x['status']})" for x in questions if x["flagged"]],
        "guarantee": promise.describe(),
        "in_words": risk_sentence(promise),
        "unit": promise.unit,
        "neighbors": RELATION_WORDS[promise.neighbors],
        "parts": _bars(stored, shares),
        "shared": bool(stored["plan"].get("shared_locations")),
        "lines": _lines(promise.mechanisms),
        "digest": made["digest"],
        "signed": made.get("signer"),
        "ledger": made["ledger"],
        "card": _card(stored, promise, table, analyst),
        "side_channels": SIDE_CHANNELS,
        "limits": LIMITS,
    }


def _question(item: Mapping[str, Any], shares: Mapping[str, float]) -> dict[str, Any]:
    status = read_status(item["status"])
    found: dict[str, Any] = {
        "name": item["name"],
        "ask": item["ask"],
        "said": item["options"],
        "status": status,
        "advice": find_status(status).text(advice=item["advice"]),
        "answered": False,
        "flagged": False,
        "short": True,
        "share": f"{shares[item['name']]:.1%}",
        "rows": [],
        "counted": False,
        "slim": False,
        "pictures": [],
    }
    if item["release"] is None:
        return found | {"title": "", "people": "", "assumed": "", "method": ""}
    made = Release.from_dict(item["release"])
    rows = made.rows()
    interval = made.interval()
    answered = any(math.isfinite(row.estimate) for row in rows)
    return found | {
        "answered": answered,
        "flagged": answered and status != OK,
        "advice": find_status(status).text(interval.target, item["advice"]),
        "short": len(rows) <= SHORT,
        "title": title(made),
        "target": interval.target,
        "people": "" if made.n is None else people_text(made),
        "rows": [_cells(name, row) for name, row in zip(labels(rows), rows, strict=True)],
        "counted": len({row.n for row in rows if math.isfinite(row.n)}) > 1,
        "slim": all(len(name) <= SLIM for name in labels(rows)),
        "pictures": [svg(panel, made.level) for panel in _panels(rows) if panel],
        "assumed_briefly": assumption_text(made),
        "assumed": "; ".join(sentences((interval.assumption, *made.assumptions))),
        "method": f"{made.estimator}: {made.plan.rationale}",
        "own": made.guarantee.describe(),
    }


def _panels(rows: Sequence[Row]) -> tuple[Sequence[Row], ...]:
    """What is drawn on one axis: groups and their comparisons apart, and an intercept by itself."""
    if any(row.group for row in rows):
        groups = [row for row in rows if math.isfinite(row.n)]
        return groups, [row for row in rows if not math.isfinite(row.n)]
    if len(rows) > 1 and rows[0].term == "Intercept":
        return rows[:1], rows[1:]
    return (rows,)


def _shortened(words: str) -> str:
    """Long decimals of an accounting to six digits."""
    return re.sub(r"\d+\.\d{4,}", lambda found: f"{float(found[0]):.6g}", words)


def _cells(name: str, row: Row) -> dict[str, str]:
    return {
        "name": name,
        "estimate": cell(row.estimate),
        "error": cell(row.std_error),
        "lower": cell(row.lower),
        "upper": cell(row.upper),
        "noise": "–"
        if math.isnan(row.noise_lower)
        else f"{row.noise_lower:.4g} to {row.noise_upper:.4g}",
        "status": row.status,
        "n": "" if math.isnan(row.n) else f"{max(row.n, 0):.0f}",
    }


def _bars(stored: Mapping[str, Any], shares: Mapping[str, float]) -> list[dict[str, Any]]:
    looks = [
        {
            "name": item["name"],
            "share": f"{item['share']:.1%}",
            "width": 100 * item["share"],
            "budget": f"once, for {', '.join(item['serves'])}",
        }
        for item in stored["plan"].get("shared_locations", [])
    ]
    return looks + [
        {
            "name": item["name"],
            "share": f"{shares[item['name']]:.1%}",
            "width": 100 * shares[item["name"]],
            "budget": _words(item["budget"])
            + (
                f", {_looks(item['shared_locations'])} included"
                if item.get("shared_locations")
                else ""
            ),
        }
        for item in stored["questions"]
    ]


def _looks(columns: Sequence[str]) -> str:
    queries = "query" if len(columns) == 1 else "queries"
    return f"the shared location {queries} of {' and '.join(columns)}"


def _words(budget: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in budget.items() if value)


def _lines(events: Sequence[PrivacyEvent]) -> list[dict[str, str]]:
    """The mechanism calls; equal calls in a row are one line, with their number."""
    found = []
    for loss, same in groupby(events):
        number = len(list(same))
        cost = ", ".join(f"{name} {value:.4g}" for name, value in loss.summary().items())
        found.append(
            {
                "name": loss.name,
                "kind": loss.kind,
                "cost": cost if number == 1 else f"{number} times {cost}",
                "sensitivity": _shortened(loss.what_moved()),
            }
        )
    return found


def _card(
    stored: Mapping[str, Any], promise: Guarantee, table: str, analyst: str
) -> list[tuple[str, str]]:
    """The release card: what a privacy label, a registry of deployments and a reviewer ask for."""
    made, said = stored[NAME], stored.get("card", {})
    charge = made["ledger"]
    versions = ", ".join(f"{name} {value}" for name, value in made["versions"].items() if value)
    engine = made["engine"]
    parameters = (
        f"rho = {promise.rho:g} (zCDP)"
        if promise.rho is not None
        else f"epsilon = {promise.epsilon:g}, delta = {promise.delta:g}"
    )
    kinds = sorted({loss.kind for loss in promise.mechanisms})
    unknown = "not stated"
    return [
        ("Data set", said.get("data") or table or unknown),
        ("State of the data", said.get("date") or unknown),
        ("Holder of the data", said.get("holder") or unknown),
        ("Asked by", analyst or unknown),
        ("Who sees the outputs", said.get("audience") or "readers of this page"),
        ("Contact", said.get("contact") or unknown),
        ("Unit of protection", f"one {promise.unit} with all records"),
        ("Neighboring datasets", f"{promise.neighbors}: {RELATION_WORDS[promise.neighbors]}"),
        ("Treated as public", "; ".join(promise.public) or "nothing"),
        ("Trust model", "central: one curator reads the records, and only noisy answers leave"),
        ("Parameters", parameters),
        ("What they mean", risk_sentence(promise)),
        ("Composition", WAYS.get(stored["plan"]["way"], stored["plan"]["way"])),
        ("Budget period", said.get("period") or "this study; other releases add to it"),
        (
            "Place on the ledger",
            f"entry {charge['number']}, digest {charge['digest']}" if charge else "no ledger",
        ),
        ("Mechanisms", ", ".join(kinds)),
        (
            "Noise",
            "exact discrete samplers (OpenDP), entropy of the system; sums are integers"
            if stored["secure"]
            else "SIMULATED: protects no person",
        ),
        ("Choices from the data", "none outside the mechanisms of the accounting"),
        ("Software", versions),
        ("Engine", " ".join(filter(None, (engine["name"], engine["version"])))),
        ("Run", f"{stored['run']}, {made['time']}"),
    ]
