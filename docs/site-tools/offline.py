"""The built site fetches nothing: no script, style, font or picture from another host."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FETCHED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|@import[^;]*?((?:https?:)?//[^\"')\s;]+)|url\([\"']?((?:https?:)?//[^\"')\s]+)"
)


def fetched(folder: Path) -> list[str]:
    """Addresses that a page or a style sheet of this folder loads from elsewhere."""
    return [
        f"{path.relative_to(folder)}: {next(filter(None, found))}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".html", ".css")
        for found in FETCHED.findall(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    site = Path(sys.argv[1])
    wrong = fetched(site)
    pages = len(list(site.rglob("*.html")))
    print("\n".join(wrong) or f"{pages} pages in {site}/index.html; none fetches anything")
    sys.exit(1 if wrong or pages < 50 else 0)
