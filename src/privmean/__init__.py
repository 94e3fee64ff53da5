"""privmean: differentially private means of people who each contribute many records.

The public names, nothing else. They are imported when first used, so that `import privmean` loads
neither an engine nor a noise library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privmean._version import __version__ as __version__

if TYPE_CHECKING:
    from privmean.asking.functions import ask as ask
    from privmean.asking.functions import compare as compare
    from privmean.asking.functions import curve as curve
    from privmean.asking.functions import mean as mean
    from privmean.asking.functions import quantile as quantile
    from privmean.asking.functions import regress as regress
    from privmean.asking.functions import variance as variance
    from privmean.asking.planning import least_epsilon as least_epsilon
    from privmean.asking.planning import persons_needed as persons_needed
    from privmean.asking.planning import plan as plan
    from privmean.auditing.audit import audit as audit
    from privmean.auditing.report import AuditReport as AuditReport
    from privmean.central.anisotropic.estimator import Anisotropic as Anisotropic
    from privmean.central.anisotropic.spectrum import person_covariance as person_covariance
    from privmean.central.bounded import BoundedMean as BoundedMean
    from privmean.central.concentration import BetweenWithin as BetweenWithin
    from privmean.central.concentration import Bounded as Bounded
    from privmean.central.concentration import BoundedWithin as BoundedWithin
    from privmean.central.concentration import LogSobolev as LogSobolev
    from privmean.central.concentration import SubGaussian as SubGaussian
    from privmean.central.concentration import UnknownScale as UnknownScale
    from privmean.central.default_mean import DefaultMean as DefaultMean
    from privmean.central.groups.arms import TwoArms as TwoArms
    from privmean.central.groups.compared import CompareRelease as CompareRelease
    from privmean.central.groups.effect_release import EffectRelease as EffectRelease
    from privmean.central.groups.estimator import GroupMeans as GroupMeans
    from privmean.central.groups.release import GroupRelease as GroupRelease
    from privmean.central.groups.values_release import ValuesRelease as ValuesRelease
    from privmean.central.heavy_tailed import BoundedMoment as BoundedMoment
    from privmean.central.heavy_tailed import HeavyTailed as HeavyTailed
    from privmean.central.heavy_tailed import PureCover as PureCover
    from privmean.central.heavy_tailed import RecordWeights as RecordWeights
    from privmean.central.winsorized import Winsorized as Winsorized
    from privmean.continual import MeanStream as MeanStream
    from privmean.continual import MeanStreams as MeanStreams
    from privmean.continual import WithholdRelease as WithholdRelease
    from privmean.errors import ArgumentError as ArgumentError
    from privmean.errors import BudgetExceeded as BudgetExceeded
    from privmean.errors import Infeasible as Infeasible
    from privmean.errors import PrivateFailure as PrivateFailure
    from privmean.errors import PrivmeanError as PrivmeanError
    from privmean.errors import PrivmeanWarning as PrivmeanWarning
    from privmean.errors import SchemaError as SchemaError
    from privmean.examples import example as example
    from privmean.intervals.interval import Interval as Interval
    from privmean.models.curve_release import CurveRelease as CurveRelease
    from privmean.models.fixed_design import FixedDesign as FixedDesign
    from privmean.models.magnitudes import Magnitudes as Magnitudes
    from privmean.models.person_fits import AR1 as AR1
    from privmean.models.person_fits import Exchangeable as Exchangeable
    from privmean.models.quantile_release import QuantileRelease as QuantileRelease
    from privmean.models.random_effects import RandomEffects as RandomEffects
    from privmean.models.regression_release import RegressionRelease as RegressionRelease
    from privmean.models.variance import VarianceSearch as VarianceSearch
    from privmean.models.variance_release import VarianceRelease as VarianceRelease
    from privmean.noise.simulated import SimulatedNoise as SimulatedNoise
    from privmean.people.groups import group_sizes as group_sizes
    from privmean.people.read import read as read
    from privmean.people.table import Machine as Machine
    from privmean.people.table import Table as Table
    from privmean.privacy.budget import Budget as Budget
    from privmean.privacy.guarantee import Guarantee as Guarantee
    from privmean.privacy.ledger import Ledger as Ledger
    from privmean.privacy.policies import Policy as Policy
    from privmean.questions.assumptions import Covariance as Covariance
    from privmean.questions.compare import Compare as Compare
    from privmean.questions.curve import Curve as Curve
    from privmean.questions.errors import Errors as Errors
    from privmean.questions.mean import Mean as Mean
    from privmean.questions.quantile import Quantile as Quantile
    from privmean.questions.regression import Regression as Regression
    from privmean.questions.variance import Variance as Variance
    from privmean.release import Release as Release
    from privmean.signing import sign as sign
    from privmean.study.plan import StudyPlan as StudyPlan
    from privmean.study.release import StudyRelease as StudyRelease
    from privmean.study.study import Study as Study
    from privmean.verification import Verification as Verification
    from privmean.verification import verify as verify
else:
    from privmean.late import names

    _MOVED = {
        "AsPublished": "say privmean.published.AsPublished",
        "VarianceAsPublished": "say privmean.published.VarianceAsPublished",
        "plan_mean": "say pm.plan(pm.Mean(...), persons=...)",
        "random_effects_mean": "say pm.mean(people, related=pm.RandomEffects(...))",
    }
    __getattr__, __dir__, _listed = names(
        __name__,
        """
        people.read                    read
        people.table                   Table Machine
        people.groups                  group_sizes
        asking.functions               ask mean regress curve variance quantile compare
        asking.planning                plan persons_needed least_epsilon
        questions.mean                 Mean
        questions.regression           Regression
        questions.curve                Curve
        questions.variance             Variance
        questions.assumptions          Covariance
        questions.errors               Errors
        models.random_effects          RandomEffects
        models.variance                VarianceSearch
        models.regression_release      RegressionRelease
        models.curve_release           CurveRelease
        central.concentration          Bounded SubGaussian LogSobolev BetweenWithin BoundedWithin
        central.concentration          UnknownScale
        privacy.ledger                 Ledger
        examples                       example
        privacy.policies               Policy
        verification                   verify Verification
        signing                        sign
        central.default_mean           DefaultMean
        central.winsorized             Winsorized
        central.heavy_tailed           BoundedMoment HeavyTailed PureCover RecordWeights
        central.anisotropic.estimator  Anisotropic
        central.anisotropic.spectrum   person_covariance
        central.bounded                BoundedMean
        continual                      MeanStream MeanStreams WithholdRelease
        models.person_fits             Exchangeable AR1
        models.fixed_design            FixedDesign
        models.magnitudes              Magnitudes
        privacy.budget                 Budget
        privacy.guarantee              Guarantee
        release                        Release
        intervals.interval             Interval
        noise.simulated                SimulatedNoise
        errors                         PrivmeanError PrivmeanWarning ArgumentError SchemaError
        errors                         Infeasible BudgetExceeded PrivateFailure
        auditing.audit                 audit
        auditing.report                AuditReport
        central.groups.release         GroupRelease
        central.groups.values_release  ValuesRelease
        central.groups.estimator       GroupMeans
        central.groups.compared        CompareRelease
        central.groups.effect_release  EffectRelease
        central.groups.arms            TwoArms
        questions.compare              Compare
        questions.quantile             Quantile
        models.quantile_release        QuantileRelease
        models.variance_release        VarianceRelease
        study.study                    Study
        study.plan                     StudyPlan
        study.release                  StudyRelease
        """,
        _MOVED,
    )
    __all__ = ["__version__", *_listed]  # noqa: PLE0604
