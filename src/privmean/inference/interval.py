"""What an interval says of itself, and what makes one: the words of every release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

import numpy as np
import numpy.typing as npt

from privmean.inference.status import OK
from privmean.plain_data import plain

Floats = npt.NDArray[np.float64]


UNDETECTED = "undetected outliers"  # the part of a half-width for those whom a noisy count may miss
UNSAFE = "SIMULATED NOISE: not private, for tests and studies only"


class IntervalText(TypedDict, total=False):
    """What an interval says of itself; see `Interval`."""

    kind: str
    target: str
    assumption: str
    status: str
    advice: str
    short_assumption: str


@dataclass(frozen=True)
class Interval:
    """Intervals of a release, with what they cover and assume.

    Attributes
    ----------
    lower, upper : tuple of float
        Ends, one per row, in the unit of the value.
    level : float
        Confidence level.
    kind : {"interval", "noise_interval"}
        Confidence interval with sampling error, or noise-only interval.
    target : str
        What is covered, such as "mean" or "clipped mean".
    assumption : str
        What coverage assumes.
    clip_bounds : tuple of (float, float)
        Clipping bounds, one pair per row.
    half_widths : dict
        Half widths by cause. They add up to more than that of the interval.
    status, advice : str
        Status code, and detail of this case.
    secure : bool, optional
        False for simulated noise; None if not stated.
    short_assumption : str
        The assumption in a few words; empty if it is short itself.

    Examples
    --------
    release = pm.mean(pm.example("ratings"), "rating", person="student", epsilon=1.0)
    interval = release.interval(0.9)
    interval.lower[0], interval.upper[0], interval.assumption
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    level: float
    kind: str = "interval"
    target: str = "mean"
    assumption: str = ""
    clip_bounds: tuple[tuple[float, float], ...] = ()
    half_widths: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    status: str = OK
    advice: str = ""
    secure: bool | None = None
    short_assumption: str = ""

    @classmethod
    def one(
        cls,
        ends: tuple[float, float],
        level: float,
        *,
        region: tuple[float, float] | None = None,
        parts: Mapping[str, float] | None = None,
        **words: Unpack[IntervalText],
    ) -> Interval:
        """Of one column: its numbers by themselves."""
        lower, upper = ends
        return cls(
            (lower,),
            (upper,),
            level,
            clip_bounds=() if region is None else (region,),
            half_widths={name: (half,) for name, half in (parts or {}).items()},
            **words,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "lower": [plain(item) for item in self.lower],
            "upper": [plain(item) for item in self.upper],
            "kind": self.kind,
            "target": self.target,
            "assumption": self.assumption,
            "short_assumption": self.short_assumption,
            "clip_bounds": [[plain(a), plain(b)] for a, b in self.clip_bounds],
            "half_widths": {
                name: [plain(x) for x in half] for name, half in self.half_widths.items()
            },
            "status": self.status,
            "advice": self.advice,
            "secure": self.secure,
        }


class IntervalMaker(Protocol):
    """Post-processing of released numbers into intervals; reads no data."""

    def interval(self, level: float, target: str | None) -> Interval: ...

    def noise_interval(self, level: float) -> Interval: ...


@runtime_checkable
class ByColumn(Protocol):
    """Intervals of several columns that can be told one by one."""

    def column(self, index: int) -> IntervalMaker:
        """The intervals of one column for itself, as if the others were not looked at."""
        ...


@runtime_checkable
class ByEach(ByColumn, Protocol):
    """Intervals of several columns that are found faster together."""

    def each(self, level: float) -> list[Interval]:
        """Return the interval of every column for itself."""
        ...


@runtime_checkable
class HasStdErrors(Protocol):
    """Intervals of one column that know the deviations behind them."""

    def errors(self) -> tuple[float, float]:
        """Standard deviations of the estimate by privacy noise, and by noise and sampling together;
        NaN where the released numbers do not tell."""
        ...
