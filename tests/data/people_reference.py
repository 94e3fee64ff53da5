"""The reductions once more, in plain Python, one person at a time: what every home must equal."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction

from privmean.data.grids import (
    HALF_OCTAVE,
    LOG_CELLS,
    LOG_LOW,
    LOG_ZERO,
    UNIFORM_LIMIT,
    pair_multiplier,
)


def quotient(x, step):
    if step < 2.0**-400:
        x, step = x * 2.0**600, step * 2.0**600
    return x * (1 / step)


def person_value(records, resolution=2.0**-36):
    """The mean of one person's records (None and NaN are none) and how many there are."""
    limit = resolution * 2.0**80
    total = count = 0
    for x in records:
        if x is None or math.isnan(x):
            continue
        limited = max(-limit, min(limit, float(x)))
        total += math.floor(limited / resolution + 0.5)
        count += 1
    if not count:
        return None, 0
    total = max(-(2**100), min(2**100, total))
    return float(Fraction(total)) * resolution / count, count


def group(rows, resolution=2.0**-36):
    """Rows (id, x, y, ...) to a sorted list of (id, [values], [counts]); null ids are dropped."""
    persons = defaultdict(list)
    for who, *values in rows:
        if who is not None:
            persons[who].append(values)
    result = []
    for who in sorted(persons):
        columns = list(zip(*persons[who], strict=True))
        pairs = [person_value(column, resolution) for column in columns]
        result.append((who, [v for v, _ in pairs], [c for _, c in pairs]))
    return result


