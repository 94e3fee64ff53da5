"""How much each person weighs in the mean of a stream: what its sampling error depends on.

Ids and steps are public, so this reads no value and costs no privacy. With a weight w for each row
of an estimate and people independent of each other, whatever the dependence within a person, the
sampling variance is at most sd^2 times the sum over people of (their weights' sum)^2
(docs/proofs/continual.md, section 8).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from privmean.streams.averaging_targets import AveragingTarget
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.state_file import StoredPerson, StoredRelease


class PersonWeights:
    """Two sums over the rows of an estimate, kept step by step with O(1) work for each row.

    people: sum over people of (sum of a person's weights)^2. rows: sum over rows of weight^2.
    Weights are those before division by their sum: 1, or fading with a half-life.
    """

    def __init__(self, target: AveragingTarget) -> None:
        self._factor, self._window = target.factor, target.window
        self.people, self.rows = 0.0, 0.0
        self._step = 0
        self._held: dict[str, tuple[int, float]] = {}  # last step, sum of weights at that step
        self._within: deque[tuple[str, ...]] = deque()  # the people of each step of the window

    @property
    def keeps_names(self) -> bool:
        """Whether going on needs the people of the last steps by name."""
        return self._window is not None

    def advance(self, names: tuple[str, ...]) -> None:
        """Count a step in which each of `names` has one row."""
        self._step += 1
        self.people *= self._factor**2
        self.rows *= self._factor**2
        for name in names:
            weight = self._now(name)
            self.people += 2 * weight + 1
            self.rows += 1
            self._held[name] = (self._step, weight + 1)
        if self._window is not None:
            self._within.append(names)
            if len(self._within) > self._window:
                self._leave(self._within.popleft())

    def _leave(self, names: tuple[str, ...]) -> None:
        for name in names:
            last, weight = self._held.pop(name)
            self.people -= 2 * weight - 1
            self.rows -= 1
            if weight > 1:
                self._held[name] = (last, weight - 1)

    def _now(self, name: str) -> float:
        last, weight = self._held.get(name, (self._step, 0.0))
        return weight if self._factor == 1 else float(weight * self._factor ** (self._step - last))

    def fading(self, name: str) -> float | None:
        """The sum of a person's weights at the person's last step; None where counts tell it."""
        return self._held[name][1] if self._factor < 1 and name in self._held else None

    def restore(
        self,
        people: Mapping[str, StoredPerson],
        kept: Sequence[StoredRelease],
        separation: int,
    ) -> None:
        """Go on after the last of `kept`, the last releases (of a whole window, if there is one).

        people: with their weights, which `fading` gave. A state of before these sums were kept
        tells how often each person took part, and when last: the earlier times are then taken as
        late as the separation allows, where they weigh most. The sums are exact for a running mean,
        and not too small for the others.
        """
        self._step = kept[-1].step
        for name, person in people.items():
            if person.used and person.last is not None:
                last = person.last + 1
                weight = person.weight
                if weight is None:
                    weight = _fading(self._factor, person.used, separation)
                self._held[name] = (last, weight)
        whole = True
        if self._window is not None:
            whole = self._restore_window(people, kept[-self._window :], separation)
        if whole and kept[-1].people is not None and kept[-1].rows is not None:
            self.people, self.rows = kept[-1].people, kept[-1].rows
        else:
            now = [self._now(name) for name in self._held]
            self.people, self.rows = sum(item * item for item in now), sum(now)

    def _restore_window(
        self, people: Mapping[str, StoredPerson], kept: Sequence[StoredRelease], separation: int
    ) -> bool:
        """Whether the people of all these steps were known by name."""
        steps: list[list[str]] = [list(item.names or ()) for item in kept]
        unnamed = sum(item.names is None for item in kept)  # the first ones, of an older state
        if unnamed:
            first: dict[str, int] = {}
            named: dict[str, int] = {}
            for index, names in enumerate(steps):
                for name in names:
                    first.setdefault(name, index)
                    named[name] = named.get(name, 0) + 1
            for name, person in people.items():
                if person.last is None:
                    continue
                last = person.last + 1 - kept[0].step
                place = first[name] - separation if name in first else last
                place = min(place, unnamed - 1)
                for _ in range(person.used - named.get(name, 0)):
                    if place < 0:
                        break
                    steps[place].append(name)
                    place -= separation
        self._within.extend(tuple(names) for names in steps)
        self._held.clear()
        for index, names in enumerate(steps):
            for name in names:
                self._held[name] = (kept[0].step + index, self._now(name) + 1)
        return not unnamed


def heaviest(target: AveragingTarget, participation: Participation) -> float:
    """The largest sum of weights that a person can have in an estimate."""
    most, apart = participation.most, participation.separation
    if target.window is not None:
        return float(min(most, -(-target.window // apart)))
    return _fading(target.factor, most, apart)


def _fading(factor: float, count: int, apart: int) -> float:
    """The sum of weights of `count` rows `apart` steps from each other, at the last of them."""
    if factor == 1:
        return float(count)
    ratio = factor**apart
    return float((1 - ratio**count) / (1 - ratio)) if ratio < 1 else float(count)
