"""Means in many columns with the published constants, for a known or an unknown covariance.

Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy, "Dimension-free Private Mean Estimation for
Anisotropic Distributions" (2024): Algorithm 1 for a known covariance (add-remove neighbors),
Algorithms 2 to 7, with corrections, for an unknown one (replace-one). `AnisotropicMean` is better
in every respect: docs/proofs/anisotropic.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from privmean import validate
from privmean.central.anisotropic.filtered_center import Centre
from privmean.central.anisotropic.known_covariance import KnownPlan, worded
from privmean.central.anisotropic.spectrum import spectrum_of
from privmean.data.public_shape import PublicShape
from privmean.errors import InfeasibleError
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.published.constants import PublishedConstants, published_radius
from privmean.published.unknown_covariance import UnknownCovariancePlan, plan_published_unknown

LARGEST = 10.0  # epsilon: the published amplification assumes epsilon/21 at most 1/2


@dataclass(frozen=True, eq=False)
class AnisotropicAsPublished:
    """The published algorithms, run however large their error is; for study.

    covariance: as for `AnisotropicMean`, or None. beta: chance that some person is filtered out.

    Guarantees: (epsilon, delta)-DP for any data, delta > 0: under add-remove with a covariance
    (epsilon up to 10), under replace-one without one. Public: the columns, all arguments, and the
    number of people under replace-one.
    """

    covariance: object = None
    beta: float = 0.05

    def __post_init__(self) -> None:
        validate.fraction("beta", self.beta)

    def plan(self, budget: Budget, shape: PublicShape) -> KnownPlan | UnknownCovariancePlan:
        """Everything decided before data. Raises InfeasibleError from public numbers alone."""
        if budget.epsilon is None or budget.delta <= 0:
            raise InfeasibleError(
                f"the published algorithms require epsilon and delta, not {budget.describe()}",
                "give epsilon and a delta such as 1e-6",
            )
        design = shape.number(least=2)
        if self.covariance is None:
            return plan_published_unknown(budget, design, shape.dimension, self.beta)
        if budget.neighbors == REPLACE_ONE or budget.epsilon > LARGEST:
            raise InfeasibleError(
                f"the published constants require add-remove neighbors and epsilon <= {LARGEST:g}",
                "use pm.AnisotropicMean",
            )
        spectrum = spectrum_of(self.covariance, shape.dimension)
        calibration = PublishedConstants(budget.epsilon, budget.delta).calibration()
        radius = published_radius(spectrum.deviations, design, self.beta)
        centre = Centre(spectrum, 1.0, design, radius, budget.neighbors, calibration)
        return worded(KnownPlan(budget, spectrum, centre, design, None, self.beta))
