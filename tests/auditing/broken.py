"""Broken twins of every class that draws noise, made from the class itself.

A twin is the class with one thing broken for as long as a context lasts: `privmean.audit` is then
the real one, on a package that does not keep its promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from altered_noise import Narrow
from privmean.auditing.measure_loss import CHOICES, numbers
from privmean.noise.noise_source import Noise


def narrow(base: type, times: Fraction) -> Any:
    """`draw` with narrower noise; a choice made of words is one of a larger epsilon."""
    real = base.draw
    words = issubclass(base, CHOICES)

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        if words:
            return real(replace(self, epsilon=self.epsilon * times), exact, noise)
        return real(self, exact, Narrow(noise, times))

    return {"draw": draw}


def unbilled(base: type) -> Any:
    """Without its losses, but for its own draws, which may need them."""
    real, deep = base.draw, []
    # a field of a dataclass is in no class: its values are those of the instances
    known = next((vars(one)["events"] for one in base.__mro__ if "events" in vars(one)), None)

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        deep.append(1)
        try:
            return real(self, exact, noise)
        finally:
            deep.pop()

    def events(self: Any) -> Any:
        own = self.__dict__.get("events", ())
        return (own if known is None else known.__get__(self, type(self))) if deep else ()

    def keep(self: Any, value: Any) -> None:
        self.__dict__["events"] = value

    return {"draw": draw, "events": property(events, keep), "sensitivity_share": lambda *_: ()}


def branching(base: type) -> Any:
    """One more draw for all exact answers but one: the first that is recorded."""
    real, without = base.draw, []

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        if not hasattr(exact, "__len__") and hasattr(exact, "__iter__"):
            exact = tuple(exact)
        without.append(tuple(numbers(exact)))
        if without[-1] != without[0]:
            noise.laplace(1, Fraction(1))
        return real(self, exact, noise)

    return {"draw": draw}


def leaking(base: type) -> Any:
    """One number of the answer is an exact one."""
    real = base.draw

    def draw(self: Any, exact: Any, noise: Noise) -> Any:
        if not hasattr(exact, "__len__") and hasattr(exact, "__iter__"):
            exact = tuple(exact)
        # by their places: one count less and another one more have the same sum
        told = float(sum(k * number for k, number in enumerate(numbers(exact), 1)) % 2**40)
        return with_number(real(self, exact, noise), told)

    return {"draw": draw}


def with_number(answer: Any, told: float) -> Any:
    """The answer with its last number replaced."""
    if isinstance(answer, np.ndarray) and answer.size:
        made = answer.copy()
        made.flat[-1] = told
        return made
    if isinstance(answer, list | tuple) and answer:
        return type(answer)((*answer[:-1], with_number(answer[-1], told)))
    if isinstance(answer, dict) and answer:
        key = list(answer)[-1]
        return {**answer, key: with_number(answer[key], told)}
    if is_dataclass(answer):
        name = fields(answer)[0].name
        return replace(answer, **{name: with_number(getattr(answer, name), told)})
    if isinstance(answer, np.ndarray | list | tuple | dict):
        return answer  # of nothing
    return type(answer)(told) if isinstance(answer, int | float) else told


TWINS: dict[str, Any] = {
    "noise of 1/1000": lambda base: narrow(base, Fraction(1000)),
    "scale 1 % too small": lambda base: narrow(base, Fraction(101, 100)),
    "losses missing": unbilled,
    "a branch on an exact answer": branching,
    "a number without noise": leaking,
}


@contextmanager
def twin(base: type, name: str) -> Iterator[None]:
    """The package with this class broken."""
    with mock.patch.multiple(base, create=True, **TWINS[name](base)):
        yield
