"""A record can change nothing but its own person: hostile lines among clean ones, in every format.

`benchmarks/fuzz_text.py` does the same with 10^5 lines a format.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
from collections import Counter
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from backports import zstd
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fuzz_text
import privmean as pm
from hostile_records import CLEAN, HOSTILE, content, line, rows
from privmean.cli.app import run
from privmean.data import text_record as text
from privmean.data import text_scan as textblocks
from privmean.data.text_record import TextFormat

ENDINGS = ("csv", "jsonl")
SAID = [
    "a byte of no UTF-8 in the value", "a quote that is never closed",
    "a carriage return and another record", "70 000 brackets",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_line_changes_its_own_person_only(tmp_path, kind, ending):
    clean, path = tmp_path / f"clean.{ending}", tmp_path / f"t.{ending}"
    clean.write_bytes(content(ending, None))
    path.write_bytes(content(ending, HOSTILE[kind][ENDINGS.index(ending)]))
    before, after = rows(clean), rows(path)
    assert after.keys() == before.keys()
    assert {who for who in before if before[who] != after[who]} <= {"p200"}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_lines_of_any_length(tmp_path, ending):
    """40 MB in one field, before the id in JSON, under a small limit of memory."""
    long = b"x" * 40_000_000
    hostile = b"p200,50,%b" if ending == "csv" else b'{"note": "%b", "p": "p200", "x": 50}'
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content(ending, hostile % long))
    found = rows(path, memory_limit="100MB", threads=1)
    assert len(found) == CLEAN
    assert found["p200"] == 50.0
    assert found["p201"] == 201 / 4


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_command_says_the_same_words(tmp_path, capsys, ending):
    """Exit status and number of persons are those of the clean file."""
    said = []
    for kind in (None, *SAID):
        hostile = None if kind is None else HOSTILE[kind][ENDINGS.index(ending)]
        path = tmp_path / f"t.{ending}"
        path.write_bytes(content(ending, hostile))
        words = ["mean", str(path), "--person", "p", "--value", "x", "--epsilon", "1", "--json"]
        status = run([*words, "--bounds", "0", "100"])
        shown = capsys.readouterr()
        said.append((status, json.loads(shown.out)["n"], shown.err))
    assert said == [(0, CLEAN, "")] * len(said)


PIECES = [
    b"", b"p", b"x", b"note", b'"', b'""', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"\r", b"\0",
    b" ", b"\t", b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\x85", b"\x1e", b"1", b"-",
    b".", b"e", b"null", b"NaN", b"\\u", b"\\ud800", b"p201", b'"p201"', b'"p":', b'"x":',
    b"p201,7",
]  # fmt: skip
JUNK = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=12).map(b"".join)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=15, deadline=None)
@given(junk=st.lists(JUNK, min_size=1, max_size=30))
@example(junk=[b'"', b'"\r', b"\r"])
@example(junk=[b'x"\xcb"\xac', b'{"p":"p200","x":-0}'])
def test_junk_after_an_id_moves_nobody_else(tmp_path_factory, ending, junk):
    """Many hostile persons among clean ones; those must read as if they were alone."""
    path = tmp_path_factory.mktemp("junk") / f"t.{ending}"
    head = b"p,x,note\n" if ending == "csv" else b""
    start = b"h%03d," if ending == "csv" else b'{"p": "h%03d", "x": '
    lines, expected = [], {}
    for i, item in enumerate(junk):
        bad = start % i + item.replace(b"\n", b"")
        lines += [bad, line(ending, f"p{i:03}", i / 8)]
        expected[f"p{i:03}"] = i / 8
    path.write_bytes(head + b"\n".join(lines) + b"\n")
    found = rows(path)
    assert {who: found[who] for who in expected} == expected
    assert {f"h{i:03}" for i in range(len(junk))} <= found.keys()


def test_nothing_depends_on_the_first_record(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"p": "a"}\n{"p": "b", "x": 1}\n[]\n')
    assert rows(path) == {"a": None, "b": 1.0}
    path.write_text("")
    assert rows(path) == {}
    people = pm.read(path, person="p", values=["x", "no such key"])
    assert people.columns == ("x", "no such key")
    with pytest.raises(pm.ArgumentError, match="is a pattern"):
        pm.read(path, person="p", values="*")


SECRET = "Jane Doe 0,0.0,HIV+\nJohn,1.0,HIV-\n"


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"header": False}])
@pytest.mark.parametrize("asked", [("id", "y"), ("Jane Doe", "y"), ("Jane Doe 0", "*"), ("p", "?")])
def test_no_message_shows_a_record(tmp_path, capsys, options, asked):
    path = tmp_path / "t.csv"
    path.write_text(SECRET)
    with pytest.raises(pm.ArgumentError) as caught:
        pm.read(path, person=asked[0], values=asked[1], **options)
    words = ["mean", str(path), "--person", asked[0], "--values-from", asked[1], "--epsilon", "1"]
    assert run([*words, *(["--no-header"] if options else [])]) == 2
    said = str(caught.value) + capsys.readouterr().err
    assert "HIV" not in said
    assert "0.0" not in said
    assert "The first line has 3 fields" in said or "pattern" in said or options


def test_names_are_listed_where_the_caller_says_that_they_are_names(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("idcode,ln_wage,age\n1,2.5,3\n")
    with pytest.raises(pm.ArgumentError, match="Did you mean 'idcode'"):
        pm.read(path, person="id_code", values="ln_wage", header=True)
    people = pm.read(path, person="idcode", values=["ln_*", "age"], header=True)
    assert people.columns == ("ln_wage", "age")


def test_how_text_is_written_is_the_caller_s_to_say(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("'Jos;é';1,5;-9\nb;NA;2,5\n\n".encode("latin-1"))
    written = {
        "delimiter": ";", "quote": "'", "decimal": ",", "encoding": "latin-1", "header": False,
        "na_values": ["NA", "-9"],
    }  # fmt: skip
    people = pm.read(path, person="1", values=["2", "3", "7"], **written)
    assert people.frame.to_native().order("p").fetchall() == [
        ("Jos;é", 1.5, None, None), ("b", None, 2.5, None)
    ]  # fmt: skip
    lines = tmp_path / "t.jsonl"
    lines.write_bytes('{"p": "José", "x": -9}\n{"p": "b", "x": "1"}'.encode("latin-1"))
    assert rows(lines, encoding="latin-1", na_values=["-9"]) == {"José": None, "b": 1.0}
    for wrong in ({"delimiter": ";"}, {"decimal": ","}, {"header": True}):
        with pytest.raises(pm.ArgumentError, match=next(iter(wrong))):
            rows(lines, **wrong)
    frame = pd.DataFrame({"p": [1], "x": [2.0]})
    with pytest.raises(pm.ArgumentError, match="encoding"):
        pm.read(frame, person="p", values="x", encoding="latin-1")


@pytest.mark.parametrize("ending", ENDINGS)
def test_folders_patterns_and_compression(tmp_path, ending):
    folder = tmp_path / "f"
    folder.mkdir()
    whole = content(ending, None)
    head = b"p,x,note\n" if ending == "csv" else b""
    records = whole.removeprefix(head).splitlines(keepends=True)
    parts = [head + b"".join(records[i::4]) for i in range(4)]
    (folder / f"a.{ending}").write_bytes(b"\xef\xbb\xbf" + parts[0])
    (folder / f"b.{ending}.gz").write_bytes(gzip.compress(parts[1]))
    (folder / f"c.{ending}.zst").write_bytes(
        zstd.compress(parts[2][:50]) + zstd.compress(parts[2][50:])
    )
    (folder / "deep").mkdir()
    (folder / "deep" / f"d[1].{ending}").write_bytes(parts[3].removesuffix(b"\n"))
    (folder / f"_hidden.{ending}").write_bytes(b"no")
    single = tmp_path / f"t.{ending}"
    single.write_bytes(whole)
    assert rows(folder) == rows(single)
    assert len(rows(str(folder / "**" / f"d*.{ending}"))) == 100


def test_rosters_from_files(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_bytes(content("csv", None))
    (tmp_path / "ids.txt").write_text("p001\r\np002\n\nnobody\n")
    (tmp_path / "ids.csv").write_text('who,old\np001,1\n"p002",\nnobody,2\n')
    words = ["mean", str(table), "--person", "p", "--value", "x", "--epsilon", "9", "--json"]
    words += ["--bounds", "0", "100"]
    for more in (["ids.txt"], ["ids.csv", "--roster-column", "who"]):
        more[0] = str(tmp_path / more[0])
        assert run([*words, "--roster", *more]) in (0, 3)  # three persons may be too few
        assert json.loads(capsys.readouterr().out)["n"] == 3
    for wrong in (["--roster", "none.txt"], ["--roster-column", "who"],
                  ["--roster", str(tmp_path / "ids.csv")]):  # fmt: skip
        assert run([*words, *wrong]) == 2
        assert "roster" in capsys.readouterr().err


class Silent:
    def __str__(self):
        raise RuntimeError("no")


ODD = ["\ud800", Silent(), 7, 2.5, None, float("nan"), pd.NA, b"\xff", (1, 2), timedelta(1), {}]


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=lambda item: type(item).__name__)
def test_an_id_of_any_object_moves_nobody_else(odd):
    ids = np.empty(4, dtype=object)
    ids[:] = ["a", "b", "a", "c"]
    x = np.array([1.0, 2.0, 3.0, 4.0])
    ids[3] = odd
    for people in (
        pm.read(x, person=ids),
        pm.read(pd.DataFrame({"p": pd.Series(list(ids), dtype=object), "x": x}),
                person="p", values="x"),
    ):  # fmt: skip
        assert {2.0}.issubset(people.matrix().ravel().tolist())
        assert people.size() - 2 == (people.size() == 3)
    texts = np.array(["a", "b", "a", "\ud800"])
    assert sorted(pm.read(x, person=texts).matrix().ravel().tolist()) == [2.0, 2.0, 4.0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("index", [0, 1, 5])
def test_random_bytes_are_read_by_the_rules_and_move_nobody(tmp_path, kind, index):
    """One file of each of three formats of the fuzzer; the first also by the command."""
    found = fuzz_text.batch(kind, random.Random(f"{kind} {index}"), tmp_path, index)
    assert found["clean rows"] == fuzz_text.BATCH
    assert {name: times for name, times in found.items() if "differ" in name or "show" in name} in (
        {}, {"single lines that show": 0}
    )  # fmt: skip


def rows_of(batch):
    """The texts of a batch, row by row."""
    whole = batch.data.tobytes()
    columns = [field and [whole[i:j].decode() for i, j in zip(*field, strict=True)]
               for field in batch.fields]  # fmt: skip
    return list(itertools.zip_longest(*(column or () for column in columns), fillvalue=""))


@settings(max_examples=150, deadline=None)
@given(
    data=st.lists(st.sampled_from([*PIECES, b"\n", b"\n", b",", b'"', b'""', b'","']), max_size=60),
    quote=st.sampled_from(['"', "", "'"]),
    encoding=st.sampled_from(["utf-8", "latin-1", "ascii"]),
    places=st.sets(st.integers(0, 4), min_size=1).map(sorted),
    block=st.sampled_from([1, 3, 7, 1 << 20]),
    limits=st.sampled_from([(1 << 26, 1 << 16), (90, 5), (1 << 26, 2)]),
)
@example([b'x,"\xcb"\xac,y'], '"', "ascii", [1, 2], 1 << 20, (1 << 26, 1 << 16))
@example([b",'a\r\n", b"b'"], "'", "utf-8", [0, 1], 1, (90, 5))
def test_blocks_of_lines_are_read_like_the_lines(data, quote, encoding, places, block, limits):
    """Whatever the sizes of blocks, and at the limits of lines and fields."""
    raw, form = b"".join(data), TextFormat(quote=quote, encoding=encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textblocks, "BLOCK", block)
        patch.setattr(textblocks, "SHORT", 1)
        patch.setattr(text, "LONGEST", limits[0])
        patch.setattr(text, "WIDEST", limits[1])
        found = []
        for batch in textblocks.csv_texts(io.BytesIO(raw), form, places):
            found += rows_of(batch)
        wanted = [
            tuple(field or "" for field in text.csv_fields(line, form, places))
            for line, _ in text.lines(io.BytesIO(raw))
        ]
    if block < 90 or limits[0] > 90:
        assert sorted(found) == sorted(wanted)


VALUES = [
    b"1", b"-1.5", b"-0", b"-0.0", b"null", b"nan", b"-nan", b'"x"', b'""', b'" "', b"1_0", b"true",
    b"[1]", b"[1,2]", b'{"x":1}', b"", b"-", b"--nan", b"+1", b" 1", b"1 ", b'"n', b'a"b', b'"q" ',
    b'"q"z', b'1"', b'"\xc3\xa9"', b"1}2", b'"1}2"', b'"1,2"', b"1,2", b'"a\\n"', b"\xa0",
    b'"%b,"' % (b"long}" * 30), b'"1_0"',
]  # fmt: skip
ENDS = [b"}", b"}", b"}", b"", b"}x", b",}", b",", b" }", b',"p":3}', b',"z"', b"\r", b"}\r"]


def members(draw):
    """A line of JSON, or nearly."""
    space, names = draw(st.sampled_from([b"", b" "])), draw(st.permutations(["p", "x", "x", "q"]))
    written = [b'"%b":%b%b' % (name.encode(), space, draw(st.sampled_from(VALUES)))
               for name in names[: draw(st.integers(1, 4))]]  # fmt: skip
    return b"{" + (b"," + space).join(written) + draw(st.sampled_from(ENDS))


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(st.composite(members)(), min_size=1, max_size=8),
    often=st.lists(
        st.sampled_from([b"1", b"2.5", b'"x"', b'"%b"' % (b"l, " * 30)]), min_size=2, max_size=2
    ),
    keys=st.sampled_from([["p", "x"], ["x", "p"], ["q"]]),
    numbers=st.sampled_from([frozenset(), frozenset({0})]),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_blocks_of_json_lines_are_read_like_the_lines(lines, often, keys, numbers, encoding):
    """Those that are not left to the parser: at least honest ones written like the first line."""
    honest = b'{"p":%b,"x":%b,"q":1}' % tuple(often)
    raw, form = b"\n".join([honest, *lines, honest]), TextFormat(encoding=encoding)
    found = [row for batch in textblocks.json_texts(io.BytesIO(raw), form, keys, numbers)
             for row in rows_of(batch)]  # fmt: skip
    parsed = Counter(row[-1].removesuffix("\r") for row in found if row[-1])
    wanted: Counter[tuple[str, ...]] = Counter()
    for own, _ in text.lines(io.BytesIO(raw)):
        if not parsed[text.decoded(own, encoding)]:
            fields = text.json_fields(own, keys, form).values()
            wanted[tuple(item or "" for item in fields)] += 1
    plain = Counter(row[:-1] for row in found if not row[-1])
    assert plain == wanted
    assert not parsed[honest.decode()]
    assert not any("_" in row[j] for row in plain for j in numbers)


def test_ids_of_json_lines_are_what_stands_in_the_line(tmp_path):
    """Also where the engine's parser would write something else, or the same of two values."""
    words = [
        "1.50", "1.5", '"1.50"', "1e2", "100.0", "-0", '"-0"', "18446744073709551615", "-nan",
        '"-nan"', "nan", '"nan"', "NaN", '"NaN"', "inf", '"{}"', "{}", '"[1]"', "[1]", "null",
        '"null"', "true", '"a\\\\n\\u00e9"', '"\\ud800"', '"1_0"', '""', '" \\t"', '"é"', "1E400",
        '" 1"', "123456789012345678901234567890", "1.5e400", '"1e5"', '"0x1F"', "01", "+1",
    ]  # fmt: skip
    lines = [f'{{"p": {word}, "x": {i}}}' for i, word in enumerate(words)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    people = pm.read(path, person="p", values="x")
    found = people.frame.to_native().project("p").fetchall()
    wanted = {text.json_fields(line.encode(), ["p"])["p"] for line in lines} - {None}
    assert sorted(item for (item,) in found) == sorted(wanted)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_digits_with_low_lines_are_no_numbers(tmp_path, ending):
    """In plain lines, in quotes, and beside ids that have one."""
    values = ["1_000", '"1_0"', "2", '"3"', '"4" x'] if ending == "csv" else ['"1_000"', "2"]
    form = "a_{},{}\n" if ending == "csv" else '{{"p": "a_{}", "x": {}}}\n'
    path = tmp_path / f"t.{ending}"
    lines = "".join(form.format(i, value) for i, value in enumerate(values))
    path.write_text("p,x\n" * (ending == "csv") + lines)
    people = pm.read(path, person="p", values="x")
    rows = dict(people.frame.to_native().project("p, v0").fetchall())
    known = {"2": 2.0, '"3"': 3.0}
    assert rows == {f"a_{i}": known.get(value) for i, value in enumerate(values)}
