"""Which clients a round asks: a public, data-independent split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from privmean import validate
from privmean.errors import ArgumentError


@dataclass(frozen=True)
class ClientSplit:
    """The clients that answer a round: those whose public hash falls into one share.

    Parameters
    ----------
    seed : bytes
        Public seed; rounds of one protocol have the same seed and shares.
    shares : tuple of int
        Parts of the clients, such as (20, 80).
    index : int
        The share that answers this round.
    """

    seed: bytes
    shares: tuple[int, ...]
    index: int

    def __post_init__(self) -> None:
        if not isinstance(self.seed, bytes) or len(self.seed) != 32:
            raise ArgumentError("seed", self.seed, "is not 32 bytes", "draw 32 random bytes")
        object.__setattr__(self, "shares", validate.listed("shares", self.shares))
        if not self.shares or any(validate.whole("shares", x) < 1 for x in self.shares):
            raise ArgumentError("shares", self.shares, "must be whole and positive", "try (20, 80)")
        if not 0 <= validate.whole("index", self.index) < len(self.shares):
            raise ArgumentError("index", self.index, "is not the number of a share", "count from 0")
        object.__setattr__(self, "shares", tuple(int(x) for x in self.shares))
        object.__setattr__(self, "index", int(self.index))

    def chosen(self, identity: str) -> bool:
        """Whether the client with this public identity answers. Never depends on its data."""
        if not isinstance(identity, str):
            raise ArgumentError(
                "identity", identity, "must be text", "give the public name as text"
            )
        digest = hashlib.blake2b(
            identity.encode(errors="surrogatepass"),
            digest_size=16,
            key=self.seed,
            person=b"privmean-part",
        ).digest()
        place = int.from_bytes(digest, "little") % sum(self.shares)
        low = sum(self.shares[: self.index])
        return low <= place < low + self.shares[self.index]
