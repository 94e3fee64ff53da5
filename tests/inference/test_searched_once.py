"""Ends of all rows of a release are searched at once, and once whatever shows it."""

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.inference import group_table


def release(groups, **more):
    rng = np.random.default_rng(1)
    who = np.arange(4000)
    frame = pl.DataFrame(
        {"who": who, "key": [f"g{g}" for g in who % groups], "x": rng.normal(5, 1, len(who))}
    )
    return pm.mean(
        frame, "x", person="who", by="key", keys=[f"g{g}" for g in range(groups)], epsilon=4.0,
        noise=pm.SimulatedNoise(1), **more,
    )  # fmt: skip


def watched(monkeypatch, module, name, place):
    """How many rows every search is for, by the argument at this place."""
    searched, search = [], getattr(module, name)
    monkeypatch.setattr(
        module, name, lambda *given: searched.append(len(given[place])) or search(*given)
    )
    return searched


def test_ends_of_a_release_are_searched_once_whatever_shows_it(monkeypatch):
    """A text, rows, a frame, a record and intervals ask for the same rows: however many groups
    there are, the ends of each are searched once per level and target."""
    searched = watched(monkeypatch, group_table, "bounded_quantiles", place=1)
    for groups in (4, 400):
        made = release(groups)
        shown = int(np.isfinite(made.estimate).sum())
        searched.clear()
        for _ in range(2):
            made.summary(), made.details(), made.to_frame("polars"), made.to_dict()
            repr(made), made.rows(), made.interval(), made.noise_interval()
        assert searched.count(shown) == len(searched) <= 3  # mean, clipped mean, jointly
        made.rows(0.8)
        assert len(searched) <= 4


@pytest.mark.slow
def test_what_a_release_keeps_is_bounded():
    made = release(4)
    for level in np.linspace(0.5, 0.99, 200):
        made.rows(float(level)), made.interval(float(level))
    assert len(made._kept) <= 16
    assert len(made.groups._kept) <= 8
    assert made.rows(0.9) == release(4).rows(0.9)


def test_ends_of_comparisons_are_searched_together(monkeypatch):
    """Those of as many groups each, and they are those of each comparison by itself."""
    searched = watched(monkeypatch, group_table, "bounded_quantiles", place=1)
    made = release(12, contrasts=["all pairs", "each - rest", "g0 / g1"])
    rows = made.rows()
    assert sorted(searched)[-3:] == [12, 66, 360]  # rows and rest, pairs, directions of the ratio
    for row in (*rows[12:80:5], *rows[-13:-1]):
        alone = made.contrast(row.group)
        kept = "estimate", "std_error", "lower", "upper", "noise_lower", "noise_upper"
        one, two = ([getattr(item, name) for name in kept] for item in (row, alone))
        assert one == pytest.approx(two, rel=1e-9)
        assert row.status == alone.status
    ratio, last = made.ratio("g0 / g1"), rows[-1]
    assert (last.lower, last.upper, last.status) == (ratio.lower, ratio.upper, ratio.status)
