"""The one interface through which noise enters: integers in, integers out."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Noise(Protocol):
    """A source of integer noise.

    `secure` is True only for exact samplers fed by the operating system's entropy. Releases carry
    it, so that a simulation is never mistaken for a release.
    """

    @property
    def secure(self) -> bool: ...

    def laplace(self, size: int, scale: Fraction) -> Integers:
        """`size` draws of the discrete Laplace law P(k) proportional to exp(-|k|/scale)."""
        ...

    def gaussian(self, size: int, scale: float) -> Integers:
        """`size` draws of the discrete Gaussian law P(k) proportional to exp(-k^2/(2 scale^2))."""
        ...

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        """The index of the largest score plus Exponential(scale) noise (permute-and-flip law).

        With scores of sensitivity D (each moves by at most D, in any direction) the choice is
        (2 D/scale)-DP; if all move the same way it is (D/scale)-DP.
        """
        ...

    def bits64(self, size: int) -> npt.NDArray[np.uint64]:
        """`size` uniform 64-bit words."""
        ...
