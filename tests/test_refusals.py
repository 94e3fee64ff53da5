"""Wrong arguments are refused before a table is opened, in Python, in a file of questions and in
the shell alike; and these three doors give the same release.

The tables of refusals do not exist: an answer that names one would show that it was looked for.
"""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from typer.main import get_command

import privmean as pm
from entry_points import FUNCTIONS, Refused, by_file, by_function, by_question, by_shell
from privmean import validate
from privmean.api.renamed_arguments import FLAGS, KEYWORDS, NAMES, VALUES
from privmean.cli import app as cli
from privmean.cli.app import run
from privmean.noise.noise_source import SimulatedNoise
from privmean.validate import replacement

NOWHERE = "there-is-no-such-table.parquet"
RIGHT = {
    "mean": {"values": ["x"]},
    "regression": {"formula": "y ~ a", "effect": "per_person"},
    "curve": {"value": "y", "time": "t", "bins": [0, 1, 2]},
    "variance": {"value": "x"},
    "quantile": {"value": "x", "q": [0.25, 0.5]},
}
DOORS = ("question", "function", "file", "shell")
BUDGET = {"epsilon": 1.0}
# a term that is wrong whatever is asked, and the word by which it is refused
TERMS = [
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": "one"}, "epsilon"),
    ({"epsilon": float("inf")}, "epsilon"),
    ({"epsilon": 1e-9}, "epsilon"),
    ({}, "epsilon"),
    ({"epsilon": 1.0, "rho": 1.0}, "epsilon"),
    ({"epsilon": 1.0, "delta": 1.0}, "delta"),
    ({"epsilon": 1.0, "delta": float("nan")}, "delta"),
    ({"rho": 0.0}, "rho"),
    ({"rho": 1e-300}, "rho"),
    ({"rho": 1e9}, "rho"),
    ({"epsilon": 1.0, "neighbors": "both"}, "neighbors"),
    ({"epsilon": 1.0, "neighbors": "zero-out"}, "neighbors"),
    ({"epsilon": 1.0, "level": 95}, "level"),
    ({"epsilon": 1.0, "n_guess": 7}, "n_guess"),
    ({"epsilon": 1.0, "neighbors": "add-remove", "n_guess": 0}, "n_guess"),
    ({"epsilon": 1.0, "epsilom": 2.0}, "epsilom"),
]
# words that are wrong for one question
WORDS = [
    ("mean", {"method": "winsorised"}, "method"),
    ("mean", {"method": "default target=median"}, "target"),
    ("mean", {"method": "default excess_ratio=-1"}, "excess_ratio"),
    ("mean", {"method": "winsorized gama=0.1"}, "gama"),
    ("mean", {"method": "bounded"}, "assume"),
    ("mean", {"method": "default", "assume": "0,8"}, "method"),
    ("mean", {"method": " "}, "method"),
    ("mean", {"assume": ""}, "assume"),
    ("mean", {"assume": f"bounded-moment order=3 bound=1 records={'9' * 400}"}, "records"),
    ("mean", {"clustering": ""}, "clustering"),
    ("regression", {"working": ""}, "working"),
    ("curve", {"assume": ""}, "assume"),
    ("mean", {"assume": "8,0"}, "bounds"),
    ("mean", {"assume": "sub-gaussian sd=-1"}, "sd"),
    ("mean", {"assume": "sub-gausian sd=1"}, "assume"),
    ("mean", {"assume": "bounded-moment order=1 bound=1"}, "order"),
    ("mean", {"assume": "covariance 1,x"}, "assume"),
    (
        "mean",
        {"assume": "bounded-moment order=3 bound=1", "estimand": "records", "max_records": 3},
        "method",
    ),
    ("mean", {"estimand": "person"}, "estimand"),
    ("mean", {"estimand": "records"}, "max_records"),
    ("mean", {"max_records": 5}, "max_records"),
    ("mean", {"resolution": 0.3}, "resolution"),
    ("mean", {"clustering": -1.0}, "clustering"),
    ("mean", {"clustering": "random-effects within_sd=1 records=3 group=g"}, "clustering"),
    ("mean", {"valuess": "y"}, "valuess"),
    ("regression", {"formula": "y ~"}, "formula"),
    ("regression", {"formula": "y + a"}, "formula"),
    ("regression", {"formula": "y ~ log(a)"}, "formula"),
    ("regression", {"formula": "y ~ C(a)"}, "formula"),
    ("regression", {"method": "magnitude"}, "method"),
    ("regression", {"method": "magnitudes target=median"}, "target"),
    ("regression", {"working": "ar2 phi=0.5"}, "working"),
    ("regression", {"working": "ar1 phi=2", "time": "t"}, "phi"),
    ("regression", {"working": "ar1 phi=0.5"}, "time"),
    ("regression", {"working": "exchangeable icc=0.1", "fixed_effects": True}, "working"),
    ("regression", {"threshold": -1.0}, "threshold"),
    ("regression", {"min_records": 0}, "min_records"),
    ("regression", {"scales": ["b=2"]}, "scales"),
    ("regression", {"resolution": 0.3}, "resolution"),
    ("regression", {"assume": "1,-1"}, "assume"),
    ("regression", {"assume": "errors residual_sd=-1"}, "residual_sd"),
    ("regression", {"assume": "bounded-moment order=3 bound=1"}, "assume"),
    ("regression", {"clustering": 0.0}, "clustering"),
    ("curve", {"bins": [0, 2, 1]}, "bins"),
    ("curve", {"bins": [1]}, "bins"),
    ("curve", {"bins": "early,late"}, "bins"),
    ("curve", {"assume": "8,0"}, "bounds"),
    ("curve", {"assume": "bounded-moment order=3 bound=1"}, "assume"),
    ("curve", {"method": "magic"}, "method"),
    ("curve", {"resolution": 3.0}, "resolution"),
    ("curve", {"clustering": 0.0}, "clustering"),
    ("variance", {"within": [0.01, 10.0]}, "within"),
    ("variance", {"method": "moment"}, "method"),
    ("mean", {"method": "cover"}, "PureCover"),
    ("mean", {"method": "heavy-tailed split=disjoint"}, "ThreadedMean"),
    ("variance", {"resolution": 0.3}, "resolution"),
    ("quantile", {"q": [0.5, 0.25]}, "q"),
    ("quantile", {"q": [0.5, 1.5]}, "q"),
    ("quantile", {"q": "low"}, "q"),
    ("quantile", {"bounds": [8.0, 0.0]}, "bounds"),
    ("quantile", {"clustering": 0.0}, "clustering"),
    ("quantile", {"resolution": 0.3}, "resolution"),
]


