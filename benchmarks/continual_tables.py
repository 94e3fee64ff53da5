"""Tables and figures of Kalinin, Najar, Roth and Lampert (2026), recomputed from the public API.

Table 2, figures 1 and 2 (error of strategies by length) and figure 3 (against withhold-release and
binary trees). All numbers are exact variances; nothing is drawn.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from privmean.privacy.gdp import gaussian_mu
from privmean.published.continual import (
    BandedInverse,
    best_banded_inverse,
    best_decaying,
    best_toeplitz,
    table_2_strategies,
)
from privmean.streams.fit_strategies import fit, fit_loaded, fit_scaled
from privmean.streams.strategies import Banded, Identity, MeanToeplitz, PrefixRoot
from privmean.streams.strategy_error import ErrorGoal
from privmean.streams.toeplitz_matrices import Participation
from privmean.streams.withhold_release import plan_levels
from report import publish, table

N = 8192
PRINTED = {
    "I": (0.068, 0.137, 0.274),
    "E½": (0.072, 0.221, 0.813),
    "D_toep": (0.042, 0.086, 0.186),
    "ν-DP-FTRL": (0.043, 0.086, 0.172),
    "E½ banded, p=⌊ln b⌋": (0.047, 0.094, 0.196),
    "D_toep banded, p=b": (0.042, 0.084, 0.169),
    "E½ banded inverse, p=⌊ln b⌋": (0.045, 0.089, 0.179),
    "D_toep banded inverse, p=b": (0.042, 0.085, 0.172),
}


def table_2() -> str:
    rows: list[list[object]] = []
    exact: dict[str, list[float]] = {name: [] for name in PRINTED}
    extra: dict[str, list[float]] = {}
    for k in (4, 16, 64):
        p = Participation(k, N // k)
        for name, strategy in table_2_strategies(p, N).items():
            exact[name].append(strategy.rmse(p, N))
        for name, strategy in (
            ("optimized Toeplitz", best_toeplitz(p, N)),
            ("ours: 2 buffers", fit(p, N, buffers=2)),
            ("ours: 2 buffers scaled in time", fit_scaled(p, N, buffers=2)),
            ("ours: front-loaded", fit_loaded(p, N)),
        ):
            extra.setdefault(name, []).append(strategy.rmse(p, N))
    agree = 0
    for name, values in exact.items():
        printed = PRINTED[name]
        same = [f"{a:.3f}" == f"{b:.3f}" for a, b in zip(values, printed, strict=True)]
        # the row of nu-DP-FTRL stands in all three blocks of the published table
        agree += sum(same) * (3 if name.startswith("ν") else 1)
        rows.append([name, *(f"{v:.6f}" for v in values), " ".join(f"{v:.3f}" for v in printed)])
    for name, values in extra.items():
        rows.append([name, *(f"{v:.6f}" for v in values), ""])
    head = ["strategy", "k=4", "k=16", "k=64", "printed"]
    return (
        f"Table 2, n={N}, b=n/k. {agree} of 30 printed cells agree to the printed digit; E½ at k=4 "
        "(.07258) and E½ banded at k=4 (.04649) are printed one unit lower and higher.\n\n"
        + table(head, rows)
    )


def figure_1(quick: bool) -> str:
    once = Participation(1, 1)
    rows: list[list[object]] = []
    for n in (64, 256, 1024, 4096) if quick else (64, 256, 1024, 4096, 16384):
        best = best_toeplitz(once, n).rmse(once, n)
        ratio = [
            strategy.rmse(once, n) / best
            for strategy in (
                Identity(),
                PrefixRoot(),
                best_decaying(once, n),
                MeanToeplitz(),
                fit(once, n, buffers=3),
                fit_scaled(once, n, buffers=2),
            )
        ]
        rows.append([n, *(f"{r:.4f}" for r in ratio), f"{best:.5f}"])
    head = ["n", "I", "E½", "ν*", "D_toep", "3 buffers", "2 scaled", "best Toeplitz"]
    return "Figure 1: one participation, ratio to the best Toeplitz strategy.\n\n" + table(
        head, rows
    )


def figure_2(quick: bool) -> str:
    rows: list[list[object]] = []
    for n in (256, 1024, 4096) if quick else (256, 1024, 4096, 16384, 65536):
        p = Participation(16, n // 16)
        banded = Banded(MeanToeplitz(), p.separation).rmse(p, n)
        e_inverse = best_banded_inverse(PrefixRoot(), p, n)
        strategies = [
            MeanToeplitz(),
            BandedInverse(MeanToeplitz(), p.separation),
            best_banded_inverse(MeanToeplitz(), p, n),
            e_inverse,
            best_decaying(p, n),
            PrefixRoot(),
            fit_scaled(p, n, buffers=2),
            fit_loaded(p, n),
        ]
        ratio = [strategy.rmse(p, n) / banded for strategy in strategies]
        rows.append([n, *(f"{r:.4f}" for r in ratio), f"{banded:.5f}"])
    head = ["n", "D full", "D inv p=b", "D inv best p", "E½ inv best p", "ν*", "E½ full"]
    return "Figure 2: k=16, b=n/16, ratio to D_toep banded (p=b).\n\n" + table(
        [*head, "2 scaled", "front-loaded", "D banded"], rows
    )


# --- figure 3: Bernoulli(1/2) items, round robin; c0 = zeta = 1/2; values zeroed -----------------

EPSILON, DELTA = 1.0, 1e-6


def three(sd: np.ndarray) -> str:
    """RMSE over all steps, over steps from 100 on, and at the last step."""
    late = math.sqrt(float((sd[99:] ** 2).mean()))
    return f"{math.sqrt(float((sd**2).mean())):.4f} / {late:.4f} / {sd[-1]:.4f}"


def algorithm_1(strategy, persons: int, most: int) -> np.ndarray:
    n = persons * most
    p = Participation(most, persons)
    unit = 0.5 / gaussian_mu(EPSILON, DELTA) * strategy.sensitivity(p, n)
    return unit * np.sqrt(strategy.variances(n)) / np.arange(1, n + 1)


def naive_tree(persons: int, most: int) -> np.ndarray:
    n = persons * most
    scale = 0.5 * most * math.ceil(math.log2(n + 1)) / EPSILON
    t = np.arange(1, n + 1)
    nodes = np.array([int(item).bit_count() for item in t])
    return math.sqrt(2) * scale * np.sqrt(nodes) / t


def counts_of_levels(persons: int, most: int) -> tuple[list[int], np.ndarray]:
    """Widths of the levels, and how many persons have submitted to each after every arrival."""
    levels = most.bit_length()
    widths = [max(1, (1 << i) >> 1) for i in range(levels)]
    t = np.arange(1, persons * most + 1)
    counts = np.stack([np.clip(t - persons * ((1 << i) - 1), 0, persons) for i in range(levels)])
    return widths, counts


def withhold(persons: int, most: int, variances, sigmas) -> np.ndarray:
    widths, counts = counts_of_levels(persons, most)
    square = np.zeros(persons * most)
    held = np.zeros(persons * most)
    padded = np.concatenate([[0.0], variances])
    for width, count, sigma in zip(widths, counts, sigmas, strict=True):
        square += (width * sigma * 0.5) ** 2 * padded[count]
        held += width * count
    return np.sqrt(square) / held


def joint(persons: int, most: int, strategy, late: float) -> np.ndarray:
    """From a plan of the package; half its noise: values are zeroed here, not replaced."""
    plan = plan_levels(
        epsilon=EPSILON,
        delta=DELTA,
        max_records=most,
        persons=persons,
        bounds=(0.0, 1.0),
        strategy=strategy,
        late=late,
    )
    lattice = plan.levels[0].mechanism.lattice
    unit = 2.0**-lattice.row_bits / 2  # one step of the lattice, in units of the radius; zeroing
    sigmas = [level.mechanism.noise_step * unit for level in plan.levels]
    return withhold(persons, most, lattice.strategy.variances(persons), sigmas)


def figure_3(quick: bool) -> str:
    cells = [(1000, 8)] if quick else [(1000, 8), (256, 32), (1000, 64)]
    rows: dict[str, list[str]] = {}

    def add(name: str, sd: np.ndarray) -> None:
        rows.setdefault(name, []).append(three(sd))

    for persons, most in cells:
        n, p = persons * most, Participation(most, persons)
        short = int(math.log(persons))
        add(
            "Alg. 1, D_toep inverse p=b",
            algorithm_1(BandedInverse(MeanToeplitz(), persons), persons, most),
        )
        add(
            "Alg. 1, E½ inverse p=⌊ln b⌋",
            algorithm_1(BandedInverse(PrefixRoot(), short), persons, most),
        )
        add("Alg. 1, E½ banded p=b", algorithm_1(Banded(PrefixRoot(), persons), persons, most))
        add("ours: 2 buffers scaled in time", algorithm_1(fit_scaled(p, n), persons, most))
        add("ours: front-loaded", algorithm_1(fit_loaded(p, n), persons, most))
        add(
            "ours: front-loaded, t≥100",
            algorithm_1(fit_loaded(p, n, ErrorGoal(100)), persons, most),
        )
        add("ours: 3 buffers, t≥100", algorithm_1(fit(p, n, ErrorGoal(100)), persons, most))
        add("tree, pure, naive", naive_tree(persons, most))
        levels = most.bit_length()
        root = PrefixRoot().variances(persons)
        tree = np.array([int(item).bit_count() for item in range(1, persons + 1)], dtype=float)
        pure = math.sqrt(2) * math.ceil(math.log2(persons + 1)) * levels / EPSILON
        add("withhold, pure", withhold(persons, most, tree, [pure] * levels))
        # equal shares and the classical noise; the whole budget, as no interval is bought
        classical = math.sqrt(2 * math.log(1.25 * levels / DELTA)) * levels / EPSILON
        norm = float(np.linalg.norm(PrefixRoot().column(persons)))
        add(
            "withhold, Gaussian, published split",
            withhold(persons, most, root, [classical * norm] * levels),
        )
        add("ours: withhold, joint, E½", joint(persons, most, PrefixRoot(), 0.0))
        add("ours: withhold, joint, D_toep", joint(persons, most, MeanToeplitz(), 0.0))
        add("ours: withhold, joint, scaled", joint(persons, most, None, 0.0))
        add("ours: withhold, joint, E½, late", joint(persons, most, PrefixRoot(), 1.0))
    head = ["method", *(f"N={persons}, m={most}" for persons, most in cells)]
    return (
        "Figure 3: [0,1] values, round robin, ε=1, δ=1e-6; RMSE of the noise over all steps / from "
        "step 100 on / at the last step.\n\n"
        + table(head, [[name, *values] for name, values in rows.items()])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    start = time.perf_counter()
    parts = [table_2(), figure_1(quick), figure_2(quick), figure_3(quick)]
    parts.append(f"All of it took {time.perf_counter() - start:.1f} s.")
    publish(
        "continual-tables",
        "Running means: published tables and figures",
        "\n\n".join(parts),
        command="python benchmarks/continual_tables.py",
    )


if __name__ == "__main__":
    main()
