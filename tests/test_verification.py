"""A third party finds out what was changed in a stored release, and is told what cannot be."""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from leaf_edits import RELEASES, N, columns, stored, table, text, unsealed
from privmean.cli.app import run
from privmean.errors import ArgumentError
from privmean.plain_data import canonical, parsed
from privmean.privacy.ledger import Ledger
from privmean.release.signing import make_keys
from privmean.release.stored_release import PROVENANCE, digest_of
from privmean.release.verification import verify
from tampering import resealed


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return make_keys(tmp_path_factory.mktemp("keys") / "key.pem")


# --- what is right -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", RELEASES)
def test_a_release_verifies_also_after_json_bit_for_bit(kind, tmp_path):
    release = RELEASES[kind]()
    found = verify(release)
    assert found, found.describe()
    made = release.to_dict()
    again = json.loads(json.dumps(made, allow_nan=False))
    assert again == made
    assert canonical(again) == canonical(made)
    assert verify(again)
    assert release.to_dict() == made, "storing twice gives the same"
    for indent in (None, 2):
        path = tmp_path / "release.json"
        path.write_text(json.dumps(made, indent=indent, sort_keys=bool(indent)))
        found = verify(path)
        assert found, found.describe()
        assert found.digest == made[PROVENANCE]["digest"]
    for entry in made["guarantee"]["mechanisms"]:
        assert entry["neighbors"] == made["guarantee"]["neighbors"]
        assert entry["sensitivity_text"]
    assert made["interval"]["secure"] is made["noise_interval"]["secure"] is True


def test_what_changes_between_runs_is_in_one_place():
    """Two releases of the same draws differ in the provenance alone."""

    def made():
        noise = pm.SimulatedNoise(3)
        values = pm.mean(np.arange(100.0), epsilon=1.0, bounds=(0, 99), noise=noise).to_dict()
        return values, values.pop(PROVENANCE)

    (first, when), (second, _) = made(), made()
    assert first == second
    assert set(when) == {"time", "versions", "engine", "ledger", "digest"}
    assert when["time"].endswith("+00:00")


@pytest.mark.slow
def test_engines_and_charges_are_stated(tmp_path):
    import polars as pl

    frame = pl.DataFrame(columns()).select("person", "y")
    file = tmp_path / "table.parquet"
    frame.write_parquet(file)
    for source, engine in ((frame, "polars"), (file, "duckdb")):
        read = pm.read(source, person="person", values=["y"])
        made = pm.mean(read, epsilon=1.0).to_dict()[PROVENANCE]
        assert made["engine"]["name"] == engine
        assert made["engine"]["version"]
        assert made["ledger"] is None
    assert pm.mean(columns()["y"], epsilon=1.0).provenance.engine == "numpy"
    assert stored("regression")[PROVENANCE]["engine"]["name"] == "duckdb"
    assert stored("curve")[PROVENANCE]["engine"]["name"] == "duckdb"
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, epsilon=9.0)
    for number, made in enumerate((
        pm.mean(table(), "y", epsilon=1.0, ledger=ledger),
        pm.variance(table(), "y", epsilon=1.0, ledger=ledger),
        pm.regress(table(), "y ~ x", effect="per_person", epsilon=3.0, ledger=ledger),
        pm.curve(table(), "y", time="t", bins=[0, 1, 3], epsilon=2.0, ledger=ledger),
    ), 1):  # fmt: skip
        entry = ledger.entries[number - 1]
        charged = made.to_dict()[PROVENANCE]["ledger"]
        assert (charged["number"], charged["digest"]) == (entry.number, entry.digest)
        assert charged["charged"] == entry.amount.describe()
        assert charged.get("returned") == (entry.settlement and entry.returned.describe())
        found = verify(made, ledger=path)
        assert found, found.describe()
        assert f"line {number} of the ledger is its charge" in found.describe()
    other = Ledger(epsilon=9.0)
    assert "is not the charge" in verify(made, ledger=other).problems[0]
    assert "names no charge" in verify(RELEASES["mean"](), ledger=other).problems[0]
    # the charge of another release: bound by the digest, and noticed by one who looks it up
    moved = made.to_dict()
    moved[PROVENANCE]["ledger"] = {"number": 1, "digest": ledger.entries[0].digest}
    moved[PROVENANCE]["digest"] = digest_of(moved)
    assert verify(moved)
    assert "less than its guarantee" in verify(moved, ledger=ledger).problems[0]


