"""The databases that a collector is tried on; public seeds are fixed."""

from __future__ import annotations

import pytest
from collector_server import PostgreSQL

from public_seeds import public_seeds

__all__ = ["public_seeds"]


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
