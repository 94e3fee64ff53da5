"""A journal of records and noise draws: the durable state of streams that a restart replays.

The same promise as `state`: a batch is on disk before its releases are shown, and what was drawn is
drawn once. The file is as secret as the data.
"""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.continual.rows import plain
from privmean.continual.series import Floats
from privmean.continual.state import packed, unpacked
from privmean.durable import DurableLog
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.base import FromBits, Integers, Noise

KIND = "withhold-release"

Event = tuple[str, Floats]


class Journal:
    """An open journal, locked until `close`."""

    def __init__(
        self, path: str | os.PathLike[str], settings: Any, *, secure: bool, moved: bool
    ) -> None:
        facts = {"settings": plain(settings), "secure": secure}
        entries: list[Any] = []
        if os.path.exists(path):
            self._log = DurableLog.open(
                path, KIND, lambda data: entries.append(json.loads(data)), moved=moved
            )
        else:
            entries.append(facts)
            self._log = DurableLog.create(path, KIND, [json.dumps(facts).encode()])
        stored, *self._batches = entries
        if stored != facts:
            self.close()
            raise ArgumentError(
                "state",
                str(path),
                "belongs to a stream with other settings",
                "use the same settings, or a new state file",
            )

    def append(self, events: list[Event], draws: list[Integers]) -> None:
        """Make a batch durable."""
        entry = {
            "persons": [person for person, _ in events],
            "rows": packed(np.array([row for _, row in events])),
            "draws": [packed(item) for item in draws],
        }
        self._log.append(json.dumps(entry).encode())

    def take(self) -> tuple[list[list[Event]], list[Integers]]:
        """The batches of events, and the draws, that were found on opening. Gives them away."""
        batches, self._batches = self._batches, []
        events = [
            list(zip(batch["persons"], unpacked(batch["rows"]), strict=True)) for batch in batches
        ]
        return events, [unpacked(draw) for batch in batches for draw in batch["draws"]]

    def close(self) -> None:
        self._log.close()


class RecordedNoise(FromBits):
    """Noise that keeps what it draws, and repeats recorded draws first."""

    def __init__(self, source: Noise) -> None:
        self._source = source
        self._recorded: list[Integers] = []
        self._next = 0
        self._drawn: list[Integers] = []

    @property
    def secure(self) -> bool:
        return self._source.secure

    def replay(self, draws: list[Integers]) -> None:
        """Answer with these draws before any new one."""
        self._recorded, self._next = draws, 0

    def require_replayed(self) -> None:
        """All recorded draws are used and none was new; anything else would be a second noise."""
        if self._next != len(self._recorded) or self._drawn:
            raise PrivmeanError("the state was written by a version that draws differently")

    def take_drawn(self) -> list[Integers]:
        """The new draws since the last call."""
        drawn, self._drawn = self._drawn, []
        return drawn

    def _answer(self, size: int, fresh: Any) -> Integers:
        if self._next < len(self._recorded):
            draw = self._recorded[self._next]
            self._next += 1
            if len(draw) != size:
                raise PrivmeanError("the state was written by a version that draws differently")
            return draw
        result: Integers = fresh()
        self._drawn.append(result)
        return result

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._answer(size, lambda: self._source.laplace(size, scale))

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._answer(size, lambda: self._source.gaussian(size, scale))

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        draw = self._answer(1, lambda: np.array([self._source.argmax(scores, scale)]))
        return int(draw[0])

    def bits64(self, size: int) -> npt.NDArray[np.uint64]:
        return self._answer(size, lambda: self._source.bits64(size).view(np.int64)).view(np.uint64)
