"""OpenDP: inside its own environment.

person means   the recipe of its documentation on identifiers: group by the person, average, then a
               private mean (its Polars interface; the number of persons is private)
person means, centred by the user   the same after subtracting the public midpoint
records, at most 10 each            its truncation route: ten records a person at random, then a
                                    private mean of records
person means, size public           clamp, mean of a known number of values, Laplace (its
                                    constructors; the persons are averaged by NumPy)
means by group              its group_by over public keys, one row a person; or centred as above
"""

import numpy as np
import opendp.prelude as dp
import polars as pl
from wire import serve

dp.enable_features("contrib", "honest-but-curious")
MOST = 10**6  # a public bound on the number of records; 10**8 would add noise for rounding
CAP = 10


def _context(frame, epsilon, most=MOST):
    return dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person")),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=most)],
    )


def _answers(query, frame, runs):
    measurement = query.resolve()  # the plan and its noise are found once, the noise is drawn anew
    return [measurement(frame).collect().item() for _ in range(runs)]


def _frame(records):
    return pl.LazyFrame({"person": records.person, "value": records.value})


def person_means(task, records, shift=0.0):
    frame = _frame(records)
    bounds = (task.lower - shift, task.upper - shift)
    query = (
        _context(frame, task.epsilon)
        .query()
        .group_by(pl.col("person"))
        .agg(pl.col("value").mean() - shift)
        .select(pl.col("value").fill_nan(0.0).fill_null(0.0).dp.mean(bounds))
    )
    return np.array(_answers(query, frame, task.runs)) + shift


def person_means_centred(task, records):
    return person_means(task, records, shift=(task.lower + task.upper) / 2)


def truncated_records(task, records):
    frame = _frame(records)
    query = (
        _context(frame, task.epsilon)
        .query()
        .truncate_per_group(CAP)
        .select(pl.col("value").fill_nan(0.0).fill_null(0.0).dp.mean((task.lower, task.upper)))
    )
    return _answers(query, frame, task.runs)


def by_group(task, records, shift=0.0):
    """One row a person; sizes are private, keys public. Estimates release by release, by key."""
    frame = pl.LazyFrame({"group": records.group, "value": records.value})
    by, keys = [pl.col("group")], int(records.group.max()) + 1
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=task.epsilon),
        split_evenly_over=1,
        margins=[
            dp.polars.Margin(max_length=MOST),
            dp.polars.Margin(by=by, invariant="keys", max_length=MOST, max_groups=keys),
        ],
    )
    bounds = (task.lower - shift, task.upper - shift)
    value = (pl.col("value") - shift).fill_nan(0.0).fill_null(0.0).dp.mean(bounds)
    measurement = context.query().group_by(by).agg(value).resolve()
    found = [
        measurement(frame).collect().sort("group")["value"].to_numpy() for _ in range(task.runs)
    ]
    return np.concatenate(found) + shift


def by_group_centred(task, records):
    return by_group(task, records, shift=(task.lower + task.upper) / 2)


def public_size(task, records):
    means, bounds = records.means, (task.lower, task.upper)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(means))
    mean = (space, dp.symmetric_distance()) >> dp.t.then_clamp(bounds) >> dp.t.then_mean()
    # replacing one person is a symmetric distance of 2
    private = dp.binary_search_chain(
        lambda scale: mean >> dp.m.then_laplace(scale), d_in=2, d_out=task.epsilon
    )
    return [private(means.tolist()) for _ in range(task.runs)]


def vectors(task, records):
    """Clipping by NumPy, the noise and its scale by OpenDP; n is public. Relative errors."""
    rows = records.value
    n = len(rows)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    mean = (rows * np.minimum(1, task.radius / np.maximum(norms, 1e-300))).mean(axis=0)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def private(scale):
        noisy = dp.m.make_gaussian(*space, scale=scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(noisy), task.delta)

    add_noise = dp.binary_search_chain(
        private, d_in=2 * task.radius / n, d_out=(task.epsilon, task.delta), T=float
    )
    found = np.array([add_noise(mean.tolist()) for _ in range(task.runs)])
    se = np.sqrt(rows.var(axis=0, ddof=1).sum() / n)
    return np.linalg.norm(found - rows.mean(axis=0), axis=1) / se


def whole_job(path):
    frame = pl.scan_parquet(path)
    query = (
        _context(frame, 1.0, most=10**8)
        .query()
        .group_by(pl.col("person"))
        .agg(pl.col("y").mean())
        .select(pl.col("y").fill_nan(0.0).fill_null(0.0).dp.mean((-20.0, 40.0)))
    )
    return query.release().collect().item()


if __name__ == "__main__":
    serve(
        {
            "person means": person_means,
            "person means, centred by the user": person_means_centred,
            "records, at most 10 each": truncated_records,
            "person means, size public": public_size,
            "means by group": by_group,
            "means by group, centred by the user": by_group_centred,
            "vectors, clipped to a ball by the user": vectors,
        },
        whole_job,
        ("opendp", "polars"),
    )
