"""Tables of SQL engines through Ibis, as records (p, x0, ..) that compare alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privmean.people.sqlengines import facts


def records_of(table: Any, person: str, values: Sequence[str]) -> Any:
    """The records of a table: the column of persons, and the columns asked for."""
    chosen = {f"x{j}": table[item] for j, item in enumerate(values)}
    return table.select(p=table[person], **chosen)
