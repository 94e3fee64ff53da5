"""Predicted errors of groups of guessed sizes, before any data are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from privmean import validate
from privmean.central.groups.group_stages import LEAST, PRECISE, GroupSettings
from privmean.data.key_text import key_text
from privmean.errors import ArgumentError
from privmean.inference.status import LOW_PRECISION, OK, SUPPRESSED

# limits grow with the size of a group: what the noise of a mean is, in deviations inside groups
# times the noise of a weight over the weight, for a normal law (1.4 times that for exponential)
SPAN, LEAST_SPAN, MOST_SPAN = 2.7, 3.0, 10.0


class HasGroupNames(Protocol):
    """Whose groups have names."""

    @property
    def labels(self) -> tuple[str, ...]: ...


class HasForecast(HasGroupNames, Protocol):
    """What a forecast reads of a plan."""

    @property
    def settings(self) -> GroupSettings: ...

    @property
    def epsilon(self) -> Fraction: ...

    def final_epsilon(self, persons: int) -> float: ...


@dataclass(frozen=True)
class GroupForecast:
    """What is expected of one group. persons: the guess; half_width: of the 95 % interval without
    its allowance; status: "ok", "low_precision" or "suppressed"."""

    key: str
    n: float
    rmse: float
    sampling: float
    privacy_noise: float
    half_width: float
    status: str


def sizes_of(plan: HasGroupNames, sizes: object) -> dict[str, float]:
    """Guessed people (or weights) by key: a mapping, numbers in the order of the keys, or one
    number that is shared out evenly."""
    labels = plan.labels
    if not labels:
        raise ArgumentError("sizes", sizes, "requires public keys", "name the public keys")
    if isinstance(sizes, Mapping):
        given = {key_text("sizes", key): value for key, value in sizes.items()}
        strange = [key for key in given if key not in labels]
        missing = [key for key in labels if key not in given]
        if strange or missing:
            raise ArgumentError(
                "sizes",
                (strange or missing)[0],
                "is not a key with a size",
                "give one for each key",
            )
        numbers = [given[key] for key in labels]
    elif isinstance(sizes, Sequence):
        numbers = list(sizes)
        if len(numbers) != len(labels):
            raise ArgumentError(
                "sizes", len(numbers), f"must be {len(labels)} numbers", "give one for each key"
            )
    else:
        numbers = [validate.positive("sizes", sizes) / len(labels)] * len(labels)
    return dict(zip(labels, (validate.positive("sizes", item) for item in numbers), strict=True))


def forecast_of(
    plan: HasForecast, sizes: object, guess_sd: float, persons: int | None = None
) -> tuple[GroupForecast, ...]:
    """A line a group. persons: in all, where they are not the sum of the sizes (in several groups
    each)."""
    known = sizes_of(plan, sizes)
    whole = int(sum(known.values())) if persons is None else persons
    sd = validate.positive("guess_sd", guess_sd)
    return tuple(_line(plan, key, weight, sd, whole) for key, weight in known.items())


def _line(plan: HasForecast, key: str, weight: float, sd: float, persons: int) -> GroupForecast:
    s = plan.settings
    noise, sampling = noise_of(plan, sd, weight, persons), sd / math.sqrt(weight)
    signal = weight * s.strength(plan.epsilon) / s.most
    scale = s.most * s.moves / plan.final_epsilon(persons)
    found = persons * s.strength(plan.epsilon) >= LEAST or s.bounds_of(0) is not None
    status = OK if signal >= PRECISE else LOW_PRECISION
    if weight < s.few * 6**0.5 * scale or not found:
        status = SUPPRESSED
    rmse = math.hypot(noise, sampling)
    return GroupForecast(key, weight, rmse, sampling, noise, 1.96 * rmse, status)


def noise_of(plan: HasForecast, sd: float, weight: float, persons: int) -> float:
    """Predicted deviation of the noise of a group's mean, for values that are about normal."""
    s, bounds = plan.settings, plan.settings.bounds_of(0)
    signal = max(weight * s.strength(plan.epsilon) / s.most, 2.0)
    width = min(max(SPAN * math.log10(signal), LEAST_SPAN), MOST_SPAN) * sd
    if bounds is not None:
        width = bounds[1] - bounds[0]
    return width * s.most * s.moves / (plan.final_epsilon(persons) * weight)
