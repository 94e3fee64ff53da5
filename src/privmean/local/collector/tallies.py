"""Tallies of everything that is stored, read on from where the last reader stopped.

Each writer numbers its reports, and `HEADS` holds the last number of each. A tally that is known
up to some numbers is brought to now by reading what lies between, of those writers alone who
stored anything since. A snapshot is such a tally with its numbers, so that no process begins
from nothing, however many processes there were.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sql

from privmean.errors import PrivmeanError
from privmean.local.aggregators.batch import Batch, add
from privmean.local.aggregators.tally import Tally
from privmean.local.collector.sqlite import sealed, unsealed
from privmean.local.collector.store_schema import HEADS, REFUSALS, REPORTS, SNAPSHOTS, STATES
from privmean.local.reports import payload_size
from privmean.local.round import Round

READ = 20_000
KEPT = 256  # rounds whose tallies are held
OPEN, CLOSED, KEPT_ONLY, DELETED = "open", "closed", "tally only", "deleted"


@dataclass
class Progress:
    """The tally of each writer's first reports: up to which number is in `uptos`."""

    tally: Tally
    uptos: dict[int, int] = field(default_factory=dict)
    final: bool = False  # the reports are gone, and this is all that is left of them


def batch_of(round_: Round, rows: list[tuple[bytes, bytes]]) -> Batch:
    """The reports of `contents` as arrays."""
    nonces = np.frombuffer(b"".join(row[0] for row in rows), "<u8").reshape(-1, 2)
    flat = np.frombuffer(b"".join(row[1] for row in rows), np.uint8)
    body = flat.reshape(-1, 2 + payload_size(round_))
    levels = np.ascontiguousarray(body[:, :2]).view("<u2")[:, 0]
    return Batch(round_, nonces, levels, np.ascontiguousarray(body[:, 2:]))


class Tallies:
    """The tallies of a database, as one process knows them."""

    def __init__(self, connect: Callable[[], sql.Connection]) -> None:
        self._connect = connect
        self._known: OrderedDict[bytes, Progress] = OrderedDict()
        self._turn = threading.Lock()

    def read(self, round_: Round) -> Tally:
        """The tally of every stored report of the round, with what was refused."""
        with self._turn, self._connect() as link:
            try:
                return self._read(link, round_)
            except BaseException:  # perhaps in the middle of a sum
                self._known.pop(round_.identifier, None)
                raise

    def snapshot(self, link: sql.Connection, round_: Round) -> None:
        """Store what is known of a tally, within a transaction of the caller's."""
        with self._turn:
            known = self._known.get(round_.identifier)
            if known is not None and known.uptos and not known.final:
                store(link, round_, known.tally, known.uptos)

    def behind(self, round_: Round) -> bool:
        """Whether there are reports that no snapshot holds."""
        key = round_.identifier
        with self._connect() as link:
            snapshot = sql.select(SNAPSHOTS.c.uptos).where(SNAPSHOTS.c.round == key)
            uptos = json.loads(link.execute(snapshot).scalar() or "{}")
            heads = sql.select(HEADS.c.writer, HEADS.c.last).where(HEADS.c.round == key)
            return any(
                uptos.get(str(writer), 0) < last for writer, last in link.execute(heads).all()
            )

    def forget(self, round_id: bytes) -> None:
        """Begin anew with a round: what is stored of it has changed."""
        with self._turn:
            self._known.pop(round_id, None)

    def _read(self, link: sql.Connection, round_: Round) -> Tally:
        key = round_.identifier
        state = link.execute(sql.select(STATES.c.state).where(STATES.c.round == key)).scalar()
        final = state in (KEPT_ONLY, DELETED)
        known = self._known.get(key)
        if known is None or known.final != final:
            known = self._known[key] = self._stored(link, round_, final)
        self._known.move_to_end(key)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        heads = link.execute(sql.select(HEADS.c.writer, HEADS.c.last).where(HEADS.c.round == key))
        for writer, last in heads.all():
            if known.uptos.get(int(writer), 0) < int(last):
                self._follow(link, round_, int(writer), known)
        refused = link.execute(
            sql.select(REFUSALS.c.reason, sql.func.sum(REFUSALS.c.reports))
            .where(REFUSALS.c.round == key)
            .group_by(REFUSALS.c.reason)
        ).all()
        total = known.tally.merge(Tally.empty(round_))
        total.rejected += Counter({str(reason): int(reports) for reason, reports in refused})
        return total

    def _stored(self, link: sql.Connection, round_: Round, final: bool) -> Progress:
        row = link.execute(
            sql.select(SNAPSHOTS.c.uptos, SNAPSHOTS.c.state).where(
                SNAPSHOTS.c.round == round_.identifier
            )
        ).first()
        if row is None:
            return Progress(Tally.empty(round_), final=final)
        state = unsealed(str(row[0]), bytes(row[1]))
        if state is None:
            raise PrivmeanError("a stored tally is damaged. Put an undamaged database back.")
        uptos = {int(writer): int(upto) for writer, upto in json.loads(row[0]).items()}
        return Progress(Tally.from_bytes(round_, state), uptos, final)

    def _follow(self, link: sql.Connection, round_: Round, writer: int, known: Progress) -> None:
        """Add the reports that the writer stored since."""
        while True:
            rows = link.execute(
                sql.select(REPORTS.c.number, REPORTS.c.nonce, REPORTS.c.content)
                .where(
                    REPORTS.c.round == round_.identifier,
                    REPORTS.c.writer == writer,
                    REPORTS.c.number > known.uptos.get(writer, 0),
                )
                .order_by(REPORTS.c.number)
                .limit(READ)
            ).all()
            if not rows:
                return
            add(known.tally, batch_of(round_, [(bytes(row[1]), bytes(row[2])) for row in rows]))
            known.uptos[writer] = int(rows[-1][0])


def store(link: sql.Connection, round_: Round, tally: Tally, uptos: dict[int, int]) -> None:
    """Put a snapshot in the place of the last one, within a transaction."""
    text = json.dumps({str(writer): upto for writer, upto in sorted(uptos.items())})
    values = {"uptos": text, "state": sealed(text, tally.to_bytes())}
    place = SNAPSHOTS.c.round == round_.identifier
    if link.execute(sql.update(SNAPSHOTS).where(place).values(**values)).rowcount == 0:
        link.execute(sql.insert(SNAPSHOTS).values(round=round_.identifier, **values))
