"""Writes docs/statuses.md from the table of statuses.

python docs/site-tools/statuses.py
"""

from __future__ import annotations

from pathlib import Path

from privmean.inference.status import STATUSES

PAGE = Path(__file__).resolve().parents[1] / "statuses.md"
HEAD = """# Statuses

Each row of a release has a status. A status is found from noisy numbers alone, so it reveals
nothing beyond them. The status of a release is that of its most severe row. A release is `failed`
only if no row has an estimate; then the command ends with exit status 3. `release.advice` adds
what is particular to the release, such as numbers and columns. Releases stored by version 0.2 are
read with these codes.

Means by group, comparisons and variances take no bounds; where "What to do" says so, take
logarithms or raise epsilon. A group or bin that is `point_mass` has no estimate.

In order of severity:

| Code | Meaning | Estimate | Interval holds | What to do |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page as Markdown."""
    lines = []
    for row in STATUSES:
        message = row.message.replace("{target}", "the named target") or "Nothing to report."
        remedy = row.remedy.replace("{target}", "that target")
        shown = "yes" if row.has_estimate else "no"
        lines.append(f"| `{row.code}` | {message} | {shown} | {row.interval} | {remedy} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
