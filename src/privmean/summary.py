"""A release as text: what a statistician reads, in the order of reading.

Estimate and interval, what they assume, persons, promise, split of the budget, method and why.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Protocol

from privmean.intervals.interval import OK, Floats, Interval
from privmean.privacy.guarantee import RELATION_WORDS, Guarantee

WIDTH = 100
MOST = 3  # columns whose limits and own assumptions are spelled out


class Why(Protocol):
    """The plan of what is told."""

    @property
    def why(self) -> str: ...


class Told(Protocol):
    """What a text is made of."""

    @property
    def estimate(self) -> Floats: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def estimator(self) -> str: ...
    @property
    def estimand(self) -> str: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def plan(self) -> Why: ...
    @property
    def persons(self) -> int | None: ...
    @property
    def status(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def assumptions(self) -> tuple[str, ...]: ...
    @property
    def shares(self) -> Mapping[str, float]: ...
    @property
    def secure(self) -> bool: ...
    @property
    def failed(self) -> bool: ...
    def interval(self) -> Interval: ...
    def noise_interval(self) -> Interval: ...


def summary(release: Told, warning: str) -> str:
    """The text of `print(release)`."""
    interval, noise = release.interval(), release.noise_interval()
    lines = [] if release.secure else [f"*** {warning} ***"]
    lines.append(release.estimand)
    if release.failed:
        lines += _wrapped(f"FAILED privately (the budget is spent): {release.advice}")
    else:
        percent = f"{100 * interval.level:g} %"
        for j, column in enumerate(release.columns):
            if math.isnan(release.estimate[j]):
                lines.append(f"  {column}: no estimate")
                continue
            digits = _digits(interval.lower[j], interval.upper[j])
            lines.append(
                f"  {column}: {release.estimate[j]:.{digits}f}   {percent} interval "
                f"{interval.lower[j]:.{digits}f} to {interval.upper[j]:.{digits}f}   "
                f"(privacy noise alone: {noise.lower[j]:.{digits}f} to {noise.upper[j]:.{digits}f})"
            )
        if release.status != OK:
            lines += _wrapped(f"status: {release.status}. {release.advice}")
        lines += _wrapped(f"interval for the {interval.target}")
        if interval.status != OK:
            lines += _wrapped(f"{interval.status}: {interval.advice}".rstrip(": "))
        assumed = assumptions((interval.assumption, *release.assumptions))
        if assumed:
            lines += _wrapped(f"accuracy (not privacy) assumes: {assumed}")
    if interval.region and len(interval.region) <= MOST:
        limits = ", ".join(f"[{a:.6g}, {b:.6g}]" for a, b in interval.region)
        lines += _wrapped(f"values limited to {limits}")
    promise = release.guarantee
    if release.persons is not None:
        public = "public" if promise.relation == "replace-one" else "noisy"
        lines.append(f"  persons: {release.persons} ({public})")
    lines += _wrapped(
        f"promise: {promise.describe()} for one {promise.unit} with all records, "
        f"{promise.relation}: {RELATION_WORDS[promise.relation]}"
    )
    if release.shares:
        split = ", ".join(f"{name} {share:.0%}" for name, share in release.shares.items())
        lines += _wrapped(f"budget split: {split}")
    lines += _wrapped(f"method: {release.estimator}; {release.plan.why}")
    if promise.note:
        lines += _wrapped(f"note: {promise.note}")
    return "\n".join(lines)


def assumptions(texts: Iterable[str]) -> str:
    """Assumptions in one line, each said once. Those of single columns (parted by "|") are told
    for a few columns only."""
    said: list[str] = []
    for text in texts:
        columns = [item.strip() for item in text.split(" | ")]
        for column in columns if len(columns) <= MOST else columns[:1]:
            for part in column.split("; "):
                if part and not any(part in other for other in said):
                    said.append(part)
        if len(columns) > MOST:
            said.append("the other columns alike, each with its own limits")
    return "; ".join(said)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _digits(lower: float, upper: float) -> int:
    width = upper - lower
    if not math.isfinite(width) or width <= 0:
        return 6
    return max(0, min(12, 2 - math.floor(math.log10(width))))
