"""One mechanism asked once a column, as one question to the curator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from privmean.mechanisms.curator import Mechanism
from privmean.noise.base import Noise
from privmean.privacy.loss import Loss

Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")


@dataclass(frozen=True)
class EachColumn(Generic[Exact, Noisy]):
    """The answers of several columns. times: how often the losses of `step` are billed (once a
    column for noise on one column, once for noise that was set for all columns together)."""

    step: Mechanism[Exact, Noisy]
    times: int

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self.step.losses * self.times

    def draw(self, exact: Sequence[Exact], noise: Noise) -> list[Noisy]:
        return [self.step.draw(item, noise) for item in exact]
