"""One mechanism asked once a column, as one question to the curator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from privmean.mechanisms.curator import Mechanism
from privmean.noise.noise_source import Noise
from privmean.privacy.privacy_events import PrivacyEvent

Exact = TypeVar("Exact")
Noisy = TypeVar("Noisy")


@dataclass(frozen=True)
class EachColumn(Generic[Exact, Noisy]):
    """The answers of several columns. times: how often the losses of `step` are billed (once a
    column for noise on one column, once for noise that was set for all columns together)."""

    step: Mechanism[Exact, Noisy]
    times: int

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.step.events * self.times

    def sensitivity_share(
        self, exact: Sequence[Exact], other: Sequence[Exact]
    ) -> tuple[Fraction, ...]:
        shares = [self.step.sensitivity_share(a, b) for a, b in zip(exact, other, strict=True)]
        if self.times == 1:  # noise that was set for all columns together: their costs add up
            return tuple(sum(items, Fraction(0)) for items in zip(*shares, strict=True))
        every = tuple(share for items in shares for share in items)
        return every + (Fraction(0),) * (len(self.events) - len(every))

    def draw(self, exact: Sequence[Exact], noise: Noise) -> list[Noisy]:
        return [self.step.draw(item, noise) for item in exact]
