"""Local reports of people with an epsilon each, as published, for study and comparison.

Aliakbarpour, Fallah, Roy and Stevens, "High-Probability Bounds For Heterogeneous Local Differential
Privacy" (2025): Algorithm 1 (Laplace), 2 (randomized response), 3 and 4 (a vector in a ball), 5 (a
sketch of items). And the two rounds of Roth and Avella-Medina, "Differential Privacy with Dependent
Data" (2025), Algorithms 6 to 9, which every client answers. The means of numbers, vectors and items
that `privmean.local` chooses have the same guarantee and a smaller error.

Each person's report is drawn by itself, with exact coins or exact noise. The server's weights are
the printed ones. Corrections, named where they are made:

1. Laplace noise is discrete and exact, on a grid: differences of doubles would reveal values.
2. The reports of a ball are half as long as printed, else they estimate twice the mean.
3. The zero vector has a direction, as every vector has: printed, it has none.
4. The sketch has about 4 S rows, S the effective number of people: printed, about S^2.
5. Radii have constants, and ln(2/beta) where ln(1/beta) is printed, which cannot hold.
6. Two rounds pass their budget on once: printed, half of the votes' budget is never used. The end
   bins take what lies outside, so that every client votes for exactly one bin.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError
from privmean.local.aggregators.aggregator import Aggregator
from privmean.local.aggregators.ball_law import BallRound
from privmean.local.aggregators.round_law import Weighed
from privmean.local.aggregators.scalar_law import smallest
from privmean.local.clients.client import randomize
from privmean.local.clients.randomizers import grid_point, item, noisy_side, pole, unit, unit_value
from privmean.local.exact_coins import (
    WORD,
    Entropy,
    SystemEntropy,
    exact_epsilon,
    flip_threshold,
    normals,
    signal,
)
from privmean.local.round import BALL_BIT, ONE_BIT, SKETCH, SUBSET, Round
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.noisy_vector import LaplaceVector
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import REPLACE_ONE

PRINTED, MINIMAX, UNIFORM = "printed", "minimax", "uniform"
WEIGHTS = (PRINTED, MINIMAX, UNIFORM)
NONE = bytes(16)  # a nonce: these reports are not sent
SEED = bytes(32)


@dataclass(frozen=True)
class LocalEstimate:
    """An estimate from one private report of each person, or two.

    value: with probability 1 - beta its error is at most `radius`, in `norm`, if people are
    independent and their epsilon does not depend on their value. raw: before clipping or
    projection. people: how many people spent which epsilon. secure: False for simulated coins.

    Guarantees: all reports of a person are epsilon-DP for that person's value, at the person's own
    epsilon and for any value. The values of epsilon, and that a report was sent, are public.
    """

    value: Floats
    radius: float
    norm: str
    beta: float
    raw: Floats
    people: Mapping[float, int]
    secure: bool


@dataclass(frozen=True)
class _People:
    """Values and epsilons of people, and the coins of their clients."""

    values: Sequence[Any]
    epsilons: tuple[Fraction, ...]
    entropy: Entropy

    @classmethod
    def of(cls, values: Collection[Any], epsilon: object, entropy: Entropy | None) -> _People:
        several = isinstance(epsilon, Sequence | np.ndarray) and not isinstance(epsilon, str)
        given = list(epsilon) if several else [epsilon] * len(values)  # type: ignore[call-overload]
        if not len(values):
            raise ArgumentError("values", None, "is empty", "give one value per person")
        if len(given) != len(values):
            counts = f"has length {len(given)}, but there are {len(values)} values"
            raise ArgumentError("epsilon", None, counts, "give one number, or one per person")
        own = {item: exact_epsilon("epsilon", _plain(item)) for item in set(given)}
        return cls(list(values), tuple(own[item] for item in given), entropy or SystemEntropy())

    @property
    def menu(self) -> list[Fraction]:
        return sorted(set(self.epsilons))

    def reports(self, randomizer: Callable[[Any, Fraction, Entropy], Any]) -> list[Any]:
        return [
            randomizer(value, epsilon, self.entropy)
            for value, epsilon in zip(self.values, self.epsilons, strict=True)
        ]

    def each(self, rule: Callable[[Fraction], float]) -> Floats:
        """A number of each person's epsilon."""
        known = {epsilon: rule(epsilon) for epsilon in self.menu}
        return np.array([known[epsilon] for epsilon in self.epsilons])

    def halved(self) -> _People:
        known = {epsilon: exact_epsilon("epsilon", epsilon / 2) for epsilon in self.menu}
        return replace(self, epsilons=tuple(known[epsilon] for epsilon in self.epsilons))

    def told(self, **found: Any) -> LocalEstimate:
        counts = Counter(float(epsilon) for epsilon in sorted(self.epsilons))
        return LocalEstimate(people=dict(counts), secure=self.entropy.secure, **found)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _weights(
    people: _People, name: str, rules: Mapping[str, Callable[[Fraction], float]]
) -> Floats:
    validate.choice("weights", name, WEIGHTS)
    raw = people.each({UNIFORM: lambda _: 1.0, **rules}[name])
    return np.asarray(raw / raw.sum())


