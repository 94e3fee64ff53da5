"""SQL engines through Ibis: the same integers, nothing but aggregates leaves, nothing is told.

An engine that is not installed is left out with the reason; `make engines` has all of them.
"""

from __future__ import annotations

import gc
import json
import math
import random
import sys
from decimal import Decimal
from functools import cache

import edge_values as edges
import narwhals as nw
import numpy as np
import people_reference as reference
import pyarrow as pa
import pytest
import random_tables
import spark_homes
import sql_tables

import privmean as pm
from privmean.data import databases
from privmean.data import sql_engines as sqlengines
from privmean.data import sql_exact as sqlexact
from privmean.data.engine_table import EnginePersonTable, log_cells
from privmean.data.engines import fetch, lazy
from privmean.data.grids import LOG_CELLS, LOG_GRID

ENGINES = [
    pytest.param(
        engine,
        marks=[
            pytest.mark.skipif(bool(sql_tables.missing(engine)), reason=sql_tables.missing(engine)),
            *([pytest.mark.system] if engine == "postgres" else []),
        ],
    )
    for engine in sql_tables.ENGINES
]
POSTGRES = ENGINES[1:2]
each = pytest.mark.parametrize("engine", ENGINES)
INTEGERS = list(range(9))


def arrow_of(rows):
    kind = pa.string() if any(isinstance(row[0], str) for row in rows) else pa.int64()
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {
            "who": pa.array(columns[0], kind),
            **{f"{n}": pa.array(c, pa.float64()) for n, c in zip("xy", columns[1:], strict=False)},
        }
    )


@pytest.mark.slow
@each
@pytest.mark.parametrize(
    ("ids", "cap", "size"),
    [(INTEGERS, None, 60), (["a", "B", "é", "0", "00", "z'\"\\"], None, 60), (range(40), 3, 50)],
    ids=["whole numbers", "texts", "weights of the record mean"],
)
def test_the_hostile_table_gives_the_same_integers(engine, ids, cap, size, tmp_path):
    generator = random.Random(4)
    rows = random_tables.dirty_rows(list(ids), size, generator)
    made = random_tables.of_rows(rows, cap)
    asked = random_tables.questions(made, generator)
    assert random_tables.mismatches(made, asked, tmp_path, (engine,)) == []


@pytest.mark.slow
@each
@pytest.mark.parametrize("seed", range(6))
def test_random_tables_give_the_same_integers(engine, seed, tmp_path):
    generator = random.Random(100 + seed)
    made = random_tables.table(generator)
    asked = generator.sample(random_tables.questions(made, generator), 5)
    assert random_tables.mismatches(made, asked, tmp_path, (engine,)) == []


# numbers of questions so far out that squares and quotients vanish or overflow
EXOTIC = [5e-324, 1e-300, 1e-200, 1e200, 1e300, 1.7e308]


@pytest.mark.slow
@each
def test_public_numbers_of_any_size_raise_nothing(engine):
    rows = [(i, v, w) for i, (v, w) in enumerate([(0.0, 3.0), (1.5, -2.0), (None, 1e9), (-7.0, 0)])]
    people = pm.read(sql_tables.put(engine, arrow_of(rows)), person="who", values=["x", "y"])
    values = [v for _, v, _ in reference.group(rows)]
    first = [v[0] for v in values]
    for size in EXOTIC:
        assert people.log_counts(0, size).tolist() == reference.log_counts(first, size)
        halves = people.half_octave_counts(0, size).tolist()
        assert halves == reference.half_octave_counts(first, size)
        if size < 1e300:
            found = people.uniform_counts(0, size, 0.3)
            assert found == reference.uniform_counts(first, size, 0.3), size
            ball = random_tables.L2Ball((size, -size), 3.0, 2.0**-10)
            sums = people.ball_sums(ball)
            assert (sums.z, sums.present) == reference.ball_sums(values, ball)[:2], size
            box = random_tables.ClipInterval(-size, size) if size > 1e-290 else None
            (asked, _) = people.interval_sums([box, None])
            if box:
                counts = [1] * len(first)
                assert vars(asked) == reference.interval_sums(first, counts, None, box), size


