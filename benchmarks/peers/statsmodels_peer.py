"""Prints of statsmodels and marginaleffects for three questions about a table of person means."""

from __future__ import annotations

import sys

import pandas as pd
import statsmodels.formula.api as smf
from marginaleffects import avg_comparisons
from statsmodels.stats.weightstats import DescrStatsW


def main() -> None:
    people = pd.read_csv(sys.argv[1])
    mean = smf.ols("ln_wage ~ 1", people).fit()
    print(mean.summary(slim=True))
    low, high = DescrStatsW(people.ln_wage).tconfint_mean()
    print(f"mean {people.ln_wage.mean():.4f} ({low:.4f} to {high:.4f})")
    print("=== next")
    print(smf.ols("ln_wage ~ collgrad + ttl_exp + tenure", people).fit().summary(slim=True))
    print("=== next")
    fit = smf.ols("ln_wage ~ collgrad", people).fit()
    print(avg_comparisons(fit, variables="collgrad"))


if __name__ == "__main__":
    main()
