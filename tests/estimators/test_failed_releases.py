"""What failed shows no number: every estimator, with columns that hold nothing or nonsense.

One column is hostile, the others are usual: a column that failed is NaN with the status said, an
interval that says nothing, and the others stand. A table of nobody gives no number at all.
"""

import json
import math

import numpy as np
import pytest

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.moment_variance import MomentVariance
from privmean.inference.status import FAILED
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import planned
from test_registry import CASES, PERSONS, named, plan_of, rows

PLACES = np.arange(PERSONS)
WIDE = np.random.default_rng(7)
HOSTILE = {
    "nobody": np.full(PERSONS, np.nan),
    "ten persons": np.where(PLACES < 10, 3.0, np.nan),
    "infinite": np.full(PERSONS, np.inf),
    "huge": np.where(PLACES % 2 == 0, 1e300, -1e300),
    "all sizes": 10.0 ** WIDE.uniform(-30, 30, PERSONS) * WIDE.choice([-1, 1], PERSONS),
    "Cauchy": 1e6 * WIDE.standard_cauchy(PERSONS),
    "wide": WIDE.uniform(-1e9, 1e9, PERSONS),
}
# regressions say by term why there is no number: tests/models
OWN_COLUMNS = [case for case in CASES if case[0].people is None]
every_case = pytest.mark.parametrize("case", OWN_COLUMNS, ids=map(named, OWN_COLUMNS))


def hostile(case, kind, seed=1):
    values = rows(case[3])
    values[:, 0] = HOSTILE[kind]
    return plan_of(case).release(case[0].table(values), SimulatedNoise(seed))


def assert_nothing_shown(release):
    """Columns that failed have no number anywhere; the status of the release follows theirs."""
    statuses = release.statuses or (release.status,) * len(release.columns)
    assert len(statuses) == len(release.columns)
    assert (release.status == FAILED) == all(item == FAILED for item in statuses)
    stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    assert stored["statuses"] == list(statuses)
    noise = release.noise_interval()
    for j, row in enumerate(release.rows()):
        failed = statuses[j] == FAILED
        assert row.status == statuses[j]
        assert math.isnan(release.estimate[j]) == failed
        assert (stored["estimate"][j] is None) == failed
        if failed:
            public = release.plan.describe().get("bounds")
            assert math.isinf(noise.upper[j] - noise.lower[j]) or public or _ranges(release)
        else:
            assert math.isfinite(row.estimate)
    if FAILED in statuses:
        assert release.advice
        text = str(release)
        assert "nan" not in text


def _ranges(release):
    """Whether a public range is known, which is then the interval of a failed release."""
    moment = getattr(getattr(release.plan, "common", None), "moment", None)
    limits = getattr(release.plan, "limits", None)
    return limits is not None or (moment is not None and moment.range is not None)


@pytest.mark.slow
@every_case
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_failed_column_shows_no_number(case, kind):
    assert_nothing_shown(hostile(case, kind))


@pytest.mark.slow
@every_case
def test_nobody_has_no_mean(case):
    """Noise over noise is no estimate: with nobody in any column no number is shown."""
    values = np.full((PERSONS, case[3]), np.nan)
    release = plan_of(case).release(case[0].table(values), SimulatedNoise(3))
    assert_nothing_shown(release)
    statuses = release.statuses or (release.status,) * len(release.columns)
    assert all(item in (FAILED, "point_mass") for item in statuses)


COLUMNWISE = ("bounded", "limits", "in a range", "sub-Gaussian", "magnitudes")


@pytest.mark.parametrize(
    "case", [c for c in CASES if c[0].name in COLUMNWISE and c[3] > 1], ids=named
)
def test_columns_that_stand_stay(case):
    usual = plan_of(case).release(case[0].table(rows(case[3])), SimulatedNoise(5))
    release = hostile(case, "nobody", seed=5)
    assert release.statuses[0] == FAILED
    assert release.statuses[1:] == ("ok",) * (case[3] - 1)
    assert release.status == "not_identified"
    ends = usual.noise_interval(1 - 1e-6)
    inside = [ends.lower[j] <= release.estimate[j] <= ends.upper[j] for j in range(1, case[3])]
    assert all(inside), "the other columns are as good as ever"
    text = str(release)
    assert "not_identified: The noise hides this quantity." in text
    (line,) = [item for item in text.splitlines() if item.split()[:1] == ["c0"]]
    assert line.split()[1] == "-", "no estimate"
    assert f"\n{line.split()[-1]}  failed: No estimate was found" in text
    if release.n is not None:
        assert release.n > PERSONS / 2, "counted in a column that stands"


# --- a variance, and what serves others ---------------------------------------------------------


def test_nobody_has_no_variance():
    plan = planned(MomentVariance(), pm.Budget(epsilon=2.0), count=PERSONS)
    people = ArrayPersonTable(np.full((PERSONS, 1), np.nan), ("c0",))
    for seed in range(5):
        release = plan.release(people, SimulatedNoise(seed))
        assert release.failed
        assert math.isnan(release.estimate[0])
        assert "sd" not in release.diagnostics or math.isnan(release.diagnostics["sd"])
        assert release.interval().lower == (0.0,)
        assert math.isinf(release.interval().upper[0])
        json.dumps(release.to_dict(), allow_nan=False)


def test_an_estimate_of_a_failed_column_is_masked_whatever_an_estimator_says():
    """The last wall: what an outcome shows is NaN where its status is a failure."""
    from privmean.release.result_numbers import Outcome

    outcome = Outcome(
        np.array([1.0, 2.0]), None, follows_from_answers=True, statuses=("ok", FAILED)
    )
    assert outcome.shown[0] == 1.0
    assert math.isnan(outcome.shown[1])
    assert np.isnan(
        Outcome(np.array([1.0]), None, follows_from_answers=True, status=FAILED).shown
    ).all()