def totals_of(points):
    """Persons, each of grid points of resolution 1, and the mean that is read of each."""
    rows = [(who, t) for who, listed in enumerate(points) for t in listed]
    expected = []
    for listed in points:
        usable = [int(max(-(2.0**80), min(2.0**80, t))) for t in listed if not math.isnan(t)]
        total = max(-(2**100), min(2**100, sum(usable)))
        expected.append(float(total) / len(usable) if usable else math.nan)
    return rows, expected


@each
def test_totals_that_64_bits_cannot_hold_are_exact(engine):
    """Whole numbers about 2^62 and 2^63, carries, cancellations, and what is far, to the bit."""
    near, far = 2.0**62 - 512, 2.0**63
    points = [
        [near] * 9, [-near] * 9, [near, near, near, -near], [near, far, -near, -far, 3.0],
        [2.0**62, -(2.0**62), 2.0**62], [far, far, 1.0], [-far, -far - 2048, -1.0], [math.nan],
        [2.0**31, 2.0**31 - 1, -1.0], [-(2.0**31), -1.0], [math.inf, 1.0],
        [-math.inf, -7.0, math.nan],
        [2.0**53, 1.0, 1.0], [1e300, -1e300, 5.0], [2.0**80] * 3 + [1.0],
    ]  # fmt: skip
    rows, expected = totals_of(points)
    who, x = (list(column) for column in zip(*rows, strict=True))
    table = pa.table({"who": pa.array(who, pa.int64()), "x": pa.array(x, pa.float64())})
    source = sql_tables.put(engine, table)
    people = pm.read(source, person="who", values="x", resolution=1.0)
    assert np.array_equal(people.matrix()[:, 0], expected, equal_nan=True)


@each
def test_bins_of_their_edges_and_of_their_neighbours(engine):
    """The guess is right or wrong by one bin; the comparisons decide."""
    ends = [2.0**-41, 5e-324, 2.0**39.99, 0.0]
    for edge in map(float, LOG_GRID.edges()):
        ends += [math.nextafter(edge, 0.0), edge, math.nextafter(edge, math.inf)]
    values = [None, *ends, *(-end for end in ends)]
    frame = pa.table({"v": pa.array(values, pa.float64())})
    table = sql_tables.put(engine, frame)
    found = fetch(log_cells(lazy(table)).group_by("k").agg(n=nw.len()))
    counts = dict.fromkeys(range(LOG_CELLS), 0)
    for cell, count in found:
        counts[int(cell)] += count
    assert list(counts.values()) == reference.log_counts(values, 0.0)


@each
def test_a_mean_makes_one_table_and_no_table_of_edges(engine, monkeypatch):
    made, run = [], sqlengines.run

    def running(link, text):
        made.append(text.partition(" ")[0])
        run(link, text)

    monkeypatch.setattr(sqlengines, "run", running)
    who, x = range(400), [5.0 + i % 7 for i in range(400)]
    source = sql_tables.put(engine, pa.table({"who": who, "x": x}))
    pm.mean(source, "x", person="who", epsilon=1.0, noise=pm.SimulatedNoise(1))
    assert made.count("CREATE") == 1


@pytest.mark.slow
@each
def test_every_edge_of_half_octaves_and_of_parts(engine):
    values = edges.edges()
    frame = pa.table({"p": range(len(values)), "v0": pa.array(values, pa.float64())})
    people = EnginePersonTable(lazy(sql_tables.put(engine, frame)), ("x",))
    found = edges.edges_told(people)
    for question, answer in edges.edges_expected(values).items():
        assert found[question] == answer, question


def test_a_cast_that_is_tried_stays_so_on_datafusion():
    """Ibis writes it as a cast that raises, and whether it does would depend on values."""
    pytest.importorskip("datafusion")
    table = sql_tables.put("datafusion", pa.table({"x": [math.nan, 1e300, 2.5]}))
    tried = table.select(n=table["x"].try_cast("int64"))
    assert [row[0] for row in sqlengines.rows(tried)] == [None, None, 2]


