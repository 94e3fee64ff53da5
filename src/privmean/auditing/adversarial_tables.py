"""Numbers made to hurt: where a sensitivity is reached, or a branch is hidden.

Infinities, the largest and the smallest doubles, edges of logarithmic bins, and the limits that the
recorded run asked with, each with the double below and above it.
"""

from __future__ import annotations

import math
from itertools import islice, product

from privmean.auditing.measure_loss import numbers
from privmean.auditing.transcript import Transcript

STRANGE = (
    math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 2.0**40, -(2.0**40),
    math.nextafter(2.0**40, 0), 2.0**-40, math.nextafter(2.0**-40, 0), 1e18, -1e18, 1.0, -1.0,
)  # fmt: skip
MOST_EDGES = 400


def edges(tape: Transcript) -> list[float]:
    """Numbers that the recorded run asked with (limits, origins, centres and radii around them),
    and their neighbours among the doubles."""
    found: dict[float, None] = {}
    for item in tape.answers:
        asked = [float(number) for number in islice(numbers(item.mechanism), 64)]
        found |= dict.fromkeys(asked)
        for first, second in product(asked[:8], asked[:8]):
            found |= {first + second: None, first - second: None}
        if len(found) > MOST_EDGES:
            break
    listed = [item for item in found if math.isfinite(item)][:MOST_EDGES]
    beside = [math.nextafter(item, way) for item in listed for way in (-math.inf, math.inf)]
    return listed + beside
