"""Every row of the page of papers is called on small data, or its results exist."""

from __future__ import annotations

import json
import re
from importlib import import_module

import numpy as np
import pytest

import privmean as pm
from doc_pages import DOCS
from privmean import local, published
from privmean.local.exact_coins import SimulatedEntropy
from privmean.local.vectorized import tally_many
from privmean.streams import Participation, PrefixRoot
from statistics_kit import planned

PAGE = (DOCS / "papers.md").read_text()
HEAD = "| algorithm, theorem, figure | public name | status | results | erratum |"
TERMS = "| the field says | privmean says |"
NAME = re.compile(r"`((?:pm|local|published|streams)(?:\.\w+)+)")
LARGE, USUAL = pm.Budget(epsilon=20.0, delta=1e-3), pm.Budget(epsilon=1.0, delta=1e-6)


def rows(width):
    """The cells of every row of the tables that have so many columns."""
    for line in PAGE.splitlines():
        if line.startswith("| ") and line not in (HEAD, TERMS):
            cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
            if len(cells) == width:
                yield cells


ROWS = list(rows(5))
NAMES = sorted({name for row in [*ROWS, *rows(2)] for name in NAME.findall(row[1])})


def found(name):
    """The object of a dotted name: an attribute, or else a module."""
    first, *rest = name.split(".")
    path = "privmean" if first == "pm" else f"privmean.{first}"
    made = import_module(path)
    for part in rest:
        path = f"{path}.{part}"
        made = getattr(made, part, None) or import_module(path)
    return made


def released(estimator, columns=2, people=3000, budget=LARGE):
    """A release of normal values, with simulated noise."""
    x = np.random.default_rng(1).standard_normal((people, columns))
    plan = planned(estimator, budget, persons=people, dimension=columns)
    return plan.release(table(x), pm.SimulatedNoise(1))


def table(x):
    from privmean.data.array_table import ArrayPersonTable

    return ArrayPersonTable(x, tuple(f"c{j}" for j in range(x.shape[1])))


