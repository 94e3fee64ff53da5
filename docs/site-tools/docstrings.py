"""The docstrings of privmean as Markdown: examples as code, what is said of a name on its own line.

Loaded by mkdocstrings (mkdocs.yml); privmean itself is read, not imported.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^Examples?:$")
RULE = re.compile(r"^(-{3,})$")


def markdown(text: str) -> str:
    """`Example:` with its indented lines and the section `Examples` become blocks of code, headings
    of sections and `Guarantees:` paragraphs in bold."""
    made: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line == "Examples" and at + 1 < len(lines) and RULE.match(lines[at + 1]):
            made += ["", "**Examples**", "", "```python", *lines[at + 2 :], "```", ""]
            break
        if EXAMPLE.match(line):
            block = []
            at += 1
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith("    ")):
                block.append(lines[at][4:])
                at += 1
            code = "\n".join(block).strip("\n").split("\n")
            made += ["", "**Example**", "", "```python", *code, "```", ""]
            continue
        if at + 1 < len(lines) and RULE.match(lines[at + 1]):
            made += ["", f"**{line}**", ""]
            at += 2
            continue
        if (
            line.startswith("    ")
            and made
            and made[-1].strip()
            and not made[-1].startswith("    ")
        ):
            # a name, and its meaning indented below: one item of a list
            made[-1] = f"- `{made[-1].strip()}`:"
            while at < len(lines) and lines[at].startswith("    "):
                made.append("    " + lines[at].strip())
                at += 1
            continue
        made.append(re.sub(r"^(Guarantees?|Source):", r"**\1**:", line))
        at += 1
    return "\n".join(made)


class Docstrings(Extension):
    """Rewrites every docstring once, when the package has been read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
