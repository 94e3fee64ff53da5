"""Write docs/pictures/readme.svg: the release that the README prints, with its intervals."""

from __future__ import annotations

from pathlib import Path

import privmean as pm

PICTURE = Path(__file__).resolve().parents[1] / "pictures" / "readme.svg"
INDUSTRIES = {"4": "Manufacturing", "6": "Trade", "7": "Finance", "11": "Services"}
LOW, HIGH, TICK = 1.3, 1.9, 0.1  # of the axis, in log wage
LEFT, RIGHT, TOP, STEP, WIDTH = 130, 620, 24, 34, 640
STYLE = """text { font: 14px system-ui, sans-serif; fill: #24292f }
.grid { stroke: #d0d7de } .thin { stroke: #0969da; stroke-width: 1.5 }
.thick { stroke: #0969da; stroke-width: 6 } circle { fill: #24292f }
@media (prefers-color-scheme: dark) {
  text, circle { fill: #e6edf3 } .grid { stroke: #3d444d } .thin, .thick { stroke: #4493f8 } }"""


def x(value: float) -> float:
    return round(LEFT + (value - LOW) / (HIGH - LOW) * (RIGHT - LEFT), 1)


def line(kind: str, one: float, other: float, y: int) -> str:
    return f'<line class="{kind}" x1="{x(one)}" x2="{x(other)}" y1="{y}" y2="{y}"/>'


def picture() -> str:
    table = pm.Table(pm.example("nlswork"), person="person_id")
    keys = [int(key) for key in INDUSTRIES]
    question = {"by": "ind_code", "keys": keys, "contrasts": ["7 - 6"]}
    release = pm.mean(table, "ln_wage", **question, epsilon=1, noise=pm.SimulatedNoise(2))
    rows = [row for row in release.rows() if row.group in INDUSTRIES]
    bottom = TOP + STEP * len(rows)
    parts = []
    for k in range(round((HIGH - LOW) / TICK) + 1):
        at = x(LOW + k * TICK)
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP - 12}" y2="{bottom - 10}"/>')
        words = f"{LOW + k * TICK:.1f}"
        parts.append(f'<text x="{at}" y="{bottom + 8}" text-anchor="middle">{words}</text>')
    for k, row in enumerate(rows):
        y = TOP + STEP * k + 5
        parts.append(f'<text x="8" y="{y + 5}">{INDUSTRIES[row.group]}</text>')
        parts.append(line("thin", row.lower, row.upper, y))
        parts.append(line("thick", row.noise_lower, row.noise_upper, y))
        parts.append(f'<circle cx="{x(row.estimate)}" cy="{y}" r="3.5"/>')
    caption = "Mean log wage, epsilon 1. Thin: 95% interval; thick: privacy noise."
    parts.append(f'<text x="{LEFT}" y="{bottom + 34}">{caption}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 44}"'
    return "\n".join(
        [
            f'{head} role="img" aria-label="{caption}">',
            f"<style>{STYLE}</style>",
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
