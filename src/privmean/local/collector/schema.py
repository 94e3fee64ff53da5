"""The tables of the collector. Reports are keyed by round and nonce: one report a nonce."""

from __future__ import annotations

import sqlalchemy as sql

from privmean.local.reports import NONCE_SIZE

META = sql.MetaData()
ROUNDS = sql.Table(
    "privmean_rounds",
    META,
    sql.Column("id", sql.LargeBinary(8), primary_key=True),
    sql.Column("description", sql.Text, nullable=False),
)
WRITERS = sql.Table(
    "privmean_writers",
    META,
    sql.Column("id", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("started", sql.Float, nullable=False),
)
REPORTS = sql.Table(
    "privmean_reports",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("nonce", sql.LargeBinary(NONCE_SIZE), primary_key=True),
    sql.Column("content", sql.LargeBinary, nullable=False),  # level (2 bytes) and payload
    sql.Column("writer", sql.Integer, nullable=False),
    sql.Column("number", sql.BigInteger, nullable=False),
    sql.Index("privmean_reports_place", "round", "writer", "number"),
)
REFUSALS = sql.Table(
    "privmean_refusals",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("writer", sql.Integer, primary_key=True),
    sql.Column("reason", sql.String(64), primary_key=True),
    sql.Column("reports", sql.BigInteger, nullable=False),
)

# What a round is at: whether it takes reports, and what is still kept of it.
STATES = sql.Table(
    "privmean_states",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("state", sql.String(16), nullable=False),
    sql.Column("changed", sql.Float, nullable=False),  # seconds since 1970
)
# The last number that each writer gave in a round: who is behind it reads on, nobody asks further.
HEADS = sql.Table(
    "privmean_heads",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("writer", sql.Integer, primary_key=True),
    sql.Column("last", sql.BigInteger, nullable=False),
)
# The tally of all writers' reports as far as `uptos` says (JSON: writer, last number).
SNAPSHOTS = sql.Table(
    "privmean_snapshots",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("uptos", sql.Text, nullable=False),
    sql.Column("state", sql.LargeBinary, nullable=False),
)
REVOKED = sql.Table(
    "privmean_revoked",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("nonce", sql.LargeBinary(NONCE_SIZE), primary_key=True),
)
AUDIT = sql.Table(
    "privmean_audit",
    META,
    sql.Column("id", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("time", sql.Float, nullable=False),
    sql.Column("who", sql.String(64), nullable=False),
    sql.Column("action", sql.String(32), nullable=False),
    sql.Column("round", sql.LargeBinary(8), nullable=True),
    sql.Column("detail", sql.Text, nullable=False),
)
# What was answered at so many reports: the page's curve over time.
HISTORY = sql.Table(
    "privmean_history",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("reports", sql.BigInteger, primary_key=True),
    sql.Column("time", sql.Float, nullable=False),
    sql.Column("answer", sql.Text, nullable=False),
)
