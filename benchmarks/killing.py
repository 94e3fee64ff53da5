"""Work that is killed at random: what it published must stay, once, wherever its file was copied.

The parent imports everything once; each run is a fork of it that opens the state file, goes on and
is killed. A `Work` says how to go on and what a file holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

import privmean as pm
from privmean.collector.store import Offer, Store
from privmean.errors import PrivmeanError
from privmean.local.clients.client import Client, Ledger
from privmean.local.round_builders import mean_round
from privmean.local.vectorized import randomize_many
from privmean.privacy.budget import Budget
from privmean.privacy.privacy_events import Pure
from privmean.streams import MeanStream, WithholdRelease
from privmean.streams import record_sources as sources
from privmean.streams import run_stream as events
from privmean.streams.record_sources import Reader
from privmean.streams.run_stream import MeanAdapter
from privmean.streams.strategies import Buffered
from privmean.streams.stream_plan import plan as plan_mean
from privmean.study.run_folder import held, run_in
from privmean.study.stored_answers import AnswerLog, written

Contents = dict[str, str]
FULL = 3  # exit status of a child that named the full disk


class Work(Protocol):
    """One kind of work on a state file."""

    name: str
    alone: bool  # whether a second process is refused

    def warm(self, path: Path) -> None:
        """Load, in the parent, whatever is loaded late; `path` may be used for it."""
        ...

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        """Work until there is no more; say(key, value) for what is published."""
        ...

    def contents(self, path: Path, moved: bool) -> Contents:
        """Everything published or about to be; PrivmeanError if the file is refused."""
        ...

    def complete(self, contents: Contents) -> bool:
        """Whether nothing is missing when all is done."""
        ...


def shown(releases: Any) -> Iterator[tuple[str, str]]:
    for release in releases:
        yield str(release.step), json.dumps(release.to_dict())


class Running:
    """`privmean stream` on a file of events, a few to a batch."""

    alone = True

    def __init__(self, folder: Path, rng: random.Random, count: int, every: int) -> None:
        self.name = f"stream, --release-every {every}" if every > 1 else "stream"
        self._source = folder / "events"
        self._most = 4
        rows = [{"p": f"u{rng.randrange(count // 3)}", "v": rng.gauss(20, 5)} for _ in range(count)]
        self._source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._counts = Counter(row["p"] for row in rows)
        self._count, self._every = count, every
        self._plan = plan_mean(
            epsilon=1.0,
            delta=1e-6,
            max_participations=self._most,
            min_separation=8,
            clip_radius=50.0,
            strategy=Buffered((0.25, 0.07), (0.6, 0.96)),
            design_steps=100,
            release_every=every,
        )

    def warm(self, path: Path) -> None:
        with MeanStream.from_plan(self._plan, state=path) as stream:
            stream.extend(list(range(20)), [0.0] * 20)

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        sources.CHUNK = 1 << 9  # about ten events

        class Said:
            def write(self, releases: Any) -> int:
                step = 0
                for key, value in shown(releases):
                    say(key, value)
                    step = int(key)
                return step

            def follow(self, releases: Any) -> None:
                self.write(releases)

        sys.stdin = open(self._source, "rb")  # noqa: SIM115 (this process ends with os._exit)
        with MeanStream.from_plan(self._plan, state=path) as stream:
            source = sources.StandardInput(Reader("p", ("v",)), complete=True)
            events.run(MeanAdapter(stream), source, state=path, replay=True, output=Said())

    def contents(self, path: Path, moved: bool) -> Contents:
        with MeanStream.from_plan(self._plan, state=path, moved=moved) as stream:
            found = dict(shown(stream.releases()))
            self._facts = (stream.arrivals, stream.records, stream.waiting)
            assert stream.steps == len(found)
        return found

    def complete(self, contents: Contents) -> bool:
        arrivals, records, waiting = self._facts
        accepted = sum(min(self._most, count) for count in self._counts.values())
        steps = list(map(str, range(1, len(contents) + 1)))
        return arrivals == self._count and records + waiting == accepted and list(contents) == steps


class Withholding:
    """Batches of a withhold-release, with its private intervals."""

    name, alone = "withhold-release, batches", True

    def __init__(self, folder: Path, rng: random.Random, count: int) -> None:
        del folder
        self._events = [
            (f"u{rng.randrange(count // 6)}", rng.gauss(0.5, 0.1)) for _ in range(count)
        ]
        self._settings = {
            "max_records": 8, "bounds": (0.0, 1.0), "sd": 0.1, "epsilon": 8.0, "delta": 1e-6,
        }  # fmt: skip

    def warm(self, path: Path) -> None:
        self.go_on(path, lambda key, value: None)

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        stream = WithholdRelease(state=path, **self._settings)
        for key, value in shown(stream.releases()):
            say(key, value)
        dice = random.Random()
        while stream.arrivals < len(self._events):
            start = stream.arrivals
            batch = self._events[start : start + dice.randrange(1, 20)]
            persons, values = zip(*batch, strict=True)
            for key, value in shown(stream.extend(persons, np.array(values))):
                say(key, value)
        stream.close()

    def contents(self, path: Path, moved: bool) -> Contents:
        stream = WithholdRelease(state=path, moved=moved, **self._settings)
        try:
            self._arrivals = stream.arrivals
            return dict(shown(stream.releases()))
        finally:
            stream.close()

    def complete(self, contents: Contents) -> bool:
        return self._arrivals == len(self._events) == int(list(contents)[-1])


class Reporting:
    """A client that answers round after round."""

    name, alone = "client ledger", False

    def __init__(self, folder: Path, rng: random.Random, count: int) -> None:
        del folder, rng
        self._rounds = [mean_round(0, 1, epsilon=1, persons=9) for _ in range(count)]

    def _client(self, path: Path, moved: bool = False) -> Client:
        return Client(epsilon=1, ledger=Ledger(path, limit=len(self._rounds), moved=moved))

    def warm(self, path: Path) -> None:
        self._client(path).report(self._rounds[0], 0.5)

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        client = self._client(path)
        done = int(client.ledger.spent())  # one a round
        for round_ in self._rounds[max(0, done - 5) :]:  # the last ones are asked again
            say(round_.digest.hex(), client.report(round_, 0.5).hex())

    def contents(self, path: Path, moved: bool) -> Contents:
        client = self._client(path, moved)
        with client.ledger._turn() as (sent, _):
            return {digest.hex(): item.report.hex() for digest, item in sent.items()}

    def complete(self, contents: Contents) -> bool:
        return list(contents) == [round_.digest.hex() for round_ in self._rounds]


class Collecting:
    """A collector's SQLite store; what is published is that a batch was acknowledged."""

    name, alone = "collector, SQLite", False

    def __init__(self, folder: Path, rng: random.Random, count: int, batch: int = 60) -> None:
        del folder, rng
        self.batch = batch
        self._round = mean_round(0, 10, epsilon=1, persons=10**6)
        self._batches = [
            randomize_many(self._round, np.full(self.batch, 7.0), epsilon=1) for _ in range(count)
        ]

    def warm(self, path: Path) -> None:
        self.contents(path, False)

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        try:
            self._store(path, say)
        except (PrivmeanError, SQLAlchemyError) as problem:
            full = any(word in str(problem) for word in ("full", "disk I/O error"))
            raise PrivmeanError("the disk is full" if full else str(problem)) from None

    def _store(self, path: Path, say: Callable[[str, str], None]) -> None:
        store = Store(f"sqlite:///{path}")
        store.register([self._round])
        done = store.tally(self._round).reports // self.batch
        for number, batch in enumerate(self._batches[done:], start=done):
            store.write([Offer(batch)])
            say(str(number), "stored")
            if number % 10 == 9:
                store.checkpoint(self._round)
        store.close()

    def contents(self, path: Path, moved: bool) -> Contents:
        del moved  # any whole copy may go on: no noise is drawn from it
        store = Store(f"sqlite:///{path}")
        try:
            store.register([self._round])
            batches, rest = divmod(store.tally(self._round).reports, self.batch)
            assert not rest
            return {str(number): "stored" for number in range(batches)}
        finally:
            store.close()

    def complete(self, contents: Contents) -> bool:
        return len(contents) == len(self._batches)

    def shared(self, path: Path) -> Store:
        """What several threads use at once."""
        return Store(f"sqlite:///{path}")

    def act(self, store: Store, number: int) -> None:
        """One more result; acknowledged when it returns."""
        store.write([Offer(self._batches[number])])


