"""Estimates as they are served: made once for many readers, in the form that is sent."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from typing import Any

from privmean.errors import ArgumentError
from privmean.local.aggregators.estimates import estimate
from privmean.local.aggregators.weights import CHOICES, TESTED
from privmean.local.collector.store import Store
from privmean.local.descriptor import Round

KEPT = 64  # answers
QUICK = 0.05  # seconds: what takes longer is not made again for ten times as long
LONGEST_KEPT = 60.0


class _Answer:
    """One question's last answer."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.mark = b""
        self.data = b""
        self.until = 0.0
        self.slow = False


class Answers:
    """The estimate of a round with given weights, as JSON.

    It is computed again only if reports have come, and by one reader at a time; the others get the
    last one. What is slow to compute is kept for ten times as long as it took, so that readers
    take at most a tenth of one processor.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, str, str], _Answer] = OrderedDict()

    def get(self, round_: Round, weights: str = TESTED, cap: str = "") -> bytes:
        """weights: as in `estimate`. cap: one of the round's levels as text, or "".

        Raises ArgumentError for anything else: there are only so many different answers.
        """
        if weights not in CHOICES:
            raise ArgumentError("weights", weights, "is none", f"choose one of {list(CHOICES)}")
        level = None
        if cap:
            levels = {f"{float(item):g}": item for item in round_.menu}
            if cap not in levels:
                raise ArgumentError("epsilon_cap", cap, "is no level", f"one of {list(levels)}")
            level = str(levels[cap])
        with self._turn:
            key = (round_.identifier, weights, cap)
            answer = self._kept.setdefault(key, _Answer())
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        late = time.monotonic() >= answer.until
        if answer.data and (not late or (answer.slow and answer.turn.locked())):
            return answer.data
        with answer.turn:
            if not answer.data or time.monotonic() >= answer.until:
                self._renew(answer, round_, weights, level)
            return answer.data

    def _renew(self, answer: _Answer, round_: Round, weights: str, cap: str | None) -> None:
        start = time.monotonic()
        tally = self._store.tally(round_)
        mark = tally.to_bytes()[-16:]
        if mark != answer.mark or not answer.data:
            found: dict[str, Any] = estimate(tally, weights=weights, epsilon_cap=cap).to_dict()
            head = {"round": round_.identifier.hex(), "title": round_.title}
            text = json.dumps({**head, **found}, separators=(",", ":"), allow_nan=False)
            answer.data = text.encode()
            answer.mark = mark
        took = time.monotonic() - start
        answer.slow = took > QUICK
        answer.until = start + took + (min(10 * took, LONGEST_KEPT) if answer.slow else 0.0)
