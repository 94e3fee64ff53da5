"""Figure 4 on real events: the running mean of a real stream, its noise and its other errors.

nycflights: arrival delays of 2013, person = aircraft, in order of departure. online_retail: totals
of invoices, person = customer. Give the folder with the two Parquet files.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from privmean.published.continual import BandedInverse
from privmean.streams import MeanStream, plan
from privmean.streams.fit_strategies import fit, fit_loaded
from privmean.streams.strategies import Banded, MeanToeplitz, PrefixRoot
from privmean.streams.strategy_error import ErrorGoal
from privmean.streams.toeplitz_matrices import Participation
from report import publish, table

SETTINGS = {
    "nycflights": {
        "query": "select person_id, arr_delay from '{}' order by time, person_id",
        "regions": (60.0, 120.0),
        "separations": (250, 500),
    },
    "online_retail": {
        "query": "select person_id, sum(amount) from '{}' where person_id is not null "
        "group by person_id, invoice order by min(time), person_id",
        "regions": (500.0, 2000.0),
        "separations": (100, 250),
    },
}


def read(folder: Path, name: str) -> tuple[list[str], np.ndarray]:
    """(persons, values) in the order of time."""
    import duckdb

    query = str(SETTINGS[name]["query"]).format(folder / f"{name}.parquet")
    persons, values = duckdb.sql(query).fetchnumpy().values()
    return [str(item) for item in persons], np.ma.filled(values.astype(float), np.nan)


def study(name: str, persons: list[str], values: np.ndarray, quick: bool) -> list[list[object]]:
    rows: list[list[object]] = []
    truth = np.nancumsum(values) / np.maximum(np.cumsum(~np.isnan(values)), 1)
    settings = SETTINGS[name]
    for b in settings["separations"][: 1 if quick else 2]:
        counts = np.unique(persons, return_counts=True)[1]
        # a public cap that most persons do not reach
        most = int(min(np.quantile(counts, 0.95), math.ceil(len(persons) / b)))
        p = Participation(most, b)
        steps = len(persons)
        for radius in settings["regions"][: 1 if quick else 2]:
            strategies = {
                "mean Toeplitz inverse p=b": BandedInverse(MeanToeplitz(), b),
                "prefix root inverse p=⌊ln b⌋": BandedInverse(PrefixRoot(), int(math.log(b))),
                "prefix root banded p=b": Banded(PrefixRoot(), b),
                "ours: front-loaded": fit_loaded(p, steps),
                "ours: front-loaded, t≥1000": fit_loaded(p, steps, ErrorGoal(1000)),
                "ours: 3 buffers, t≥1000": fit(p, steps, ErrorGoal(1000), buffers=3),
            }
            for label, strategy in strategies.items():
                chosen = plan(
                    epsilon=1.0,
                    delta=1e-6,
                    max_participations=most,
                    min_separation=b,
                    steps=steps,
                    clip_radius=radius,
                    strategy=strategy,
                    neighbors="replace-one",
                )
                with MeanStream.from_plan(chosen) as running:
                    released = running.extend(persons, values)
                at = [t for t in (1000, 10_000, len(released)) if t <= len(released)]
                last = released[-1]
                late = np.array([item.noise_sd for item in released[999:]])
                errors = np.array(
                    [float(item) - truth[item.arrivals - 1] for item in released[999:]]
                )
                rows.append(
                    [
                        f"K={most}, b={b}, ζ={radius:g}",
                        label,
                        " / ".join(f"{released[t - 1].noise_sd:.3g}" for t in at),
                        f"{math.sqrt(float((late**2).mean())):.3g}",
                        f"{math.sqrt(float((errors**2).mean())):.3g}",
                        f"{len(released):,} of {len(persons):,}",
                        f"{float(last):.3g} ({truth[-1]:.3g})",
                    ]
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    parts = []
    for name in SETTINGS:
        persons, values = read(arguments.data, name)
        head = [
            "pattern",
            "strategy",
            "noise sd at t=1000 / 10,000 / end",
            "noise RMSE, t≥1000",
            "error to the true running mean, t≥1000",
            "records released",
            "last release (true)",
        ]
        rows = study(name, persons, values, arguments.quick)
        parts.append(
            f"{name}: {len(persons):,} events of {len(set(persons)):,} persons, ε=1, δ=1e-6, "
            "replace-one (values of one person replaced by any others).\n\n" + table(head, rows)
        )
    publish(
        "continual-events",
        "Running means: real events",
        "\n\n".join(parts),
        command="python benchmarks/continual_events.py",
    )


if __name__ == "__main__":
    main()
