"""A server in memory: takes streams of reports, counts each nonce once, answers at any time."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.report_validation import ParsedReport, ReportValidator
from privmean.local.aggregators.tally import Batch, Tally, add
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
        batch, reasons, duplicate = parsed.batch, parsed.reasons(), 0
        keep = np.zeros(len(batch), dtype=bool)
        for k, (nonce, mark) in enumerate(marks(batch)):
            known = self._seen.setdefault(nonce, mark)
            if known is mark:
                keep[k] = True
            elif known == mark:
                duplicate += 1
            else:
                reasons[CONFLICT] += 1
        add(self.tally, batch.take(keep))
        self.tally.rejected += Counter(reasons)
        return Receipt(int(keep.sum()), duplicate, dict(reasons))

    def estimate(self, **options: object) -> Estimate:
        """The estimate now; options as in `estimate`."""
        return estimate(self.tally, **options)  # type: ignore[arg-type]


def marks(batch: Batch) -> list[tuple[bytes, bytes]]:
    """The nonce of each report and 16 bytes that identify its content (level and payload)."""
    nonces = np.ascontiguousarray(batch.nonces, "<u8").tobytes()
    levels = np.ascontiguousarray(batch.levels, "<u2").tobytes()
    size = batch.payload.shape[1]
    payload = batch.payload.tobytes()
    result = []
    for k in range(len(batch)):
        content = levels[2 * k : 2 * k + 2] + payload[size * k : size * (k + 1)]
        if len(content) > 16:
            content = hashlib.blake2b(content, digest_size=16).digest()
        result.append((nonces[16 * k : 16 * (k + 1)], content))
    return result
