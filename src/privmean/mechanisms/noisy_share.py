"""One of two additive shares of a sum, with noise that suffices alone.

Two servers hold shares that add up to the sum of all people's whole numbers modulo a public prime.
Each adds noise before it shows its share, so that whoever holds the other share and the other noise
sees the sum with this noise only (docs/proofs/two-servers.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privmean.errors import InfeasibleError
from privmean.noise.noise_source import LARGEST_SCALE, Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Laplace

MODULUS = 2**66 * 4611686018427387897 + 1  # prime; the field of 128 bits in which shares are proved


@dataclass(frozen=True)
class NoisyShare:
    """Shares of sums of whole numbers 0 .. steps, one sum a coordinate, with Laplace noise.

    Guarantees: epsilon-DP under replace-one for the other server, for who reads both noisy shares,
    and for both together: a replaced person moves each sum by at most `steps`, all `dimension` of
    them together by steps times dimension (l1).
    """

    steps: int
    dimension: int
    epsilon: Fraction
    name: str = "share of a sum"

    def __post_init__(self) -> None:
        if self.scale > LARGEST_SCALE:
            raise InfeasibleError(
                f"epsilon={float(self.epsilon):.3g} is too small for {self.dimension} sums of "
                f"{self.steps} steps",
                "give more epsilon, or fewer bits",
            )

    @property
    def scale(self) -> Fraction:
        """Of the noise of one server in one sum, in steps."""
        return self.dimension * self.steps / self.epsilon

    @property
    def events(self) -> tuple[Laplace, ...]:
        moved = Fraction(self.dimension * self.steps)
        return (Laplace(self.name, moved, self.scale, self.dimension, neighbors=REPLACE_ONE),)

    def draw(self, exact: Sequence[int], noise: Noise) -> tuple[int, ...]:
        """The noisy share, modulo the prime. exact: the share."""
        drawn = noise.laplace(self.dimension, self.scale).tolist()
        return tuple((a + b) % MODULUS for a, b in zip(exact, drawn, strict=True))

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        """What a pair of sums (not of shares) costs, over what is billed."""
        change = sum(abs(a - b) for a, b in zip(exact, other, strict=True))
        return (change / self.scale / self.epsilon,)
