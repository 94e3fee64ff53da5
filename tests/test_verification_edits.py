"""What `verify` notices where the digests were made anew, and that it never raises."""

import contextlib
import copy
import json
import random

import numpy as np
import pytest

import leaf_edits
import privmean as pm
from asked_calls import CALLS, released
from asked_calls import KINDS as TABLES
from leaf_edits import KINDS, edited, edits, leaves, place, reason, resealed, stored
from privmean.errors import ArgumentError
from privmean.privacy.stored_events import DEEPEST, loss_from_dict
from privmean.privacy.stored_events import KINDS as LOSSES
from privmean.release.verification import BEYOND_ARITHMETIC, verify

FEW = 5  # edits of a class of leaves; benchmarks/verify_edits.py tries all


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_edits_that_contradict_the_rest_are_refused(kind):
    """Of the classes that may pass, each says why; an edit of any other class is refused."""
    values = stored(kind)
    found = verify(values)
    assert found, found.describe()
    tried, rng = {}, random.Random(kind)
    every = list(edits(values))
    rng.shuffle(every)
    for path, value, other in every:
        where = place(path, values)
        tried[where] = tried.get(where, 0) + 1
        if reason(where) is None and tried[where] <= FEW:
            assert not verify(edited(values, path, other)), (where, path, value, other)
    assert sum(reason(where) is None for where in tried) > 20


def moved(values, **ends):
    """The ends of one column moved in the rows and in the intervals alike."""
    changed = copy.deepcopy(values)
    for name, end in ends.items():
        changed["rows"][0][name] = end
        title = "noise_interval" if name.startswith("noise") else "interval"
        changed[title][name.removeprefix("noise_")][0] = end
    return resealed(changed)


@pytest.mark.parametrize("kind", ["mean", "bounded mean", "add-remove"])
def test_an_estimate_moved_everywhere_leaves_its_intervals(kind):
    values = copy.deepcopy(stored(kind))
    values["estimate"][0] = values["rows"][0]["estimate"] = 99.0
    problems = verify(resealed(values)).problems
    assert any("outside of its" in problem for problem in problems)


@pytest.mark.parametrize("kind", ["bounded mean", "add-remove"])
@pytest.mark.parametrize("factor", [1e-6, 0.9, 1.1])
def test_a_noise_interval_moved_everywhere_is_not_that_of_the_account(kind, factor):
    values = stored(kind)
    row = values["rows"][0]
    center = (row["noise_lower"] + row["noise_upper"]) / 2
    half = factor * (row["noise_upper"] - center)
    changed = moved(values, noise_lower=center - half, noise_upper=center + half)
    for title in ("interval", "noise_interval"):
        changed[title]["half_widths"]["noise"] = [half]
    problems = verify(resealed(changed)).problems
    assert any("of its account" in problem or "its account allows" in problem
               for problem in problems)  # fmt: skip


@pytest.mark.parametrize("kind", ["groups", "arms", "private keys"])
def test_noise_intervals_of_groups_are_about_those_of_the_account(kind):
    values = copy.deepcopy(stored(kind))
    row = values["rows"][0]
    group = values["groups"][0] if "groups" in values else {}
    shown = row["estimate"]
    middle = (values["noise_interval"]["lower"][0] + values["noise_interval"]["upper"][0]) / 2
    row["noise_lower"] = row["noise_upper"] = shown
    values["noise_interval"]["lower"][0] = values["noise_interval"]["upper"][0] = middle
    if group:
        group["noise_interval"] = [shown, shown]
    problems = verify(resealed(values)).problems
    assert any("not about that of its account" in problem for problem in problems), problems


def test_no_release_is_more_certain_than_its_loss_allows():
    """Where no closed form says how long a noise interval is, one of no length is refused."""
    assumed = pm.BoundedMoment(2, 2.0, range=(-9, 9))
    values = pm.mean(leaf_edits.table(), "x", assume=assumed, epsilon=0.5)
    values = json.loads(json.dumps(values.to_dict()))
    assert verify(values)
    estimate = values["estimate"][0]
    problems = verify(moved(values, noise_lower=estimate, noise_upper=estimate)).problems
    assert any("shorter than that of any release" in problem for problem in problems), problems


@pytest.mark.parametrize("kind", ["bounded mean", "study"])
def test_what_this_version_stored_has_no_older_number(kind):
    """Older numbers ask for fewer checks: a release without rows could hold any estimate."""
    values = stored(kind)
    older = copy.deepcopy(values)
    older["schema"] -= 1
    bill = copy.deepcopy(values)
    bill["guarantee"]["schema"] -= 1
    bare = copy.deepcopy(values)
    one = bare["questions"][0]["release"] if kind == "study" else bare
    one["schema"], one["estimate"][0] = 2, 99.0
    del one["rows"]
    for changed in (older, bill, bare):
        problems = verify(resealed(changed)).problems
        assert any("names of a newer one" in problem for problem in problems), problems


