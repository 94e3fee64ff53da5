"""Dimension-free means: reproduces the reference tables, and measures what the estimators claim.

Spectra: spike, five columns of standard deviation 1 and the others 1/d; exp, exp(-i). Unless said
otherwise epsilon=1, delta=1e-6, add-remove neighbours, mean l2 error with its standard error.

    python benchmarks/anisotropic.py [--quick] [--only SECTION] [--spambase PATH]
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean, Candidates
from privmean.estimators.anisotropic.known_covariance import KnownPlan
from privmean.estimators.anisotropic.spectrum import spectrum_of
from privmean.estimators.means.default_mean import DefaultMean
from privmean.estimators.winsorized import UnknownScale, WinsorizedMean
from privmean.mechanisms.filtered_mean import RADIUS, Metric, degrees, to_lattice
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_mu
from privmean.published import AnisotropicAsPublished
from report import publish, table

BUDGET = Budget(epsilon=1.0, delta=1e-6)
MU = gaussian_mu(1.0, 1e-6)
SPAMBASE = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "spambase.parquet"


def spike(d: int) -> np.ndarray:
    return np.r_[np.ones(5), np.full(d - 5, 1 / d)]


def decay(d: int) -> np.ndarray:
    return np.maximum(np.exp(-np.arange(d, dtype=float)), 1e-12)


def people(x: np.ndarray) -> ArrayPersonTable:
    return ArrayPersonTable(x, tuple(f"c{j}" for j in range(x.shape[1])))


def normal(rng: np.random.Generator, n: int, sigma: np.ndarray) -> np.ndarray:
    x = rng.standard_normal((n, len(sigma)))
    x *= sigma
    return x


def summary(sizes: list[float]) -> tuple[float, float]:
    x = np.array(sizes)
    return float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x)))


def cell(found: tuple[float, float], failed: int = 0, runs: int = 0) -> str:
    mean, error = found
    digits = max(0, 2 - math.floor(math.log10(max(error, 1e-9)))) if math.isfinite(error) else 3
    text = f"{mean:.{min(digits, 5)}f} ± {error:.{min(digits, 5)}f}"
    return text + (f" (failed {failed}/{runs})" if failed else "")


def errors(
    plan: object, sigma: np.ndarray, n: int, runs: int, seed: int
) -> tuple[list[float], int]:
    """l2 errors of the releases that found a centre, and how many did not."""
    rng = np.random.default_rng(seed)
    sizes, failed = [], 0
    for k in range(runs):
        release = plan.release(people(normal(rng, n, sigma)), SimulatedNoise(7919 * seed + k))
        if release.failed:
            failed += 1
        else:
            sizes.append(float(np.linalg.norm(release.estimate)))
    return sizes, failed


def basic_two_phase(sigma: np.ndarray, n: int) -> KnownPlan:
    """Two phases as first described: epsilons and deltas of the phases added, one clipped sum."""
    candidates = Candidates(
        replace(BUDGET, neighbors=ADD_REMOVE), spectrum_of(sigma**2, len(sigma)), n, 0.05
    )

    def plans() -> Iterator[KnownPlan]:
        for share in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5):
            try:
                centre = candidates.centre(share, 5e-7, 1.5, n)
            except InfeasibleError:
                continue
            (step,) = candidates._steps(gaussian_mu(1 - share - 1e-9, 5e-7 * (1 - 1e-6)), ())
            yield candidates._plan(centre, (step,), share)

    return candidates.best(plans())


def folklore(x: np.ndarray, sigma: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noisy histograms a column (bins of 2 sigma within 50 sigma), then one sphere. Floats."""
    n, d = x.shape
    sd = math.sqrt(d) / (MU / 2)
    index = np.clip(np.floor((x / sigma + 50) / 2), 0, 49).astype(int)
    centre = np.empty(d)
    for j in range(d):
        counts = np.bincount(index[:, j], minlength=50) + sd * rng.standard_normal(50)
        centre[j] = sigma[j] * (2 * np.argmax(counts) - 49)
    u = math.log(n / 0.05)
    total, square = float((sigma**2).sum()), float((sigma**4).sum())
    radius = math.sqrt(2 * total + 2 * math.sqrt(square * u) + 2 * float((sigma**2).max()) * u)
    y = x - centre
    y *= np.minimum(1, radius / np.sqrt((y * y).sum(axis=1)))[:, None]
    return centre + y.mean(axis=0) + radius / (n * MU * math.sqrt(0.75)) * rng.standard_normal(d)