def test_no_setting_of_clickhouse_makes_an_error_of_a_value():
    """Computing what is not taken, and names that mean columns first, are choices of a session."""
    if sql_tables.missing("clickhouse"):
        pytest.skip("chdb is not installed")
    values = [math.nan, -math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0, 5e-324, None, 2.5, 3.5]
    kinds = pa.schema([("who", pa.int64()), ("x", pa.float64())])
    table = pa.table([[*range(10), 9], values], schema=kinds)
    con = sqlengines.backend(sql_tables.put("clickhouse", table)).con
    free = {"short_circuit_function_evaluation": "enable", "prefer_column_name_to_alias": 0}
    found = []
    for set_to in (free, {"short_circuit_function_evaluation": "disable",
                          "prefer_column_name_to_alias": 1}):  # fmt: skip
        for name, value in set_to.items():
            con.command(f"SET {name} = {value!r}")
        people = pm.read(sql_tables.put("clickhouse", table), person="who", values="x")
        found.append((people.matrix()[:, 0].tolist(), people.log_counts(0, 0.0).tolist()))
    for name, value in free.items():
        con.command(f"SET {name} = {value!r}")
    assert str(found[0]) == str(found[1])
    limit = 2.0**44
    assert str(found[0][0]) == str([math.nan, math.nan, limit, -limit, limit, -limit, 0.0, 0.0,
                                    math.nan, 3.0])  # fmt: skip


def told(release, source):
    made = release(source, pm.SimulatedNoise(3)).to_dict()
    del made["provenance"]  # time and engine
    return json.dumps(made, sort_keys=True)


@cache
def told_of_the_frame():
    frame = spark_homes.grouped()
    return {name: told(release, frame) for name, release in spark_homes.comparisons().items()}


@pytest.mark.slow
@each
def test_means_by_group_and_comparisons_give_the_same_release(engine):
    frame = spark_homes.grouped()
    whole = {"who": pa.int64(), "key": pa.string(), "arm": pa.int64()}
    kinds = pa.schema([(name, whole.get(name, pa.float64())) for name in frame.columns])
    table = sql_tables.put(engine, frame.to_arrow().cast(kinds))
    for name, release in spark_homes.comparisons().items():
        assert told(release, table) == told_of_the_frame()[name], name


@pytest.mark.slow
@each
def test_keys_of_every_type_are_the_same_groups(engine):
    for name, frame, keys in spark_homes.tables_of_keys():
        table = frame.to_arrow()
        usual = [
            field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
            for field in table.schema
        ]
        source = sql_tables.put(engine, table.cast(pa.schema(usual)))
        made = {spark_homes.by_key(s, keys) for s in (frame, source)}
        assert [every for _, every in made] == [True], name


@pytest.mark.slow
@each
def test_nothing_but_aggregates_leaves_the_engine(engine, monkeypatch, tmp_path):
    path = spark_homes.generated(tmp_path)
    arrow = random_tables.pq.read_table(path)
    left, ask = [], sqlengines.rows

    def rows(table):
        found = ask(table)
        left.append((len(found), table.columns))
        return found

    monkeypatch.setattr(sqlengines, "rows", rows)
    found = {}
    table = sql_tables.put(engine, arrow)
    for home, source in (("file", path), (engine, table)):
        people = pm.read(source, person="person_id", values=["value", "other"])
        found[home] = told(lambda s, n: pm.mean(s, epsilon=1.0, delta=1e-6, noise=n), people)
    assert len(set(found.values())) == 1
    assert len(left) > 3
    assert max(size for size, _ in left) <= spark_homes.MOST_ROWS
    assert not any({"p", "v0"} & set(columns) for _, columns in left)


@each
def test_persons_by_id(engine):
    """Missing ids are dropped, both zeros are one person, an infinite id is one, too; a roster adds
    and leaves out persons."""
    ids = [0.0, -0.0, 1.5, math.nan, None, 1.5, math.inf, -math.inf, math.inf]
    table = pa.table(
        {"who": pa.array(ids, pa.float64()), "x": [1.0, 3.0, 5.0, 7.0, 9.0, 6.0, 8.0, 4.0, 9.0]}
    )
    source = sql_tables.put(engine, table)
    people = pm.read(source, person="who", values="x")
    assert sorted(people.matrix().tolist()) == [[2.0], [4.0], [5.5], [8.5]]
    known = pm.read(source, person="who", values="x", roster=[math.inf, 0, 7.5])
    assert np.array_equal(np.sort(known.matrix()[:, 0]), [2.0, 8.5, math.nan], equal_nan=True)
    rows = arrow_of([("b", 1.0, 0), ("a'\\", 2.0, 0), (None, 5.0, 0), ("c", 4.0, 0)])
    source = sql_tables.put(engine, rows)
    known = pm.read(source, person="who", values="x", roster=["b", "a'\\", "zz", "b"])
    assert known.size() == 3
    found = known.collect().values[:, 0]
    assert np.array_equal(found, [2.0, 1.0, math.nan], equal_nan=True)
    assert pm.read(source, person="who", values="x", roster=[]).size() == 0
    with pytest.raises(pm.ArgumentError, match="Did you mean 'who'"):
        pm.read(source, person="whoo", values="x")
    with pytest.raises(pm.SchemaError, match="does not hold numbers"):
        pm.read(source, person="x", values="who")


