"""Estimates as they are served: made once for many readers, in the form that is sent."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special  # noqa: F401  # intervals need it: not within the first answer's time

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_dispatch import estimate
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.level_weights import CHOICES, TESTED
from privmean.local.collector.store import Store
from privmean.local.round import Round

KEPT = 64  # answers
QUICK = 0.05  # seconds: what takes longer is not made again for ten times as long
LONGEST_KEPT = 60.0
LARGEST, ALL = "largest", "all"
MANY, MOST = 4096, 100  # of more numbers than MANY an answer lists MOST
LEVEL = 0.95


class _Answer:
    """One question's last answer."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.mark: object = None
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
        self._kept: OrderedDict[tuple[bytes, str, str, str], _Answer] = OrderedDict()

    def get(
        self, round_: Round, weights: str = TESTED, cap: str = "", numbers: str = LARGEST
    ) -> bytes:
        """weights: as in `estimate`. cap: one of the round's levels as text, or "". numbers:
        "largest" (of more than MANY numbers only the largest MOST are listed, with their
        places), or "all".

        Raises ArgumentError for anything else: there are only so many different answers.
        """
        validate.choice("numbers", numbers, [LARGEST, ALL])
        if weights not in CHOICES:
            raise ArgumentError(
                "weights", weights, "is not one of the choices", f"choose one of {list(CHOICES)}"
            )
        level = None
        if cap:
            levels = {f"{float(item):g}": item for item in round_.menu}
            if cap not in levels:
                raise ArgumentError(
                    "epsilon_cap", cap, "is not a level", f"choose one of {list(levels)[:64]}"
                )
            level = str(levels[cap])
        with self._turn:
            key = (round_.identifier, weights, cap, numbers)
            answer = self._kept.setdefault(key, _Answer())
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        late = time.monotonic() >= answer.until
        if answer.data and (not late or (answer.slow and answer.turn.locked())):
            return answer.data
        with answer.turn:
            if not answer.data or time.monotonic() >= answer.until:
                self._renew(answer, round_, weights, level, numbers)
            return answer.data

    def _renew(
        self, answer: _Answer, round_: Round, weights: str, cap: str | None, numbers: str
    ) -> None:
        start = time.monotonic()
        tally = self._store.tally(round_)
        mark = (tally.reports, tally.fingerprint, tuple(sorted(tally.rejected.items())))
        if mark != answer.mark or not answer.data:
            found = estimate(tally, weights=weights, epsilon_cap=cap)
            head = {"round": round_.identifier.hex(), "title": round_.title}
            text = {**head, **plain(found, numbers), **public(round_)}
            answer.data = json.dumps(text, separators=(",", ":"), allow_nan=False).encode()
            answer.mark = mark
        took = time.monotonic() - start
        answer.slow = took > QUICK
        answer.until = start + took + (min(10 * took, LONGEST_KEPT) if answer.slow else 0.0)


def public(round_: Round) -> dict[str, Any]:
    """What an answer says of its round."""
    return {
        "persons": round_.persons,
        "closes": round_.closes,
        "issued": round_.issued,
        "points": list(round_.points),
    }


def plain(found: Estimate, numbers: str = LARGEST) -> dict[str, Any]:
    """An estimate with its interval as plain data; of very many numbers the largest alone."""
    size = found.value.size
    if size <= MANY:
        return {**found.to_dict(), "interval": _interval(found)}
    if numbers == ALL:
        return found.to_dict()
    flat = found.value.reshape(-1)
    largest = np.argpartition(-flat, MOST)[:MOST]
    largest = largest[np.lexsort((largest, -flat[largest]))]
    proved, shape = found.proved, found.value.shape

    def at_largest(beta: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        assert proved is not None
        return np.broadcast_to(proved(beta), shape).reshape(-1)[largest]

    few = replace(
        found,
        proved=None if proved is None else at_largest,
        value=flat[largest],
        raw=found.raw.reshape(-1)[largest],
        radii=np.broadcast_to(found.radii, shape).reshape(-1)[largest],
        spread=found.spread.reshape(-1)[largest],
        noise=found.noise.reshape(-1)[largest],
    )
    return {
        **few.to_dict(),
        "interval": _interval(few),
        "places": largest.tolist(),
        "numbers": size,
    }


def _interval(found: Estimate) -> dict[str, Any]:
    """The approximate interval of each number, None where there are too few reports."""
    half = found.interval(LEVEL)
    ends = {"lower": half.lower, "upper": half.upper}
    return {
        "level": LEVEL,
        **{
            name: [float(x) if math.isfinite(x) else None for x in values]
            for name, values in ends.items()
        },
    }
