"""What pages of the documentation say to run, and running it.

A page is read from the top, in an empty folder: blocks of `python` share one set of names, blocks
of `sh` are commands. A comment on the line before a block says what is different about it:

    <!-- not run: why -->       an illustration
    <!-- file: study.toml -->   the block is written to that file
    <!-- status: 3 -->          every command of the block ends with that exit status
    <!-- output: seed 1 -->     what the code before it prints with noise of that seed
    <!-- picture: release -->   the image on the next line is that of this expression

Commands of pip and make are looked up (extras, targets), not run. Outputs and pictures are written
by docs/site-tools/refresh_outputs.py and compared by tests/test_shown_outputs.py.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from privmean import SimulatedNoise, pipeline
from privmean.cli.app import run
from privmean.streams import stream_base
from privmean.study import study as study_runs

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RUN = ("python", "sh")
SHOWN = ("text", "json", "toml", "picture")  # output, and files
NO_ESTIMATE = 3  # exit status of a release without an estimate
MARK = re.compile(r"<!-- (not run|file|status|output|picture): (.+) -->")
SHOWN_MARKS = ("output", "picture")  # what refresh_outputs.py writes
IMAGE = re.compile(r"!\[[^]]+\]\((.+\.svg)\)")
SVG = re.compile(r"<svg.*</svg>", re.DOTALL)
COLORS = (
    "<style>svg { color: #24292f } "
    "@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }</style>"
)
FENCE = re.compile(r"```(\S*)\s*")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    text: str
    mark: str = ""  # "not run", "file", "status", "output" or "picture"
    said: str = ""

    @property
    def runs(self) -> bool:
        return self.kind in RUN and self.mark != "not run"

    @property
    def seed(self) -> int | None:
        """The seed of the noise of an output block."""
        return int(self.said.removeprefix("seed ")) if self.mark == "output" else None


def pages() -> list[Path]:
    """README and every page of docs/; the appendix is made when the site is built."""
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *gallery()]


def gallery() -> list[Path]:
    """Whole stories, each a notebook too."""
    return sorted((DOCS / "gallery").glob("*.md"))


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text().splitlines()
    at, before = 0, ""
    while at < len(lines):
        fence = FENCE.fullmatch(lines[at])
        if fence is None:
            mark = MARK.fullmatch(before)
            if mark and mark[1] == "picture":
                image = IMAGE.fullmatch(lines[at])
                assert image, f"{page.name}:{at + 1}: no image after the mark of a picture"
                found.append(Block(page.name, at + 1, "picture", mark[2], "picture", image[1]))
            before = lines[at]
            at += 1
            continue
        end = lines.index("```", at + 1)
        mark = MARK.fullmatch(before)
        kind, said = (mark[1], mark[2]) if mark else ("", "")
        found.append(Block(page.name, at + 1, fence[1], "\n".join(lines[at + 1 : end]), kind, said))
        at, before = end + 1, ""
    return found


def commands(text: str) -> list[str]:
    """The commands of a block, those of several lines joined."""
    joined = text.replace("\\\n", " ")
    return [line for line in map(str.strip, joined.splitlines()) if line and line[0] != "#"]


def prose(page: Path) -> str:
    """A page without its blocks and comments."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def run_page(page: Path) -> int:
    """Run a page in the current folder; returns how many blocks ran."""
    names: dict[str, Any] = {}
    return sum(run_block(block, names) for block in blocks(page))


def run_block(block: Block, names: dict[str, Any]) -> bool:
    """Run one block in the current folder, with the names of the blocks before it."""
    if block.mark == "file":
        Path(block.said).write_text(block.text + "\n")
    if not block.runs:
        return False
    place = f"{block.page}:{block.line}"
    if block.kind == "python":
        source = "\n" * block.line + block.text  # errors name the line of the page
        exec(compile(source, place, "exec"), names)
        return True
    wanted = int(block.said) if block.mark == "status" else 0
    for command in commands(block.text):
        status, shown = run_command(command)
        if status == NO_ESTIMATE and not wanted:  # by chance, in a few of 1000: not twice
            status, shown = run_command(command)
        assert status == wanted, f"{place}: {command}: {shown}"
    return True


class _ShownNoise(SimulatedNoise):
    """Noise of a seed that does not mark the release: an output shows what a reader would see."""

    @property
    def secure(self) -> bool:
        return True


def shown_outputs(page: Path) -> list[tuple[Block, str]]:
    """Run a page in the current folder; each output or picture with what it has to show."""
    names: dict[str, Any] = {}
    found = []
    every = blocks(page)
    for block, after in zip(every, [*every[1:], Block(page.name, 0, "", "")], strict=True):
        printed = io.StringIO()
        with contextlib.ExitStack() as stack:
            for module in (pipeline, study_runs, stream_base):
                noise = partial(_ShownNoise, after.seed or 0)
                stack.enter_context(mock.patch.object(module, "ExactNoise", noise))
            stack.enter_context(contextlib.redirect_stdout(printed))
            run_block(block, names)
        if block.mark == "picture":
            found.append((block, picture(eval(block.text, names))))
        if after.seed is not None:
            found.append((after, printed.getvalue().rstrip("\n")))
    return found


def picture(shown: Any) -> str:
    """The vector picture of a release, or in a page, as a file that reads on light and dark."""
    text = shown if isinstance(shown, str) else shown.output().picture()
    drawn = SVG.search(text)
    assert drawn, "nothing is drawn"
    start, _, rest = drawn[0].partition(">")
    name = "" if "xmlns" in start else ' xmlns="http://www.w3.org/2000/svg"'
    return f"{start}{name}>{COLORS}{rest}\n"


def with_outputs(page: Path) -> dict[Path, str]:
    """The text of a page with its output blocks written anew, and its pictures, by their files."""
    lines = page.read_text().splitlines()
    found = {}
    for block, text in reversed(shown_outputs(page)):
        if block.mark == "picture":
            found[page.parent / block.said] = text
            continue
        end = lines.index("```", block.line)
        lines[block.line : end] = text.splitlines()
    return found | {page: "\n".join(lines) + "\n"}


def run_command(command: str) -> tuple[int, str]:
    """The exit status of one line, and what it wrote to standard error."""
    words = shlex.split(command, comments=True)
    if words[0] == "pip":
        return _known_extras(words), ""
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return int(not set(word for word in words[1:] if "=" not in word) <= set(targets)), ""
    if words[0] != "privmean":
        made = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=False)
        return made.returncode, made.stderr
    put, take = _redirected(words, ">"), _redirected(words, "<")
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stderr(said))
        if put:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(put, "w"))))
        if take:
            before, sys.stdin = sys.stdin, stack.enter_context(open(take))
            stack.callback(setattr, sys, "stdin", before)
        return run(words[1:]), said.getvalue()


def _redirected(words: list[str], sign: str) -> str:
    if sign not in words:
        return ""
    at = words.index(sign)
    path = words[at + 1]
    del words[at : at + 2]
    return path


def _known_extras(words: list[str]) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = set(project["optional-dependencies"])
    said = {
        extra
        for word in words
        for extras in re.findall(r"privmean\[(.*)\]", word)
        for extra in extras.split(",")
    }
    return int(not said <= known)
