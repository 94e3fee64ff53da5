"""How much of the service one request, one address and all of them together may take.

All numbers are public, and every rule looks at what was sent and at the time, never at estimates.
Everything that a client can leave unfinished has an end: uvicorn bounds neither the time for a
header, nor how fast an answer is read, nor how much of a refused body it still reads. This is its
protocol over h11 with these bounds.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.clients.send import LARGEST_BODY

LINGER = 1 << 18  # bytes of a refused body that are still read, so that its sender hears why


def protocol_class(
    limits: Limits, addresses: Addresses, crowd: OpenConnections
) -> type[H11Protocol]:
    """The protocol for `uvicorn.Config(http=...)` under these limits."""

    class Bounded(H11Protocol):  # type: ignore[misc]
        _address = ""
        _timer: asyncio.TimerHandle | None = None
        _reader: asyncio.TimerHandle | None = None
        _linger = LINGER

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            peer = transport.get_extra_info("peername")
            self._address = network(peer[0] if isinstance(peer, tuple) else None)
            if crowd.enter(self, self._address):
                self._watch()
            else:
                self.cut()

        def connection_lost(self, problem: Exception | None) -> None:
            crowd.leave(self, self._address)
            for timer in (self._timer, self._reader):
                if timer is not None:
                    timer.cancel()
            self._timer = self._reader = None
            super().connection_lost(problem)

        def cut(self) -> None:
            """End the connection now, whatever is under way."""
            self.transport.abort()

        def data_received(self, data: bytes) -> None:
            if self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY:
                self._linger -= len(data)
                if self._linger < 0:
                    self.cut()
                    return
            super().data_received(data)
            self._watch()

        def _watch(self) -> None:
            """A deadline for the whole header, from when it is waited for: bytes do not move it."""
            active = self.cycle is not None and not self.cycle.response_complete
            if active or self.transport.is_closing():
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                self._linger = LINGER
            elif self._timer is None:
                self._timer = self.loop.call_later(limits.patience, self._no_header)

        def _no_header(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                addresses.charge(self._address, WHOLE)
                self.cut()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._reader is None:
                size = self.transport.get_write_buffer_size()
                self._reader = self.loop.call_later(limits.patience, self._check_reader, size)

        def _check_reader(self, before: int) -> None:
            """An answer must be read at the pace at which bodies must come."""
            size = self.transport.get_write_buffer_size()
            self._reader = None
            if size and before - size < limits.pace * limits.patience:
                addresses.charge(self._address, WHOLE)
                self.cut()
            elif size:
                self._reader = self.loop.call_later(limits.patience, self._check_reader, size)

    return Bounded


@dataclass(frozen=True)
class Limits:
    """The limits of one service process.

    patience: seconds for the header of a request; a body has as many, and one more for each `pace`
    bytes that came. idle: seconds that a connection may wait for its next request. connections:
    open at once in all; per_address: of one address. body: bytes of a request. odd: pieces of a
    request that are no reports of its round; with more nothing of it counts. flight: bytes of one
    address that are on their way or wait; receiving: of all; heavy: of all who bring much. light:
    bytes of one address on their way that go before others'. trouble: what one address may cost
    before it has to wait (see `Addresses`), and calm: by how much of it a second makes good.
    penalty: seconds that a refusal takes. proxies: addresses whose word on whom they speak for is
    taken.
    """

    patience: float = 10.0
    pace: int = 1 << 16
    idle: float = 30.0
    connections: int = 1000
    per_address: int = 100
    body: int = LARGEST_BODY
    odd: int = 100
    flight: int = 1 << 23
    receiving: int = 1 << 27
    heavy: int = 1 << 24
    trouble: float = 5000.0
    calm: float = 100.0
    penalty: float = 5.0
    light: int = 1 << 17
    proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "patience", "idle", "trouble", "calm")
        validate.keep(self, validate.nonnegative, "penalty")
        counts = "pace", "connections", "per_address", "body", "odd", "flight", "receiving", "heavy"
        for name in counts:
            object.__setattr__(self, name, validate.whole(name, getattr(self, name), least=1))


# What is charged to an address, in pieces that had to be looked at one by one.
WHOLE = 100.0  # a request that is refused as a whole, or a connection that never asks
EACH_BYTE = 1 / 4096  # of a body that is refused as a whole
NOTHING_NEW = 10.0  # a request that brought no new report
IN_BULK = 1 / 50  # a report that is refused or known already, found among many at once
READING = 5.0  # an estimate or a tally
MOST_KNOWN = 10_000  # addresses that are remembered


def network(address: str | None) -> str:
    """Whom an address stands for: itself, or the network of 2^64 that one household has."""
    try:
        found = ipaddress.ip_address((address or "").split("%")[0])
    except ValueError:
        return (address or "")[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, 64), strict=False))
        found = found.ipv4_mapped
    return str(found)


class Addresses:
    """What each address has on its way, and the trouble it made.

    Trouble rises by what a request cost for nothing (see the constants) and falls with time. An
    honest client that repeats itself after a failure stays far below the limit.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._trouble: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._flight: dict[str, int] = {}
        self.receiving = 0

    def trouble(self, address: str) -> float:
        """What is left of it now."""
        amount, then = self._trouble.get(address, (0.0, 0.0))
        return max(0.0, amount - self._limits.calm * (self._clock() - then))

    def charge(self, address: str, cost: float) -> None:
        """Add to an address's trouble; at most twice the limit is ever held against it."""
        amount = min(self.trouble(address) + cost, 2 * self._limits.trouble)
        self._trouble[address] = (amount, self._clock())
        self._trouble.move_to_end(address)
        if len(self._trouble) > MOST_KNOWN:
            self._trouble.popitem(last=False)

    def welcome(self, address: str) -> bool:
        return self.trouble(address) < self._limits.trouble

    def light(self, address: str, more: int = 0) -> bool:
        """Whether so little of this address is on its way, and so little trouble."""
        return (
            self._flight.get(address, 0) + more <= self._limits.light
            and self.trouble(address) < self._limits.trouble / 2
        )

    def first(self, address: str, size: int) -> bool:
        """Whether a request of so many bytes may go before others': a small one, of an address
        that has little on its way or is the only one."""
        alone = self._flight.keys() <= {address} and self.welcome(address)
        return size <= self._limits.light and (alone or self.light(address))

    def take(self, address: str, size: int) -> None:
        """So many more bytes of an address are here. Give them back."""
        self._flight[address] = self._flight.get(address, 0) + size
        self.receiving += size

    def fits(self, address: str, more: int = 0) -> bool:
        """Whether what is here, and so many bytes more of this address, are not too many.

        All but `heavy` of what may be on its way is kept for addresses that bring little.
        """
        mine = self._flight.get(address, 0) + more
        limits = self._limits
        full = limits.receiving if self.light(address, more) else limits.heavy
        return mine <= limits.flight and self.receiving + more <= full

    def give_back(self, address: str, size: int) -> None:
        self.receiving -= size
        left = self._flight.get(address, 0) - size
        if left > 0:
            self._flight[address] = left
        else:
            self._flight.pop(address, None)


