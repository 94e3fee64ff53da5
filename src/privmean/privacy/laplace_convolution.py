"""The law of the privacy loss of independent discrete Laplace noises, on a grid, rounded up.

A noise against the same noise moved by `shift` steps has `shift + 1` losses. Each is parted between
the two multiples of the step beside it, so that both its mass and its mass under the other
neighbor stay: that is the chord over one cell of the curve of delta in e^epsilon, and dominates
(Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). The laws on the grid are convolved by
Fourier transforms. What that loses is bounded in docs/proofs/composition.md, section 1.

What verification composes: these pure parts, and the Gaussian ones together as one closed form,
never put on a grid. Independent of the library that composes plans, and without its import.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Floats
from privmean.privacy.amplification import AmplifiedProfile
from privmean.privacy.loss_distribution import (
    LONGEST_SHIFT,
    Piece,
    gaussian_and_step,
    pieces_of,
)
from privmean.privacy.privacy_events import PrivacyEvent

MOST_CELLS = 2**18
WIDE = 12.0  # deviations kept: beyond them is a mass of at most e^-72
BEYOND = 1e-31
# A double's rounding, times what a transform of unit mass, a power and the way back can make of it
PRECISION = 2.0**-52
ROUNDING = 1e-13  # of sums of masses
CURVE = 1e-14  # of the curve of a Gaussian mechanism besides, which is at most 1


def recomputed_delta(losses: Sequence[PrivacyEvent], epsilon: float) -> float:
    """An upper bound on delta of the noise parts at `epsilon`."""
    profile, mu = _distribution(tuple(losses))
    return profile.with_gaussian(mu, epsilon)


@lru_cache(maxsize=8)
def _distribution(losses: tuple[PrivacyEvent, ...]) -> tuple[AmplifiedProfile, float]:
    """The law that dominates the pure parts, and mu of the Gaussian ones."""
    mu, step = gaussian_and_step(losses)
    return convolved(pieces_of(losses), step), mu


def convolved(pieces: Mapping[Piece, int], step: float) -> AmplifiedProfile:
    """A law that dominates the pieces together, each as often as it is counted, at multiples of
    `step`, or of the least larger step for which `MOST_CELLS` are enough."""
    reach = _reach(pieces, step)
    step = max(step, 2 * reach / (MOST_CELLS - 4))
    cells = 1 << math.ceil(math.log2(2 * _reach(pieces, step) / step + 3))
    total = np.ones(cells // 2 + 1, dtype=np.complex128)
    for (scale, shift), times in sorted(pieces.items()):
        total *= np.fft.rfft(_cells(scale, shift, step, cells)) ** times
    masses = np.maximum(np.asarray(np.fft.irfft(total, cells), dtype=np.float64), 0.0)
    places = np.asarray(np.fft.fftfreq(cells, 1 / cells), dtype=np.float64) * step
    calls = sum(pieces.values()) + 1
    lost = calls * 4 * math.log2(cells) * math.sqrt(cells) * PRECISION
    held = masses > 0
    return AmplifiedProfile(places[held], masses[held], lost + CURVE + BEYOND, ROUNDING)


def _reach(pieces: Mapping[Piece, int], step: float) -> float:
    """A loss above which the law on the grid has a mass of at most `BEYOND`.

    A pair whose losses are at most e is e^2/2-zCDP (Bun and Steinke 2016), and the chance that the
    loss of a rho-zCDP pair exceeds rho + t is at most exp(-t^2 / (4 rho)).
    """
    largest = [
        (step * math.ceil(float(shift / scale) / step + 1), times)
        for (scale, shift), times in pieces.items()
    ]
    rho = math.fsum(times * one**2 / 2 for one, times in largest)
    return min(math.fsum(times * one for one, times in largest), rho + WIDE * math.sqrt(2 * rho))


def _cells(scale: Fraction, shift: int, step: float, cells: int) -> Floats:
    """The masses of one piece at the multiples of the step, those below zero at the end."""
    if shift > LONGEST_SHIFT:
        coarser = 2 * shift // LONGEST_SHIFT
        shift, scale = -(-shift // coarser), scale / coarser
    rate = math.nextafter(float(1 / scale), math.inf)
    k = np.arange(shift + 1)
    masses = np.exp(-rate * k)
    masses[1:-1] *= math.tanh(rate / 2)
    masses[[0, -1]] /= 1 + math.exp(-rate)
    place = (shift - 2 * k) * (rate / step)
    below = np.floor(place)
    upper = masses * np.expm1((below - place) * step) / math.expm1(-step)
    index = below.astype(np.int64)
    found: Floats = np.zeros(cells)
    found += np.bincount(index % cells, masses - upper, cells)
    found += np.bincount((index + 1) % cells, upper, cells)
    return found
