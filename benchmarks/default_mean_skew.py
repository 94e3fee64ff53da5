"""Silent misses of the default mean: what a correction for skewness could save at most.

The columns of `default_mean_scan.py`. Every interval is made longer at the end where a skewed law
is missed, by Johnson's second-order term with the exact skewness of the very persons (no private
correction can know more). Or a release would get a status where few persons decide its variance:
their effective number, again exact, is (sum z^2)^2 / sum z^4.

    python benchmarks/default_mean_skew.py [--releases 10] [--every 2]
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np

from default_mean_laws import Law
from default_mean_scan import T, columns, releases
from report import publish, table

SHIFT = (2 * T**2 + 1) / 6  # of the mean, in standard errors a unit of skewness/sqrt(n)
FEW = (30, 100, 400, 800)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=2.0)
    a = parser.parse_args()
    chosen = dict(list(columns(1).items())[:: a.every])
    found, above = [], {}
    for name, x in chosen.items():
        law, first = Law.among(x), len(found)
        for release, drawn in releases(x, a.epsilon, a.releases):
            interval = release.interval()
            low, high = interval.lower[0], interval.upper[0]
            n, z = len(drawn), (drawn - drawn.mean()) / drawn.std(ddof=1)
            error, skew = drawn.std(ddof=1) / math.sqrt(n), float((z**3).mean())
            shift = SHIFT * abs(skew) / math.sqrt(n) * error
            wider = (low - shift, high) if skew < 0 else (low, high + shift)
            width = high - low
            found.append([
                release.status == "ok",
                not low <= law.mean <= high,
                not wider[0] <= law.mean <= wider[1],
                abs(drawn.mean() - law.mean) > T * error,
                float((z**2).sum() ** 2 / (z**4).sum()),
                shift / width if 0 < width < math.inf else math.nan,
            ])  # fmt: skip
        own = np.array(found[first:], float)
        rates = [float((own[:, 0] * own[:, k]).mean()) for k in (1, 2)] + [own[:, 3].mean()]
        if max(rates[:2]) > 0.2:
            above[name] = (*rates, float(np.median(own[:, 4])))
    ok, miss, wider, usual, effective, longer = np.array(found, float).T
    rows: list[list[object]] = [["today", f"{(ok * miss).mean():.4f}", "", ""]]
    quantiles = np.nanquantile(longer, [0.5, 0.9, 0.99])
    rows.append(["exact correction for skewness", f"{(ok * wider).mean():.4f}", "",
                 " / ".join(f"{v:.3f}" for v in quantiles)])  # fmt: skip
    for few in FEW:
        many = effective >= few
        rows.append([
            f"and a status below {few} effective persons", f"{(ok * wider * many).mean():.4f}",
            f"{(ok * ~many).mean():.3f}", "",
        ])  # fmt: skip
    rows.append(["t interval, all releases", f"{usual.mean():.4f}", "", ""])
    for row in rows:
        print(*row, sep=" | ")
    text = (
        f"epsilon {a.epsilon:g}, {len(chosen)} columns, {a.releases} releases each. Longer: what "
        "is added to the length, median / nine tenths / 99 % of releases.\n\n"
        + table(["way", "silent", "ok releases that lose it", "longer"], rows)
        + "\n\nSilent in more than a fifth: "
        + "; ".join(
            f"{name} {one:.2f}, corrected {two:.2f}, t misses {three:.2f}, {few:.0f} effective "
            "persons" for name, (one, two, three, few) in above.items()
        )
        + "."
    )  # fmt: skip
    command = f"python benchmarks/default_mean_skew.py --releases {a.releases} --every {a.every}"
    publish("default-mean-skew", "Default mean: silent misses and skewness", text, command=command)


if __name__ == "__main__":
    main()
