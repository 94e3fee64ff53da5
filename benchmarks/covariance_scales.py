"""Columns of different units under a public covariance: errors by what counts as an error.

    python benchmarks/covariance_scales.py [--runs 60]

Normal values of deviations .5, 10 and 10,000, 3,000 people, epsilon 1, delta 1e-6, a fresh sample
each run: root mean square errors of each column in standard errors of its plain mean. `same` counts
columns in their own units, `sd` in their deviations, both by the anisotropic method alone; `chosen`
is what `assume=Covariance(...)` takes; `nothing` is told nothing.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np

import privmean as pm
from report import publish, table

SD, MEAN, PEOPLE = np.array([0.5, 10.0, 1e4]), np.array([3.0, 40.0, 3e4]), 3000
WAYS: dict[str, dict[str, Any]] = {
    "same": {"assume": pm.Covariance(SD**2, scales="same"), "method": "anisotropic"},
    "sd": {"assume": pm.Covariance(SD**2), "method": "anisotropic"},
    "chosen": {"assume": pm.Covariance(SD**2)},
    "nothing": {},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    runs, start = parser.parse_args().runs, time.process_time()
    rng = np.random.default_rng(4)
    errors: dict[str, list[np.ndarray]] = {name: [] for name in WAYS}
    held = dict.fromkeys(WAYS, 0)
    methods = dict.fromkeys(WAYS, "")
    for seed in range(runs):
        x = MEAN + SD * rng.standard_normal((PEOPLE, 3))
        for name, how in WAYS.items():
            found = pm.mean(x, epsilon=1, delta=1e-6, noise=pm.SimulatedNoise(seed), **how)
            errors[name].append((np.array(found.estimate) - MEAN) / (SD / math.sqrt(PEOPLE)))
            ends = found.interval()
            held[name] += bool(np.all((ends.lower <= MEAN) & (ends.upper >= MEAN)))
            methods[name] = found.estimator
    rms = {name: np.sqrt(np.mean(np.square(item), axis=0)) for name, item in errors.items()}
    rows: list[list[object]] = [
        [name, methods[name], *(f"{x:.2f}" for x in rms[name]), f"{held[name]}/{runs}"]
        for name in WAYS
    ]
    head = ["told", "method", "sd 0.5", "sd 10", "sd 10000", "box holds all means"]
    ratio = float(rms["same"][0] / rms["chosen"][0])
    facts = {
        "runs": runs,
        "people": PEOPLE,
        "processor_seconds": round(time.process_time() - start, 1),
        "errors": {name: item.round(3).tolist() for name, item in rms.items()},
        "held": held,
        "methods": methods,
    }
    words = "RMS errors in standard errors. The error of the first column under `same` is "
    words += f"{ratio:.0f} times that of the chosen method."
    publish(
        "covariance-scales",
        f"Columns of different scales, {runs} runs",
        f"{words}\n\n{table(head, rows)}",
        command=f"python benchmarks/covariance_scales.py --runs {runs}",
        data=facts,
    )


if __name__ == "__main__":
    main()
