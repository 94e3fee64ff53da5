"""Opening a SQLite file for one process alone, with every commit synced to disk."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from privmean.errors import ArgumentError


def open_exclusively(path: str | os.PathLike[str], schema: str) -> tuple[sqlite3.Connection, bool]:
    """(connection, whether the file is new). The lock is held until the connection is closed."""
    if not Path(path).exists():
        # created readable by the owner alone, before anything secret is in it
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    db = sqlite3.connect(path, isolation_level=None, timeout=0.2)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("BEGIN EXCLUSIVE")
        new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if new:
            for statement in schema.split(";"):
                db.execute(statement)
        db.execute("COMMIT")
    except sqlite3.OperationalError as problem:
        db.close()
        raise ArgumentError(
            "state", str(path), f"cannot be opened ({problem})", "is another process using it?"
        ) from None
    except sqlite3.DatabaseError:
        db.close()
        raise ArgumentError(
            "state", str(path), "is not a state file", "name a new file or an old state"
        ) from None
    return db, new
