"""`HeavyTailedMean`: the mean under a bounded moment, planned from public numbers.

Source: Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman, "Private Mean Estimation with
Person-Level Differential Privacy" (2024); constants, radii and shares are optimised numerically
(docs/proofs/heavy-tails.md and the pages it names).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privmean import validate
from privmean.bisection import smallest_int
from privmean.central.choose_vector_method import predicted_with_nothing
from privmean.central.heavy_tailed import choose_heavy_tailed as planning
from privmean.central.heavy_tailed.choose_heavy_tailed import Plan
from privmean.central.heavy_tailed.clipping_bias import BoundedMoment
from privmean.central.heavy_tailed.heavy_tailed_plan import HeavyTailedNumbers, Settings
from privmean.central.heavy_tailed.record_weights import RecordWeights
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.plurals import count_noun
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.signatures import known_keywords

LARGEST_SEARCH = 2**36
MOST_SAID = 32  # rounds: plans choose 8 at most, and planning takes longer than in proportion
CLOSE = 0.03  # a number of people that would do is this close to the smallest


@known_keywords
@dataclass(frozen=True)
class HeavyTailedMean:
    """Mean of people's values under `BoundedMoment`.

    Parameters
    ----------
    moment : BoundedMoment
        What accuracy and intervals assume.
    law : {"auto", "gaussian", "laplace", "k-norm"}, default "auto"
        Noise of the sums; "auto" has the smallest predicted error that the budget allows.
    rounds : int, optional
        Number of clipping rounds, at most 32. Default: the smallest predicted error.
    start : {"auto", "histogram", "public"}, default "auto"
        Coarse location: by histogram, or the middle of the public range.
    wide_buckets : bool, default False
        Use buckets of six standard deviations, for which the constants are proved, instead of two.
    private_radius : bool, optional
        Spend 15% of epsilon on a smaller radius: a smaller error and longer intervals. Default:
        only in Gaussian rounds under replace-one, if shorter intervals are predicted.
    beta : float, default 0.01
        Failure probability that the plan allows the coarse step.
    weights : RecordWeights, optional
        Weights for different, private numbers of records; as text
        "max_records:12,critical:3,least:2".

    Raises
    ------
    InfeasibleError
        From `plan`, if the public numbers allow no useful release.

    Privacy
    -------
    Person-level differential privacy for any data, with exact noise. Public are the settings, the
    assumption and, under replace-one, the roster; under add-remove `n_guess` replaces n.

    Notes
    -----
    Source: Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman (2024).

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    heavy = pm.HeavyTailedMean(pm.BoundedMoment(order=3, bound=1.0), law="laplace")
    pm.mean(people, method=heavy, epsilon=1.0, delta=1e-6)
    """

    moment: BoundedMoment
    law: Literal["auto", "gaussian", "laplace", "k-norm"] = "auto"
    rounds: int | None = None
    start: Literal["auto", "histogram", "public"] = "auto"
    wide_buckets: bool = False
    private_radius: bool | None = None
    beta: float = 0.01
    weights: RecordWeights | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.moment, BoundedMoment):
            raise ArgumentError(
                "moment",
                self.moment,
                "is not a moment assumption",
                "give BoundedMoment(order=..., bound=...)",
            )
        validate.choice("law", self.law, ["auto", "gaussian", "laplace", "k-norm"])
        validate.choice("start", self.start, ["auto", "histogram", "public"])
        validate.fraction("beta", self.beta)
        validate.flag("wide_buckets", self.wide_buckets)
        if self.private_radius is not None:
            validate.flag("private_radius", self.private_radius)
        if self.weights is not None:
            validate.instance(
                "weights",
                self.weights,
                RecordWeights,
                "give RecordWeights(max_records=12), in texts weights=max_records:12",
            )
        if self.rounds is not None:
            object.__setattr__(
                self, "rounds", validate.whole("rounds", self.rounds, least=1, most=MOST_SAID)
            )
        if self.start == "public" and self.moment.range is None:
            raise ArgumentError(
                "start", self.start, "requires a public range", "give BoundedMoment(..., range=...)"
            )
        if self.private_radius and self.weights is not None:
            raise ArgumentError(
                "private_radius", True, "cannot be combined with weights", "remove one of them"
            )

    @property
    def serves_records(self) -> bool:
        """Whether people with numbers of records are read by them."""
        return self.weights is not None

    def plan(self, budget: Budget, shape: PublicShape) -> Plan:
        """Everything decided before data are read.

        Raises InfeasibleError, naming the number of people that would do.
        """
        relation, n, d = budget.neighbors, shape.number(), shape.dimension
        if relation != REPLACE_ONE and self.private_radius:
            raise ArgumentError(
                "neighbors",
                relation,
                "cannot be combined with a private radius, which requires a public roster",
                'use neighbors="replace-one", or remove private_radius',
            )
        self.moment.ranges(d)
        if self.rounds not in (None, 1) and planning.one_sum(self._settings, budget, d):
            raise ArgumentError(
                "rounds",
                self.rounds,
                "requires Gaussian noise or several columns",
                'remove it, or use law="gaussian" with a delta',
            )
        found = self.attempt(budget, n, d, relation)
        if found is None:
            raise self._infeasible(budget, n, d, relation)
        if self.private_radius is None:
            found = planning.with_search(self._settings, found)
        nothing = predicted_with_nothing(budget, shape, (found.common.spread,) * d)
        return planning.compared(found, nothing)

    def attempt(
        self, budget: Budget, persons: int, dimension: int, relation: Relation
    ) -> Plan | None:
        """The plan without a choice of the radius, or None where it is infeasible."""
        common = HeavyTailedNumbers(
            budget, relation, persons, dimension, self.moment, float(self.beta)
        )
        return planning.plan(self._settings, common)

    @property
    def _settings(self) -> Settings:
        return Settings(
            self.law,
            self.rounds,
            self.start,
            self.wide_buckets,
            self.private_radius,
            self.weights,
        )

    def _infeasible(
        self, budget: Budget, persons: int, dimension: int, relation: Relation
    ) -> InfeasibleError:
        if self.moment.range is None and (budget.is_pure or budget.is_zcdp):
            return InfeasibleError(
                f"a search with {budget.describe()} requires delta > 0 or a public range",
                "pass delta=1e-6, or BoundedMoment(..., range=(lower, upper)); on a "
                "command line, range=LOWER,UPPER",
            )
        needed = smallest_int(
            lambda n: self.attempt(budget, n, dimension, relation) is not None,
            persons + 1,
            most=LARGEST_SEARCH,
            within=CLOSE,
        )
        if needed is None:
            return InfeasibleError(
                f"no number of people makes this feasible with {budget.describe()}",
                "choose another law or start, narrow the public range, or give more budget",
            )
        return InfeasibleError(
            f"n={persons} is too small for {count_noun(dimension, 'column')} with "
            f"{budget.describe()}",
            f"provide at least about {needed} people, a larger epsilon, or a narrower public range",
        )
