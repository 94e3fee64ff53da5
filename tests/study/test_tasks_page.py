"""Five tasks: each in at most ten lines of Python, and as one file that test_pages.py runs."""

from __future__ import annotations

import re

from doc_pages import DOCS, blocks

PAGE = DOCS / "tasks.md"


def test_each_task_is_ten_lines_of_python_and_one_file_that_is_run():
    found = blocks(PAGE)
    python = [block for block in found if block.kind == "python"]
    files = [block.said for block in found if block.mark == "file"]
    assert len(python) == len(files) == 5
    for block in python:
        lines = [line for line in block.text.splitlines() if line.strip()]
        assert len(lines) <= 10
        assert all(len(line) <= 100 for line in lines)
        assert block.runs
    commands = "\n".join(block.text for block in found if block.kind == "sh")
    assert re.findall(r"study run (\S+)", commands) == files


def test_the_page_for_the_board_shares_a_look():
    import tomllib

    import privmean as pm
    from privmean.study.study_file import study_of

    (text,) = (block.text for block in blocks(PAGE) if block.said == "board.toml")
    made = study_of(tomllib.loads(text), DOCS)
    made.source = pm.Table(pm.example("nlswork"), person="person_id")
    plan = made.plan()
    users = {part.name for part in plan.parts for look in part.looks if look.column == "ln_wage"}
    assert users == {"level", "trend", "returns"}
    assert len([look for look in plan.looks if look.column == "ln_wage"]) == 1
