"""Strategies of jax_privacy for a running mean, for comparison.

jax_privacy is not a dependency: give the interpreter of an environment that has it. This script
runs itself there (`--inside`), reads the fitted columns back and evaluates all of them here, with
the same sensitivity and the same error.

    python -m venv peer && peer/bin/pip install jax_privacy
    python benchmarks/continual_peer.py --python peer/bin/python
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time


def inside(n: int, b: int, normalised: bool) -> None:
    """In the peer's environment: fit, and print columns and seconds as JSON."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import banded, buffered_toeplitz, toeplitz
    from jax_privacy.matrix_factorization import streaming_matrix as sm

    t = jnp.arange(1, n + 1.0)
    found: dict[str, object] = {}

    start = time.perf_counter()
    c = toeplitz.optimize_banded_toeplitz(n, bands=b)
    seconds = time.perf_counter() - start
    found["banded Toeplitz, its own goal"] = [seconds, (c / c[0]).tolist()]

    start = time.perf_counter()
    c = toeplitz.optimize_banded_toeplitz(
        n, bands=b, reduction_fn=lambda errors: jnp.mean(errors / t**2)
    )
    seconds = time.perf_counter() - start
    found["banded Toeplitz, told the running mean"] = [seconds, (c / c[0]).tolist()]

    if n <= 10_000:  # longer ones take minutes
        start = time.perf_counter()
        blt = buffered_toeplitz.optimize(
            n=n, min_sep=b, max_participations=math.ceil(n / b), error="mean", max_buffers=4
        )
        c = blt.toeplitz_coefs(n)
        seconds = time.perf_counter() - start
        found["buffered Toeplitz, its own goal"] = [seconds, (c / c[0]).tolist()]

    if normalised:
        start = time.perf_counter()
        workload = sm.multiply_streaming_matrices(sm.diagonal(1 / t), sm.prefix_sum())
        matrix = banded.optimize(n, bands=b, A=workload, max_optimizer_steps=150)
        error = float(jnp.mean(banded.per_query_error(matrix, workload)))
        seconds = time.perf_counter() - start
        rmse = math.sqrt(error * math.ceil(n / b))
        found["column-normalised, told the running mean"] = [seconds, rmse]
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="interpreter of an environment with jax_privacy")
    parser.add_argument("--inside", nargs=3, metavar=("N", "B", "NORMALISED"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lengths", type=int, nargs="+")
    arguments = parser.parse_args()
    if arguments.inside:
        n, b, normalised = (int(item) for item in arguments.inside)
        inside(n, b, bool(normalised))
        return

    import numpy as np

    from privmean.continual.buffered import fit
    from privmean.continual.optimize import best_toeplitz
    from privmean.continual.scaled import fit_scaled
    from privmean.continual.scaled_banded import fit_scaled_banded
    from privmean.continual.sensitivity import Participation
    from privmean.continual.strategies import Toeplitz
    from report import publish, table

    b = 64
    rows: list[list[object]] = []
    lengths = [1000, 10_000] if arguments.quick else [1000, 10_000, 100_000, 1_000_000]
    for n in arguments.lengths or lengths:
        p = Participation(math.ceil(n / b), b)
        ours = [
            ("privmean: 2 scaled buffers", lambda n=n, p=p: fit_scaled(p, n)),
            ("privmean: 3 buffers", lambda n=n, p=p: fit(p, n, buffers=3)),
            ("privmean: optimised Toeplitz", lambda n=n, p=p: best_toeplitz(p, n)),
        ]
        if n <= 10_000:
            ours.insert(0, ("privmean: scaled band", lambda n=n, p=p: fit_scaled_banded(p, n)))
        results: list[tuple[str, float, float]] = []
        for name, make in ours:
            start = time.perf_counter()
            strategy = make()
            seconds = time.perf_counter() - start
            results.append((name, strategy.rmse(p, n), seconds))
        if arguments.python and n <= 100_000:
            command = [arguments.python, __file__, "--inside", str(n), str(b), str(int(n <= 1000))]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for name, (seconds, fitted) in json.loads(output.splitlines()[-1]).items():
                if isinstance(fitted, list):
                    column = np.array(fitted)
                    error = Toeplitz((1.0, *column[1:].tolist())).rmse(p, n)
                else:
                    error = fitted
                results.append((f"jax_privacy: {name}", error, seconds))
        for result in results:
            print(n, *result, file=sys.stderr, flush=True)
        best = min(error for name, error, _ in results if name.startswith("privmean"))
        for name, error, seconds in results:
            ratio = f"{error / best:.4f}"
            rows.append([f"{n:,}", name, f"{error:.5f}", ratio, f"{seconds:.2f}"])
    head = ["n", "strategy", "RMSE, b=64, k=n/64", "ratio to our best", "design, s"]
    publish(
        "continual-peer",
        "Running means: design of strategies against jax_privacy",
        "RMSE is sensitivity times the normalised Frobenius norm of the running mean, every "
        "strategy evaluated by the same code. Design time includes compilation.\n\n"
        + table(head, rows),
        command=f"python {' '.join(sys.argv[:1])} --python <environment with jax_privacy>",
    )


if __name__ == "__main__":
    main()
