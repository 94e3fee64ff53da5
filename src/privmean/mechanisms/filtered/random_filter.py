"""Who is kept: a random filter under which two kept people always have a friend in common.

Two people with more than half of all degrees share a friend, so they are at most two radii apart,
however far the rest of the data lies. Keeping is random, with a probability that grows with the
degree, so that one person cannot switch others on or off. Proofs: docs/proofs/anisotropic.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmean.array_types import Flags, Integers
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation


@dataclass(frozen=True)
class NoisyDegrees:
    """Gaussian noise on every degree and one hard threshold: a filter for large public n.

    steps, scale: lattice steps a degree and noise in steps; threshold: the least noisy degree kept,
    in steps.
    """

    steps: int
    scale: float
    threshold: int


@dataclass(frozen=True)
class Sampled:
    """The sampled-degree filter: friends among `draws` people a person, above `threshold`."""

    draws: int
    threshold: int


def keep_odds(deg: Integers, relation: Relation) -> tuple[Integers, int]:
    """Keeping probabilities of the basic filter as integers over one denominator.

    add-remove (2 deg - n)/n, replace-one (2 deg - n - 1)/(n - 1), never below 0. The published
    threshold n/2 is wrong for replace-one neighbors and odd n: two people without a common friend
    can then be kept in neighboring tables.
    """
    n = len(deg)
    if relation == REPLACE_ONE:
        if n < 2:
            return np.ones(n, dtype=np.int64), 1
        return np.maximum(2 * deg - n - 1, 0), n - 1
    return np.maximum(2 * deg - n, 0), max(n, 1)


def basic_keep(deg: Integers, usable: Flags, relation: Relation, noise: Noise) -> Flags:
    """Who the basic filter keeps among the usable rows; the others are as if they were not there.

    A person whose row becomes usable is an added one: the replace-one filter bears that as well.
    """
    kept = np.zeros(len(deg), dtype=np.bool_)
    kept[usable] = bernoulli(*keep_odds(deg[usable], relation), noise)
    return kept


def sampled_threshold(persons: int, draws: int, slip: float) -> int:
    """The number of sampled friends below which nobody is kept (replace-one).

    A person with at most (n+1)/2 friends reaches it with probability at most slip/n (Hoeffding).
    """
    share = (persons + 1) / (2 * persons) + math.sqrt(math.log(persons / slip) / (2 * draws))
    return math.ceil(draws * share * (1 + 1e-12))


def sampled_influence(persons: int, draws: int, slip: float) -> float:
    """1/(1 - tau): the slope of the sampled filter's keeping probability; inf if tau >= 1."""
    room = draws - sampled_threshold(persons, draws, slip)
    return draws / room if room > 0 else math.inf


def sampled_odds(friends: Integers, draws: int, threshold: int) -> tuple[Integers, int]:
    """Keeping probabilities from sampled friends, as integers over one denominator."""
    return np.maximum(friends - threshold, 0), draws - threshold


def bernoulli(numerators: Integers, denominator: int, noise: Noise) -> Flags:
    """Independent coins, each true with probability numerator/denominator exactly."""
    drawn = noise.below(len(numerators), denominator)
    return np.asarray(drawn < numerators)


def noisy_degree_keep(deg: Integers, noisy: NoisyDegrees, noise: Noise) -> Flags:
    """Whether each degree plus Gaussian noise reaches the threshold."""
    drawn = noise.gaussian(len(deg), noisy.scale)
    return np.asarray(deg * noisy.steps + drawn >= noisy.threshold)
