"""Friendship is a function of two rows, exactly; clipped rows keep their norm, exactly."""

import numpy as np
import pytest

from privmean.estimators.anisotropic.calibrate_filter import STEPS, clip_to_ball, clipped_sums
from privmean.mechanisms.filtered_mean import (
    RADIUS,
    Metric,
    degrees,
    keep_odds,
    pairs_close,
    rotate,
    to_lattice,
    usable_rows,
)
from privmean.privacy.budget import ADD_REMOVE


def exact_degrees(points, usable, radius=RADIUS):
    n = len(points)
    rows = [[int(a) for a in row] for row in points]
    result = np.ones(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            gap = sum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True))
            if usable[i] and usable[j] and gap <= radius**2:
                result[i] += 1
                result[j] += 1
    return result


@pytest.mark.parametrize("spread", [2**20, 2**24, 2**30, 2**45, 2**58])
@pytest.mark.parametrize("block", [16, 200])
def test_degrees_are_exact_at_any_distance(spread, block):
    rng = np.random.default_rng(spread)
    z = np.rint(rng.normal(size=(90, 4)) * spread).astype(np.int64)
    z[::3] = z[0] + rng.integers(-(2**20), 2**20, size=z[::3].shape)
    z[6] = z[5]
    z[6, 0] += RADIUS  # exactly at the radius: friends
    z[7] = z[5]
    z[7, 1] += RADIUS + 1  # one step beyond: not
    usable = rng.random(90) > 0.1
    usable[5:8] = True
    found = degrees([Metric(z)], usable, block=block)
    assert (found == exact_degrees(z, usable)).all()


def test_close_in_every_metric():
    rng = np.random.default_rng(0)
    a = rng.integers(-(2**22), 2**22, size=(60, 3))
    b = rng.integers(-(2**22), 2**22, size=(60, 2))
    found = degrees([Metric(a), Metric(b)], np.ones(60, dtype=bool), block=25)
    i, j = np.meshgrid(np.arange(60), np.arange(60))
    both = pairs_close(Metric(a), i.ravel(), j.ravel()) & pairs_close(
        Metric(b), i.ravel(), j.ravel()
    )
    assert (found == both.reshape(60, 60).sum(axis=0)).all()


def tied_rows(n=400):
    """Rows of a coarse grid, many pairs of which lie at the radius exactly."""
    rng = np.random.default_rng(4)
    return rng.integers(0, 4, size=(n, 6)).astype(float) / 3


def float_degrees(x, radius, centre):
    """The broken twin: a floating-point Gram matrix around a centre read from the data."""
    y = x - centre
    square = (y * y).sum(axis=1)
    gram = square[:, None] + square[None, :] - 2 * y @ y.T
    return (gram <= radius**2).sum(axis=1)


def total_change(before, after):
    """Sum of the moves of keeping probabilities when the degrees move."""
    a, d = keep_odds(before, ADD_REMOVE)
    b, _ = keep_odds(after, ADD_REMOVE)
    return np.abs(a - b).sum() / d


def test_one_person_cannot_flip_the_friendships_of_others():
    """A translation, such as another person's outlier causes in a centre, must change nothing."""
    x = tied_rows()
    radius = 1 + 1 / 3  # many squared distances are 16/9 in exact numbers
    factor = np.full(6, RADIUS / radius)
    z = to_lattice(x, factor)
    everyone = np.ones(len(x), dtype=bool)
    here = degrees([Metric(z)], everyone, block=150)
    outlier = np.vstack([z, np.full((1, 6), 2**40)])
    there = degrees([Metric(outlier)], np.ones(len(x) + 1, dtype=bool), block=150)
    assert (here == there[:-1]).all()
    # the twin flips more than the proof allows
    broken = total_change(float_degrees(x, radius, 0.0), float_degrees(x, radius, 1e-5))
    assert broken > 2