class Charging:
    """A budget ledger that is charged again and again, each second run being settled; what is
    published is each line's digest."""

    name, alone = "budget ledger", False

    def __init__(self, count: int) -> None:
        self._count = count

    def warm(self, path: Path) -> None:
        self._ledger(path).charge(Budget(0.001), "replace-one")

    def _ledger(self, path: Path) -> pm.Ledger:
        return pm.Ledger(path, epsilon=1.0)

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        ledger = self._ledger(path)
        for number in range(len(ledger.entries), self._count):
            entry = ledger.charge(Budget(0.001), "replace-one")
            say(str(entry.number), entry.digest)
            if number % 2:
                made = ledger.settle(entry, [Pure("asked", "1/3000")]).settlement
                assert made is not None
                say(str(made.number), made.digest)

    def contents(self, path: Path, moved: bool) -> Contents:
        del moved
        found: Contents = {}
        for entry in self._ledger(path).entries:
            lines = [entry] if entry.settlement is None else [entry, entry.settlement]
            found |= {str(line.number): line.digest for line in lines}
        return found

    def complete(self, contents: Contents) -> bool:
        return self._count <= len(contents) <= 1.5 * self._count  # some are killed before the end

    shared = _ledger

    def act(self, ledger: pm.Ledger, number: int) -> None:
        """One more result; acknowledged when it returns."""
        ledger.charge(Budget(0.001), "replace-one", label=str(number))


