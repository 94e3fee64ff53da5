"""Quartiles of persons' values with nothing given, beside the exponential mechanism told the range.

    python benchmarks/quantiles.py [--runs 200] [--panel nlswork.parquet]

Error: root mean square error (towards the quantile of the law) over that of the sample quantiles
without privacy. Peer: the exponential mechanism on ranks, at a third of epsilon a quartile, told
the least and the largest value of the sample (which are private: no one can run it so). Coverage:
of 95 % intervals of a quartile alone, and of the band for the whole distribution function.
The last rows draw persons with replacement from log wages of 4711 persons.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import stats

import privmean as pm
from privmean.models.quantiles import Quantiles
from privmean.noise.simulated import SimulatedNoise
from privmean.people.matrix import MatrixPeople
from privmean.people.shape import Shape
from privmean.privacy.budget import Budget
from report import publish, table

PANEL = Path(__file__).resolve().parents[2] / "shared" / "data" / "nlswork.parquet"
QUARTILES = (0.25, 0.5, 0.75)
LAWS = {
    "normal(100, 1)": stats.norm(100, 1),
    "lognormal 1": stats.lognorm(1),
    "exponential": stats.expon(),
    "t3": stats.t(3),
    "uniform": stats.uniform(0, 1),
    "gamma 1/2": stats.gamma(0.5),
}
CELLS = ((500, 1.0), (1000, 1.0), (4700, 0.5), (4700, 1.0), (20_000, 1.0))


def exponential_mechanism(rng, values, q, epsilon, low, high) -> float:
    ends = np.concatenate([[low], np.sort(values), [high]])
    gaps = np.diff(ends)
    ranks = np.arange(len(gaps))
    score = np.log(np.maximum(gaps, 1e-300)) - epsilon / 2 * np.abs(ranks - q * len(values))
    k = int(np.argmax(score + rng.gumbel(size=len(score))))
    return float(rng.uniform(ends[k], ends[k + 1]))


def cell(name, draw, truth, cdf, persons, epsilon, runs) -> list[str]:
    plan = Quantiles(QUARTILES).plan(Budget(epsilon=epsilon), Shape.of(1, persons))
    errors: dict[str, list] = {"private": [], "peer": [], "plain": []}
    inside, band, shown = np.zeros(3), 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        values = draw(persons, rng)
        release = plan.release(MatrixPeople(values[:, None], ("y",)), SimulatedNoise(seed))
        if release.status != "ok":
            continue
        shown += 1
        one = release.intervals.alone(0.95)
        inside += (np.array(one.lower) <= truth) & (truth <= np.array(one.upper))
        held = release.intervals.band(0.95)
        exact = cdf(held.at)
        band += bool(np.all((held.lower <= exact + 1e-12) & (exact <= held.upper + 1e-12)))
        low, high = values.min(), values.max()
        errors["private"].append(release.estimate - truth)
        errors["plain"].append(np.quantile(values, QUARTILES) - truth)
        errors["peer"].append(
            [exponential_mechanism(rng, values, q, epsilon / 3, low, high) for q in QUARTILES]
            - truth
        )
    size = {k: np.sqrt(np.mean(np.square(np.array(v)), axis=0)) for k, v in errors.items()}
    own, peer = size["private"] / size["plain"], size["peer"] / size["plain"]
    return [
        name, f"{persons}, {epsilon:g}", f"{shown / runs:.0%}",
        ", ".join(f"{x:.2f}" for x in own), ", ".join(f"{x:.2f}" for x in peer),
        f"{np.sqrt(np.mean(own**2)) / np.sqrt(np.mean(peer**2)):.2f}",
        ", ".join(f"{x:.1%}" for x in inside / shown), f"{band / shown:.1%}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for name, law in LAWS.items():
        truth = law.ppf(QUARTILES)
        for persons, epsilon in CELLS:
            draw = lambda n, rng, law=law: law.rvs(n, random_state=rng)  # noqa: E731
            rows.append(cell(name, draw, truth, law.cdf, persons, epsilon, options.runs))
    if options.panel.exists():
        people = pm.read(options.panel, person="person_id", values=["ln_wage"])
        pool = np.sort(people.matrix()[:, 0])
        pool = pool[np.isfinite(pool)]
        truth = np.quantile(pool, QUARTILES)
        below = lambda at: np.searchsorted(pool, at) / len(pool)  # noqa: E731
        for persons, epsilon in CELLS[1:4]:
            draw = lambda n, rng: rng.choice(pool, n)  # noqa: E731
            rows.append(cell("log wages", draw, truth, below, persons, epsilon, options.runs))
    head = [
        "law", "persons, epsilon", "shown", "error of the quartiles / without privacy",
        "the peer's", "ratio", "coverage", "band",
    ]  # fmt: skip
    text = table(head, rows)
    publish(
        "quantiles",
        "Quantiles",
        f"{text}\n\n{options.runs} runs a cell. {time.perf_counter() - start:.0f} s.",
        command="python benchmarks/quantiles.py",
    )


if __name__ == "__main__":
    main()