class Connection(Protocol):
    """A connection that can be cut."""

    def cut(self) -> None: ...


class OpenConnections:
    """The open connections, by address. When there are too many, the largest group loses one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._trusted = {network(item) for item in limits.proxies}
        self._open: dict[str, dict[Connection, None]] = {}
        self._total = 0

    def enter(self, link: Connection, address: str) -> bool:
        """Whether this connection may stay."""
        mine = self._open.get(address, {})
        if address not in self._trusted:
            if len(mine) >= self._limits.per_address:
                return False
            if self._total >= self._limits.connections and not self._make_room(len(mine)):
                return False
        self._open.setdefault(address, {})[link] = None
        self._total += 1
        return True

    def _make_room(self, mine: int) -> bool:
        groups = [item for item in self._open.items() if item[0] not in self._trusted]
        if not groups:
            return False
        address, links = max(groups, key=lambda item: len(item[1]))
        if len(links) <= mine + 1:
            return False
        oldest = next(iter(links))
        self.leave(oldest, address)
        oldest.cut()
        return True

    def leave(self, link: Connection, address: str) -> None:
        links = self._open.get(address, {})
        if link in links:
            del links[link]
            self._total -= 1
            if not links:
                del self._open[address]

    def __len__(self) -> int:
        return self._total


def room_for(connections: int) -> int:
    """How many connections this process can hold: its files are limited by the system."""
    try:
        import resource
    except ImportError:  # no such limit
        return connections
    spare = 200  # for the database, the listener, and what is accepted before it is counted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < connections + spare:
        wanted = connections + spare
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(connections, soft - spare))
    return connections


def addresses_of(proxies: Iterable[str]) -> tuple[str, ...]:
    """The proxies, each checked to be an address."""
    result = tuple(proxies)
    for item in result:
        try:
            ipaddress.ip_address(item)
        except ValueError:
            raise ArgumentError(
                "proxy", item, "is not an address", "give it as an IP address"
            ) from None
    return result
