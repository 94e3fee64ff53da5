"""Administration: new rounds while the service runs, their end, tickets taken back, the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from privmean.local.collector.authorization import Authorization
from privmean.local.collector.round_catalog import RoundCatalog
from privmean.local.collector.store import Store
from privmean.local.collector.telemetry import Log
from privmean.local.reports import NONCE_SIZE
from privmean.local.round import Round
from privmean.strict_json import parsed

LARGEST = 1 << 22  # bytes of a request
PATIENCE = 30.0  # seconds for them


def add_administration(
    app: FastAPI,
    doors: Authorization,
    catalogue: RoundCatalog,
    store: Store,
    log: Log,
    usable: Callable[[list[Round]], None],
) -> None:
    """Register these routes. usable: raises PrivmeanError for a round that cannot be offered."""
    book = store.book

    async def done(action: str, who: str, key: bytes, **more: object) -> JSONResponse:
        await run_in_threadpool(catalogue.refresh)
        log.action(action, who=who, round=key.hex(), **more)
        status = 201 if action == "open" else 200
        return JSONResponse({"round": key.hex(), "done": action, **more}, status)

    async def offer(request: Request) -> JSONResponse:
        """Offer a round from now on; the body is its description."""
        who = await doors.administrator(request)
        round_ = Round.from_json(await _body(request))
        usable([round_])
        if not await run_in_threadpool(store.register, [round_], who):
            raise HTTPException(410, "the round was deleted; draw a new seed")
        return await done("open", who, round_.identifier, digest=round_.digest.hex())

    # close: when it is answered, no report is stored any more. forget: deletes a closed round's
    # reports and keeps their tally. delete: everything about the round.
    ends: dict[str, Callable[[Round, str], bool]] = {
        "close": lambda round_, who: book.close(round_.identifier, who),
        "forget": book.forget,
        "delete": lambda round_, who: book.delete(round_.identifier, who),
    }

    def ending(action: str) -> Callable[..., Awaitable[JSONResponse]]:
        async def end(round_id: str, request: Request) -> JSONResponse:
            who = await doors.administrator(request)
            round_ = doors.round(round_id)
            changed = await run_in_threadpool(ends[action], round_, who)
            return await done(action, who, round_.identifier, changed=changed)

        return end

    async def revoke(round_id: str, request: Request) -> JSONResponse:
        """Take tickets back; the body is {"nonces": [hexadecimal, ...]}."""
        who = await doors.administrator(request)
        round_ = doors.round(round_id)
        if not round_.issued:
            raise HTTPException(409, "the round has no tickets")
        nonces = _nonces(await _body(request))
        fresh = await run_in_threadpool(book.revoke, round_.identifier, nonces, who)
        return await done("revoke", who, round_.identifier, tickets=fresh)

    async def audit(request: Request) -> list[dict[str, Any]]:
        """Who did what, the newest first."""
        await doors.administrator(request)
        lines: list[dict[str, Any]] = await run_in_threadpool(book.audit)
        return lines

    one = "/rounds/{round_id}"
    app.add_api_route("/rounds", offer, methods=["POST"])
    app.add_api_route(one, ending("delete"), methods=["DELETE"])
    app.add_api_route(one + "/close", ending("close"), methods=["POST"])
    app.add_api_route(one + "/forget", ending("forget"), methods=["POST"])
    app.add_api_route(one + "/revoked", revoke, methods=["POST"])
    app.add_api_route("/audit", audit)


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for piece in request.stream():
                body += piece
                if len(body) > LARGEST:
                    raise HTTPException(413, "the request is too long")
    except TimeoutError:
        raise HTTPException(408, "too slow") from None
    return bytes(body)


def _nonces(body: bytes) -> list[bytes]:
    try:
        found = [bytes.fromhex(item) for item in parsed(body)["nonces"]]
    except (ValueError, TypeError, KeyError):
        found = [b""]
    if any(len(nonce) != NONCE_SIZE for nonce in found):
        raise HTTPException(422, 'send {"nonces": [...]}, 32 hexadecimal digits each')
    return found
