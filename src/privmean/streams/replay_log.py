"""A journal of records and noise draws: the durable state of streams that a restart replays.

The same guarantee as `state`: a batch is on disk before its releases are shown, and what was drawn
is drawn once. The file is as secret as the data.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.noise.noise_source import Integers
from privmean.storage.durable_log import DurableLog
from privmean.streams.coerce_records import plain
from privmean.streams.power_series import Floats
from privmean.streams.state_file import packed, unpacked

Event = tuple[str, Floats]


class Journal:
    """An open journal, locked until `close`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: object,
        *,
        kind: str,
        secure: bool,
        moved: bool,
        more: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """more: facts of a new journal, which are asked for once and are there ever after."""
        facts = {"settings": plain(settings), "secure": secure}
        entries: list[Any] = []
        if not os.path.exists(validate.path("state", path)):
            fresh = {**facts, "run": uuid.uuid4().hex, "more": more()}
            DurableLog.create(path, kind, [json.dumps(fresh).encode()])
        self._log = DurableLog.open(
            path, kind, lambda entry: entries.append(json.loads(entry.payload)), moved=moved
        )
        stored, *self._batches = entries
        self.run_id: str = stored.pop("run", None) or uuid.uuid4().hex
        self.more: dict[str, Any] = stored.pop("more", {})
        marks = [batch["mark"] for batch in self._batches if "mark" in batch]
        self.mark: Any = marks[-1] if marks else None
        if stored != facts:
            self.close()
            raise ArgumentError(
                "state",
                str(path),
                "is the state of a stream with other settings",
                "use the same settings, or a new state file",
            )

    def append(self, events: list[Event], draws: list[Integers], mark: object = None) -> None:
        """Make a batch durable. mark: a public note, such as the position in the input."""
        entry: dict[str, Any] = {
            "persons": [person for person, _ in events],
            "rows": packed(np.array([row for _, row in events])),
            "draws": [packed(item) for item in draws],
        }
        if mark is not None:
            self.mark = entry["mark"] = plain(mark)
        self._log.append(json.dumps(entry).encode())

    def take(self) -> tuple[list[list[Event]], list[Integers]]:
        """The batches of events, and the draws, that were found on opening. Gives them away."""
        batches, self._batches = self._batches, []
        events = [
            list(zip(batch["persons"], unpacked(batch["rows"]), strict=True))
            for batch in batches
            if batch["persons"]
        ]
        return events, [unpacked(draw) for batch in batches for draw in batch["draws"]]

    def close(self) -> None:
        self._log.close()
