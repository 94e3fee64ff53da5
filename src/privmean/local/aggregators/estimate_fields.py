"""What every estimate says of its tally."""

from __future__ import annotations

from typing import Any

from privmean.array_types import Floats
from privmean.local.aggregators.estimate_result import Level
from privmean.local.aggregators.tally import Tally


def common_fields(tally: Tally, beta: float, weights: str) -> dict[str, Any]:
    return {
        "beta": beta,
        "mechanism": tally.round.mechanism,
        "reports": tally.reports,
        "rejected": dict(tally.rejected),
        "weights": weights,
        "used": weights,
        "secure": tally.secure,
        "messages": tally.round.messages,
    }


def levels_alone(tally: Tally, weights: Floats, estimates: list[Floats]) -> tuple[Level, ...]:
    counts = tally.by_level()
    return tuple(
        Level(float(epsilon), int(counts[k]), float(weights[k]), estimates[k])
        for k, epsilon in enumerate(tally.round.menu)
    )
