"""The rounds of a collector: their states, revoked tickets, who did what, and their tallies.

Each writer numbers its reports, and `HEADS` holds the last number of each. A tally that is known
up to some numbers is brought to now by reading what lies between, of those writers alone who
stored anything since. A snapshot is such a tally with its numbers, so that no process begins
from nothing, however many processes there were.

Every change and its line in the audit log are one transaction. What is deleted stays deleted: the
identifier is remembered, so that a round that was answered cannot come back empty.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sql

from privmean.collector.sqlite import (
    AUDIT,
    HEADS,
    HISTORY,
    REFUSALS,
    REPORTS,
    REVOKED,
    ROUNDS,
    SNAPSHOTS,
    STATES,
    sealed,
    unsealed,
)
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.tally import Batch, Tally, add
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
            data = b"".join(bytes(part) for _, *report in rows for part in report)
            add(known.tally, Batch.of_bytes(round_, data))
            known.uptos[writer] = int(rows[-1][0])


def store(link: sql.Connection, round_: Round, tally: Tally, uptos: dict[int, int]) -> None:
    """Put a snapshot in the place of the last one, within a transaction."""
    text = json.dumps({str(writer): upto for writer, upto in sorted(uptos.items())})
    values = {"uptos": text, "state": sealed(text, tally.to_bytes())}
    place = SNAPSHOTS.c.round == round_.identifier
    if link.execute(sql.update(SNAPSHOTS).where(place).values(**values)).rowcount == 0:
        link.execute(sql.insert(SNAPSHOTS).values(round=round_.identifier, **values))


COMMAND_LINE, DEADLINE, RETENTION = "command line", "deadline", "retention"
LOOKUP = 500
MOST_AUDITED = 1000  # lines of an answer
MOST_HISTORY = 2000


@dataclass(frozen=True)
class RoundRecord:
    """A round with its state, and since when: an open one's beginning, another's closing."""

    round: Round
    state: str
    since: float

    def takes_reports(self, now: float) -> bool:
        closes = self.round.closes
        return self.state == OPEN and (closes is None or now <= closes)


class RoundRegistry:
    """The rounds of a database.

    connect, transaction: to read, and to change. cleared: called within a transaction when all
    reports of a round were deleted.
    """

    def __init__(
        self,
        connect: Callable[[], sql.Connection],
        transaction: Callable[[], AbstractContextManager[sql.Connection]],
        cleared: Callable[[sql.Connection, bytes], None],
        tallies: Tallies,
    ) -> None:
        self._connect, self._transaction = connect, transaction
        self._cleared, self._tallies = cleared, tallies
        self._read: dict[bytes, Round] = {}

    def register(self, round_: Round, who: str) -> bool:
        """Offer a round from now on, or still; False if it was deleted.

        Raises PrivmeanError if another round has the same identifier.
        """
        key = round_.identifier
        with self._transaction() as link:
            if self.state(link, key) == DELETED:
                return False
            place = sql.select(ROUNDS.c.description).where(ROUNDS.c.id == key)
            row = link.execute(place).first()
            if row is None:
                link.execute(sql.insert(ROUNDS).values(id=key, description=round_.to_json()))
                link.execute(sql.insert(STATES).values(round=key, state=OPEN, changed=time.time()))
                self._note(link, who, "open", key, round_.digest.hex())
            elif Round.from_json(row[0]).digest != round_.digest:
                raise PrivmeanError("another round has the same identifier. Draw a new seed.")
        return True

    def entries(self) -> tuple[dict[bytes, RoundRecord], set[bytes]]:
        """All rounds that are kept, the oldest first, and the identifiers of those deleted."""
        found, gone = {}, set()
        with self._connect() as link:
            states = sql.select(STATES.c.round, STATES.c.state, STATES.c.changed)
            rows = link.execute(states.order_by(STATES.c.changed, STATES.c.round)).all()
            for row in rows:
                key = bytes(row[0])
                if row[1] == DELETED:
                    gone.add(key)
                    continue
                if key not in self._read:
                    text = sql.select(ROUNDS.c.description).where(ROUNDS.c.id == key)
                    description = link.execute(text).scalar()
                    if description is None:  # deleted between the two questions
                        continue
                    self._read[key] = self._round(key, description)
                found[key] = RoundRecord(self._read[key], str(row[1]), float(row[2]))
        return found, gone

    @staticmethod
    def _round(key: bytes, description: str) -> Round:
        """A stored round; a refusal says which one, as a store may hold many."""
        try:
            return Round.from_json(description)
        except ArgumentError as error:
            words = "Read this round with the version of privmean that made it."
            raise PrivmeanError(f"stored round {key.hex()}: {error} {words}") from None

    def state(self, link: sql.Connection, key: bytes) -> str:
        """A round's state, "" if it is unknown; it stays so until the transaction's end."""
        place = sql.select(STATES.c.state).where(STATES.c.round == key)
        return str(link.execute(place.with_for_update(read=True)).scalar() or "")

    def close(self, key: bytes, who: str, when: float | None = None) -> bool:
        """Take no more reports; False if it was not open. After the return none is stored."""
        with self._transaction() as link:
            place = sql.update(STATES).where(STATES.c.round == key, STATES.c.state == OPEN)
            moment = time.time() if when is None else when
            done = bool(link.execute(place.values(state=CLOSED, changed=moment)).rowcount > 0)
            if done:
                self._note(link, who, "close", key)
        return done

    def forget(self, round_: Round, who: str) -> bool:
        """Delete a closed round's reports and keep their tally; False if it was not closed."""
        key = round_.identifier
        with self._transaction() as link:
            place = sql.update(STATES).where(STATES.c.round == key, STATES.c.state == CLOSED)
            done = bool(link.execute(place.values(state=KEPT_ONLY)).rowcount > 0)
            if done:  # no other transaction can change anything of the round now
                total = self._tallies.read(round_)
                store(link, round_, total, {})
                self._clear(link, key)
                self._note(link, who, "forget", key, f"{total.reports} reports")
        self._tallies.forget(key)
        return done

    def delete(self, key: bytes, who: str) -> bool:
        """Delete everything about a round but that it was; False if there is none."""
        with self._transaction() as link:
            place = sql.update(STATES).where(STATES.c.round == key, STATES.c.state != DELETED)
            values = {"state": DELETED, "changed": time.time()}
            done = bool(link.execute(place.values(**values)).rowcount > 0)
            if done:
                self._clear(link, key)
                for table in (SNAPSHOTS, HISTORY, REVOKED):
                    link.execute(sql.delete(table).where(table.c.round == key))
                link.execute(sql.delete(ROUNDS).where(ROUNDS.c.id == key))
                self._note(link, who, "delete", key)
        self._tallies.forget(key)
        self._read.pop(key, None)
        return done

    def _clear(self, link: sql.Connection, key: bytes) -> None:
        for table in (REPORTS, HEADS, REFUSALS):
            link.execute(sql.delete(table).where(table.c.round == key))
        self._cleared(link, key)

    def expire(self, now: float, *, forget: float | None, delete: float | None) -> list[bytes]:
        """Close what is past its deadline, and forget or delete what was closed so many seconds
        ago (None: never). What was changed."""
        changed = []
        for key, entry in self.entries()[0].items():
            state, since, closes = entry.state, entry.since, entry.round.closes
            done = False
            if state == OPEN and closes is not None and now > closes:
                done = self.close(key, DEADLINE, float(closes))
                state, since = CLOSED, float(closes)
            if state == CLOSED and forget is not None and now > since + forget:
                done |= self.forget(entry.round, RETENTION)
            if state in (CLOSED, KEPT_ONLY) and delete is not None and now > since + delete:
                done |= self.delete(key, RETENTION)
            if done:
                changed.append(key)
        return changed

    def revoke(self, key: bytes, nonces: Iterable[bytes], who: str) -> int:
        """Take tickets back: how many were not before. What they brought already stays."""
        given = sorted(set(nonces))
        with self._transaction() as link:
            if self.state(link, key) in ("", DELETED):
                return 0
            known = self.revoked(link, key, given)
            fresh = [{"round": key, "nonce": nonce} for nonce in given if nonce not in known]
            if fresh:
                link.execute(sql.insert(REVOKED), fresh)
                self._note(link, who, "revoke", key, f"{len(fresh)} tickets")
        return len(fresh)

    def revoked(self, link: sql.Connection, key: bytes, nonces: list[bytes]) -> set[bytes]:
        """Which of these tickets are revoked."""
        result: set[bytes] = set()
        for first in range(0, len(nonces), LOOKUP):
            some = nonces[first : first + LOOKUP]
            place = sql.select(REVOKED.c.nonce).where(REVOKED.c.round == key)
            found = link.execute(place.where(REVOKED.c.nonce.in_(some))).scalars()
            result |= {bytes(nonce) for nonce in found}
        return result

    def _note(
        self, link: sql.Connection, who: str, action: str, key: bytes, detail: str = ""
    ) -> None:
        link.execute(
            sql.insert(AUDIT).values(
                time=time.time(), who=who, action=action, round=key, detail=detail
            )
        )

    def audit(self) -> list[dict[str, Any]]:
        """The last lines of the audit log, the newest first."""
        with self._connect() as link:
            place = sql.select(AUDIT).order_by(AUDIT.c.id.desc()).limit(MOST_AUDITED)
            rows = link.execute(place).all()
        return [
            {
                "time": row.time,
                "who": row.who,
                "action": row.action,
                "round": bytes(row.round).hex(),
                "detail": row.detail,
            }
            for row in rows
        ]

    def remember(self, key: bytes, reports: int, answer: str) -> None:
        """Put an answer into the history; the first at so many reports stays."""
        with self._transaction() as link:
            place = (HISTORY.c.round == key, HISTORY.c.reports == reports)
            if self.state(link, key) in ("", DELETED):
                return
            if link.execute(sql.select(HISTORY.c.time).where(*place)).first() is None:
                values = {"round": key, "reports": reports, "time": time.time()}
                link.execute(sql.insert(HISTORY).values(**values, answer=answer))

    def history(self, key: bytes) -> list[tuple[int, float, str]]:
        """Reports, time and answer of what was remembered, by the number of reports."""
        columns = (HISTORY.c.reports, HISTORY.c.time, HISTORY.c.answer)
        with self._connect() as link:
            place = sql.select(*columns).where(HISTORY.c.round == key)
            rows = link.execute(place.order_by(HISTORY.c.reports.desc()).limit(MOST_HISTORY))
            return [(int(row[0]), float(row[1]), str(row[2])) for row in reversed(rows.all())]
