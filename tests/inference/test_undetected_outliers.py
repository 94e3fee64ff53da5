"""What a count of persons far out may have missed is printed, whatever was asked."""

from __future__ import annotations

import re

import numpy as np
import pytest

import privmean as pm
from privmean.noise.simulated import SimulatedNoise
from privmean.release.formatting import assumption_text
from privmean.release.release import Release

N = 4000


def records():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(N), 3)
    z = rng.normal(size=who.size)
    x = np.repeat(rng.normal(50, 8, N), 3) + z
    arm = np.repeat(rng.integers(0, 2, N), 3)
    return {"who": who, "x": x, "z": z, "arm": arm, "t": rng.uniform(0, 3, who.size)}


TABLE = pm.Table(records(), person="who")
NOISE = {"noise": SimulatedNoise(0)}
ASKED = {
    "mean": lambda: pm.mean(TABLE, "x", epsilon=1.0, noise=SimulatedNoise(2)),
    "columns": lambda: pm.mean(TABLE, ["x", "z"], epsilon=2.0, **NOISE),
    "variance": lambda: pm.variance(TABLE, "x", epsilon=1.0, **NOISE),
    "pooled": lambda: pm.regress(TABLE, "x ~ z", epsilon=4.0, **NOISE),
    "own": lambda: pm.regress(TABLE, "x ~ z", effect="per_person", epsilon=4.0, **NOISE),
    "groups": lambda: pm.mean(TABLE, "x", by="arm", keys=[0, 1], epsilon=1.0, **NOISE),
    "arms": lambda: pm.compare(TABLE, "x", arms="arm", epsilon=1.0, **NOISE),
    "public": lambda: pm.compare(
        TABLE, "x", arms="arm", membership="public", epsilon=1.0, **NOISE
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_the_print_says_how_many_may_be_unseen(name):
    found = ASKED[name]()
    assert not found.failed
    number = re.search(r"fewer than about (\d+) people", found.interval().assumption)[1]
    for release in (found, Release.from_dict(found.to_dict())):
        text = " ".join(str(release).split())
        assert text.count(f"no outliers were missed (fewer than about {number} people") == 1
        assert "could go undetected)" in text.partition("Intervals: ")[2]


@pytest.mark.parametrize(
    "asked",
    [
        lambda: pm.quantile(TABLE, "x", 0.5, epsilon=1.0, **NOISE),
        lambda: pm.mean(TABLE, "x", assume=(0, 100), epsilon=1.0, **NOISE),
    ],
)
def test_where_nobody_was_counted_no_number_is_made_up(asked):
    assert "undetected" not in assumption_text(asked())