# --- Algorithm 1: Laplace -------------------------------------------------------------------------

GRID = 2**12  # steps of the grid in a unit of [-1, 1]


def laplace_reports(people: _People, round_: Round) -> Floats:
    """Algorithm 1, the clients: values in [-1, 1] and Laplace noise of scale 2/epsilon.

    Correction 1: a value is rounded to a grid without bias, and the noise is discrete.
    """

    def point(value: object, epsilon: Fraction, coins: Entropy) -> int:
        return grid_point(unit_value(round_, value, NONE) * GRID, coins.word())

    points, reports = np.array(people.reports(point)), np.empty(len(people.values))
    noise = ExactNoise() if people.entropy.secure else SimulatedNoise(people.entropy.word())
    curator = TrustedCurator(ArrayPersonTable(points[:, None] / GRID, ("value",)), noise)
    for epsilon in people.menu:
        own = np.array([item == epsilon for item in people.epsilons])
        each = int(own.sum())
        mechanism = LaplaceVector((GRID,) * each, (2,) * each, epsilon, REPLACE_ONE, "reports")
        reports[own] = curator.ask(mechanism, points[own].tolist())
    return reports


def laplace_radius(epsilons: Floats, weights: Floats, beta: float) -> float:
    """Chernoff's bound of the weighted mean's error, minimized over its one parameter."""
    step = 1 / GRID
    decay = epsilons * step / 2
    constant = math.log(2 / beta)

    def bound(share: float) -> float:
        lam = share * float((decay / (weights * step)).min())
        a = lam * weights * step
        # ln[(1-q)^2 / ((1 - q e^a)(1 - q e^-a))] with q = e^-decay; of the values Hoeffding's lemma
        logs = 2 * np.log(-np.expm1(-decay)) - np.log(-np.expm1(a - decay))
        logs += (lam * weights) ** 2 / 2 - np.log(-np.expm1(-a - decay))
        return (float(logs.sum()) + constant) / lam

    return smallest(bound)