# --- what was changed ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*RELEASES, "signed"])
def test_every_field_is_bound(kind, key):
    """One thing changed or removed, anywhere in the JSON, is noticed."""
    values = pm.sign(stored("mean"), key[0]) if kind == "signed" else stored(kind)
    assert verify(values)
    tried = 0
    for path, change, changed in unsealed(values):
        assert not verify(changed), (path, change)
        tried += 1
    assert tried > 200
    for part in (PROVENANCE, "guarantee"):
        other = {**values[part], "digest": values[part]["digest"][:-1] + "x"}
        assert not verify({**values, part: other})


@pytest.mark.parametrize("kind", RELEASES)
def test_what_a_liar_who_makes_the_digests_anew_is_still_told(kind):
    """No digest helps here: what does not follow, or does not fit, is seen in the numbers."""
    values = stored(kind)
    relation = values["guarantee"]["neighbors"]
    other = {"replace-one": "add-remove", "add-remove": "replace-one"}[relation]
    promise = {name: values["guarantee"].get(name) for name in ("epsilon", "rho")}
    smaller = {name: value / 2 for name, value in promise.items() if value is not None}
    lies = {
        "neighbors": {"neighbors": other},
        "unit": {"unit": "record"},
        "bill": {"mechanisms": []},
        "promise": smaller,
    }
    for name, lie in lies.items():
        guarantee = resealed({**values["guarantee"], **lie})
        found = lied(values, guarantee=guarantee)
        assert not found, name
        assert not any("digest" in problem for problem in found.problems), name
    for lie in (
        {"estimate": []},
        {"estimate": ["1.0"] * len(values["estimate"])},
        {"columns": []},
        {"n": -1},
        {"n": 1.5},
        {"secure": False},
        {"secure": None},
        {"schema": 1},
        {"schema": "2"},
        {"interval": None},
        {"interval": {**values["interval"], "secure": False}},
        {"interval": {**values["interval"], "lower": values["interval"]["upper"] * 2}},
        {"guarantee": None},
        {"guarantee": []},
        {PROVENANCE: {**values[PROVENANCE], "time": "yesterday"}},
        {PROVENANCE: {**values[PROVENANCE], "time": "2020-01-01T00:00:00+02:00"}},
        {PROVENANCE: {**values[PROVENANCE], "versions": {}}},
        {PROVENANCE: {**values[PROVENANCE], "engine": None}},
        {PROVENANCE: {**values[PROVENANCE], "ledger": {"number": "1", "digest": ""}}},
        {PROVENANCE: {**values[PROVENANCE], "signer": "Ed25519:" + "00" * 32}},
        {PROVENANCE: {**values[PROVENANCE], "signature": "00" * 64}},
    ):
        assert not lied(values, **lie), lie


def lied(values, **changes):
    changed = {**values, **changes}
    changed[PROVENANCE] = {**changed[PROVENANCE], "digest": digest_of(changed)}
    return verify(changed)


def shifted(values, by=1.0):
    """A release of one mean whose estimate, ends and limits were all moved alike."""
    made = copy.deepcopy(values)
    row = made["rows"][0]
    for name in ("estimate", "lower", "upper", "noise_lower", "noise_upper"):
        row[name] += by
    made["estimate"][0] = row["estimate"]
    for name in ("interval", "noise_interval"):
        ends = "noise_" if name == "noise_interval" else ""
        made[name]["lower"], made[name]["upper"] = [row[f"{ends}lower"]], [row[f"{ends}upper"]]
        made[name]["clip_bounds"] = [
            [low + by, high + by] for low, high in made[name]["clip_bounds"]
        ]
    made["diagnostics"]["limits"] = made["interval"]["clip_bounds"][0]
    return made


def test_what_a_digest_cannot_prove_is_said_and_a_signature_can(key):
    values = stored("mean")
    assert "who made the digest" in verify(values).describe()
    forged = shifted(values)
    forged[PROVENANCE] = {**forged[PROVENANCE], "digest": digest_of(forged)}
    assert verify(forged), "whoever changes all numbers alike can make the digest anew"
    private, public = key
    signed = pm.sign(RELEASES["mean"](), private)
    found = verify(signed, key=public)
    assert found, found.describe()
    assert "signed with the key given" in found.describe()
    assert "who made the digest" not in found.describe()
    assert "whose key that is" in verify(signed).describe()
    forged = shifted(signed)
    forged[PROVENANCE] = {**forged[PROVENANCE], "digest": digest_of(forged)}
    assert "the signature does not fit" in verify(forged).problems[0]
    bare = {name: item for name, item in signed[PROVENANCE].items() if name != "signature"}
    assert "was removed" in verify({**signed, PROVENANCE: bare}).problems[0]
    for name in ("signer", "signature"):
        bare.pop(name, None)
    stripped = {**signed, PROVENANCE: bare}
    stripped[PROVENANCE]["digest"] = digest_of(stripped)
    assert verify(stripped)
    assert "it is not signed" in verify(stripped, key=public).problems[0]