@pytest.fixture
def doors(tmp_path, capsys):
    """Each door as a function of (table, kind, words, terms)."""
    return {
        "question": by_question,
        "function": by_function,
        "file": lambda *said: by_file(tmp_path / "study.toml", *said),
        "shell": lambda *said: by_shell(capsys, *said),
    }


def refusal(door, kind, words, terms):
    with pytest.raises(Refused) as found:
        door(NOWHERE, kind, words, terms)
    text = str(found.value)
    assert NOWHERE not in text
    assert "Traceback" not in text
    return text.replace("-", "_")


def test_a_table_that_does_not_exist_is_said_to_be_missing_where_all_else_is_right(doors):
    for kind, words in RIGHT.items():
        for door in doors.values():
            with pytest.raises(Refused, match=NOWHERE):
                door(NOWHERE, kind, words, BUDGET)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize(("terms", "word"), TERMS, ids=str)
def test_a_wrong_term_is_refused(doors, door, kind, terms, word):
    words = (word,) if terms else (word, "budget")  # a file that says nothing has no [budget]
    assert any(item in refusal(doors[door], kind, RIGHT[kind], terms) for item in words)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("kind", "words", "word"), WORDS, ids=str)
def test_a_wrong_word_of_a_question_is_refused(doors, door, kind, words, word):
    assert word in refusal(doors[door], kind, RIGHT[kind] | words, BUDGET)


