"""Tables in SQL engines, behind Ibis: PostgreSQL from the system, DataFusion and ClickHouse (chdb)
from the registry. Each is there or not; `missing` says why.
"""

from __future__ import annotations

import atexit
import glob
import itertools
import shutil
import sys
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

ENGINES = ("datafusion", "postgres", "clickhouse")
_numbers = itertools.count()

# the types that the tests draw, as each engine spells them
POSTGRES = {
    "int64": "bigint", "int32": "integer", "int8": "smallint", "uint64": "numeric(20, 0)",
    "double": "double precision", "float": "real", "bool": "boolean", "string": "text",
    "date32[day]": "date",
}  # fmt: skip
CLICKHOUSE = {
    "int64": "Int64", "int32": "Int32", "int8": "Int8", "uint64": "UInt64", "double": "Float64",
    "float": "Float32", "bool": "Bool", "string": "String", "date32[day]": "Date32",
}  # fmt: skip


def missing(engine: str) -> str:
    """Why an engine cannot be had here; "" where it can."""
    needed = {
        "datafusion": ("ibis", "datafusion"),
        "postgres": ("ibis", "psycopg"),
        "clickhouse": ("ibis", "chdb", "clickhouse_connect"),
    }[engine]
    lacking = [name for name in needed if find_spec(name) is None]
    if engine == "postgres" and not (
        shutil.which("initdb") or glob.glob("/usr/lib/postgresql/*/bin/initdb")
    ):
        lacking.append("the system's package postgresql")
    return f"{', '.join(lacking)} is not installed" if lacking else ""


@cache
def server() -> Any:
    """A PostgreSQL server for this process."""
    from collector.collector_server import PostgreSQL

    found = PostgreSQL()
    found.start()

    def stop() -> None:
        found.stop()
        found.remove()

    atexit.register(stop)
    return found


@cache
def connection(engine: str) -> Any:
    """A session of Ibis with an engine, one for this process."""
    import ibis

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if engine == "datafusion":
            return ibis.datafusion.connect()
        if engine == "postgres":
            import psycopg

            link = psycopg.connect(server().url, autocommit=True)
            atexit.register(link.close)  # before the server stops
            return ibis.postgres.from_connection(link)
        import clickhouse_connect

        client = clickhouse_connect.get_client(interface="chdb")
        return ibis.clickhouse.from_connection(client)


def put(engine: str, arrow: pa.Table, name: str = "", **types: str) -> Any:
    """An Ibis table with the rows of an Arrow table. types: of columns, in the engine's words."""
    link = connection(engine)
    name = name or f"records_{next(_numbers)}"
    if engine == "datafusion":
        link.con.register_record_batches(name, [arrow.to_batches() or _empty(arrow)])
        return link.table(name)
    spelled = POSTGRES if engine == "postgres" else CLICKHOUSE
    columns = []
    for field in arrow.schema:
        kind = types.get(field.name) or spelled.get(str(field.type)) or _decimal(field.type)
        if engine == "clickhouse":
            kind = f"Nullable({kind})"
        columns.append(f'"{field.name}" {kind}')
    if engine == "postgres":
        with link.con.cursor() as cursor, link.con.transaction():
            cursor.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in arrow.columns), strict=True):
                    copy.write_row(row)
        return link.table(name)
    link.con.command(f"CREATE TABLE {name} ({', '.join(columns)}) ENGINE = Memory")
    if arrow.num_rows:
        link.con.insert_arrow(name, arrow)
    return link.table(name)


def drop(engine: str, table: Any) -> None:
    """Forget a table that `put` made."""
    link, name = connection(engine), table.get_name()
    if engine == "datafusion":
        link.con.deregister_table(name)
    elif engine == "postgres":
        with link.con.cursor() as cursor, link.con.transaction():
            cursor.execute(f"DROP TABLE {name}")
    else:
        link.con.command(f"DROP TABLE {name}")


def _empty(arrow: pa.Table) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([], arrow.schema)]


def _decimal(kind: pa.DataType) -> str:
    assert pa.types.is_decimal(kind), kind
    return f"Decimal({kind.precision}, {kind.scale})"