@each
def test_group_sizes_and_what_needs_rows(engine):
    table = pa.table({"who": [1, 1, 2, 3], "key": ["a", "a", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0]})
    source = sql_tables.put(engine, table)
    assert pm.group_sizes(source, person="who", group="key") == (2, 1)
    with pytest.raises(pm.ArgumentError, match="Parquet"):
        pm.regress(source, "x ~ 1", person="who", epsilon=1.0)
    with pytest.raises(pm.ArgumentError, match="cannot be combined with a table of a database"):
        pm.read(source, person="who", values="x", threads=1)


def execute(text):
    link = sql_tables.connection("postgres")
    with link.con.cursor() as cursor, link.con.transaction():
        cursor.execute(text)
    return link


@pytest.mark.parametrize("engine", POSTGRES)
def test_decimals_of_any_length_are_read(engine):
    """NaN is missing, what a double has no room for is limited; PostgreSQL's cast would fail."""
    given = ["NaN", "Infinity", "1e400", "-1e400", "1e-400", "12.25", None]
    rows = ", ".join(f"({i}, {'NULL' if v is None else repr(v)})" for i, v in enumerate(given))
    link = execute(f"CREATE TABLE decimals AS SELECT i, v::numeric FROM (VALUES {rows}) t(i, v)")
    people = pm.read(link.table("decimals"), person="i", values="v")
    limit = 2.0**44
    expected = [math.nan, limit, limit, -limit, 0.0, 12.25, math.nan]
    assert np.array_equal(people.matrix()[:, 0], expected, equal_nan=True)
    assert Decimal("12.25") == Decimal(str(people.matrix()[5, 0]))


@pytest.mark.parametrize("engine", POSTGRES)
def test_texts_compare_by_their_bytes(engine):
    """A language puts a before B; persons are in the order of bytes everywhere."""
    names = ["a", "B", "Z", "b", "é", "A ", "A"]
    rows = ", ".join(f"('{name}', {i})" for i, name in enumerate(names))
    link = execute(
        'CREATE TABLE names (who text COLLATE "en-x-icu", x double precision); '
        f"INSERT INTO names VALUES {rows}"
    )
    people = pm.read(link.table("names"), person="who", values="x")
    order = sorted(range(len(names)), key=lambda i: names[i].encode())
    assert people.collect().values[:, 0].tolist() == order


@pytest.mark.parametrize("engine", POSTGRES)
def test_an_engine_s_own_words_are_withheld(engine):
    link = execute("CREATE TABLE odd AS SELECT 1 AS who, 'secret 17' AS note")
    execute("CREATE VIEW broken AS SELECT who, note::double precision AS x FROM odd")
    with pytest.raises(pm.SchemaError) as caught:
        pm.read(link.table("broken"), person="who", values="x")
    told, seen = caught.value, []
    while told is not None:
        seen.append(str(told))
        told = told.__cause__ or told.__context__
    assert "secret" not in " ".join(seen)
    assert link.con.execute("SELECT 1").fetchone() == (1,)  # the session is not left broken


