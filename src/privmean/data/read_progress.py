"""A progress bar while DuckDB reads: how far the scan is, and nothing about what it finds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from rich.console import Console

INTERVAL = 0.2  # seconds between two looks
PATIENCE = 0.5  # seconds before anything is shown: short jobs stay silent


@contextmanager
def shown(connection: DuckDBPyConnection, wanted: bool) -> Iterator[None]:
    """Show the progress of the query that runs inside, on standard error, if `wanted`."""
    if not wanted:
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(connection, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(
    connection: DuckDBPyConnection, done: threading.Event, console: Console | None = None
) -> None:
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("reading records"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=100.0)
        while not done.wait(INTERVAL):
            share = float(connection.query_progress())
            if share >= 0:
                progress.update(task, completed=min(share, 100.0))
