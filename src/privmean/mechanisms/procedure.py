"""A mechanism that is a procedure: several draws whose losses are known only together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from privmean.noise.base import Noise
from privmean.privacy.loss import Loss

Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")


@dataclass(frozen=True)
class Procedure(Generic[Exact, Noisy]):
    """`run` draws; `losses` are those of all its draws, proved for the procedure as a whole.

    measure: what a pair of exact answers costs (`Mechanism.moved`), where a pair can show it.

    Guarantees: those of its proof page, which the module that makes the procedure names.
    """

    losses: tuple[Loss, ...]
    run: Callable[[Exact, Noise], Noisy]
    measure: Callable[[Exact, Exact], tuple[Fraction, ...]] | None = None

    def moved(self, exact: Exact, other: Exact) -> tuple[Fraction, ...]:
        return () if self.measure is None else self.measure(exact, other)

    def draw(self, exact: Exact, noise: Noise) -> Noisy:
        return self.run(exact, noise)
