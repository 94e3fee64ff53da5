"""The privacy loss of one mechanism call, as an immutable fact that can be stored and re-read.

Each class states the parameters from which its loss follows (sensitivity, scale, lattice), so that
an accounting can be recomputed from a stored release by anyone. Composition is in `compose`; stored
ones are read in `stored_events`.

A stored loss keeps its meaning: classes and fields are added, never changed or removed. Losses
stored before there was a schema number name no relation, and no accounting of them is verified.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from privmean.privacy.budget import (
    LARGEST_EXPONENT,
    LARGEST_LOSS,
    NEIGHBORS,
    Correction,
    Relation,
    correction,
    count,
    positive_float,
    positive_fraction,
    refused,
)

if TYPE_CHECKING:
    from privmean.privacy.amplification import AmplifiedProfile

NONE, LARGEST = Fraction(0), Fraction(LARGEST_LOSS)
NUMBERS = {"Fraction": positive_fraction, "float": positive_float, "int": count}


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, str, bool], ...]:
    """Name, type, and whether it may be None: once a class, as a search makes many losses."""
    split = ((item.name, str(item.type).split(" | ")) for item in fields(kind))
    return tuple((name, kinds[0], len(kinds) > 1) for name, kinds in split)


@dataclass(frozen=True)
class PrivacyEvent:
    """One mechanism call that touched data. `name` says what it was for.

    `relation` names the neighbors for which the sensitivity was counted, `moved` says in words
    what one change of such neighbors moves (by default told from the numbers). A loss without a
    relation can be composed but is in no accounting that is verified.

    Every number is checked when the loss is made: a stored accounting that was edited to a
    negative, zero or undefined cost is refused, so that no entry is free and none lowers the total.
    """

    name: str
    neighbors: Relation | None = field(default=None, kw_only=True)
    sensitivity_text: str = field(default="", kw_only=True)
    kind: ClassVar[str] = ""

    def __init_subclass__(cls, kind: str = "") -> None:
        super().__init_subclass__()
        cls.kind = kind

    def __post_init__(self) -> None:
        if self.neighbors is not None and self.neighbors not in NEIGHBORS:
            raise refused("neighbors", self.neighbors, "is not a neighboring relation")
        for name, kind, optional in _fields(cast(Any, type(self))):
            value = getattr(self, name)
            if optional and value is None:
                pass
            elif kind in NUMBERS:
                object.__setattr__(self, name, NUMBERS[kind](name, value))
            elif kind == "bool" and not isinstance(value, bool):
                raise refused(name, value, "must be true or false")
            elif kind == "str" and not isinstance(value, str):
                raise refused(name, value, "must be text")

    @property
    def pure(self) -> Fraction:
        """Epsilon of the pure part (0 if there is none)."""
        return NONE

    @property
    def mu(self) -> float:
        """mu of the Gaussian part (0 if there is none)."""
        return 0.0

    @property
    def rho(self) -> float:
        """zCDP of the whole call, apart from `added_delta`."""
        pure = self.pure
        return (bounded(pure) ** 2 / 2 if pure else 0.0) + self.mu**2 / 2

    @property
    def added_delta(self) -> float:
        """delta that adds whatever the rest does (thresholds, bad events)."""
        return 0.0

    @property
    def lattice(self) -> Correction:
        """What the lattice of Gaussian noise costs."""
        return Correction()

    @property
    def drawn(self) -> float:
        """The largest scale, in steps, at which this call draws; 0 where it fits its own lattice.

        No sampler draws beyond `noise_source.LARGEST_SCALE`: see `noisy_vector.require_drawn`.
        """
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, tuple):  # the calls on each part of the people
                value = [[event.to_dict() for event in group] for group in value]
            values[item.name] = str(value) if isinstance(value, Fraction) else value
        values["mechanism"] = self.kind
        values["sensitivity_text"] = self.what_moved()
        values["loss"] = self.summary()
        return values

    def what_moved(self) -> str:
        """What one change of neighbors moves, in words."""
        return self.sensitivity_text or self.counted()

    def counted(self) -> str:
        """`moved`, told from the numbers."""
        return f"all answers together, by at most epsilon {bounded(self.pure):.6g}"

    def summary(self) -> dict[str, float]:
        """The loss of this call alone, in the currency that fits it."""
        result: dict[str, float] = {}
        if self.pure:
            result["epsilon"] = bounded(self.pure)
        if self.mu:
            result["mu"] = self.mu
        if self.added_delta or not result:
            result["delta"] = self.added_delta
        return result


@dataclass(frozen=True)
class Laplace(PrivacyEvent, kind="discrete Laplace"):
    """Discrete Laplace noise, P(k) proportional to exp(-|k|/scale), on integer answers.

    `sensitivity` is the l1 sensitivity of all answers together, in steps of the answers (which are
    integers, all with noise of this one scale). If the change of neighbors is known to fall on
    `cells_changed` answers, each moving by at most sensitivity/cells_changed, the loss is that of
    `cells_changed` smaller Laplace mechanisms. `joint` marks answers with several scales:
    sensitivity and scale are those of the first answer had it alone moved, and only their ratio,
    the epsilon of all answers together, is used.
    """

    sensitivity: Fraction
    scale: Fraction
    cells_changed: int = 1
    joint: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells_changed > 1 and self.cells_changed > self.sensitivity:
            raise refused(
                "cells_changed", self.cells_changed, "is more answers than whole steps can change"
            )

    @property
    def pure(self) -> Fraction:
        return self.sensitivity / self.scale

    @property
    def rho(self) -> float:
        return bounded(self.pure) ** 2 / (2 if self.joint else 2 * self.cells_changed)

    def counted(self) -> str:
        if self.joint:
            return f"several answers, together as {self.sensitivity} steps of the first (l1)"
        each = (
            f", at most {self.sensitivity / self.cells_changed} each"
            if self.cells_changed > 1
            else ""
        )
        return f"{self.cells_changed} of the answers, {self.sensitivity} steps in all (l1){each}"

    @property
    def drawn(self) -> float:
        return 0.0 if self.joint else bounded(self.scale)


class DeltaEvent(PrivacyEvent):
    """A part with a `delta` that adds, whatever the rest does."""

    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta >= 1:
            raise refused("delta", self.delta, "must be below 1")

    @property
    def added_delta(self) -> float:
        return self.delta


@dataclass(frozen=True)
class EpsilonEvent(PrivacyEvent):
    """A part whose epsilon is known, whatever it does."""

    epsilon: Fraction

    @property
    def pure(self) -> Fraction:
        return self.epsilon


@dataclass(frozen=True)
class Pure(EpsilonEvent, kind="pure"):
    """A mechanism known by its epsilon alone, with whatever noise (several scales, say)."""


@dataclass(frozen=True)
class Gaussian(PrivacyEvent, kind="discrete Gaussian"):
    """Discrete Gaussian noise on integer answers, on a lattice of `scale` steps a deviation.

    `sensitivity` is the l2 sensitivity in lattice steps with all rounding inside, `scale` the
    standard deviation in lattice steps (2^20 or more for a correction that does not matter; below 1
    only zCDP is claimed), `answers` the number of coordinates that one person can change. The zCDP
    of mu = sensitivity/scale holds as it stands on any lattice; the continuous curve holds at
    epsilon + lattice.epsilon, times lattice.factor, plus lattice.tail
    (docs/proofs/discrete-gaussian.md).
    """

    sensitivity: float
    scale: float
    answers: int

    @property
    def mu(self) -> float:
        return min(self.sensitivity / self.scale, LARGEST_LOSS)

    @property
    def lattice(self) -> Correction:
        return correction(self.mu, self.scale, self.answers)

    def counted(self) -> str:
        return f"{self.answers} of the answers, {self.sensitivity!r} steps in all (l2)"

    @property
    def drawn(self) -> float:
        return self.scale


@dataclass(frozen=True)
class Threshold(DeltaEvent, kind="threshold"):
    """The delta of a noisy threshold: the chance that a cell only one neighbor has is shown.

    With the Laplace `scale` or the Gaussian `sd` of the counts (in people) and the number of
    `cells` such a cell can be, `delta` is checked against the tail of the noise: it must be at
    least cells * P(1 + noise >= threshold).
    """

    delta: float
    threshold: float
    scale: Fraction | None = None
    sd: float | None = None
    cells: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells * self._tail() > self.delta:
            raise refused("delta", self.delta, "is below the tail of the noise at the threshold")

    def _tail(self) -> float:
        """The tail of one cell, less what rounding and a fine lattice can make of it."""
        if self.scale is not None:
            rate = float(1 / self.scale)
            return (
                (1 - 1e-9) * math.exp(min((1 - self.threshold) * rate, 0.0)) / (1 + math.exp(-rate))
            )
        if self.sd is not None:
            return (1 - 1e-4) * math.erfc((self.threshold - 1) / self.sd / math.sqrt(2)) / 2
        return 0.0

    def counted(self) -> str:
        return f"{self.cells} of the cells, from nobody to one person"


@dataclass(frozen=True)
class Selection(PrivacyEvent, kind="selection"):
    """A choice of one item (exponential mechanism, permute-and-flip, noisy argmax).

    `epsilon` is its pure loss. `bounded_range` marks the exponential mechanism proper, whose loss
    has range epsilon, so that its zCDP is epsilon^2/8 (Cesar and Rogers 2021). `choices` is how
    many times such a choice is made, each at epsilon and each told what went before.
    """

    epsilon: Fraction
    bounded_range: bool = False
    choices: int = 1

    @property
    def pure(self) -> Fraction:
        return self.epsilon * self.choices

    @property
    def rho(self) -> float:
        return self.choices * bounded(self.epsilon) ** 2 / (8 if self.bounded_range else 2)


@dataclass(frozen=True)
class Approximate(EpsilonEvent, DeltaEvent, kind="approximate"):
    """A mechanism known only as (epsilon, delta): an amplified or idealized part."""

    delta: float


@dataclass(frozen=True)
class Concentrated(PrivacyEvent, kind="concentrated"):
    """A part known by its zCDP alone: a question whose sums of rho keep `limit` on every path.

    It has no epsilon of its own (`pure` is beyond every budget), so that only sums of rho hold.
    """

    limit: float
    pure = Fraction(int(LARGEST_LOSS))

    @property
    def rho(self) -> float:
        return self.limit

    def summary(self) -> dict[str, float]:
        return {"rho": self.limit}

    def counted(self) -> str:
        return f"all answers together, by at most rho {self.limit:.6g}"


def bounded(value: Fraction) -> float:
    return float(min(value, LARGEST))


@dataclass(frozen=True)
class PrivacyProfile(EpsilonEvent, ABC):
    """A part known by its whole curve delta(epsilon), in both directions of neighbors.

    `epsilon` is one point of the curve, for basic composition. With Gaussian parts the composition
    uses `profile`, the law of the privacy loss that dominates the curve, and is much tighter.
    """

    @property
    def added_delta(self) -> float:
        return self.delta_at(min(bounded(self.epsilon), LARGEST_EXPONENT))

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """delta at any epsilon."""

    @abstractmethod
    def points(self) -> list[float]:
        """Increasing epsilons, 0 first, between which the curve is joined by chords."""

    @lru_cache(maxsize=256)  # noqa: B019 - of equal events
    def profile(self) -> AmplifiedProfile:
        """The dominating law of the privacy loss."""
        from privmean.privacy.amplification import dominating

        return dominating(self.delta_at, self.points())
