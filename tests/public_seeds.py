"""Public round seeds are fixed a test, so that a run repeats itself (TEST_SALT gives another)."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace

import pytest

from privmean.local import round_builders as builders
from privmean.local import two_round_mean as rounds


@pytest.fixture(autouse=True)
def public_seeds(request, monkeypatch):
    dice = random.Random(os.environ.get("TEST_SALT", "") + request.node.nodeid)
    fake = SimpleNamespace(urandom=dice.randbytes)
    monkeypatch.setattr(builders, "os", fake)
    monkeypatch.setattr(rounds, "os", fake)
