"""Many reports of one round as arrays, and what a server keeps of them: a few integers.

Tallies merge in any order to the same bytes. A cell is a level of the menu, times the coordinate
and the branch that the nonce chose. Each cell has a number of reports and an integer sum of their
payloads; floats come only with the estimate.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.array_types import Bytes, Flags, Floats, Integers, Words
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.clients.randomizers import hybrid_share, public_words
from privmean.local.reports import (
    HEADER,
    HEADER_SIZE,
    KEY,
    KEY_SIZE,
    NONCE_SIZE,
    POINT,
    common_header,
    payload_size,
)
from privmean.local.round import (
    CHOSEN,
    HYBRID,
    ONE_BIT,
    SCALARS,
    Round,
)
from privmean.plain_data import parsed

ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def counted_by_bytes(words: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Ones of each number that is not negative, for a NumPy that cannot count them (before 2.0)."""
    plain = np.ascontiguousarray(words)
    parts = ONES[plain.view(np.uint8).reshape(*plain.shape, plain.dtype.itemsize)]
    found: npt.NDArray[np.uint8] = parts.sum(axis=-1, dtype=np.uint8)
    return found


bit_count = getattr(np, "bitwise_count", counted_by_bytes)


TALLY_MAGIC = b"LDtally1"
HEAD = struct.Struct("<8s32sBQQ16sI")
FINGERPRINT = 1 << 128


def branches(round_: Round) -> int:
    return 2 if round_.mechanism == HYBRID else 1


def squared(round_: Round) -> bool:
    """Whether second moments are kept: how candidates vary depends on the data."""
    return round_.candidates is not None


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
        return np.asarray(self.counts.reshape(len(self.round.menu), -1).sum(axis=1))

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
                    TALLY_MAGIC,
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
            magic != TALLY_MAGIC
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
    return data[: len(TALLY_MAGIC)] == TALLY_MAGIC


# Unit vectors are summed on this grid: finer than a 32-bit float near 1, coarser than what
# different machines' cosines disagree in.
UNIT_STEPS = 2.0**24
# Their squares are summed on a coarser one, so that 2^30 reports fit 64 bits.
SQUARE_SHIFT = 8


@dataclass(frozen=True)
class Batch:
    """n reports: nonces (n, 2) little-endian words, levels (n,), payload (n, size) bytes."""

    round: Round
    nonces: Words
    levels: npt.NDArray[np.uint16]
    payload: Bytes
    secure: bool = True

    def __len__(self) -> int:
        return len(self.levels)

    def take(self, keep: Flags | slice) -> Batch:
        return Batch(
            self.round, self.nonces[keep], self.levels[keep], self.payload[keep], self.secure
        )

    def rows(self) -> Bytes:
        """Nonce, level (2 bytes) and payload of each report, as they are kept in files."""
        nonces = np.ascontiguousarray(self.nonces, "<u8").view(np.uint8).reshape(-1, NONCE_SIZE)
        levels = np.ascontiguousarray(self.levels, "<u2").view(np.uint8).reshape(-1, 2)
        return np.concatenate([nonces, levels, self.payload], axis=1)

    @classmethod
    def of_rows(cls, round_: Round, rows: Bytes) -> Batch:
        """The reports of `rows`."""
        nonces = np.ascontiguousarray(rows[:, :NONCE_SIZE]).view("<u8")
        levels = np.ascontiguousarray(rows[:, NONCE_SIZE:KEY_SIZE]).view("<u2")[:, 0]
        return cls(round_, nonces, levels, np.ascontiguousarray(rows[:, KEY_SIZE:]))

    @classmethod
    def of_bytes(cls, round_: Round, data: bytes) -> Batch:
        """The reports of the bytes of `rows`."""
        rows = np.frombuffer(data, dtype=np.uint8)
        return cls.of_rows(round_, rows.reshape(-1, KEY_SIZE + payload_size(round_)))

    def contents(self) -> list[tuple[bytes, bytes]]:
        """Each report's nonce, and its level and payload."""
        rows = self.rows()
        data, size = rows.tobytes(), rows.shape[1]
        starts = range(0, len(data), size)
        return [(data[k : k + NONCE_SIZE], data[k + NONCE_SIZE : k + size]) for k in starts]

    def to_bytes(self, *, simulated: bool = False) -> bytes:
        """The reports on the wire, one after the other (for rounds without tickets).

        Bytes do not show whether they were simulated, so `simulated=True` must be said for those.
        """
        if self.round.issued:
            raise ArgumentError(
                "round", "issued", "requires one ticket per report", "use the client"
            )
        if not (self.secure or simulated):
            raise ArgumentError(
                "simulated",
                simulated,
                "must be True, because the reports are not private",
                "use simulated=True",
            )
        size = HEADER_SIZE + payload_size(self.round)
        rows = np.empty((len(self), size), dtype=np.uint8)
        head = common_header(self.round)
        rows[:, : HEADER.size] = np.frombuffer(head, dtype=np.uint8)
        own = self.rows()
        rows[:, KEY], rows[:, HEADER_SIZE:] = own[:, :KEY_SIZE], self.payload
        crc = checksums(rows)
        rows[:, HEADER.size : HEADER_SIZE] = crc.astype("<u4").view(np.uint8).reshape(-1, 4)
        return rows.tobytes()


