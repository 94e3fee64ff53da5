"""Sources of events, the ledger, flushing and withhold-release on the command line."""

import json
import threading
import time

import duckdb
import pytest
from continual_reference import BUDGET, ENDLESS, EVENTS, QUICK, ROWS, shown

from cli_runner import shell
from privmean.errors import ArgumentError
from privmean.privacy.ledger import Ledger
from privmean.privacy.ledger_charges import Policy
from privmean.streams import record_sources as sources
from privmean.streams.record_sources import Reader
from privmean.streams.withhold_release import plan_levels

BOUNDS = ["--bounds", "0", "10"]
BASE = [*EVENTS, *BOUNDS]
STATED = ("--append", "--moved", "--no-replay", "--complete")


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- a file that grows -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_is_followed_as_it_grows(tmp_path):
    path, out = tmp_path / "events", tmp_path / "out"
    path.write_text(jsonl(ROWS[:10]))

    def append():
        for part in (ROWS[10:20], ROWS[20:]):
            time.sleep(0.4)
            with path.open("a") as file:
                file.write(jsonl(part))

    writer = threading.Thread(target=append)
    writer.start()
    arguments = [*BASE, "--state", tmp_path / "s", "--output", out, "--follow", path]
    result = shell(*arguments, "--idle", "2")
    writer.join()  # well within the two seconds of rest
    assert result.exit_code == 0, result.stderr
    held = out.read_bytes()
    assert json.loads(held.splitlines()[-1])["arrivals"] >= 28
    # again, with more: what was read is skipped
    with path.open("a") as file:
        file.write(jsonl([{"p": "z", "v": 1}]) + '{"p": "half')
    again = shell(*arguments, "--idle", "0")
    assert "left for the next run" in again.stderr
    assert out.read_bytes().startswith(held)
    assert len(out.read_bytes().splitlines()) == len(held.splitlines()) + 1


def test_what_following_refuses(tmp_path):
    assert shell(*BASE, "--follow", tmp_path).exit_code == 2
    (tmp_path / "e").write_text("")
    assert shell(*BASE, "--follow", tmp_path / "e", "--parts", tmp_path).exit_code == 2
    assert shell(*BASE, "--idle", "3").exit_code == 2
    path = tmp_path / "short"
    path.write_text(jsonl(ROWS))
    source = sources.GrowingFile(path, Reader("p", ("v",)), None)
    with sources.Interrupts() as interrupts:
        batches = source.batches(interrupts, {})
        assert len(next(batches)[0]) == 30
        path.write_text("")
        with pytest.raises(ArgumentError, match="became shorter"):
            next(batches)


# --- Kafka -------------------------------------------------------------------------------------


def test_kafka_needs_its_extra_and_a_topic(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    result = shell(*BASE, "--kafka", "localhost:9092/events", "--idle", "0")
    assert result.exit_code == 2
    assert "privmean[kafka]" in result.stderr
    assert shell(*BASE, "--kafka", "localhost:9092").exit_code == 2
    assert shell(*BASE, "--kafka", "localhost:9092/events", "--format", "csv").exit_code == 2


def test_messages_of_a_topic_are_read_once(tmp_path):
    """Against the mock cluster of the client library (librdkafka), which speaks the protocol."""
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer(
        {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}
    )
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))

    def send(rows):
        for row in rows:
            producer.produce("events", value=json.dumps(row).encode())
        assert producer.flush(10) == 0

    send(ROWS[:20])
    arguments = [*BASE, "--state", tmp_path / "s", "--idle", "3"]
    arguments += ["--kafka", f"{broker.host}:{broker.port}/events"]
    first = shown(shell(*arguments))
    assert first[-1]["arrivals"] == 20
    send([{"p": "new", "v": 3}, {"p": "newer", "v": 4}, {"v": 1}])
    second = shown(shell(*arguments, "--no-replay"))
    assert second[-1]["arrivals"] == 22
    assert shown(shell(*arguments))[: len(first)] == first


# --- windows, periods, groups, flushing ---------------------------------------------------------


def test_windows_and_half_lives(feed):
    for option, value in (("--window", "5"), ("--half-life", "3")):
        found = shown(feed(ROWS, *BASE, option, value))
        assert len(found) > 20
    assert found[-1]["records"] > 20
    assert shown(feed(ROWS, *BASE, "--window", "5"))[-1]["records"] == 5


