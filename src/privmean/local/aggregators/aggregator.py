"""A server in memory that counts each nonce once, and reports in any number of files.

Files take two passes in bounded memory: each file is read in blocks, checked, and the good reports
are written to temporary bucket files by nonce; then one bucket after the other is read, duplicates
are found by sorting, and the rest is counted.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from privmean import validate
from privmean.array_types import Bytes, Integers
from privmean.errors import PrivmeanError
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.report_validation import ParsedReport, ReportValidator
from privmean.local.aggregators.tally import Batch, Tally, add, is_tally
from privmean.local.reports import KEY_SIZE, payload_size, report_size
from privmean.local.round import Round

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