@lru_cache(maxsize=64)
def _seed_words(round_: Round) -> tuple[np.uint64, np.uint64]:
    words = np.frombuffer(round_.seed[:16], "<u8")
    return words[0], words[1]


def rows_of(batch: Batch) -> Integers:
    """The sketch or Hadamard row of each report."""
    if batch.round.row_choice == CHOSEN:
        return batch.payload[:, :4].copy().view("<u4")[:, 0].astype(np.int64)
    assert batch.round.rows is not None
    mask = np.uint64(batch.round.rows - 1)
    return ((batch.nonces[:, 0] ^ _seed_words(batch.round)[0]) & mask).astype(np.int64)


def coordinates_of(round_: Round, nonces: Words) -> Integers:
    """The coordinate that each nonce assigns."""
    if round_.coordinates == 1:
        return np.zeros(len(nonces), dtype=np.int64)
    low = (nonces[:, 1] ^ _seed_words(round_)[1]) & np.uint64(0xFFFFFFFF)
    return (low % np.uint64(round_.coordinates)).astype(np.int64)


def piecewise_branch(round_: Round, nonces: Words, levels: npt.NDArray[np.uint16]) -> Flags:
    """Whether the nonce puts a report of the hybrid mechanism into the piecewise branch."""
    shares = np.array([hybrid_share(item) for item in round_.menu], dtype=np.uint64)
    return ((nonces[:, 1] ^ _seed_words(round_)[1]) >> np.uint64(32)) < shares[levels]


def cells_of(batch: Batch) -> Integers:
    """The cell of each report."""
    round_ = batch.round
    if round_.cells == 1:
        return np.zeros(len(batch), dtype=np.int64)
    place = batch.levels.astype(np.int64) * round_.sites
    if round_.points:
        place += points_of(batch)
    elif round_.coordinates > 1:
        place += coordinates_of(round_, batch.nonces)
    if branches(round_) == 2:
        place = 2 * place + piecewise_branch(round_, batch.nonces, batch.levels)
    return place


def points_of(batch: Batch) -> Integers:
    """The number of the design point that each report names."""
    return batch.payload[:, : POINT.size].copy().view("<u4")[:, 0].astype(np.int64)


def int32_of(batch: Batch) -> Integers:
    """The integer payload of each report."""
    return np.ascontiguousarray(batch.payload[:, -4:]).view("<i4")[:, 0].astype(np.int64)


def indices_of(batch: Batch) -> Integers:
    """The number of the candidate in each report."""
    return np.ascontiguousarray(batch.payload).view("<u2")[:, 0].astype(np.int64)


def normals_from(words: Words) -> Floats:
    """Standard normals from words of shape (n, even), by Box and Muller, as the client does."""
    first, second = words[:, 0::2], words[:, 1::2]
    radius = np.sqrt(-2.0 * np.log(((first >> np.uint64(11)) + np.uint64(1)) * 2.0**-53))
    angle = 2.0 * math.pi * ((second >> np.uint64(11)) * 2.0**-53)
    result = np.empty(words.shape)
    result[:, 0::2] = radius * np.cos(angle)
    result[:, 1::2] = radius * np.sin(angle)
    return result


def units(vectors: Floats) -> Floats:
    """Rows divided by their norms."""
    norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(norms > 0, norms, 1.0)


def public_normals(round_: Round, nonces: Words, number: Integers | None = None) -> Floats:
    """The public direction of each nonce (not normalized), as the client makes it; or its direction
    `number`, of several."""
    assert round_.dimension is not None
    data = np.ascontiguousarray(nonces, "<u8").tobytes()
    each = [data[k : k + NONCE_SIZE] for k in range(0, len(data), NONCE_SIZE)]
    places: list[int | None] = [None] * len(each) if number is None else number.tolist()
    drawn = map(partial(public_words, round_), each, places)
    size = round_.dimension + round_.dimension % 2
    words = np.frombuffer(b"".join(drawn), "<u8").reshape(-1, size)
    return normals_from(words)[:, : round_.dimension]


def directions_of(batch: Batch) -> Floats:
    """The unit vector each report of a ball mechanism stands for (before scaling)."""
    if batch.round.candidates is not None:
        index = indices_of(batch)
        chosen = units(public_normals(batch.round, batch.nonces, index >> 1))
        return (1.0 - 2.0 * (index & 1))[:, None] * chosen
    signs = 2.0 * batch.payload[:, :1] - 1.0
    return signs * units(public_normals(batch.round, batch.nonces))


def bits_of(batch: Batch) -> Bytes:
    """The bit vector of each report of the subset mechanism, shape (n, items)."""
    return np.unpackbits(batch.payload, axis=1, bitorder="little", count=batch.round.items)


def tally(batch: Batch) -> Tally:
    """The tally of these reports, taken as they are: the caller has checked them."""
    total = Tally.empty(batch.round)
    add(total, batch)
    return total


CHUNK = 1 << 16  # reports that are added together, at most


