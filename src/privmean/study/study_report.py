"""The report of a study: two pages for its readers, an appendix for who checks it, and Markdown.

All are made from what was stored: anyone with release.json can make them again. Only the author and
the table's name come from elsewhere, where they are given. Advice to the analyst is in the appendix
alone.
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
from privmean.output import marked, percent
from privmean.privacy import older_names
from privmean.privacy.guarantee import RELATION_WORDS, Guarantee, loss_text, risk_sentence
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.charts import Size, pictures
from privmean.release.formatting import (
    all_codes,
    assumed_in_full,
    assumption_text,
    capital,
    heads,
    letters_of,
    people_text,
    rules_of_rows,
    sentences,
    table_rows,
    title,
)
from privmean.release.release import Release
from privmean.release.stored_release import PROVENANCE

TEMPLATES = Path(__file__).with_name("templates")
REPORT, ACCOUNTING, MARKDOWN = "report.html", "accounting.html", "report.md"
WIDE, NARROW = Size(330, 13, 140, 9, 10), Size(220, 11, 96, 8, 7)  # pictures, two or three abreast
ABREAST = 4  # questions of which two are abreast; three are where there are more
ROWS = 60  # of all tables on the second page; a question takes HEADING more
HEADING = 3
SIDE_CHANNELS = (
    "how long the run took, its use of memory and the sizes of its temporary files",
    "the machine and its operating system: a reader of the table can read it without privmean",
    "the choice of questions, columns, weights and budget, if it depended on the data",
)
LIMITS = (
    "Facts about many people together are not hidden. Some of them tell about one person, as do "
    "people who are alike, such as a family.",
    "Other releases about the same people weaken the protection. A ledger adds them up.",
    "The estimates may be wrong where the assumptions above do not hold. The protection holds all "
    "the same.",
)
WAYS = {
    "sums": "basic composition",
    "curves": "numerical composition of all mechanism calls, fixed before data were read",
    "sums of rho": "zCDP composition: the rho of all mechanism calls are added",
}


def pages(
    stored: Mapping[str, Any], *, table: str = "", analyst: str = "", accounting: str = ACCOUNTING
) -> dict[str, str]:
    """The report, its appendix and the report in Markdown, by the names of their files.

    table, analyst: what the pages say of them. accounting: the name of the appendix.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ArgumentError("report", None, "requires jinja2", "install jinja2") from None
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=lambda name: name is not None and name.endswith("html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"marked": marked, "unbroken": _unbroken}
    facts = _facts(stored, table, analyst) | {"accounting": accounting}
    return {
        name: made.get_template(name).render(**facts) for name in (REPORT, ACCOUNTING, MARKDOWN)
    }


def write_report(
    stored: Mapping[str, Any], path: str | Path, *, table: str = "", analyst: str = ""
) -> None:
    """Write the report: as Markdown where the name ends in .md, else as HTML with its appendix
    beside it."""
    path = Path(path)
    stem = path.stem.removesuffix("report").rstrip("-_")
    accounting = f"{stem}-{ACCOUNTING}" if stem else ACCOUNTING
    found = pages(stored, table=table, analyst=analyst, accounting=accounting)
    if path.suffix == ".md":
        path.write_text(found[MARKDOWN], encoding="utf-8")
        return
    path.write_text(found[REPORT], encoding="utf-8")
    path.with_name(accounting).write_text(found[ACCOUNTING], encoding="utf-8")


def _facts(stored: Mapping[str, Any], table: str, analyst: str) -> dict[str, Any]:
    promise = Guarantee.from_dict(dict(stored["guarantee"]))
    stored = older_names.study(stored)
    made, card = stored[PROVENANCE], stored.get("card", {})
    said = [(item, item["release"]) for item in stored["questions"]]
    items = [(item, None if x is None else Release.from_dict(x)) for item, x in said]
    codes = [_codes(item, release) for item, release in items]
    letters = letters_of(code for found in codes for code in found)
    most = _most([0 if release is None else len(release.rows()) for _, release in items])
    size = WIDE if len(items) <= ABREAST else NARROW
    people = list(dict.fromkeys(people_text(made) for _, made in items if made is not None))
    known = [text for text in people if text.endswith("(public)")]
    questions = [
        _question(item, release, letters, size, most, " or ".join(known or people))
        for item, release in items
    ]
    assumed = [question["assumed"] for question in questions if question["assumed"]]
    common = [text for text in assumed[0] if all(text in own for own in assumed)] if assumed else []
    risk = risk_sentence(promise)
    return {
        "name": stored["name"],
        "purpose": card.get("purpose", ""),
        "warning": stored.get("warning", ""),
        "about": [
            (head, text)
            for head, text in (
                ("Data", card.get("data") or table),
                ("Period", card.get("period")),
                ("State of the data", card.get("date")),
                ("People", " or ".join(known or people)),
                ("Released", made["time"].partition("T")[0]),
                ("By", analyst),
                ("Contact", card.get("contact")),
            )
            if text
        ],
        "level": percent(stored["level"]),
        "joint": stored["simultaneous"],
        "narrow": size is NARROW,
        "questions": questions,
        "common": common,
        "cautions": _cautions(items, codes, letters),
        "loss": loss_text(promise),
        "risk": f"{risk[0].upper()}{risk[1:]}.",
        "unit": promise.unit,
        "neighbors": promise.neighbors,
        "relation": RELATION_WORDS[promise.neighbors],
        "parts": _parts(stored, questions, common),
        "lines": _lines(promise.mechanisms),
        "digest": made["digest"],
        "signed": made.get("signer"),
        "ledger": made["ledger"],
        "card": _card(stored, promise, table, analyst),
        "side_channels": SIDE_CHANNELS,
        "limits": LIMITS,
    }


def _unbroken(text: str) -> str:
    """A sentence whose numbers of people and intervals are not parted at the end of a line."""
    return text.replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}").replace(
        "% CI ", "%\N{NO-BREAK SPACE}CI "
    )


