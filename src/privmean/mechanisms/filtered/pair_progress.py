"""A progress bar for long comparisons of all pairs, where somebody can see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[float], None]
LONG = 2e11  # products of all pairs and columns; some seconds


@contextmanager
def shown(asked: bool | Progress | None, public_work: float | None) -> Iterator[Progress | None]:
    """What to tell the fraction done: a given function, a bar on standard error, or nothing.

    asked: True for a bar, False for none, None for a bar if standard error is a terminal and the
    public amount of work is large (None: not public, no bar). The bar shows a fraction only.
    """
    if callable(asked):
        yield asked
        return
    if asked is None:
        asked = public_work is not None and public_work > LONG and sys.stderr.isatty()
    if not asked:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("comparing people", total=1.0)
        yield lambda done: bars.update(task, completed=done)