def log_cell(v):
    """The cell of `log_counts` by its definition, through frexp."""
    if v is None or math.isnan(v) or abs(v) < 2.0 ** (LOG_LOW // 2):
        return LOG_ZERO
    if math.isinf(v):
        index = LOG_ZERO - 1
    else:
        mantissa, exponent = math.frexp(abs(v))
        j = 2 * exponent - 2 + (mantissa >= HALF_OCTAVE)
        index = min(j - LOG_LOW, LOG_ZERO - 1)
    return index + LOG_ZERO + 1 if v < 0 else index


def log_counts(values, origin):
    counts = [0] * LOG_CELLS
    for v in values:
        counts[log_cell(None if v is None else v - origin)] += 1
    return counts


def half_octave_cell(d):
    """The cell of `half_octave_counts`; d: the value less the origin."""
    if d is None or math.isnan(d) or not abs(d) > 2.0**-64:
        return 256
    last = 255
    if not math.isinf(d):
        size = Fraction(abs(d))
        mantissa, octave = math.frexp(abs(d))
        octave -= 2 if mantissa == 0.5 else 1
        assert Fraction(2) ** octave < size <= Fraction(2) ** (octave + 1)
        upper = abs(d) * (1 - 2.0**-52) >= math.ldexp(HALF_OCTAVE, octave + 1)
        last = min(last, 2 * (octave + 64) + upper)
    return last + 257 if d < 0 else last


def half_octave_counts(values, origin):
    counts = [0] * 513
    for v in values:
        counts[half_octave_cell(None if v is None else v - origin)] += 1
    return counts


def part_counts(values, sign, step, first, parts):
    counts = [0] * parts
    for v in values:
        if v is not None and math.isfinite(v):
            k = math.ceil(sign * Fraction(v) / Fraction(step)) - 1 - first
            if 0 <= k < parts:
                counts[k] += 1
    return counts


def distribution(values):
    found = Counter(v for v in values if v is not None)  # both zeros are one key
    return sorted(found), [found[v] for v in sorted(found)]


def missing(values):
    return sum(v is None for v in values)


def uniform_counts(values, half, origin):
    counts = defaultdict(int)
    for v in values:
        if v is not None:
            k = quotient(v - origin - half, half) / 2
            counts[math.ceil(max(-UNIFORM_LIMIT, min(UNIFORM_LIMIT, k)))] += 1
    return dict(counts)


def pair_counts(values, low, high):
    n = len(values)
    counts = [0] * (high - low + 1)
    if n < 2:
        return counts
    ranked = [None] * n
    for i, v in enumerate(values):
        ranked[i * pair_multiplier(n) % n] = v
    for r in range(0, n - n % 2, 2):
        a, b = ranked[r], ranked[r + 1]
        spread = 0.0 if a is None or b is None else abs(a - b) * HALF_OCTAVE
        k = low
        while k < high and spread > math.ldexp(1.0, k):
            k += 1
        counts[k - low] += 1
    return counts


def on_box(v, box):
    clipped = min(max(v, box.lower), box.upper)
    return max(-box.steps, min(box.steps, math.floor((clipped - box.middle) / box.step + 0.5)))


def interval_sums(values, counts, cap, box):
    fields = dict.fromkeys(
        ("present", "above", "below", "z", "zz", "w", "wz", "ww", "wwz", "wwzz"), 0
    )
    for v, count in zip(values, counts, strict=True):
        if v is None:
            continue
        z, w = on_box(v, box), 1 if cap is None else min(count, cap)
        adds = {
            "present": 1, "above": int(v > box.upper), "below": int(v < box.lower), "z": z,
            "zz": z * z, "w": w, "wz": w * z, "ww": w * w, "wwz": w * w * z, "wwzz": w * w * z * z,
        }  # fmt: skip
        for name, value in adds.items():
            fields[name] += value
    return fields


def on_ball(row, ball):
    if all(v is None for v in row):
        return [0] * len(row)
    most = 1.7976931348623157e308
    v = [0.0 if x is None else x - c for x, c in zip(row, ball.center, strict=True)]
    v = [max(-most, min(most, item)) for item in v]
    top = max(abs(item) for item in v)
    near = top <= ball.radius
    scale = 2.0**600 if top < 2.0**-400 else 2.0**-600 if top > 2.0**500 else 1.0
    w = [quotient(item, ball.step) if near else item * scale for item in v]
    square = 0.0
    for item in w:
        square = square + item * item
    norm, k = math.sqrt(square), ball.steps
    tries = [[item / norm * (k * (1 - 2.0**-30)) for item in w]] if norm else []
    tries = [w if near and norm <= k else [item / norm * k for item in w], *tries]
    for attempt in tries:
        z = [math.trunc(item) for item in attempt]
        if sum(item * item for item in z) <= k**2:
            return z
    raise AssertionError("no row is ever dropped")


def ball_sums(rows, ball, besides=None):
    z = [on_ball(row, ball) for row in rows]
    present = sum(any(v is not None for v in row) for row in rows)
    width, more = len(ball.center), ()
    if besides:
        again = [[abs(k) if besides == "sizes" else k * k for k in row] for row in z]
        more = tuple(sum(column) for column in zip(*again, strict=True)) or (0,) * width
    return tuple(sum(column) for column in zip(*z, strict=True)) or (0,) * width, present, more


def clipped_row_sums(rows, cut):
    width, k = len(cut.lower), cut.inner.steps
    sums, squares, tails = [0] * width, [0] * width, [0] * width
    for row in rows:
        square = 0.0
        for v in row:
            square = square + (0.0 if v is None else v * v)
        norm, radius = math.sqrt(square), cut.ball.radius
        ends = [
            v is not None and (v > up or v < low)
            for v, low, up in zip(row, cut.lower, cut.upper, strict=True)
        ]
        touched = norm > 1.25 * radius or any(ends)
        z = on_ball(row, cut.inner if touched else cut.middle if norm > radius else cut.ball)
        t = [0] * width
        if norm > radius and not touched:
            t = [abs(a) // 4 for a in z]
        if touched:
            t = [abs(a) * (norm > radius) + k * end for a, end in zip(z, ends, strict=True)]
            size = sum(a * a for a in t)
            if size > k * k:
                t = [math.floor(a / math.sqrt(size) * (k * (1 - 2.0**-30))) for a in t]
        sums = [a + b for a, b in zip(sums, z, strict=True)]
        squares = [a + b * b for a, b in zip(squares, z, strict=True)]
        tails = [a + b for a, b in zip(tails, t, strict=True)]
    present = sum(any(v is not None for v in row) for row in rows)
    return tuple(sums), present, tuple(squares), tuple(tails)


def in_units(v, unit):
    if v is None:
        return 0.0
    return quotient(min(max(v, unit.lower), unit.upper) - unit.center, unit.scale)


def norm_counts(rows, edges):
    counts = [0] * (len(edges) + 1)
    for row in rows:
        square = 0.0
        for v in row:
            square = square + (0.0 if v is None else v * v)
        counts[sum(math.sqrt(square) > edge for edge in edges)] += 1
    return counts


def count_in_ball(rows, center, radius):
    inside = 0
    for row in rows:
        if all(v is not None for v in row):
            unit = 2.0 ** -math.frexp(radius)[1]
            square = 0.0
            for v, c in zip(row, center, strict=True):
                square = square + ((v - c) * unit) * ((v - c) * unit)
            inside += math.sqrt(square) <= radius * unit
    return inside
