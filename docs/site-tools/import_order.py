"""The picture of the import order in docs/architecture.md, from the imports of the source.

python docs/site-tools/import_order.py    # writes the picture into the page
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "privmean"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- begin imports -->\n", "<!-- end imports -->"


def folders() -> set[str]:
    """Return the packages of the source, and the module that charges and runs a plan."""
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")} | {"pipeline"}


def imported() -> dict[str, set[str]]:
    """Return the packages that each package imports, in functions and for type checkers too."""
    names = folders()
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if here not in names:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            modules += [item.name for item in node.names] if isinstance(node, ast.Import) else []
            parts = (module.split(".") for module in modules)
            found[here] |= {part[1] for part in parts if part[0] == "privmean" and len(part) > 1}
    return {name: (others & names) - {name} for name, others in found.items()}


def picture() -> str:
    """Return one line per package, the last to import first. Right of the arrow: what it imports,
    without what these import themselves."""
    direct = imported()
    reached: dict[str, set[str]] = {}
    while len(reached) < len(direct):
        ready = sorted(name for name in {*direct} - {*reached} if direct[name] <= {*reached})
        if not ready:
            raise SystemExit(f"imports in a circle: {sorted({*direct} - {*reached})}")
        for name in ready:
            reached[name] = direct[name].union(*(reached[other] for other in direct[name]))
    lines = []
    for name in reversed(reached):
        below = direct[name] - set().union(*(reached[other] for other in direct[name]))
        lines.append(f"{name:<13}" + (f"-> {', '.join(sorted(below))}" if below else ""))
    return "```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```\n"


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(text.split(BEGIN)[0] + BEGIN + picture() + END + text.split(END)[1])