# one call of every name of the page
MOMENT = pm.BoundedMoment(4, 2.0, range=(-10, 10))
NORMAL = pm.SubGaussian(1.0)
PANEL = {"who": np.arange(2000), "a": np.arange(2000) % 7, "y": np.arange(2000) % 5}
SHOWN = {"person": "who", "noise": pm.SimulatedNoise(1)}
ROUND = {"epsilon": 1.0, "persons": 100}
STREAM = {"epsilon": 1, "delta": 1e-6, "bounds": (0, 1), "noise": pm.SimulatedNoise(1)}
PATTERN = Participation(2, 4)
SIGNS, COINS = [1.0, -1.0] * 50, SimulatedEntropy(1)
PURE = pm.Budget(epsilon=20.0)
CALLS = {
    "local.Estimate": lambda made: isinstance(local.estimate(answers(mean_round(), SIGNS)), made),
    "local.WinsorizedRounds": lambda made: made.of(-9, 9, tau=1, **ROUND),
    "local.ball_round": lambda made: made(1.0, 3, **ROUND),
    "local.item_oracle": lambda made: made(
        answers(local.items_round(4, mechanism="sketch", **ROUND), [0, 1] * 50)
    ),
    "local.items_round": lambda made: made(4, **ROUND),
    "local.lower_bound": lambda made: made(mean_round(), [1.0] * 100),
    "local.mean_round": lambda made: made(-1.0, 1.0, **ROUND),
    "local.plan_round": lambda made: made(mean_round()),
    "local.project_to_simplex": lambda made: made(np.array([0.7, 0.6])),
    "local.slope": lambda made: made([[1, 0], [1, 1], [1, 2]], [0, 1, 2]),
    "local.tau_random_effects": lambda made: made(1.0, 2.0, 5, 100),
    "pm.AnisotropicMean": lambda made: released(made(1.0)),
    "pm.BetweenWithin": lambda made: released(pm.WinsorizedMean(made(1.0, 2.0, 5)), 1),
    "pm.BoundedMoment": lambda made: released(pm.HeavyTailedMean(made(4, 2.0)), 1),
    "pm.Table": lambda made: made(PANEL, person="who"),
    "local.estimate": lambda made: made(answers(mean_round(), SIGNS)),
    "pm.MeanStream.band": lambda made: band(),
    "streams.Participation": lambda made: made(2, 4),
    "pm.Covariance": lambda made: made([1.0, 4.0], scales="mahalanobis"),
    "pm.FixedDesign": lambda made: made((0.0, 1.0), cells=4).plan(PURE, times=[0.1, 0.6]),
    "pm.HeavyTailedMean": lambda made: released(made(MOMENT, rounds=1)),
    "pm.LogSobolev": lambda made: released(pm.WinsorizedMean(made(1.0, 5)), 1),
    "pm.MeanStream": lambda made: made(steps=8, max_participations=2, min_separation=2, **STREAM),
    "pm.RandomEffects": lambda made: made(1.0, 2.0, 5, group_sizes=[3, 3]),
    "pm.RecordWeights": lambda made: made(max_records=12),
    "pm.WinsorizedMean": lambda made: released(made(NORMAL)),
    "pm.WithholdRelease": lambda made: made(max_records=2, **STREAM),
    "pm.mean": lambda made: made(PANEL, "y", epsilon=1.0, **SHOWN),
    "pm.regress": lambda made: made(PANEL, "y ~ a", epsilon=1.0, **SHOWN),
    "pm.required_n": lambda made: made(pm.Mean(), target_error=0.3, guess_sd=1.0, epsilon=1.0),
    "pm.variance": lambda made: made(PANEL, "y", epsilon=8.0, **SHOWN),
    "published.AnisotropicAsPublished": lambda made: released(made(), 3),
    "published.BandedInverse": lambda made: made(PrefixRoot(), 2).sensitivity(PATTERN, 8),
    "published.Decaying": lambda made: made(0.1).sensitivity(PATTERN, 8),
    "published.PriestleyChao": lambda made: released(made(0.5, 1.0, 1.0, 1.0), 1),
    "published.PureCover": lambda made: released(made(MOMENT, work=1e6), 1, 300, PURE),
    "published.ThreadedMean": lambda made: released(made(MOMENT)),
    "published.VarianceAsPublished": lambda made: released(made(0.1, 10.0, 0.0), 1, budget=USUAL),
    "published.WinsorizedAsPublished": lambda made: released(made(NORMAL), 1),
    "published.ball_mean": lambda made: made([[1.0, 0.0]] * 9, 1, 2, epsilon=1, entropy=COINS),
    "published.continual.best_decaying": lambda made: made(PATTERN, 8),
    "published.continual.best_toeplitz": lambda made: made(PATTERN, 8),
    "published.continual.table_2_strategies": lambda made: made(Participation(2, 16), 32),
    "published.item_shares": lambda made: made([0, 1] * 9, 4, epsilon=1, entropy=COINS),
    "published.laplace_mean": lambda made: made(SIGNS, -1, 1, epsilon=1, entropy=COINS),
    "published.randomized_response_mean": lambda made: made(
        SIGNS, -1, 1, epsilon=1, entropy=COINS
    ),
    "published.running_means": lambda made: made(
        [0, 1, 2, 3] * 2, [0.5] * 8, participation=PATTERN, epsilon=1.0, delta=1e-6,
        bounds=(0.0, 1.0), noise=pm.SimulatedNoise(1),
    ),
    "published.split_clients_as_printed": lambda made: made(
        SIGNS, 50, tau=3.0, epsilon=1, entropy=COINS
    ),
    "published.vote_radius_dependent": lambda made: made(
        local.vote_round(-1, 1, 4, **ROUND), 100, rho=1.0, density=0.4
    ),
    "streams.Banded": lambda made: made(PrefixRoot(), 2).sensitivity(PATTERN, 8),
    "streams.Identity": lambda made: made().sensitivity(PATTERN, 8),
    "streams.MeanToeplitz": lambda made: made().sensitivity(PATTERN, 8),
    "streams.PrefixRoot": lambda made: made().sensitivity(PATTERN, 8),
}  # fmt: skip


def band():
    stream = pm.MeanStream(steps=8, max_participations=2, min_separation=2, **STREAM)
    return stream.band(stream.extend([0, 1, 2], [0.5, 0.2, 0.9])[-1], 0.95)


