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
TALLIES = sql.Table(
    "privmean_tallies",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("writer", sql.Integer, primary_key=True),
    sql.Column("upto", sql.BigInteger, nullable=False),
    sql.Column("state", sql.LargeBinary, nullable=False),
)
REFUSALS = sql.Table(
    "privmean_refusals",
    META,
    sql.Column("round", sql.LargeBinary(8), primary_key=True),
    sql.Column("writer", sql.Integer, primary_key=True),
    sql.Column("reason", sql.String(64), primary_key=True),
    sql.Column("reports", sql.BigInteger, nullable=False),
)
