"""People who keep a list of what they were asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from privmean.auditing.fixed_noise import Answer
from privmean.data.person_table import PersonTable

UNTOLD = ("columns", "cap", "counts")  # public, or asked by nobody before a curator
OTHERS = ("standardized", "part")  # questions that give people again


@dataclass(frozen=True)
class Asking:
    """One question to people. whom: how these people were made of the first ones."""

    whom: tuple[object, ...]
    question: str
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        return f"people.{self.question}"


class RecordingTable:
    """The same people; `tell` hears every question before it is answered."""

    def __init__(
        self, people: PersonTable, tell: Callable[[Asking], None], whom: tuple[object, ...] = ()
    ) -> None:
        self._people, self._tell, self._whom = people, tell, whom

    def __getattr__(self, name: str) -> Answer:
        found = getattr(self._people, name)
        if name in UNTOLD or not callable(found):
            return found

        def asked(*given: object, **words: object) -> Answer:
            said = tuple(tuple(x) if isinstance(x, list) else x for x in (*given, *words.values()))
            self._tell(Asking(self._whom, name, said))
            answer = found(*given, **words)
            if name in OTHERS:
                return RecordingTable(answer, self._tell, (*self._whom, (name, *said)))
            return answer

        return asked
