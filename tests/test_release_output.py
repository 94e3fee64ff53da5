"""What a release looks like: text, rows, frames, pictures, and what is read back from a file."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from json_schema import problems
from privmean.errors import ArgumentError
from privmean.estimators.heavy_tailed.moment_intervals import Coordinates, noise_quantile
from privmean.estimators.means.bounded import BoundedMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.privacy.guarantee import guess_bound, percent
from privmean.published import WinsorizedAsPublished
from privmean.release.stored_release import ROW_FIELDS
from statistics_kit import assert_rate_at_least, planned

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "docs" / "schemas" / "release.schema.json").read_text()
)
RNG = np.random.default_rng(5)
VALUES = RNG.normal([3.0, 5.0, 0.0], [1.0, 2.0, 0.5], (3000, 3))


def released(values=VALUES[:, 0], **terms):
    return pm.mean(values, **({"epsilon": 1.0, "noise": SimulatedNoise(3)} | terms))


def failing(**terms):
    """No two values share a bin: none is found."""
    return pm.mean(VALUES[:, 0], assume=pm.SubGaussian(sd=1e-7), epsilon=1.0, delta=1e-12, **terms)


def real(**terms):
    return pm.mean(VALUES[:, 0], **({"epsilon": 1.0} | terms))


def test_a_simulation_says_so_everywhere():
    release = released()
    for text in (str(release), release.details(), repr(release), release._repr_html_()):
        assert "SIMULATED" in text
    assert "warning" in release.to_dict()
    assert (release.secure, real().secure) == (False, True)


def test_repr_is_one_short_line():
    for release in (released(), released(VALUES, delta=1e-6)):
        assert "\n" not in repr(release)
        assert len(repr(release)) < 250
        assert "Fraction" not in repr(release)


def test_a_failed_release_shows_no_number():
    few = failing(noise=SimulatedNoise(1))
    assert few.failed
    assert "\nfailed: No estimate was found; the budget was charged." in str(few)
    assert math.isnan(few.rows()[0].estimate)
    assert math.isnan(few.std_error[0])
    assert "<svg" not in few._repr_html_()
    assert few.rows()[0].status == "failed"


def test_per_cent_keep_their_distance_from_both_ends():
    assert percent(math.e / (1 + math.e)) == "74%"
    assert percent(0.5025) == "50.3%"
    assert percent(0.55) == "55%"
    assert percent(0.99995) == "99.995%"
    assert percent(1.0) == "100%"


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 6.0])
def test_a_bound_is_rounded_up(epsilon):
    share = guess_bound(epsilon)
    assert float(percent(share).rstrip("%")) >= 100 * share


def test_rows_stand_alone_and_the_joint_interval_is_longer():
    release = released(VALUES, delta=1e-6)
    alone, together = release.conf_int(), release.conf_int(simultaneous=True)
    assert np.all(alone[:, 0] > together[:, 0])
    assert np.all(alone[:, 1] < together[:, 1])
    assert "Simultaneous 95% intervals" in release.details()
    rows = release.rows()
    assert [row.term for row in rows] == list(release.columns)
    assert [row.estimate for row in rows] == release.estimate.tolist()


def test_standard_errors_are_the_deviations_of_the_estimates():
    """Bounded means of fresh samples: their spread is what each says of itself."""
    plan = planned(BoundedMean((0.0, 10.0)), Budget(epsilon=0.2), persons=400)
    rng, found, stated, noise = np.random.default_rng(8), [], [], []
    for seed in range(400):
        from privmean.data.array_table import ArrayPersonTable

        people = ArrayPersonTable(np.clip(rng.normal(4, 1, (400, 1)), 0, 10), ("x",))
        release = plan.release(people, SimulatedNoise(seed))
        found.append(release.estimate[0])
        stated.append(release.std_error[0])
        noise.append(release.noise_sd[0])
    assert np.nanmedian(stated) == pytest.approx(np.std(found), rel=0.15)
    assert np.all(np.array(noise) <= np.nan_to_num(stated, nan=np.inf))
    assert noise[0] == pytest.approx(math.sqrt(2) * 10 / (400 * 0.2), rel=0.3)


def test_one_coordinate_of_k_norm_noise_is_covered_alone():
    d, scale = 5, 0.3
    made = Coordinates((0.0,) * d, "k-norm", scale, 0.0, 0.0, 1.0, (0.0,) * d, "none")
    one = made.column(2).interval(0.9, None)
    half = one.upper[0]
    assert half < made.interval(0.9, None).upper[0]
    rng = np.random.default_rng(2)
    draws = scale * np.sqrt(rng.chisquare(d + 1, 20_000)) * rng.normal(size=20_000)
    assert_rate_at_least(int((np.abs(draws) <= half).sum()), 20_000, 0.895)
    assert made.column(2).errors()[0] == pytest.approx(draws.std(), rel=0.03)
    assert noise_quantile("gaussian", 0.95, 9, 1.0, 0.0, 1) == pytest.approx(1.959964, rel=1e-6)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", None])
def test_frames_are_tidy_in_every_library(backend):
    frame = released(VALUES, delta=1e-6).to_frame(backend)
    import narwhals as nw

    wrapped = nw.from_native(frame, eager_only=True)
    assert tuple(wrapped.columns) == ROW_FIELDS
    assert wrapped["estimate"].to_list() == released(VALUES, delta=1e-6).estimate.tolist()


def test_frames_are_refused_in_words():
    with pytest.raises(ArgumentError, match="cannot make frames"):
        released().to_frame("excel")


def test_without_pandas_and_polars_a_release_still_prints():
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow', 'matplotlib'): sys.modules[name] = None\n"
        "import numpy as np, privmean as pm\n"
        "r = pm.mean(np.arange(500.0), assume=(0, 500), epsilon=1.0)\n"
        "str(r), repr(r), r.details(), r._repr_html_(), r.rows(), r.std_error, r.to_dict()\n"
        "try: r.plot()\n"
        "except pm.ArgumentError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "privmean[plot]" in done.stdout


def test_html_is_one_table_and_one_picture_without_a_script():
    page = released(VALUES, delta=1e-6)._repr_html_()
    assert page.count("<table") == page.count("<svg") == 1
    assert "<script" not in page.lower()


def test_the_plot_has_both_intervals():
    axes = released(VALUES, delta=1e-6).plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "value_0", "value_1", "value_2"
    ]  # fmt: skip
    assert len(axes.get_legend_handles_labels()[1]) == 2


@pytest.mark.parametrize("values", [VALUES[:, 0], VALUES], ids=["one", "three"])
def test_a_stored_release_is_read_back_as_it_was(values):
    release = pm.mean(values, epsilon=1.0, delta=1e-6)
    stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    again = pm.Release.from_dict(stored)
    assert again.to_dict() == stored
    assert pm.verify(again)
    assert str(again) == str(release)
    assert repr(again.rows()) == repr(release.rows())  # NaN is not equal to itself
    assert np.array_equal(again.conf_int(), release.conf_int())
    with pytest.raises(ArgumentError, match="must be the stored level"):
        again.interval(0.5)


def test_what_is_no_release_is_refused():
    for wrong in ({}, {"estimate": []}, {"estimate": [], "rows": []}, 3):
        with pytest.raises(ArgumentError):
            pm.Release.from_dict(wrong)


def test_infinite_ends_survive_the_file():
    release = failing()
    again = pm.Release.from_dict(json.loads(json.dumps(release.to_dict())))
    assert again.failed
    assert again.rows()[0].status == "failed"
    assert again.interval().lower == release.interval().lower


@pytest.mark.parametrize("values", [VALUES[:, 0], VALUES], ids=["one", "three"])
def test_releases_keep_the_published_schema(values):
    stored = json.loads(json.dumps(pm.mean(values, epsilon=1.0, delta=1e-6).to_dict()))
    assert problems(stored, SCHEMA) == []
    del stored["rows"][0]["lower"]
    stored["schema"] = 2
    assert len(problems(stored, SCHEMA)) == 2


def test_a_release_without_intervals_says_that_there_are_none():
    """The algorithms as published give no interval for the mean."""
    data = np.random.default_rng(0).normal(3.0, 1.0, 4000)
    method = WinsorizedAsPublished(pm.SubGaussian(sd=1.0))
    release = pm.mean(data, epsilon=4.0, delta=1e-6, method=method, noise=SimulatedNoise(1))
    assert not np.isfinite(release.conf_int()).any()
    assert "\nIntervals: none. The estimate assumes" in str(release)
    assert "include sampling error" not in str(release)
