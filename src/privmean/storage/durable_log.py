"""The durable log: entries in a SQLite file that knows when it went back.

Streams, ledgers, clients, study runs and the collector keep in it what must never be forgotten:
noise that was drawn, budget that was spent, reports that were acknowledged. An entry is on the disk
before `append` returns (write-ahead log, synchronous=FULL); what waits for it has not happened when
it is missing. Each entry carries a digest that chains it to all before: what was changed, lost or
mixed from two moments is refused.

What a file cannot say is whether it is the newest. The witness (`privmean.storage.witness`),
outside of the folder, tells: an older file put back, whatever tool did it, and one that went on by
itself are refused. So is a file that this machine never saw, until the caller states that it was
moved. What cannot be noticed: a snapshot of the whole machine put back, which takes the witness
along, and a caller who is wrong about what was moved.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privmean.errors import ArgumentError, PrivmeanError, PrivmeanWarning
from privmean.storage import older_logs
from privmean.storage.entry_chain import Broken, Chain, Entry, disagreement
from privmean.storage.witness import (
    Seen,
    Witness,
    is_at,
    no_file,
    os_error_text,
    require_process,
    sync_folder,
)

MARK = 0x707276A1  # in the head of a SQLite file: a log of privmean
UNREACHABLE = (
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
)  # fmt: skip
WAIT = 60.0  # seconds that SQLite waits for a process that does not share the witness


class LogExists(ArgumentError):
    """There is a file of this name, or another process makes it just now."""


class LogInUse(ArgumentError):
    """Another process or thread holds the log."""


class DurableLog:
    """A log, held by one process until `close`; or shared, and then held in each `turn` alone.

    kind: what the entries are, part of the file. take: told of every entry, the oldest first; in a
    shared log, of what others added since, too. name: the argument that error messages name.

    Raises ArgumentError for a file that cannot be used, and PrivmeanError when the disk cannot take
    an entry; the entry does not count then, and the log must be opened again. A process made by
    `os.fork` does not hold the logs of its parent.
    """

    def __init__(
        self, path: Path, kind: str, take: Callable[[Entry], None], *, name: str, shared: bool
    ) -> None:
        self.path, self.kind, self._take, self._name = path, kind, take, name
        self._shared, self._process, self._turn = shared, os.getpid(), threading.RLock()
        self._link: sqlite3.Connection | None = None
        self._witness: Witness | None = None
        self._places: list[tuple[int, int] | None] = []
        me = weakref.proxy(self)  # without a cycle the file is let go with the last reference
        self._chain = Chain(lambda *given: me._execute(*given))  # noqa: PLW0108 - would hold it
        self.identity = ""
        self.size = 0  # bytes of the entries
        _used.add(self)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        kind: str,
        entries: Iterable[bytes] = (),
        *,
        name: str = "state",
        mode: int = 0o600,
        instead: str = "",
    ) -> None:
        """A new file, which gets its name once it is whole.

        mode: who may use it, as far as the process lets anybody. instead: put it in place of a file
        of an older version, with this identity.
        """
        real = Path(path).resolve()
        draft = real.with_name(f".{real.name}.{secrets.token_hex(8)}")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
            try:
                if instead:
                    _let_same_use(draft, real)
                elif real.exists():
                    raise FileExistsError
                identity, last = _fill(draft, kind, entries, instead)
                _witnessed(identity, last)  # first: what has a name is known
                _name(draft, real, instead=bool(instead))
            finally:
                draft.unlink(missing_ok=True)
            sync_folder(real.parent)
        except FileExistsError:
            raise LogExists(name, str(path), "exists", "open it, or name a new file") from None
        except (OSError, sqlite3.Error) as error:
            raise ArgumentError(
                name, str(path), f"cannot be created ({_text(error)})", "name another file"
            ) from None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        kind: str,
        take: Callable[[Entry], None],
        *,
        moved: bool = False,
        shared: bool = False,
        name: str = "state",
    ) -> DurableLog:
        """A file that exists; every entry is given to `take`.

        moved: the caller's word that this is the newest copy and that no other is used again.
        A shared log waits for another process as long as it takes.
        """
        log = cls(Path(path).resolve(), kind, take, name=name, shared=shared)
        try:
            log._connect()
            log._begin(wait=shared, known=moved)
            if not shared:  # all is taken; to hold who took it would be a cycle
                log._take = _none
            log._places.append(_place(log._beside))
            log._end()
        except BaseException:
            log.close()
            raise
        return log

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A shared log, closed to everybody else meanwhile. What others added is taken first."""
        with self._turn:
            try:
                self._begin(wait=True, known=True)
            except BaseException:  # what was taken may not be what is there
                self.close()
                raise
            try:
                yield
            finally:
                self._end()

    def append(self, *entries: bytes) -> Entry:
        """Add entries, all or none; they are on the disk when the call returns. The last of them.

        They are not given to `take`.
        """
        made = self._committed(lambda: self._chain.add(entries))
        self.size += sum(map(len, entries))
        return made[-1]

    def replace(self, entries: Iterable[bytes]) -> bool:
        """Put these entries, which say the same as all before, in place of them. False where the
        disk has no room for that: all stays as it was. Of a log that is held."""
        try:
            made = self._committed(lambda: self._chain.replace(entries), lasting=True)
        except sqlite3.Error:
            return False
        self.size = sum(len(entry.payload) for entry in made)
        with contextlib.suppress(sqlite3.Error):  # what is in the log's own log goes, too
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return True

    def entries(self) -> Iterator[bytes]:
        """All entries again, the oldest first."""
        return self._chain.payloads()

    @property
    def usable(self) -> bool:
        """Whether this process has the file open that has the name now, and what SQLite has beside
        it: another process takes that away where this one lost its locks, as it does when it opens
        and closes the file by hand."""
        return (
            self._link is not None
            and self._process == os.getpid()
            and self._places == [_place(self.path), _place(self._beside)]
        )

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def close(self) -> None:
        """Let go of the file."""
        link, self._link = self._link, None
        witness, self._witness = self._witness, None
        if link is not None:
            with contextlib.suppress(sqlite3.Error):
                link.close()
        if witness is not None:
            witness.close()

    def __del__(self) -> None:
        self.close()

    # -- writing --

    def _usable(self) -> sqlite3.Connection:
        require_process(self._process)
        if self._link is None:
            raise PrivmeanError(f"{self.path} was closed. Open it again.")
        return self._link

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        return self._usable().execute(statement, values)

    def _committed(
        self, change: Callable[[], list[Entry]], *, lasting: bool = False
    ) -> list[Entry]:
        """Make one change, and note it. lasting: whether the log is used on where it fails."""
        link, before = self._usable(), self._chain.last
        try:
            if not link.in_transaction:
                link.execute("BEGIN IMMEDIATE")
            made = change()
            link.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                link.execute("ROLLBACK")
            self._chain.last = before
            if lasting:
                raise
            self.close()
            raise PrivmeanError(
                f"{self.path}: {_text(error)}. What was to be written does not count and was not "
                "shown, and what was written before is safe. Make room and open the file again."
            ) from None
        self._chain.last = made[-1].seen
        assert self._witness is not None
        self._witness.note(self._chain.last)
        return made

    # -- opening --

    def _connect(self) -> None:
        problem = no_file(self.path)
        if problem:
            raise self._refused(f"is {problem}", "name a regular file")
        try:
            if not self.path.stat().st_size:
                raise self._refused("is empty", "put its content back, or delete it")
            self._places = [_place(self.path)]
            self._link = link = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=WAIT if self._shared else 0.0,
            )
            if not self._shared:
                link.execute("PRAGMA locking_mode = EXCLUSIVE")
            found = link.execute("PRAGMA application_id").fetchone()[0]
            if found != MARK:
                raise self._not_one()
            link.execute("PRAGMA synchronous = FULL")
            link.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            kind, self.identity = self._chain.head()
        except OSError as error:
            raise self._refused(f"cannot be opened ({_text(error)})", "check the path") from None
        except sqlite3.Error as error:
            if "not a database" in str(error) and self._converted():
                self._connect()
                return
            raise self._unread(error) from None
        if kind != self.kind or not self.identity.isalnum():  # it names a file
            raise self._not_one()
        self._witness = Witness(self.identity)

    def _converted(self) -> bool:
        """Whether the file was one of 0.2, which is a log of today from now on."""
        self.close()
        with _converting:  # to close a file of SQLite lets go of all that this process holds of it
            if _is_database(self.path):  # another thread was faster
                return True
            try:
                with older_logs.locked(self.path, wait=self._shared) as handle:
                    if not is_at(handle, self.path):  # another process was faster
                        return True
                    if self.kind == "ledger":
                        older = older_logs.lines_of(self.path)
                    else:
                        older = older_logs.frames_of(self.path, self.kind)
                    if older is None:
                        return _is_database(self.path)
                    self.create(
                        self.path,
                        self.kind,
                        older.entries,
                        name=self._name,
                        instead=older.identity,
                    )
                    older_logs.forget(self.path, handle)
            except older_logs.OlderLog as refused:
                raise self._refused(refused.problem, refused.remedy) from None
            except BlockingIOError:
                raise self._in_use() from None
            except OSError as error:
                raise self._refused(f"cannot be opened ({_text(error)})", "check it") from None
        if older.notice:
            warnings.warn(f"{self.path}: {older.notice}", PrivmeanWarning, stacklevel=7)
        return True

    def _begin(self, *, wait: bool, known: bool) -> None:
        """Hold the log, take what is new, and compare with the witness. known: whether a file of
        which this machine knows nothing is used."""
        link, witness = self._usable(), self._witness
        assert witness is not None
        if not witness.lock(wait=wait):
            raise self._in_use()
        seen, digests = witness.read(), {}
        start = self._chain.last
        try:
            link.execute("BEGIN IMMEDIATE")
            for entry in self._chain.news():
                digests[entry.number] = entry.digest
                self.size += len(entry.payload)
                self._take(entry)
        except Broken:
            raise self._damaged() from None
        except sqlite3.Error as error:
            raise self._unread(error) from None
        last = self._chain.last
        if seen is not None:
            problem = disagreement(seen, start, digests, last)
            if problem:
                raise self._refused(
                    problem,
                    "put the newest one back, with its -wal file if there is one: what it forgot "
                    f"would be drawn or spent twice. Its last entry is noted in {witness.path}",
                )
        elif not known and witness.kept:
            raise self._refused(
                "is a copy, or was moved from another machine or user",
                "if it is the newest and no other is ever used again, say so with moved (--moved)",
            )
        if seen != last:
            witness.note(last, durable=seen is None)

    def _end(self) -> None:
        """Let go of what `_begin` holds, as far as others may use the log now."""
        if self._link is not None and self._link.in_transaction:
            self._link.execute("ROLLBACK")
        if self._shared and self._witness is not None:
            self._witness.unlock()

    def _unread(self, error: sqlite3.Error) -> PrivmeanError:
        text = str(error)
        if "locked" in text:
            return self._in_use()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in UNREACHABLE:
            return self._refused(f"cannot be opened ({_text(error)})", "check the path")
        return self._not_one() if "not a database" in text else self._damaged()

    def _not_one(self) -> ArgumentError:
        return self._refused(
            f"is not a {self.kind} file of this version", "name a new file or an old one of it"
        )

    def _damaged(self) -> ArgumentError:
        return self._refused(
            "is damaged, was changed, or was copied while it was written",
            "put an undamaged newest copy back; copy it while nothing uses it",
        )

    def _in_use(self) -> ArgumentError:
        return LogInUse(
            self._name, str(self.path), "is in use by another process or thread", "wait for its end"
        )

    def _refused(self, problem: str, remedy: str) -> ArgumentError:
        return ArgumentError(self._name, str(self.path), problem, remedy)

    def _abandon(self) -> None:
        """In a forked process, which must not even close what its parent has open."""
        if self._link is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._link))
            self._link = None
        self.close()


