"""Events from text: the id decides whether a line counts, the text of a value never."""

import json
import math

import numpy as np
import pytest
from continual_reference import EVENTS
from hypothesis import example, given
from hypothesis import strategies as st

import event_lines
from privmean.data.text_record import LONGEST, TextFormat
from privmean.errors import ArgumentError, PrivmeanError, SchemaError
from privmean.streams import MeanStream
from privmean.streams.record_sources import Lines, Reader, as_number, as_rows, person_name
from privmean.streams.run_stream import ReleaseFile, StandardOutput
from privmean.streams.strategies import Buffered

NASTY = [
    b"nan", b".5", b"1,5", b"-Infinity", b"1e999", b'"', b"'", b'"x', b"{", b"}", b"[", b"]", b"\\",
    b"\xff", b"null", b"", b'"\\', b'"p', b"0x1", b"1" * 5000, b"\r", b"\0",
]  # fmt: skip


@pytest.fixture(name="feed")
def feeder(feed):
    return lambda text, *arguments: feed(text, *EVENTS, "--clip", "5", *arguments)


def persons(reader, lines):
    return [event.person for event in reader.read(lines)]


def events_of(reader, lines):
    return [(event.person, event.public) for event in reader.read(lines)]


@given(st.one_of(st.sampled_from(NASTY), st.binary(max_size=30)))
@example(b"nan")
@example(b'"2.0')
@example(b'"2.0,u2')
@example(b'"}')
@example(b'{"x": ')
def test_no_text_of_a_value_hides_its_event_or_another(value):
    """Nor its group and time: the count of lines without one would tell of a value."""
    value = value.replace(b"\n", b"")
    before, after = (b'{"p": "%b", "v": 1, "g": "a", "t": "2026"}' % who for who in (b"a", b"c"))
    known = [(who, ("a", "2026")) for who in "abc"]
    first = value.replace(b'"p"', b"").replace(b'"g"', b"").replace(b'"t"', b"")
    for line in (
        b'{"p": "b", "g": "a", "t": "2026", "v": %b}' % value,
        b'{"t": "2026", "g": "a", "p": "b", "v": %b, "x": "y"}' % value,
        b'{"x": {"v": 1}, "p": "b", "g": "a", "t": "2026", "v": %b' % value,
        b'{"v": %b, "p": "b", "g": "a", "t": "2026"}' % first,
        b'{"g": "a", "v": %b, "t": "2026", "p": "b"}' % first,
    ):
        reader = Reader("p", ("v",), "jsonl", public=("g", "t"))
        assert events_of(reader, [before, line, after]) == known
    field = value.replace(b'"', b'""')  # as a writer of CSV puts it
    for head, line in ((b"v,p", b'"%b",b' % field), (b"v,p,x", b'"%b",b,"d"' % field)):
        rest = head[3:]
        lines = [head, b"1,a" + rest, line, b"3,c" + rest]
        assert persons(Reader("p", ("v",), "csv"), lines) == ["a", "b", "c"]
    if b"," not in value:  # as it is, beside a text with quotes
        lines = [b"v,p,x", b"1,a,", b'%b,b,he said "no"' % value, b"3,c,"]
        assert persons(Reader("p", ("v",), "csv"), lines) == ["a", "b", "c"]


@pytest.mark.slow
def test_no_text_of_a_value_moves_an_id_or_a_group():
    """Pairs of lines that differ in the texts of values; see benchmarks/event_lines.py."""
    pairs, moved, lost = event_lines.compared(100_000, seed=5)
    kinds = {
        f"{form}; {order}"
        for form in event_lines.CSV | event_lines.JSON
        for order in event_lines.ORDERS
    }
    assert set(pairs) == kinds
    assert min(pairs.values()) > 2500
    assert not +moved
    assert not +lost


@pytest.mark.parametrize(
    ("header", "line", "expected"),
    [
        (b"v,p", b"1,5,u1", "u1"),
        (b"v,p", b'5",u1', "u1"),
        (b"v,p", b'"5,u1', "u1"),
        (b"v,p", b'"a","b,"u,1"', "u,1"),
        (b"p,v", b'"u,1","5', "u,1"),
        (b"p,v", b"u1,1,5", "u1"),
        (b"p,v", b"u1", "u1"),
        (b"v,p", b"5", None),  # a line that ends before its id has none
        (b"v,x,p", b"1,5,u1", "u1"),
        (b"v,p,x", b'1,5,u1,he said "no"', "u1"),
        (b"v,w,p", b'"1,5",2,u1', "u1"),
        (b"p,v,w", b"u1,1,5,2", "u1"),
    ],
)
def test_where_the_id_of_a_line_of_csv_stands(header, line, expected):
    values = tuple(name for name in ("v", "w") if name.encode() in header)
    assert persons(Reader("p", values, "csv"), [header, line]) == [expected]


