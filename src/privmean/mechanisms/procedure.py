"""A mechanism that is a procedure: several draws whose losses are known only together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from privmean.noise.base import Noise
from privmean.privacy.loss import Loss

Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")


@dataclass(frozen=True)
class Procedure(Generic[Exact, Noisy]):
    """`run` draws; `losses` are those of all its draws, proved for the procedure as a whole.

    Guarantees: those of its proof page, which the module that makes the procedure names.
    """

    losses: tuple[Loss, ...]
    run: Callable[[Exact, Noise], Noisy]

    def draw(self, exact: Exact, noise: Noise) -> Noisy:
        return self.run(exact, noise)
