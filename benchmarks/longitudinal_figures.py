"""Figures of statsmodels for log wages, kept in benchmarks/longitudinal_figures.json.

    python benchmarks/longitudinal_figures.py [nlswork.parquet]

Run where statsmodels and pandas are installed (privmean[benchmarks]); longitudinal.py reads what is
kept. Coefficient and standard error a term: pooled OLS clustered by person, and the average of
every person's own OLS over the persons that `regress` fits, by own lines and within.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels
import statsmodels.formula.api as smf
from statsmodels.regression.linear_model import OLS

from panels import PANEL, wage_records

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "longitudinal_figures.json"
NAMES = ["who", "ln_wage", "ttl_exp", "tenure", "union_"]
TERMS = ["Intercept", "ttl_exp", "tenure", "union"]


def pooled(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    made = smf.ols("ln_wage ~ ttl_exp + tenure + union_", frame).fit(
        cov_type="cluster", cov_kwds={"groups": frame["who"].astype(int)}
    )
    return dict(zip(TERMS, zip(made.params, made.bse, strict=True), strict=True))


def average(frame: pd.DataFrame, within: bool) -> dict[str, tuple[float, float]]:
    rows = []
    for _, own in frame.groupby("who"):
        x = own[NAMES[2:]].to_numpy()
        x = x - x.mean(axis=0) if within else np.column_stack([np.ones(len(x)), x])
        if len(x) < x.shape[1] + 1 + within:
            continue
        if np.linalg.eigvalsh(x.T @ x / len(x))[0] <= 0.01:
            continue
        y = own["ln_wage"] - (own["ln_wage"].mean() if within else 0.0)
        rows.append(OLS(y.to_numpy(), x).fit().params)
    fits = np.array(rows)
    errors = fits.std(axis=0, ddof=1) / math.sqrt(len(fits))
    terms = TERMS[1:] if within else TERMS
    return dict(zip(terms, zip(fits.mean(axis=0), errors, strict=True), strict=True))


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PANEL
    frame = pd.DataFrame(wage_records(path), columns=NAMES)
    made = {
        "statsmodels": statsmodels.__version__,
        "pooled": pooled(frame),
        "own lines": average(frame, False),
        "within": average(frame, True),
    }
    FIGURES.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
