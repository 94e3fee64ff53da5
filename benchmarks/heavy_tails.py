"""Person-level means of heavy-tailed records: rates by exact law, rounds, composition, coverage.

Errors are divided by the non-private one, sqrt(d/(n m)) for unit variance. "reference" columns hold
values of an independent NumPy study with floating-point noise.

    python benchmarks/heavy_tails.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy import stats

import report
from heavy_data import LAWS, elliptical_t3, geometric, person_means, plus_minus
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean, RecordWeights
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed import clipping_rounds as radii
from privmean.estimators.heavy_tailed.clipping_rounds import Problem
from privmean.estimators.heavy_tailed.coarse_center import Coarse
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.privacy.gdp import gaussian_mu
from privmean.published import PureCover, ThreadedMean

DELTA = 1e-6


def tails(order: float, records: float, dimension: int = 1):
    return BoundedMoment(order, 1.0, records).tails(dimension)


def matrix(rows: np.ndarray) -> ArrayPersonTable:
    return ArrayPersonTable(rows, tuple(f"c{j}" for j in range(rows.shape[1])))


def two_point_bias(order: float, records: int, radius: float) -> float:
    """The largest exact clipping bias over 500 two-point laws with moment 1 (binomial sums)."""
    worst = 0.0
    for p in np.geomspace(1e-16, 0.5, 500):
        b = (p * (1 - p) ** order + (1 - p) * p**order) ** (-1 / order)
        jumps = np.arange(min(records, int(stats.binom.isf(1e-18, records, p)) + 2) + 1)
        weight, value = stats.binom.pmf(jumps, records, p), b * (jumps / records - p)
        above = np.sum(weight * np.maximum(value - radius, 0))
        worst = max(worst, abs(above - np.sum(weight * np.maximum(-value - radius, 0))))
    return worst


def private_error(order: float, records: int, strength: float) -> tuple[float, float]:
    """Exact private error at the planned radius (n epsilon = strength), and the planned one."""
    chosen = radii.one_dimension(
        tails(order, records), persons=1000, noise=math.sqrt(8) / strength, offset=0.0
    )
    exact = math.hypot(two_point_bias(order, records, chosen.radius), chosen.noise)
    return exact, chosen.private


def slopes(quick: bool) -> str:
    reference = {
        (2.0, 1): "-.50 -.50 -.50",
        (2.5, 1): "-.601 -.600 -.600",
        (3.0, 1): "-.674 -.667 -.667",
        (4.0, 1): "-.775 -.753 -.750",
        (4.0, 1024): "-.82 -.89 -.92",
    }
    rows = []
    for (order, m), known in reference.items():
        values = [private_error(order, m, 10.0**j) for j in (2, 3, 4, 5)]
        found = [math.log10(b[0] / a[0]) for a, b in itertools.pairwise(values)]
        ratio = [a / b for a, b in values]
        rows.append(
            [order, m, " ".join(f"{x:.3f}" for x in found), known, f"{-(order - 1) / order:.3f}",
             f"{min(ratio):.2f} to {max(ratio):.2f}"]
        )  # fmt: skip
    text = (
        "Slope of the private error in n (or epsilon) per decade of n epsilon from 10^2 to "
        "10^5.\n\n"
    )
    text += report.table(
        ["order k", "m", "slopes", "reference", "-(k-1)/k", "exact / planned"], rows
    )
    rows = []
    known_m = {
        2.0: "-.50 x4",
        2.5: "-.60 x4",
        3.0: "-.667 -.667 -.657 -.586",
        4.0: "-.732 -.560 -.509 -.500",
    }
    for order, known in known_m.items():
        values = [private_error(order, m, 1e4)[0] for m in (1, 8, 64, 512, 4096)]
        found = [math.log(b / a) / math.log(8) for a, b in itertools.pairwise(values)]
        crossover = "never" if order == 2 else f"{1e4 ** (2 / (order - 2)):.0e}"
        rows.append([order, " ".join(f"{x:.3f}" for x in found), known, crossover])
    text += (
        "\n\nSlope in m at n epsilon = 10^4 between m = 1, 8, 64, 512, 4096; crossover m* = (n "
        "eps)^(2/(k-2)).\n\n"
    )
    text += report.table(["order k", "slopes", "reference", "m*"], rows)
    return text


def vector_slopes(quick: bool) -> str:
    def error(order: float, m: float, n: float, d: int, epsilon: float) -> float:
        mu = gaussian_mu(epsilon, DELTA)
        problem = Problem("gaussian", tails(order, m, d), d, mu, known_weights=0.0)
        return problem.choose(mu, int(n), 0.3 / math.sqrt(m)).private

    rows = []
    known = {
        (2.25, 1): "-.562 -.555 +.563 -.528",
        (3.0, 1): "-.676 -.660 +.680 -.637",
        (4.0, 1000): "-.940 -.502 +.878 -.881",
    }
    for (order, m), reference in known.items():
        base, n = error(order, m, 2e5, 50, 1.0), 2e5
        found = [
            math.log10(error(order, m, 10 * n, 50, 1.0) / base),
            math.log10(error(order, 10 * m, n, 50, 1.0) / base),
            math.log10(error(order, m, n, 500, 1.0) / base),
            math.log10(base / error(order, m, n, 50, 0.1)),
        ]
        rows.append([order, m, " ".join(f"{x:+.3f}" for x in found), reference])
    text = (
        "Planned error in d = 50 columns, centre within .3/sqrt(m): slopes in n, m, d, epsilon.\n\n"
    )
    return text + report.table(["order k", "m", "slopes", "reference"], rows)


def item_level(quick: bool) -> str:
    known = {
        2.0: "1 2 4 8 16 32",
        2.5: "1 2.3 5.3 12 28 63",
        3.0: "1 2.5 6.1 14 30 61",
        4.0: "1 2.3 5.0 10 20 41",
    }
    grid = np.geomspace(0.5, 1e4, 4000)
    rows = []
    for order, reference in known.items():
        item = np.sqrt(bias.one_dimension(tails(order, 1), grid, 0.0) ** 2 + 8 * (grid / 1e3) ** 2)
        found = []
        for m in (1, 4, 16, 64, 256, 1024):
            chosen = radii.one_dimension(
                tails(order, m), persons=1000, noise=math.sqrt(8) / 1e3, offset=0.0
            )
            found.append(float(item.min()) / chosen.private)
        rows.append([order, " ".join(f"{x:.3g}" for x in found), reference])
    text = (
        "Planned error of record-level clipping with group privacy over that of clipping persons'"
        " means; n epsilon = 1000, m = 1, 4, 16, 64, 256, 1024.\n\n"
    )
    return text + report.table(["order k", "ratio", "reference"], rows)


def ratios(
    estimator: HeavyTailedMean | PureCover | ThreadedMean,
    budget: Budget,
    samples: list[np.ndarray],
    mean: float = 0.0,
    m: int = 1,
):
    """l2 error over the non-private one for each sample, and the plan."""
    n, d = samples[0].shape
    plan = planned(estimator, budget, persons=n, dimension=d)
    result = []
    for seed, rows in enumerate(samples):
        release = plan.release(matrix(rows), SimulatedNoise(seed))
        result.append(float(np.linalg.norm(release.estimate - mean)) / math.sqrt(d / (n * m)))
    return np.array(result), plan


def threaded(quick: bool) -> str:
    d, m, n, runs = 50, 10, 2000, 4 if quick else 16
    rng = np.random.default_rng(5)
    samples = [elliptical_t3(rng, n, m, d) for _ in range(runs)]
    known = {
        0.05: (2.24, 2.47), 0.15: (2.37, 2.67), 0.5: (2.69, 2.66), 1: (3.22, 2.72), 2: (3.96, 2.71),
        4: (6.06, 2.64), 8: (12.2, 2.80), 16: (22.2, 2.88), 32: (45.5, 2.91),
    }  # fmt: skip
    rows = []
    for start, (one, three) in known.items():
        half = start / math.sqrt(m)
        moment = BoundedMoment(2.5, 1.35, m, range=(-2 * half, 0.0))
        cells = []
        for rounds in (1, 3):
            estimator = HeavyTailedMean(
                moment, law="gaussian", start="public", rounds=rounds, private_radius=False
            )
            try:
                found, _ = ratios(estimator, Budget(1.0, DELTA), samples, m=m)
                cells.append(plus_minus(found))
            except InfeasibleError:
                cells.append("refused")
        best = HeavyTailedMean(moment, law="gaussian", start="public", private_radius=False)
        found, plan = ratios(best, Budget(1.0, DELTA), samples, m=m)
        rows.append(
            [start, cells[0], one, cells[1], three, plus_minus(found), len(plan.schedule.rounds)]
        )
    text = (
        "Elliptical t3, d = 50, m = 10, n = 2000, epsilon = 1, delta = 1e-6. a0: public distance "
        "of the first centre, in sqrt(d/m). Refused: no radius or round improves on the start.\n\n"
    )
    return text + report.table(
        ["a0", "one round", "ref.", "three rounds", "ref.", "planned rounds", "how many"], rows
    )


def literal(rows: np.ndarray, law, m: int, epsilon: float, start: float, rng) -> float:
    """The published algorithm read literally: thirds, split budgets, classical Gaussian noise."""
    n, d = rows.shape
    model = BoundedMoment(law.order, law.bound, m).tails(d)
    center = np.zeros(d)
    center[:] = start / math.sqrt(d)
    offset = start
    layers = [(n // 9, epsilon / 9, DELTA / 9)] * 3 + [(n // 3, epsilon / 3, DELTA / 3)]
    at = n // 3
    for size, e, delta in layers:
        unit = 2 * math.sqrt(2 * math.log(1.25 / delta)) / e / size
        chosen = radii.ball(
            model, dimension=d, persons=size, noise=unit * math.sqrt(d), offset=offset
        )
        block = rows[at : at + size] - center
        norm = np.linalg.norm(block, axis=1, keepdims=True)
        moved = (block * np.minimum(1, chosen.radius / norm)).mean(axis=0)
        center = center + moved + chosen.radius * unit * rng.standard_normal(d)
        offset = min(offset, 1.3 * chosen.error)
        at += size
    return float(np.linalg.norm(center)) / math.sqrt(d / (n * m))


def composition(quick: bool) -> str:
    known = {
        (10, "Gaussian"): "51 3.4 1.58 1.02",
        (10, "t3"): "46 3.0 1.57 .90",
        (10, "lognormal"): "30 1.9 1.51 .58",
        (50, "Gaussian"): "66 3.1 1.64 1.01",
        (50, "t3"): "61 2.9 1.60 .98",
        (50, "lognormal"): "36 1.8 1.49 .59",
    }
    rng = np.random.default_rng(8)
    runs = 1 if quick else 3
    rows = []
    for (d, name), reference in known.items():
        law, cells = (
            LAWS[name],
            {key: [] for key in ("literal", "one", "disjoint", "together", "radius")},
        )
        skipped = 0
        for m in (1, 10) if quick else (1, 10, 100):
            for n in (1000, 5000):
                samples = [person_means(law, rng, n, m, d) for _ in range(runs)]
                start = 7.8 * math.sqrt(d / m)
                half = start / math.sqrt(d)
                moment = BoundedMoment(law.order, law.bound, m, range=(0.0, 2 * half))
                for epsilon in (0.25, 1.0):
                    budget = Budget(epsilon, DELTA)
                    settings = {
                        "one": {"rounds": 1, "private_radius": False},
                        "together": {"private_radius": False},
                        "radius": {"private_radius": True},
                    }
                    try:
                        found = {
                            key: ratios(
                                HeavyTailedMean(moment, law="gaussian", start="public", **extra),
                                budget,
                                samples,
                                m=m,
                            )[0]
                            for key, extra in settings.items()
                        }
                        found["disjoint"] = ratios(ThreadedMean(moment), budget, samples, m=m)[0]
                    except InfeasibleError:
                        skipped += 1
                        continue
                    found["literal"] = np.array(
                        [literal(x, law, m, epsilon, start, rng) for x in samples]
                    )
                    for key, value in found.items():
                        cells[key].append(math.sqrt(float(np.mean(value**2))))
        base = geometric(cells["together"])
        rows.append(
            [
                d,
                name,
                *(
                    f"{geometric(cells[key]) / base:.2f}"
                    for key in ("literal", "one", "disjoint", "radius")
                ),
                reference,
                f"{base:.2f}",
                skipped,
            ]
        )
    text = (
        "Error relative to composing over all persons (geometric mean over m = 1, 10, 100, "
        "n = 1000, 5000, epsilon = .25, 1); start 7.8 sqrt(d/m) away. "
        "Settings that any variant refuses are left out.\n\n"
    )
    return text + report.table(
        [
            "d",
            "law",
            "literal",
            "one round",
            "disjoint",
            "private radius",
            "reference (same order)",
            "composed / non-private",
            "left out",
        ],
        rows,
    )


def published_column(x: np.ndarray, law, m: int, epsilon: float, half: float, rng) -> float:
    """One column as published: halves at full epsilon, wide buckets, the formula radius."""
    n = len(x)
    first, second = x[: n // 2], x[n // 2 :]
    sd = law.bound / math.sqrt(m)
    width = 6 * sd
    index = np.clip(np.floor((first + half) / width), 0, math.ceil(2 * half / width) - 1)
    counts = np.bincount(index.astype(int), minlength=math.ceil(2 * half / width)).astype(float)
    center = -half + width * (
        0.5 + int(np.argmax(counts + rng.laplace(0, 2 / epsilon, len(counts))))
    )
    k, alpha = law.order, 0.1 * sd
    for _ in range(50):
        radius = (
            2 * width
            + sd * math.sqrt(max(1.0, math.log(m)))
            + law.bound / m * (law.bound / alpha) ** (1 / (k - 1))
        )
        alpha = max(2 * radius / (len(second) * epsilon), 1e-12)
    clipped = np.clip(second - center, -radius, radius)
    return center + clipped.mean() + rng.laplace(0, 2 * radius / (len(second) * epsilon))


def one_column(quick: bool) -> str:
    rng = np.random.default_rng(6)
    known = {
        "Gaussian": 3.27,
        "t2.5": 2.59,
        "t3": 2.85,
        "t5": 3.66,
        "Pareto 3": 2.95,
        "lognormal": 4.19,
    }
    examples = {
        ("Gaussian", 1000, 0.25): 2.09,
        ("t3", 1000, 0.25): 2.78,
        ("lognormal", 1000, 0.25): 4.64,
        ("Gaussian", 5000, 1.0): 1.03,
        ("t3", 5000, 1.0): 1.16,
        ("lognormal", 5000, 1.0): 1.20,
    }
    rows, singled = [], []
    for name, reference in known.items():
        law, gains = LAWS[name], []
        for m in (10,) if quick else (1, 10, 100):
            runs = 60 if quick else (300 if m == 10 else 100)
            for n in (1000, 5000):
                for epsilon in (0.25, 1.0):
                    moment = BoundedMoment(law.order, law.bound, m, range=(-1000, 1000))
                    plan = planned(HeavyTailedMean(moment), Budget(epsilon), persons=n)
                    ours, theirs = [], []
                    for run in range(runs):
                        x = person_means(law, rng, n, m, 1)
                        ours.append(float(plan.release(matrix(x), SimulatedNoise(run)).estimate[0]))
                        theirs.append(published_column(x[:, 0], law, m, epsilon, 1000.0, rng))
                    base = math.sqrt(n * m)
                    rms = [base * math.sqrt(float(np.mean(np.square(v)))) for v in (ours, theirs)]
                    gains.append(rms[1] / rms[0])
                    if m == 10 and (name, n, epsilon) in examples:
                        error = base * np.abs(np.array(ours))
                        spread = float(np.std(error**2) / (2 * rms[0]) / math.sqrt(runs))
                        singled.append(
                            [
                                name,
                                n,
                                epsilon,
                                f"{rms[0]:.2f} ± {spread:.2f}",
                                examples[name, n, epsilon],
                                f"{rms[1]:.2f}",
                            ]
                        )
        rows.append([name, f"{geometric(gains):.2f}", reference])
    text = (
        "Public range +-1000 standard deviations, pure epsilon; error of the published split and "
        "constants over ours (geometric mean over m, n, epsilon).\n\n"
    )
    text += report.table(["law", "published / ours", "reference"], rows)
    text += "\n\nRoot mean square error over the non-private one, m = 10:\n\n"
    return text + report.table(["law", "n", "epsilon", "ours", "reference", "published"], singled)


def coarse(quick: bool) -> str:
    runs = 12 if quick else 40
    rng = np.random.default_rng(9)
    rows = []
    for epsilon in (1.0, 0.25):
        mu = gaussian_mu(epsilon, DELTA) * math.sqrt(0.2)
        for d in (1, 10, 50):
            cells = math.ceil(200 / (2 / math.sqrt(10))) * d
            formula = 2 * math.sqrt(2 * d) / mu * math.sqrt(2 * math.log(cells / 0.01)) / 0.3
            found = []
            for part in (1 / 8, 1 / 4, 1 / 2, 1.0):
                n = round(formula * part)
                step = Coarse(
                    "gaussian",
                    d,
                    2 / math.sqrt(10),
                    1.5 * math.sqrt(d / 10),
                    mu=mu,
                    ranges=((-100.0, 100.0),) * d,
                )
                hits = 0
                for run in range(runs):
                    x = rng.standard_normal((n, d)) / math.sqrt(10) + 3.3
                    center = step.find(TrustedCurator(matrix(x), SimulatedNoise(run)), matrix(x))
                    hits += math.dist(center, (3.3,) * d) <= step.offset
                found.append(f"{hits / runs:.2f}")
            rows.append([epsilon, d, round(formula), *found])
    text = (
        "Gaussian histograms of all columns, public range +-100, m = 10, a fifth of mu^2: share "
        "of runs with the centre found, at parts of the planned number of persons.\n\n"
    )
    return text + report.table(["epsilon", "d", "planned n", "n/8", "n/4", "n/2", "n"], rows)


def unequal(quick: bool) -> str:
    n, runs = 2000, 60 if quick else 300
    rng = np.random.default_rng(4)
    law = LAWS["t3"]
    options = {
        "equal weights": (RecordWeights(400), 0.0183),
        "at least 5 records": (RecordWeights(400, least=5), 0.0148),
        "square root of m": (RecordWeights(400, critical=1.0), 0.0106),
        "min(m, sqrt(5 m))": (RecordWeights(400, critical=5.0), 0.0104),
        "min(m, 20)": (RecordWeights(20, critical=20.0), 0.0110),
    }
    plans = {
        name: planned(
            HeavyTailedMean(
                BoundedMoment(law.order, law.bound, 10, range=(-20, 20)), weights=weights
            ),
            Budget(1.0, DELTA),
            persons=n,
        )
        for name, (weights, _) in options.items()
    }
    errors = {name: [] for name in options} | {"non-private, pooled": []}
    for run in range(runs):
        counts = np.minimum(np.floor(rng.lognormal(1.5, 1.3, n)).astype(int), 400)
        counts[rng.random(n) < 0.1] = 0
        owner = np.repeat(np.arange(n), counts)
        values = law.draw(rng, (len(owner),))
        sums = np.bincount(owner, values, minlength=n)
        with np.errstate(invalid="ignore"):
            means = sums / counts
        errors["non-private, pooled"].append(values.mean())
        people = ArrayPersonTable(means[:, None], ("x",), counts[:, None])
        for name, plan in plans.items():
            errors[name].append(float(plan.release(people, SimulatedNoise(run)).estimate[0]))
    rows = []
    for name, found in errors.items():
        reference = options[name][1] if name in options else 0.0072
        rows.append([name, f"{math.sqrt(float(np.mean(np.square(found)))):.4f}", reference])
    text = (
        "One column, t3 records, n = 2000, log-normal numbers of records (10 % empty, at most "
        "400), epsilon = 1: root mean square error. The reference's law of counts and its known "
        "centre differ, so compare the order.\n\n"
    )
    return text + report.table(["weights", "error", "reference"], rows)


def pure(quick: bool) -> str:
    runs = 6 if quick else 12
    rng = np.random.default_rng(7)
    known = {
        (2, 200, "Gaussian"): "1.90 1.42 1.60",
        (3, 200, "Gaussian"): "2.13 1.88 2.92",
        (3, 200, "t3"): "2.14 1.47 2.18",
        (3, 800, "Gaussian"): "-",
    }
    rows = []
    for (d, n, name), reference in known.items():
        law = LAWS[name]
        # the reference starts at the true centre: a public range of a few bulk deviations
        moment = BoundedMoment(law.order, law.bound, 10, range=(-0.53, 0.71))
        samples = [person_means(law, rng, n, 10, d) for _ in range(runs)]
        cells = []
        for estimator in (
            PureCover(moment, work=2e7 if quick else 8e7),
            HeavyTailedMean(moment, law="k-norm"),
            HeavyTailedMean(moment, law="laplace"),
        ):
            try:
                cells.append(plus_minus(ratios(estimator, Budget(1.0), samples, m=10)[0]))
            except InfeasibleError:
                cells.append("refused")
        rows.append([d, n, name, *cells, reference])
    text = (
        "Pure DP, m = 10, epsilon = 1, public range -.53 to .71: l2 error over the "
        "non-private one.\n\n"
    )
    return text + report.table(
        ["d", "n", "law", "exponential mechanism", "K-norm", "Laplace", "reference"], rows
    )


def public_bounds(quick: bool) -> str:
    rows, n = [], 5000
    rng = np.random.default_rng(3)
    for m, known in ((1, 3.84), (10, 11.1), (100, 41.5)):
        noise = 2 * 100 / n * math.sqrt(2)  # Laplace, clipping to +-100 standard deviations
        moment = BoundedMoment(4, 1.316, m, range=(-100, 100))
        samples = [rng.standard_normal((n, 1)) / math.sqrt(m) for _ in range(60 if quick else 300)]
        found, _ = ratios(HeavyTailedMean(moment), Budget(1.0), samples, m=m)
        ours = math.sqrt(float(np.mean(found**2)))
        rows.append([m, f"{math.hypot(1, noise * math.sqrt(n * m)):.2f}", known, f"{ours:.2f}"])
    text = (
        "Gaussian, n = 5000, epsilon = 1: error over the non-private one when clipping to public "
        "bounds +-100 standard deviations, and with a moment bound and the same public range.\n\n"
    )
    return text + report.table(["m", "public bounds", "reference", "moment bound"], rows)


SECTIONS: dict[str, tuple[str, Callable[[bool], str]]] = {
    "slopes": ("Heavy tails: rates by exact law", slopes),
    "vector-slopes": ("Heavy tails: rates of planned errors in d columns", vector_slopes),
    "item-level": ("Heavy tails: persons' means against group privacy", item_level),
    "threaded": ("Heavy tails: threaded rounds against one round", threaded),
    "composition": ("Heavy tails: composing over all persons against splitting them", composition),
    "one-column": ("Heavy tails: one column, whole pipeline", one_column),
    "coarse": ("Heavy tails: persons a coarse centre needs", coarse),
    "unequal": ("Heavy tails: unequal numbers of records", unequal),
    "pure": ("Heavy tails: pure differential privacy in few columns", pure),
    "public-bounds": ("Heavy tails: against public bounds", public_bounds),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    arguments = parser.parse_args()
    quick = " --quick" if arguments.quick else ""
    for name in arguments.only:
        title, make = SECTIONS[name]
        command = f"python benchmarks/heavy_tails.py --only {name}{quick}"
        report.publish(f"heavy-{name}", title, make(arguments.quick), command=command)


if __name__ == "__main__":
    main()
