"""Central against local privacy: Figure 4 of Roth and Avella-Medina (2025), published and improved.

    python benchmarks/local_central.py [--quick]

Persons' values are standard normal around a mean drawn from [-25, 25]; clients know that it lies
in [-50, 50]. Slopes are of log error against log n; a cell passes within 4 standard errors of its
reference value.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from privmean.local import WinsorizedRounds
from privmean.local.exact_coins import SimulatedEntropy
from privmean.noise.noise_source import SimulatedNoise
from privmean.published import split_clients_as_printed
from report import publish, table
from winsorized import iid, improved, published, run, tau

SIZES = (1000, 2000, 5000, 20_000)
# mean squared errors: the printed central algorithm; the local one with its budget passed on once
CENTRAL = {1000: (7.1e-3, 0.3e-3), 5000: (4.8e-4, 0.2e-4), 20_000: (7.0e-5, 0.3e-5)}
LOCAL = {1000: (6.16, 0.27), 2000: (3.26, 0.15), 5000: (1.41, 0.07), 20_000: (0.42, 0.02)}
SMALL_LOCAL = {1000: 6.3e3, 5000: 7.6e3, 20_000: 8.6e3}


def local(n: int, epsilon: float, runs: int, seed: int, *, as_printed: bool) -> tuple[float, float]:
    """Mean squared error of two rounds and its standard error, wrong bins included."""
    dice, squares = np.random.default_rng(seed), []
    for k in range(runs):
        centre = dice.uniform(-25, 25)
        values = centre + iid(n, dice)
        if as_printed:
            coins = SimulatedEntropy(seed + k)
            answer = split_clients_as_printed(
                values, 50, tau=tau(n), epsilon=epsilon, entropy=coins
            )
        else:
            protocol = WinsorizedRounds.of(
                -50, 50, tau=tau(n), epsilon=epsilon, persons=n, seed=bytes(dice.bytes(32))
            )
            answer = protocol.run(values, epsilon=epsilon, noise=SimulatedNoise(seed + k))
        squares.append((float(answer.raw[0]) - centre) ** 2)
    return float(np.mean(squares)), float(np.std(squares)) / math.sqrt(runs)


def shown(found: tuple[float, float]) -> str:
    return f"{found[0]:.3g} ± {found[1]:.1g}"


def verdict(found: tuple[float, float], wanted: tuple[float, float] | None) -> str:
    if wanted is None:
        return ""
    gap = abs(found[0] - wanted[0]) / math.hypot(found[1], wanted[1])
    return f"{wanted[0]:.3g}: " + ("pass" if gap <= 4 else f"FAIL ({gap:.1f} s.e.)")


def slope(errors: dict[int, float]) -> str:
    known = [(n, e) for n, e in errors.items() if math.isfinite(e)]
    if len(known) < 2:
        return ""
    return f"{np.polyfit(*np.log(np.array(known)).T, 1)[0]:.2f}"


def figure(epsilon_of: str, runs: int, rng: np.random.Generator) -> str:
    rows: list[list[object]] = []
    errors: list[dict[int, float]] = [{}, {}, {}, {}]
    for n in SIZES:
        epsilon = 1.0 if epsilon_of == "1" else round(n**-0.5, 6)
        cell = run(published(n, epsilon), iid, n, runs, rng)
        central = (cell.mse, cell.error)
        plan = improved(n, epsilon)
        new = run(plan, iid, n, runs, rng) if plan else None
        better = (new.mse, new.error) if new else (math.nan, math.nan)
        printed = local(n, epsilon, runs, 7 * n, as_printed=True)
        ours = local(n, epsilon, runs, 11 * n, as_printed=False)
        for kept, found in zip(errors, (central, better, printed, ours), strict=True):
            kept[n] = found[0]
        one = epsilon_of == "1"
        rows.append(
            [
                n,
                shown(central) + (f" ({cell.failures:.0%} failed)" if cell.failures else ""),
                verdict(central, CENTRAL.get(n) if one else None),
                shown(better) if new else "refused: too few persons",
                shown(printed),
                verdict(printed, LOCAL.get(n)) if one else f"{SMALL_LOCAL.get(n, '')}",
                shown(ours),
            ]
        )
    rows.append(
        ["slope", slope(errors[0]), "", slope(errors[1]), slope(errors[2]), "", slope(errors[3])]
    )
    return table(
        [
            "n",
            "central, as printed",
            "reference",
            "central, default",
            "local, as printed",
            "reference",
            "local, default",
        ],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    runs = 20 if parser.parse_args().quick else 60
    rng = np.random.default_rng(4)
    text = "\n\n".join(
        [
            f"Mean squared error, {runs} runs a cell. Centrally, of the runs that found a "
            "location; locally, of all runs (a wrong bin counts), with the printed budget passed "
            "on once. At epsilon 1 both fall like 1/n (slope -1) or faster. At epsilon 1/sqrt(n) "
            "the central one has errors of order 1 once it finds a location (its printed threshold "
            "needs some 20,000 persons for that); the local one's stay as wide as the range and do "
            "not fall.",
            "### Epsilon 1",
            figure("1", runs, rng),
            "### Epsilon 1/sqrt(n)",
            figure("1/sqrt(n)", runs, rng),
        ]
    )
    command = "python benchmarks/local_central.py" + (" --quick" if runs == 20 else "")
    publish("local-central", "Central against local privacy", text, command=command)


if __name__ == "__main__":
    main()
