"""Many clients in one process: the same laws as `clients`, vectorised, with the same coins.

For studies on a table at hand, and for programs that hold many people's values and must send
private reports only. Entropy is the operating system's unless a seeded noise is given, and then
everything that follows says `secure: false`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privmean.array_types import Bytes, Floats, Words
from privmean.errors import ArgumentError
from privmean.local.aggregators.tally import Batch, Tally, add
from privmean.local.mechanisms import BALLS, HADAMARD, SCALARS, SKETCH
from privmean.local.reports import POINT
from privmean.local.round import Round
from privmean.local.vectorized.randomize import (
    Levels,
    ball_payload,
    row_payload,
    scalar_payload,
    subset_payload,
)
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import Noise


def _payload(round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise) -> Bytes:
    if round_.mechanism in SCALARS:
        return scalar_payload(round_, values, levels, nonces, noise)
    if round_.mechanism in BALLS:
        return ball_payload(round_, values, levels, nonces, noise)
    if round_.mechanism in (SKETCH, HADAMARD):
        return row_payload(round_, values, levels, nonces, noise)
    return subset_payload(round_, values, levels, nonces, noise)


def _allowed(epsilon: object) -> Floats:
    """What clients allow, as numbers."""
    try:
        return np.asarray(epsilon, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(
            "epsilon", epsilon, "is not a number", "give one, or one per client"
        ) from None


def _levels(round_: Round, epsilon: object, number: int) -> Levels:
    """The level of each client from its own epsilon (one number, or one a client)."""
    given = _allowed(epsilon)
    if given.ndim == 0:
        return np.full(number, round_.level(float(given)), dtype=np.uint16)
    if given.shape != (number,):
        raise ArgumentError(
            "epsilon", given.shape, "must have another shape", "give one per client"
        )
    different, place = np.unique(given, return_inverse=True)
    return np.array([round_.level(float(e)) for e in different], dtype=np.uint16)[place]


def _places(round_: Round, points: object, number: int) -> Bytes:
    """The bytes before each payload that name its design point: none in other rounds."""
    if not round_.points:
        if points is not None:
            raise ArgumentError("points", "...", "are not used by this round", "remove them")
        return np.empty((number, 0), dtype=np.uint8)
    given = np.asarray(points)
    whole = given.dtype.kind in "iu" and given.shape == (number,)
    if not whole or (number and not 0 <= given.min() <= given.max() < len(round_.points)):
        raise ArgumentError(
            "points",
            given.shape,
            "must be design points",
            f"give one whole number per client, 0 to {len(round_.points) - 1}",
        )
    return np.ascontiguousarray(given, "<u4").view(np.uint8).reshape(-1, POINT.size)


def randomize_many(
    round_: Round,
    values: Any,
    *,
    epsilon: object,
    noise: Noise | None = None,
    points: object = None,
) -> Batch:
    """Return one report per client, as arrays.

    Parameters
    ----------
    round_ : Round
        The round.
    values : array (n,) or (n, coordinates)
        One value per client. Values that are missing, infinite or outside are handled by
        `randomize`'s rules.
    epsilon : float or array (n,)
        What each client allows.
    noise : SimulatedNoise, optional
        For tests only.
    points : array (n,), optional
        Of a curve: number of each client's design point.

    Returns
    -------
    Batch
        The reports; `to_bytes` gives the wire format.

    Privacy
    -------
    As for `randomize`, for each row alone. Public are n, the levels, the nonces and the points.

    Examples
    --------
    import numpy as np
    from privmean.local import mean_round, randomize_many

    batch = randomize_many(mean_round(0, 1, epsilon=2, persons=50), np.full(50, 0.5), epsilon=2)
    """
    source: Noise = ExactNoise() if noise is None else noise
    number = len(values)
    levels = _levels(round_, epsilon, number)
    nonces = source.bits64(2 * number).reshape(number, 2)
    places = _places(round_, points, number)
    payload = _payload(round_, values, levels, nonces, source)
    if round_.points:
        payload = np.hstack([places, payload])
    return Batch(round_, nonces, levels, payload, source.secure)


def tally_many(
    round_: Round,
    values: Any,
    *,
    epsilon: object,
    noise: Noise | None = None,
    chunk: int = 1 << 15,
    points: Any = None,
) -> Tally:
    """Randomize and count reports in chunks, with bounded memory.

    Parameters
    ----------
    round_ : Round
        The round.
    values : array (n,) or (n, coordinates)
        One value per client.
    epsilon : float or array (n,)
        What each client allows.
    noise : SimulatedNoise, optional
        For tests only.
    chunk : int, default 32768
        Clients per chunk.
    points : array (n,), optional
        Of a curve: number of each client's design point.

    Returns
    -------
    Tally
        Counts of all reports.

    Privacy
    -------
    As for `randomize_many`.

    Examples
    --------
    import numpy as np
    from privmean.local import mean_round, tally_many

    tally = tally_many(mean_round(0, 1, epsilon=2, persons=50), np.full(50, 0.5), epsilon=2)
    """
    total = Tally.empty(round_)
    own = _allowed(epsilon)
    if not hasattr(values, "__len__"):
        raise ArgumentError("values", values, "is not a list", "give one value per client")
    wide = max(
        round_.dimension or 1,
        round_.items or 1 if round_.mechanism not in (SKETCH, HADAMARD) else 1,
    )
    step = max(1, min(chunk, math.ceil(2**23 / wide)))
    for start in range(0, len(values), step):
        some = own if own.ndim == 0 else own[start : start + step]
        here = None if points is None else np.asarray(points)[start : start + step]
        add(
            total,
            randomize_many(
                round_, values[start : start + step], epsilon=some, noise=noise, points=here
            ),
        )
    return total
