"""The local algorithms of Aliakbarpour, Fallah, Roy and Stevens (2025), and the local rounds of
Roth and Avella-Medina (2025).

Each person's report is one mechanism call with a law of its own, so the audit compares the exact
laws of reports, coin by coin; the accounting is each person's own epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privmean.auditing.audit_local import largest_ratio, law_of
from privmean.local.clients.randomizers import RANDOMIZERS
from privmean.local.exact_coins import SimulatedEntropy, power_of_e
from privmean.local.round_builders import (
    ball_round,
    items_round,
    mean_round,
    tau_sub_gaussian,
    vote_round,
)
from privmean.mechanisms.curator import TrustedCurator
from privmean.published import (
    ball_mean,
    item_shares,
    laplace_mean,
    randomized_response_mean,
    split_clients_as_printed,
)
from privmean.published import heterogeneous_local as local
from privmean.published.heterogeneous_local import GRID, ball_report, vote_report

MIX = np.where(np.arange(500) < 450, 0.1, 1.0)  # 90 % of the people at .1, 10 % at 1
TAU = tau_sub_gaussian(1, 2000)
SAID = {"persons": 9, "seed": bytes(32)}
Law = dict[Any, Fraction]


def laplace_laws(epsilon: Fraction) -> list[Law]:
    """Likeliest reports of the two ends, which differ by what the mechanism says of them."""
    asked = []

    class Watched(TrustedCurator):
        def ask(self, mechanism, exact):
            asked.append(mechanism)
            return super().ask(mechanism, exact)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local, "TrustedCurator", Watched)
        laplace_mean([1.0, -1.0], -1, 1, epsilon=epsilon, entropy=SimulatedEntropy(1))
    (mechanism,) = asked
    assert mechanism.events[0].pure == epsilon
    (share,) = mechanism.sensitivity_share([-GRID, 0], [GRID, 0])
    return [{0: Fraction(1)}, {0: 1 / Fraction(power_of_e(share * epsilon))}]


def enumerated(report, round_, inputs, epsilon) -> list[Law]:
    """The laws of a report of these inputs, coin by coin."""

    def run(round_, level, value, nonce, entropy):
        return tuple(report(round_, value, epsilon, entropy))

    return [law_of(run, round_, value, bytes(16)) for value in inputs]


def clients(name, round_, inputs) -> list[Law]:
    """The same of the clients of `privmean.local`."""
    return [law_of(RANDOMIZERS[name], round_, value, bytes(16)) for value in inputs]


def bit_laws(epsilon):
    round_ = mean_round(-1, 1, epsilon=epsilon, mechanism="one-bit", **SAID)
    return clients("one-bit", round_, (-1.0, 1.0, 0.3, None))


def ball_laws(epsilon):
    round_ = ball_round(1.0, 2, epsilon=epsilon, mechanism="ball-bit", **SAID)
    return enumerated(ball_report, round_, ([1.0, 0.0], [-0.6, 0.8], [0.0, 0.0], None), epsilon)


def sketch_laws(epsilon):
    round_ = items_round(4, epsilon=epsilon, mechanism="sketch", **SAID)
    return clients("sketch", round_, (0, 1, 3, None))


def vote_laws(epsilon):
    round_ = vote_round(-1, 1, 4, epsilon=epsilon, mechanism="subset", **SAID)
    return enumerated(vote_report, round_, (-1.0, 0.3, 1e300, math.nan), epsilon)


@dataclass(frozen=True)
class LocalCase:
    """estimate: of people and coins, with the keyword `epsilon`. people: from a generator. laws: of
    each report of a person, and its part of the person's epsilon."""

    name: str
    estimate: Callable[..., Any]
    people: Callable[[np.random.Generator], Any]
    epsilon: Any
    laws: tuple[tuple[Callable[[Fraction], list[Law]], Fraction], ...]
    truth: Any
    reference: Any = None

    def build(self) -> Any:
        return self.estimate

    def audit(self) -> bool:
        """No report tells any two values apart by more than its part of epsilon."""
        for laws, part in self.laws:
            for epsilon in (Fraction(1, 2), Fraction(2)):
                found = laws(epsilon * part)
                worst = [largest_ratio(first, second) for first in found for second in found]
                if None in worst or max(worst) > Fraction(power_of_e(epsilon * part)):
                    return False
        return sum(part for _, part in self.laws) == 1

    def bill(self) -> None:
        """Each person spends the person's own epsilon, and no more than that is declared."""
        people = self.people(np.random.default_rng(1))
        found = self.estimate(people, epsilon=self.epsilon, entropy=SimulatedEntropy(1))
        levels, counts = np.unique(np.broadcast_to(self.epsilon, len(people)), return_counts=True)
        assert found.people == dict(zip(levels.tolist(), counts.tolist(), strict=True))
        assert not found.secure

    def measured(self) -> list[float]:
        """Squared errors, run by run."""
        dice, found = np.random.default_rng(2), []
        for k in range(self.reference.runs):
            answer = self.estimate(
                self.people(dice), epsilon=self.epsilon, entropy=SimulatedEntropy(k)
            )
            found.append(float(((answer.raw - self.truth) ** 2).sum()))
        return found


def exactly(value: float, runs: int = 100) -> Any:
    """A mean squared error in closed form."""
    return SimpleNamespace(value=value, error=0.0, runs=runs, slack=0.0)


WHOLE, HALF = Fraction(1), Fraction(1, 2)
CASES = [
    LocalCase(
        "local Laplace (Algorithm 1)",
        lambda x, **given: laplace_mean(x, -1, 1, **given),
        lambda dice: dice.choice([-1.0, 1.0], 500), MIX, ((laplace_laws, WHOLE),), 0.0,
        # the printed weights cost 1.042 times the least variance
        exactly(1.042 / float((1 / (1 + 8 / MIX**2)).sum())),
    ),
    LocalCase(
        "randomized response (Algorithm 2)",
        lambda x, **given: randomized_response_mean(x, -1, 1, **given),
        lambda dice: dice.choice([-1.0, 1.0], 500), MIX, ((bit_laws, WHOLE),), 0.0,
        exactly(1 / float((np.tanh(MIX / 2) ** 2).sum())),
    ),
    LocalCase(
        "hemisphere in a ball (Algorithms 3 and 4)",
        lambda x, **given: ball_mean(x, 1, 5, **given),
        lambda dice: np.tile(np.eye(5)[0], (300, 1)), 1.0, ((ball_laws, WHOLE),), np.eye(5)[0],
        exactly((1 / (math.tanh(0.5) * 0.375) ** 2 - 1) / 300),
    ),
    LocalCase(
        "sketch of items (Algorithm 5)",
        lambda x, **given: item_shares(x, 4, **given),
        lambda dice: np.zeros(500, dtype=int), 2.0, ((sketch_laws, WHOLE),), np.eye(4)[0],
    ),
    LocalCase(
        "two local rounds (dependent data, Algorithms 6 to 9)",
        lambda x, **given: split_clients_as_printed(x, 50, tau=TAU, **given),
        lambda dice: dice.normal(size=2000), 1.0, ((vote_laws, HALF), (laplace_laws, HALF)), 0.0,
        exactly((1 + 2 * (12 * TAU) ** 2) / 2000, runs=50),
    ),
]  # fmt: skip