@pytest.mark.parametrize("engine", POSTGRES)
def test_an_address_reads_like_the_table_and_tells_no_password(engine, monkeypatch):
    execute("CREATE TABLE visits AS SELECT i % 300 AS who, (i % 7)::real AS x "
            "FROM generate_series(1, 3000) i")  # fmt: skip
    address = sql_tables.server().url
    monkeypatch.setenv("PGPASSWORD", "geheim")
    for name in ("visits", "public.visits"):
        table = pm.Table(f"{address}#{name}", person="who")
        assert table.count_people() == 300
        assert pm.mean(table, "x", assume=(0, 7), epsilon=1.0).status == "ok"
    assert table.name.endswith("visits by who")
    wrong = {
        f"{address}#nothing": "#nothing': is not a table that you may read",
        f"{address}": "must name a table",
        address.replace("privmean@", "nobody@") + "#visits": "is a database that does not answer",
        address.replace("privmean@", "privmean:geheim@") + "#visits": "must not hold a password",
        f"{address}?password=geheim#visits": "must not hold a password",
    }
    for source, words in wrong.items():
        with pytest.raises(pm.ArgumentError, match=words) as caught:
            pm.read(source, person="who", values="x")
        told = [str(caught.value), str(caught.value.__cause__), str(caught.value.__context__)]
        assert "geheim" not in " ".join(told)


@pytest.mark.slow
@pytest.mark.parametrize("engine", POSTGRES)
def test_a_session_that_may_write_nothing_reads_one_state_of_the_records(engine, monkeypatch):
    """The same release; what others write meanwhile is not seen, and the session is left free."""
    import psycopg

    execute(
        "CREATE TABLE shared AS SELECT i % 300 AS who, (i % 7)::real AS x, "
        "CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS key FROM generate_series(1, 3000) i; "
        "CREATE ROLE reader LOGIN; GRANT SELECT ON shared TO reader; "
        "REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC"
    )
    ibis = pytest.importorskip("ibis")
    address = sql_tables.server().url
    as_reader = address.replace("privmean@", "reader@")
    standby = psycopg.connect(
        address, autocommit=True, options="-c default_transaction_read_only=1"
    )
    links = [psycopg.connect(as_reader, autocommit=True), standby]
    free = sql_tables.connection("postgres").table("shared")

    def asked(source):
        groups = {"by": "key", "keys": ["a", "b"], "max_groups": 2}
        return [
            told(
                lambda s, n, m=more: pm.mean(s, "x", person="who", epsilon=2, noise=n, **m), source
            )
            for more in ({}, groups)
        ]

    for link in links:
        with link:
            with pytest.raises(psycopg.errors.Error):
                link.execute("CREATE TEMPORARY TABLE none (x int)")
            table = ibis.postgres.from_connection(link).table("shared")
            assert asked(table) == asked(free)
            people = pm.read(table, person="who", values="x", roster=range(200))
            before = people.size(), people.interval_sums([random_tables.ClipInterval(0.0, 7.0)])
            execute("INSERT INTO shared SELECT 1, 5, 'a' FROM generate_series(1, 50)")
            people._cache.clear()
            assert (
                people.size(),
                people.interval_sums([random_tables.ClipInterval(0.0, 7.0)]),
            ) == before
            del people, table
            gc.collect()
            assert link.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("engine", POSTGRES)
def test_the_command_reads_a_table_of_a_database(engine, monkeypatch, capsys):
    from privmean.cli.app import run

    execute("CREATE TABLE stays AS SELECT i % 300 AS who, (i % 7)::real AS x "
            "FROM generate_series(1, 3000) i")  # fmt: skip
    monkeypatch.setenv("PGPASSWORD", "geheim")
    asked = ["--person", "who", "--value", "x", "--assume", "0,7", "--epsilon", "1"]
    status = run(["mean", sql_tables.server().url, "--table", "stays", *asked])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert "n = 300 people (public)" in out
    assert "geheim" not in out


