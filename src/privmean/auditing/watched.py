"""People who keep a list of what they were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from privmean.people.reductions import (
    Ball,
    BallSums,
    Besides,
    Box,
    BoxSums,
    Cut,
    Floats,
    Integers,
    People,
    Standard,
)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Asking:
    """One question to people. whom: how these people were made of the first ones."""

    whom: tuple[object, ...]
    question: str
    arguments: tuple[object, ...]


class Watched:
    """The same people; `tell` hears every question before it is answered."""

    def __init__(
        self, people: People, tell: Callable[[Asking], None], whom: tuple[object, ...] = ()
    ) -> None:
        self._people, self._tell, self._whom = people, tell, whom

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._people.columns)

    @property
    def cap(self) -> int | None:
        return self._people.cap

    @property
    def counts(self) -> Integers | None:
        """Numbers of records behind the values, where they were kept."""
        found: Integers | None = getattr(self._people, "counts", None)
        return found

    def _told(self, question: str, *arguments: object) -> People:
        self._tell(Asking(self._whom, question, arguments))
        return self._people

    def _other(self, people: People, question: str, *arguments: object) -> Watched:
        return Watched(people, self._tell, (*self._whom, (question, *arguments)))

    def size(self) -> int:
        return self._told("size").size()

    def log_counts(self, column: int, origin: float) -> Integers:
        return self._told("log_counts", column, origin).log_counts(column, origin)

    def missing(self, column: int) -> int:
        return self._told("missing", column).missing(column)

    def uniform_counts(self, column: int, half_width: float, origin: float = 0.0) -> dict[int, int]:
        people = self._told("uniform_counts", column, half_width, origin)
        return people.uniform_counts(column, half_width, origin)

    def pair_counts(self, column: int, low: int, high: int) -> Integers:
        return self._told("pair_counts", column, low, high).pair_counts(column, low, high)

    def box_sums(self, boxes: Sequence[Box | None]) -> list[BoxSums | None]:
        return self._told("box_sums", tuple(boxes)).box_sums(boxes)

    def beyond(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        return self._told("beyond", column, lower, upper).beyond(column, lower, upper)

    def ball_sums(self, ball: Ball, besides: Besides | None = None) -> BallSums:
        return self._told("ball_sums", ball, besides).ball_sums(ball, besides)

    def tail_sums(self, cut: Cut) -> BallSums:
        return self._told("tail_sums", cut).tail_sums(cut)

    def shell_counts(self, edges: Sequence[float]) -> Integers:
        return self._told("shell_counts", tuple(edges)).shell_counts(edges)

    def standardized(self, columns: Sequence[Standard | None]) -> People:
        found = self._told("standardized", tuple(columns)).standardized(columns)
        return self._other(found, "standardized", tuple(columns))

    def count_in_box(self, boxes: Sequence[Box]) -> int:
        return self._told("count_in_box", tuple(boxes)).count_in_box(boxes)

    def count_in_ball(self, center: Sequence[float], radius: float) -> int:
        people = self._told("count_in_ball", tuple(center), radius)
        return people.count_in_ball(center, radius)

    def part(self, index: int, parts: int) -> People:
        return self._other(
            self._told("part", index, parts).part(index, parts), "part", index, parts
        )

    def matrix(self) -> Floats:
        return self._told("matrix").matrix()


def watched(people: People, tell: Callable[[Asking], None]) -> Any:
    """These people, watched."""
    return Watched(people, tell)
