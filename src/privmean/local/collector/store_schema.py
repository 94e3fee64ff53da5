"""The tables of the collector. Reports are keyed by round and nonce: one report a nonce."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sql

from privmean.local.reports import NONCE_SIZE

Kinds = Mapping[str, sql.types.TypeEngine[Any]]

META = sql.MetaData()
ROUND, NONCE, BYTES = sql.LargeBinary(8), sql.LargeBinary(NONCE_SIZE), sql.LargeBinary()
WRITER, COUNT, TEXT, WORD = sql.Integer(), sql.BigInteger(), sql.Text(), sql.String(64)
TIME = sql.Float()  # seconds since 1970


def table(
    name: str,
    keys: Kinds,
    columns: Kinds,
    *more: sql.Index,
    empty: Collection[str] = (),
) -> sql.Table:
    """keys: what a row is found by; columns: what else it says, always but for `empty`."""
    found = [sql.Column(key, kind, primary_key=True) for key, kind in keys.items()]
    found += [sql.Column(key, kind, nullable=key in empty) for key, kind in columns.items()]
    return sql.Table(f"privmean_{name}", META, *found, *more)


ROUNDS = table("rounds", {"id": ROUND}, {"description": TEXT})
WRITERS = table("writers", {"id": WRITER}, {"started": TIME})
REPORTS = table(
    "reports",
    {"round": ROUND, "nonce": NONCE},
    {"content": BYTES, "writer": WRITER, "number": COUNT},  # content: level (2 bytes) and payload
    sql.Index("privmean_reports_place", "round", "writer", "number"),
)
REFUSALS = table("refusals", {"round": ROUND, "writer": WRITER, "reason": WORD}, {"reports": COUNT})
# What a round is at: whether it takes reports, and what is still kept of it.
STATES = table("states", {"round": ROUND}, {"state": sql.String(16), "changed": TIME})
# The last number that each writer gave in a round: who is behind it reads on, nobody asks further.
HEADS = table("heads", {"round": ROUND, "writer": WRITER}, {"last": COUNT})
# The tally of all writers' reports as far as `uptos` says (JSON: writer, last number).
SNAPSHOTS = table("snapshots", {"round": ROUND}, {"uptos": TEXT, "state": BYTES})
REVOKED = table("revoked", {"round": ROUND, "nonce": NONCE}, {})
AUDIT = table(
    "audit",
    {"id": sql.Integer()},
    {"time": TIME, "who": WORD, "action": sql.String(32), "round": ROUND, "detail": TEXT},
    empty=("round",),
)
# What was answered at so many reports: the page's curve over time.
HISTORY = table("history", {"round": ROUND, "reports": COUNT}, {"time": TIME, "answer": TEXT})
