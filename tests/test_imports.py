"""Who may import what, read from the syntax trees; and that imports are late."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import privmean
from privmean.lazy_imports import homes_of

SOURCE = Path(__file__).resolve().parent.parent / "src" / "privmean"
LATE = [
    "duckdb", "narwhals", "opendp", "scipy", "polars", "pandas", "pyarrow", "pyspark",
    "matplotlib", "dp_accounting", "typer", "rich", "formulaic", "ibis", "sqlglot", "psycopg",
]  # fmt: skip


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )


def test_importing_privmean_loads_no_engine_and_no_noise_library():
    code = f"import sys, privmean; print([n for n in {LATE!r} if n in sys.modules])"
    assert run(code).stdout.strip() == "[]"


# what `import privmean` loads of privmean: the names and the table of their homes, nothing else
LOADED = {"privmean", "privmean._version", "privmean.lazy_imports"}


def loaded(code):
    """The modules that code loads which a bare interpreter has not loaded."""
    listed = f"exec({code!r}); print(sorted(set(sys.modules) - before))"
    said = run(f"import sys; before = set(sys.modules); {listed}").stdout
    return set(ast.literal_eval(said.splitlines()[-1]))


def test_importing_privmean_loads_three_modules_of_its_own():
    # and of Python itself what its own source names, which any typed program loads
    rest = loaded("from __future__ import annotations\nimport typing, importlib, collections.abc")
    assert loaded("import privmean") == LOADED | rest
    assert {name.split(".")[0] for name in rest} <= set(sys.stdlib_module_names)


FACES = ["", "streams", "local", "published"]


@pytest.mark.parametrize("face", FACES)
def test_a_face_reads_its_names_from_what_it_says_to_type_checkers(face):
    source = (SOURCE / face / "__init__.py").read_text()
    (block,) = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    table = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        (name,) = node.names
        assert name.asname == name.name
        table[name.name] = node.module
    assert homes_of(source) == table
    module = import_module(f"privmean.{face}".rstrip("."))
    assert set(module.__all__) - {"__version__"} == set(table)
    assert dir(module) == sorted(module.__all__)
    for name, home in table.items():
        assert getattr(module, name) is getattr(import_module(home), name)
        assert name in vars(module)  # stored: a second use needs no second look
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = module.nothing_like_this


def test_a_name_that_is_gone_says_what_to_say_instead():
    for name, instead in {
        "plan_mean": "pm.plan", "random_effects_mean": "RandomEffects",
        "regression": r"privmean\.regress\.", "Regresion": r"privmean\.Regression\.",
    }.items():  # fmt: skip
        with pytest.raises(AttributeError, match=instead):
            getattr(privmean, name)


@pytest.mark.parametrize("last", ["", "del people", "people.split(0, 2).size()", "1/0"])
def test_standard_error_stays_clean_when_the_interpreter_ends(tmp_path, last):
    path = tmp_path / "t.csv"
    path.write_text("who,x\n1,2\n2,3\n")
    code = (
        f"import numpy, privmean; people = privmean.read({str(path)!r}, person='who', values='x')\n"
        f"people.log_counts(0, 0.0)\n{last}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "nanobind" not in done.stderr
    assert (done.stderr == "") == (last != "1/0")


@pytest.mark.parametrize("assume", ["(0, 8)", "pm.SubGaussian(sd=1.0)", "None"])
def test_a_mean_loads_only_what_its_assumption_needs(assume):
    code = (
        "import sys, numpy, privmean as pm; pm.mean(numpy.linspace(1, 5, 4000), epsilon=1.0, "
        f"delta=1e-6, assume={assume}, noise=pm.SimulatedNoise(1)); "
        "print([n for n in ('scipy.stats', 'privmean.estimators.heavy_tailed', "
        "'privmean.estimators.anisotropic', 'duckdb', 'narwhals') if n in sys.modules])"
    )
    assert run(code).stdout.strip() == "[]"


# what a mean of one column of a Parquet file, with nothing given but the budget, has no use for
UNUSED = {
    "privmean.estimators.find_region", "privmean.estimators.means.region_mean",
    "pandas", "polars", "pyarrow", "pyspark", "ibis", "matplotlib", "rich", "formulaic", "jinja2",
    "dp_accounting", "cryptography", "scipy", "sqlalchemy", "privmean.auditing", "privmean.study",
    "privmean.streams", "privmean.local", "privmean.estimators.regression",
    "privmean.estimators.quantiles", "privmean.estimators.moment_variance",
    "privmean.estimators.curve_release", "privmean.published", "privmean.estimators.winsorized",
    "privmean.estimators.winsorized_run", "privmean.estimators.means.choose_vector_method",
    "privmean.estimators.means.clipped_mean",
    "privmean.estimators.means.bounded", "privmean.estimators.heavy_tailed",
    "privmean.estimators.anisotropic", "privmean.estimators.groups",
    "privmean.estimators.concentration", "privmean.estimators.means.default_vector",
    "privmean.questions.grouping", "privmean.data.group_pairs", "privmean.data.text_scan",
    "privmean.data.person_products", "privmean.privacy.ledger", "privmean.privacy.stored_events",
    "privmean.release.signing", "privmean.release.verification",
}  # fmt: skip
# packages that a plain `privmean mean` of a Parquet file loads, with what these load themselves
ENGINE, NUMBERS, NOISE = {"duckdb", "_duckdb", "narwhals"}, {"numpy"}, {"opendp"}
SHELL = {"typer", "click", "shellingham"}
BESIDES = {
    "wrapt", "deprecated", "typing_extensions", "pydantic", "pydantic_core",
    "annotated_types", "annotated_doc", "typing_inspection",
}  # fmt: skip
COMMAND = "import sys\nfrom privmean.cli.app import run\nassert run({!r}) == 0\n"


def test_the_command_of_a_mean_loads_only_what_the_mean_needs(tmp_path):
    import duckdb

    path = str(tmp_path / "t.parquet")
    duckdb.sql(
        "COPY (SELECT i // 3 AS who, 1.5 + (i * 7919 % 1000) / 250 AS x FROM range(9000) t(i)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    said = ["mean", path, "--person", "who", "--value", "x", "--epsilon", "1"]
    found = loaded(COMMAND.format(said))
    assert found >= {
        "privmean.estimators.means.default_mean",
        "opendp",
        "duckdb",
        "typer",
    }
    assert found & UNUSED == set()
    standard = {*sys.stdlib_module_names, "__mp_main__", "privmean"}
    packages = {name.split(".")[0] for name in found} - standard
    packages = {name for name in packages if not name.startswith(("_", "cython"))} | {"_duckdb"}
    assert packages >= ENGINE | NUMBERS | NOISE
    assert packages - (ENGINE | NUMBERS | NOISE | SHELL | BESIDES) == set()
    commands = {name for name in found if name.startswith("privmean.cli.")}
    ours = ("app", "derive_command", "options")
    assert commands == {f"privmean.cli.{name}" for name in ours}


def test_the_list_of_what_is_unused_names_modules_that_are_there():
    from importlib.util import find_spec

    own = sorted(name for name in UNUSED if name.startswith("privmean."))
    assert [name for name in own if find_spec(name) is None] == []


ENDS = """
from privmean.cli import main
try:
    main({!r})