def _none(entry: Entry) -> None:
    """Take no entry."""


def _fill(draft: Path, kind: str, entries: Iterable[bytes], identity: str) -> tuple[str, Seen]:
    """Write a whole log; its identity and last entry."""
    link = sqlite3.connect(draft, isolation_level=None)
    try:
        for statement in (
            f"PRAGMA application_id = {MARK}", "PRAGMA journal_mode = MEMORY",
            "PRAGMA synchronous = FULL", "BEGIN",
        ):  # fmt: skip
            link.execute(statement)
        chain = Chain(link.execute)
        identity = chain.make(kind, identity)
        for entry in chain.add(entries):
            chain.last = entry.seen
        link.execute("COMMIT")
        link.execute("PRAGMA journal_mode = WAL")  # the file says so from now on
    finally:
        link.close()
    return identity, chain.last


def _witnessed(identity: str, last: Seen) -> None:
    """Note the last entry of a new log."""
    witness = Witness(identity)
    witness.lock()
    seen = witness.read()
    if seen is None or seen.number < last.number:
        witness.note(last, durable=True)
    witness.close()


def _let_same_use(draft: Path, real: Path) -> None:
    """Who may use the one may use the other, as far as the process may say so."""
    found = real.stat()
    if hasattr(os, "chown"):
        for owner in (found.st_uid, -1):
            with contextlib.suppress(OSError):
                os.chown(draft, owner, found.st_gid)
                break
    draft.chmod(found.st_mode & 0o7777)


def _name(draft: Path, path: Path, *, instead: bool) -> None:
    """Give a whole file its name; FileExistsError if the name is taken."""
    if instead:
        os.replace(draft, path)
        return
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # no second names on this file system
        if path.exists():
            raise FileExistsError from None
        os.rename(draft, path)


def _place(path: Path) -> tuple[int, int] | None:
    """Which file has the name; None if none has."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_database(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as link:
            link.execute("PRAGMA application_id")
    except sqlite3.Error as error:
        return "not a database" not in str(error)
    return True


def _text(error: OSError | sqlite3.Error) -> str:
    if isinstance(error, OSError):
        return os_error_text(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_IOERR: "the disk is full or cannot be written",
        sqlite3.SQLITE_READONLY: "it may not be written",
    }.get(code, "SQLite cannot use it")


_converting = threading.Lock()
_used: weakref.WeakSet[DurableLog] = weakref.WeakSet()


def _forked() -> None:
    for log in list(_used):
        log._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
