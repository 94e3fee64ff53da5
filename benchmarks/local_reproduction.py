"""Published and derived numbers of local estimation, measured again: quantiles, gains, slopes.

Usage: python benchmarks/local_reproduction.py [--quick]
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from privmean.local.aggregators.ball_law import mean_height
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.exact_coins import SimulatedEntropy, signal
from privmean.local.round_builders import items_round, mean_round, tau_sub_gaussian
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise
from privmean.published import (
    ball_mean,
    laplace_mean,
    randomized_response_mean,
    split_clients_as_printed,
)
from report import publish, table

NOISE = SimulatedNoise(20_251_121)
RNG = np.random.default_rng(20_251_121)
COINS = SimulatedEntropy(20_251_121)
NUMBERS = {
    "laplace": lambda x, **more: laplace_mean(x, -1, 1, weights="minimax", **more),
    "one-bit": lambda x, **more: randomized_response_mean(x, -1, 1, **more),
}


def close(measured: float, reference: float, error: float) -> str:
    """How many standard errors the measurement is off."""
    return f"{(measured - reference) / error:+.1f}"


def quantiles(runs: int) -> str:
    """quantile(err^2) sum min(1, eps^2)/ln(2/beta), P(X=1) = .65."""
    mixes = [
        (500, (0.1, 1.0), (0.9, 0.1), (8.21, 9.47, 11.36), (4.12, 4.76, 5.58)),
        (5000, (0.1, 1.0), (0.9, 0.1), (8.08, 9.44, 10.49), (4.02, 4.72, 5.45)),
        (100, (1.0,), (1.0,), (8.09, 9.27, 11.46), (4.07, 5.01, 5.91)),
        (500, (0.5, 2.0, 6.0), (0.4, 0.4, 0.2), (1.85, 2.18, 2.58), (1.23, 1.49, 1.71)),
    ]
    betas = (0.1, 0.05, 0.01)
    rows: list[list[object]] = []
    for n, levels, shares, laplace, bit in mixes:
        counts = np.round(np.array(shares) * n).astype(int)
        own = np.repeat(levels, counts)
        size = np.minimum(1, own**2).sum()
        for mechanism, reference in (("laplace", laplace), ("one-bit", bit)):
            squares = []
            misses, radii = np.zeros(3), np.zeros(0)
            for _ in range(runs):
                x = np.where(RNG.uniform(size=n) < 0.65, 1.0, -1.0)
                found = NUMBERS[mechanism](x, epsilon=own, entropy=COINS)
                error = abs(float(found.raw[0]) - 0.3)
                squares.append(error**2)
                if n == 5000 and not len(radii):  # the same for all data
                    radii = np.array([
                        NUMBERS[mechanism](x, epsilon=own, beta=b, entropy=COINS).radius
                        for b in betas
                    ])  # fmt: skip
                misses += error > radii if n == 5000 else 0
            got = [np.quantile(squares, 1 - b) * size / math.log(2 / b) for b in betas]
            cells = [f"{g:.2f} ({r:.2f})" for g, r in zip(got, reference, strict=True)]
            miss = " ".join(f"{m / runs:.4f}" for m in misses) if n == 5000 else ""
            rows.append(
                [f"{n}: {levels}", mechanism, *cells, 18 if mechanism == "laplace" else 9.4, miss]
            )
    return table(
        [
            "clients",
            "mechanism",
            "beta .1 (ref.)",
            ".05 (ref.)",
            ".01 (ref.)",
            "bound",
            "miss rates",
        ],
        rows,
    )


def gains(runs: int) -> str:
    """Variance of uniform weights over minimax weights, 90 % epsilon .1, 10 % epsilon 1."""
    n = 2000
    own = np.where(np.arange(n) < 0.9 * n, 0.1, 1.0)
    round_ = mean_round(-1, 1, epsilon=[0.1, 1], persons=n, mechanism="one-bit")
    rows: list[list[object]] = []
    for mechanism, reference in (("one-bit", 8.522), ("laplace", 8.831), ("ball, d=5", 8.522)):
        best, flat = [], []
        for _ in range(runs):
            x = RNG.choice([-1.0, 1.0], n)
            if mechanism == "one-bit":
                counted = tally_many(round_, x, epsilon=own, noise=NOISE)
                best.append((estimate(counted, weights="minimax").raw ** 2).sum())
                flat.append((estimate(counted, weights="uniform").raw ** 2).sum())
                continue
            for weights, kept in (("minimax", best), ("uniform", flat)):
                more = {"epsilon": own, "weights": weights, "entropy": COINS}
                if mechanism == "laplace":
                    found = laplace_mean(x, -1, 1, **more)
                else:
                    found = ball_mean(np.zeros((n, 5)), 1, 5, **more)
                kept.append((found.raw**2).sum())
        gain = np.mean(flat) / np.mean(best)
        spread = np.array([np.std(kept) / np.mean(kept) for kept in (best, flat)])
        error = gain * float(np.sqrt((spread**2).sum() / runs))
        rows.append(
            [mechanism, f"{gain:.3f} +- {error:.3f}", reference, close(gain, reference, error)]
        )
    return table(["mechanism", "gain", "exact", "standard errors off"], rows)


def slopes(runs: int) -> str:
    """S ||err||^2 of the ball mechanism, n=300, epsilon 1: additive in ln(1/beta), not a factor."""
    reference = {
        5: (6.00, 12.76, 20.75, 3.49, 3.61),
        20: (29.3, 43.3, 56.8, 5.82, 6.08),
        80: (123.7, 149.9, 173.8, 10.4, 10.7),
    }
    rows: list[list[object]] = []
    for d, (half, tenth, hundredth, slope, predicted) in reference.items():
        x = np.zeros((300, d))
        x[:, 0] = 1
        values = []
        for _ in range(runs):
            error = ball_mean(x, 1, d, epsilon=1, entropy=COINS).raw - x[0]
            values.append(300 * signal(1) ** 2 * (error**2).sum())
        q = [np.quantile(values, 1 - b) for b in (0.5, 0.1, 0.01)]
        betas = np.geomspace(0.01, 0.1, 12)
        fit = np.polyfit(np.log(1 / betas), [np.quantile(values, 1 - b) for b in betas], 1)[0]
        cells = [f"{a:.2f} ({b})" for a, b in zip(q, (half, tenth, hundredth), strict=True)]
        factor = 1 / mean_height(d) ** 2
        rows.append([d, *cells, f"{fit:.2f} ({slope}; predicted {predicted})", f"{factor:.1f}"])
    return table(
        ["d", "beta .5 (ref.)", ".1 (ref.)", ".01 (ref.)", "slope (ref.)", "if it were a factor"],
        rows,
    )


def mixed_balls(runs: int) -> str:
    """E S ||err||^2 = d/(d h^2) ... - S ||theta||^2 sum w^2 with epsilon .2, 1, 3."""
    n, rows = 300, []
    own = np.repeat([0.2, 1.0, 3.0], [180, 90, 30])
    t2 = np.array([signal(e) for e in own]) ** 2
    more = {"epsilon": own, "weights": "minimax", "entropy": COINS}
    s = t2.sum()
    for d in (2, 5, 20, 80):
        x = np.zeros((n, d))
        x[:, 0] = 0.5
        values = [s * ((ball_mean(x, 1, d, **more).raw - x[0]) ** 2).sum() for _ in range(runs)]
        exact = 1 / mean_height(d) ** 2 - s * 0.25 * ((t2 / s) ** 2).sum()
        error = np.std(values) / math.sqrt(runs)
        rows.append(
            [
                d,
                f"{np.mean(values):.3f} +- {error:.3f}",
                f"{exact:.3f}",
                close(np.mean(values), exact, error),
            ]
        )
    return table(["d", "measured", "exact", "standard errors off"], rows)


def frequencies(runs: int) -> str:
    """Hadamard rows, 70 % epsilon .5 and 30 % epsilon 1.5: the largest error."""
    rows: list[list[object]] = []
    zipf = 1 / np.arange(1, 257)
    zipf /= zipf.sum()
    logs = []
    for n, reference, error in (
        (10_000, 0.07592, 0.00115),
        (40_000, 0.03748, 0.00069),
        (160_000, 0.01866, 0.00037),
        (640_000, 0.00957, 0.00025),
    ):
        own = np.where(np.arange(n) < 0.7 * n, 0.5, 1.5)
        round_ = items_round(256, epsilon=[0.5, 1.5], persons=n)
        values = []
        for _ in range(runs):
            items = RNG.choice(256, n, p=zipf)
            raw = estimate(tally_many(round_, items, epsilon=own, noise=NOISE)).raw
            values.append(abs(raw - zipf).max())
        mine = np.std(values) / math.sqrt(runs)
        logs.append((math.log(n), math.log(np.mean(values))))
        off = close(np.mean(values), reference, math.hypot(mine, error))
        rows.append([f"zipf, d=256, n={n}", f"{np.mean(values):.5f} +- {mine:.5f}", reference, off])
    slope = np.polyfit(*np.array(logs).T, 1)[0]
    rows.append(["slope of log error in log n", f"{slope:.3f}", -0.498, ""])
    n = 40_000
    own = np.where(np.arange(n) < 0.7 * n, 0.5, 1.5)
    s = sum(signal(e) ** 2 for e in own.tolist())
    for d, reference, error in (
        (16, 1.99, 0.07), (64, 2.53, 0.07), (256, 3.02, 0.05), (1024, 3.45, 0.05),
        (4096, 3.75, 0.05), (16384, 4.14, 0.04),
    ):  # fmt: skip
        round_ = items_round(d, epsilon=[0.5, 1.5], persons=n)
        values = []
        for _ in range(runs):
            raw = estimate(tally_many(round_, RNG.integers(0, d, n), epsilon=own, noise=NOISE)).raw
            values.append(math.sqrt(s) * abs(raw - 1 / d).max())
        mine = np.std(values) / math.sqrt(runs)
        off = close(np.mean(values), reference, math.hypot(mine, error))
        rows.append(
            [
                f"uniform, d={d}: times sqrt(S)",
                f"{np.mean(values):.2f} +- {mine:.2f}",
                reference,
                off,
            ]
        )
    return table(["setting", "largest error", "reference", "standard errors off"], rows)


def sketches(runs: int) -> str:
    """Sketch against Hadamard rows, n=20 000, d=512: the price of the sketch's bias."""
    n, rows = 20_000, []
    own = np.where(np.arange(n) < 0.7 * n, 0.5, 1.5)
    s = sum(signal(e) ** 2 for e in own.tolist())
    zipf = 1 / np.arange(1, 513)
    point = np.full(512, 0.1 / 511)
    point[0] = 0.9
    for name, p in (("zipf", zipf / zipf.sum()), ("point mass .9", point)):
        errors = {}
        for label, m in (("hadamard", 0), ("S/4", s / 4), ("S", s), ("4S", 4 * s)):
            values = []
            for _ in range(runs):
                rounded = 2 ** round(math.log2(m)) if m else None
                options = {"mechanism": "sketch", "rows": rounded} if m else {}
                round_ = items_round(512, epsilon=[0.5, 1.5], persons=n, **options)
                items = RNG.choice(512, n, p=p)
                raw = estimate(tally_many(round_, items, epsilon=own, noise=NOISE)).raw
                values.append(abs(raw - p).max())
            errors[label] = np.mean(values)
        base = errors["hadamard"]
        rows.append([name, f"{base:.4f}", *(f"{errors[k] / base:.2f}" for k in ("S/4", "S", "4S"))])
    rows.append(["reference, point mass", "0.0582", 1.98, 1.40, 1.11])
    return table(["distribution", "hadamard", "rows S/4: ratio", "rows S", "rows 4S"], rows)