def _codes(item: Mapping[str, Any], release: Release | None) -> list[str]:
    """The statuses of a question that are not "ok"."""
    if release is None:
        return [read_status(item["status"], has_estimate=False)]
    return [code for code in dict.fromkeys(all_codes(release)) if code != OK]


def _most(rows: Sequence[int]) -> int:
    """The most rows of one table with which all fit on the second page."""
    room = ROWS - HEADING * len(rows)
    return next(
        (most for most in range(max(rows), 3, -1) if sum(min(most, n) for n in rows) <= room), 3
    )


def _question(
    item: Mapping[str, Any],
    release: Release | None,
    letters: dict[str, str],
    size: Size,
    most: int,
    people: str,
) -> dict[str, Any]:
    status = read_status(item["status"], has_estimate=release is not None)
    found: dict[str, Any] = {
        "name": item["name"],
        "note": item.get("note", ""),
        "ask": item["ask"],
        "said": item["options"],
        "status": status,
        "advice": find_status(status).text(advice=item["advice"]),
    }
    if release is None:
        return found | {
            "sentence": "There is no estimate.",
            "title": "", "people": "", "pictures": (), "undrawn": 0, "rows": (), "more": 0,
            "assumed": [], "rules": (), "method": "", "own": "", "full": (), "heads": (),
            "full_heads": (),
        }  # fmt: skip
    rows = release.rows()
    shown, kept = [], 0
    for row in table_rows(release, letters):
        kept += bool(row.cells)
        if kept <= most:
            shown.append(row)
    answered = any(math.isfinite(row.estimate) for row in rows)
    interval = release.interval()
    drawn = size.most if not release.times else len(rows)
    return found | {
        "sentence": release.sentence(item.get("label", ""), item.get("unit", "")),
        "title": title(release),
        "people": people_text(release).replace(people, ""),
        "pictures": pictures(release, size),
        "undrawn": max(len(rows) - drawn, 0),
        "heads": heads(rows, noise=False),
        "rows": shown,
        "more": max(len(rows) - most, 0),
        "assumed": sentences([assumption_text(release).rstrip(".")]) if answered else [],
        "advice": find_status(status).text(
            interval.target, item["advice"], bounds=release.takes_bounds
        ),
        "assumed_fully": sentences(assumed_in_full(release)),
        "rules": [capital(rule.rstrip(".")) for rule in rules_of_rows(release)],
        "target": interval.target,
        "method": f"{release.estimator}: {release.plan.rationale}",
        "own": release.guarantee.describe(),
        "full_heads": heads(rows, noise=True),
        "full": table_rows(release, letters, noise=True),
    }


