"""The released path with its noise band, as a page without dependencies."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape

from privmean.output import printable
from privmean.streams.stream_release import StreamRelease

POINTS = 1500
STYLE = (  # colors of the text around, so that it reads on light and dark
    "text{font:12px sans-serif;fill:currentColor}line{stroke:currentColor;stroke-opacity:.2}"
)
ALONE = "svg{color:#444}@media(prefers-color-scheme:dark){svg{color:#ddd}}"
COLORS = ("#1f5fa8", "#b4531f", "#2c7a4b", "#7b3f8c", "#8a7a1c")


def thin(releases: Iterable[StreamRelease], most: int = POINTS) -> list[StreamRelease]:
    """At most about `most` releases, evenly over the path; the last one is always kept."""
    kept: list[StreamRelease] = []
    stride, last = 1, None
    for index, release in enumerate(releases):
        last = release
        if index % stride == 0:
            kept.append(release)
            if len(kept) >= 2 * most:
                kept = kept[::2]
                stride *= 2
    if last is not None and kept[-1] is not last:
        kept.append(last)
    return kept


def html(
    path: Sequence[StreamRelease],
    names: Sequence[str],
    target: str | os.PathLike[str],
    promise: str,
) -> None:
    """Write one self-contained page with a vector picture."""
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Private running mean</title>'
        "<style>body{font:14px sans-serif;margin:2em;color:#222}</style>"
        f"<h1>Private running mean</h1><p>{escape(title(path, promise))}</p>"
        f"{svg(path, names)}</html>\n"
    )
    with open(target, "w", encoding="utf-8") as file:
        file.write(page)


def svg(
    path: Sequence[StreamRelease],
    names: Sequence[str],
    *,
    span: tuple[float, float] | None = None,
    alone: bool = False,
    label: str = "released mean by step",
) -> str:
    """The released path with its band as a vector picture. span: vertical limits, else
    chosen. alone: a file of its own, not part of a page."""
    width, height, left, bottom = 900, 420, 80, 40
    body = ""
    if path:
        low, high = limits(path) if span is None else span
        first, last = path[0].step, max(path[-1].step, path[0].step + 1)

        def x(step: float) -> float:
            return left + (step - first) / (last - first) * (width - left - 20)

        def y(value: float) -> float:
            kept = min(max(value, low), high)
            return 20 + (high - kept) / (high - low) * (height - bottom - 20)

        for k in range(6):
            value = low + (high - low) * k / 5
            step = first + (last - first) * k / 5
            body += f'<line x1="{left}" x2="{width - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
            body += f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}'
            body += f'</text><text x="{x(step):.1f}" y="{height - 12}" text-anchor="middle">'
            body += f"{step:.0f}</text>"
        for j, name in enumerate(names[: len(COLORS)]):
            up = [(x(i.step), y(float(i.estimate[j]) + i.half_width)) for i in path]
            down = [(x(i.step), y(float(i.estimate[j]) - i.half_width)) for i in reversed(path)]
            middle = [(x(i.step), y(float(i.estimate[j]))) for i in path]
            body += f'<polygon points="{_points(up + down)}" fill="{COLORS[j]}" opacity="0.18"/>'
            body += f'<polyline points="{_points(middle)}" fill="none" stroke="{COLORS[j]}"'
            body += f' stroke-width="1.4"/><text x="{width - 30}" y="{34 + 16 * j}"'
            body += f' text-anchor="end" style="fill:{COLORS[j]}">{escape(printable(name))}</text>'
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    return (
        f'<svg{space} viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}"><style>{STYLE}{ALONE if alone else ""}</style>{body}</svg>'
    )


def title(path: Sequence[StreamRelease], promise: str) -> str:
    """One line above the picture."""
    if not path:
        return f"nothing released yet; guarantee {promise} for one person"
    shown = f"{path[-1].step} steps, {path[-1].records} records"
    mark = "" if path[-1].secure else "SIMULATED NOISE, not private; "
    band = f"band: {path[-1].level:.0%} for privacy noise, pointwise"
    return f"{mark}{shown}; {band}; guarantee {promise}"


def limits(path: Sequence[StreamRelease]) -> tuple[float, float]:
    """A vertical range that shows the later part well; the first steps may leave it."""
    later = path[len(path) // 10 :]
    low = min(float(item.estimate.min()) - item.half_width for item in later)
    high = max(float(item.estimate.max()) + item.half_width for item in later)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _points(pairs: list[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)
