"""The cases of local reports and running means: laws and sensitivity, bill, the paper's number."""

from __future__ import annotations

import math

import continual_cases
import heterogeneous_local_cases
import numpy as np
import pytest

CASES = [*heterogeneous_local_cases.CASES, *continual_cases.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_laws_bill_and_number(case):
    assert case.audit()
    case.bill()
    if case.reference is not None:
        reference, found = case.reference, np.array(case.measured())
        error = math.hypot(reference.error, found.std(ddof=1) / math.sqrt(len(found)))
        assert abs(found.mean() - reference.value) <= 4 * error + reference.slack
