"""Which reports of a stream count, a server in memory, and reports in any number of files.

No rule of the gate looks at other reports, and nothing is repaired. Reasons of refusals, in the
order of the checks: those of `reports.decode`, then "wrong round", "unknown level", "wrong length",
"late", "not issued", "out of range".

Files take two passes in bounded memory: each file is read in blocks, checked, and the good reports
are written to temporary bucket files by nonce; then one bucket after the other is read, duplicates
are found by sorting, and the rest is counted.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from privmean import validate
from privmean.array_types import Bytes, Flags, Integers
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import (
    Batch,
    Tally,
    add,
    bit_count,
    checksums,
    indices_of,
    int32_of,
    is_tally,
    piecewise_branch,
    points_of,
)
from privmean.local.clients.randomizers import subset_size, window
from privmean.local.reports import (
    HEADER,
    HEADER_SIZE,
    KEY,
    KEY_SIZE,
    MAC_SIZE,
    SECRET_SIZE,
    ReportError,
    authentication,
    common_header,
    decode,
    decode_json,
    payload_size,
    report_size,
    split,
    ticket_key,
)
from privmean.local.round import (
    CHOSEN,
    HYBRID,
    PIECEWISE,
    Round,
)

LINE = re.compile(rb"[^ \t\r\n][^\r\n]*")  # what is not empty, from its first character on
SPELLING = 1024  # characters of a JSON line beside its payload, at most


class TooManyRefused(PrivmeanError):
    """A stream with more odd pieces than were allowed; nothing of it counts."""


def in_range(batch: Batch) -> Flags:
    """Whether each payload is one that an honest client of its level can send."""
    round_, payload, levels = batch.round, batch.payload, batch.levels
    name = round_.mechanism
    if name in (PIECEWISE, HYBRID):
        limits = np.array([window(item).size for item in round_.menu])
        y = np.abs(int32_of(batch))
        result: Flags = y <= limits[levels]
        if name == HYBRID:
            one_bit = ~piecewise_branch(round_, batch.nonces, levels)
            result[one_bit] = y[one_bit] == 1
    elif round_.candidates is not None:
        result = indices_of(batch) < round_.candidates
    elif round_.items is not None and round_.rows is None:
        sizes = np.array([subset_size(item, round_.items) for item in round_.menu])
        result = bit_count(payload).sum(axis=1, dtype=np.int64) == sizes[levels]
        if round_.items % 8:
            result &= (payload[:, -1] >> (round_.items % 8)) == 0
    else:
        result = payload[:, -1] <= 1
        if round_.rows is not None and round_.row_choice == CHOSEN:
            rows = payload[:, :4].copy().view("<u4")[:, 0]
            result &= rows < round_.rows
    if round_.points:
        result &= points_of(batch) < len(round_.points)
    return result


@dataclass(frozen=True)
class ParsedReport:
    """The reports of a stream that may count, of `total` pieces, and how many were refused for
    which reason."""

    batch: Batch
    refused: Counter[str]
    total: int


def require_secret(rounds: Iterable[Round], secrets: tuple[bytes, ...]) -> None:
    """Refuse rounds with tickets where nothing could tell a ticket from a forged one."""
    if any(not isinstance(item, bytes) or len(item) != SECRET_SIZE for item in secrets):
        raise ArgumentError("secret", "...", "is not 32 bytes", "give 32 random bytes")
    for round_ in rounds:
        if round_.issued and not secrets:
            raise ArgumentError(
                "secret",
                None,
                f"is required: round {round_.identifier.hex()} accepts only reports with tickets",
                "give the 32 bytes (--secret-file) that its tickets were made with",
            )


class ReportValidator:
    """Checks reports of one round.

    secret: the key of the tickets, if the round issues nonces; or several, while one follows on
    another.
    """

    def __init__(self, round_: Round, *, secret: bytes | tuple[bytes, ...] | None = None) -> None:
        self.round = validate.instance("round", round_, Round, "give what Round.from_json makes")
        self.secrets = (
            (secret,)
            if isinstance(secret, bytes)
            else validate.listed("secret", secret or (), "give 32 bytes")
        )
        require_secret([round_], self.secrets)
        self._size = report_size(round_)
        self._payload = payload_size(round_)
        head = common_header(round_)
        self._head = np.frombuffer(head, dtype=np.uint8)
        self._fixed = np.r_[0:12, 30:38]
        self.start = head[:12]  # how every report of this round begins
        self._sizes = head[30:38]

    def parse(
        self, stream: bytes, *, now: float | None = None, most_odd: int | None = None
    ) -> ParsedReport:
        """Check a concatenation of binary reports.

        now: seconds since 1970, for the deadline. most_odd: how many pieces may have to be looked
        at one by one, because they do not begin like a report of this round or carry a ticket that
        is none. With more the stream is given up at once (TooManyRefused): each costs as much as
        hundreds of good reports.
        """
        size = self._size
        if stream and len(stream) % size == 0:
            rows = np.frombuffer(stream, dtype=np.uint8).reshape(-1, size)
            if (rows[:, self._fixed] == self._head[self._fixed]).all():
                return self._check(rows, Counter(), len(rows), now, most_odd)
        return self._sorted(split(stream, self.round), now, most_odd)

    def parse_json(
        self, text: bytes, *, now: float | None = None, most_odd: int | None = None
    ) -> ParsedReport:
        """Check reports in JSON lines. Empty lines are skipped. Options as for `parse`."""
        lines = (match.group() for match in LINE.finditer(text))
        return self._sorted(map(self._read, lines), now, most_odd)

    def _read(self, line: bytes) -> bytes | ReportError:
        """The report in a line, in binary, or why there is none."""
        try:
            if len(line) > SPELLING + 2 * self._size:
                raise ReportError("wrong length")  # before anything is made of it
            return decode_json(line).to_bytes()
        except ReportError as error:
            return error

    def _sorted(
        self,
        pieces: Iterable[bytes | ReportError],
        now: float | None,
        most_odd: int | None,
    ) -> ParsedReport:
        """The pieces that fit this round are checked together, the odd ones each alone."""
        good, refused, odd = bytearray(), Counter[str](), 0
        for piece in pieces:
            if isinstance(piece, ReportError):
                refused[piece.reason] += 1
            elif self._fits(piece):
                good += piece
                continue
            else:
                refused[self.reason(piece, now=now)] += 1
            odd += 1
            _bounded(odd, most_odd)
        rows = np.frombuffer(good, dtype=np.uint8).reshape(-1, self._size)
        return self._check(rows, refused, len(rows) + odd, now, most_odd)

    def _fits(self, piece: bytes) -> bool:
        return len(piece) == self._size and piece[:12] == self.start and piece[30:38] == self._sizes

    def _check(
        self,
        rows: Bytes,
        refused: Counter[str],
        total: int,
        now: float | None,
        most_odd: int | None,
    ) -> ParsedReport:
        """The rest of the checks, on rows whose fixed header fields are right."""

        def passing(good: Flags, reason: str) -> Bytes:
            refused[reason] += int((~good).sum())
            return rows if good.all() else rows[good]

        end = HEADER_SIZE + self._payload
        crc = np.ascontiguousarray(rows[:, HEADER.size : HEADER_SIZE]).view("<u4")[:, 0]
        rows = passing(crc == checksums(rows[:, :end]), "damaged")
        levels = np.ascontiguousarray(rows[:, 28:30]).view("<u2")[:, 0]
        rows = passing(levels < len(self.round.menu), "unknown level")
        if self.round.closes is not None and now is not None and now > self.round.closes:
            rows = passing(np.zeros(len(rows), dtype=bool), "late")
        if self.round.issued:
            authentic, forged = np.ones(len(rows), dtype=bool), 0
            for k, row in enumerate(rows):
                if not self._authentic(row.tobytes()):
                    authentic[k] = False
                    forged += 1
                    _bounded(forged, most_odd)
            rows = passing(authentic, "not issued")
        batch = Batch.of_rows(self.round, np.hstack([rows[:, KEY], rows[:, HEADER_SIZE:end]]))
        good = in_range(batch)
        refused["out of range"] += int((~good).sum())
        return ParsedReport(batch if good.all() else batch.take(good), +refused, total)

    def _authentic(self, report: bytes) -> bool:
        body, mac = report[:-MAC_SIZE], report[-MAC_SIZE:]
        level = int.from_bytes(body[28:30], "little")
        found = False
        for secret in self.secrets:  # all of them, so that time does not tell which
            key = ticket_key(secret, self.round.identifier, body[12:28], level)
            found |= hmac.compare_digest(authentication(key, body), mac)
        return found

    def reason(self, piece: bytes, *, now: float | None = None) -> str:
        """Why one report does not count; "" if it does."""
        if self._fits(piece):
            rows = np.frombuffer(piece, dtype=np.uint8)[None, :]
            return next(iter(self._check(rows, Counter(), 1, now, None).refused), "")
        try:
            report = decode(piece)
        except ReportError as error:
            return error.reason
        if report.mechanism != self.round.code or report.round_id != self.round.identifier:
            return "wrong round"
        return "unknown level" if report.level >= len(self.round.menu) else "wrong length"


def _bounded(odd: int, most: int | None) -> None:
    if most is not None and odd > most:
        raise TooManyRefused(f"more than {most} pieces are no reports of this round")


CONFLICT = "conflict"


@dataclass(frozen=True)
class Receipt:
    """What became of a stream: reports counted, repeated ones, and refusals by reason."""

    accepted: int
    duplicate: int
    rejected: dict[str, int]


class Aggregator:
    """Reports of one round in memory; each nonce counts once.

    Parameters
    ----------
    round_ : Round
        The round.
    secret : bytes, optional
        Secret that proves tickets, if the round issues its nonces.

    Notes
    -----
    The first report of a nonce stays. The same bytes again are a duplicate; other bytes are a
    conflict, which is refused and counted. Needs 32 bytes per report: for more reports use
    `aggregate_files` or the collector.

    Examples
    --------
    from privmean.local import Aggregator, estimate, mean_round, randomize

    round_ = mean_round(0, 24, epsilon=1, persons=100)
    server = Aggregator(round_)
    for _ in range(100):
        server.add(randomize(round_, 7.5, epsilon=1))
    print(estimate(server.tally).value)
    """

    def __init__(self, round_: Round, *, secret: bytes | None = None) -> None:
        self.round = round_
        self.gate = ReportValidator(round_, secret=secret)
        self.tally = Tally.empty(round_)
        self._seen: dict[bytes, bytes] = {}

    def add(self, stream: bytes, *, json_lines: bool = False, now: float | None = None) -> Receipt:
        """Take a concatenation of binary reports, or JSON lines."""
        validate.instance("stream", stream, bytes, "give the bytes of reports")
        parse = self.gate.parse_json if json_lines else self.gate.parse
        return self.take(parse(stream, now=now))

    def take(self, parsed: ParsedReport) -> Receipt:
        """Count what passed the gate, each nonce once."""
        batch, reasons, duplicate = parsed.batch, parsed.refused.copy(), 0
        keep = np.zeros(len(batch), dtype=bool)
        for k, (nonce, said) in enumerate(batch.contents()):
            long = len(said) > 16  # 32 bytes are kept of a report at most
            mark = hashlib.blake2b(said, digest_size=16).digest() if long else said
            known = self._seen.setdefault(nonce, mark)
            if known is mark:
                keep[k] = True
            elif known == mark:
                duplicate += 1
            else:
                reasons[CONFLICT] += 1
        add(self.tally, batch.take(keep))
        self.tally.rejected += reasons
        return Receipt(int(keep.sum()), duplicate, dict(reasons))

    def estimate(self, **options: object) -> Estimate:
        """The estimate now; options as in `estimate`."""
        return estimate(self.tally, **options)  # type: ignore[arg-type]


BLOCK = 1 << 23


def aggregate_files(
    round_: Round,
    paths: Iterable[str | Path],
    *,
    secret: bytes | tuple[bytes, ...] | None = None,
    now: float | None = None,
    bucket_bytes: int = 1 << 24,
) -> tuple[Tally, int]:
    """Return the tally of all reports in files, and the number of repeated reports.

    Parameters
    ----------
    round_ : Round
        The round.
    paths : iterable of path
        Binary reports, JSON lines (the first byte is a brace), or tallies of other reports.
    secret : bytes or tuple of bytes, optional
        Secret that proves tickets.
    now : float, optional
        Time in seconds since 1970. Without it the deadline is not checked.
    bucket_bytes : int, default 2**24
        Memory of one pass, in bytes.

    Returns
    -------
    Tally, int
        The tally, and the number of duplicates.

    Notes
    -----
    The first report of a nonce counts, in the order of the files. The same bytes again are
    duplicates; others are refused as "conflict".
    """
    files = [Path(item) for item in paths]
    total = Tally.empty(round_)
    repeated, seen_tallies = 0, set[bytes]()
    reports = []
    for path in files:
        with path.open("rb") as stream:
            if not is_tally(stream.read(8)):
                reports.append(path)
                continue
        data = path.read_bytes()
        if data in seen_tallies:
            raise PrivmeanError("the same tally is given twice. Give each tally once.")
        seen_tallies.add(data)
        total = total.merge(Tally.from_bytes(round_, data))
    if not reports:  # tallies need no secret
        return total, repeated
    gate = ReportValidator(round_, secret=secret)
    size = KEY_SIZE + payload_size(round_)
    expected = sum(path.stat().st_size for path in reports) * size / report_size(round_)
    buckets = 1
    while expected / buckets > bucket_bytes:
        buckets *= 2
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        outputs: list[BinaryIO] = [
            stack.enter_context(open(Path(folder) / str(k), "w+b")) for k in range(buckets)
        ]
        for path in reports:
            for parsed in _blocks(gate, path, now):
                total.rejected += parsed.refused
                _spill(parsed.batch, outputs)
        for output in outputs:
            output.seek(0)
            rows = np.frombuffer(output.read(), dtype=np.uint8).reshape(-1, size)
            output.truncate(0)
            kept, again, conflicts = _distinct(rows)
            repeated += again
            total.rejected += Counter({CONFLICT: conflicts})
            add(total, Batch.of_rows(round_, rows[kept]))
    return total, repeated


def _blocks(gate: ReportValidator, path: Path, now: float | None) -> Iterator[ParsedReport]:
    """The file in pieces that end where a report ends."""
    with path.open("rb") as stream:
        first = stream.read(1)
        stream.seek(0)
        if first == b"{":
            while lines := stream.readlines(BLOCK):
                yield gate.parse_json(b"".join(lines), now=now)
            return
        size, rest = report_size(gate.round), b""
        while True:
            block = stream.read(max(1, BLOCK // size) * size)
            if not block:
                break
            block, rest = _whole(gate, rest + block)
            if block:
                yield gate.parse(block, now=now)
        if rest:
            yield gate.parse(rest, now=now)


def _whole(gate: ReportValidator, block: bytes) -> tuple[bytes, bytes]:
    """The block up to the last place where a report of this round ends surely, and the rest.

    Well-formed files are multiples of the report's size. After damage, the block is cut before
    the last start of a report, if one lies in its last part.
    """
    size = report_size(gate.round)
    if len(block) % size == 0 and block[-size:].startswith(gate.start):
        return block, b""
    last = block.rfind(gate.start)
    if last <= 0 or len(block) - last > BLOCK:
        return block, b""
    return block[:last], block[last:]


def _spill(batch: Batch, outputs: list[BinaryIO]) -> None:
    rows = batch.rows()
    place = (batch.nonces[:, 0] ^ (batch.nonces[:, 1] >> np.uint64(32))) % np.uint64(len(outputs))
    for k, output in enumerate(outputs):
        output.write(rows[place == k].tobytes())


def _distinct(rows: Bytes) -> tuple[Integers, int, int]:
    """Which rows to keep (the first of each nonce), how many repeat it, how many contradict it."""
    words = np.ascontiguousarray(rows[:, :16]).view("<u8")
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable: equal nonces stay in order
    sorted_words = words[order]
    fresh = np.ones(len(rows), dtype=bool)
    if len(rows) > 1:
        fresh[1:] = (sorted_words[1:] != sorted_words[:-1]).any(axis=1)
    leader = order[np.maximum.accumulate(np.where(fresh, np.arange(len(rows)), 0))]
    follows = order[~fresh]
    same = (rows[follows] == rows[leader[~fresh]]).all(axis=1)
    keep = np.sort(order[fresh])
    return keep, int(same.sum()), int((~same).sum())
