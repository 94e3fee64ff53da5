"""Every public name of 0.2 works, or is refused with the new one named; the page lists them all."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from privmean.api.renamed_arguments import NAMES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "renamed.md"
OLD = {
    "privmean": """
        AR1 Anisotropic ArgumentError AuditReport BetweenWithin Bounded BoundedMean BoundedMoment
        BoundedWithin Budget BudgetExceeded Compare CompareRelease Covariance Curve CurveRelease
        DefaultMean EffectRelease Errors Exchangeable FixedDesign GroupMeans GroupRelease Guarantee
        HeavyTailed Infeasible Interval Ledger LogSobolev Machine Magnitudes Mean MeanStream
        MeanStreams Policy PrivateFailure PrivmeanError PrivmeanWarning PureCover Quantile
        QuantileRelease RandomEffects RecordWeights Regression RegressionRelease Release SchemaError
        SimulatedNoise Study StudyPlan StudyRelease SubGaussian Table TwoArms UnknownScale
        ValuesRelease Variance VarianceRelease VarianceSearch Verification Winsorized
        WithholdRelease ask audit compare curve example group_sizes least_epsilon mean
        person_covariance persons_needed plan quantile read regress sign variance verify
        AsPublished VarianceAsPublished plan_mean random_effects_mean""",
    "privmean.streams": """
        Banded BandedInverse Buffered DampedToeplitz Decaying Goal Identity Loading MeanStream
        MeanStreams MeanToeplitz Participation PrefixRoot ScaledBuffered StreamPlan StreamRelease
        Toeplitz WithholdRelease plan""",
    "privmean.local": """
        Aggregator Client Estimate Ledger Outbox Part Report ReportError Round Tally Ticket
        WinsorizedRounds aggregate_files ball_round bandwidth curve estimate item_oracle items_round
        lower_bound mean_round merge_all person_mean plan_round project_to_simplex randomize
        randomize_many slope tally_many tau_bounded_records tau_random_effects tau_sub_gaussian
        vote_round""",
}


@pytest.mark.parametrize("face", OLD)
def test_a_public_name_of_0_2_works_or_the_new_one_is_named(face):
    module = import_module(face)
    gone = [name for name in OLD[face].split() if name not in module.__all__]
    for name in gone:
        with pytest.raises(AttributeError, match=re.escape(NAMES[name])):
            getattr(module, name)


def test_the_page_lists_what_is_refused():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.M)
    assert rows == [(old, new if " " in new else f"`{new}`") for old, new in sorted(NAMES.items())]
