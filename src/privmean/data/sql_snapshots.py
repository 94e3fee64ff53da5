"""Sessions of PostgreSQL that may write nothing, not even temporary tables: standbys, readers.

There every question reads the records again. All must be about the same records, so they are asked
in one transaction, which sees the database as it was when it began. It ends with the last table of
people that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from privmean.errors import SchemaError

if TYPE_CHECKING:
    from psycopg import Connection

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_held: dict[int, int] = {}  # tables of people that depend on the transaction of a connection


def hold(connection: Connection) -> Callable[[], object]:
    """Let the connection see one state of the database, and what lets go of it."""
    from psycopg.pq import TransactionStatus

    key = id(connection)
    if key not in _held:
        if (
            not connection.autocommit
            or connection.info.transaction_status != TransactionStatus.IDLE
        ):
            raise SchemaError(
                "this session must be allowed to make temporary tables. Give a "
                "connection with autocommit, or the right to make temporary tables."
            )
        connection.execute(BEGIN)
        _held[key] = 0
    _held[key] += 1

    def release() -> None:
        _held[key] -= 1
        if not _held[key]:
            del _held[key]
            connection.execute("COMMIT")

    return release
