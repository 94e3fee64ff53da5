"""Longitudinal models: published settings against reference values, and a real panel of wages.

    python benchmarks/longitudinal.py [--releases 500] [--panel nlswork.parquet]

Figure 6 of Roth and Avella-Medina (2025): persons independent, a person's records an AR(1) with
coefficient 0.95; user means have the exact variance of such a person's mean, so that they are drawn
directly. Regression: 2000 persons with 20 records, 3 regressors, AR(1) errors. Panel: log wages of
4711 persons (National Longitudinal Survey of Young Women), every person's own regression averaged,
beside figures of statsmodels (longitudinal_figures.py keeps them: not needed here).
Cells show a mean squared error and its standard error, and a reference value.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

import privmean as pm
from panels import PANEL
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import Products
from privmean.estimators.concentration import SubGaussian
from privmean.estimators.regression.panel import Independence, fit_persons
from privmean.estimators.winsorized import WinsorizedMean
from privmean.inference.status import MODIFIED_TARGET
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.published import PriestleyChao, WinsorizedAsPublished
from report import publish, table

FIGURES = Path(__file__).with_name("longitudinal_figures.json")
LEFT = {  # (records, persons): reference
    (1, 2000): 0.166, (10, 2000): 0.150, (100, 2000): 0.055,
    (1, 10000): 7.1e-3, (10, 10000): 6.6e-3, (100, 10000): 2.4e-3,
}  # fmt: skip
RIGHT = {  # (epsilon, records) at 1000 persons
    (0.5, 100): 7.9e-3, (0.5, 500): 1.9e-3, (1.0, 100): 2.4e-3, (1.0, 200): 1.2e-3,
    (1.0, 500): 5.7e-4, (1.0, 1000): 3.2e-4,
}  # fmt: skip


def correlation(records: int, phi: float = 0.95) -> np.ndarray:
    lags = np.abs(np.subtract.outer(np.arange(records), np.arange(records)))
    return phi**lags


def shown(squares: list[float]) -> str:
    x = np.array(squares)
    return f"{x.mean():.2g} ± {x.std(ddof=1) / math.sqrt(len(x)):.1g}"


def user_means(epsilon, records, n, releases, rng) -> tuple[str, str]:
    """As published (radius from the person's operator norm), and Winsorized at the exact sd."""
    matrix = correlation(records)
    sd = math.sqrt(matrix.sum()) / records
    proxy = math.sqrt(np.linalg.eigvalsh(matrix)[-1] / records)
    budget, noise = Budget(epsilon=epsilon, delta=1 / n**2), SimulatedNoise(rng)
    published = planned(WinsorizedAsPublished(SubGaussian(proxy)), budget, persons=n)
    better = planned(WinsorizedMean(SubGaussian(sd)), budget, persons=n)
    tau = proxy * math.sqrt(2 * math.log(2 * n / 0.05))
    cells = []
    for plan in (published, better):
        squares = []
        for _ in range(releases):
            center = 100 + rng.uniform(-tau, tau)
            people = ArrayPersonTable((center + sd * rng.standard_normal(n))[:, None], ("x",))
            release = plan.release(people, noise)
            if not release.failed:
                squares.append(float(release.estimate[0] - center) ** 2)
        cells.append(shown(squares))
    return cells[0], cells[1]


def figure_six(releases: int, rng) -> str:
    rows: list[list[object]] = []
    for (records, n), value in LEFT.items():
        mine, better = user_means(0.1, records, n, releases, rng)
        rows.append([0.1, records, n, mine, f"{value:.2g}", better])
    for (epsilon, records), value in RIGHT.items():
        mine, better = user_means(epsilon, records, 1000, releases, rng)
        rows.append([epsilon, records, 1000, mine, f"{value:.2g}", better])
    header = ["epsilon", "records", "persons", "as published", "reference", "WinsorizedMean"]
    return table(header, rows)


def people_of_lines(rng, n=2000, records=20, p=3) -> tuple[ArrayPersonTable, np.ndarray]:
    """Own coefficients of persons with standard normal regressors and AR(1) errors."""
    x = rng.standard_normal((n, records, p))
    root = np.linalg.cholesky(correlation(records, 0.5))
    beta = np.array([1.0, -2.0, 0.5])
    y = x @ beta + rng.standard_normal((n, records)) @ root.T
    z = np.concatenate([x, y[:, :, None]], axis=2)
    squares = {
        (i, j): np.einsum("nt,nt->n", z[:, :, i], z[:, :, j])
        for i in range(p + 1)
        for j in range(i, p + 1)
    }
    products = Products(np.full(n, float(records)), z.sum(axis=1), squares, {}, {})
    rows = fit_persons(
        products, working=Independence(), within=False, threshold=0.3, least=p,
        scales=(1.0,) * (p + 1),
    )  # fmt: skip
    return ArrayPersonTable(rows, ("a", "b", "c")), beta


def regression(releases: int, rng) -> str:
    n, records, theta = 2000, 20, 0.3
    sd = math.sqrt(3.0 / (records * theta))  # operator norm of the errors over T theta
    budget, noise = Budget(epsilon=1.0, delta=1 / n**2), SimulatedNoise(rng)
    plans = {
        "as published (radius without the condition number)": (
            planned(WinsorizedAsPublished(SubGaussian(sd)), budget, persons=n, dimension=3), 0.90,
        ),
        "Winsorized, same assumption": (
            planned(WinsorizedMean(SubGaussian(sd)), budget, persons=n, dimension=3), 0.039,
        ),
        "magnitudes found privately": (
            planned(pm.PrivateScale(), Budget(epsilon=1.0), persons=n, dimension=3), None,
        ),
    }  # fmt: skip
    errors: dict[str, list[float]] = {name: [] for name in (*plans, "non-private")}
    valid, kept = [], dict.fromkeys(plans, 0)
    for _ in range(releases):
        people, beta = people_of_lines(rng)
        fine = people.values[np.isfinite(people.values[:, 0])]
        valid.append(len(fine) / n)
        errors["non-private"].append(float(np.sum((fine.mean(axis=0) - beta) ** 2)))
        for name, (plan, _) in plans.items():
            release = plan.release(people, noise)
            kept[name] += not release.failed
            if not release.failed:
                errors[name].append(float(np.sum((release.estimate - beta) ** 2)))
    rows: list[list[object]] = [
        [name, shown(errors[name]), "" if value is None else value, f"{kept[name] / releases:.0%}"]
        for name, (_, value) in plans.items()
    ]
    rows.append(["non-private", shown(errors["non-private"]), "1e-4", ""])
    text = table(["estimator", "squared error", "reference", "released"], rows)
    return f"{text}\n\nPersons above the threshold: {np.mean(valid):.1%} (reference 96.4 %)."


def groups(releases: int, rng) -> str:
    """Random effects: 20 groups of 100 persons, 10 records, deviations 0.5 and 1."""
    effects = pm.RandomEffects(0.5, 1.0, 10, (100,) * 20)
    n = 2000
    joint = math.sqrt((0.25 * 100 * 10 + 1) / 10)
    noise = SimulatedNoise(rng)
    rows: list[list[object]] = []
    settings = Budget(epsilon=0.5, delta=1 / n**2)
    for name, sd in (("joint", joint), ("marginal", effects.sd)):
        plan = planned(WinsorizedMean(SubGaussian(sd), gamma=0.05), settings, persons=n)
        squares = []
        for _ in range(releases):
            shared = np.repeat(rng.normal(0, 0.5, 20), 100)
            values = 10 + shared + rng.normal(0, math.sqrt(0.1), n)
            release = plan.release(ArrayPersonTable(values[:, None], ("x",)), noise)
            if not release.failed:
                squares.append(float(release.estimate[0] - values.mean()) ** 2)
        rows.append([name, f"{sd:.3g}", f"{plan.noise[0]:.3g}", shown(squares)])
    exact = effects.design_effect * effects.sd**2 / n
    text = table(["radius from", "sd", "predicted noise sd", "squared error of the noise"], rows)
    return (
        f"{text}\n\nRatio of noise {joint / effects.sd:.2f} (reference 8.5). Design effect "
        f"{effects.design_effect:.1f}: sampling variance of the mean {exact:.4f}, by theory "
        f"{0.25 / 20 + 0.1 / n:.4f}."
    )


def kernel(releases: int, rng) -> str:
    """The curve sin(2 pi x)/2 at public times, errors AR(1) with coefficient 0.5 (bound 3 on the
    operator norm): the value at 0.3, alone and out of a release of the whole curve."""
    rows: list[list[object]] = []
    for n, epsilon, printed, reference, plain in (
        (16000, 0.1, 2.14, 0.0075, 0.0019), (4000, 1.0, 0.147, 0.0076, 0.0075),
    ):  # fmt: skip
        times = np.arange(1, n + 1) / n
        truth = np.sin(2 * math.pi * times) / 2
        width = max((3 / n) ** (1 / 3), math.sqrt(math.sqrt(3) / (n * epsilon)))
        bound = 0.5 + math.sqrt(2 * math.log(2 * n / 0.05))
        noise = SimulatedNoise(rng)
        design = pm.FixedDesign((-bound, bound), round(1 / width), width, at=(0.3,))
        plan = design.plan(Budget(epsilon=epsilon), times=times)
        alone = pm.FixedDesign((-bound, bound), bandwidth=width, at=(0.3,))
        point = alone.plan(Budget(epsilon=epsilon), times=times)
        # the bounds on slope and size are those of the reference, twice what this curve needs
        corollary = PriestleyChao(0.3, math.sqrt(3), 2 * math.pi, 1.0)
        product = planned(corollary, Budget(epsilon=epsilon, delta=1 / n**2), persons=n)
        private, whole, public, published = [], [], [], []
        weights = np.exp(-0.5 * ((times - 0.3) / width) ** 2)
        weights /= weights.sum()
        goal = math.sin(2 * math.pi * 0.3) / 2
        for _ in range(releases):
            e = rng.standard_normal(n) * math.sqrt(0.75)
            e[0] /= math.sqrt(0.75)
            y = truth + _recursion(e)
            private.append(float(point.release(y, noise).estimate[0] - goal) ** 2)
            whole.append(float(plan.release(y, noise).estimate[0] - goal) ** 2)
            public.append(float(weights @ y - goal) ** 2)
            people = ArrayPersonTable(y[:, None], ("y",))
            published.append(float(product.release(people, noise).estimate[0] - goal) ** 2)
        rows.append([
            n, epsilon, shown(published), printed, shown(private), reference,
            f"{point.noise[0] ** 2:.2g}", shown(whole),
            f"{plan.noise[0] ** 2:.2g}", shown(public), plain,
        ])  # fmt: skip
    header = ["responses", "epsilon", "as printed", "reference", "private, one point",
              "reference", "of it noise",
              "private, whole curve", "of it noise", "non-private", "reference"]  # fmt: skip
    return table(header, rows)


def _recursion(e: np.ndarray, phi: float = 0.5) -> np.ndarray:
    from scipy.signal import lfilter

    return lfilter([1.0], [1.0, -phi], e)


# --- a real panel ---------------------------------------------------------------------------------
FORMULA = "ln_wage ~ ttl_exp + tenure + union"


def statsmodels_fits() -> tuple[dict[str, list[float]], ...]:
    """Coefficient and standard error a term, as longitudinal_figures.py keeps them: pooled, and
    averages of every person's own lines and of own lines within."""
    kept = json.loads(FIGURES.read_text())
    return tuple(kept[name] for name in ("pooled", "own lines", "within"))


def wages(path: Path, releases: int) -> str:
    rng = np.random.default_rng(5)
    pooled, *averages = statsmodels_fits()
    rows: list[list[object]] = []
    covered: list[list[object]] = []
    for effects in (False, True):
        question = pm.Regression(
            FORMULA,
            effect="per_person",
            fixed_effects=effects,
            method=pm.PrivateScale(target="mean"),
        )
        people = pm.Table(str(path), person="person_id").people(question.summary)
        values = people.values
        fitted = int(np.isfinite(values[:, 0]).sum())
        kind = "within" if effects else "own lines"
        for epsilon in (1.0, 3.0, 10.0):
            both = [
                pm.regress(
                    str(path), FORMULA, person="person_id", epsilon=epsilon, effect="per_person",
                    method=pm.PrivateScale(target=target), fixed_effects=effects,
                    noise=SimulatedNoise(rng),
                )
                for target in ("mean", "clipped")
            ]  # fmt: skip
            for line, short in zip(*(release.table() for release in both), strict=True):
                own, other = averages[effects][line.term], pooled[line.term]
                rows.append([
                    kind, f"{epsilon:g}", line.term, f"{line.estimate:.4f}",
                    f"{line.lower:.4f} to {line.upper:.4f}", line.status,
                    f"{short.lower:.4f} to {short.upper:.4f}", f"{own[0]:.4f} ± {own[1]:.4f}",
                    f"{other[0]:.4f} ± {other[1]:.4f}",
                ])  # fmt: skip
            for target in ("mean", "clipped"):
                found = coverage(values, epsilon, target, releases)
                covered.append([kind, f"{epsilon:g}", target, fitted, *found])
    first = table(
        ["fit", "epsilon", "term", "private", "95 % interval, mean", "status",
         "95 % interval, clipped", "average of own OLS, statsmodels",
         "pooled OLS, clustered, statsmodels"],
        rows,
    )  # fmt: skip
    second = table(
        ["fit", "epsilon", "target", "persons fitted", "least coverage of a term",
         "mean of terms", "modified_target"],
        covered,
    )  # fmt: skip
    return (
        f"{first}\n\nCoverage of nominal 95 % intervals when persons are drawn with replacement "
        f"({releases} releases). The truth is the panel's own mean over all fitted persons for the "
        "target mean (where the tail is too thick, and says so, the clipped mean), and the clipped "
        f"mean at the released limits for the target clipped:\n\n{second}"
    )


def coverage(
    values: np.ndarray, epsilon: float, target: str, releases: int
) -> tuple[str, str, str]:
    """Coverage of each term's own interval for the mean of the panel's coefficients."""
    n, p = values.shape
    rng = np.random.default_rng(6)
    plan = planned(pm.PrivateScale(target=target), Budget(epsilon=epsilon), persons=n, dimension=p)
    noise = SimulatedNoise(rng)
    fine = values[np.isfinite(values[:, 0])]
    hits, thick = np.zeros(p), 0
    for _ in range(releases):
        drawn = ArrayPersonTable(values[rng.integers(0, n, n)], tuple(map(str, range(p))))
        release = plan.release(drawn, noise)
        for j, row in enumerate(release.rows(0.95)):
            low, high = row.lower, row.upper
            short = row.status == MODIFIED_TARGET
            radius = release.diagnostics["clip_radius"][j]
            clipped = short or target == "clipped"
            x = np.clip(fine[:, j], -radius, radius) if clipped else fine[:, j]
            hits[j] += low <= x.mean() <= high
            thick += short
    return (
        f"{hits.min() / releases:.1%}",
        f"{hits.mean() / releases:.1%}",
        f"{thick / releases / p:.1%}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=500, help="of a cell")
    parser.add_argument("--quick", action="store_true", help="50 releases a cell")
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    releases, seed = 50 if options.quick else options.releases, np.random.default_rng
    start = time.perf_counter()
    parts = [
        "User means of dependent records, squared error:\n\n" + figure_six(releases, seed(1)),
        "Regression, epsilon 1, three coefficients:\n\n"
        + regression(max(releases // 3, 1), seed(2)),
        "Random effects, epsilon 0.5:\n\n" + groups(releases, seed(3)),
        "Curve at public times, squared error at one of them:\n\n" + kernel(releases // 2, seed(4)),
    ]
    if options.panel.exists():
        parts.append("Log wages, 4711 persons:\n\n" + wages(options.panel, releases))
    parts.append(f"{releases} releases a cell. {time.perf_counter() - start:.0f} s.")
    publish(
        "longitudinal",
        "Longitudinal models",
        "\n\n".join(parts),
        command="python benchmarks/longitudinal.py"
        + (f" --releases {releases}" if releases != 500 else ""),
    )


if __name__ == "__main__":
    main()
