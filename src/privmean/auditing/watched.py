"""People who keep a list of what they were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from privmean.models.design import Units
from privmean.models.panel import Own, PanelPeople
from privmean.people.pairs import Centred, PairPeople, PairSums, Weights
from privmean.people.products import Products
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


class WatchedPairs(PairPeople):
    """The same pairs of persons and groups; `tell` hears every question before it is answered.

    Groups are told by their keys, never by places; limits of groups are not told, since there is
    one of each key and keys may be private. Where limits follow values, the outcome shows it.
    """

    def __init__(
        self,
        people: PairPeople,
        tell: Callable[[Asking], None],
        whom: tuple[object, ...] = (),
    ) -> None:
        self._people, self._tell, self._whom = people, tell, whom
        self.columns = people.columns

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:  # type: ignore[override]
        return self._people.keys

    @property
    def weights(self) -> Weights:  # type: ignore[override]
        return self._people.weights

    @property
    def engine(self) -> str:
        return self._people.engine

    def _told(self, question: str, *arguments: object) -> PairPeople:
        self._tell(Asking(self._whom, question, arguments))
        return self._people

    def size(self) -> int:
        return self._told("size").size()

    def members(self) -> int:
        return self._told("members").members()

    def group_weights(self) -> list[int]:
        return self._told("group_weights").group_weights()

    def log_counts(self, column: int, origin: float) -> Integers:
        return self._told("log_counts", column, origin).log_counts(column, origin)

    def beyond(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        return self._told("beyond", column, lower, upper).beyond(column, lower, upper)

    def missing(self, column: int) -> int:
        return self._told("missing", column).missing(column)

    def group_sums(self, boxes: Sequence[Box], column: int = 0) -> list[PairSums]:
        return self._told("group_sums", column).group_sums(boxes, column)

    def among(self, places: Sequence[int]) -> PairPeople:
        keys = tuple(self._people.keys[place] for place in places)
        found = self._told("among", *keys).among(places)
        return WatchedPairs(found, self._tell, (*self._whom, ("among", *keys)))

    def centred_counts(self, units: Centred, column: int = 0) -> Integers:
        keys = tuple(self._people.keys[place] for place in units.places)
        asked = self._told("centred_counts", column, *keys, *units.centers, *units.factors)
        return asked.centred_counts(units, column)


class WatchedPanel(Watched, PanelPeople):  # type: ignore[misc]  # two kinds of people
    """The same panel; `tell` hears every question before it is answered."""

    def __init__(self, people: PanelPeople, tell: Callable[[Asking], None]) -> None:
        super().__init__(people, tell)
        self._panel = people

    @property
    def again(self) -> Callable[[Units], Products | None] | None:
        real = self._panel.again

        def asked(units: Units) -> Products | None:
            self._told("again", units)
            return None if real is None else real(units)

        return asked

    @property
    def own(self) -> dict[tuple[str, int], Own]:
        return self._panel.own  # names are public; what is done with values shows in the outcome

    def sizes(self, name: str) -> Floats:
        self._told("sizes", name)
        return self._panel.sizes(name)

    def spreads(self, name: str) -> Floats:
        self._told("spreads", name)
        return self._panel.spreads(name)

    def of(self, name: str, size: float) -> Own:
        self._told("of", name, size)
        return self._panel.of(name, size)


def watched(people: People | PairPeople, tell: Callable[[Asking], None]) -> Any:
    """These people, watched, as whatever they are."""
    if isinstance(people, PanelPeople):
        return WatchedPanel(people, tell)
    return WatchedPairs(people, tell) if isinstance(people, PairPeople) else Watched(people, tell)