def add(total: Tally, batch: Batch) -> None:
    """Add checked reports to a tally, in chunks of bounded memory."""
    size = max(1, min(CHUNK, (1 << 21) // (batch.round.dimension or 1)))
    if batch.round.items is not None and batch.round.rows is None:
        size = max(1, min(CHUNK, (1 << 25) // batch.round.items))
    for start in range(0, len(batch), size):
        _add(total, batch.take(slice(start, start + size)))
    total.secure = total.secure and batch.secure
    low, high = (int(batch.nonces[:, column].sum()) for column in (0, 1))  # modulo 2^64
    upper = int((batch.nonces[:, 0] >> np.uint64(32)).sum()) << 32
    low = upper + (low - upper) % (1 << 64)  # the exact sum: the lower halves' is below 2^64
    total.fingerprint = (total.fingerprint + (high << 64) + low) % FINGERPRINT


def _add(total: Tally, batch: Batch) -> None:
    round_ = batch.round
    cell, cells = cells_of(batch), len(total.counts)
    all_ = np.array([len(batch)]) if cells == 1 else np.bincount(cell, minlength=cells)
    total.counts += all_
    if round_.mechanism == ONE_BIT:
        one = batch.payload[:, -1] == 1
        total.sums[:, 0] += 2 * _by_cell(cell, one.astype(np.int64), cells) - all_
    elif round_.mechanism in SCALARS:
        y = int32_of(batch)
        total.sums[:, 0] += _by_cell(cell, y, cells)
        _add_squares(total, cell, y)
    elif round_.rows is not None:
        place = cell * total.sums.shape[1] + rows_of(batch)
        step = 2 * batch.payload[:, -1].astype(np.int64) - 1
        flat = total.sums.reshape(-1)
        if len(flat) <= 4 * len(batch):
            flat += np.bincount(place, step, minlength=len(flat)).astype(np.int64)
        else:
            np.add.at(flat, place, step)
    elif round_.items is not None:
        bits = bits_of(batch)
        for k in range(cells):
            total.sums[k] += _bits_added(bits if cells == 1 else bits[cell == k])
    else:
        values = np.rint(directions_of(batch) * UNIT_STEPS).astype(np.int64)
        for k in np.unique(cell):
            total.sums[k] += values[cell == k].sum(axis=0, dtype=np.int64)
        if total.moments is not None:
            squares = (values >> SQUARE_SHIFT) ** 2
            for k in np.unique(cell):
                total.moments[k] += squares[cell == k].sum(axis=0, dtype=np.int64)


def _bits_added(bits: Bytes) -> Integers:
    """The sums of 0 and 1 by column: bytes hold those of 255 rows, and are added many at once."""
    total = np.zeros(bits.shape[1], dtype=np.int64)
    for start in range(0, len(bits), 255):
        total += np.add.reduce(bits[start : start + 255], axis=0, dtype=np.uint8)
    return total


def _by_cell(cell: Integers, values: Integers, cells: int) -> Integers:
    """The sums of values a cell."""
    if cells == 1:
        return np.array([values.sum()])
    sums = np.zeros(cells, dtype=np.int64)
    np.add.at(sums, cell, values)
    return sums


def _add_squares(total: Tally, cell: Integers, y: Integers) -> None:
    """Exact sums of squares, from 16-bit halves so that nothing overflows."""
    high, low = y >> 16, y & 0xFFFF
    for part, weight in ((high * high, 1 << 32), (high * low, 1 << 17), (low * low, 1)):
        sums = _by_cell(cell, part, len(total.squares))
        for k in np.flatnonzero(sums):
            total.squares[k] += int(sums[k]) * weight


# Beyond this payload the tables cost more than a call a report.
LONGEST_TABLE = 64


@lru_cache(maxsize=16)
def _tables(length: int) -> npt.NDArray[np.uint32]:
    """table[i, b]: what byte b at place i changes in the checksum of `length` zero bytes."""
    base = zlib.crc32(bytes(length))
    result = np.empty((length, 256), dtype=np.uint32)
    for i in range(length):
        for b in range(256):
            result[i, b] = zlib.crc32(bytes(i) + bytes([b]) + bytes(length - i - 1)) ^ base
    return result


def checksums(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """The CRC-32 of header (without its own field) and payload of each row.

    It is affine over bits: a constant for all-zero bytes, and one table value a byte.
    """
    payload = rows.shape[1] - HEADER_SIZE
    if payload > LONGEST_TABLE:
        flat = [
            zlib.crc32(row[HEADER_SIZE:], zlib.crc32(row[: HEADER.size]))
            for row in np.ascontiguousarray(rows)
        ]
        return np.array(flat, dtype=np.uint32)
    table = _tables(HEADER.size + payload)
    places = [*range(HEADER.size), *range(HEADER_SIZE, rows.shape[1])]
    result = np.full(len(rows), zlib.crc32(bytes(HEADER.size + payload)), dtype=np.uint32)
    for k, place in enumerate(places):
        column = rows[:, place]
        if len(column) and (column == column[0]).all():
            result ^= table[k, column[0]]
        else:
            result ^= table[k][column]
    return result