def test_a_mean_each_day(feed):
    rows = [{"p": f"u{i % 7}", "v": 1, "t": f"2026-01-{1 + i // 10:02d}"} for i in range(30)]
    days = ["--period", "day", "--time-column", "t", "--window", "1", "--n-per-period", "7"]
    found = shown(feed(rows, *BASE, *days, "--flush"))
    assert [item["period"] for item in found] == ["2026-01-01", "2026-01-03"]  # two days apart
    assert feed(rows, *BASE, "--period", "day").exit_code == 2
    late = feed([*rows, rows[0]], *BASE, *days)
    assert "1 of a time that was over" in " ".join(late.stderr.split())


def test_a_mean_for_each_group(feed, tmp_path):
    rows = [{"p": f"u{i}", "v": 1, "g": "ab"[i % 2]} for i in range(20)]
    arguments = [*BASE, "--by", "g", "--groups", "2", "--state", tmp_path / "s"]
    first = feed(rows[:11], *arguments)
    assert {item["group"] for item in shown(first)} == {"a", "b"}
    longer = feed(rows, *arguments)
    assert longer.stdout.startswith(first.stdout)
    assert len(shown(longer)) == 20
    assert feed(rows, *arguments, "--no-replay").stdout == ""
    assert "in 2 groups" in longer.stderr
    assert feed(rows, *BASE, "--groups", "2").exit_code == 2
    assert feed(rows[5:], *arguments).exit_code == 2  # another input


def test_no_output_of_groups_depends_on_how_long_a_value_is(feed):
    """Standard input is read in pieces of so many bytes."""
    rows = [{"p": f"u{i % 9}", "v": 1, "g": "ab"[i % 2]} for i in range(40)]
    rows += [{"v": 1, "g": "a"}] * 3  # no events
    said = []
    for size in (0, sources.CHUNK - 900, sources.CHUNK - 100, 2 * sources.CHUNK):
        longer = [rows[0], {**rows[1], "note": "x" * size}, *rows[2:]]
        arguments = [*ENDLESS, *BOUNDS, "--by", "g", "--groups", "2", "--steps", "12"]
        result = feed(longer, *arguments)
        steps = [(item["group"], item["step"], item["arrivals"]) for item in shown(result)]
        assert len(steps) == 12
        said.append((steps, result.stderr))
    assert all(item == said[0] for item in said)


def test_groups_end_at_their_horizon(feed, tmp_path):
    rows = [{"p": f"u{i}", "v": 1, "g": "ab"[i % 2]} for i in range(20)]
    arguments = [*ENDLESS, *BOUNDS, "--by", "g", "--groups", "2", "--steps", "6"]
    arguments += ["--state", tmp_path / "s"]
    first = feed(rows, *arguments)
    assert len(shown(first)) == 6
    assert feed(rows, *arguments).stdout == first.stdout


def test_flush_releases_what_waits(feed, tmp_path):
    rows = [{"p": "a", "v": 1}] * 3
    plain = shown(feed(rows, *BASE))
    assert plain[-1]["waiting"] == 0
    assert len(plain) == 1
    flushed = shown(feed(rows, *BASE, "--state", tmp_path / "s", "--flush"))
    assert flushed[-1]["records"] == 3
    assert flushed[0]["noise_sd"] == plain[0]["noise_sd"]
    assert len(shown(feed(rows, *BASE, "--state", tmp_path / "s", "--flush"))) == len(flushed)


# --- the ledger --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_ledger_is_charged_once_a_stream(feed, tmp_path):
    Ledger(tmp_path / "book", epsilon=2.5, delta=1e-5)
    arguments = [*BASE, "--state", tmp_path / "s", "--ledger", tmp_path / "book"]
    feed(ROWS[:9], *arguments, "--label", "ratings")
    assert feed(ROWS, *arguments, "--label", "ratings").exit_code == 0
    (entry,) = Ledger.open(tmp_path / "book").entries
    assert entry.label == "ratings"
    assert entry.amount.epsilon == pytest.approx(1.0)
    # another stream is another charge, and a third one too much
    for name, code in (("t", 0), ("u", 2)):
        other = [*BASE, "--state", tmp_path / name, "--ledger", tmp_path / "book"]
        result = feed(ROWS, *other)
        assert result.exit_code == code
    assert result.stdout == ""
    assert feed(ROWS, *BASE, "--label", "x").exit_code == 2
    assert feed(ROWS, *BASE, "--analyst", "x").exit_code == 2