def laplace_mean(
    values: Collection[Any],
    lower: float,
    upper: float,
    *,
    epsilon: object,
    weights: str = PRINTED,
    beta: float = 0.05,
    entropy: Entropy | None = None,
) -> LocalEstimate:
    """Algorithm 1: the mean of bounded numbers from Laplace reports.

    epsilon: one number, or one per person. weights: "printed" is 1/(1 + 1/epsilon^2), "minimax"
    1/(1 + 8/epsilon^2). entropy: SimulatedEntropy for tests alone.
    """
    people = _People.of(values, epsilon, entropy)
    round_ = mean_round(
        lower,
        upper,
        epsilon=people.menu,
        persons=len(values),
        mechanism=ONE_BIT,
        seed=SEED,
        beta=beta,
    )
    rules = {PRINTED: lambda e: 1 / (1 + 1 / float(e) ** 2),
             MINIMAX: lambda e: 1 / (1 + 8 / float(e) ** 2)}  # fmt: skip
    w = _weights(people, weights, rules)
    mean = float(w @ laplace_reports(people, round_))
    radius = laplace_radius(people.each(float), w, beta)
    middle, half = (round_.lower[0] + round_.upper[0]) / 2, (round_.upper[0] - round_.lower[0]) / 2
    # printed: nothing is said where the radius is trivial. Correction 5: ln(2/beta) in the radius
    value = 0.0 if radius >= 1 else min(max(mean, -1.0), 1.0)
    return people.told(
        value=np.array([middle + half * value]),
        radius=half * min(radius, 1.0),
        norm="absolute",
        beta=beta,
        raw=np.array([middle + half * mean]),
    )


# --- Algorithm 2: randomized response -------------------------------------------------------------


def randomized_response_mean(
    values: Collection[Any],
    lower: float,
    upper: float,
    *,
    epsilon: object,
    beta: float = 0.05,
    entropy: Entropy | None = None,
) -> LocalEstimate:
    """Algorithm 2: the mean of numbers that are `lower` or `upper`, from one bit per person.

    Numbers between the two are rounded to one of them without bias. The printed weights,
    tanh^2(epsilon/2), are minimax.
    """
    people = _People.of(values, epsilon, entropy)
    round_ = mean_round(
        lower, upper, epsilon=people.menu, persons=len(values), mechanism=ONE_BIT, beta=beta
    )
    return _counted(people, round_)


# --- Algorithms 3 and 4: a vector in a ball -------------------------------------------------------


def ball_report(round_: Round, value: object, epsilon: Fraction, entropy: Entropy) -> list[float]:
    """Algorithm 3, the client: a direction, on the vector's side with odds e^epsilon.

    The law of the direction does not depend on the vector, and its sign is an exact coin: so the
    guarantee holds for floating-point directions too. Correction 3: see `pole`.
    """
    assert round_.dimension is not None
    size = round_.dimension
    center = pole(round_, value, entropy)
    direction = unit(normals([entropy.word() for _ in range(size + size % 2)])[:size])
    side = noisy_side(epsilon, center, direction, entropy)
    return [side * entry for entry in direction]


def ball_mean(
    values: Collection[Any],
    radius: float,
    dimension: int,
    *,
    epsilon: object,
    weights: str = PRINTED,
    beta: float = 0.05,
    entropy: Entropy | None = None,
) -> LocalEstimate:
    """Algorithms 3 and 4: the mean of vectors of length `radius` or less, from directions.

    weights: "printed" is epsilon^2, "minimax" tanh^2(epsilon/2).
    """
    people = _People.of(values, epsilon, entropy)
    round_ = ball_round(
        radius,
        dimension,
        epsilon=people.menu,
        persons=len(values),
        mechanism=BALL_BIT,  # the same law, so the same radius
        seed=SEED,
        beta=beta,
    )
    rules = {PRINTED: lambda e: float(e) ** 2, MINIMAX: lambda e: signal(e) ** 2}
    w = _weights(people, weights, rules)
    # correction 2: B = c r/h_d, half of what is printed
    law = BallRound(round_, range(len(round_.menu)))
    scale = people.each(dict(zip(round_.menu, law.norms, strict=True)).__getitem__)
    reports = people.reports(lambda value, e, coins: ball_report(round_, value, e, coins))
    mean = (w * scale) @ np.array(reports)
    counts = np.array([people.epsilons.count(e) for e in round_.menu], dtype=float)
    each = np.array([w[people.epsilons.index(e)] for e in round_.menu])
    limit = float(law.radius(Weighed(0, counts, each, mean), beta))
    value = np.zeros(len(mean)) if limit >= 1 else mean / max(1.0, float(np.linalg.norm(mean)))
    return people.told(
        value=radius * value,
        radius=radius * min(limit, 1.0),
        norm="l2",
        beta=beta,
        raw=radius * mean,
    )


