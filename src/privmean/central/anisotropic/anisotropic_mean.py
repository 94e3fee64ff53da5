"""Means in many columns whose error follows the spread of the data, not the number of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from privmean import validate
from privmean.central.anisotropic.calibrate_filter import TooFewPeople
from privmean.central.anisotropic.choose_anisotropic import Candidates
from privmean.central.anisotropic.feasibility import too_few
from privmean.central.anisotropic.known_covariance import KnownPlan, worded
from privmean.central.anisotropic.plan_unknown_covariance import plan_unknown
from privmean.central.anisotropic.spectrum import MAHALANOBIS, NORMS, SAME, spectrum_of
from privmean.central.anisotropic.unknown_covariance import UnknownPlan
from privmean.central.choose_vector_method import predicted_with_nothing
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.plurals import count_noun, count_phrase
from privmean.privacy.budget import REPLACE_ONE, Budget

AUTO, AVERAGE, TWO_PHASE = "auto", "average", "two-phase"
NOISY = "noisy-degree"
METHODS = (AUTO, AVERAGE, TWO_PHASE, NOISY)


@dataclass(frozen=True, eq=False)
class AnisotropicMean:
    """Mean of people in many columns of different spread (dimension-free).

    Parameters
    ----------
    covariance : float, array (d,) or array (d, d), optional
        Public upper bound of the covariance of one person's row: one variance, one per column, or a
        matrix. Default: half of the people serve to estimate the scales (replace-one only). For
        means of several records see `person_covariance`.
    method : {"auto", "average", "two-phase", "noisy-degree"}, default "auto"
        Filtered mean, filtered center with a clipped sum, or a filter for large public n. "auto"
        has the least predicted error.
    beta : float, default 0.05
        Probability that any person is filtered out or clipped, under the assumption.
    n_guess : int, optional
        Public guess of n, for add-remove. A bad guess costs accuracy.
    scale_range : (float, float), optional
        Public smallest and largest standard deviation of a column, if no covariance is given.
        Default: found privately.
    sampled_degrees : int, optional
        Neighbors sampled per person, for very large n (replace-one).
    scales : {"same", "sd", "mahalanobis"}, default "same"
        Units in which the minimized L2 error counts columns, as in `Covariance`.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Approximate DP with delta > 0, under replace-one or add-remove, for any data and any covariance.
    Public are the columns, all arguments and, under replace-one, n. If the filter finds no center,
    the release has no estimate and the budget is charged.

    Notes
    -----
    Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy, "Dimension-free Private Mean
    Estimation for Anisotropic Distributions" (2024). Filter: Tsfadia, Cohen, Kaplan, Mansour and
    Stemmer, "FriendlyCore" (2022). Constants and corrections: docs/proofs/anisotropic.md.

    Examples
    --------
    rows = np.random.default_rng(1).normal(5, 1, (4000, 30)) * np.linspace(0.1, 2, 30)
    known = pm.AnisotropicMean(covariance=np.linspace(0.1, 2, 30) ** 2)
    pm.mean(rows, method=known, epsilon=1.0, delta=1e-6)
    """

    covariance: object = None
    method: str = AUTO
    beta: float = 0.05
    n_guess: int | None = None
    scale_range: tuple[float, float] | None = None
    sampled_degrees: int | None = None
    scales: str = SAME

    def __post_init__(self) -> None:
        if isinstance(self.method, str) and self.method == "published":
            raise ArgumentError(
                "method",
                self.method,
                "is only for studies",
                "use privmean.published.AnisotropicAsPublished(covariance)",
            )
        validate.choice("method", self.method, METHODS)
        validate.choice("scales", self.scales, tuple(NORMS))
        if self.covariance is None and self.scales != SAME:
            raise ArgumentError(
                "scales", self.scales, "requires a known covariance", "give covariance"
            )
        validate.fraction("beta", self.beta)
        if self.n_guess is not None:
            object.__setattr__(self, "n_guess", validate.whole("n_guess", self.n_guess, least=2))
        if self.covariance is None and self.method != AUTO:
            raise ArgumentError(
                "method",
                self.method,
                "requires a known covariance",
                "give covariance, or remove the method",
            )
        if self.sampled_degrees is not None:
            object.__setattr__(
                self,
                "sampled_degrees",
                validate.whole("sampled_degrees", self.sampled_degrees, least=1),
            )
            if self.method == NOISY:
                raise ArgumentError(
                    "sampled_degrees",
                    self.sampled_degrees,
                    f"is not used by method={self.method!r}",
                    "remove one of them",
                )
            if self.covariance is None:
                raise ArgumentError(
                    "sampled_degrees",
                    self.sampled_degrees,
                    "requires a known covariance",
                    "give covariance, or remove it",
                )
        if self.scale_range is not None:
            if self.covariance is not None:
                raise ArgumentError(
                    "scale_range",
                    self.scale_range,
                    "is not used where the covariance is known",
                    "remove one of them",
                )
            low, _ = validate.bounds("scale_range", self.scale_range)
            validate.positive("scale_range", low, "give two standard deviations above 0")

    def plan(self, budget: Budget, shape: PublicShape) -> KnownPlan | UnknownPlan:
        """Everything decided before data: radii, noise, the worst-case accounting, the error.

        Raises InfeasibleError from public numbers alone.
        """
        d = shape.dimension
        if budget.epsilon is None or budget.delta <= 0:
            raise InfeasibleError(
                f"this method requires delta > 0, but the budget is {budget.describe()}",
                "give a delta far below 1/n, such as 1e-6",
            )
        design = self._design(shape)
        if self.sampled_degrees is not None and budget.neighbors != REPLACE_ONE:
            raise InfeasibleError(
                "sampled_degrees requires a public n",
                "use neighbors='replace-one', or remove sampled_degrees",
            )

        def attempt(budget: Budget, n: int) -> bool:
            try:
                return self._made(budget, n, d).error_share < 1
            except TooFewPeople:
                return False

        try:
            plan = self._made(budget, design, d)
        except TooFewPeople as error:
            raise too_few(attempt, budget, design, error.problem, self._others()) from None
        if plan.error_share >= 1:
            raise too_few(attempt, budget, design, _hopeless(plan, design), self._others())
        if self.scales == MAHALANOBIS:  # no sum over columns: `Cheapest` compares those
            return plan
        known = shape if shape.count is not None else replace(shape, n_guess=design)
        return replace(plan, nothing=predicted_with_nothing(budget, known, plan.deviations))

    @property
    def norm(self) -> str:
        """In words, whose l2 error is minimized."""
        return NORMS[self.scales]

    def spread(self, dimension: int) -> float:
        """What noise of variance 1 in every column, in its standard deviations, adds to the squared
        error that is minimized, over the mean variance of a column in the same norm."""
        spectrum = spectrum_of(self.covariance, dimension, self.scales)
        return spectrum.inverse_trace

    def _made(self, budget: Budget, design: int, dimension: int) -> KnownPlan | UnknownPlan:
        """The plan of the least predicted error, however large that is."""
        if self.covariance is None:
            return plan_unknown(
                budget, design, dimension, beta=self.beta, scale_range=self.scale_range
            )
        candidates = self._candidates(budget, design, dimension)
        plan = candidates.best(self._plans(candidates))
        return worded(plan)

    def _candidates(self, budget: Budget, design: int, dimension: int) -> Candidates:
        spectrum = spectrum_of(self.covariance, dimension, self.scales)
        return Candidates(budget, spectrum, design, self.beta, self.sampled_degrees)

    def _others(self) -> str:
        if self.covariance is None:
            return "or give a public bound on the covariance, or nothing at all (method='default')"
        return "or fewer columns, or nothing given (method='default')"

    def _design(self, shape: PublicShape) -> int:
        """The public number that radii and noise are made for."""
        if self.n_guess is None:
            return shape.number(least=2)
        if shape.n is not None:
            raise ArgumentError(
                "n_guess",
                self.n_guess,
                "is only for neighbors='add-remove'",
                "remove it",
            )
        if shape.n_guess not in (None, self.n_guess):
            raise ArgumentError(
                "n_guess",
                self.n_guess,
                f"must match the guess beside the budget, {shape.n_guess}",
                "use one of them",
            )
        return self.n_guess

    def _plans(self, candidates: Candidates) -> Iterator[KnownPlan]:
        few = candidates.parts == 1  # else all pairs would take long
        if self.method == AVERAGE or (self.method == AUTO and few):
            try:
                yield candidates.average()
            except InfeasibleError:
                if self.method == AVERAGE:
                    raise
        if self.method in (AUTO, TWO_PHASE):
            yield from candidates.two_phase()
        if self.method == NOISY or (self.method == AUTO and few):
            yield from candidates.noisy()


def _hopeless(plan: KnownPlan | UnknownPlan, persons: int) -> str:
    """Why a plan is refused whose answer would be worse than one person's own row."""
    assumed = "by the covariance bound"
    if not isinstance(plan, KnownPlan):
        assumed = "if columns are alike, or fall as 1, 1/2, 1/3 where they share a radius"
    return (
        f"{count_phrase(persons, 'person', 'is', 'are')} too few for "
        f"{count_noun(plan.dimension, 'column')} "
        f"with {plan.budget.describe()}: the predicted error is {plan.error_share:.3g} times the "
        f"distance of a single person's row from the mean ({assumed})"
    )
