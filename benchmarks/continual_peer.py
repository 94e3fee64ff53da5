"""Strategies of jax_privacy for a running mean, for comparison.

jax_privacy has an environment of its own. This script runs itself there (`--inside`), one process a
method, reads the fitted matrices back and evaluates all of them here, under the same min-separation
pattern and with the same error.

    python benchmarks/peers.py --setup --only jax
    python benchmarks/continual_peer.py
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from peers.environments import JAX
from report import publish, table

BAND = 64
LENGTHS = (1000, 10_000, 100_000, 1_000_000)
# method of the peer: its name in the table, and the longest stream on which it is tried
METHODS = {
    "toeplitz": ("banded Toeplitz, its own goal", 10_000),
    "toeplitz-mean": ("banded Toeplitz, told the running mean", 100_000),
    "buffered": ("buffered Toeplitz, its own goal", 10_000),
    "normalised-mean": ("column-normalised band, told the running mean", 1000),
    "dense-mean": ("dense fixed-epoch band, told the running mean", 1000),
}


def inside(method: str, n: int) -> None:
    """In the peer's environment: fit, and print what `evaluate` needs as JSON."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import banded, buffered_toeplitz, dense, toeplitz
    from jax_privacy.matrix_factorization import sensitivity as sensitivities
    from jax_privacy.matrix_factorization import streaming_matrix as sm

    t = jnp.arange(1, n + 1.0)
    k = math.ceil(n / BAND)
    wall, cpu = time.perf_counter(), time.process_time()
    found: dict[str, object] = {}
    if method.startswith("toeplitz"):
        goal = {"reduction_fn": lambda e: jnp.mean(e / t**2)} if "mean" in method else {}
        c = toeplitz.optimize_banded_toeplitz(n, bands=BAND, **goal)
        found["column"] = (c / c[0]).tolist()
    elif method == "buffered":
        c = buffered_toeplitz.optimize(
            n=n, min_sep=BAND, max_participations=k, error="mean", max_buffers=4
        ).toeplitz_coefs(n)
        found["column"] = (c / c[0]).tolist()
    elif method == "normalised-mean":
        workload = sm.multiply_streaming_matrices(sm.diagonal(1 / t), sm.prefix_sum())
        matrix = banded.optimize(n, bands=BAND, A=workload, max_optimizer_steps=150)
        errors = np.asarray(banded.per_query_error(matrix, workload))
        found["errors"] = (errors * k).tolist()
    else:
        # its fixed epochs must divide the length: a few steps more, then cut
        m = k * BAND
        rows = jnp.arange(1, m + 1.0)
        workload = jnp.tri(m) / rows[:, None]
        matrix = dense.optimize(m, epochs=k, bands=BAND, A=workload, max_optimizer_steps=200)
        errors = np.asarray(dense.per_query_error(strategy_matrix=matrix, workload_matrix=workload))
        squares = jnp.sum(matrix[:n, :n] ** 2, axis=0)
        worst = sensitivities.max_participation_for_linear_fn(squares, BAND, k)
        found["errors"] = (errors[:n] * float(worst)).tolist()
    found["wall"], found["cpu"] = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps(found))


def peer(
    python: str | None, method: str, n: int, limit: float, store: Path | None
) -> dict[str, object] | None:
    """What the peer found; None if it was not ready in `limit` seconds of processor time.

    Empty if there is neither an interpreter nor a stored fit.
    """
    kept = None if store is None else store / f"{method}-{n}.json"
    if kept is not None and kept.exists():
        return json.loads(kept.read_text())
    if python is None:
        return {}
    command = [python, __file__, "--inside", method, str(n)]
    bound = math.ceil(limit)

    def cap() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (bound, bound))

    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=cap)
    if done.returncode > 0:
        raise RuntimeError(done.stderr)
    found = None if done.returncode else json.loads(done.stdout.splitlines()[-1])
    if kept is not None:
        kept.write_text(json.dumps(found))
    return found