def mean_round():
    return local.mean_round(-1.0, 1.0, mechanism="one-bit", **ROUND)


def answers(round_, values):
    return tally_many(round_, values, epsilon=1.0, noise=pm.SimulatedNoise(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_page_is_called(name):
    assert CALLS[name](found(name)) is not None


def test_every_line_of_a_table_is_a_row():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line in (HEAD, TERMS)]
    assert len(lines) == len(ROWS) + len(list(rows(2))) + len(heads)
    assert len(heads) == 6
    assert len(ROWS) > 70


# what a row says besides its names: an option, a method, an attribute
SAID = {
    "Equation (1)": lambda: released(
        published.WinsorizedAsPublished(NORMAL, splitting=True), 2, 200_000, LARGE
    ),
    "Theorem 4.2": lambda: planned(pm.WinsorizedMean(NORMAL), LARGE, persons=3000).predict(1.0),
    "Definition 5.13": lambda: pm.regress(
        PANEL, "y ~ a", effect="per_person", working=pm.Exchangeable(0.5), epsilon=8.0, **SHOWN
    ),
    "Algorithm 10": lambda: variance("bisection"),
    "Algorithm 13": lambda: variance("coinpress"),
    "zCDP variant": lambda: released(
        pm.HeavyTailedMean(MOMENT), 1, budget=pm.Budget(rho=5.0)
    ),
    "pure DP": lambda: released(pm.HeavyTailedMean(MOMENT, law="k-norm"), 2, budget=PURE),
    "bound on the norm": lambda: released(
        pm.HeavyTailedMean(pm.BoundedMoment(4, 2.0, norm_bound=4.0, range=(-10, 10)))
    ),
    "printed weights": lambda: published.laplace_mean(
        SIGNS, -1, 1, epsilon=1, weights="minimax", entropy=COINS
    ),
    "Choice of the matrix M": lambda: pm.Covariance([1.0, 4.0], scales="same"),
    "rows of several columns": lambda: pm.MeanStream(
        dimension=2, clip_radius=1.0, steps=8, max_participations=2, min_separation=2, epsilon=1,
        delta=1e-6, noise=pm.SimulatedNoise(1),
    ),
    "Theorem on sensitivity": lambda: PrefixRoot().sensitivity(PATTERN, 8),
}  # fmt: skip


def variance(method):
    made = published.VarianceAsPublished(0.1, 10.0, 0.0, method=method)
    return released(made, 1, budget=USUAL)


@pytest.mark.slow
@pytest.mark.parametrize("start", SAID)
def test_what_a_row_says_besides_its_names_is_called(start):
    assert sum(row[0].startswith(start) for row in ROWS) == 1
    assert SAID[start]() is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_that_runs_names_what_is_called(row):
    title, names, status, results, _ = row
    assert re.fullmatch("yes|no|part: .+", status), status
    if status == "no":
        assert names == "none"
        assert results == ""
        return
    found = NAME.findall(names)
    assert found or any(title.startswith(start) for start in SAID) or status == ONLY
    if re.match("Figure|Table", title) or status == ONLY:
        assert results


ONLY = "part: results only"


def test_results_come_from_a_script_that_exists():
    linked = re.findall(r"\(appendix/([a-z0-9-]+)\.md\)", PAGE)
    assert len(set(linked)) > 25
    benchmarks = DOCS.parent / "benchmarks"
    for name in linked:
        record = json.loads((benchmarks / "results" / f"{name}.json").read_text())
        assert (DOCS.parent / re.search(r"benchmarks/\w+\.py", record["command"])[0]).exists()


def test_the_papers_are_cited():
    cited = (DOCS.parent / "CITATION.cff").read_text().split("  - type: article\n")[1:]
    heads = re.findall(r"^## .*\(([\w-]+).*(20\d\d)\)$", PAGE, re.MULTILINE)
    found = [re.search(r'year: (\d+).*?family-names: "([^"]+)"', item, re.DOTALL) for item in cited]
    assert [(item[2], item[1]) for item in found] == heads


def test_every_published_name_is_on_the_page():
    assert {f"published.{name}" for name in published.__all__} <= set(NAMES)