def _cautions(
    items: Sequence[tuple[Mapping[str, Any], Release | None]],
    codes: Sequence[Sequence[str]],
    letters: Mapping[str, str],
) -> list[dict[str, str]]:
    """One per status: its letter, label and message, and the questions that have it."""
    found = []
    for code, letter in letters.items():
        flagged = [item for item, own in zip(items, codes, strict=True) if code in own]
        targets = dict.fromkeys(x.interval().target for _, x in flagged if x is not None)
        message = find_status(code).message.replace("{target}", f"the {' or the '.join(targets)}")
        names = ", ".join(item["name"] for item, _ in flagged)
        label = find_status(code).label
        found.append({"letter": letter, "label": label, "message": message, "names": names})
    return found


def _shortened(words: str) -> str:
    """Long decimals of an accounting to six digits."""
    return re.sub(r"\d+\.\d{4,}", lambda found: f"{float(found[0]):.6g}", words)


def _parts(
    stored: Mapping[str, Any], questions: Sequence[Mapping[str, Any]], common: Sequence[str]
) -> list[dict[str, Any]]:
    """One per share of the budget: what it is, and what the interval of its question assumes beside
    what is common to all."""
    plan = stored["plan"]
    shares = {item["name"]: item["share"] for item in plan["questions"]}
    looks = [
        (item["name"], item["share"], f"used by {', '.join(item['serves'])}", "")
        for item in plan.get("shared_locations", [])
    ]
    own = []
    for item, question in zip(stored["questions"], questions, strict=True):
        more = "; ".join(text for text in question["assumed"] if text not in common)
        text = more or ("nothing more" if question["assumed"] else "no estimate")
        own.append((item["name"], shares[item["name"]], text, _words(item["budget"])))
    return [
        {"name": name, "share": f"{x:.1%}", "text": text, "budget": budget}
        for name, x, text, budget in looks + own
    ]


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
    made, said = stored[PROVENANCE], stored.get("card", {})
    charge = made["ledger"]
    versions = ", ".join(f"{name} {value}" for name, value in made["versions"].items() if value)
    engine = made["engine"]
    kinds = sorted({loss.kind for loss in promise.mechanisms})
    unknown = "not stated"
    return [
        ("Data set", said.get("data") or table or unknown),
        ("Purpose", said.get("purpose") or unknown),
        ("Period of the data", said.get("period") or unknown),
        ("State of the data", said.get("date") or unknown),
        ("Holder of the data", said.get("holder") or unknown),
        ("Asked by", analyst or unknown),
        ("Who sees the outputs", said.get("audience") or "readers of this page"),
        ("Contact", said.get("contact") or unknown),
        ("Unit of protection", f"one {promise.unit} with all records"),
        ("Neighboring datasets", f"{promise.neighbors}: {RELATION_WORDS[promise.neighbors]}"),
        ("Treated as public", "; ".join(promise.public) or "nothing"),
        ("Trust model", "central: one curator reads the records, and only noisy answers leave"),
        ("Parameters", loss_text(promise)),
        ("What they mean", risk_sentence(promise)),
        ("Composition", WAYS.get(stored["plan"]["way"], stored["plan"]["way"])),
        ("Budget period", "this study; other releases about the same people add to it"),
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
