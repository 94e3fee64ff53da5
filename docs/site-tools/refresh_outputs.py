"""Write the outputs that pages show anew: `python docs/site-tools/refresh_outputs.py`.

A block after `<!-- output: seed 1 -->` is what the code before it prints with noise of that seed.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from doc_pages import blocks, pages, with_outputs  # noqa: E402

if __name__ == "__main__":
    for page in pages():
        if any(block.mark == "output" for block in blocks(page)):
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                text = with_outputs(page)
            if text != page.read_text():
                page.write_text(text)
                print(f"{page.relative_to(ROOT)}: written anew")
