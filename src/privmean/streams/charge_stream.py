"""A stream in a ledger: one charge for all its releases, given back when it goes on."""

from __future__ import annotations

import os
import uuid
from typing import Protocol

from privmean.errors import ArgumentError
from privmean.privacy.guarantee import Guarantee


class Ledger(Protocol):
    """What of `privacy.ledger.Ledger` a stream needs."""

    def charge(
        self, cost: Guarantee, *, label: str = ..., about: dict[str, str] | None = ...
    ) -> object:
        """Spends or raises."""
        ...


def charge_stream(
    ledger: Ledger | str | os.PathLike[str], promise: Guarantee, run: str | None, label: str
) -> None:
    """Charge the guarantee of a stream, once for each `run` (None: a stream without a state).

    ledger: one, or the path of one that is there.

    Call it before the first record. A stream that goes on from its state has the number that was
    written there before anything was charged, and the ledger gives the same charge back.
    """
    if isinstance(ledger, str | os.PathLike):
        from privmean.privacy.ledger import Ledger as Book

        ledger = Book.open(ledger)
    if not hasattr(ledger, "charge"):
        raise ArgumentError("ledger", ledger, "is not a ledger", "give a pm.Ledger or its path")
    ledger.charge(promise, label=label, about={"run": run or uuid.uuid4().hex})
