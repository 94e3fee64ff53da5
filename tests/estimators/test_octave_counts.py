"""Counts per octave and what is read from them; scales of rounds."""

import math

import numpy as np

from estimators.made_people import people
from privmean.data.person_table import ClipInterval, Standardization
from privmean.estimators.find_region import ATOM_ONLY, BEYOND, NOTHING
from privmean.estimators.means.vector_rounds import (
    CELLS,
    ZERO,
    narrowed,
    octave_counts,
    read_octaves,
)
from privmean.mechanisms.row_sums import NoisyRows

PERSONS = 1000


def cells(values):
    column = people(values)
    (sums,) = column.interval_sums([ClipInterval(-1.0, 1.0)])
    return octave_counts(column.log_counts(0, 0.0), sums.present)


def read(values, sd=1.0):
    return read_octaves(cells(values).astype(float), sd, len(values))


def test_a_side_that_is_not_seen_is_opened_when_many_persons_are_unaccounted_for():
    counts = np.zeros(CELLS)
    counts[40:43] = 300.0  # 1 to 8
    seen_all = read_octaves(counts, 20.0, 900)
    assert seen_all.lower >= 0
    half = read_octaves(counts, 20.0, 1800)
    assert half.lower == -half.upper


def test_nothing_atoms_and_values_beyond_are_told_apart():
    assert read([0.0] * PERSONS).outcome == ATOM_ONLY
    assert read([math.nan] * PERSONS).outcome == NOTHING
    assert read([1e300] * PERSONS).outcome == BEYOND
    few = read([0.0] * 990 + [5.0] * 10, sd=4.0)
    assert few.outcome == ATOM_ONLY
    missing = read([math.nan] * 300 + [5.0] * 700, sd=1.0)
    assert (missing.missing, missing.missing_sd) == (300.0, 1.0)


def test_noise_alone_shows_nothing():
    """A false segment needs a run of cells 4 deviations above 2 each: below 1e-6 a column (a cell
    6 deviations up, 160 of them, or longer runs); 2000 columns here, with a fixed seed."""
    g = np.random.default_rng(5)
    for _ in range(2000):
        counts = g.normal(size=CELLS) * 9.0
        counts[ZERO] += PERSONS
        assert read_octaves(counts, 9.0, PERSONS).outcome == ATOM_ONLY


def test_scales_never_vanish():
    still = NoisyRows((0.0, 0.0), (0.0, 0.0), 1e-12, (1e-12,) * 2)
    unit = Standardization(0.0, 2.0, 1.0, 0.5)
    new = narrowed((unit, unit), still, 1.0, np.full(2, 10.0), np.array([0.0, 0.5]))
    assert [u.scale for u in new] == [0.5 / 16, 0.5]
    for _ in range(50):
        new = narrowed(new, still, 1.0, np.full(2, 10.0), np.zeros(2))
    assert [u.scale for u in new] == [2 * 2.0**-30] * 2
