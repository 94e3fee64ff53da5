"""Dates and times that no calendar of four digits has: missing, and no engine panics."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from frame_homes import relation

import privmean as pm
from privmean.data import engines
from privmean.mechanisms import curator

PEOPLE = 2000
DAY, SECOND = 18000, 18000 * 86400
EXTREMES = [2**31 - 1, -(2**31), 2932897, -719163]  # the ends; the first day of 10000; 0000-12-31


def frame(column, kind):
    base = {"p": np.arange(PEOPLE), "x": np.arange(PEOPLE) % 5.0}
    return pl.DataFrame(base).with_columns(pl.Series(column).cast(kind).alias("d"))


def sources(made):
    return made, made.lazy(), made.to_arrow(), relation(made)


@pytest.mark.slow
@pytest.mark.parametrize("day", EXTREMES)
def test_a_date_out_of_range_is_no_key(day, capfd):
    days = np.full(PEOPLE, DAY, dtype=np.int32)
    days[7] = day
    for source in sources(frame(days, pl.Date)):
        found = pm.mean(source, "x", person="p", by="d", keys=["2019-04-14"], epsilon=50)
        assert abs(found.rows()[0].n - PEOPLE) < 20
        private = pm.mean(source, "x", person="p", by="d", epsilon=1, delta=1e-6)
        assert [row.group for row in private.rows()] == ["2019-04-14"]
        assert pm.group_sizes(frame(np.full(PEOPLE, DAY), pl.Date), person="p", group="d")
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pl.Date, *map(pl.Datetime, ("ms", "us", "ns"))], ids=str)
def test_a_curve_by_dates_out_of_range(kind, capfd):
    if kind == pl.Date:
        times = np.full(PEOPLE, DAY, dtype=np.int32)
        odd = EXTREMES
    else:
        times = np.full(PEOPLE, SECOND * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.time_unit])
        odd = [2**63 - 1, -(2**62)]
    for item in odd:
        times[7] = item
        for source in sources(frame(times, kind)):
            found = pm.curve(
                source, "x", time="d", person="p", bins=["2019-01-01", "2019-07-01", "2020-01-01"],
                bounds=(0, 4), epsilon=50,
            )  # fmt: skip
            assert found.status
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_of_any_unit_refuses_no_table(unit):
    """The first times beyond the calendar, and the ends of the type, in arrays of NumPy."""
    size = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = np.full(PEOPLE, SECOND * size)
    base = {"p": np.arange(PEOPLE), "x": np.arange(PEOPLE) % 5.0}
    beyond = [] if unit == "ns" else [253402300800 * size, -62135596801 * size]
    for item in (2**63 - 1, -(2**63) + 1, *beyond):
        times[7] = item
        found = pm.curve(
            {**base, "d": times.view(f"M8[{unit}]")}, "x", time="d", person="p",
            bins=["2019-01-01", "2019-07-01", "2020-01-01"], bounds=(0, 4), epsilon=50,
        )  # fmt: skip
        assert abs(found.rows()[0].estimate - 2) < 0.1


class Panic(BaseException):
    """As the errors of Rust, which `except Exception` does not hold."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_passes(kind):
    with pytest.raises(kind), engines.interruptible():
        raise kind


def test_a_panic_is_an_error_like_others():
    with pytest.raises(engines.EngineError, match="failed") as caught, engines.interruptible():
        raise Panic("secret 123")
    assert caught.value.__suppress_context__
    with pytest.raises(MemoryError), engines.interruptible():
        raise MemoryError


def test_an_engine_that_panics_while_reading_says_nothing(monkeypatch):
    def panics(*_):
        raise Panic("secret 123")

    monkeypatch.setattr(pl.LazyFrame, "collect", panics)
    with pytest.raises(pm.SchemaError, match="could not read the table") as caught:
        pm.mean(frame(np.full(PEOPLE, DAY), pl.Date), "x", person="p", bounds=(0, 4), epsilon=1)
    assert caught.value.__context__ is None


def test_a_panic_after_the_charge_of_a_study_is_an_answer_that_is_lost(monkeypatch):
    study = pm.Study(pm.Table(frame(np.full(PEOPLE, DAY), pl.Date), person="p"), epsilon=4.0)
    study.add("one", pm.Mean("x", assume=(0, 4)))
    called = []

    def panics(native, *more, **named):
        called.append(native)
        if charged:
            raise Panic("secret 123")
        return collected(native, *more, **named)

    collected = pl.LazyFrame.collect
    monkeypatch.setattr(pl.LazyFrame, "collect", panics)
    made, charged = curator.TrustedCurator.__init__, []

    def after_the_charge(self, *given, **named):
        charged.append(self)
        made(self, *given, **named)

    monkeypatch.setattr(curator.TrustedCurator, "__init__", after_the_charge)
    found = study.release()
    assert called
    assert "one" in str(found)
    assert "secret" not in str(found)