class Studying:
    """A study in a folder; what is published are its noisy answers."""

    name, alone = "study run", True

    def __init__(self, count: int) -> None:
        who = np.arange(60)
        self._table = {"who": who, "y": who % 7.0}
        self._count = count

    def warm(self, path: Path) -> None:
        self.go_on(path, lambda key, value: None)

    def go_on(self, path: Path, say: Callable[[str, str], None]) -> None:
        study = pm.Study(pm.Table(self._table, person="who"), epsilon=4.0, name="faults")
        for number in range(self._count):
            study.add(f"q{number}", pm.Mean("y", assume=(0, 7)))
        real, places = AnswerLog.answer, Counter[str]()

        def answer(log: AnswerLog, question: str, *more: Any) -> Any:
            noisy = real(log, question, *more)
            say(f"{question}/{places[question]}", written(noisy))
            places[question] += 1
            return noisy

        AnswerLog.answer = answer  # type: ignore[method-assign]
        try:
            run_in(study, path)
        finally:
            AnswerLog.answer = real  # type: ignore[method-assign]

    def contents(self, path: Path, moved: bool) -> Contents:
        del moved
        if not path.exists():
            return {}
        with held(path) as folder:
            return {at: answer for at, (_, answer) in folder.answers.items()}

    def complete(self, contents: Contents) -> bool:
        return len(contents) >= self._count


class Count:
    """What happened."""

    def __init__(self) -> None:
        self.kills = self.amid = 0
        self.copies: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.full = self.second = self.steps = self.ahead = self.two = self.lost = 0