def two_round_error(n: int, tau: float, runs: int, options: dict | None) -> str:
    """Mean squared error of the raw estimate over uniform centres; no options: as printed."""
    values = []
    for _ in range(runs):
        mu = RNG.uniform(-25, 25)
        x = mu + RNG.normal(size=n)
        if options is None:
            found = split_clients_as_printed(x, 50, tau=tau, epsilon=1, entropy=COINS)
        else:
            protocol = WinsorizedRounds.of(
                -50, 50, tau=tau, epsilon=1, persons=n, unclear="winner", **options
            )
            found = protocol.run(x, epsilon=1, noise=NOISE)
        values.append((float(found.raw[0]) - mu) ** 2)
    return f"{np.mean(values):.4g} +- {np.std(values) / math.sqrt(runs):.1g}"


def two_rounds(runs: int) -> str:
    """Unbounded values, B=50, 11 bins, mu uniform on +-25, epsilon 1: MSE."""
    rows: list[list[object]] = []
    for n, fixed in ((1000, 6.16), (2000, 3.26), (5000, 1.41), (20_000, 0.42)):
        tau = tau_sub_gaussian(1, n)
        small = math.sqrt(2 * math.log(8))
        tight = {"half_width": small, "reach": tau + 2 * small, "shares": (30, 70)}
        cells = [(None, fixed), (tight, None)]
        row: list[object] = [n]
        for options, reference in cells:
            known = "" if reference is None else f" ({reference})"
            row.append(two_round_error(n, tau, runs, options) + known)
        rows.append(row)
    return table(
        ["n", "everybody twice, as printed (ref.)", "30/70, small bins, subset, hybrid"],
        rows,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    quick = parser.parse_args().quick
    part = 10 if quick else 1
    text = "\n\n".join(
        [
            "### Quantiles of the squared error of a mean\n\nTimes the sum of min(1, eps^2), over "
            "ln(2/beta); the proved bounds must not be exceeded. Miss rates of the radii at beta "
            ".1, .05, .01.\n\n" + quantiles(400 // part),
            "### Gain of minimax over uniform weights\n\n" + gains(300 // part),
            "### Vectors: the failure probability adds, it does not multiply\n\n"
            + slopes(600 // part),
            "### Vectors, mixed epsilon\n\n" + mixed_balls(300 // part),
            "### Frequencies by Hadamard rows\n\n" + frequencies(10 // min(part, 5)),
            "### Sketch against Hadamard rows\n\n" + sketches(24 // min(part, 8)),
            "### Unbounded values in two rounds\n\n" + two_rounds(40 // part),
        ]
    )
    command = "python benchmarks/local_reproduction.py" + (" --quick" if quick else "")
    publish("local-reproduction", "Local estimation: reference numbers", text, command=command)


if __name__ == "__main__":
    main()