def test_a_looser_promise_is_kept_and_a_smaller_one_is_not():
    values = stored("bounded mean")
    for epsilon, right in ((1.5, True), (0.5, False)):
        changed = copy.deepcopy(values)
        changed["guarantee"]["epsilon"] = epsilon
        assert bool(verify(resealed(changed))) is right


def test_what_is_not_checked_is_listed():
    found = verify(stored("mean"))
    text = found.describe()
    assert "not checked:" in text
    assert any(item.startswith("diagnostics: ") for item in found.not_checked)
    assert any("words" in item for item in found.not_checked)
    assert found.to_dict()["not_checked"] == list(found.not_checked)
    extra = {**stored("mean"), "certificate": "gold"}
    assert any("certificate" in item for item in verify(resealed(extra)).not_checked)
    grouped = verify(stored("groups"))
    assert "standard errors against noise and sampling" in grouped.not_checked
    assert any("about as long as the account" in item for item in grouped.checked)


def test_a_file_cannot_print_lines_of_its_own():
    values = stored("mean")
    values["provenance"]["versions"]["privmean"] = "1\nverified\x1b[2J\ud800"
    text = verify(resealed(values)).describe()
    assert "\nverified" not in text
    assert text.isascii() or text.encode()
    assert "\x1b" not in text


# --- genuine releases ----------------------------------------------------------------------------

TURNS = 3  # of tables and terms, of each call


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: CALLS[number].name)
def test_no_genuine_release_is_refused(number):
    """Whatever the question, the table and the terms: only that the noise is none is wrong."""
    for turn in range(TURNS):
        kind = TABLES[(number + 2 * turn) % len(TABLES)]
        found = verify(released(CALLS[number], number + turn, kind, seed=turn, table=turn))
        assert all("the noise was simulated" in item for item in found.problems), found.describe()


RNG = np.random.default_rng(3)
SIZE = 400
PEOPLE = pm.Table(
    {
        "who": np.repeat(np.arange(SIZE), 2),
        "x": RNG.normal(3, 1, 2 * SIZE),
        "y": np.where(RNG.random(2 * SIZE) < 0.3, np.nan, RNG.normal(1, 2, 2 * SIZE)),
        "far": RNG.standard_cauchy(2 * SIZE),
        "one": np.full(2 * SIZE, 7.0),
        "few": np.where(np.repeat(np.arange(SIZE), 2) < 4, 1.0, np.nan),
        "g": np.repeat(np.arange(SIZE) % 4, 2),
    },
    person="who",
)
ODD = {  # of every status
    "values missing": pm.Mean("y"),
    "values missing, within bounds": pm.Mean("y", assume=(-9, 9)),
    "far values": pm.Mean("far"),
    "one value": pm.Mean("one"),
    "hardly anybody": pm.Mean("few"),
    "at a bound": pm.Mean("x", assume=(9, 10)),
    "columns found": pm.Mean(["x", "far"]),
    "nobody in a group": pm.Mean("x", by="g", keys=[0, 1, 9], contrasts=["0 - 1", "1 / 9"]),
    "no variance": pm.Variance("one"),
    "not identified": pm.Regression("x ~ one"),
}
TERMS = {"pure": {"epsilon": 3.0}, "approximate": {"epsilon": 3.0, "delta": 1e-6},
         "zCDP": {"rho": 0.3}}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", ODD)
def test_no_genuine_release_of_odd_values_is_refused(name, terms):
    for seed in range(6):
        with contextlib.suppress(ArgumentError, pm.InfeasibleError):  # under these terms
            noise = pm.SimulatedNoise(seed)
            found = verify(pm.ask(PEOPLE, ODD[name], noise=noise, **TERMS[terms]))
            assert found.problems == ("the noise was simulated: the release protects no person",)


# --- it never raises -----------------------------------------------------------------------------

SIZES = (
    10**400, -(10**400), 10**100, 10**16, -1, 0, 1e308, -1e308, 5e-324, 1e-300, True, None, "", "x",
    "1e999999999", "-1/7", "9" * 3999, [], {}, [[]], [None], {"a": 1}, [10**400], ["x"] * 3,
)  # fmt: skip
TRIES = 240


