"""Columns and laws that the studies of the default mean share."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
COLUMNS = {
    "insteval rating": ("insteval", "rating"),
    "flights arr_delay": ("nycflights", "arr_delay"),
    "nlswork ln_wage": ("nlswork", "ln_wage"),
    "nlswork hours": ("nlswork", "hours"),
    "retail amount": ("online_retail", "amount"),
    "spam capital average": ("spambase", "capital_run_length_average"),
    "spam capital total": ("spambase", "capital_run_length_total"),
    "spam george": ("spambase", "word_freq_george"),
    "spam you": ("spambase", "word_freq_you"),
    "spam exclamation": ("spambase", "char_freq_exclamation"),
}
OTHER_COLUMNS = {
    "nlswork tenure": ("nlswork", "tenure"),
    "nlswork age": ("nlswork", "age"),
    "nlswork grade": ("nlswork", "grade"),
    "nlswork union": ("nlswork", '"union"'),
    "nlswork wks_ue": ("nlswork", "wks_ue"),
    "flights dep_delay": ("nycflights", "dep_delay"),
    "flights distance": ("nycflights", "distance"),
    "flights air_time": ("nycflights", "air_time"),
    "retail quantity": ("online_retail", "quantity"),
    "retail unit_price": ("online_retail", "unit_price"),
    "spam capital longest": ("spambase", "capital_run_length_longest"),
    "spam hp": ("spambase", "word_freq_hp"),
    "spam dollar": ("spambase", "char_freq_dollar"),
    "insteval service": ("insteval", "service"),
}


def person_means(data: Path, wanted: dict[str, tuple[str, str]]) -> dict[str, np.ndarray]:
    """The mean of every person's records, people with a value only, in the order of their ids."""
    import duckdb

    found = {}
    for name, (table, column) in wanted.items():
        rows = duckdb.sql(
            f"select avg({column}) v from '{data / table}.parquet' where {column} is not null "
            f"and not isnan({column}) group by person_id order by person_id"
        ).fetchnumpy()
        found[name] = rows["v"].astype(float)
    return found


def synthetic(size: int, seed: int) -> dict[str, np.ndarray]:
    """Laws with known shapes, `size` draws each."""
    g = np.random.default_rng(seed)
    half = g.random(size) < 0.5
    return {
        "Gaussian(100, 1)": g.normal(100, 1, size),
        "Gaussian(0, 1)": g.normal(0, 1, size),
        "t3": g.standard_t(3, size),
        "lognormal 1": np.exp(g.normal(size=size)),
        "lognormal 1.5": np.exp(1.5 * g.normal(size=size)),
        "Pareto 2.5": (1 - g.random(size)) ** (-1 / 2.5),
        "Beta(2, 5)": g.beta(2, 5, size),
        "half zeros": np.where(half, 0.0, np.exp(g.normal(size=size))),
        "bimodal": np.where(half, -5, 5) + g.normal(size=size),
        "two points": (g.random(size) < 0.3) * 1.0,
        "rare .002 at 100": np.where(g.random(size) < 0.002, 100.0, g.normal(size=size)),
    }


def oracle(x: np.ndarray, epsilon: float) -> float:
    """Root mean square error, around the mean of x, of the best symmetric clipping radius at the
    true mean with Laplace noise at full epsilon."""
    mean, n = x.mean(), len(x)
    size = np.sort(np.abs(x - mean))
    radii = np.unique(np.concatenate([np.quantile(size, np.linspace(0.3, 1, 200)), size[-60:]]))
    best = math.inf
    for radius in radii[radii > 0]:
        bias = np.clip(x, mean - radius, mean + radius).mean() - mean
        best = min(best, bias**2 + 2 * (2 * radius / (n * epsilon)) ** 2)
    return math.sqrt(best)
