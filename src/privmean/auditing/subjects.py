"""What the package audits of itself before a curator: one line each.

A new estimator or question is one line of `SUBJECTS`. Settings suit about 600 people whose values
are about normal with mean 3 and deviation 1; the tables are often otherwise, since privacy depends
on no assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privmean.central.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.central.bounded import BoundedMean
from privmean.central.concentration import Bounded, SubGaussian, UnknownScale
from privmean.central.default_mean import DefaultMean
from privmean.central.heavy_tailed import BoundedMoment, HeavyTailedMean, RecordWeights
from privmean.central.winsorized import WinsorizedMean
from privmean.models.moment_variance import MomentVariance
from privmean.models.private_scale import PrivateScale
from privmean.models.quantiles import Quantiles
from privmean.models.random_effects import RandomEffects
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation
from privmean.questions.regression import Regression
from privmean.questions.working_errors import WorkingErrors

if TYPE_CHECKING:
    from privmean.questions.base import Estimator, Question

PURE = (("epsilon", 2.0), ("delta", 0.0))
MIXED = (("epsilon", 2.0), ("delta", 1e-6))
ZCDP = (("rho", 1.0),)
LARGE = (("epsilon", 6.0), ("delta", 1e-6))
Said = tuple[tuple[str, float], ...]
GENEROUS: tuple[Said, ...] = (  # so that plans for few people come to their last step
    (("epsilon", 60.0), ("delta", 0.0)),
    (("epsilon", 60.0), ("delta", 1e-6)),
    (("rho", 30.0),),
)
ANY = (PURE, MIXED, ZCDP)
BOTH: tuple[Relation, ...] = (REPLACE_ONE, ADD_REMOVE)
REPLACED: tuple[Relation, ...] = (REPLACE_ONE,)
NEAR = (-9.0, 9.0)
MOMENT = BoundedMoment(4, 1.4, range=NEAR)


@dataclass(frozen=True)
class Subject:
    """made: the estimator or question. cap: of records, for means over records. weight: of its
    cases among the runs (those that take long get fewer)."""

    name: str
    made: Estimator | Question
    budgets: tuple[Said, ...] = ANY
    relations: tuple[Relation, ...] = BOTH
    dimensions: tuple[int, ...] = (1, 2)
    n: int = 601
    max_records: int | None = None
    weight: float = 1.0


SUBJECTS: tuple[Subject, ...] = (
    # --- the mean -----------------------------------------------------------------------------
    Subject("default", DefaultMean(), dimensions=(1,)),
    Subject("default, interval first", DefaultMean(target="mean"), dimensions=(1,)),
    Subject("default, columns", DefaultMean(), (MIXED, ZCDP), REPLACED, (2, 5), 1200, weight=0.3),
    Subject("default, columns, interval first", DefaultMean(target="mean"), (MIXED,), REPLACED,
        (4,), 1200, weight=0.3),
    Subject("default, records", DefaultMean(), dimensions=(1,), max_records=5),
    Subject("bounded", BoundedMean((0.0, 8.0)), dimensions=(1, 3)),
    Subject("limits", WinsorizedMean(Bounded(0.0, 8.0))),
    Subject("limits, records", WinsorizedMean(Bounded(0.0, 8.0)), max_records=5),
    Subject("sub-Gaussian", WinsorizedMean(SubGaussian(sd=1.0)), (MIXED,), BOTH, (1, 2, 8)),
    Subject("in a range", WinsorizedMean(SubGaussian(sd=1.0), range=NEAR)),
    Subject("in a range, records", WinsorizedMean(SubGaussian(sd=1.0), range=NEAR), max_records=3),
    Subject("unknown scale", WinsorizedMean(UnknownScale()), (MIXED,), REPLACED, (1, 4)),
    Subject("random effects", RandomEffects(0.5, 1.0, 10, (30,) * 20, range=NEAR).estimator(),
        relations=REPLACED, dimensions=(1,), n=600),
    Subject("bounded moment", HeavyTailedMean(MOMENT)),
    Subject("bounded moment, whole line", HeavyTailedMean(BoundedMoment(4, 1.4)), (MIXED,),
        dimensions=(1, 3, 8)),
    Subject("bounded moment, private radius",
        HeavyTailedMean(MOMENT, private_radius=True), (PURE, MIXED), REPLACED, weight=0.3),
    Subject("bounded moment, weights by records",
        HeavyTailedMean(BoundedMoment(4, 1.4, range=NEAR, records=2),
        weights=RecordWeights(max_records=5)), max_records=5, dimensions=(2,), weight=0.3),
    Subject("anisotropic", AnisotropicMean(1.0), (MIXED,), dimensions=(1, 2, 5), weight=0.1),
    Subject("anisotropic, filtered mean alone", AnisotropicMean(1.0, method="average"), (LARGE,),
        weight=0.1),
    Subject("anisotropic, unknown covariance", AnisotropicMean(), (LARGE,), REPLACED, (3,), 4000,
        weight=0.02),
    Subject("magnitudes", PrivateScale(2.0**-10, 2.0**10), ANY, REPLACED, (1, 3)),
    Subject("magnitudes about medians", PrivateScale(center="median"), ANY, REPLACED, (1, 3)),
    Subject("quantiles of one column", Quantiles((0.25, 0.5)), ANY, dimensions=(1,)),
    # --- questions ----------------------------------------------------------------------------
    Subject("regression, public sizes", Regression("y ~ a", effect="per_person", scales={"a": 2.0}),
        relations=REPLACED, dimensions=(2,)),
    Subject("regression, assumed errors",
        Regression("y ~ a", effect="per_person", assume=WorkingErrors(1.0, 1.0,
        coefficient_bounds=NEAR)),
        dimensions=(2,)),
    Subject("variance, nothing given", MomentVariance(), GENEROUS, dimensions=(1,)),
)  # fmt: skip


def budget_of(said: Said, relation: Relation) -> Budget:
    """The budget that a line of the list names."""
    return Budget(**dict(said), neighbors=relation)