# --- Algorithm 5: a sketch of items ---------------------------------------------------------------


def item_shares(
    values: Collection[Any],
    items: int,
    *,
    epsilon: object,
    beta: float = 0.05,
    entropy: Entropy | None = None,
) -> LocalEstimate:
    """Algorithm 5: the shares of items 0 to items - 1, from one bit per person.

    The sketch, its oracle for every item, and the projection to the simplex. Correction 4: the
    sketch has the power of two above 4 S rows. Single items of a huge domain: `local.item_oracle`.
    """
    people = _People.of(values, epsilon, entropy)
    effective = float((people.each(signal) ** 2).sum())
    round_ = items_round(
        items,
        epsilon=people.menu,
        persons=len(values),
        mechanism=SKETCH,
        rows=1 << max(0, math.ceil(math.log2(max(1.0, 4 * effective)))),
        beta=beta,
    )
    return _counted(people, round_)


def _counted(people: _People, round_: Round) -> LocalEstimate:
    """The reports of the clients of `privmean.local`, and what its server says of them."""
    server = Aggregator(round_)
    reports = people.reports(
        lambda value, e, coins: randomize(round_, value, epsilon=e, entropy=coins)
    )
    server.add(b"".join(reports))
    found = server.estimate(weights=MINIMAX)
    return people.told(
        value=found.value, radius=found.radius, norm=found.norm, beta=found.beta, raw=found.raw
    )


# --- two rounds that every client answers ---------------------------------------------------------


def vote_report(round_: Round, value: object, epsilon: Fraction, entropy: Entropy) -> list[bool]:
    """Algorithms 6 and 7, the client: every bit of its bin by randomized response at epsilon/2."""
    own = item(round_, value, NONE)
    flip = flip_threshold(epsilon / 2)
    return [(k == own) ^ (entropy.word() < flip) for k in range(round_.items or 0)]


def split_clients_as_printed(
    values: Collection[Any],
    bound: float,
    *,
    tau: float,
    epsilon: object,
    beta: float = 0.05,
    entropy: Entropy | None = None,
) -> LocalEstimate:
    """Algorithms 6 to 9 of the dependent-data paper: the mean of numbers without narrow bounds.

    bound: the mean lies in [-bound, bound]. tau: most values lie this near to their mean. Every
    client answers both rounds, each at half of its epsilon: a vote for a bin of half width tau,
    then a Laplace report of its value clipped to 3 tau around the bin with most votes. The radius
    holds for the mean of the clipped values.
    """
    people = _People.of(values, epsilon, entropy)
    half, tau = people.halved(), validate.positive("tau", tau)
    bins = max(3, 2 * math.ceil((validate.positive("bound", bound) / tau - 1) / 2) + 1)
    # correction 6: the end bins take all values outside, and epsilon/2 is passed on whole
    round_ = vote_round(
        -bins * tau,
        bins * tau,
        bins,
        epsilon=half.menu,
        persons=len(values),
        mechanism=SUBSET,
        seed=SEED,
        beta=beta,
    )
    votes = half.reports(lambda value, e, coins: vote_report(round_, value, e, coins))
    kept = half.each(lambda e: signal(e / 2))
    flip = half.each(lambda e: flip_threshold(e / 2) / WORD)
    winner = int((kept @ (np.array(votes) - flip[:, None])).argmax())
    center = tau * (2 * winner + 1 - bins)
    found = laplace_mean(
        values, center - 3 * tau, center + 3 * tau, epsilon=list(half.epsilons), beta=beta,
        entropy=half.entropy,
    )  # fmt: skip
    return people.told(
        value=found.value, radius=found.radius, norm=found.norm, beta=beta, raw=found.raw
    )
