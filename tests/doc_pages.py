"""What pages of the documentation say to run, and running it.

A page is read from the top, in an empty folder: blocks of `python` share one set of names, blocks
of `sh` are commands. A comment on the line before a block says what is different about it:

    <!-- not run: why -->       an illustration
    <!-- file: study.toml -->   the block is written to that file
    <!-- status: 3 -->          every command of the block ends with that exit status

Commands of pip and make are looked up (extras, targets), not run.
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
from pathlib import Path
from typing import Any

from privmean.cli.app import run

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RUN = ("python", "sh")
SHOWN = ("text", "json", "toml")  # output, and files
NO_ESTIMATE = 3  # exit status of a release without an estimate
MARK = re.compile(r"<!-- (not run|file|status): (.+) -->")
FENCE = re.compile(r"```(\S*)\s*")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    text: str
    mark: str = ""  # "not run", "file" or "status"
    said: str = ""

    @property
    def runs(self) -> bool:
        return self.kind in RUN and self.mark != "not run"


def pages() -> list[Path]:
    """README and every page of docs/; the appendix is made when the site is built."""
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text().splitlines()
    at, before = 0, ""
    while at < len(lines):
        fence = FENCE.fullmatch(lines[at])
        if fence is None:
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


def run_page(page: Path) -> int:
    """Run a page in the current folder; returns how many blocks ran."""
    names: dict[str, Any] = {}
    ran = 0
    for block in blocks(page):
        if block.mark == "file":
            Path(block.said).write_text(block.text + "\n")
        if not block.runs:
            continue
        ran += 1
        place = f"{block.page}:{block.line}"
        if block.kind == "python":
            source = "\n" * block.line + block.text  # errors name the line of the page
            exec(compile(source, str(page), "exec"), names)
            continue
        wanted = int(block.said) if block.mark == "status" else 0
        for command in commands(block.text):
            status, shown = run_command(command)
            if status == NO_ESTIMATE and not wanted:  # by chance, in a few of 1000: not twice
                status, shown = run_command(command)
            assert status == wanted, f"{place}: {command}: {shown}"
    return ran


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
