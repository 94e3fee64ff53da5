"""Exact answers that are kept, so that a question asked twice is one pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from privmean.data.exact_totals import Lazy

Answer = TypeVar("Answer")


class CachedPersonTable:
    """People who keep their answers."""

    _cache: dict[Any, Any]

    def _once(self, key: Hashable, answer: Callable[[], Answer]) -> Answer:
        """What is kept under `key`; at first what `answer` gives."""
        if key not in self._cache:
            self._cache[key] = answer()
        found: Answer = self._cache[key]
        return found


class KeptByEngine(CachedPersonTable):
    """Those whose rows stay in an engine."""

    frame: Lazy

    @property
    def engine(self) -> str:
        """The library that reads the records."""
        return str(self.frame.implementation.value)
