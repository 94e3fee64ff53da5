"""Lines that are no events, because they lack an id, a group or a time: counted, named, free."""

import json

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_runner import shell
from privmean.privacy.ledger import Ledger
from privmean.streams import record_sources as sources
from privmean.streams.record_sources import Reader

BASE = [
    "stream", "--person", "p", "--value", "v", "--epsilon", "1", "--delta", "1e-6",
    "--max-participations", "4", "--min-separation", "2", "--bounds", "0", "10",
]  # fmt: skip
DAYS = ["--period", "day", "--time-column", "t", "--window", "1"]
LINES = [
    {"p": f"u{i % 7}", "v": i % 5, "g": "ab"[i % 2], "t": f"2026-01-{1 + i // 10:02d}"}
    for i in range(30)
]


@pytest.fixture(name="feed")
def feeder(tmp_path, monkeypatch):
    def feed(rows, *arguments):
        path = tmp_path / "input"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with path.open("rb") as file:
            monkeypatch.setattr(sources, "stdin", file.fileno)
            result = shell(*BASE, *arguments)
        assert result.exit_code == 0, result.stderr
        return result

    return feed


def without(key, rows):
    return [{name: item for name, item in row.items() if name != key} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "arguments", "said"),
    [
        ("p", [], "No line had a readable id; such lines are not counted. Check --person."),
        ("g", ["--by", "g"], "No line had a readable group; such lines are not counted. Check "
         "--by."),
        ("t", DAYS, "No line had a readable time; such lines are not counted. Check --time-column "
         "(2026-03-05T14:30"),
        ("t", [*DAYS, "--by", "g"], "No line had a readable time"),
    ],
)  # fmt: skip
def test_a_key_that_no_line_has_is_named_and_nothing_is_charged(
    feed, tmp_path, key, arguments, said
):
    Ledger(tmp_path / "book", epsilon=1, delta=1e-5)
    kept = ["--state", tmp_path / "s", "--ledger", tmp_path / "book", *arguments, "--flush"]
    for _ in range(2):  # the second run reads the same lines again
        result = feed(without(key, LINES), *kept)
        assert result.stdout == ""
        assert "Stream: done\n0 records, " in result.stderr
        assert said in " ".join(result.stderr.split())
        assert "that was over" not in result.stderr
    assert not Ledger.open(tmp_path / "book").entries
    # events that come later are charged, once
    for more in (LINES, LINES[:1]):
        result = feed(more, *kept, "--append")
        assert "30 lines had no readable" in result.stderr
    assert len(Ledger.open(tmp_path / "book").entries) == 1


def test_each_lack_is_counted_by_itself(feed):
    late = {**LINES[0], "p": "z"}
    rows = [*LINES, {}, *without("g", LINES[:2]), *without("t", LINES[:3]), late]
    rows += [{**LINES[0], "t": "5.3.2026"}, {"v": 1, "g": "a"}]
    result = feed(rows, "--by", "g", *DAYS)
    assert "Stream: done\n31 records, " in result.stderr
    for said in ("2 lines had no readable id", "2 lines had no readable group",
                 "4 lines had no readable time", ", 1 of a time that was over"):  # fmt: skip
        assert said in " ".join(result.stderr.split())
    counted = feed([*LINES, late, *without("t", LINES[:3])], *DAYS)
    assert "31 records, " in counted.stderr
    assert ", 1 of a time that was over" in " ".join(counted.stderr.split())
    assert "3 lines had no readable time" in counted.stderr


def test_rows_of_parts_without_a_group(tmp_path):
    query = "SELECT i AS p, 1 AS v, CASE WHEN i % 4 = 0 THEN 'a' END AS g FROM range(12) t(i)"
    duckdb.sql(query).write_parquet(str(tmp_path / "a.parquet"))
    result = shell(*BASE, "--parts", tmp_path, "--idle", "0", "--by", "g")
    assert result.exit_code == 0
    assert "\n3 records, " in result.stderr
    assert "9 lines had no readable group" in result.stderr


@given(st.one_of(st.sampled_from([b"{", b"[", b'"x', b"1}", b"nan", b""]), st.binary(max_size=30)))
@example(b'"}')
@example(b'{"x": ')
def test_no_text_of_a_value_hides_a_group_or_a_time(value):
    """Else the count of lines without one would tell of a value."""
    value = value.replace(b"\n", b"").replace(b'"g"', b"").replace(b'"t"', b"")
    for line in (
        b'{"p": "b", "v": %b, "g": "a", "t": "2026"}' % value,
        b'{"g": "a", "v": %b, "t": "2026", "p": "b"}' % value,
        b'{"t": "2026", "g": "a", "p": "b", "v": %b' % value,
    ):
        (event,) = Reader("p", ("v",), "jsonl", public=("g", "t")).read([line])
        assert (event.person, event.public) == ("b", ("a", "2026"))
