"""The web service. Everything it publishes follows from private reports and public settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.middleware.cors import CORSMiddleware

from privmean._version import __version__
from privmean.errors import PrivmeanError
from privmean.local.aggregators.report_validation import require_secret
from privmean.local.collector.authorization import Authorization
from privmean.local.collector.cached_estimates import Answers
from privmean.local.collector.client_files import add_client
from privmean.local.collector.collector_settings import Settings
from privmean.local.collector.receive_reports import Intake
from privmean.local.collector.request_limits import Addresses, OpenConnections
from privmean.local.collector.round_catalog import Housekeeper, RoundCatalog
from privmean.local.collector.routes_admin import add_administration
from privmean.local.collector.routes_open import add_open
from privmean.local.collector.routes_read import add_reading
from privmean.local.collector.store import Store
from privmean.local.collector.store_writer import Writer
from privmean.local.collector.telemetry import Metrics, Watched
from privmean.local.round import Round


class Collector:
    """The parts of one service process."""

    def __init__(self, rounds: Iterable[Round], database: str, settings: Settings) -> None:
        self.limits, self.roles = settings.limits, settings.roles
        self.log, self.origins = settings.log, settings.origins
        self.secrets, self.metrics = settings.secrets, Metrics()
        offered = list(rounds)
        require_secret(offered, settings.secrets)
        self.store = Store(database)
        taken = {item.digest for item in self.store.register(offered)}
        for item in [item for item in offered if item.digest not in taken]:
            self.log.action("not offered: it was deleted", round=item.identifier.hex())
        self.catalogue = RoundCatalog(self.store)
        for mark, known in self.catalogue.entries.items():
            if known.round.issued and not settings.secrets and known.takes_reports(time.time()):
                self.log.action("takes no reports: no secret for its tickets", round=mark.hex())
        self.answers = Answers(self.store)
        self.keeper = Housekeeper(self.catalogue, self.store, settings.retention, self.log)
        rounds_now = self.catalogue.rounds
        self.writer = Writer(self.store, rounds_now, self.keeper.fresh.add)
        self.addresses, self.crowd = Addresses(self.limits), OpenConnections(self.limits)
        self.intake = Intake(rounds_now, self.writer, self.limits, self.addresses, settings.secrets)
        self.doors = Authorization(
            self.roles, self.catalogue, self.intake, self.addresses, self.limits
        )

    def close(self) -> None:
        self.keeper.stop()
        self.intake.close()
        self.writer.stop()
        self.store.close()


def make_app(collector: Collector) -> FastAPI:
    """The routes of a collector."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        collector.writer.start()
        collector.keeper.start()
        yield
        await asyncio.to_thread(collector.close)

    # The usual documentation pages load scripts from elsewhere, so they are off, and so is the
    # description that only they would read.
    app = FastAPI(
        title="privmean collector",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    async def no_database(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse({"detail": "the database does not answer; try again"}, 503)

    async def refused(_: Request, problem: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(problem)}, 422)

    app.add_exception_handler(SQLAlchemyError, no_database)
    app.add_exception_handler(PrivmeanError, refused)
    add_open(
        app,
        collector.catalogue,
        collector.doors,
        collector.intake,
        collector.store,
        collector.metrics,
    )
    add_reading(app, collector.doors, collector.store, collector.answers)
    add_administration(
        app,
        collector.doors,
        collector.catalogue,
        collector.store,
        collector.log,
        partial(require_secret, secrets=collector.secrets),
    )
    add_metrics(app, collector)
    add_client(app)
    if collector.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(collector.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type"],
        )
    app.add_middleware(Watched, metrics=collector.metrics, log=collector.log)
    return app


def add_metrics(app: FastAPI, collector: Collector) -> None:
    """`/metrics`, for who may read results: it counts reports."""
    from collections import Counter
    from collections.abc import Mapping

    from fastapi.responses import PlainTextResponse

    def gauges() -> list[tuple[str, Mapping[str, str], float]]:
        states = Counter(entry.state for entry in collector.catalogue.entries.values())
        rows: list[tuple[str, Mapping[str, str], float]] = [
            ("privmean_rounds", {"state": state}, number) for state, number in states.items()
        ]
        rows.append(("privmean_connections", {}, len(collector.crowd)))
        rows.append(("privmean_waiting_bytes", {}, collector.writer.waiting))
        return rows

    async def metrics(request: Request) -> PlainTextResponse:
        await collector.doors.reader(request)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(collector.metrics.text(gauges), media_type=kind)

    app.add_api_route("/metrics", metrics)
