"""Rows as pictures: intervals drawn side by side, as SVG, as HTML for a notebook, in Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from privmean.errors import ArgumentError
from privmean.inference.status import find_status, read_status
from privmean.output import percent, printable
from privmean.release.stored_release import Row, is_comparison

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privmean.release.result_numbers import ResultNumbers

LETTER = 0.64  # width of a letter, in sizes of the font
INTERVALS = "Estimates with {} intervals"
WIDEST = 0.4  # of a picture that its labels may take


@dataclass(frozen=True)
class Size:
    """Pixels of a picture: its width, the height of a row, that of a curve, its letters. most:
    rows that are drawn."""

    width: int = 620
    line: int = 22
    height: int = 230
    font: int = 12
    most: int = 60


def labels(rows: Sequence[Row]) -> list[str]:
    """What each row is called in a picture: its group, its term, or both."""
    terms = {row.term for row in rows}
    grouped = any(row.group for row in rows)
    if not grouped:
        return [row.term for row in rows]
    if len(terms) == 1:
        return [row.group or row.term for row in rows]
    return [f"{row.group} {row.term}".strip() for row in rows]


def pictures(release: ResultNumbers, size: Size | None = None) -> tuple[str, ...]:
    """A release as SVG: a curve over time, or intervals side by side, one picture per axis."""
    size, rows, times = size or Size(), release.rows(), release.times
    if len(times) == len(rows) > 1:
        return tuple(filter(None, [over_time(rows, times, release.level, size)]))
    named = tuple(zip(release.labels(), rows, strict=True))
    made, room = [], size.most
    for part in reversed(_axes(named, set(release.columns))):  # comparisons before their groups
        shown = part[: max(room, 1)]
        room -= len(shown)
        drawn, words = [row for _, row in shown], [name for name, _ in shown]
        made.append(svg(drawn, release.level, size, words))
    return tuple(filter(None, reversed(made)))


Named = tuple[str, Row]


def _axes(rows: Sequence[Named], columns: set[str]) -> list[list[Named]]:
    """What is drawn on one axis: groups and their comparisons apart, a standard deviation without
    its square, coefficients without their intercept."""
    if len(rows) > 1 and rows[0][1].term in ("Intercept", "variance"):
        return [list(rows[1:])]
    own: list[Named] = []
    apart: list[Named] = []
    for item in rows:
        (apart if is_comparison(item[1], columns) else own).append(item)
    return [part for part in (own, apart) if part]


def svg(
    rows: Sequence[Row], level: float, size: Size | None = None, names: Sequence[str] = ()
) -> str:
    """Both intervals of every row on one axis: thin for the population, thick for privacy noise.
    Colors are those of the text around, so that it reads on any ground."""
    size, drawn = size or Size(), [row for row in rows if math.isfinite(row.estimate)]
    if not drawn:
        return ""
    low, high = _reach(drawn)
    names = names or labels(rows)
    letter, widest = LETTER * size.font, WIDEST * size.width
    left = 10 + min(letter * max(len(name) for name in names), widest)
    plot, top, floor = size.width - left - 20, 4, 4 + size.line * len(rows)

    def x(value: float) -> float:
        return left + plot * (min(max(value, low), high) - low) / (high - low)

    parts = [_line(left, left + plot, floor, floor, 1, 0.5)]
    for tick in ticks(low, high, max(3, int(plot / (9 * letter)))):
        at = x(tick)
        parts.append(_line(at, at, top, floor + 4, 1, 0.15))
        parts.append(_text(at, floor + 5 + size.font, f"{tick:.6g}"))
    for j, (name, row) in enumerate(zip(names, rows, strict=True)):
        y = top + size.line * (j + 0.5)
        narrow = left - 14 if letter * len(name) > widest else 0  # a longer label, whole
        parts.append(_text(left - 8, y + size.font / 3, name, "end", narrow))
        if not math.isfinite(row.estimate):
            word = find_status(read_status(row.status, has_estimate=False)).label
            parts.append(_text(left + 6, y + size.font / 3, word, "start"))
            continue
        for a, b, thick, opacity in _strokes(row):
            parts.append(_line(x(a), x(b), y, y, thick, opacity))
        parts.append(_dot(x(row.estimate), y))
    return _framed(parts, INTERVALS.format(percent(level)), size, floor + size.font + 10)


def over_time(rows: Sequence[Row], times: Sequence[float], level: float, size: Size) -> str:
    """Estimates joined by a line, time from left to right, with both intervals of every point."""
    drawn = [row for row in rows if math.isfinite(row.estimate)]
    if not drawn:
        return ""
    low, high = _reach(drawn)
    letter = LETTER * size.font
    marks = ticks(low, high, max(4, int(size.height / (4 * size.font))))
    left = 10 + letter * max(len(f"{mark:.6g}") for mark in marks)
    top, floor, right = 8, size.height - size.font - 10, size.width - 14
    edge = min(letter * max(len(row.term) for row in rows) / 2, (right - left) / 4)

    def x(time: float) -> float:
        span = times[-1] - times[0] or 1.0
        return left + edge + (right - left - 2 * edge) * (time - times[0]) / span

    def y(value: float) -> float:
        return floor - (floor - top) * (min(max(value, low), high) - low) / (high - low)

    parts = []
    for mark in marks:
        parts.append(_line(left, right, y(mark), y(mark), 1, 0.15))
        parts.append(_text(left - 6, y(mark) + size.font / 3, f"{mark:.6g}", "end"))
    parts.append(_line(left, right, floor, floor, 1, 0.5))
    free = -math.inf
    for row, time in zip(rows, times, strict=True):
        half = letter * len(row.term) / 2
        if x(time) - half >= free:
            parts.append(_text(x(time), floor + 4 + size.font, row.term))
            free = x(time) + half + letter
    points = [
        (x(time), y(row.estimate)) if math.isfinite(row.estimate) else None
        for row, time in zip(rows, times, strict=True)
    ]
    for one, two in pairwise(points):
        if one and two:  # a point without an estimate leaves a gap
            parts.append(_line(one[0], two[0], one[1], two[1], 1.5, 0.6))
    for row, point in zip(rows, points, strict=True):
        if point:
            parts += [
                _line(point[0], point[0], y(a), y(b), thick, opacity)
                for a, b, thick, opacity in _strokes(row)
            ]
            parts.append(_dot(*point))
    return _framed(parts, INTERVALS.format(percent(level)), size, size.height)


def _strokes(row: Row) -> list[tuple[float, float, float, float]]:
    """Ends, width and opacity of the lines of a row: thin for all errors, thick for noise."""
    found = ((row.lower, row.upper, 1.5, 0.9), (row.noise_lower, row.noise_upper, 6, 0.35))
    return [item for item in found if not (math.isnan(item[0]) or math.isnan(item[1]))]


def error_lines(places: Sequence[float], errors: Mapping[str, Sequence[float]], name: str) -> str:
    """Errors against a budget or a number of people, on an axis of equal ratios. errors: by cause;
    the first is drawn thickest. name: of the axis."""
    size = Size()
    known = [value for line in errors.values() for value in line if math.isfinite(value)]
    if len(places) < 2 or not known:
        return ""
    high = max(known) * 1.05
    letter = LETTER * size.font
    marks = ticks(0.0, high, 4)
    left = 10 + letter * max(len(f"{mark:.6g}") for mark in marks)
    top, floor, right = 8, size.height - 2 * size.font - 14, size.width - 90
    span = math.log(places[-1] / places[0])

    def x(place: float) -> float:
        return left + letter * 2 + (right - left - letter * 4) * math.log(place / places[0]) / span

    def y(value: float) -> float:
        return floor - (floor - top) * value / high

    parts = [_line(left, right, y(mark), y(mark), 1, 0.15 if mark else 0.5) for mark in marks]
    parts += [_text(left - 6, y(m) + size.font / 3, f"{m:.6g}", "end") for m in marks]
    parts += [_text(x(place), floor + 4 + size.font, f"{place:.6g}") for place in places]
    parts.append(_text((left + right) / 2, floor + 8 + 2 * size.font, name))
    named: list[float] = []
    for j, (cause, line) in enumerate(errors.items()):
        points = [(x(a), y(b)) for a, b in zip(places, line, strict=True) if math.isfinite(b)]
        for one, two in pairwise(points):
            parts.append(_line(one[0], two[0], one[1], two[1], 2.4 - 0.8 * j, 1 - 0.25 * j))
        if points:
            height = points[-1][1] + 4
            while any(abs(height - other) < size.font for other in named):
                height -= size.font
            named.append(height)
            parts.append(_text(points[-1][0] + 6, height, cause, "start"))
    return _framed(parts, f"Predicted errors against {name}", size, size.height)


def _framed(parts: Sequence[str], title: str, size: Size, height: float) -> str:
    return "".join((
        f'<svg class="intervals" role="img" viewBox="0 0 {size.width} {height:.0f}" '
        f'width="{size.width}" height="{height:.0f}" style="max-width:100%;height:auto" '
        f'font-family="sans-serif" font-size="{size.font}" fill="currentColor" '
        f'stroke="currentColor"><title>{escape(title)}</title>',
        *parts, "</svg>",
    ))  # fmt: skip


def _line(x1: float, x2: float, y1: float, y2: float, width: float, opacity: float) -> str:
    return (
        f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" '
        f'stroke-width="{width:g}" stroke-opacity="{opacity}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", narrow: float = 0) -> str:
    """narrow: the width into which a long text is pressed."""
    pressed = f' textLength="{narrow:.0f}" lengthAdjust="spacingAndGlyphs"' if narrow else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" stroke="none"{pressed}>'
        f"{escape(printable(text))}</text>"
    )


def _dot(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" stroke="none"/>'


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


def ticks(low: float, high: float, number: int = 5) -> list[float]:
    """About so many round numbers from `low` to `high`."""
    raw = (high - low) / number
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * 0.999)
    first = math.ceil(low / step)
    return [step * k for k in range(first, math.floor(high / step) + 1)]


def new_axes(size: tuple[float, float] | None = None) -> Any:
    """Axes of a Matplotlib figure of their own; ArgumentError where there is no matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ArgumentError("plot", None, "requires matplotlib", "install privmean[plot]") from None
    return Figure(figsize=size, layout="constrained").subplots()


def shade(
    fill_between: Callable[..., object],
    at: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    alpha: float,
    label: str,
) -> None:
    """A band between two lines, by a method of axes."""
    fill_between(at, lower, upper, alpha=alpha, color="C0", linewidth=0, label=label)


def plotted(rows: Sequence[Row], level: float, axes: Any = None) -> Any:
    """The same picture on Matplotlib axes (made if there are none), which it returns."""
    axes = new_axes((7.0, 1.2 + 0.3 * len(rows))) if axes is None else axes
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