def test_streams_are_charged_where_each_analyst_has_a_limit(feed, tmp_path):
    limits = [Policy(epsilon=1.5, delta=1e-6, analyst="*")]
    Ledger(tmp_path / "book", epsilon=5, delta=1e-5, policies=limits)
    charged = [*BASE, "--ledger", tmp_path / "book"]
    refused = feed(ROWS, *charged)
    assert refused.exit_code == 2
    assert "analyst is required" in refused.stderr
    for name, code in (("ann", 0), ("ann", 2), ("bob", 0)):
        assert feed(ROWS, *charged, "--analyst", name).exit_code == code
    assert [item.analyst for item in Ledger.open(tmp_path / "book").entries] == ["ann", "bob"]


def test_a_stream_that_began_without_a_ledger_is_charged_when_one_is_named(feed, tmp_path):
    Ledger(tmp_path / "book", epsilon=1.5, delta=1e-5)
    stated = [*BASE, "--state", tmp_path / "s"]
    feed(ROWS[:9], *stated)
    for more in ([], ["--append", "--flush"]):
        source = "" if more else jsonl(ROWS[:9])
        assert feed(source, *stated, "--ledger", tmp_path / "book", *more).exit_code == 0
        assert len(Ledger.open(tmp_path / "book").entries) == 1


# --- withhold-release ---------------------------------------------------------------------------


WITHHOLD = [
    "withhold", "--person", "p", "--value", "v", *BUDGET, "--max-records", "8", "--bounds", "0:10",
]  # fmt: skip


def test_withhold_on_the_command_line(feed, tmp_path):
    arguments = [*WITHHOLD, "--state", tmp_path / "s"]
    first = feed(ROWS[:17], *arguments)
    assert [item["arrivals"] for item in shown(first)] == list(range(1, 18))
    longer = feed(ROWS, *arguments)
    assert longer.stdout.startswith(first.stdout)
    assert len(shown(longer)) == 30
    assert "withheld" in longer.stderr
    assert "withhold-release" in longer.stderr
    assert feed(ROWS, *arguments, "--no-replay").stdout == ""
    more = feed([{"p": "z", "v": 2}], *arguments, "--append")
    assert [item["arrivals"] for item in shown(more)] == [31]
    last = shown(longer)[-1]
    assert last["records"] + last["waiting"] == 30
    low, high = (last["noise_interval"][end][0] for end in ("lower", "upper"))
    assert low < last["estimate"][0] < high
    assert "secure" not in last
    assert shown(feed(ROWS, *WITHHOLD, "--seed", "1"))[-1]["secure"] is False