def wrong_types(values, rng):
    """A copy with one place anywhere, container or leaf, of another type or size."""
    changed = copy.deepcopy(values)
    inner, path = changed, []
    while True:
        key = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        path.append(key)
        if not (isinstance(inner[key], dict | list) and inner[key]) or rng.random() < 0.2:
            break
        inner = inner[key]
    if rng.random() < 0.1 and isinstance(inner, dict):
        del inner[key]
    else:
        inner[key] = copy.deepcopy(rng.choice(SIZES))
    return path, changed


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_type_and_no_size_makes_it_raise(kind, tmp_path):
    values, rng = stored(kind), random.Random(kind)
    path = tmp_path / "release.json"
    for turn in range(TRIES):
        where, changed = wrong_types(values, rng)
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError):
            changed = resealed(changed)
        source = changed
        if turn % 4 == 0:
            path.write_text(json.dumps(changed))
            source = path
        found = verify(source)
        assert BEYOND_ARITHMETIC not in found.problems, where
        assert found.describe()
        assert json.dumps(found.to_dict())


COUNTS = (("discrete Laplace", "cells_changed"),
          ("threshold", "cells"), ("threshold of a sum", "cells"),
          ("selection", "choices"), ("discrete Gaussian", "answers"))  # fmt: skip
NUMBERS = {
    "Fraction": ("1", "7/3", "1e-100", "1e100", "1e101", "1e999999999", "1/" + "9" * 3000, 10**400),
    "float": (1.0, 2.0**21, 300.0, 1e100, 1e-100, 5e-324, 1e308, 10**400),
    "int": (1, 2, 50, 10**6, 10**15, 10**100, 10**101, 10**400),
    "bool": (True, False),
}


@pytest.mark.slow
def test_accounts_of_any_numbers_are_composed_or_refused():
    """No number of an entry is beyond the arithmetic of a composition, nor makes it endless."""
    from dataclasses import fields

    rng, composed = random.Random(1), 0
    for _ in range(400):
        entries = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            kind = rng.choice(list(LOSSES))
            entry = {"mechanism": kind, "name": "n", "neighbors": "replace-one"}
            for item in fields(LOSSES[kind]):
                of = str(item.type).split(" | ")[0]
                if of in NUMBERS and item.name not in ("name", "sensitivity_text"):
                    entry[item.name] = rng.choice(NUMBERS[of])
                elif item.name in ("branches", "parts"):
                    one = {"mechanism": "discrete Gaussian", "name": "g",
                           "neighbors": "replace-one", "sensitivity": rng.choice(NUMBERS["float"]),
                           "scale": rng.choice(NUMBERS["float"]), "answers": 1}  # fmt: skip
                    entry[item.name] = [[one], [one, dict(one)]]
            entries.append(entry)
        values = copy.deepcopy(stored("bounded mean"))
        values["guarantee"] |= {
            "mechanisms": entries, "delta": rng.choice((0.0, 1e-6)),
            "epsilon": rng.choice((1e-6, 1.0, 100.0)),
        }  # fmt: skip
        with contextlib.suppress(ArgumentError):
            entries[:] = [{**entry, **loss_from_dict(entry).to_dict()} for entry in entries]
            composed += 1
        values = json.loads(json.dumps(values, default=str))
        found = verify(resealed(values))
        assert BEYOND_ARITHMETIC not in found.problems, entries
    assert composed > 40


@pytest.mark.parametrize(("kind", "name"), COUNTS)
def test_counts_of_400_digits_are_refused_where_they_are_read(kind, name):
    entry = {"mechanism": kind, "name": "n", "neighbors": "replace-one", "sensitivity": "1",
             "scale": "7", "delta": 1e-6, "threshold": 900.0, "epsilon": "1",
             "answers": 1}  # fmt: skip
    if kind == "discrete Gaussian":
        entry |= {"sensitivity": 1.0, "scale": 7.0}
    assert loss_from_dict({**entry, name: 1})
    for number in (10**400, 10**101):
        with pytest.raises(ArgumentError, match=name):
            loss_from_dict({**entry, name: number})


def test_groups_within_groups_end_somewhere():
    entry = {"mechanism": "pure", "name": "n", "neighbors": "replace-one", "epsilon": "1"}
    for depth in range(60):
        entry = {"mechanism": "parallel", "name": "n", "neighbors": "replace-one",
                 "branches": [[entry]]}  # fmt: skip
        if depth + 1 > DEEPEST:
            with pytest.raises(ArgumentError, match="nested deeper"):
                loss_from_dict(entry)
        else:
            loss_from_dict(entry)
    values = stored("bounded mean")
    values["guarantee"]["mechanisms"] = [entry]
    assert not verify(resealed(values))


def test_every_leaf_has_a_class():
    for kind in KINDS:
        values = stored(kind)
        assert sum(1 for _ in leaves(values)) > 50
        assert all(place(path, values) for path, _ in leaves(values))
    assert leaf_edits.reason("rows.estimate") is None
