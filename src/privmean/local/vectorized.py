"""Many clients in one process: the laws of `clients.randomizers` with the same coins, on arrays.

For studies on a table at hand, and for programs that hold many people's values and must send
private reports only. Entropy is the operating system's unless a seeded noise is given, and then
everything that follows says `secure: false`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from privmean.array_types import Bytes, Flags, Floats, Integers, Words
from privmean.errors import ArgumentError
from privmean.local.aggregators.item_law import sketch_signs
from privmean.local.aggregators.tally import (
    Batch,
    Tally,
    add,
    bit_count,
    coordinates_of,
    piecewise_branch,
    public_normals,
    rows_of,
    units,
)
from privmean.local.clients.randomizers import (
    item,
    reals,
    set_threshold,
    subset_size,
    subset_threshold,
    window,
)
from privmean.local.exact_coins import WORD, flip_threshold, signal
from privmean.local.reports import POINT
from privmean.local.round import (
    CHOSEN,
    HADAMARD,
    ONE_BIT,
    PIECEWISE,
    Round,
)
from privmean.noise.noise_source import ExactNoise, Noise


def table_of(values: object, number: int, width: int) -> Floats:
    """An (number, width) array of floats, NaN where an entry is no number.

    An array of numbers must have that shape, which is public. Of anything else each row is read
    on its own, so that one person's odd entry neither raises nor changes another's.
    """
    array = numeric(values)
    if array is None:
        rows = [reals(row, width) for row in cast("Iterable[object]", values)]
        return np.array(rows, dtype=np.float64).reshape(number, width)
    result = floats(array)
    if result.ndim == 1:
        result = result.reshape(-1, 1)
    if result.shape != (number, width):
        raise ArgumentError(
            "values", result.shape, "must have another shape", f"give shape {(number, width)}"
        )
    return result


def numeric(values: object) -> npt.NDArray[Any] | None:
    """The array of numbers behind `values`, or None: decided by the type alone."""
    if not hasattr(values, "__array__"):
        return None
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    return array if array.dtype.kind in "fiub" else None


def floats(array: object) -> Floats:
    """As doubles; masked entries are missing. Nothing is said of a number that is too large, nor
    of a NaN that signals, which becomes a quiet one."""
    with np.errstate(all="ignore"):
        result: Floats = np.asarray(array, dtype=np.float64)
    missing = np.isnan(result)
    if isinstance(array, np.ma.MaskedArray):
        missing |= np.ma.getmaskarray(array)
    return np.where(missing, np.nan, result) if missing.any() else result


def _picked(round_: Round, values: object, nonces: Words) -> tuple[Floats, Floats, Floats]:
    """The coordinate that each nonce assigns, clipped to its bounds, and these."""
    array = table_of(values, len(nonces), round_.coordinates)
    place = coordinates_of(round_, nonces)
    low, high = np.array(round_.lower), np.array(round_.upper)
    x, low, high = array[np.arange(len(place)), place], low[place], high[place]
    return np.minimum(np.maximum(x, low), high), low, high


def unit_values(round_: Round, values: object, nonces: Words) -> Floats:
    """`unit_value` of many."""
    x, low, high = _picked(round_, values, nonces)
    result = np.clip((x - low - (high - x)) / (high - low), -1.0, 1.0)
    return np.where(np.isnan(x), 0.0, result)


def item_indices(round_: Round, values: object, nonces: Words) -> Integers:
    """`item` of many; -1 for a null."""
    assert round_.items is not None
    null = -1 if round_.other is None else round_.other
    if round_.bins is not None:
        x, low, high = _picked(round_, values, nonces)
        place = np.where(np.isnan(x), 0.0, (x - low) / (high - low) * round_.bins)
        result = np.minimum(place.astype(np.int64), round_.bins - 1)
        return np.where(np.isnan(x), -1, result)
    array = numeric(values)
    if array is None:
        own = [item(round_, value, b"") for value in cast("Iterable[object]", values)]
        return np.array([-1 if place is None else place for place in own], dtype=np.int64)
    if array.shape != nonces.shape[:1]:
        raise ArgumentError(
            "values", array.shape, "must have another shape", f"give shape {nonces.shape[:1]}"
        )
    # items lie below 2^53, so that nothing an integer array holds is mistaken for one
    exact = floats(array)
    known = (exact >= 0) & (exact < round_.items) & (exact == np.floor(exact))
    return np.where(known, np.where(known, exact, 0).astype(np.int64), null)


Levels = npt.NDArray[np.uint16]

HALF = np.uint64(WORD // 2)
CHUNK = 1 << 15  # clients that are randomized together


def by_level(
    round_: Round, rule: Callable[[Fraction], float], levels: Levels, dtype: npt.DTypeLike
) -> Any:
    """rule(epsilon) of each report; one number if the menu has one level."""
    table = np.array([rule(item) for item in round_.menu], dtype=dtype)
    return table[0] if len(table) == 1 else table[levels]


def below_many(noise: Noise, size: int, bound: int) -> Integers:
    """`size` uniform integers from 0 to bound - 1, bound at most 2^32, exactly (Lemire 2019)."""
    words = noise.bits64(size)
    low, high, wide = words & np.uint64(0xFFFFFFFF), words >> np.uint64(32), np.uint64(bound)
    middle = high * wide + ((low * wide) >> np.uint64(32))
    result = (middle >> np.uint64(32)).astype(np.int64)
    with np.errstate(over="ignore"):
        again = np.flatnonzero(words * wide < np.uint64(WORD % bound))
    if len(again):
        result[again] = below_many(noise, len(again), bound)
    return result


def below_each(noise: Noise, bounds: Integers) -> Integers:
    """A uniform integer below each bound, exactly, from 32-bit words."""
    number = len(bounds)
    words = noise.bits64((number + 1) // 2).view(np.uint32)[:number].astype(np.uint64)
    wide = np.maximum(bounds, 1).astype(np.uint64)
    product = words * wide
    result = (product >> np.uint64(32)).astype(np.int64)
    rest = product & np.uint64(0xFFFFFFFF)
    again = np.flatnonzero(rest < wide)  # the remainder is smaller, and takes long to find
    again = again[rest[again] < np.uint64(2**32) % wide[again]]
    if len(again):
        result[again] = below_each(noise, bounds[again])
    return result


def _with_chance(chance: Floats, noise: Noise) -> Flags:
    """Coins that come up with these chances; with 1, to which a difference may round, surely."""
    wanted = np.rint(chance * 2.0**64)
    sure = wanted >= 2.0**64
    words = noise.bits64(len(chance))
    return sure | (words < np.where(sure, 0.0, wanted).astype(np.uint64))


def _poles(round_: Round, values: object, number: int, noise: Noise) -> Floats:
    """The pole of each client: see `clients.randomizers.pole`."""
    assert round_.dimension is not None
    assert round_.radius is not None
    x = table_of(values, number, round_.dimension)
    x = np.where(np.isnan(x).any(axis=1, keepdims=True), 0.0, x)
    infinite = np.isinf(x)
    far = infinite.any(axis=1, keepdims=True)
    x = np.where(far, np.where(infinite, np.sign(x), 0.0), x)
    largest = np.abs(x).max(axis=1, keepdims=True)
    scaled = x / np.where(largest > 0, largest, 1.0)
    norm = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        share = np.where(far, 1.0, np.minimum(largest / round_.radius * norm, 1.0))[:, 0]
    axis = np.zeros(round_.dimension)
    axis[0] = 1.0
    u = np.where(norm > 0, scaled / np.where(norm > 0, norm, 1.0), axis)
    plus = _with_chance(0.5 + 0.5 * share, noise)
    return np.where(plus[:, None], u, -u)


def ball_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    poles = _poles(round_, values, len(levels), noise)
    if round_.candidates is not None:
        step = max(1, 2**21 // (round_.candidates * poles.shape[1]))
        some = (slice(start, start + step) for start in range(0, max(1, len(levels)), step))
        index = [_closest(round_, poles[k], levels[k], nonces[k], noise) for k in some]
        return np.concatenate(index).astype("<u2").view(np.uint8).reshape(-1, 2)
    side = (public_normals(round_, nonces) * poles).sum(axis=1) >= 0
    sign = side ^ (noise.bits64(len(levels)) < by_level(round_, flip_threshold, levels, np.uint64))
    return np.asarray(sign.astype(np.uint8).reshape(-1, 1))


def _closest(round_: Round, poles: Floats, levels: Levels, nonces: Words, noise: Noise) -> Integers:
    """The number of a candidate each, of a few people whose directions are made at a time."""
    assert round_.candidates is not None
    number, half, width = len(levels), round_.candidates // 2, poles.shape[1]
    every = np.tile(np.arange(half), number)
    u = units(public_normals(round_, np.repeat(nonces, half, axis=0), every))
    heights = np.einsum("nmd,nd->nm", u.reshape(number, half, width), poles)
    order = np.argsort(-np.abs(heights), axis=1, kind="stable")
    near = 2 * order + (np.take_along_axis(heights, order, axis=1) < 0)
    result = np.empty(number, dtype=np.int64)
    for k, epsilon in enumerate(round_.menu):
        mine, size = np.flatnonzero(levels == k), round_.favoured[k]
        limit = np.uint64(set_threshold(epsilon, size, round_.candidates))
        inside = noise.bits64(len(mine)) < limit
        rows = mine[inside]
        result[rows] = near[rows, below_many(noise, len(rows), size)]
        rows = mine[~inside]
        other = np.ones((len(rows), round_.candidates), dtype=bool)
        np.put_along_axis(other, near[rows, :size], False, axis=1)
        wanted = below_many(noise, len(rows), round_.candidates - size)
        result[rows] = (np.cumsum(other, axis=1) <= wanted[:, None]).sum(axis=1)
    return result


def row_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    assert round_.rows is not None
    number = len(levels)
    head = np.empty((number, 0), dtype=np.uint8)
    if round_.row_choice == CHOSEN:
        rows = below_many(noise, number, round_.rows)
        head = rows.astype("<u4").view(np.uint8).reshape(-1, 4)
    else:
        rows = rows_of(Batch(round_, nonces, levels, head))
    items = item_indices(round_, values, nonces)
    if round_.mechanism == HADAMARD:
        negative = (bit_count(rows & items) & 1).astype(bool)
    else:
        negative = sketch_signs(round_.seed, rows, np.maximum(items, 0)) < 0
    words = noise.bits64(number)
    bit = negative ^ (words >= by_level(round_, flip_threshold, levels, np.uint64))
    null = items < 0
    if null.any():
        bit = np.where(null, words < HALF, bit)
    return np.concatenate([head, bit.astype(np.uint8).reshape(-1, 1)], axis=1)


def subset_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    assert round_.items is not None
    items = round_.items
    own = item_indices(round_, values, nonces)
    null = np.flatnonzero(own < 0)
    own[null] = below_many(noise, len(null), items)
    limit = by_level(round_, lambda e: subset_threshold(e, items), levels, np.uint64)
    inside = noise.bits64(len(own)) < limit
    sizes = np.array([subset_size(e, items) for e in round_.menu], dtype=np.int64)
    needed = sizes[levels] - inside
    bits = np.zeros((items, len(own)), dtype=bool).T  # written item by item
    for k in range(items):  # sequential choice without replacement, exact
        left = items - k - (own > k)
        pick = below_each(noise, left) < needed
        pick &= own != k
        bits[:, k] = pick
        needed = needed - pick
    bits[np.arange(len(own)), own] = inside
    return np.packbits(bits, axis=1, bitorder="little")


def _pack_int32(y: Integers) -> Bytes:
    return y.astype("<i4").view(np.uint8).reshape(-1, 4)


def _one_bit(round_: Round, x: Floats, levels: Levels, noise: Noise) -> Flags:
    t = by_level(round_, signal, levels, np.float64)
    flip = by_level(round_, flip_threshold, levels, np.uint64)
    wanted = np.rint(2.0**64 * (0.5 + 0.5 * x * t)).astype(np.uint64)
    top = by_level(round_, lambda e: WORD - flip_threshold(e), levels, np.uint64)
    return np.asarray(noise.bits64(len(x)) < np.minimum(np.maximum(wanted, flip), top))


def _grid_points(position: Floats, noise: Noise) -> Integers:
    low = np.floor(position)
    return low.astype(np.int64) + _with_chance(position - low, noise)


def _piecewise(round_: Round, x: Floats, levels: Levels, noise: Noise) -> Integers:
    y = np.zeros(len(x), dtype=np.int64)
    for k, epsilon in enumerate(round_.menu):
        mine = np.flatnonzero(levels == k)
        if not len(mine):
            continue
        law = window(epsilon)
        start = _grid_points((x[mine] + 1) / 2 * law.outside, noise) - law.size
        inside = noise.bits64(len(mine)) < np.uint64(law.threshold)
        choice = np.where(inside, start, -law.size)
        number = int(inside.sum())
        choice[inside] += below_many(noise, number, law.width + 1)
        choice[~inside] += below_many(noise, len(mine) - number, law.outside)
        y[mine] = choice + np.where(~inside & (choice >= start), law.width + 1, 0)
    return y


def scalar_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    x = unit_values(round_, values, nonces)
    if round_.mechanism == ONE_BIT:
        return _one_bit(round_, x, levels, noise).astype(np.uint8).reshape(-1, 1)
    if round_.mechanism == PIECEWISE:
        return _pack_int32(_piecewise(round_, x, levels, noise))
    branch = piecewise_branch(round_, nonces, levels)
    y = np.empty(len(x), dtype=np.int64)
    y[branch] = _piecewise(round_, x[branch], levels[branch], noise)
    y[~branch] = 2 * _one_bit(round_, x[~branch], levels[~branch], noise).astype(np.int64) - 1
    return _pack_int32(y)


def _payload(round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise) -> Bytes:
    if round_.dimension is not None:
        return ball_payload(round_, values, levels, nonces, noise)
    if round_.items is None:
        return scalar_payload(round_, values, levels, nonces, noise)
    by_items = subset_payload if round_.rows is None else row_payload
    return by_items(round_, values, levels, nonces, noise)


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
    values: Sequence[object] | npt.NDArray[Any],
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
    values: Sequence[object] | npt.NDArray[Any],
    *,
    epsilon: object,
    noise: Noise | None = None,
    points: npt.NDArray[Any] | None = None,
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
    wide = round_.dimension or (1 if round_.rows else round_.items) or 1
    step = max(1, min(CHUNK, math.ceil(2**23 / wide)))
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