@pytest.mark.parametrize("header", [b"v,p,w", b"p,v,g,w"])
def test_an_id_or_a_group_between_two_values_is_refused_by_the_header(header):
    reader = Reader("p", ("v", "w"), "csv", public=("g",) if b"g" in header else ())
    with pytest.raises(SchemaError, match="stands between two columns of values"):
        reader.read([header])


@pytest.mark.parametrize("quote", ['"', "'", "|", ""])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "^", "]"])
def test_signs_of_any_format_are_plain_characters(quote, delimiter):
    form = TextFormat(delimiter=delimiter, quote=quote)
    head, line = (delimiter.join(cells).encode() for cells in (["v", "p"], ["1", "5", "u1"]))
    assert persons(Reader("p", ("v",), "csv", form), [head, line]) == ["u1"]
    if quote:
        line = f"{quote}x{delimiter}1{delimiter}{quote}u{delimiter}1{quote}".encode()
        assert persons(Reader("p", ("v",), "csv", form), [head, line]) == [f"u{delimiter}1"]


def test_many_delimiters_and_quotes_take_time_in_proportion():
    line = b'1"' + b'x",' * 200_000 + b'"u1'
    assert persons(Reader("p", ("v",), "csv"), [b"v,p", line]) == ["u1"]


def test_a_line_that_is_cut_has_no_id_at_its_end(monkeypatch):
    monkeypatch.setattr("privmean.streams.record_sources.LONGEST", 12)
    assert persons(Reader("p", ("v",), "csv"), [b"v,p", b"1,1,1,u1", b"1,1,1,1,1,1,1"]) == [
        "u1",
        None,
    ]


def test_one_person_is_counted_as_one_whatever_stands_before_the_id(feed):
    text = b"v,p\n" + b"".join(b"5,%d,u1\n" % k for k in range(40))
    assert " 1 records in the mean" in feed(text, "--max-participations", "1").stderr


def test_an_id_within_another_value_is_none():
    for line in (b'{"x": {"p": "z"}, "v": 1}', b'{"x": "\\"p\\": 3", "v": 1}', b'["p", 3]'):
        assert persons(Reader("p", ("v",), "jsonl"), [line]) == [None]


def test_values_are_numbers_or_missing():
    reader = Reader("p", ("v", "w"))
    lines = [b'{"p": 1, "v": 2, "w": "3"}', b'{"p": 2, "v": .5, "w": nan}', b'{"x": 1}']
    assert [event[:2] for event in reader.read(lines)] == [
        ("1", [2.0, 3.0]), ("2", [0.5, None]), (None, [None, None])
    ]  # fmt: skip
    form = TextFormat(delimiter=";", decimal=",", encoding="latin-1", na_values=("NA",))
    reader = Reader("p", ("v",), "csv", form)
    lines = ["p;v", "Zoé;1,5", "NA;2", "Zoë;NA"]
    assert [event[:2] for event in reader.read([line.encode("latin-1") for line in lines])] == [
        ("Zoé", [1.5]), (None, [2.0]), ("Zoë", [None])
    ]  # fmt: skip


def test_only_a_header_can_be_refused_and_it_is_not_shown():
    assert Reader("p", ("v",)).read([b'{"q": "HIV+"}']) == [(None, [None], ())]
    with pytest.raises(SchemaError, match="3 columns") as refused:
        Reader("p", ("v",)).read([b"Jane Doe,0.0,HIV+"])
    assert "Jane" not in str(refused.value)
    assert "HIV" not in str(refused.value)


def test_a_byte_order_mark_is_no_part_of_a_name():
    assert persons(Reader("p", ("v",)), [b"\xef\xbb\xbfp,v", b"a,1"]) == ["a"]
    assert persons(Reader("p", ("v",)), [b'\xef\xbb\xbf{"p": "a", "v": 1}']) == ["a"]


@given(st.lists(st.binary(max_size=12)), st.integers(1, 9))
def test_lines_come_out_however_the_bytes_come_in(pieces, size):
    data = b"\n".join(pieces)
    lines, found = Lines(), []
    for start in range(0, len(data), size):
        found += lines.take(data[start : start + size])
    *whole, rest = data.split(b"\n")
    assert found == [line.removesuffix(b"\r") for line in whole]
    assert lines.rest() == rest