def run(work: Work, folder: Path, rng: random.Random, kills: int, count: Count) -> None:
    """Kill it so often, then let it end; every file must hold what was published, unchanged."""
    path = folder / "0" / "state"
    path.parent.mkdir()
    (folder / "warm").mkdir()
    work.warm(folder / "warm" / "state")
    published: Contents = {}
    for number in range(1, kills + 2):
        last = number > kills
        limit = None
        if not last and number % 20 == 0 and path.exists():
            limit = path.stat().st_size + rng.randrange(3000)
        before = len(published)
        wait = None if last or limit else rng.choice([0, 1, 1, 2, 5, 10, 20])
        live = folder / f"live{number}"
        status = _once(work, path, live, rng, wait, published, limit, count)
        if status == FULL:
            count.full += 1
        elif not last and os.WIFSIGNALED(status):
            count.kills += 1
            count.amid += len(published) > before
        elif status:
            raise SystemExit(f"{work.name}: ended with {status}")
        after = {
            "the file": [""],
            "all files": ["", "-journal", "-wal"],
        }
        places = {}
        for kind, endings in after.items():
            places[kind] = folder / f"{number}{kind[:3]}" / "state"
            places[kind].parent.mkdir()
            for ending in endings:
                _copy(path, places[kind], ending)
        if not path.exists():
            continue  # killed before there was a file: nothing was published
        truth = work.contents(path, False)
        _compare(published, truth, count)
        published.update(truth)
        _check(work, live, truth, "running", count, whole=False)
        whole = [path]
        for kind, place in places.items():
            if _check(work, place, truth, kind, count, whole=True):
                whole.append(place)
        if status == 0:
            break  # nothing is left to do
        # any of the copies is now the original
        chosen = rng.choice(whole)
        for old in {path, *places.values()} - {chosen}:
            shutil.rmtree(old.parent)
        path = chosen
    count.steps += len(published)
    final = work.contents(path, False)
    if final != published or not work.complete(final):
        raise SystemExit(f"{work.name}: not complete at the end")


def _once(
    work: Work,
    path: Path,
    live: Path,
    rng: random.Random,
    wait: int | None,
    published: Contents,
    limit: int | None,
    count: Count,
) -> int:
    """The status of a child that is killed after so many new results (None: let it end), half of
    the times with a copy `live` of its file made while it ran."""
    ends = os.pipe()
    child = _fork(lambda: _child(work, path, ends, limit))
    os.close(ends[1])
    news, killed = 0, False
    with open(ends[0], "rb") as results:
        if wait == 0:
            time.sleep(rng.uniform(0.0, 0.03))
            killed = _kill(child, path, live, rng)
        for line in results:
            if not line.endswith(b"\n"):
                break
            key, value = json.loads(line)
            news += key not in published
            if published.setdefault(key, value) != value:
                count.two += 1
            if wait is not None and not killed and news >= wait > 0:
                if work.alone and rng.random() < 0.1:
                    count.second += _is_held(work, path)
                time.sleep(rng.uniform(0.0, 0.02))
                killed = _kill(child, path, live, rng)
    _, status = os.waitpid(child, 0)
    return status if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _kill(child: int, path: Path, live: Path, rng: random.Random) -> bool:
    if rng.random() < 0.5:
        live.mkdir()
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(path, live / "state")
    os.kill(child, signal.SIGKILL)
    return True


def _fork(work: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except PrivmeanError as problem:
        status = FULL if "disk is full" in str(problem) else 1
        if status == 1:
            print(problem, file=sys.stderr)
    finally:
        os._exit(status)


def _child(work: Work, path: Path, ends: tuple[int, int], limit: int | None) -> None:
    os.close(ends[0])
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def say(key: str, value: str) -> None:
        os.write(ends[1], json.dumps([key, value]).encode() + b"\n")

    work.go_on(path, say)


def _is_held(work: Work, path: Path) -> bool:
    """Whether a second process is refused while the first one runs."""
    try:
        work.contents(path, False)
    except PrivmeanError as problem:
        if "is in use" not in str(problem):
            raise
        return True
    return False


def _copy(path: Path, place: Path, ending: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(path.with_name(path.name + ending), place.with_name(place.name + ending))


def _compare(published: Contents, held: Contents, count: Count) -> None:
    count.lost += sum(key not in held for key in published)
    count.two += sum(held.get(key, value) != value for key, value in published.items())


def _check(
    work: Work, place: Path, truth: Contents, kind: str, count: Count, *, whole: bool
) -> bool:
    """Open a copy: it holds the truth or is refused."""
    if place.is_dir():
        place = place / "state"
    if not place.exists():
        return False
    count.copies[kind] += 1
    try:
        held = work.contents(place, True)
    except PrivmeanError:
        count.refused[kind] += 1
        return False
    finally:
        if not whole:
            shutil.rmtree(place.parent)
    if whole and held != truth:
        _compare(truth, held, count)
    count.ahead += sum(key not in truth for key in held)
    count.two += sum(truth.get(key, value) != value for key, value in held.items())
    return True
