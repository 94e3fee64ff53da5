"""privmean: differentially private means of people who each contribute many records.

The public names, nothing else. They are imported when first used, so that `import privmean` loads
neither an engine nor a noise library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privmean._version import __version__ as __version__

if TYPE_CHECKING:
    from privmean.api.functions import ask as ask
    from privmean.api.functions import compare as compare
    from privmean.api.functions import curve as curve
    from privmean.api.functions import mean as mean
    from privmean.api.functions import quantile as quantile
    from privmean.api.functions import regress as regress
    from privmean.api.functions import variance as variance
    from privmean.api.plan_functions import plan as plan
    from privmean.api.plan_functions import predict_errors as predict_errors
    from privmean.api.plan_functions import required_epsilon as required_epsilon
    from privmean.api.plan_functions import required_n as required_n
    from privmean.auditing.audit import AuditReport as AuditReport
    from privmean.auditing.audit import audit as audit
    from privmean.data.groups import group_sizes as group_sizes
    from privmean.data.read import read as read
    from privmean.data.table import Resources as Resources
    from privmean.data.table import Table as Table
    from privmean.errors import ArgumentError as ArgumentError
    from privmean.errors import BudgetExceededError as BudgetExceededError
    from privmean.errors import InfeasibleError as InfeasibleError
    from privmean.errors import NoEstimateError as NoEstimateError
    from privmean.errors import PrivmeanError as PrivmeanError
    from privmean.errors import PrivmeanWarning as PrivmeanWarning
    from privmean.errors import SchemaError as SchemaError
    from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean as AnisotropicMean
    from privmean.estimators.anisotropic.spectrum import person_covariance as person_covariance
    from privmean.estimators.concentration import BetweenWithin as BetweenWithin
    from privmean.estimators.concentration import Bounded as Bounded
    from privmean.estimators.concentration import BoundedWithin as BoundedWithin
    from privmean.estimators.concentration import LogSobolev as LogSobolev
    from privmean.estimators.concentration import SubGaussian as SubGaussian
    from privmean.estimators.concentration import UnknownScale as UnknownScale
    from privmean.estimators.curve_release import CurveRelease as CurveRelease
    from privmean.estimators.fixed_design import FixedDesign as FixedDesign
    from privmean.estimators.groups.group_means import GroupMeans as GroupMeans
    from privmean.estimators.groups.group_release import CompareRelease as CompareRelease
    from privmean.estimators.groups.group_release import EffectRelease as EffectRelease
    from privmean.estimators.groups.group_release import GroupRelease as GroupRelease
    from privmean.estimators.groups.group_release import MultiValueRelease as MultiValueRelease
    from privmean.estimators.heavy_tailed import BoundedMoment as BoundedMoment
    from privmean.estimators.heavy_tailed import HeavyTailedMean as HeavyTailedMean
    from privmean.estimators.heavy_tailed import RecordWeights as RecordWeights
    from privmean.estimators.means.bounded import BoundedMean as BoundedMean
    from privmean.estimators.means.default_mean import DefaultMean as DefaultMean
    from privmean.estimators.moment_variance import VarianceRelease as VarianceRelease
    from privmean.estimators.quantiles import QuantileRelease as QuantileRelease
    from privmean.estimators.regression.panel import AR1 as AR1
    from privmean.estimators.regression.panel import Exchangeable as Exchangeable
    from privmean.estimators.regression.private_scale import PrivateScale as PrivateScale
    from privmean.estimators.regression.regression_release import (
        RegressionRelease as RegressionRelease,
    )
    from privmean.estimators.winsorized import RandomEffects as RandomEffects
    from privmean.estimators.winsorized import WinsorizedMean as WinsorizedMean
    from privmean.examples import example as example
    from privmean.inference.interval import Interval as Interval
    from privmean.noise.noise_source import SimulatedNoise as SimulatedNoise
    from privmean.privacy.budget import Budget as Budget
    from privmean.privacy.guarantee import Guarantee as Guarantee
    from privmean.privacy.ledger import Ledger as Ledger
    from privmean.privacy.ledger_charges import Policy as Policy
    from privmean.questions.assumptions import Covariance as Covariance
    from privmean.questions.compare import Compare as Compare
    from privmean.questions.curve import Curve as Curve
    from privmean.questions.mean import Mean as Mean
    from privmean.questions.quantile import Quantile as Quantile
    from privmean.questions.regression import Regression as Regression
    from privmean.questions.regression_options import WorkingErrors as WorkingErrors
    from privmean.questions.variance import Variance as Variance
    from privmean.release.release import Release as Release
    from privmean.release.signing import sign as sign
    from privmean.release.verification import Verification as Verification
    from privmean.release.verification import verify as verify
    from privmean.streams import GroupMeanStream as GroupMeanStream
    from privmean.streams import MeanStream as MeanStream
    from privmean.streams import WithholdRelease as WithholdRelease
    from privmean.study.study import Study as Study
    from privmean.study.study_plan import StudyPlan as StudyPlan
    from privmean.study.study_release import StudyRelease as StudyRelease
else:
    from privmean.lazy_imports import names

    __getattr__, __dir__, _listed = names(__name__, "privmean.api.renamed_arguments")
    __all__ = ["__version__", *_listed]  # noqa: PLE0604