@pytest.mark.parametrize("door", ["question", "function", "file"])
@pytest.mark.parametrize("kind", RIGHT)
def test_a_question_lacks_no_word_that_it_needs(doors, door, kind):
    for name in ("formula", "value", "time", "bins"):
        if name in RIGHT[kind]:
            left = {word: said for word, said in RIGHT[kind].items() if word != name}
            if (kind, name) not in [("variance", "value"), ("quantile", "value")]:  # of one column
                assert name in refusal(doors[door], kind, left, BUDGET)


@pytest.mark.parametrize("kind", ["mean", "regression", "curve"])
@pytest.mark.parametrize("wrong", [3, "wide", object(), pm.SubGaussian, (8, 0), [[1, 2, 3]]])
def test_what_is_no_assumption_is_refused(kind, wrong):
    with pytest.raises(pm.ArgumentError, match="assume|bounds"):
        FUNCTIONS[kind](NOWHERE, person="who", **RIGHT[kind], assume=wrong, epsilon=1.0)


@pytest.mark.parametrize("kind", ["mean", "regression", "curve"])
@pytest.mark.parametrize("wrong", ["magic", 3, None, pm.WinsorizedMean, object()])
def test_what_is_no_method_is_refused(kind, wrong):
    with pytest.raises(pm.ArgumentError, match="method"):
        FUNCTIONS[kind](NOWHERE, person="who", **RIGHT[kind], method=wrong, epsilon=1.0)


def test_bounds_in_an_array_are_bounds():
    limits, values = np.array([0.0, 8.0]), np.linspace(1, 5, 600)
    terms = {"epsilon": 1.0, "noise": SimulatedNoise(1)}
    assert pm.mean(values, bounds=limits, **terms).estimator == "bounded mean"
    with pytest.raises(pm.ArgumentError, match="bounds"):
        pm.mean(values, bounds=limits, method=pm.DefaultMean(), **terms)
    with pytest.raises(pm.ArgumentError, match="assume"):
        pm.Regression("y ~ a", effect="per_person", assume=limits, method=pm.PrivateScale())
    assert pm.plan(
        pm.Regression("y ~ a", effect="per_person", assume=limits), n=600, epsilon=1.0
    ).events


@pytest.mark.parametrize("kind", RIGHT)
def test_a_ledger_that_does_not_exist_is_refused(capsys, tmp_path, kind):
    path = str(tmp_path / "ledger.json")
    with pytest.raises(pm.ArgumentError, match="ledger"):
        pm.Ledger.open(path)
    with pytest.raises(Refused, match="ledger"):
        by_shell(capsys, NOWHERE, kind, RIGHT[kind], {**BUDGET, "ledger": path})
    for wrong in (path, 3, pm.Ledger):
        with pytest.raises(pm.ArgumentError, match="ledger"):
            FUNCTIONS[kind](NOWHERE, person="who", **RIGHT[kind], **BUDGET, ledger=wrong)
    for wrong in (7, "seed", pm.SimulatedNoise):
        with pytest.raises(pm.ArgumentError, match="noise"):
            FUNCTIONS[kind](NOWHERE, person="who", **RIGHT[kind], **BUDGET, noise=wrong)


@pytest.mark.parametrize("wrong", [None, 3, "", ["who"]])
@pytest.mark.parametrize("kind", RIGHT)
def test_a_person_that_is_no_column_is_refused(kind, wrong):
    with pytest.raises(pm.ArgumentError, match="person"):
        FUNCTIONS[kind](NOWHERE, person=wrong, **RIGHT[kind], **BUDGET)


# --- old names and other usual ones ---------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("word", KEYWORDS)
def test_an_old_or_usual_keyword_is_refused_with_what_replaces_it(function, word):
    accepted = inspect.signature(function).parameters
    if word in accepted:
        return
    kind = next(name for name, item in FUNCTIONS.items() if item is function)
    with pytest.raises(pm.ArgumentError) as found:
        function(NOWHERE, person="who", **RIGHT[kind], **BUDGET, **{word: 1})
    assert found.value.argument == word
    assert str(found.value).startswith(f"{function.__name__}() has no argument {word!r}. ")
    assert len(str(found.value)) < 200
    new = replacement(KEYWORDS[word], accepted)
    assert new.partition("=")[0] in str(found.value)


RENAMED = [old for old, new in FLAGS.items() if len(new) == 1 and re.fullmatch("--[a-z-]+", new[0])]


