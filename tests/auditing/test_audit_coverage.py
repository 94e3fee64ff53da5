"""Nothing is left out: what the code has is on tapes, and every broken twin of it is caught."""

from __future__ import annotations

from unittest import mock

import pytest

from auditing.broken import TWINS, twin
from auditing.pairs import Tapes, tapes, violations, worked
from privmean.auditing import audit as audits
from privmean.auditing.audit import Job
from privmean.auditing.call_list import CALLS
from privmean.auditing.findings import APART, covered, everything, mechanisms, of_question
from privmean.mechanisms.group_cells import GroupSums

TRIED = 6  # jobs of a mechanism: not every one comes to the edge of its loss
NEIGHBOURS = 12


@pytest.mark.slow
def test_everything_the_code_has_is_on_a_tape():
    found = tapes().found
    assert found.count == 0, found.violations
    missing = {kind: left for kind, _, _, left in covered(found.seen)}
    assert missing == dict.fromkeys(everything(), "")


def test_what_is_set_apart_is_there_and_has_a_reason():
    for (kind, name), reason in APART.items():
        assert name in everything()[kind]
        assert reason
        assert "\n" not in reason


ON_TAPE = [item for item in mechanisms() if ("mechanism", item.__name__) not in APART]


@pytest.mark.slow
@pytest.mark.parametrize("base", ON_TAPE, ids=lambda base: base.__name__)
def test_recorded_pairs_of_every_mechanism_show_nothing(base):
    assert tapes().pairs[base.__name__]
    assert violations(base.__name__) == 0


@pytest.mark.slow
@pytest.mark.parametrize("base", ON_TAPE, ids=lambda base: base.__name__)
@pytest.mark.parametrize("name", TWINS)
def test_every_twin_of_every_mechanism_is_caught(base, name):
    """Each draws and is measured anew for what whole jobs recorded once."""
    with twin(base, name):
        assert violations(base.__name__)


@pytest.mark.long
@pytest.mark.parametrize("base", ON_TAPE, ids=lambda base: base.__name__)
@pytest.mark.parametrize("name", TWINS)
def test_jobs_of_an_audit_catch_every_twin(base, name):
    """The same twins, in the jobs of `pm.audit()` that ask for the mechanism."""
    with twin(base, name):
        jobs = tapes().asking[base.__name__][:TRIED]
        assert any(worked(Tapes(), job, NEIGHBOURS).count for job in jobs)


# --- the harness has twins, too -----------------------------------------------------------------
def group_sums() -> Job:
    return next(job for job in tapes().asking["GroupSums"] if job.case)


def test_without_a_call_coverage_names_what_is_missing():
    seen: set[tuple[str, str]] = set()
    for call in CALLS:
        if call.rows is None and not any(
            getattr(q, "membership", "private") == "public" for q in call.questions
        ):
            for question in call.questions:
                seen |= set(of_question(question))
    missing = {kind: left.split(", ") for kind, _, _, left in covered(seen)}
    assert {"mean.membership", "compare.membership"} <= set(missing["field"])
    assert "GroupSums" in missing["mechanism"]


@pytest.mark.slow
@pytest.mark.parametrize("blind", ["no neighbor", "no comparison"])
def test_a_blind_audit_finds_no_twin(blind):
    """So that what finds the twins is the neighbors and the comparison, and nothing else."""
    job = group_sums()
    off = {
        "no neighbor": ("privmean.auditing.calls.neighbour", lambda table, *_: (table, "same")),
        "no comparison": ("privmean.auditing.calls.measured", lambda *_: 0),
    }
    with twin(GroupSums, "scale 1 % too small"):
        made = Job(job.case, "", NEIGHBOURS, job.seed)
        with mock.patch(off[blind][0], off[blind][1]):
            assert audits.work(made, None).count == 0
