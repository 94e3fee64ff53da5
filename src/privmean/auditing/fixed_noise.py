"""Noise that writes down what it is added to, and fixed noise to try draws with.

A draw is handed out as a number that knows where it stands on the list: what it is added to is its
operand, written down with the sum. A replay asks for the same draws and gets back the sums of the
recording, whatever is added: two lists of operands, over the scales that were asked for, are what a
pair of neighbors costs. Nothing of it is said by the mechanism.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from privmean.array_types import Flags, Integers, Words
from privmean.mechanisms.curator import Mechanism
from privmean.noise.noise_source import Noise

Answer: TypeAlias = Any  # exact or noisy, in the form that its mechanism has
Asked: TypeAlias = Any  # a question or a study, its source, and what comes of it
Added: TypeAlias = Any  # noise that writes down what it is added to

MOST_REQUESTS = 20_000
ADDITIVE = ("laplace", "gaussian")
DEPTH = 12  # frames between a mechanism and its noise, at most


@dataclass(frozen=True)
class Request:
    """One call of a source of noise. law: the method; scale: as it was asked for (0: none).

    operands: what each draw was added to (None: to nothing, or to what is no number). sums: what
    was given back; of laws that are not added, all that was drawn. by: classes that drew.
    """

    law: str
    size: int
    scale: Fraction = Fraction(0)
    operands: list[Any] = field(default_factory=list, compare=False, repr=False)
    sums: list[Any] = field(default_factory=list, compare=False, repr=False)
    by: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def met(self) -> bool:
        """Whether every draw was added to one number."""
        return len(self.operands) == self.size and None not in self.operands


class Endless(Exception):
    """A draw does not come to an end: it tries again until the noise suits it."""


class Otherwise(Exception):
    """A replay asks for other noise than the recording."""


class Met(int):
    """One draw, which tells its list what it is added to."""

    __array_ufunc__ = None  # arrays and their numbers leave the sum to it

    request: Request
    place: int
    fixed: bool

    @classmethod
    def of(cls, value: int, request: Request, place: int, *, fixed: bool) -> Met:
        made = cls(value)
        made.request, made.place, made.fixed = request, place, fixed
        return made

    def __add__(self, other: Added) -> Added:
        if isinstance(other, np.ndarray):
            return NotImplemented
        operand = other.item() if isinstance(other, np.generic) else other
        operands, sums = self.request.operands, self.request.sums
        if operands[self.place] not in (None, operand):  # it would tell their difference
            raise Otherwise("one draw is added to two answers")
        operands[self.place] = operand
        if not self.fixed:
            sums[self.place] = int(self) + operand
        return sums[self.place]

    __radd__ = __add__


class Drawn(Sequence[Any]):
    """Some draws of one request, in the shape that a mechanism asks them in."""

    __array_ufunc__ = None

    def __init__(self, numbers: Sequence[Any]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int | slice) -> Added:
        found = self._numbers[index]
        return Drawn(found) if isinstance(index, slice) else found

    def __array__(self, dtype: Answer = None, copy: Answer = None) -> Added:
        return np.array([int(item) for item in self._numbers], dtype=dtype or np.int64)

    def tolist(self) -> list[Any]:
        return list(self._numbers)

    def item(self) -> Added:
        (one,) = self._numbers
        return one

    def astype(self, _: object) -> Drawn:
        return self

    def reshape(self, *shape: int) -> Added:
        return np.asarray(self).reshape(*shape)

    def __add__(self, other: object) -> Added:
        kind = getattr(other, "dtype", np.dtype(np.int64))
        listed = other.tolist() if isinstance(other, np.ndarray) else [other] * len(self)
        sums = [draw + item for draw, item in zip(self._numbers, listed, strict=True)]
        return np.array(sums, dtype=kind)

    __radd__ = __add__


@dataclass
class Draws:
    """The same noise; never secure, so that no release made with it passes for one. again: the
    requests of a recording, whose sums are given back."""

    noise: Noise
    requests: list[Request] = field(default_factory=list)
    most: int = MOST_REQUESTS
    again: Sequence[Request] | None = None

    secure = False

    def _note(self, law: str, size: int, scale: Fraction | float = 0) -> tuple[Request, bool]:
        """The request, with the sums of the recording, and whether these stand."""
        at = len(self.requests)
        if at >= self.most:
            raise Endless
        made = Request(law, size, Fraction(scale), by=_drawing())
        if self.again is not None:
            if at >= len(self.again) or self.again[at] != made:
                raise Otherwise("other noise is asked for")
            made.sums.extend(self.again[at].sums)
        self.requests.append(made)
        return made, self.again is not None

    def _added(self, law: str, size: int, scale: Fraction | float) -> Integers:
        made, fixed = self._note(law, size, scale)
        made.operands.extend([None] * size)
        if fixed:
            values = [0] * size
        else:
            values = getattr(self.noise, law)(size, scale).tolist()
            made.sums.extend(values)
        drawn = Drawn([Met.of(x, made, k, fixed=fixed) for k, x in enumerate(values)])
        return cast("Integers", drawn)

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._added("laplace", size, scale)

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._added("gaussian", size, scale)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        made, fixed = self._note("argmax", len(scores), scale)
        made.operands.extend(np.asarray(scores).tolist())
        if not fixed:
            made.sums.append(self.noise.argmax(scores, scale))
        return int(made.sums[0])

    def _words(self, law: str, size: int, bound: Fraction | int, *more: object) -> npt.NDArray[Any]:
        made, fixed = self._note(law, size, bound)
        if not fixed:
            made.sums.append(getattr(self.noise, law)(size, *more))
        return cast("npt.NDArray[Any]", made.sums[0].copy())

    def bits64(self, size: int) -> Words:
        return self._words("bits64", size, 0)

    def below(self, size: int, bound: int) -> Integers:
        return self._words("below", size, bound, bound)

    def bernoulli(self, size: int, probability: Fraction) -> Flags:
        return self._words("bernoulli", size, probability, probability)


def _drawing() -> frozenset[str]:
    """The classes whose `draw` is at work: the mechanism, and those that it is made of."""
    found, frame = set(), sys._getframe(3)
    for _ in range(DEPTH):
        own = frame.f_locals.get("self")
        if own is not None and hasattr(own, "draw") and hasattr(own, "events"):
            found.add(type(own).__name__)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frozenset(found)


class Fixed(Noise):
    """Noise that is given: in every draw `times` scales and `steps` whole steps; `at` counts the
    draws of all requests, and that draw gets one scale more, in whole steps, at least 1."""

    secure = False

    def __init__(self, times: float = 0.0, steps: int = 0, at: int | None = None) -> None:
        self._times, self._steps, self._at, self._done = Fraction(times), steps, at, 0

    def laplace(self, size: int, scale: Fraction | float) -> Integers:
        steps = round(self._times * Fraction(scale)) + self._steps
        drawn = np.full(size, steps, dtype=np.int64)
        if self._at is not None and 0 <= self._at - self._done < size:
            drawn[self._at - self._done] += max(1, round(Fraction(scale)))
        self._done += size
        return drawn

    gaussian = laplace

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        return int(np.argmax(scores))

    def bits64(self, size: int) -> Words:
        return np.zeros(size, dtype=np.uint64)


def drawn(
    mechanism: Mechanism[Any, Any], exact: object, noise: Noise, most: int = MOST_REQUESTS
) -> tuple[Any, list[Request]]:
    """What is given back, and what was asked for; `Endless` after so many requests."""
    draws = Draws(noise, most=most)
    return mechanism.draw(exact, draws), draws.requests
