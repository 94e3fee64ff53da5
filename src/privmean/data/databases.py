"""A table of a database by its address: who connects is the environment's to say.

An address is never shown with a password, because one with a password is refused: command lines,
histories and lists of processes keep it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from privmean.data.duckdb_engine import identifier as name_of
from privmean.data.schema import near
from privmean.data.sql_engines import rows
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from ibis.backends import BaseBackend
    from ibis.expr.types import Table

SCHEMES = ("postgresql", "postgres", "clickhouse", "chdb")
SECRET = {"password", "passwd", "sslpassword"}
PART = r'("(?:[^"]|"")+"|[^".]+)'
PLAIN = re.compile(r'[^".\s]+')
NAME = re.compile(rf"(?:{PART}\.)?{PART}")  # of a table, with or without its schema
HELD = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN "
    "('pg_catalog', 'information_schema', 'INFORMATION_SCHEMA', 'system') ORDER BY 1, 2"
)
IDLE = 3600  # seconds after which a ClickHouse session forgets its temporary tables


def is_address(source: object) -> bool:
    """Whether a source is `postgresql://HOST/DATABASE#TABLE` or the like. An address that
    is not read is refused here, before it would be shown as the name of a file."""
    if not isinstance(source, str) or "://" not in source:
        return False
    scheme = source.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise ArgumentError(
            "source",
            f"{scheme}://...",
            "is not a supported kind of address",
            "use postgresql://, clickhouse://, chdb:// or a local file",
        )
    return True


def with_table(source: str, table: str | None) -> str:
    """An address with the table that is named beside it."""
    if table is None:
        return source
    if not is_address(source):
        raise ArgumentError("table", table, "requires the address of a database", "remove it")
    return f"{source}#{table}"


def table_at(address: str) -> tuple[Table, Callable[[], object]]:
    """The Ibis table at an address, and what ends its session; nothing is read but its schema."""
    shown, _, name = _checked(address).partition("#")
    try:
        import ibis  # noqa: F401

        link = (_clickhouse if shown.startswith(("clickhouse", "chdb")) else _postgres)(shown)
    except ModuleNotFoundError as lacking:
        extra = "clickhouse" if shown.startswith(("clickhouse", "chdb")) else "ibis"
        raise ArgumentError(
            "source", shown, f"requires {lacking.name}", f"install privmean[{extra}]"
        ) from None
    except Exception:
        pass  # raised below: a driver's words may hold what the environment said
    else:
        return _table(link, shown, name), link.con.close
    raise ArgumentError(
        "source",
        shown,
        "is a database that does not answer",
        "start it, and set user and password (PGUSER, PGPASSWORD or ~/.pgpass; "
        "CLICKHOUSE_USER, CLICKHOUSE_PASSWORD)",
    )


def _checked(address: str) -> str:
    """The address, if it holds no password and names a table."""
    place = address.partition("://")[0] + "://..."
    try:
        parts = urlsplit(address)
        secret = parts.password is not None or SECRET & {*parse_qs(parts.query)}
    except ValueError:
        raise ArgumentError(
            "source", place, "is not an address", "use for example postgresql://HOST/DATABASE"
        ) from None
    if secret:
        raise ArgumentError(
            "source",
            place,
            "must not hold a password, which others could see",
            "remove it; set PGPASSWORD, ~/.pgpass or CLICKHOUSE_PASSWORD",
        )
    if not parts.fragment:
        raise ArgumentError(
            "source", address, "must name a table", "end it in #TABLE (--table on a command line)"
        )
    return address


def _postgres(address: str) -> BaseBackend:
    import ibis
    import psycopg

    return ibis.postgres.from_connection(psycopg.connect(address, autocommit=True))


def _clickhouse(address: str) -> BaseBackend:
    import clickhouse_connect
    import ibis

    parts = urlsplit(address)
    if parts.scheme == "chdb":
        if not os.path.isdir(parts.path):
            raise FileNotFoundError  # it would be made, and be empty
        found = clickhouse_connect.get_client(dsn=address)
    else:
        found = clickhouse_connect.get_client(
            host=parts.hostname or "localhost",
            port=parts.port or 0,
            database=parts.path.strip("/") or "default",
            username=os.environ.get("CLICKHOUSE_USER", parts.username or "default"),
            password=os.environ.get("CLICKHOUSE_PASSWORD", ""),
            settings={"session_timeout": IDLE},
        )
    return ibis.clickhouse.from_connection(found)


def _table(link: BaseBackend, shown: str, name: str) -> Table:
    """The table `TABLE` or `SCHEMA.TABLE`, each as it is or in double quotes; a name with dots of
    its own, where no schema has such a table."""
    found = NAME.fullmatch(name)
    places = [] if found is None else [tuple(map(_bare, found.groups()))]
    for schema, table in (*places, (None, name)):
        with contextlib.suppress(Exception):  # and raised below, without the engine's own words
            return link.table(table, database=None if schema is None else (schema,))
    import ibis.expr.operations as ops
    from ibis import schema as schema_of

    held: list[str] = []
    with contextlib.suppress(Exception):
        listed = ops.SQLQueryResult(HELD, schema_of({"s": "string", "t": "string"}), link)
        held = [".".join(map(_spelled, row)) for row in rows(listed.to_expr())]
    link.con.close()
    problem = "is not a table that you may read"
    raise ArgumentError("source", f"{shown}#{name}", problem, near(name, held, "tables"))


def _bare(part: str | None) -> str | None:
    """A name without the double quotes around it."""
    if part is None or not part.startswith('"'):
        return part
    return part[1:-1].replace('""', '"')


def _spelled(part: str) -> str:
    """A name as `NAME` reads it."""
    return part if PLAIN.fullmatch(part) else name_of(part)
