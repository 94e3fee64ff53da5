"""Every outcome says whether it follows from noisy answers alone, since only then a part of its
charge comes back to a ledger; every error that is caught is known not to lead to another one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import privmean
from privmean.release.result_numbers import Outcome

SOURCE = Path(privmean.__file__).parent
# whatever stands on the road of a release; the other packages charge nothing that comes back
ROAD = (
    "api", "data", "estimators", "inference", "mechanisms", "published",
    "questions", "study", "",
)  # fmt: skip

BEFORE = "before the charge: arguments, schemas and public numbers"
BELOW = "another error is raised below"
RECORD = "a value of one record that is no number is missing: a function of that record"
ENDS = "at the end of a session or of the interpreter: nothing is asked any more"
PUBLIC = "a fact about the engine, whatever the records are"
ANSWERS = "noisy answers and public numbers"
WORDS = "words of an error that is raised"
SAID = "the outcome says that it does not follow from answers"

# errors that are caught without another that is raised in their place, and why that moves no charge
CAUGHT = {
    "api/parse_question.py:related_of": BEFORE,
    "api/parse_question.py:_value": BEFORE,
    "api/parse_question.py:covariance_of": BEFORE,
    "api/plan_functions.py:error_or_nothing": BEFORE,
    "api/plan_functions.py:enough.reached": BEFORE,
    "estimators/anisotropic/anisotropic_mean.py:AnisotropicMean.plan.attempt": BEFORE,
    "estimators/anisotropic/anisotropic_mean.py:AnisotropicMean._plans": BEFORE,
    "estimators/anisotropic/anisotropic_mean.py:Candidates.two_phase": BEFORE,
    "estimators/anisotropic/column_scales.py:mean_stages": ANSWERS,
    "estimators/means/choose_vector_method.py:Cheapest.candidates": BEFORE,
    "estimators/means/choose_vector_method.py:ChosenPlan._remedies": BEFORE,
    "data/duckdb_engine.py:_Stream._next": BELOW,
    "data/column_types.py:durations": BEFORE,
    "data/databases.py:table_at": BELOW,
    "data/databases.py:_table": BELOW,
    "data/duckdb_engine.py:Engine.__init__": PUBLIC,
    "data/duckdb_engine.py:Engine._room": PUBLIC,
    "data/engines.py:interruptible": BELOW,
    "data/engines.py:EngineStore.keep": BELOW,
    "data/engines.py:EngineStore._cached": PUBLIC,
    "data/engines.py:_forget": ENDS,
    "data/engines.py:_clear_caches": ENDS,
    "data/person_records.py:_known_points_are_summed": PUBLIC,
    "data/key_text.py:object_text": RECORD,
    "data/list_columns.py:number": RECORD,
    "data/key_columns.py:_text": RECORD,
    "data/open_source.py:_scanned.records": BELOW,
    "data/parquet_files.py:parquet_table": BELOW,
    "data/roster.py:_missing": BEFORE,
    "data/sql_engines.py:withheld": BELOW,
    "data/text_files.py:readable": BEFORE,
    "data/text_files.py:_unpacked": BEFORE,
    "data/text_record.py:number": RECORD,
    "data/text_record.py:_searched": RECORD,
    "errors.py:shown": WORDS,
    "inference/contrasts.py:contrasts_of": WORDS,
    "estimators/regression/formula.py:constant": BEFORE,
    "estimators/regression/panel.py:first_reading.again": SAID,
    "pipeline.py:settled": "the whole charge stays",
    "published/person_level.py:PureCover.plan": BEFORE,
    "questions/curve.py:_date": BEFORE,
    "questions/curve.py:edges_of": BEFORE,
    "questions/curve.py:_levels": BEFORE,
    "validate.py:is_usual": BEFORE,
    "questions/quantile.py:Quantile.__post_init__": BEFORE,
    "questions/regression_options.py:contrasts_of": BEFORE,
    "study/study_plan.py:_by_sums": BEFORE,
    "study/study_plan.py:_by_curves": BEFORE,
    "study/study_plan.py:_grown": BEFORE,
    "study/study_plan.py:least_epsilon.enough": BEFORE,
    "study/budget_shares.py:AllocationTask.tried": BEFORE,
    "study/run_folder.py:RunFolder.open": BEFORE,
    "study/study.py:_losing_all_but": "the study settles nothing",
    "study/study_plan.py:StudyPlan._doubled": BEFORE,
    "study/study_plan.py:StudyPlan._least.works": BEFORE,
    "study/stored_answers.py:_digest": BEFORE,
    "validate.py:whole": BEFORE,
    "validate.py:listed": BEFORE,
    "validate.py:path": BEFORE,
    "validate.py:choice": BEFORE,
}
# where an outcome is said not to follow from answers, each with the reading that changed
CHANGED = {"estimators/regression/mean_coefficients.py", "estimators/regression/run_pooled.py"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if (place.parts[0] if len(place.parts) > 1 else "") in ROAD:
            yield place.as_posix(), ast.parse(path.read_text())


def raises(body: list[ast.stmt]) -> bool:
    """Whether these statements end in an error on every path."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and raises(last.body) and raises(last.orelse)
    return isinstance(last, ast.Raise)


def caught_in(node: ast.AST, name: str = "") -> Iterator[str]:
    """The functions that catch an error, and go on."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}".lstrip(".")
        if isinstance(child, ast.ExceptHandler) and not raises(child.body):
            yield name
        if isinstance(child, ast.With):
            yield from (name for item in child.items if "suppress(" in ast.unparse(item))
        yield from caught_in(child, inner)


def outcomes(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Outcome":
            yield node


def test_an_outcome_must_say_whether_it_follows_from_answers():
    with pytest.raises(TypeError, match="follows_from_answers"):
        Outcome(np.zeros(1), None)


@pytest.mark.slow
def test_every_outcome_is_made_as_one_that_follows_or_is_changed_where_a_reading_changed():
    made, changed = Counter(), Counter()
    for place, tree in modules():
        for call in outcomes(tree):
            said = {item.arg: item.value for item in call.keywords}["follows_from_answers"]
            assert isinstance(said, ast.Constant), place  # a literal: nothing is computed
            assert said.value is True, place
            made[place] += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "follows_from_answers":
                assert isinstance(node.value, ast.Constant), place
                changed[place] += node.value.value is False
    assert sum(made.values()) == 20  # a new one is looked at: which error or reading leads to it?
    assert {place for place, times in changed.items() if times} == CHANGED


@pytest.mark.slow
def test_every_error_that_is_caught_is_known():
    found = {f"{place}:{name}" for place, tree in modules() for name in caught_in(tree)}
    assert found == set(CAUGHT)


def test_a_caught_error_is_found():
    """What would pass the test above must not: a handler that goes on, and a suppression."""
    text = "def run():\n try:\n  x()\n except KeyError:\n  return nothing()\n"
    assert list(caught_in(ast.parse(text))) == ["run"]
    assert list(caught_in(ast.parse("def f():\n with suppress(OSError):\n  x()\n"))) == ["f"]
    assert not list(caught_in(ast.parse(text.replace("return nothing()", "raise"))))