def test_of_a_very_long_line_the_beginning_is_kept(monkeypatch):
    monkeypatch.setattr("privmean.streams.record_sources.LONGEST", 10)
    lines = Lines()
    assert lines.take(b"x" * 8) == []
    assert lines.take(b"y" * 8) == []
    assert lines.take(b"z\nnext\n") == [b"x" * 8 + b"yy", b"next"]
    assert LONGEST > 1 << 20


class SaysNothing:
    """Like pandas.NA: a comparison with it is neither true nor false."""

    def __eq__(self, other):
        return self

    def __ne__(self, other):
        return self

    __hash__ = None

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


def test_missing_ids_are_no_persons():
    pandas = pytest.importorskip("pandas")
    missing = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), SaysNothing()]
    missing += [pandas.NA, pandas.NaT]
    assert [person_name(item) for item in missing] == [None] * 7
    assert [person_name(item) for item in (5, 5.0, np.float32(5), np.int8(5))] == ["5"] * 4


# --- rows: whatever arrives becomes doubles, at once or cell by cell alike, and no error ---------


class Odd:
    def __float__(self):
        raise TypeError


CELLS = {
    "doubles": np.array([1e308, -0.0, math.nan, 5e-324]),
    "singles": np.array([1e-45, 3.3, math.inf, -1.0], dtype=np.float32),
    "halves": np.array([6e-8, 65504, -math.inf, math.nan], dtype=np.float16),
    "integers": np.array([2**63 - 1, -(2**63), 2**53 + 1, 0]),
    "words": np.array([2**64 - 1, 2**64 - 1025, 2**53 + 1, 0], dtype=np.uint64),
    "long doubles": np.array(["1e4000", "1.1", "-1e4000", "nan"], dtype=np.longdouble),
    "flags": np.array([True, False, True, False]),
    "texts": np.array(["1", "x", "", "nan"]),
    "objects": np.array([None, "2.5", Odd(), 10**400], dtype=object),
    "times": np.array(["2020-01-01", "NaT", "2021-01-01", "NaT"], dtype="datetime64[D]"),
}


@pytest.mark.parametrize("name", CELLS)
def test_an_array_is_read_as_its_cells(name):
    """To the last bit, whether it comes as an array or as a list of its cells."""
    cells = CELLS[name]
    with np.errstate(over="ignore"):
        whole = as_rows([cells, [1.0, 2, 3, 4]], 4)
        single = as_rows([list(cells), [1.0, 2, 3, 4]], 4)
    assert whole.tobytes() == single.tobytes()
    assert whole[0].tobytes() == np.array([as_number(cell) for cell in cells]).tobytes()


@pytest.mark.parametrize("value", [3.5, np.float32(3.5), np.array(3.5), np.array([3.5]), "3.5"])
def test_one_number_may_come_in_any_shape(value):
    assert as_rows([value], 1).tolist() == [[3.5]]


@pytest.mark.parametrize(
    "value",
    [None, np.array(None), np.array("x"), np.array(3.5), np.zeros(3), np.zeros((2, 1)),
     np.zeros((0, 2)), [1.0], "12", object(), np.zeros((2, 2))],
)  # fmt: skip
def test_what_is_no_row_is_missing_and_no_error(value):
    """An error would tell something of the value."""
    assert np.isnan(as_rows([value], 2)).all()


# --- the command ----------------------------------------------------------------------------------


def last(result):
    return json.loads(result.stdout.splitlines()[-1])


def test_lines_without_an_id_are_counted_and_reported(feed, tmp_path):
    text = b'{"p": "a", "v": 1}\n{"v": 1}\nnoise\n{"p": "b", "v": 2}\n'
    result = feed(text, "--state", str(tmp_path / "s"))
    assert last(result)["step"] == 2
    assert "2 lines had no readable id" in result.stderr
    again = feed(text + b'{"p": null}\n', "--state", str(tmp_path / "s"))
    assert "3 lines had no readable id" in again.stderr
    assert "No line had a readable id" not in again.stderr
    nothing = feed(b'{"q": "a", "v": 1}\n')
    assert nothing.exit_code == 0
    assert "No line had a readable id" in nothing.stderr


