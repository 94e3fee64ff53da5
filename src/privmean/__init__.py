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
    "group_sizes": "privmean.people.groups",
    "mean": "privmean.api",
    "plan_mean": "privmean.planning",
    "persons_needed": "privmean.planning",
    "Bounded": "privmean.central.concentration",
    "SubGaussian": "privmean.central.concentration",
    "LogSobolev": "privmean.central.concentration",
    "BetweenWithin": "privmean.central.concentration",
    "BoundedWithin": "privmean.central.concentration",
    "UnknownScale": "privmean.central.concentration",
    "Ledger": "privmean.privacy.ledger",
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
    "variance": "privmean.models.variance",
    "Variance": "privmean.models.variance",
    "VarianceAsPublished": "privmean.models.variance_as_published",
    "BoundedMean": "privmean.central.bounded",
    "MeanStream": "privmean.continual",
    "WithholdRelease": "privmean.continual",
    "regress": "privmean.models.regression",
    "Regression": "privmean.models.regression_release",
    "Exchangeable": "privmean.models.person_fits",
    "AR1": "privmean.models.person_fits",
    "RandomEffects": "privmean.models.random_effects",
    "random_effects_mean": "privmean.models.random_effects",
    "curve": "privmean.models.curves",
    "Curve": "privmean.models.curve_release",
    "FixedDesign": "privmean.models.fixed_design",
    "Magnitudes": "privmean.models.magnitudes",
    "Budget": "privmean.privacy.budget",
    "Guarantee": "privmean.privacy.guarantee",
    "Release": "privmean.release",
    "Interval": "privmean.release",
    "SimulatedNoise": "privmean.noise.simulated",
    "PrivmeanError": "privmean.errors",
    "ArgumentError": "privmean.errors",
    "SchemaError": "privmean.errors",
    "Infeasible": "privmean.errors",
    "BudgetExceeded": "privmean.errors",
    "PrivateFailure": "privmean.errors",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privmean' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