@pytest.mark.parametrize("engine", POSTGRES)
def test_a_table_is_found_by_the_name_that_it_has(engine):
    """Schemas, and names that SQL would want quoted; others are refused with those there are."""
    names = {
        "odd.calls": ("odd", "calls"), '"odd".calls': ("odd", "calls"),
        "odd.Two Words": ("odd", "Two Words"), 'odd."Two Words"': ("odd", "Two Words"),
        '"My.Schema"."a.b"': ("My.Schema", "a.b"), '"dotted.name"': ("public", "dotted.name"),
        "dotted.name": ("public", "dotted.name"), "Große Tafel": ("public", "Große Tafel"),
        """"it's ""so"" #1\"""": ("public", """it's "so" #1"""), "it%": ("public", "it%"),
    }  # fmt: skip
    address = sql_tables.server().url
    for place, (schema, table) in enumerate(dict.fromkeys(names.values())):
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, table))
        whose = schema.replace('"', '""')
        execute(f'CREATE SCHEMA IF NOT EXISTS "{whose}"')
        execute(f"CREATE TABLE {quoted} AS SELECT i AS who, {place} AS x "
                "FROM generate_series(1, 5) i")  # fmt: skip
    places = list(dict.fromkeys(names.values()))
    for name, held in names.items():
        people = pm.read(f"{address}#{name}", person="who", values="x")
        assert people.collect().values[0, 0] == places.index(held), name
    for name, near in {
        "odd.call": "'odd.calls'", "calls": "'odd.calls'", "my.schema.a.b": "My.Schema",
        "two words": 'odd."Two Words"', '"odd.calls"': "'odd.calls'", '"open': "'",
        ".": "'", "odd.": "'",
    }.items():  # fmt: skip
        with pytest.raises(pm.ArgumentError, match="is not a table that you may read") as caught:
            pm.mean(f"{address}#{name}", "x", person="who", epsilon=1.0)
        assert near in str(caught.value), caught.value


def test_a_password_is_refused_before_anything_is_imported():
    for address in (
        "postgresql://me:geheim@host/db#visits", "clickhouse://me:geheim@host/db#visits",
        "postgresql://me@host/db?sslpassword=geheim#visits",
    ):  # fmt: skip
        with pytest.raises(pm.ArgumentError, match="must not hold a password") as caught:
            pm.read(address, person="who", values="x")
        assert "geheim" not in str(caught.value)
    with pytest.raises(pm.ArgumentError, match="requires the address"):
        databases.with_table("visits.csv", "visits")


@pytest.mark.parametrize("scheme", ["mysql", "postgresql+psycopg", "snowflake"])
def test_an_address_that_is_not_read_is_no_name_of_a_file(scheme, capsys):
    from privmean.cli.app import run

    address = f"{scheme}://me:geheim@host/db"
    with pytest.raises(pm.ArgumentError, match="is not a supported kind of address") as caught:
        pm.read(f"{address}#visits", person="who", values="x")
    asked = ["--table", "visits", "--person", "who", "--value", "x", "--epsilon", "1"]
    assert run(["mean", address, *asked]) == 2
    said = capsys.readouterr()
    assert "Use postgresql://" in said.err
    assert "geheim" not in said.out + said.err + str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "extra"), [("postgresql", "ibis"), ("clickhouse", "clickhouse")]
)
def test_what_is_not_installed_is_named_with_its_extra(scheme, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(pm.ArgumentError, match=rf"Install privmean\[{extra}\]"):
        pm.read(f"{scheme}://host/db#visits", person="who", values="x")


@pytest.mark.filterwarnings("ignore")  # Ibis' own: its DuckDB calls what DuckDB 2 deprecates
def test_an_engine_that_was_not_compared_is_refused():
    ibis = pytest.importorskip("ibis")
    link = ibis.duckdb.connect()
    link.raw_sql("CREATE TABLE t AS SELECT 1 AS who, 1.0 AS x")
    with pytest.raises(pm.ArgumentError, match="without Ibis"):
        pm.read(link.table("t"), person="who", values="x")


@pytest.mark.parametrize("factor", [0.5, 0.2, 1e-10, 1e-300, 5e-324, 0.999, 2.0**-1074])
def test_the_least_factor_of_a_product_that_does_not_vanish(factor):
    least = sqlexact.least_factor(factor)
    assert least * factor > 0.0
    assert math.nextafter(least, 0.0) * factor == 0.0


@pytest.mark.parametrize("factor", [2.0, 1.0000001, 3.3, 1e10, 1e308])
def test_the_largest_factor_of_a_product_that_is_finite(factor):
    most = sqlexact.most_factor(factor)
    assert math.isfinite(most * factor)
    assert math.isinf(math.nextafter(most, math.inf) * factor)


def test_the_least_number_whose_square_does_not_vanish():
    root = sqlexact.least_root()
    assert root * root > 0.0
    assert math.nextafter(root, 0.0) ** 2 == 0.0
