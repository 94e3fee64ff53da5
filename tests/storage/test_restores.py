"""An ordinary restore of a folder: no store draws, spends or forgets a second time in silence."""

from __future__ import annotations

import subprocess

import pytest

from privmean.errors import ArgumentError
from privmean.noise.noise_source import SimulatedNoise
from privmean.streams import GroupMeanStream, MeanStream, WithholdRelease

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 5.0)}


def mean_stream(state, people):
    with MeanStream(
        state=state, noise=SimulatedNoise(1), max_participations=5, min_separation=2, **BUDGET
    ) as stream:
        return [float(item) for k in people for item in stream.update(f"u{k}", 2.0)]


def group_stream(state, people):
    with GroupMeanStream(
        groups=2, state=state, noise=SimulatedNoise(1), max_participations=5, min_separation=2,
        **BUDGET,
    ) as stream:  # fmt: skip
        return [float(item) for k in people for item in stream.update(f"u{k}", "g", 2.0)]


def withheld(state, people):
    with WithholdRelease(state=state, noise=SimulatedNoise(1), max_records=4, **BUDGET) as stream:
        return [float(item) for k in people for item in stream.update(f"u{k}", 2.0)]


@pytest.mark.parametrize("work", [mean_stream, group_stream, withheld])
def test_a_restored_stream_draws_nothing_a_second_time(tmp_path, work):
    folder, backup = tmp_path / "run", tmp_path / "backup"
    folder.mkdir()
    assert work(folder / "state", range(9))
    subprocess.run(["cp", "-a", str(folder), str(backup)], check=True)
    assert work(folder / "state", range(9, 20))
    subprocess.run(["cp", "-a", f"{backup}/.", str(folder)], check=True)
    with pytest.raises(ArgumentError, match="is an old copy"):
        work(folder / "state", range(9, 20))


def test_a_stopped_stream_by_group_keeps_its_plan(tmp_path, monkeypatch):
    group_stream(tmp_path / "state", range(3))
    monkeypatch.setattr("privmean.streams.mean_stream.make_plan", None)
    group_stream(tmp_path / "state", range(3))
