"""Work that can wait takes turns with work that cannot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHARE = 6  # seconds of rest for each second of work that can wait
RECENT = 1.0  # seconds after which the other kind of work counts as over


class Throttle:
    """While urgent work comes in, other work rests six times as long as it worked.

    So it gets a seventh of the time when there is much of both, and all of it when it is alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._urgent = float("-inf")
        self._free = float("-inf")
        self._wake = threading.Event()

    def first(self) -> None:
        """Urgent work has come."""
        self._urgent = self._clock()

    def rest(self) -> float:
        """How long other work should still wait."""
        now = self._clock()
        return max(0.0, self._free - now) if now - self._urgent < RECENT else 0.0

    def worked(self, seconds: float) -> None:
        """Other work took so long."""
        self._free = self._clock() + SHARE * seconds

    def last(self, work: Callable[[], T]) -> T:
        """Do other work now that its turn has come; waits before it."""
        while (rest := self.rest()) > 0:
            self._wake.wait(min(rest, RECENT))
        start = self._clock()
        try:
            return work()
        finally:
            self.worked(self._clock() - start)
