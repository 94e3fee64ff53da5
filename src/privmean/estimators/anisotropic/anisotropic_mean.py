"""The anisotropic mean: an error that follows the spread of the data, not the number of columns.

Which of its forms a question gets: for a known covariance the candidate of least predicted error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from privmean import validate
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.anisotropic.calibrate_filter import (
    ClipStep,
    Powers,
    TooFewPeople,
    calibrate,
    centre_parts,
    count_lattice,
    expected_chain,
    gaussian_after,
    infeasible,
    too_few,
)
from privmean.estimators.anisotropic.known_covariance import Centre, KnownPlan
from privmean.estimators.anisotropic.spectrum import (
    MAHALANOBIS,
    NORMS,
    SAME,
    Spectrum,
    pair_radius,
    spectrum_of,
)
from privmean.estimators.anisotropic.unknown_covariance import UnknownPlan, plan_unknown
from privmean.estimators.means.choose_vector_method import predicted_with_nothing
from privmean.output import count_noun, count_phrase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.privacy_events import PrivacyProfile
from privmean.validate import known_keywords

EXPONENTS = (1.0, 1.25, 1.375, 1.5, 1.625, 1.75, 2.0)
# clipped sums before the last: share of their mu^2, and exponent, of each
Refinement = tuple[tuple[float, float], ...]
REFINEMENTS: tuple[Refinement, ...] = (
    (),
    *(((share, e),) for share in (0.05, 0.1, 0.2, 0.35) for e in (1.0, 1.25, 1.5)),
    *(
        ((share, first), (2 * share, second))
        for share in (0.03, 0.06, 0.12, 0.2)
        for first, second in ((1.25, 1.0), (1.25, 1.25), (1.5, 1.25), (1.5, 1.5))
    ),
)
CENTRE_SHARES = (0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PERSONS_SHARE = 0.02  # of mu^2 of the clipped sum, for the count under add-remove
MOST_OFFSET = 0.45  # of the people, taken off a center's count: it stands half of them missing


def pairs_radius(spectrum: Spectrum, exponent: float, n_guess: int, beta: float) -> float:
    """The friendship radius in the metric of Sigma^(-exponent/4)."""
    return pair_radius(spectrum.deviations ** (2 - exponent), n_guess, beta)


class Candidates:
    """Plans for one budget, spectrum and public shape."""

    def __init__(self, budget: Budget, spectrum: Spectrum, n_guess: int, beta: float) -> None:
        assert budget.epsilon is not None
        self.budget, self.epsilon, self.delta = budget, budget.epsilon, budget.delta
        self.spectrum, self.relation, self.beta = spectrum, budget.neighbors, beta
        self.n_guess = n_guess
        self.n = n_guess if self.relation == REPLACE_ONE else None
        self.powers = Powers(spectrum.deviations)

    @property
    def parts(self) -> int:
        """The center is that of one in so many people."""
        if self.relation == REPLACE_ONE:
            return centre_parts(self.n_guess)
        return centre_parts(self.n_guess, self.epsilon)

    def centre(
        self, epsilon: float, delta: float, exponent: float, persons: int, most: float = MOST_OFFSET
    ) -> Centre:
        """A center behind the filter, within (epsilon, delta)."""
        radius = pairs_radius(self.spectrum, exponent, persons, self.beta)
        calibration = calibrate(
            epsilon, delta, persons, self.relation, dimension=self.spectrum.dimension, most=most
        )
        return Centre(self.spectrum, exponent, persons, radius, self.relation, calibration)

    def average(self) -> KnownPlan:
        """The filtered mean alone."""
        return self._plan(self.centre(self.epsilon, self.delta, 1.0, self.n_guess, most=1.0))

    def two_phase(self) -> Iterator[KnownPlan]:
        """A filtered center, then the clipped sum with all that the composition leaves."""
        whole = gaussian_mu(self.epsilon, self.delta)
        persons = -(-self.n_guess // self.parts)
        for share in CENTRE_SHARES:
            try:
                first = self.centre(share * self.epsilon, self.delta / 2, 1.0, persons)
            except InfeasibleError:
                continue
            (curve,) = first.events
            assert isinstance(curve, PrivacyProfile)
            mu = gaussian_after(curve, self.epsilon, self.delta, self.spectrum.dimension)
            if mu > 0:
                yield self._refined(first, mu, 1 - (mu / whole) ** 2)

    def _refined(self, centre: Centre, mu: float, share: float) -> KnownPlan:
        """The best shapes of center and clipped sums of total `mu`."""
        best: tuple[float, Centre, tuple[ClipStep, ...]] | None = None
        chains = [self._steps(mu, refinement) for refinement in REFINEMENTS]
        for exponent in EXPONENTS:
            radius = pairs_radius(self.spectrum, exponent, centre.n, self.beta)
            first = replace(centre, exponent=exponent, radius=radius)
            for steps in chains:
                _, noise = expected_chain(
                    self.powers,
                    steps,
                    first.expected_noise,
                    exponent,
                    self.relation,
                    self.n_guess,
                    self.beta,
                )
                if best is None or noise < best[0]:
                    best = noise, first, steps
        assert best is not None
        return self._plan(best[1], best[2], share)

    def _steps(
        self, mu: float, refinement: tuple[tuple[float, float], ...]
    ) -> tuple[ClipStep, ...]:
        """Clipped sums of total `mu`; the first buys the number of people under add-remove."""
        count = 0.0 if self.relation == REPLACE_ONE else mu * math.sqrt(PERSONS_SHARE)
        left = mu**2 - count**2
        last = 1 - sum(share for share, _ in refinement)
        steps = [
            ClipStep(exponent, math.sqrt(share * left))
            for share, exponent in (*refinement, (last, 1.0))
        ]
        if count:
            steps[0] = replace(steps[0], count_mu=count, count_steps=count_lattice(1 / count))
        return tuple(steps)

    def _plan(
        self, centre: Centre, clips: tuple[ClipStep, ...] = (), share: float = 1.0
    ) -> KnownPlan:
        return KnownPlan(
            self.budget,
            self.spectrum,
            centre,
            self.n_guess,
            self.n,
            self.beta,
            clips,
            share,
            self.parts if centre.n < self.n_guess else 1,
        )

    def best(self, plans: Iterable[KnownPlan]) -> KnownPlan:
        """The plan with the least predicted error; InfeasibleError if none can work."""
        working = [plan for plan in plans if math.isfinite(plan.error)]
        if not working:
            raise infeasible(self.n_guess, self.epsilon, self.relation)
        return min(working, key=lambda plan: plan.error)


BETA = 0.05
AUTO, AVERAGE, TWO_PHASE = "auto", "average", "two-phase"
METHODS = (AUTO, AVERAGE, TWO_PHASE)


@known_keywords
@dataclass(frozen=True, eq=False)
class AnisotropicMean:
    """Mean of people in many columns of different spread (dimension-free).

    Parameters
    ----------
    covariance : float, array (d,) or array (d, d), optional
        Public upper bound of the covariance of one person's row: one variance, one per column, or a
        matrix. Default: half of the people serve to estimate the scales (replace-one only). For
        means of several records see `person_covariance`.
    method : {"auto", "average", "two-phase"}, default "auto"
        Filtered mean, or filtered center with a clipped sum. "auto" has the least predicted error.
    beta : float, default 0.05
        Probability that any person is filtered out or clipped, under the assumption (known
        covariance).
    n_guess : int, optional
        Public guess of n, for add-remove. A bad guess costs accuracy.
    scale_range : (float, float), optional
        Public smallest and largest standard deviation of a column, if no covariance is given.
        Default: found privately.
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
    beta: float = BETA
    n_guess: int | None = None
    scale_range: tuple[float, float] | None = None
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
        validate.keep(self, validate.fraction, "beta")
        if self.n_guess is not None:
            object.__setattr__(self, "n_guess", validate.whole("n_guess", self.n_guess, least=2))
        if self.covariance is None:
            for name, usual in (("scales", SAME), ("method", AUTO), ("beta", BETA)):
                if (given := getattr(self, name)) != usual:
                    remedy = f"give covariance, or remove {name}"
                    raise ArgumentError(name, given, "requires a known covariance", remedy)
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
            return plan_unknown(budget, design, dimension, scale_range=self.scale_range)
        spectrum = spectrum_of(self.covariance, dimension, self.scales)
        candidates = Candidates(budget, spectrum, design, self.beta)
        return candidates.best(self._plans(candidates))

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
                "n_guess", self.n_guess, "is only for neighbors='add-remove'", "remove it"
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
