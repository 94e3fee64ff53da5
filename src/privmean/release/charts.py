"""Rows as pictures: intervals drawn side by side, as SVG, as HTML for a notebook, in Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from privmean.errors import ArgumentError
from privmean.output import percent, printable
from privmean.release.result_rows import Row

LINE, TOP, BOTTOM = 22, 8, 30  # pixels: of a row, above all rows, for the axis
PLOT, LETTER = 420, 6.6  # width of the plot; of a letter
LONGEST = 34  # letters of a label that is drawn as wide as it is


def labels(rows: Sequence[Row]) -> list[str]:
    """What each row is called in a picture: its group, its term, or both."""
    terms = {row.term for row in rows}
    grouped = any(row.group for row in rows)
    if not grouped:
        return [row.term for row in rows]
    if len(terms) == 1:
        return [row.group or row.term for row in rows]
    return [f"{row.group} {row.term}".strip() for row in rows]


def svg(rows: Sequence[Row], level: float) -> str:
    """Both intervals of every row on one axis: thin for the population, thick for privacy noise.
    Colors are those of the text around, so that it reads on any ground."""
    drawn = [row for row in rows if math.isfinite(row.estimate)]
    if not drawn:
        return ""
    low, high = _reach(drawn)
    names = labels(rows)
    left = 10 + LETTER * min(max(len(name) for name in names), LONGEST)
    width, height = left + PLOT + 20, TOP + LINE * len(rows) + BOTTOM

    def x(value: float) -> float:
        return left + PLOT * (min(max(value, low), high) - low) / (high - low)

    floor = TOP + LINE * len(rows)
    parts = [
        f'<svg class="intervals" role="img" '
        f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
        f'style="max-width:100%;height:auto" font-family="sans-serif" font-size="12" '
        f'fill="currentColor" stroke="currentColor">',
        f"<title>Estimates with {percent(level)} intervals</title>",
        f'<line x1="{left:.1f}" x2="{left + PLOT:.1f}" y1="{floor}" y2="{floor}" '
        f'stroke-opacity="0.5"/>',
    ]
    for tick in ticks(low, high):
        at = x(tick)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{floor + 4}" stroke-opacity="0.15"/>'
            f'<text x="{at:.1f}" y="{floor + 17}" text-anchor="middle" stroke="none">'
            f"{tick:.6g}</text>"
        )
    for j, (name, row) in enumerate(zip(names, rows, strict=True)):
        y = TOP + LINE * j + LINE / 2
        # a longer label is drawn narrower, whole
        room = f' textLength="{left - 14:.0f}" lengthAdjust="spacingAndGlyphs"'
        parts.append(
            f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end" stroke="none"'
            f"{room if len(name) > LONGEST else ''}>{escape(printable(name))}</text>"
        )
        if not math.isfinite(row.estimate):
            parts.append(
                f'<text x="{left + 6:.1f}" y="{y + 4:.1f}" stroke="none" font-style="italic" '
                f'fill-opacity="0.7">{escape(row.status)}</text>'
            )
            continue
        for a, b, size, opacity in (
            (row.lower, row.upper, 1.5, 0.9),
            (row.noise_lower, row.noise_upper, 6, 0.35),
        ):
            if not (math.isnan(a) or math.isnan(b)):
                parts.append(
                    f'<line x1="{x(a):.1f}" x2="{x(b):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                    f'stroke-width="{size}" stroke-opacity="{opacity}"/>'
                )
        parts.append(f'<circle cx="{x(row.estimate):.1f}" cy="{y:.1f}" r="3.2" stroke="none"/>')
    return "".join([*parts, "</svg>"])


def _reach(drawn: Sequence[Row]) -> tuple[float, float]:
    """The ends of the axis: all finite ends and estimates, with a margin."""
    ends = [
        value
        for row in drawn
        for value in (row.estimate, row.lower, row.upper, row.noise_lower, row.noise_upper)
        if math.isfinite(value)
    ]
    low, high = min(ends), max(ends)
    margin = 0.04 * (high - low) or max(abs(low), 1.0) * 0.04
    return low - margin, high + margin


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from `low` to `high`."""
    raw = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * 0.999)
    first = math.ceil(low / step)
    return [step * k for k in range(first, math.floor(high / step) + 1)]


def cell(value: float) -> str:
    """A number as tables show it; a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:.5g}"


def plotted(rows: Sequence[Row], level: float, axes: Any = None) -> Any:
    """The same picture on Matplotlib axes (made if there are none), which it returns."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ArgumentError("plot", None, "requires matplotlib", "install privmean[plot]") from None
    if axes is None:
        size = (7.0, 1.2 + 0.3 * len(rows))
        axes = Figure(figsize=size, layout="constrained").subplots()
    at = list(range(len(rows)))
    for j, row in zip(at, rows, strict=True):
        first = j == 0
        if math.isfinite(row.lower) and math.isfinite(row.upper):
            words = f"{percent(level)} interval" if first else None
            axes.plot([row.lower, row.upper], [j, j], color="C0", linewidth=1.5, label=words)
        if math.isfinite(row.noise_lower) and math.isfinite(row.noise_upper):
            words = "privacy noise only" if first else None
            axes.plot(
                [row.noise_lower, row.noise_upper], [j, j], color="C0", linewidth=6, alpha=0.35,
                label=words,
            )  # fmt: skip
        axes.plot([row.estimate], [j], marker="o", color="C0", linestyle="none")
        if not math.isfinite(row.estimate):
            axes.annotate(
                row.status, (0.02, j), xycoords=("axes fraction", "data"), va="center", alpha=0.7
            )
    axes.set_yticks(at, labels(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize="small")
    return axes
