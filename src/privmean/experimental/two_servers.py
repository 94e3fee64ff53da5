"""Means by two servers of which neither sees a value: the part that is not cryptography.

A client writes its value, clipped to public limits, as a whole number and splits it into two shares
with a proof that it is in range (`clients/two-servers`, on a library for such proofs). Each server
checks the proofs together with the other one, adds up the shares of accepted reports, adds noise
that suffices alone (`Task.noisy_share`) and shows the result. `Task.answer` adds both up.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.bisection import bisect
from privmean.errors import ArgumentError
from privmean.mechanisms.noisy_counts import MODULUS, NoisyShare
from privmean.noise.noise_source import ExactNoise, Noise
from privmean.plain_data import parsed
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.guarantee import Guarantee

FORMAT = "privmean two servers 1"
MOST_BITS = 32


@dataclass(frozen=True)
class SharedMean:
    """The answer: shape (d,) each. noise_sd: of both servers' noise, in the mean.

    lower, upper: about the mean (of clipped values) of the law that people were drawn from, at
    `level` for each value by itself: the noise is known, and the sampling variance is at most
    (mean - low)(high - mean)/n, which no law within the limits exceeds. noise_lower, noise_upper:
    about the mean of the very people who took part; half a step of the lattice is in both.
    """

    estimate: Floats
    noise_sd: Floats
    lower: Floats
    upper: Floats
    noise_lower: Floats
    noise_upper: Floats
    n: int
    level: float
    guarantee: Guarantee


@dataclass(frozen=True)
class Task:
    """What both servers and all clients know before anybody reports.

    lower, upper: public limits of each of the d values of a person, such as those that an earlier
    local round has found. epsilon: of the answer. n: the least number of accepted reports
    for which anything is shown. bits: of a clipped value as a whole number. identity: of this task.

    Raises ArgumentError or InfeasibleError.

    Example:
        from privmean.experimental.two_servers import Task

        task = Task.of(0, 10, epsilon=1, n=2)
        whole = [task.encode([4.0]), task.encode([6.0])]
        first = [(17,), (29,)]  # of each report: one share is random, the other the rest
        second = [tuple(a - b for a, b in zip(x, y)) for x, y in zip(whole, first)]
        shown = [task.noisy_share([sum(column) for column in zip(*s)]) for s in (first, second)]
        print(task.answer(shown, 2).estimate)

    Guarantees
    ----------
    epsilon-DP under replace-one, for people whose client follows the protocol, against any party
    that controls at most one of the servers and any of the other clients, up to the security of
    the proofs and of their random generator; limits, number and order of reports are public
    (docs/proofs/two-servers.md). One report a person is what the servers owe.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    epsilon: Fraction
    n: int
    bits: int = 20
    identity: str = ""

    @classmethod
    def of(
        cls,
        lower: float | Sequence[float],
        upper: float | Sequence[float],
        *,
        epsilon: float,
        n: int,
        bits: int = 20,
    ) -> Task:
        """A new task from plain numbers."""
        low, high = (
            tuple(validate.number("limits", x) for x in np.atleast_1d(np.asarray(item, object)))
            for item in (lower, upper)
        )
        spent = Fraction(validate.positive("epsilon", epsilon))
        Budget(epsilon=float(spent))  # within its range
        return cls(low, high, spent, n, bits, os.urandom(16).hex())

    def __post_init__(self) -> None:
        if not self.lower or len(self.lower) != len(self.upper):
            raise ArgumentError("lower", self.lower, "must match upper", "give both limits")
        for pair in zip(self.lower, self.upper, strict=True):
            validate.bounds("limits", pair)
        object.__setattr__(self, "n", validate.whole("n", self.n, least=1))
        object.__setattr__(self, "bits", validate.whole("bits", self.bits, least=1))
        if self.bits > MOST_BITS:
            raise ArgumentError(
                "bits", self.bits, f"must be at most {MOST_BITS}", "use for example 20"
            )
        # refused here where epsilon is too small for exact noise
        _ = self.mechanism

    @property
    def mechanism(self) -> NoisyShare:
        return NoisyShare(2**self.bits - 1, len(self.lower), self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about the answer."""
        return Guarantee(
            REPLACE_ONE,
            self.mechanism.events,
            float(self.epsilon),
            public=("limits", "number and order of reports", "who took part"),
            note="holds against one server, not against both together",
        )

    def encode(self, values: Sequence[float | None]) -> tuple[int, ...]:
        """A person's values as whole numbers; what is missing or no number is the middle."""
        if len(values) != len(self.lower):
            raise ArgumentError(
                "values", len(values), f"must be {len(self.lower)}", "give one per bound"
            )
        steps = self.mechanism.steps
        found = []
        for value, low, high in zip(values, self.lower, self.upper, strict=True):
            known = value is not None and not math.isnan(value)
            inside = min(max(value, low), high) if known and value is not None else (low + high) / 2
            found.append(min(steps, max(0, round((inside - low) / (high - low) * steps))))
        return tuple(found)

    def noisy_share(self, share: Sequence[int], noise: Noise | None = None) -> tuple[int, ...]:
        """What a server shows of its sums of shares; to be drawn once, and kept."""
        validate_share(share, len(self.lower))
        return self.mechanism.draw(share, ExactNoise() if noise is None else noise)

    def answer(self, shares: Sequence[Sequence[int]], n: int, *, level: float = 0.95) -> SharedMean:
        """The mean from the noisy shares of both servers. n: how many reports they accepted.

        Raises ArgumentError if fewer people took part than the task asks for.
        """
        validate.level("level", level)
        if len(shares) != 2:
            raise ArgumentError("shares", len(shares), "must be two", "give one per server")
        for share in shares:
            validate_share(share, len(self.lower))
        if n < self.n:
            raise ArgumentError("n", n, f"must be at least {self.n}", "collect more reports")
        totals = [sum(column) % MODULUS for column in zip(*shares, strict=True)]
        sums = [total - MODULUS if total > MODULUS // 2 else total for total in totals]
        low, high = np.array(self.lower), np.array(self.upper)
        step = (high - low) / self.mechanism.steps
        raw = low + step * np.array([total / n for total in sums])
        estimate = np.clip(raw, low, high)
        # each noise has variance 2 s^2, a little less on whole numbers
        noise_sd = step * 2 * float(self.mechanism.scale) / n
        z = NormalDist().inv_cdf((1 + level) / 2)
        reach = step * (_noise_reach(level) * float(self.mechanism.scale) / n + 0.5)
        likely = np.clip(np.stack([raw - reach, raw + reach]), low, high)
        middle = (low + high) / 2
        widest = np.where(  # the mean within reach with the largest variance
            (likely[0] <= middle) & (middle <= likely[1]),
            middle,
            np.where(likely[1] < middle, likely[1], likely[0]),
        )
        half = reach + z * np.sqrt((widest - low) * (high - widest) / n)
        return SharedMean(
            estimate,
            noise_sd,
            np.clip(raw - half, low, high),
            np.clip(raw + half, low, high),
            likely[0],
            likely[1],
            n,
            level,
            self.guarantee,
        )

    def to_json(self) -> str:
        """The text that servers and clients are given."""
        return json.dumps(
            {
                "format": FORMAT,
                "identity": self.identity,
                "lower": self.lower,
                "upper": self.upper,
                "bits": self.bits,
                "epsilon": str(self.epsilon),
                "persons": self.n,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Task:
        """The task of such a text."""
        try:
            said: dict[str, Any] = parsed(text)
            if said.pop("format") != FORMAT:
                raise ValueError
            lower, upper = (tuple(float(x) for x in said.pop(name)) for name in ("lower", "upper"))
            return cls(lower, upper, Fraction(said.pop("epsilon")), said.pop("persons"), **said)
        except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
            raise ArgumentError("task", text[:60], "is not a task", "see `Task.to_json`") from None


def _noise_reach(level: float) -> float:
    """t with P(|A + B| > t) = 1 - level for two Laplace variables of scale 1."""
    return bisect(lambda t: math.exp(-t) * (1 + t / 2) > 1 - level, 0.0, 100.0, 100)[1]


def validate_share(share: Sequence[int], dimension: int) -> None:
    """Refuse what is no share of so many sums."""
    if len(share) != dimension or not all(isinstance(item, int) for item in share):
        raise ArgumentError("share", len(share), f"must be {dimension} whole numbers", "see `Task`")
