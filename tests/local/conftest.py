"""Public round seeds are fixed a test, so that a run repeats itself (TEST_SALT gives another)."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace

import pytest
from collector_server import PostgreSQL

from privmean.local import round_builders as builders
from privmean.local import two_round_mean as rounds


@pytest.fixture(autouse=True)
def public_seeds(request, monkeypatch):
    dice = random.Random(os.environ.get("TEST_SALT", "") + request.node.nodeid)
    fake = SimpleNamespace(urandom=dice.randbytes)
    monkeypatch.setattr(builders, "os", fake)
    monkeypatch.setattr(rounds, "os", fake)


@pytest.fixture(scope="module")
def postgres_server():
    """A PostgreSQL server of this test module's own."""
    server = PostgreSQL()
    server.start()
    yield server
    server.stop()
    server.remove()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.system)])
def database(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/reports.db"
    return request.getfixturevalue("postgres_server").url
