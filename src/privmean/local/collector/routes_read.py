"""Results: for everybody where that was chosen, else for who has a token."""

from __future__ import annotations

import json
import math

import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.aggregators.level_weights import TESTED
from privmean.local.collector.authorization import Authorization
from privmean.local.collector.cached_estimates import LARGEST, Answers
from privmean.local.collector.routes_open import BINARY
from privmean.local.collector.store import Store
from privmean.local.kernel_regression import curve
from privmean.local.round import Round

MOST_POINTS = 400  # of one answer's curve
JSON = "application/json"


def add_reading(app: FastAPI, doors: Authorization, store: Store, answers: Answers) -> None:
    """Register these routes."""

    async def answer(
        round_id: str,
        request: Request,
        weights: str = TESTED,
        epsilon_cap: str = "",
        numbers: str = LARGEST,
    ) -> Response:
        """The estimate now. weights: tested, uniform or minimax; epsilon_cap: a level; numbers:
        largest or all, where they are very many."""
        await doors.reader(request)
        _require_known(request, "weights", "epsilon_cap", "numbers")
        round_ = doors.round(round_id)
        data = await run_in_threadpool(answers.get, round_, weights, epsilon_cap, numbers)
        # whether the round is open changes without any report
        return Response(
            b'{"state":"%s",' % doors.state(round_).encode() + data[1:], media_type=JSON
        )

    async def state(round_id: str, request: Request) -> Response:
        await doors.reader(request)
        round_ = doors.round(round_id)
        data = await run_in_threadpool(lambda: store.tally(round_).to_bytes())
        return Response(data, media_type=BINARY)

    async def history(round_id: str, request: Request) -> Response:
        """What was answered at how many reports, and when."""
        await doors.reader(request)
        round_ = doors.round(round_id)
        rows = await run_in_threadpool(store.book.history, round_.identifier)
        points = [{"reports": n, "time": when, **json.loads(text)} for n, when, text in rows]
        return Response(json.dumps(points, separators=(",", ":")), media_type=JSON)

    async def smooth(
        round_id: str, request: Request, bandwidth: float, weights: str = TESTED
    ) -> Response:
        """The curve of a round with design points."""
        await doors.reader(request)
        _require_known(request, "bandwidth", "weights")
        round_ = doors.round(round_id)
        data = await run_in_threadpool(_curve, store, round_, bandwidth, weights)
        return Response(data, media_type=JSON)

    app.add_api_route("/rounds/{round_id}/estimate", answer)
    app.add_api_route("/rounds/{round_id}/tally", state)
    app.add_api_route("/rounds/{round_id}/history", history)
    app.add_api_route("/rounds/{round_id}/curve", smooth)


def _require_known(request: Request, *names: str) -> None:
    """Refuse a word that would change nothing of the answer."""
    for name in request.query_params:
        validate.choice("query", name, names)


def _curve(store: Store, round_: Round, bandwidth: float, weights: str) -> bytes:
    if not round_.points:
        raise ArgumentError(
            "round", round_.mechanism, "has no design points", "request the estimate"
        )
    step = math.ceil(len(round_.points) / MOST_POINTS)
    at = np.array(round_.points)[::step]
    tally = store.tally(round_)
    found = curve(tally, None, at, bandwidth=bandwidth, weights=weights)
    return json.dumps({**found.to_dict(), "reports": tally.reports}, allow_nan=False).encode()