@pytest.mark.slow
def test_a_spread_that_few_persons_cannot_pay_for(feed):
    rows = [{"p": f"u{i % 5}", "v": 2} for i in range(20)]
    asked = [*WITHHOLD, "--max-records", "4", "--spread", "0.05"]
    known = feed(rows, *asked, "--n", "5")
    assert len(shown(known)) == 20
    words = "3 of them use the public bounds, because 5 people are too few"
    assert words in " ".join(known.stderr.split())
    unknown = feed(rows, *asked)
    assert not shown(unknown)
    limits = {"max_records": 4, "bounds": (0, 10), "epsilon": 1, "delta": 1e-6, "sd": 0.05}
    needed = plan_levels(**limits, strategy=QUICK).levels[0].averages
    for words in (
        "No release yet: of blocks of 1, 1, 2 records", "5 people have come",
        f"needs {needed:,} averages, at most one per person", "give --n, or leave out --spread",
    ):  # fmt: skip
        assert words in " ".join(unknown.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--output", "none/out"], "--output='none/out': is not in an existing folder"),
        (["--output", "other"], "holds releases that the state does not"),
        (["--html", "none/x.html"], "--html='none/x.html': is not in an existing folder"),
        (["--html", "."], "--html='.': is a folder"),
        (["--html", "x.html", "--by", "p"], "is only for a single mean"),
        (["--by", "p", "--groups", "0"], "groups=0: must be at least 1"),
        (["--format", "csv"], "does not name 'p'"),
        *(([said], f"{said}=True: requires --state") for said in STATED),
    ],
)
def test_wrong_use_of_a_stream_spends_nothing(feed, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").write_text('{"step": 1}\n')
    Ledger("book", epsilon=1, delta=1e-5)
    result = feed(ROWS, *BASE, "--ledger", "book", *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert not Ledger.open("book").entries


def test_withhold_charges_a_ledger_and_refuses(feed, tmp_path):
    Ledger(tmp_path / "book", epsilon=1.5, delta=1e-5)
    arguments = [*WITHHOLD, "--state", tmp_path / "s", "--ledger", tmp_path / "book"]
    for _ in range(2):
        assert feed(ROWS, *arguments).exit_code == 0
    assert len(Ledger.open(tmp_path / "book").entries) == 1
    assert feed(ROWS, *WITHHOLD, "--ledger", tmp_path / "book").exit_code == 2
    for wrong in (
        ["--bounds", "high"],
        ["--bounds", "0:1", "--bounds", "0:2"],
        ["--max-records", "0"],
    ):
        assert feed(ROWS, *WITHHOLD, *wrong).exit_code == 2
    assert feed(ROWS, *[item for item in WITHHOLD if item != "--bounds"]).exit_code != 0


# --- lines that are no events: they lack an id, a group or a time, and are counted ---------------


DAYS = ["--period", "day", "--time-column", "t", "--window", "1"]
LINES = [
    {"p": f"u{i % 7}", "v": i % 5, "g": "ab"[i % 2], "t": f"2026-01-{1 + i // 10:02d}"}
    for i in range(30)
]


@pytest.fixture(name="lacking")
def feeder(feed):
    def fed(rows, *arguments):
        result = feed(rows, *ENDLESS, *BOUNDS, *arguments)
        assert result.exit_code == 0, result.stderr
        return result

    return fed


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
    lacking, tmp_path, key, arguments, said
):
    Ledger(tmp_path / "book", epsilon=1, delta=1e-5)
    kept = ["--state", tmp_path / "s", "--ledger", tmp_path / "book", *arguments, "--flush"]
    for _ in range(2):  # the second run reads the same lines again
        result = lacking(without(key, LINES), *kept)
        assert result.stdout == ""
        assert "Stream: done\n0 records, " in result.stderr
        assert said in " ".join(result.stderr.split())
        assert "that was over" not in result.stderr
    assert not Ledger.open(tmp_path / "book").entries
    # events that come later are charged, once
    for more in (LINES, LINES[:1]):
        result = lacking(more, *kept, "--append")
        assert "30 lines had no readable" in result.stderr
    assert len(Ledger.open(tmp_path / "book").entries) == 1


def test_each_lack_is_counted_by_itself(lacking):
    late = {**LINES[0], "p": "z"}
    rows = [*LINES, {}, *without("g", LINES[:2]), *without("t", LINES[:3]), late]
    rows += [{**LINES[0], "t": "5.3.2026"}, {"v": 1, "g": "a"}]
    result = lacking(rows, "--by", "g", *DAYS)
    assert "Stream: done\n31 records, " in result.stderr
    for said in ("2 lines had no readable id", "2 lines had no readable group",
                 "4 lines had no readable time", ", 1 of a time that was over"):  # fmt: skip
        assert said in " ".join(result.stderr.split())
    counted = lacking([*LINES, late, *without("t", LINES[:3])], *DAYS)
    assert "31 records, " in counted.stderr
    assert ", 1 of a time that was over" in " ".join(counted.stderr.split())
    assert "3 lines had no readable time" in counted.stderr


def test_rows_of_parts_without_a_group(tmp_path):
    query = "SELECT i AS p, 1 AS v, CASE WHEN i % 4 = 0 THEN 'a' END AS g FROM range(12) t(i)"
    duckdb.sql(query).write_parquet(str(tmp_path / "a.parquet"))
    result = shell(*ENDLESS, *BOUNDS, "--parts", tmp_path, "--idle", "0", "--by", "g")
    assert result.exit_code == 0
    assert "\n3 records, " in result.stderr
    assert "9 lines had no readable group" in result.stderr
