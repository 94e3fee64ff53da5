"""Figures of statsmodels for a made panel and nlswork, kept in tests/estimators/gee_figures.json.

    python benchmarks/gee_figures.py [nlswork.parquet]

Run where statsmodels, pandas and pyarrow are installed (privmean need not be). Generalised
estimating equations with cluster-robust covariance (no small-sample factor); "each person one vote"
weighs a record by one over its person's number of records; within: own means taken off first;
exchangeable: correlation 0.4, fixed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import statsmodels
import statsmodels.api as sm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "estimators"))
from gee_cases import CASES, FIGURES, made_panel  # noqa: E402

PANEL = HERE.parents[1] / "shared" / "data" / "nlswork.parquet"


def fitted(frame: pd.DataFrame, response: str, terms: list[str], name: str) -> dict[str, list]:
    within = name.startswith("within")
    who = frame["who"]
    y, x = frame[response], frame[terms]
    if within:
        y, x = y - y.groupby(who).transform("mean"), x - x.groupby(who).transform("mean")
    else:
        x = sm.add_constant(x)
    votes = 1 / who.groupby(who).transform("size")
    weights = votes if name.endswith("one vote") else None
    structure = sm.cov_struct.Independence()
    settings = {}
    if name.startswith("exchangeable"):
        structure = sm.cov_struct.Exchangeable()
        structure.dep_params = 0.4
        settings = {"first_dep_update": 10**6, "params_niter": 1}
    made = sm.GEE(y, x, groups=who, cov_struct=structure, weights=weights).fit(**settings)
    if name.startswith("exchangeable"):
        assert made.cov_struct.dep_params == 0.4
    return {"estimate": made.params.tolist(), "std_error": made.bse.tolist()}


def main() -> None:
    frame = pd.DataFrame(made_panel())
    found = {name: fitted(frame, "y", ["x"] if name.startswith("within") else ["arm", "x"], name)
             for name in CASES}  # fmt: skip
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PANEL
    wages = {}
    if path.exists():
        names = ["person_id", "ln_wage", "union", "tenure"]
        data = pd.read_parquet(path)[names].astype(float).dropna().sort_values("person_id")
        data = data.rename(columns={"person_id": "who"}).reset_index(drop=True)
        assert data.groupby("who").size().max() <= 12  # what "records" counts
        for name in CASES:
            wages[name] = fitted(data, "ln_wage", ["union", "tenure"], name)
        wages["persons"] = int(data["who"].nunique())
    out = {"statsmodels": statsmodels.__version__, "made": found, "nlswork": wages}
    FIGURES.write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
