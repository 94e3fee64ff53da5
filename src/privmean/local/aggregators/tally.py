"""What a server keeps of many reports: a few integers, which merge in any order to the same bytes.

A cell is a level of the menu, times the coordinate and the branch that the nonce chose. Each cell
has a number of reports and an integer sum of their payloads; floats come only with the estimate.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from privmean.array_types import Integers
from privmean.errors import PrivmeanError
from privmean.local.mechanisms import CLOSEST, HYBRID
from privmean.local.round import Round
from privmean.strict_json import parsed

MAGIC = b"LDtally1"
HEAD = struct.Struct("<8s32sBQQ16sI")
FINGERPRINT = 1 << 128


def branches(round_: Round) -> int:
    return 2 if round_.mechanism == HYBRID else 1


def squared(round_: Round) -> bool:
    """Whether second moments are kept: how candidates vary depends on the data."""
    return round_.mechanism == CLOSEST


@dataclass
class Tally:
    """Integer state of one round; tallies of disjoint reports add up.

    Attributes
    ----------
    round : Round
        The round.
    counts : array (cells,)
        Reports per cell.
    sums : array (cells, width)
        Sums of payloads per cell.
    squares : list of int
        Sums of squared payloads per cell (scalar mechanisms).
    rejected : Counter
        Refused reports by reason.
    fingerprint : int
        Sum of all nonces modulo 2^128, to compare tallies.
    secure : bool
        False after a simulated report.
    moments : array (cells, width), optional
        Sums of squares per coordinate, for candidates.
    """

    round: Round
    counts: Integers
    sums: Integers
    squares: list[int]
    rejected: Counter[str] = field(default_factory=Counter)
    fingerprint: int = 0
    secure: bool = True
    moments: Integers | None = None

    @classmethod
    def empty(cls, round_: Round) -> Tally:
        number = round_.cells
        return cls(
            round_,
            np.zeros(number, dtype=np.int64),
            np.zeros((number, round_.width), dtype=np.int64),
            [0] * number,
            moments=np.zeros((number, round_.width), dtype=np.int64) if squared(round_) else None,
        )

    @property
    def reports(self) -> int:
        """How many reports are in."""
        return int(self.counts.sum())

    def by_level(self) -> Integers:
        """Reports a level, shape (levels,)."""
        result: Integers = self.counts.reshape(len(self.round.menu), -1).sum(axis=1)
        return result

    def merge(self, other: Tally) -> Tally:
        """The tally of both. The caller owes that no report is in both."""
        if other.round.digest != self.round.digest:
            raise PrivmeanError("the tallies must be of one round. Give tallies of the same round.")
        return Tally(
            self.round,
            self.counts + other.counts,
            self.sums + other.sums,
            [a + b for a, b in zip(self.squares, other.squares, strict=True)],
            self.rejected + other.rejected,
            (self.fingerprint + other.fingerprint) % FINGERPRINT,
            self.secure and other.secure,
            None if self.moments is None or other.moments is None else self.moments + other.moments,
        )

    def to_bytes(self) -> bytes:
        """The state. Equal contents give equal bytes, however they were put together."""
        words = {word: number for word, number in sorted(self.rejected.items()) if number}
        rejected = json.dumps(words, separators=(",", ":")).encode()
        body = b"".join(
            [
                HEAD.pack(
                    MAGIC,
                    self.round.digest,
                    self.secure,
                    len(self.counts),
                    self.sums.shape[1],
                    self.fingerprint.to_bytes(16, "little"),
                    len(rejected),
                ),
                rejected,
                self.counts.astype("<i8").tobytes(),
                self.sums.astype("<i8").tobytes(),
                b"".join(item.to_bytes(16, "little") for item in self.squares),
                b"" if self.moments is None else self.moments.astype("<i8").tobytes(),
            ]
        )
        return body + hashlib.blake2b(body, digest_size=16).digest()

    @classmethod
    def from_bytes(cls, round_: Round, data: bytes) -> Tally:
        """The tally of `to_bytes`, which must be of this round."""
        body, check = data[:-16], data[-16:]
        if len(data) < HEAD.size + 16 or hashlib.blake2b(body, digest_size=16).digest() != check:
            raise PrivmeanError("the tally is damaged. Make it again from the reports.")
        magic, digest, secure, number, size, mark, length = HEAD.unpack_from(body)
        expected = HEAD.size + length + 8 * number * (1 + size) + 16 * number
        if (
            magic != MAGIC
            or digest != round_.digest
            or (number, size) != (round_.cells, round_.width)
            or len(body) not in (expected, expected + 8 * number * size * squared(round_))
        ):
            raise PrivmeanError(
                "the tally is of another round. Ask for the description of that round."
            )
        place = HEAD.size
        rejected = _rejected(body[place : place + length])
        place += length
        counts = np.frombuffer(body, "<i8", number, place).astype(np.int64)
        place += 8 * number
        sums = np.frombuffer(body, "<i8", number * size, place).astype(np.int64)
        place += 8 * number * size
        squares = [
            int.from_bytes(body[place + 16 * k : place + 16 * (k + 1)], "little")
            for k in range(number)
        ]
        moments = None
        if len(body) > expected:
            moments = np.frombuffer(body, "<i8", number * size, expected).astype(np.int64)
            moments = moments.reshape(number, size)
        return cls(
            round_,
            counts,
            sums.reshape(number, size),
            squares,
            rejected,
            int.from_bytes(mark, "little"),
            bool(secure),
            moments,
        )


def _rejected(text: bytes) -> Counter[str]:
    try:
        found = parsed(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(
        type(count) is int and count >= 0 for count in found.values()
    ):
        raise PrivmeanError("the tally is damaged. Make it again from the reports.")
    return Counter(found)


def is_tally(data: bytes) -> bool:
    """Whether a file starts like a tally (and not like reports)."""
    return data[: len(MAGIC)] == MAGIC


def merge_all(round_: Round, tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies.

    Parameters
    ----------
    round_ : Round
        The round.
    tallies : iterable of Tally
        Tallies of disjoint reports; the sum of none is empty.

    Returns
    -------
    Tally
        The sum.
    """
    total = Tally.empty(round_)
    for tally in tallies:
        total = total.merge(tally)
    return total