REFERENCE = {  # non-private, published constants, tight average, two-phase (added), folklore
    100: (0.044, (5.95, 0.30), (0.316, 0.023), (0.093, 0.004), 0.172),
    1000: (0.048, (5.32, 0.40), (0.336, 0.020), (0.093, 0.009), 1.6),
    10_000: (0.050, (4.97, 0.71), (0.401, 0.049), (0.094, 0.007), 46.0),
}


def reference_table(quick: bool) -> str:
    n, rows, ok = 2000, [], True
    ratios = {}
    for d, (_, paper, tight, added, folk) in REFERENCE.items():
        sigma = spike(d)
        runs = {100: 60, 1000: 30, 10_000: 10}[d] // (3 if quick else 1)
        rng = np.random.default_rng(d)
        plain = summary(
            [float(np.linalg.norm(normal(rng, n, sigma).mean(axis=0))) for _ in range(runs)]
        )
        found = [cell(plain)]
        for k, (plan, target) in enumerate(
            (
                (_plan(sigma, n, "published"), paper),
                (_plan(sigma, n, "average"), tight),
                (basic_two_phase(sigma, n), added),
                (_plan(sigma, n, "two-phase"), None),
            )
        ):
            sizes, failed = errors(plan, sigma, n, runs, 10 * d + k)
            got = summary(sizes)
            text = cell(got, failed, runs)
            if target is not None:
                gap = (got[0] - target[0]) / math.hypot(got[1], target[1])
                ok &= abs(gap) < 4
                text += f" [{target[0]} ± {target[1]}: {gap:+.1f} s.e.]"
            else:
                ratios[d] = got
            found.append(text)
        sizes = [
            float(np.linalg.norm(folklore(normal(rng, n, sigma), sigma, rng)))
            for _ in range(max(2, runs // 3))
        ]
        found.append(f"{cell(summary(sizes))} [{folk}]")
        rows.append([d, *found])
    text = table(
        [
            "d",
            "non-private",
            "published constants",
            "tight average",
            "two-phase, epsilons added",
            "two-phase (this library)",
            "folklore (simplified)",
        ],
        rows,
    )
    ratio = ratios[10_000][0] / ratios[100][0]
    spread = ratio * math.hypot(
        ratios[10_000][1] / ratios[10_000][0], ratios[100][1] / ratios[100][0]
    )
    predicted = [_plan(spike(d), n, "two-phase").error for d in (100, 1000, 10_000)]
    return (
        f"Spike, n = 2000; in brackets the reference and the distance in standard errors.\n\n{text}"
        f"\n\nAll references within 4 standard errors: {'yes' if ok else 'NO'}. "
        f"Two-phase error at d = 10000 over d = 100: {ratio:.3f} ± {spread:.3f} measured, "
        f"{predicted[2] / predicted[0]:.3f} predicted (rms)."
    )


def _plan(sigma: np.ndarray, n: int, method: str, relation: str = ADD_REMOVE) -> KnownPlan:
    published = method == "published"
    return planned(
        AnisotropicAsPublished(sigma**2) if published else AnisotropicMean(sigma**2, method=method),
        BUDGET,
        count=n,
        dimension=len(sigma),
        relation=relation,
    )


def flat(quick: bool) -> str:
    """Two-phase error by number of columns, in both relations. The runs of one row share the five
    wide columns and the seeds of the noise, so that the ratio is of pairs."""
    sizes = (100, 1000, 10_000)
    rows = []
    for relation in (ADD_REMOVE, REPLACE_ONE):
        for n in (2000,) if quick else (2000, 8000):
            runs = 12 if quick or n == 8000 else 48
            found, failed = np.empty((len(sizes), runs)), 0
            predicted = []
            for i, d in enumerate(sizes):
                plan = _plan(spike(d), n, "two-phase", relation)
                predicted.append(plan.error)
                for k in range(runs):
                    x = np.empty((n, d))
                    x[:, :5] = np.random.default_rng([n, k]).standard_normal((n, 5))
                    x[:, 5:] = np.random.default_rng([n, k, d]).standard_normal((n, d - 5))
                    x[:, 5:] /= d
                    release = plan.release(people(x), SimulatedNoise(k))
                    failed += release.failed
                    found[i, k] = float((release.estimate**2).sum())
            root = np.sqrt(np.nanmean(found, axis=1))
            kept = found[:, ~np.isnan(found).any(axis=0)]
            left_out = [
                math.sqrt(np.delete(kept[2], j).mean() / np.delete(kept[0], j).mean())
                for j in range(kept.shape[1])
            ]
            spread = math.sqrt(len(left_out) - 1) * float(np.std(left_out))  # jackknife
            rows.append(
                [
                    relation,
                    n,
                    f"{math.sqrt(5 / n):.4f}",
                    *(f"{a:.4f} ({b:.4f})" for a, b in zip(root, predicted, strict=True)),
                    f"{math.sqrt(kept[2].mean() / kept[0].mean()):.3f} ± {spread:.3f}",
                    f"{predicted[2] / predicted[0]:.3f}",
                    f"{failed}/{runs * len(sizes)}",
                ]
            )
    expected = [
        [relation, n, *(f"{plans[d].error:.4f}" for d in sizes), f"{ratio:.3f}"]
        for relation in (ADD_REMOVE, REPLACE_ONE)
        for n in (2000, 4000, 8000, 16000)
        for plans in [{d: _plan(spike(d), n, "two-phase", relation) for d in sizes}]
        for ratio in [plans[sizes[2]].error / plans[sizes[0]].error]
    ]
    text = "Spike, two-phase, rms l2 error (in brackets: predicted by the plan).\n\n" + table(
        [
            "relation",
            "n",
            "non-private",
            *(f"d = {d}" for d in sizes),
            "d = 10000 over d = 100",
            "predicted",
            "failed",
        ],
        rows,
    )
    heads = ["relation", "n", *(f"d = {d}" for d in sizes), "d = 10000 over d = 100"]
    return text + "\n\nPredicted errors by number of persons:\n\n" + table(heads, expected)


def free_n(make: Callable[[int], KnownPlan], total: float) -> int:
    """The smallest n with noise at most sqrt 3 times the sampling error: less than twice in all."""

    def free(n: int) -> bool:
        try:
            return make(n).noise_error <= math.sqrt(3 * total / n)
        except InfeasibleError:
            return False

    low, high = 2, 256
    while not free(high):
        low, high = high, 2 * high
    while high / low > 1.01:
        middle = (low + high) // 2
        low, high = (low, middle) if free(middle) else (middle, high)
    return high


def free_privacy(quick: bool) -> str:
    rows = []
    cases = [("spike", spike, 100), ("spike", spike, 1000), ("spike", spike, 10_000)]
    cases += [("exp", decay, 1000)]
    reference = {("spike", 100): 1230, ("spike", 1000): 1420, ("spike", 10_000): 2150}
    reference[("exp", 1000)] = 1070
    for name, make, d in cases:
        sigma = make(d)
        total = float((sigma**2).sum())
        numbers = [
            free_n(lambda n, m=method, r=relation, s=sigma: _plan(s, n, m, r), total)
            for method, relation in (
                ("average", ADD_REMOVE),
                ("two-phase", ADD_REMOVE),
                ("two-phase", REPLACE_ONE),
            )
        ]
        n = numbers[1]
        runs = (40 if d < 10_000 else 12) // (3 if quick else 1)
        sizes, failed = errors(_plan(sigma, n, "two-phase"), sigma, n, runs, d)
        rms = math.sqrt(float(np.mean(np.square(sizes))))
        error = float(np.std(np.square(sizes), ddof=1)) / math.sqrt(len(sizes)) / (2 * rms)
        unit = math.sqrt(total / n)
        rows.append(
            [
                f"{name} {d}",
                numbers[0],
                f"{n} [{reference[(name, d)]}]",
                numbers[2],
                f"{rms / unit:.2f} ± {error / unit:.2f} (failed {failed}/{runs})",
            ]
        )
    return table(
        [
            "spectrum, d",
            "average",
            "two-phase [reference]",
            "two-phase, replace-one",
            "measured: rms error / non-private at that n (predicted 2)",
        ],
        rows,
    )


UNKNOWN = {  # reference: with clip step; known covariance, tight average on all persons
    ("exp", 100, 4000): (0.050, 0.005),
    ("exp", 100, 16_000): (0.0118, 0.0025),
    ("exp", 1000, 4000): (0.318, 0.011),
    ("exp", 1000, 16_000): (0.0109, 0.0035),
    ("spike", 100, 4000): (0.449, 0.011),
    ("spike", 100, 16_000): (0.041, 0.005),
    ("spike", 1000, 4000): (3.05, 0.05),
    ("spike", 1000, 16_000): (0.036, 0.004),
}


def unknown_covariance(quick: bool) -> str:
    rows = []
    for (name, d, n), target in UNKNOWN.items():
        sigma = (decay if name == "exp" else spike)(d)
        runs = (40 if d * n < 5e6 else 16) // (4 if quick else 1)
        results = []
        for scale_range in ((2.0**-12, 2.0**3), None):
            plan = planned(AnisotropicMean(scale_range=scale_range), BUDGET, persons=n, dimension=d)
            rng = np.random.default_rng(d + n)
            sizes, failed = [], 0
            for k in range(runs):
                order = rng.permutation(d)
                release = plan.release(people(normal(rng, n, sigma[order])), SimulatedNoise(k))
                if release.failed:
                    failed += 1
                else:
                    sizes.append(float(np.linalg.norm(release.estimate)))
            results.append(cell(summary(sizes), failed, runs))
        known = planned(AnisotropicMean(sigma**2), BUDGET, persons=n, dimension=d)
        rows.append(
            [
                f"{name} {d}, {n}",
                f"{math.sqrt(float((sigma**2).sum()) / n):.4f}",
                *results,
                f"{target[0]} ± {target[1]}",
                f"{known.error:.4f}",
            ]
        )
    return table(
        [
            "spectrum, d, N",
            "non-private (rms)",
            "unknown, public range of scales",
            "unknown, nothing given",
            "reference",
            "known covariance (predicted rms)",
        ],
        rows,
    )


def spambase(quick: bool, path: Path) -> str:
    if not path.exists():
        return f"{path.name} is not there; give it with --spambase."
    import duckdb

    frame = duckdb.sql(f"select * exclude (person_id, is_spam) from '{path}'")
    columns = tuple(frame.columns)
    x = np.column_stack([np.asarray(item, float) for item in frame.fetchnumpy().values()])
    n, d = x.shape
    truth, sd = x.mean(axis=0), x.std(axis=0)
    rows, runs = [], 10 if quick else 40
    data = ArrayPersonTable(x, columns)

    def add(name: str, estimates: list[np.ndarray], note: str = "") -> None:
        e = np.array(estimates) - truth
        e = np.where(np.isnan(e), -truth, e)  # a column that is not answered counts as 0
        whole = np.sqrt((e**2).sum(axis=1))
        scaled = np.sqrt(((e / sd) ** 2).mean(axis=1))
        rows.append([name, cell(summary(list(whole))), f"{scaled.mean():.3f}", note])

    estimators: list[tuple[str, object]] = [
        ("anisotropic, nothing given", AnisotropicMean()),
        ("anisotropic, covariance known (oracle)", AnisotropicMean(sd**2)),
        ("coordinate-wise Winsorized", WinsorizedMean(UnknownScale())),
        ("default", DefaultMean()),
    ]
    for name, estimator in estimators:
        plan = planned(estimator, BUDGET, persons=n, dimension=d)
        releases = [plan.release(data, SimulatedNoise(k)) for k in range(runs)]
        failed = sum(item.failed for item in releases)
        add(name, [item.estimate for item in releases], f"failed {failed}/{runs}")
    mu = BUDGET.gaussian_mu(d)
    rng = np.random.default_rng(0)
    norms = np.linalg.norm(x, axis=1)
    best = float(np.quantile(norms, 0.99))
    for name, radius in (
        ("public ball, radius = largest norm", float(norms.max())),
        ("public ball, radius = 99 % norm (oracle)", best),
        ("public ball, 10 times too wide", 10 * float(norms.max())),
    ):
        clipped = x * np.minimum(1, radius / np.maximum(norms, 1e-12))[:, None]
        noise = 2 * radius / (n * mu)
        draws = [clipped.mean(axis=0) + noise * rng.standard_normal(d) for _ in range(runs)]
        add(name, draws, f"radius {radius:.0f}")
    rows.append(
        ["sampling error (population)", f"{math.sqrt(float((sd**2).sum()) / n):.2f}", "0.015", ""]
    )
    return f"{n} persons, {d} columns, replace-one, error around the sample mean.\n\n" + table(
        ["method", "l2 error", "rms error in standard deviations", ""], rows
    )


def compute(quick: bool) -> str:
    rows = []
    sizes = [(4000, 500)] if quick else [(10_000, 1000), (20_000, 1000)]
    for n, d in sizes:
        x = np.random.default_rng(0).standard_normal((n, d))
        radius = 1.6 * math.sqrt(2 * d)
        everyone = np.ones(n, dtype=bool)
        start = time.perf_counter()
        metric = Metric(to_lattice(x, np.full(d, RADIUS / radius)))
        degrees([metric], everyone)
        blocked = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        del metric
        product = math.nan
        if n <= 10_000:
            start = time.perf_counter()
            x @ x.T
            product = time.perf_counter() - start
        plan = planned(AnisotropicMean(1.0), BUDGET, persons=n, dimension=d)
        start = time.perf_counter()
        plan.release(people(x), ExactNoise())
        whole = time.perf_counter() - start
        rows.append(
            [
                f"{n} x {d}",
                "not tried" if math.isnan(product) else f"{product:.2f} s",
                f"{blocked:.2f} s",
                "" if math.isnan(product) else f"{blocked / product:.2f}",
                f"{whole:.2f} s",
                f"{peak:.2f} GB (data {n * d * 8 / 2**30:.2f} GB)",
            ]
        )
    return table(
        [
            "persons x columns",
            "one symmetric product (BLAS)",
            "degrees, lattice included",
            "ratio",
            "whole release, exact noise",
            "peak memory of the process after degrees",
        ],
        rows,
    )


def cpu(run: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds of all threads, and the result."""
    start = time.process_time()
    found = run()
    return time.process_time() - start, found


def many(quick: bool) -> str:
    """CPU time of whole releases of very many persons, against one X'X of the same run."""
    n, d = (40_000, 50) if quick else (100_000, 200)
    x = np.random.default_rng(0).standard_normal((n, d)) + 3
    rows = []
    for name, covariance, relation in (
        ("known, replace-one", 1.0, REPLACE_ONE),
        ("known, add-remove", 1.0, ADD_REMOVE),
        ("unknown, replace-one", None, REPLACE_ONE),
    ):
        plan = planned(AnisotropicMean(covariance), BUDGET, count=n, dimension=d, relation=relation)
        one = min(cpu(lambda: x.T @ x)[0] for _ in range(5))
        whole, release = cpu(lambda plan=plan: plan.release(people(x), ExactNoise()))
        error = float(np.linalg.norm(release.estimate - x.mean(axis=0)))
        plain = math.sqrt(d / n)
        rows.append(
            [
                name,
                f"{one:.2f} s",
                f"{whole:.2f} s",
                f"{whole / one:.1f}",
                f"{math.hypot(error / plain, 1):.3f}",
                f"{plan.predict(1.0)['rmse'] / plain:.3f}",
            ]
        )
    return (
        f"{n} persons, {d} alike columns; CPU seconds of all threads (waiting ones count: "
        "set OPENBLAS_NUM_THREADS=1 on a busy machine).\n\n"
        + table(
            ["", "one X'X", "release", "ratio", "error over the plain mean's", "predicted"], rows
        )
    )


def bottom(quick: bool) -> str:
    """How often no centre is found, near the least numbers of persons."""
    rows, runs = [], 60 if quick else 200
    sigma = spike(20)
    for n in (250, 300, 400, 600, 1000):
        row: list[object] = [n]
        for method in ("average", "two-phase"):
            try:
                plan = _plan(sigma, n, method)
            except InfeasibleError:
                row.append("refused when planned")
                continue
            sizes, failed = errors(plan, sigma, n, runs, n)
            spent = f"error {np.mean(sizes):.2f}" if sizes else "no answer"
            row.append(f"failed {failed}/{runs}, {spent} (predicted rms {plan.error:.2f})")
        rows.append(row)
    wrong = planned(AnisotropicMean(1e-6 * sigma**2), BUDGET, persons=2000, dimension=20)
    release = wrong.release(
        people(normal(np.random.default_rng(1), 2000, sigma)), SimulatedNoise(1)
    )
    return (
        table(["n = n_design", "average", "two-phase"], rows)
        + "\n\nA covariance a million times too small, 2000 persons: status "
        + f'"{release.status}", epsilon on the bill {release.guarantee.spent():.3f} of 1; the '
        "release says: " + release.advice + "."
    )


SECTIONS: dict[str, tuple[str, Callable[[bool, Path], str]]] = {
    "table": ("Anisotropic means: reference table", lambda q, p: reference_table(q)),
    "flat": ("Anisotropic means: error by number of columns", lambda q, p: flat(q)),
    "free": ("Anisotropic means: n at which privacy is free", lambda q, p: free_privacy(q)),
    "unknown": ("Anisotropic means: unknown covariance", lambda q, p: unknown_covariance(q)),
    "spambase": ("Anisotropic means: spambase", spambase),
    "compute": ("Anisotropic means: time and memory", lambda q, p: compute(q)),
    "many": ("Anisotropic means: very many persons", lambda q, p: many(q)),
    "bottom": ("Anisotropic means: private failures", lambda q, p: bottom(q)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(SECTIONS))
    parser.add_argument("--spambase", type=Path, default=SPAMBASE)
    arguments = parser.parse_args()
    # memory first: the peak of a process only grows
    names = [arguments.only] if arguments.only else sorted(SECTIONS, key=lambda s: s != "compute")
    for name in names:
        title, run = SECTIONS[name]
        command = f"python benchmarks/anisotropic.py --only {name}"
        if "OPENBLAS_NUM_THREADS" in os.environ:
            command = f"OPENBLAS_NUM_THREADS={os.environ['OPENBLAS_NUM_THREADS']} {command}"
        if arguments.quick:
            command += " --quick"
        publish(
            f"anisotropic-{name}", title, run(arguments.quick, arguments.spambase), command=command
        )


if __name__ == "__main__":
    main()
