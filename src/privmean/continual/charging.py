"""A stream in a ledger: one charge for all its releases, given back when it goes on."""

from __future__ import annotations

import uuid
from typing import Protocol

from privmean.privacy.guarantee import Guarantee


class Ledger(Protocol):
    """What of `privacy.ledger.Ledger` a stream needs."""

    def charge(
        self, cost: Guarantee, *, label: str = ..., about: dict[str, str] | None = ...
    ) -> object:
        """Spends or raises."""
        ...


def charge_stream(ledger: Ledger, promise: Guarantee, run: str | None, label: str) -> None:
    """Charge the promise of a stream, once for each `run` (None: a stream without a state).

    Call it before the first record. A stream that goes on from its state has the number that was
    written there before anything was charged, and the ledger gives the same charge back.
    """
    ledger.charge(promise, label=label, about={"run": run or uuid.uuid4().hex})