except SystemExit as end:
    assert end.code in ({}, None)
"""


def packages_of(found):
    return {name.split(".")[0] for name in found} - {*sys.stdlib_module_names, "privmean"}


def own(found):
    return {name for name in found if name.split(".")[0] == "privmean"}


def test_the_version_is_told_by_the_package_alone():
    found = loaded(ENDS.format(["--version"], 0))
    assert own(found) == LOADED | {"privmean.cli"}
    assert packages_of(found) == set()


@pytest.mark.parametrize("said", [["--help"], []], ids=["help", "nothing"])
def test_the_list_of_commands_loads_none_of_them(said):
    found = loaded(ENDS.format(said, 2 if not said else 0))
    ours = {"privmean.cli", "privmean.cli.app", "privmean.errors"}
    assert own(found) == LOADED | ours
    names = {name for name in packages_of(found) if not name.startswith("_")}
    assert names & {"numpy", *LATE} <= {"typer", "rich"}


@pytest.mark.parametrize("own", [None, "30"])
def test_idle_threads_of_openblas_sleep_unless_the_caller_says_otherwise(monkeypatch, own):
    from privmean.cli import main

    name = "OPENBLAS_THREAD_TIMEOUT"
    monkeypatch.setenv(name, own or "")
    if own is None:
        monkeypatch.delenv(name)
    with pytest.raises(SystemExit):
        main(["--help"])
    assert os.environ[name] == (own or "4")


def test_the_list_of_commands_is_that_of_the_commands(capsys, monkeypatch):
    from privmean.cli import app as shell

    monkeypatch.setenv("COLUMNS", "100")
    assert shell.run(["--help"]) == 0
    listed = capsys.readouterr().out
    fresh = typer.Typer(**shell.SETTINGS)  # other tests may have added commands in their own order
    fresh.callback()(shell._options)
    monkeypatch.setattr(shell, "app", fresh)
    monkeypatch.setattr(shell, "_list", lambda: shell._add("--help"))
    assert shell.run(["--help"]) == 0
    assert capsys.readouterr().out == listed
    assert "two-servers" in listed
