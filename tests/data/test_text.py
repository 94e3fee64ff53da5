"""One line of text to one record: the rules, on lines good and bad."""

from __future__ import annotations

import io
import math

import pytest

from privmean.data import text_record as text
from privmean.data.text_record import TextFormat, csv_fields, json_fields, lines, number
from privmean.errors import ArgumentError

FORM = TextFormat()


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"a,1", ["a", "1"]),
        (b'"a",1', ["a", "1"]),
        (b'"a,b",1', ["a,b", "1"]),
        (b'"a""b",2', ['a"b', "2"]),
        (b'""""', ['"']),
        (b'"a"b,1', ["ab", "1"]),
        (b'5" pipe,1', ['5" pipe', "1"]),
        (b'a,1,"never closed, b', ["a", "1", "never closed", " b"]),
        (b'"a,1', ["a", "1"]),  # a stray quote before the id
        (b"", [None]),
        (b'"", \t,x', [None, None, "x"]),
        (b"a\rb,1", ["a\rb", "1"]),
        (b"a,5\xb50", ["a", "5\ufffdb50"]),
        (b"Jos\xe9,Jos\xe8", ["Jos\ufffde9", "Jos\ufffde8"]),  # two persons stay two
        (b"\xe2\x82,1", ["\ufffde2\ufffd82", "1"]),
        (b"a\0b,1", ["a\0b", "1"]),
    ],
)
def test_fields_of_csv(line, fields):
    assert csv_fields(line, FORM) == fields
    for place, field in enumerate(fields):
        assert csv_fields(line, FORM, [place, 99]) == [field, None]


def test_the_format_is_the_caller_s():
    odd = TextFormat(";", "'", ",", "latin-1", False, ("NA", "-9"))
    assert csv_fields(b"'J;o';\xe9; NA ;-9;\"x\"", odd) == ["J;o", "é", None, None, '"x"']
    assert csv_fields(b'"a,1', TextFormat(quote="")) == ['"a', "1"]


@pytest.mark.parametrize(
    ("line", "p", "v"),
    [
        (b'{"p": "a", "v": 1}', "a", "1"),
        (b'{"v":1.50,"p":12}', "12", "1.50"),
        (b'{"p": "a", "v": nan}', "a", None),
        (b'{"p": "a", "v": .5}', "a", ".5"),
        (b'{"v": 1,5, "p": "a"}', "a", None),
        (b'{"v": {"p": "x"}, "p": "a"}', "a", None),
        (b'{"p": "a", "v": 5', "a", None),  # the number may be longer
        (b'{"v": 5, "p": "a', None, "5"),  # and so may the id
        (b'{"note": "5" pipe", "p": "a", "v": 1}', "a", "1"),
        (b'{"p": "\\ud83d\\ude00", "v": "\\ud800"}', "\U0001f600", "\\ud800"),
        (b'{"p": "a\\u00e9\\n\\q", "v": "3"}', "aé\n\\q", "3"),
        (b'{"p": "Jos\xe9", "v": 1}', "Jos\ufffde9", "1"),
        (b'{"p": "a", "v": 1}}', "a", "1"),
        (b'{"p": null, "p": "b", "v": true}', None, "true"),
        (b'["p", "v"]', None, None),
        (b"", None, None),
        (b"[" * 100_000, None, None),
        (b'{"x": ' + b"[" * 100_000 + b', "p": "a", "v": 1}', "a", "1"),
        (b'{"p": "a", "v": ' + b"9" * 5000 + b"}", "a", "9" * 5000),
    ],
)
def test_fields_of_json(line, p, v):
    assert json_fields(line, ["p", "v", "none"]) == {"p": p, "v": v, "none": None}


def test_lines_end_at_line_feeds_only():
    stream = io.BytesIO(b"a\r\nb\rc\x0b\x0c\x85\n\r\n\nd\r")
    found = [b"a", b"b\rc\x0b\x0c\x85", b"", b"", b"d"]
    assert list(lines(stream)) == list(zip(found, [True] * 4 + [False], strict=True))


def test_a_line_is_looked_at_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(text, "LONGEST", 8)
    stream = io.BytesIO(b"a,1\n" + b"b,2," + b"x" * 100 + b"\nc,3456789\r\n" + b"d," + b"y" * 6)
    found = list(lines(stream))
    assert found == [
        (b"a,1", True), (b"b,2,xxxx", True), (b"c,345678", True), (b"d,yyyyyy", False)
    ]  # fmt: skip
    fields = [csv_fields(line, FORM, [0, 1]) for line, _ in found]
    assert fields == [["a", "1"], ["b", "2"], ["c", None], ["d", None]]
    assert csv_fields(found[1][0], FORM) == ["b", "2", None]


def test_a_field_is_read_up_to_a_limit():
    wide = b"x" * text.WIDEST
    assert csv_fields(wide + b"," + wide + b"x,b", FORM) == [wide.decode(), None, "b"]
    line = b'{"p": "%b", "v": "%bx"}' % (wide, wide)
    assert json_fields(line, ["p", "v"]) == {"p": wide.decode(), "v": None}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1", 1.0), (" 1\r", 1.0), ("-.5", -0.5), ("1e400", math.inf), ("-inf", -math.inf),
        ("1_000", None), ("+-1", -1.0), ("nan", None), ("", None), ("x", None), ("1 2", None),
        ("\x1c1", None), ("１", None), ("1,5", None), ("0x10", None), (None, None),
    ],
)  # fmt: skip
def test_numbers(word, value):
    assert number(word, FORM) == value


def test_a_decimal_comma():
    form = TextFormat(";", decimal=",", na_values=("-9",))
    words = ["1,5", "-1,5e3", "1.5", "1.234,5", "1,2,3", " -9 "]
    assert [number(word, form) for word in words] == [1.5, -1500.0, None, None, None, None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"delimiter": ""}, {"delimiter": "||"}, {"delimiter": "\n"}, {"delimiter": "§"},
        {"delimiter": "1"}, {"delimiter": '"'}, {"delimiter": 3}, {"quote": "a"}, {"quote": None},
        {"decimal": ";"}, {"header": "yes"}, {"na_values": "NA"}, {"na_values": [1]},
        {"encoding": "none"}, {"encoding": 3}, {"encoding": "utf-16"}, {"encoding": "gbk"},
        {"encoding": "utf-7"}, {"encoding": "cp037"}, {"encoding": "raw_unicode_escape"},
    ],
)  # fmt: skip
def test_formats_that_are_none(wrong):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        TextFormat(**wrong)
