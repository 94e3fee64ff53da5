"""The size table: every line has one kind, and every idea that it counts is still found."""

from __future__ import annotations

import json

import pytest

import size

MODULE = '''"""A module."""

from __future__ import annotations

LIMIT = 3
NAMES = ("a", "b")


class Thing(Base):
    """A thing."""

    width: float
    name: str = ""

    def __post_init__(self) -> None:
        if self.width < 0:
            raise ValueError(self.width)

    def describe(self) -> dict[str, object]:
        return {"width": self.width}

    def wide(self) -> bool:
        return self.inner.wide()

    def area(
        self,
        height: float,
    ) -> float:
        # a reason
        found = join(
            height,
        )
        return self.width * found


def say(thing: Thing) -> str:
    if not thing:
        raise ValueError("nothing")
    return (
        "a sentence of many words " + thing.name
    )
'''
EXPECTED = {
    "docstrings": 2, "imports": 1, "constants": 2, "fields": 4, "checks": 4, "signatures": 8,
    "texts": 2, "logic": 4, "brackets": 2, "blank": 12,
}  # fmt: skip


def test_kinds_of_gives_every_line_one_kind():
    found = size.kinds_of(MODULE)
    assert sum(found.values()) == len(MODULE.splitlines())
    assert dict(found) == EXPECTED


@pytest.mark.slow
def test_size_counts_every_line_of_the_source_and_finds_every_idea():
    found = size.measure()
    total = found["total"]
    files = list((size.ROOT / "src" / "privmean").rglob("*.py"))
    assert total["files"] == len(files)
    assert total["lines"] == sum(len(path.read_text().splitlines()) for path in files)
    assert total["lines"] == sum(total[kind] for kind in size.KINDS)
    # an idea that is renamed would be counted as gone
    none = {name for name, number in found["concepts"].items() if not number}
    assert none <= {"file names used twice or more"}
    stored = json.loads(size.RESULTS.read_text())
    assert stored.keys() == found.keys()
    assert stored["concepts"].keys() == found["concepts"].keys()


def test_changes_name_every_number_that_moved():
    before = {"total": {"lines": 3, "files": 1}, "gone": 2}
    now = {"total": {"lines": 4, "files": 1}, "new": 5}
    assert list(size.changes(before, now)) == [
        "total: lines: 3 -> 4", "gone: 2 -> None", "new: None -> 5",
    ]  # fmt: skip
