"""Every published algorithm: sensitivity by replay and audit, its bill, the paper's number."""

import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from privmean import published

PAPERS = sorted(path.stem for path in Path(__file__).parent.glob("*_cases.py"))
CASES = [case for name in PAPERS for case in import_module(name).CASES]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_every_published_algorithm_has_a_case():
    assert len({case.name for case in CASES}) == len(CASES)
    built = {type(case.build()).__name__ for case in CASES}
    classes = {name for name in published.__all__ if name[0].isupper()}
    assert classes <= built


@pytest.mark.slow
@EACH
def test_replays_on_neighbors_find_no_violation(case):
    report = case.audit()
    assert report, str(report)


@pytest.mark.slow
@EACH
def test_the_bill_covers_what_is_composed(case):
    case.bill()


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.reference is not None], ids=lambda case: case.name
)
def test_the_number_of_the_paper(case):
    """Within five standard errors of the reference and of the runs together."""
    reference, found = case.reference, np.array(case.measured())
    assert len(found) > 0.9 * reference.runs  # runs that found no location are left out
    error = math.hypot(reference.error, found.std(ddof=1) / math.sqrt(len(found)))
    assert abs(found.mean() - reference.value) <= 5 * error + reference.slack