def ours(n: int) -> list[tuple[str, Callable[[], object]]]:
    from privmean.published.continual import best_toeplitz
    from privmean.streams.fit_strategies import fit, fit_loaded, fit_scaled
    from privmean.streams.toeplitz_matrices import Participation

    p = Participation(math.ceil(n / BAND), BAND)
    makers: list[tuple[str, Callable[[], object]]] = [
        ("front-loaded buffers", lambda: fit_loaded(p, n)),
        ("2 scaled buffers", lambda: fit_scaled(p, n)),
        ("3 buffers", lambda: fit(p, n, buffers=3)),
    ]
    if n <= 100_000:
        makers.append(("optimized Toeplitz", lambda: best_toeplitz(p, n)))
    return makers


def study(n: int, arguments: argparse.Namespace) -> list[list[object]]:
    """The rows of the table for one length."""
    from privmean.streams.strategies import Toeplitz
    from privmean.streams.toeplitz_matrices import Participation

    p = Participation(math.ceil(n / BAND), BAND)
    results: list[tuple[str, np.ndarray | None, float, float]] = []

    def squared(strategy) -> np.ndarray:
        variances = strategy.sensitivity(p, n) ** 2 * strategy.variances(n)
        return variances / np.arange(1.0, n + 1) ** 2

    for name, make in ours(n):
        wall, cpu = time.perf_counter(), time.process_time()
        strategy = make()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        results.append((f"privmean: {name}", squared(strategy), cpu, wall))
    for method, (name, longest) in METHODS.items():
        found = (
            {}
            if n > longest
            else peer(arguments.python, method, n, arguments.limit, arguments.store)
        )
        label = f"jax_privacy: {name}"
        if found == {}:
            continue
        if found is None:
            results.append((label, None, arguments.limit, math.nan))
        elif "column" in found:
            errors = squared(Toeplitz((1.0, *found["column"][1:])))
            results.append((label, errors, found["cpu"], found["wall"]))
        else:
            results.append((label, np.array(found["errors"]), found["cpu"], found["wall"]))
    best = min(math.sqrt(e.mean()) for name, e, *_ in results if name.startswith("privmean"))
    rows: list[list[object]] = []
    for name, errors, cpu, wall in results:
        if errors is None:
            rows.append([f"{n:,}", name, "not ready", "", "", "", f"over {cpu:.0f}", ""])
            continue
        rmse = math.sqrt(errors.mean())
        rows.append(
            [
                f"{n:,}",
                name,
                f"{rmse:.5f}",
                f"{rmse / best:.3f}",
                " / ".join(f"{math.sqrt(errors[at]):.3g}" for at in (0, 99, -1)),
                f"{math.sqrt(errors[n // 2 :].mean()):.3g}",
                f"{cpu:.2f}",
                f"{wall:.2f}",
            ]
        )
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=JAX.found, help="of an environment with jax_privacy")
    parser.add_argument("--inside", nargs=2, metavar=("METHOD", "N"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lengths", type=int, nargs="+", default=None)
    parser.add_argument("--limit", type=float, default=500.0, help="processor seconds a method")
    parser.add_argument("--store", type=Path, help="folder that keeps the peer's finished fits")
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside[0], int(arguments.inside[1]))
        return
    if arguments.python is None and arguments.store is None:
        print(f"{JAX.title} is not installed: python benchmarks/peers.py --setup --only {JAX.name}")
        return
    lengths = arguments.lengths or LENGTHS[: 2 if arguments.quick else None]
    rows = [row for n in lengths for row in study(n, arguments)]
    head = ["n", "strategy", "RMSE", "to our best", "step 1 / 100 / n", "RMSE, last half"]
    publish(
        "continual-peer",
        "Running means: design of strategies against jax_privacy",
        "Separation b=64, n/64 participations. Errors of the running mean with unit noise times "
        "the sensitivity under min-separation; its banded matrices are evaluated by its own "
        "functions, all Toeplitz columns by the same code as ours. Design times include "
        "compilation; processor seconds depend least on what else runs. Its methods run up to "
        "n=100,000 (banded Toeplitz told the running mean), 10,000 (its own goal, buffered) and "
        "1000 (column-normalised, whose evaluation at 10,000 ended in an error of its runtime, "
        "and dense), each for at most "
        f"{arguments.limit:.0f} processor seconds.\n\n"
        + table([*head, "design, processor s", "wall s"], rows),
        command="python benchmarks/continual_peer.py",
    )


if __name__ == "__main__":
    main()