def test_cancellation_far_from_zero():
    """Offset 1e6 against deviations of 1e-8: every pair is close, none is lost."""
    rng = np.random.default_rng(1)
    sigma = np.r_[np.ones(5), np.full(95, 1e-8)]
    x = rng.normal(size=(600, 100)) * sigma + 1e6
    radius = 12.0
    z = to_lattice(x, RADIUS / radius * sigma**-0.5)
    assert (degrees([Metric(z)], np.ones(600, dtype=bool)) == 600).all()
    y = x * sigma**-0.5
    square = (y * y).sum(axis=1)
    naive = square[:, None] + square[None, :] - 2 * y @ y.T <= radius**2
    assert naive.mean() < 0.9


def test_nulls_and_infinite_values_have_themselves_only():
    x = np.zeros((30, 3))
    x[3, 1], x[4, 2], x[5, 0] = np.nan, np.inf, 1e308
    usable = usable_rows(x, np.full(3, 1e5))
    assert list(np.flatnonzero(~usable)) == [3, 4, 5]
    z = to_lattice(x, np.full(3, 1e5))
    assert z[5, 0] == 2**60
    found = degrees([Metric(z)], usable)
    assert found[3] == found[4] == found[5] == 1
    assert found[0] == 27


def test_no_rows_at_all():
    assert len(degrees([Metric(np.zeros((0, 2), dtype=np.int64))], np.zeros(0, dtype=bool))) == 0


def test_rotation_of_a_row_does_not_depend_on_other_rows():
    rng = np.random.default_rng(5)
    axes, _ = np.linalg.qr(rng.normal(size=(40, 40)))
    x = rng.normal(size=(60, 40)) * 100 + 1000
    whole = rotate(x, axes, 2.0**-30)
    assert np.abs(whole - x @ axes).max() < 1e-7
    assert all((rotate(x[i : i + 1], axes, 2.0**-30)[0] == whole[i]).all() for i in range(60))


def long_norm(row):
    return sum(int(a) ** 2 for a in row)


@pytest.mark.parametrize("d", [1, 2, 9, 1000])
@pytest.mark.parametrize("spread", [2**18, 2**25, 2**28, 2**40, 2**59])
def test_clipped_rows_keep_their_norm_exactly(d, spread):
    rng = np.random.default_rng(d)
    v = np.clip(np.rint(rng.normal(size=(30, d)) * spread), -(2**60), 2**60).astype(np.int64)
    z = clip_to_ball(v)
    norms = [long_norm(row) for row in z]
    assert max(norms) <= STEPS**2
    for row, out, square in zip(v, z, norms, strict=True):
        if long_norm(row) <= STEPS**2:
            assert (row == out).all()
        else:
            assert square >= (0.999 * STEPS) ** 2
            cosine = row.astype(float) @ out.astype(float)
            assert cosine > 0.999 * np.sqrt(float(long_norm(row))) * np.sqrt(float(square))


def test_the_corner_that_rounding_to_nearest_would_break():
    """All coordinates just above half a step: rounding to nearest would double the norm."""
    d = 1024
    row = np.full((1, d), STEPS // 32 + 1, dtype=np.int64)  # norm just above STEPS
    z = clip_to_ball(row)
    assert long_norm(z[0]) <= STEPS**2
    nearest = np.rint(row * (STEPS / np.sqrt(float(long_norm(row[0]))))).astype(np.int64)
    assert long_norm(nearest[0]) >= long_norm(z[0])


@pytest.mark.parametrize("other", [np.nan, np.inf, -1e308, 1e6, 0.0])
def test_one_person_moves_the_clipped_sum_by_at_most_the_radius(other):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 5))
    centre, factor = np.zeros(5), np.full(5, STEPS / 2.0)
    before = clipped_sums(x, centre, factor)
    y = x.copy()
    y[7] = other
    moved = clipped_sums(y, centre, factor) - before
    assert long_norm(moved) <= (2 * STEPS) ** 2
    gone = clipped_sums(np.delete(x, 7, axis=0), centre, factor) - before
    assert long_norm(gone) <= STEPS**2
    worst = np.zeros((1, 5))
    worst[0, 0] = 1e9
    ends = clipped_sums(worst, centre, factor) - clipped_sums(-worst, centre, factor)
    assert long_norm(ends) > (1.999 * STEPS) ** 2  # the bound is attained
