"""Many reports of one round as arrays, and the step from their payloads to a tally."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from privmean.array_types import Bytes, Flags, Floats, Integers, Words
from privmean.errors import ArgumentError
from privmean.local.aggregators.tally import FINGERPRINT, Tally, branches
from privmean.local.clients.ball_randomizer import public_words
from privmean.local.clients.closest_code import candidate_words
from privmean.local.clients.scalar_randomizers import hybrid_share
from privmean.local.mechanisms import (
    BALLS,
    CHOSEN,
    CLOSEST,
    HADAMARD,
    ONE_BIT,
    SCALARS,
    SKETCH,
)
from privmean.local.reports import HEADER, HEADER_SIZE, MAGIC, POINT, VERSION, payload_size
from privmean.local.round import Round

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
        head = HEADER.pack(
            MAGIC,
            VERSION,
            self.round.code,
            self.round.identifier,
            bytes(16),
            0,
            payload_size(self.round),
            0,
        )
        rows[:, : HEADER.size] = np.frombuffer(head, dtype=np.uint8)
        rows[:, 12:28] = np.ascontiguousarray(self.nonces, "<u8").view(np.uint8).reshape(-1, 16)
        rows[:, 28:30] = np.ascontiguousarray(self.levels, "<u2").view(np.uint8).reshape(-1, 2)
        rows[:, HEADER_SIZE:] = self.payload
        from privmean.local.aggregators.checksum import checksums

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


def public_normals(round_: Round, nonces: Words) -> Floats:
    """The public direction of each nonce (not normalized), as the client makes it."""
    data = np.ascontiguousarray(nonces, "<u8").tobytes()
    drawn = b"".join(public_words(round_, data[16 * k : 16 * (k + 1)]) for k in range(len(nonces)))
    words = np.frombuffer(drawn, "<u8").reshape(len(nonces), -1)
    return normals_from(words)[:, : round_.dimension]


def candidate_normals(round_: Round, nonces: Words, number: Integers) -> Floats:
    """Direction `number` of each nonce (not normalized), as the client makes it."""
    data = np.ascontiguousarray(nonces, "<u8").tobytes()
    drawn = b"".join(
        candidate_words(round_, data[16 * k : 16 * (k + 1)], place)
        for k, place in enumerate(number.tolist())
    )
    words = np.frombuffer(drawn, "<u8").reshape(len(nonces), -1)
    return normals_from(words)[:, : round_.dimension]


def directions_of(batch: Batch) -> Floats:
    """The unit vector each report of a ball mechanism stands for (before scaling)."""
    if batch.round.mechanism == CLOSEST:
        index = indices_of(batch)
        chosen = units(candidate_normals(batch.round, batch.nonces, index >> 1))
        return (1.0 - 2.0 * (index & 1))[:, None] * chosen
    signs = 2.0 * batch.payload[:, :1] - 1.0
    return signs * units(public_normals(batch.round, batch.nonces))


def bits_of(batch: Batch) -> Bytes:
    """The bit vector of each report of the subset mechanism, shape (n, items)."""
    return np.unpackbits(batch.payload, axis=1, bitorder="little", count=batch.round.items)


def tally(batch: Batch, *, chunk: int = 1 << 16) -> Tally:
    """The tally of these reports, taken as they are: the caller has checked them."""
    total = Tally.empty(batch.round)
    add(total, batch, chunk=chunk)
    return total


def add(total: Tally, batch: Batch, *, chunk: int = 1 << 16) -> None:
    """Add checked reports to a tally, in chunks of bounded memory."""
    size = max(1, min(chunk, (1 << 24) // max(1, 8 * (batch.round.dimension or 1))))
    if batch.round.mechanism not in (*SCALARS, *BALLS, SKETCH, HADAMARD):
        size = max(1, min(chunk, (1 << 25) // (batch.round.items or 1)))
    for start in range(0, len(batch), size):
        stop = start + size
        _add(
            total,
            Batch(
                batch.round,
                batch.nonces[start:stop],
                batch.levels[start:stop],
                batch.payload[start:stop],
            ),
        )
    total.secure = total.secure and batch.secure
    low, high = (int(batch.nonces[:, column].sum()) for column in (0, 1))  # modulo 2^64
    upper = int((batch.nonces[:, 0] >> np.uint64(32)).sum()) << 32
    low = upper + (low - upper) % (1 << 64)  # the exact sum: the lower halves' is below 2^64
    total.fingerprint = (total.fingerprint + (high << 64) + low) % FINGERPRINT


def _add(total: Tally, batch: Batch) -> None:
    name = batch.round.mechanism
    cell, cells = cells_of(batch), len(total.counts)
    all_ = np.array([len(batch)]) if cells == 1 else np.bincount(cell, minlength=cells)
    total.counts += all_
    if name == ONE_BIT:
        one = batch.payload[:, -1] == 1
        total.sums[:, 0] += 2 * _by_cell(cell, one.astype(np.int64), cells) - all_
    elif name in SCALARS:
        y = int32_of(batch)
        total.sums[:, 0] += _by_cell(cell, y, cells)
        _add_squares(total, cell, y)
    elif name in (SKETCH, HADAMARD):
        place = cell * total.sums.shape[1] + rows_of(batch)
        step = 2 * batch.payload[:, -1].astype(np.int64) - 1
        flat = total.sums.reshape(-1)
        if len(flat) <= 4 * len(batch):
            flat += np.bincount(place, step, minlength=len(flat)).astype(np.int64)
        else:
            np.add.at(flat, place, step)
    elif name not in BALLS:
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