@pytest.mark.parametrize("option", FLAGS)
@pytest.mark.parametrize("command", ["mean", "regress", "curve", "variance", "quantile"])
def test_an_old_or_usual_option_is_refused_with_what_replaces_it(capsys, command, option):
    known = options_of(command)
    if option in known:
        return
    assert run([command, NOWHERE, "--person", "who", f"{option}=1"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert NOWHERE not in shown.err
    assert f"privmean {command} has no option {option}. " in shown.err
    new = next((item for item in FLAGS[option] if item.split()[0] in known), "")
    assert new in shown.err


@pytest.mark.parametrize("command", ["mean", "stream", "withhold", "study", "collect", "ledger"])
def test_no_command_has_an_option_that_was_renamed(command):
    assert len(RENAMED) >= 2
    groups = [get_command(cli._add(command)).commands[command]]
    for item in groups:
        groups += getattr(item, "commands", {}).values()
        assert not {flag for param in item.params for flag in param.opts} & set(RENAMED)


def options_of(command):
    arguments = [command, "--help"]
    called = get_command(cli._add(arguments[0])).commands[command]
    return {flag for item in called.params for flag in item.opts}


def test_old_names_and_values_are_refused_with_the_new_ones():
    for old, new in NAMES.items():
        with pytest.raises(AttributeError) as found:
            getattr(pm, old)
        assert (new if " " in new else f"privmean.{new}") in str(found.value)
    for (name, old), new in VALUES.items():
        with pytest.raises(pm.ArgumentError) as refused:
            validate.choice(name, old, [new.split()[0]])
        assert (new if " " in new else f"Use {name}='{new}'") in str(refused.value)


def test_no_old_name_is_its_own_replacement():
    for table in (NAMES, KEYWORDS, FLAGS):
        for old, new in table.items():
            first = new if isinstance(new, str) else new[0]
            assert first.partition("=")[0].split()[0] != old
    assert all(old != new for (_, old), new in VALUES.items())


# --- one release from three doors -----------------------------------------------------------------

SAME = [
    ("mean", {}, {"epsilon": 2.0}),
    ("mean", {"values": ["x", "y"]}, {"epsilon": 4.0, "delta": 1e-6}),
    ("mean", {"assume": "0,8", "estimand": "records", "max_records": 3}, {"rho": 0.5,
    "level": 0.9}),
    ("mean", {"method": "default target=mean"}, {"epsilon": 2.0, "neighbors": "add-remove"}),
    ("mean", {"assume": "bounded-moment order=4 bound=2 range=-9,9"}, {"epsilon": 2.0}),
    ("mean", {"method": "winsorized", "assume": "sub-gaussian sd=1.2", "clustering": 2.0},
     {"epsilon": 2.0, "delta": 1e-6}),
    ("mean",
    {"clustering": "random-effects group=g group_sd=0.2 within_sd=0.5 records=2 person_sd=1"},
     {"epsilon": 2.0, "delta": 1e-6}),
    ("regression", {}, {"epsilon": 4.0}),
    ("regression", {"effect": "pooled"}, {"epsilon": 8.0, "delta": 1e-6}),
    ("regression", {"effect": "within"}, {"epsilon": 4.0, "delta": 1e-6}),
    ("regression", {"working": "ar1 phi=0.4", "time": "t", "threshold": 0.02}, {"epsilon": 4.0}),
    ("regression", {"fixed_effects": True, "assume": "-5,5"}, {"epsilon": 4.0}),
    ("regression", {"scales": ["a=2"], "assume": "errors residual_sd=0.5 between_sd=1"},
     {"epsilon": 4.0, "delta": 1e-6}),
    ("curve", {}, {"epsilon": 4.0}),
    ("curve", {"assume": "0,8", "bins": [0.0, 1.5, 4.0]}, {"rho": 0.5, "neighbors": "add-remove",
                                                       "n_guess": 500}),
    ("quantile", {}, {"epsilon": 2.0}),
    ("quantile", {"bounds": [0.0, 8.0]},
     {"rho": 0.5, "neighbors": "add-remove", "n_guess": 500}),
    ("variance", {}, {"epsilon": 2.0}),
    ("variance", {}, {"rho": 0.5}),
]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(500), 4)
    own, n = np.repeat(rng.normal(3, 1, 500), 4), len(who)
    a = rng.normal(0, 1, n)
    columns = {
        "who": who, "g": who % 30, "t": np.tile(np.arange(4), 500), "a": a,
        "x": own + rng.normal(0, 0.5, n), "y": own + a + rng.normal(0, 0.5, n),
    }  # fmt: skip
    path = tmp_path_factory.mktemp("doors") / "table.csv"
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    return str(path)


@pytest.mark.parametrize(("kind", "words", "terms"), SAME, ids=str)
def test_three_doors_give_the_same_json(monkeypatch, doors, table, kind, words, terms):
    """With the same draws in place of exact noise, which all doors take where none is said."""
    monkeypatch.setattr("privmean.pipeline.ExactNoise", lambda: SimulatedNoise(3))
    words = RIGHT[kind] | words
    if set(words) & {"threshold", "scales"}:  # asked by `ask`, not by a function
        doors.pop("function")
    found = {name: door(table, kind, words, terms) for name, door in doors.items()}
    times = {name: release.pop("provenance") for name, release in found.items()}
    first = found["question"]
    assert first["status"] in ("ok", "outliers_unchecked", "outliers_clipped")
    assert first["secure"] is False  # simulated noise says so, whatever door it came by
    for name, release in found.items():
        assert release == first, name
        assert times[name]["engine"] == times["question"]["engine"]


@pytest.mark.parametrize("wrong", [3, b"x", ["x", 3]])
def test_what_names_no_column_is_refused(wrong):
    for words in ({"values": wrong}, {"values": "x", "by": wrong, "keys": [1]}):
        with pytest.raises(pm.ArgumentError, match="the name of a column or a list of names"):
            pm.mean(NOWHERE, person="p", epsilon=1.0, **words)


@pytest.mark.parametrize("ask", [pm.plan, pm.required_n])
def test_what_is_no_question_is_refused(ask):
    known = {"n": 9} if ask is pm.plan else {"target_error": 1.0, "guess_sd": 1.0}
    for wrong in ("mean", pm.Mean, None):
        with pytest.raises(pm.ArgumentError, match="is not a question"):
            ask(wrong, epsilon=1.0, **known)
        with pytest.raises(pm.ArgumentError, match="is not a question"):
            pm.ask(NOWHERE, wrong, person="p", epsilon=1.0)


EMPTY = {"p": np.zeros(0, dtype=int), "x": np.zeros(0), "g": np.zeros(0)}


@pytest.mark.parametrize("source", [EMPTY, {"p": [None], "x": [1.0], "g": [0]}, np.zeros(0)])
def test_a_table_without_persons_is_refused_before_anything_is_spent(source):
    ledger, named = pm.Ledger(epsilon=9.0), isinstance(source, dict)
    said = ({}, {"assume": (0, 1)}, *([{"by": "g", "keys": [0, 1]}] if named else []))
    for words in said:
        common = {"person": "p", "values": "x"} if named else {}
        with pytest.raises(pm.SchemaError, match="has no person"):
            pm.mean(source, neighbors="replace-one", **BUDGET, ledger=ledger, **common, **words)
    assert not ledger.entries


def test_arrays_and_machines_that_are_none_are_refused():
    with pytest.raises(pm.ArgumentError, match="must have at least one column"):
        pm.mean(np.zeros((5, 0)), epsilon=1.0)
    with pytest.raises(pm.ArgumentError, match="must be an array of one or two dimensions"):
        pm.mean(np.zeros((2, 2, 2)), epsilon=1.0)
    with pytest.raises(pm.ArgumentError, match="is not a pm.Resources object"):
        pm.Table(NOWHERE, person="p", resources=3)


def test_messages_quote_no_data_and_are_one_line():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    secret = [77.125] * 60
    values = [pandas.Series(secret), polars.Series(secret), np.array(secret), secret]
    values += [pandas.DataFrame({"a": secret}), {"a": np.array(secret)}, [np.array(secret)]]
    for value in values:
        text = str(pm.ArgumentError("keys", value, "is wrong", "give another"))
        assert "77.125" not in text
        assert text.splitlines() == [text]
    for value in (1.5, np.float64(1.5), "1.5", (1.5, 2), np.str_("1.5"), ["1.5"]):
        assert "1.5" in str(pm.ArgumentError("keys", value, "is wrong", "give another"))


def test_series_and_lists_are_columns_beside_ids():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    who, x = np.repeat(np.arange(300), 3), np.random.default_rng(1).normal(size=900)
    terms = {"assume": (-3, 3), "epsilon": 1.0}
    made = [
        pm.mean(values, person=person, noise=SimulatedNoise(1), **terms).estimate[0]
        for values, person in (
            (x, who),
            (pandas.Series(x), pandas.Series(who)),
            (polars.Series(x), polars.Series(who)),
            (list(x), list(who)),
            (pandas.Series(x), who),
        )
    ]
    assert len(set(made)) == 1
    with pytest.raises(pm.ArgumentError, match="must have the same index"):
        pm.mean(pandas.Series(x), person=pandas.Series(who)[::-1], **terms)
    for alone in (pandas.Series(x, index=who), polars.Series(x)):
        with pytest.raises(pm.ArgumentError, match="Pass person, or series"):
            pm.mean(alone, **terms)


def test_paths_from_the_home_folder_are_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "t.csv"
    path.write_text("who,x\n" + "".join(f"{i},{i % 7}\n" for i in range(300)))
    pm.Ledger("~/a.ledger", epsilon=2.0)
    for source in ("~/t.csv", pm.Table("~/t.csv", person="who")):
        person = None if isinstance(source, pm.Table) else "who"
        pm.mean(source, "x", person=person, assume=(0, 7), epsilon=0.5, ledger="~/a.ledger")
    assert len(pm.Ledger.open(tmp_path / "a.ledger").entries) == 2
    study = tmp_path / "s.toml"
    study.write_text(
        '[table]\nsource = "~/t.csv"\nperson = "who"\n[budget]\nepsilon = 1.0\n'
        '[questions.a]\nask = "mean"\nvalues = ["x"]\n'
    )
    assert run(["study", "plan", str(study)]) == 0


# --- methods of ledgers and streams ---------------------------------------------------------------
STREAM = {
    "epsilon": 1.0, "delta": 1e-6, "bounds": (0, 1), "max_participations": 1, "min_separation": 1,
    "steps": 8,
}  # fmt: skip


def _ledger():
    return pm.Ledger(epsilon=1.0)


def _stream(kind=pm.MeanStream, **more):
    return kind(**STREAM, **more, noise=SimulatedNoise(1))


METHODS = {
    "asked": lambda bad: _ledger().settle(
        _ledger().charge(pm.Budget(0.5), neighbors="replace-one"), bad
    ),
    "entry": lambda bad: _ledger().settle(bad, []),
    "cost": lambda bad: _ledger().charge(bad, neighbors="replace-one"),
    "about": lambda bad: _ledger().charge(pm.Budget(0.5), neighbors="replace-one", about=bad),
    "guarantee": lambda bad: _ledger().price(bad),
    "budget": lambda bad: _ledger().price_of(bad),
    "ledger": pm.Ledger.open,
    "policies": lambda bad: pm.Ledger(epsilon=1.0, policies=bad),
    "plan": pm.MeanStream.from_plan,
    "plan of groups": pm.GroupMeanStream.from_plan,
    "state": pm.MeanStream.resume,
    "after": lambda bad: list(_stream().releases(bad)),
    "release": lambda bad: _stream().band(bad),
    "groups": lambda bad: _stream(pm.GroupMeanStream, groups=2).extend(["p"], bad, [0.5]),
}


@pytest.mark.parametrize(
    "bad", [2.5, object(), ["a", "b"], {"a": 1}], ids=lambda bad: type(bad).__name__
)
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_ledgers_and_streams_name_an_argument_that_they_cannot_use(name, bad):
    if isinstance(bad, dict) and name in ("about", "groups"):
        return
    with pytest.raises(pm.ArgumentError) as refused:
        METHODS[name](bad)
    assert refused.value.argument == name.partition(" ")[0]
    assert refused.value.remedy
