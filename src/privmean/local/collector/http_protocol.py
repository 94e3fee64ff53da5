"""HTTP with an end to everything that a client can leave unfinished.

uvicorn bounds neither the time for a header, nor how fast an answer is read, nor how much of a
refused body it still reads. This is its protocol over h11 with these bounds.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from privmean.local.collector.request_limits import (
    WHOLE,
    Addresses,
    Limits,
    OpenConnections,
    network,
)

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