def test_an_unfinished_last_line_is_left_until_it_is_whole(feed, tmp_path):
    state = ["--state", str(tmp_path / "s")]
    whole = b'{"p": "a", "v": 1}\n{"p": "b", "v": 2}\n'
    for cut in range(20, len(whole), 3):
        (tmp_path / "s").unlink(missing_ok=True)
        first = feed(whole[:cut], *state)
        assert last(first)["step"] == 1
        assert ("line feed" in first.stderr) == (cut > 20 or whole[19:20] != b"\n")
    second = feed(whole, *state)
    assert second.exit_code == 0, second.stderr
    assert last(second)["step"] == 2
    assert second.stdout.startswith(first.stdout)


def test_a_complete_input_may_end_without_a_line_feed(feed, tmp_path):
    text = b'{"p": "a", "v": 1}\n{"p": "b", "v": 2}'
    assert last(feed(text))["step"] == 2  # without a state nothing can come later
    result = feed(text, "--state", str(tmp_path / "s"), "--complete")
    assert last(result)["step"] == 2
    assert "line feed" not in result.stderr
    assert feed(text, "--state", str(tmp_path / "s"), "--complete").exit_code == 0
    assert feed(text + b"\n", "--state", str(tmp_path / "s")).exit_code == 0


def test_half_a_surrogate_in_an_id_survives_restarts(feed, tmp_path):
    text = b'{"p": "\\ud800", "v": 1}\n{"p": "\\udc00", "v": 2}\n{"p": "\xed\xa0\x80", "v": 2}\n'
    for _ in range(2):
        result = feed(text, "--state", str(tmp_path / "s"))
        assert result.exit_code == 0, result.stderr
        assert last(result)["step"] == 3
    settings = {"epsilon": 1.0, "max_participations": 1, "min_separation": 1, "clip_radius": 1.0}
    settings |= {"delta": 1e-6, "strategy": Buffered((0.2,), (0.5,))}
    for _ in range(2):
        with MeanStream(state=tmp_path / "t", **settings) as stream:
            stream.update("\ud800", 1.0)
            assert stream.records == 1


# --- releases in a file -----------------------------------------------------------------------


TEXT = b"".join(b'{"p": "u%d", "v": %d}\n' % (k, k % 5) for k in range(12))


def test_a_file_of_releases_holds_each_once(feed, tmp_path):
    out, state = tmp_path / "out", tmp_path / "s"
    arguments = ["--state", str(state), "--output", str(out)]
    result = feed(TEXT[:100], *arguments)
    assert result.stdout == ""
    first = out.read_bytes()
    with out.open("ab") as file:
        file.write(b'{"step": 99')  # a crash within a line
    feed(TEXT, *arguments)
    assert out.read_bytes().startswith(first)
    assert [json.loads(line)["step"] for line in out.read_bytes().splitlines()] == list(
        range(1, 13)
    )
    assert feed(TEXT, "--state", str(state)).stdout.encode() == out.read_bytes()
    refused = feed(TEXT, *arguments, "--level", "0.5")
    assert "does not hold the release of step 1 as it was made" in refused.stderr


def test_a_file_of_releases_tells_an_old_state_where_no_witness_does(feed, tmp_path, monkeypatch):
    out, state = tmp_path / "out", tmp_path / "s"
    arguments = ["--state", str(state), "--output", str(out), "--moved"]
    feed(TEXT[:100], *arguments)
    old = state.read_bytes()
    feed(TEXT, *arguments)
    held = out.read_bytes()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    state.write_bytes(old)
    refused = feed(TEXT, *arguments)
    assert refused.exit_code == 2
    assert "the state is an old copy" in refused.stderr
    assert out.read_bytes() == held
    state.unlink()
    assert "or of another stream" in feed(TEXT, *arguments).stderr
    assert out.read_bytes() == held
    shown = feed(TEXT[:100], "--output", str(out), "--state", str(tmp_path / "t"))
    assert shown.exit_code == 2


def test_a_full_disk_behind_standard_output_is_named(monkeypatch):
    settings = {"epsilon": 1.0, "max_participations": 1, "min_separation": 1, "clip_radius": 1.0}
    stream = MeanStream(delta=1e-6, strategy=Buffered((0.2,), (0.5,)), **settings)
    released = stream.update("a", 1.0)
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        with pytest.raises(PrivmeanError, match="the disk is full. With --state nothing is lost"):
            StandardOutput().write(released)
    with pytest.raises(ArgumentError, match="is not a file"):
        ReleaseFile("/dev/full")
