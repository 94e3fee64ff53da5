"""Tables are read in a notebook without ipywidgets, where DuckDB refuses settings of progress."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# what DuckDB looks at: no file of the main module, and a kernel in the settings of IPython
NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = None
"""
PLAIN = """
import duckdb
duckdb.connect().execute("SET enable_progress_bar = false")
"""
OURS = """
import privmean as pm
table = pm.Table(pm.example("ratings"), person="student", **resources)
print(pm.mean(table, "rating", assume=(1, 5), epsilon=1))
"""


def ran(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", NOTEBOOK + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


def test_duckdb_refuses_the_settings_there():
    assert "ipywidgets" in ran(PLAIN).stderr


@pytest.mark.slow
@pytest.mark.parametrize("resources", ["{}", '{"resources": pm.Resources(progress=True)}'])
def test_a_table_is_read_all_the_same(resources):
    made = ran(OURS.replace("**resources", f"**{resources}"))
    assert made.returncode == 0, made.stderr
    assert "Mean of rating" in made.stdout
    assert made.stderr == ""