def test_another_key_is_not_the_key(key, tmp_path):
    _, public = key
    private, other = make_keys(tmp_path / "other.pem")
    signed = pm.sign(stored("mean"), private)
    assert verify(signed)
    assert verify(signed, key=other)
    assert "another key" in verify(signed, key=public).problems[0]
    again = pm.sign(signed, key[0])  # signed anew: the last signer is named
    assert verify(again, key=public)
    assert not verify(again, key=other)
    assert (private.stat().st_mode & 0o777) == 0o600


def test_keys_are_those_of_openssl(tmp_path):
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    for command in (
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)],
        ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True)
        except FileNotFoundError:
            pytest.skip("no openssl here")
    assert verify(pm.sign(stored("mean"), private), key=public)


def test_what_is_no_key_is_refused(key, tmp_path):
    private, public = key
    (tmp_path / "text").write_text("no key")
    for wrong in (tmp_path / "none", tmp_path / "text", public):
        with pytest.raises(ArgumentError, match="key="):
            pm.sign(stored("mean"), wrong)
    for wrong in (tmp_path / "none", tmp_path / "text", private):
        with pytest.raises(ArgumentError, match="key="):
            verify(stored("mean"), key=wrong)
    with pytest.raises(ArgumentError, match="cannot be made"):
        make_keys(private)
    changed = {**stored("mean"), "estimate": [0.0]}
    with pytest.raises(ArgumentError, match="does not match its digest"):
        pm.sign(changed, private)


def test_a_simulated_release_is_private_for_nobody():
    release = pm.mean(table(), "y", bounds=(-10, 20), epsilon=1.0, noise=pm.SimulatedNoise(1))
    assert release.interval().to_dict()["secure"] is False
    assert release.noise_interval().to_dict()["secure"] is False
    assert verify(release).problems == ("the noise was simulated: the release protects no person",)


# --- files that are none -------------------------------------------------------------------------

