"""Counts per octave and what is read from them."""

import math

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval
from privmean.estimators.find_region import ATOM_ONLY, BEYOND, FOUND, NOTHING
from privmean.estimators.means.vector_rounds import (
    CELLS,
    NULL,
    ZERO,
    look_counts,
    octave_counts,
    read_octaves,
)
from privmean.mechanisms.noisy_counts import COUNT_LATTICE

PERSONS = 1000


def cells(values):
    people = ArrayPersonTable(np.asarray(values, dtype=float)[:, None], ("a",))
    (sums,) = people.interval_sums([ClipInterval(-1.0, 1.0)])
    return octave_counts(people.log_counts(0, 0.0), sums.present)


def read(values, sd=1.0):
    return read_octaves(cells(values).astype(float), sd, len(values))


def test_every_person_is_in_one_cell_and_a_replaced_one_changes_two_by_one():
    special = [math.nan, 0.0, 2.0**-41, 1.0, math.nextafter(2, 0), 2.0, -3.0, 1e300, -math.inf]
    one = np.array([cells([v]) for v in special])
    assert one.shape == (len(special), CELLS)
    assert (one.sum(axis=1) == 1).all()
    assert (one.min(axis=1) == 0).all()
    assert one[0, NULL] == one[1, ZERO] == one[2, ZERO] == 1
    assert (one[3] == one[4]).all()
    assert one[4].argmax() + 1 == one[5].argmax()
    gap = np.abs(one[:, None] - one[None]).sum(axis=2)
    assert gap.max() == 2
    # the billed sensitivity of k columns: the root of 2k, on the lattice of the counts
    loss = look_counts(7, 0.3).loss
    assert float(loss.sensitivity) >= math.sqrt(14) * COUNT_LATTICE
    assert math.isclose(float(loss.scale), math.sqrt(14) / 0.3 * COUNT_LATTICE, rel_tol=1e-9)
    assert math.isclose(float(loss.sensitivity / loss.scale), 0.3, rel_tol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limits_hold_the_values_and_the_centre_is_among_them(sign):
    g = np.random.default_rng(1)
    for values in (5 + g.normal(size=PERSONS), g.exponential(size=PERSONS),
                   1e6 + g.normal(size=PERSONS)):  # fmt: skip
        found = read(sign * values, sd=4.0)
        assert found.outcome == FOUND
        held = np.mean((sign * values >= found.lower) & (sign * values <= found.upper))
        assert held > 0.99
        assert found.lower <= found.center <= found.upper
        assert 0 < found.scale <= (found.upper - found.lower) / 2
    both = read(g.normal(size=PERSONS), sd=4.0)
    assert both.lower < -2
    assert both.upper > 2
    assert abs(both.center) < 0.3
    assert 0.5 < both.scale < 2


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
