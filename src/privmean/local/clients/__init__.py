"""The client half: one person's value in, one private report out. No numerical library needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privmean.local.clients.client import Client as Client
    from privmean.local.clients.client import Ledger as Ledger
    from privmean.local.clients.client import randomize as randomize
    from privmean.local.clients.person_values import person_mean as person_mean
    from privmean.local.clients.person_values import slope as slope
    from privmean.local.clients.send import Outbox as Outbox
else:
    from privmean.lazy_imports import names

    __getattr__, __dir__, __all__ = names(
        __name__,
        """
        client     Client randomize
        client     Ledger
        send     Outbox
        person_values  person_mean slope
        """,
    )