HOSTILE = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[1]",
    "a number": b"1",
    "no UTF-8": b'{"a": "\xff"}',
    "a name twice": b'{"estimate": [1.0], "estimate": [2.0]}',
    "NaN": b'{"estimate": [NaN]}',
    "infinite": b'{"estimate": [1e999]}',
    "a long number": b'{"estimate": [' + b"1" * 5000 + b"]}",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "nothing": b"{}",
    "nulls": b'{"guarantee": null, "provenance": null, "estimate": null}',
    "other types": b'{"guarantee": 1, "provenance": "x", "interval": [1], "plan": 3, "columns": 1}',
    "mechanisms": b'{"guarantee": {"schema": 3, "neighbors": "replace-one", "mechanisms": [[]]}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_file_holds_there_are_words_for_it(name, tmp_path, capsys):
    path = tmp_path / "release.json"
    path.write_bytes(HOSTILE[name])
    found = verify(path)
    assert not found
    assert all(isinstance(problem, str) and problem for problem in found.problems)
    assert run(["verify", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("NOT VERIFIED")
    assert not err


def test_a_name_that_stands_twice_is_refused():
    """Readers take the first or the last: what is verified must be what everybody reads."""
    with pytest.raises(ValueError, match="twice"):
        parsed(text("mean").replace('"status": "ok"', '"status": "x", "status": "ok"'))


# --- the command line ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_from_keys_to_verification(tmp_path, capsys):
    import polars as pl

    file, key = tmp_path / "table.csv", tmp_path / "key.pem"
    pl.DataFrame(columns()).write_csv(file)
    assert run(["keygen", str(key)]) == 0
    public = ["--key", f"{key}.pub"]
    base = ["--person", "person", "--epsilon", "6", "--json"]  # enough that no column fails
    book = tmp_path / "ledger.jsonl"
    Ledger(book, epsilon=100.0, delta=1e-3)
    effects = "random-effects group=school group_sd=.1 within_sd=1 person_sd=1 records=3"
    commands = (
        ["mean", str(file), "--value", "y"],
        ["mean", str(file), "--value", "y", "--clustering", effects, "--delta", "1e-6"],
        ["mean", str(file), "--value", "y", "--value", "x", "--delta", "1e-6"],
        ["regress", str(file), "y ~ x", "--effect", "per_person"],
        ["curve", str(file), "--value", "y", "--time", "t", "--bins", "0,1,3"],
        ["variance", str(file), "--value", "y"],
    )
    capsys.readouterr()
    for number, command in enumerate(commands):
        signing = ["--sign", str(key)] if number != 1 else []
        assert run([*command, *base, *signing, "--ledger", str(book)]) == 0
        made = tmp_path / f"{number}.json"
        made.write_text(capsys.readouterr().out)
        if not signing:
            assert run(["verify", str(made), *public]) == 1
            assert "it is not signed" in capsys.readouterr().out
            signed = tmp_path / "signed.json"
            assert run(["sign", str(made), "--key", str(key), "--out", str(signed)]) == 0
            made = signed
        capsys.readouterr()
        assert run(["verify", str(made), *public, "--ledger", str(book)]) == 0
        assert "signed with the key given" in capsys.readouterr().out
        assert run(["verify", str(made), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["verified"] is True
        values = json.loads(made.read_text())
        values["estimate"][0] += 1e-9
        made.write_text(json.dumps(values))
        assert run(["verify", str(made), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["verified"] is False


def test_wrong_arguments_are_refused_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "no key").write_text("x")
    missing = str(tmp_path / "missing")
    release = tmp_path / "release.json"
    release.write_text(text("mean"))
    for arguments in (
        ["verify", missing],
        ["verify", str(release), "--key", missing],
        ["verify", str(release), "--ledger", missing],
        ["sign", str(release), "--key", missing],
        ["sign", str(tmp_path / "no key"), "--key", missing],
        ["mean", missing, "--person", "p", "--value", "v", "--epsilon", "1", "--sign", missing],
        *(
            [*command, "--person", "p", "--epsilon", "1", "--json", "--sign", missing]
            for command in (
                ["mean", missing, "--value", "v"],
                ["regress", missing, "y ~ x"],
                ["curve", missing, "--value", "v", "--time", "t", "--bins", "0,1"],
                ["variance", missing, "--value", "v"],
            )
        ),
    ):
        assert run(arguments) == 2, arguments
        out, err = capsys.readouterr()
        assert not out
        assert missing[-10:] in err or "release=" in err, err
        assert "source=" not in err, err


def _curved():
    """A study whose accounting fits by privacy loss distributions alone."""
    question = pm.Mean("y", assume=(-10, 20))
    wanted = pm.plan(question, n=N, epsilon=0.08).predict(1.0)["rmse"]
    study = pm.Study(table(), epsilon=2.0, delta=1e-6)
    for k in range(20):
        study.add(f"q{k}", question, error=wanted, guess_sd=1.0)
    study.add("one", question).add("other", question)
    found = study.release().to_dict()
    account = next(x for x in verify(found).checked if x.startswith("accounting:"))
    assert "privacy loss distributions" in account
    return json.dumps(found)


LOADED = """
import sys
from privmean.cli.app import run
assert run(["verify", sys.argv[1]]) == 0
print([name for name in sys.argv[2:] if name in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "unloaded"),
    [
        ("mean", ("numpy", "scipy", "dp_accounting", "opendp", "duckdb", "narwhals")),
        ("zCDP", ("numpy", "scipy", "dp_accounting", "opendp", "duckdb")),
        ("charged", ("scipy.optimize", "dp_accounting", "opendp", "duckdb")),
        ("study", ("scipy.optimize", "scipy.stats", "scipy.signal", "dp_accounting", "duckdb")),
    ],
)
def test_a_bill_is_composed_with_what_it_needs_and_no_more(kind, unloaded, tmp_path):
    """That is what keeps it below a second: most of the time is that of imports."""
    path = tmp_path / "release.json"
    path.write_text(_curved() if kind == "study" else text(kind))
    made = subprocess.run(
        [sys.executable, "-c", LOADED, str(path), *unloaded],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "[]"


def test_the_example_of_the_page_runs():
    page = Path(__file__).resolve().parent.parent / "docs" / "verification.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(example, str(page), "exec"), {})
