"""Write outputs, pictures and notebooks of pages: `python docs/site-tools/refresh_outputs.py`.

A block after `<!-- output: seed 1 -->` is what the code before it prints with noise of that seed.
The image after `<!-- picture: release -->` is that of this expression.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from notebooks import notebooks  # noqa: E402

from doc_pages import SHOWN_MARKS, blocks, pages, with_outputs  # noqa: E402

if __name__ == "__main__":
    made = notebooks()
    for page in pages():
        if any(block.mark in SHOWN_MARKS for block in blocks(page)):
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                made |= with_outputs(page)
    for path, text in made.items():
        if not path.exists() or text != path.read_text():
            path.write_text(text)
            print(f"{path.relative_to(ROOT)}: written anew")
