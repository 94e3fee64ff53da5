"""privmean: differentially private means of people who each contribute many records.

The public names, nothing else. They are imported when first used, so that `import privmean` loads
neither an engine nor a noise library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from privmean._version import __version__

_HOMES = {
    "read": "privmean.people.read",
    "Table": "privmean.people.table",
    "Machine": "privmean.people.table",
    "group_sizes": "privmean.people.groups",
    "ask": "privmean.asking.functions",
    "mean": "privmean.asking.functions",
    "regress": "privmean.asking.functions",
    "curve": "privmean.asking.functions",
    "variance": "privmean.asking.functions",
    "plan": "privmean.asking.functions",
    "persons_needed": "privmean.asking.functions",
    "Mean": "privmean.questions.mean",
    "Regression": "privmean.questions.regression",
    "Curve": "privmean.questions.curve",
    "Variance": "privmean.questions.variance",
    "Covariance": "privmean.questions.assumptions",
    "Errors": "privmean.questions.regression",
    "RandomEffects": "privmean.models.random_effects",
    "VarianceSearch": "privmean.models.variance",
    "RegressionRelease": "privmean.models.regression_release",
    "CurveRelease": "privmean.models.curve_release",
    "Bounded": "privmean.central.concentration",
    "SubGaussian": "privmean.central.concentration",
    "LogSobolev": "privmean.central.concentration",
    "BetweenWithin": "privmean.central.concentration",
    "BoundedWithin": "privmean.central.concentration",
    "UnknownScale": "privmean.central.concentration",
    "Ledger": "privmean.privacy.ledger",
    "Policy": "privmean.privacy.policies",
    "verify": "privmean.verification",
    "Verification": "privmean.verification",
    "sign": "privmean.signing",
    "DefaultMean": "privmean.central.default_mean",
    "Winsorized": "privmean.central.winsorized",
    "AsPublished": "privmean.central.as_published",
    "BoundedMoment": "privmean.central.heavy_tailed",
    "HeavyTailed": "privmean.central.heavy_tailed",
    "PureCover": "privmean.central.heavy_tailed",
    "RecordWeights": "privmean.central.heavy_tailed",
    "Anisotropic": "privmean.central.anisotropic.estimator",
    "person_covariance": "privmean.central.anisotropic.spectrum",
    "VarianceAsPublished": "privmean.models.variance_as_published",
    "BoundedMean": "privmean.central.bounded",
    "MeanStream": "privmean.continual",
    "WithholdRelease": "privmean.continual",
    "Exchangeable": "privmean.models.person_fits",
    "AR1": "privmean.models.person_fits",
    "FixedDesign": "privmean.models.fixed_design",
    "Magnitudes": "privmean.models.magnitudes",
    "Budget": "privmean.privacy.budget",
    "Guarantee": "privmean.privacy.guarantee",
    "Release": "privmean.release",
    "Study": "privmean.study.study",
    "StudyPlan": "privmean.study.plan",
    "StudyRelease": "privmean.study.release",
    "Interval": "privmean.intervals.interval",
    "SimulatedNoise": "privmean.noise.simulated",
    "PrivmeanError": "privmean.errors",
    "ArgumentError": "privmean.errors",
    "SchemaError": "privmean.errors",
    "Infeasible": "privmean.errors",
    "BudgetExceeded": "privmean.errors",
    "PrivateFailure": "privmean.errors",
}

_MOVED = {
    "plan_mean": "say pm.plan(pm.Mean(...), persons=...)",
    "random_effects_mean": "say pm.mean(people, related=pm.RandomEffects(...))",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    moved = f": {_MOVED[name]}" if name in _MOVED else ""
    raise AttributeError(f"module 'privmean' has no attribute {name!r}{moved}")


def __dir__() -> list[str]:
    return sorted(__all__)
