"""Candidate plans for a known covariance, and the one with the least predicted error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from privmean.central.anisotropic.calibrate_filter import (
    SAFETY,
    calibrate,
    centre_parts,
    count_lattice,
    gaussian_after,
    infeasible,
    lattice_room,
)
from privmean.central.anisotropic.clipping_steps import ClipStep, Powers, expected_chain
from privmean.central.anisotropic.filtered_center import Centre
from privmean.central.anisotropic.known_covariance import KnownPlan
from privmean.central.anisotropic.noisy_degrees import calibrate_noisy_degrees, kept_degree
from privmean.central.anisotropic.spectrum import (
    Spectrum,
    pair_radius,
)
from privmean.errors import InfeasibleError
from privmean.mechanisms.filtered.random_filter import Sampled, sampled_influence, sampled_threshold
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.loss_distribution import PrivacyProfile

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
FILTER_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
PERSONS_SHARE = 0.02  # of mu^2 of the clipped sum, for the count under add-remove
MOST_OFFSET = 0.45  # of the people, taken off a center's count: it stands half of them missing
SLIP_SHARE = 0.1  # of delta, for a filter that can slip


def pairs_radius(spectrum: Spectrum, exponent: float, n_guess: int, beta: float) -> float:
    """The friendship radius in the metric of Sigma^(-exponent/4)."""
    return pair_radius(spectrum.deviations ** (2 - exponent), n_guess, beta)


class Candidates:
    """Plans for one budget, spectrum and public shape."""

    def __init__(
        self,
        budget: Budget,
        spectrum: Spectrum,
        n_guess: int,
        beta: float,
        sampled_draws: int | None = None,
    ) -> None:
        assert budget.epsilon is not None
        self.budget, self.epsilon, self.delta = budget, budget.epsilon, budget.delta
        self.spectrum, self.relation, self.beta = spectrum, budget.neighbors, beta
        self.n_guess = n_guess
        self.n = n_guess if self.relation == REPLACE_ONE else None
        self.draws = sampled_draws
        self.powers = Powers(spectrum.deviations)

    @property
    def parts(self) -> int:
        """The center is that of one in so many people, unless friends are sampled."""
        if self.draws is not None:
            return 1
        if self.relation == REPLACE_ONE:
            return centre_parts(self.n_guess)
        return centre_parts(self.n_guess, self.epsilon)

    def centre(
        self, epsilon: float, delta: float, exponent: float, persons: int, most: float = MOST_OFFSET
    ) -> Centre:
        """A center behind the basic filter (or the sampled one), within (epsilon, delta)."""
        radius = pairs_radius(self.spectrum, exponent, persons, self.beta)
        dimension = self.spectrum.dimension
        sampled: Sampled | None = None
        if self.draws is None:
            calibration = calibrate(
                epsilon, delta, persons, self.relation, dimension=dimension, most=most
            )
        else:
            slip = SLIP_SHARE * delta / (1 + math.exp(epsilon))
            influence = sampled_influence(persons, self.draws, slip)
            if math.isinf(influence):
                raise InfeasibleError(
                    f"sampled_degrees={self.draws} is too small for delta={delta:g}",
                    "sample more, or leave sampled_degrees out",
                )
            calibration = calibrate(
                epsilon,
                delta,
                persons,
                self.relation,
                dimension=dimension,
                most=most,
                influence=influence,
                slip=slip,
            )
            sampled = Sampled(self.draws, sampled_threshold(persons, self.draws, slip))
        return Centre(
            self.spectrum, exponent, persons, radius, self.relation, calibration, sampled=sampled
        )

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

    def noisy(self) -> Iterator[KnownPlan]:
        """The noisy-degree filter where n is public and large enough for it, in both forms."""
        if self.relation != REPLACE_ONE or self.draws is not None:
            return
        slip, bad = 0.05 * self.delta, 0.05 * self.delta
        room = lattice_room(20.0, 2.0**20, self.n_guess + self.spectrum.dimension)
        if room > 0.01 * self.epsilon:
            return
        mu = gaussian_mu(self.epsilon - room, 0.9 * self.delta * (1 - room)) * (1 - SAFETY)
        for share in (1.0, *CENTRE_SHARES):
            for part in FILTER_SHARES:
                try:
                    noisy, calibration = calibrate_noisy_degrees(
                        mu * math.sqrt(share),
                        slip,
                        bad,
                        self.n_guess,
                        dimension=self.spectrum.dimension,
                        filter_share=part,
                    )
                except InfeasibleError:
                    continue
                if kept_degree(noisy, self.n_guess, self.beta) > 0.995 * self.n_guess:
                    continue
                radius = pairs_radius(self.spectrum, 1.0, self.n_guess, self.beta)
                first = Centre(
                    self.spectrum, 1.0, self.n_guess, radius, self.relation, calibration, noisy
                )
                if share == 1.0:
                    yield self._plan(first)
                else:
                    yield self._refined(first, mu * math.sqrt(1 - share), share)

    def _refined(self, centre: Centre, mu: float, share: float) -> KnownPlan:
        """The best shapes of center and clipped sums of total `mu`."""
        best: tuple[float, Centre, tuple[ClipStep, ...]] | None = None
        chains = [self._steps(mu, refinement) for refinement in REFINEMENTS]
        for exponent in EXPONENTS:
            first = self._reshaped(centre, exponent)
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

    def _reshaped(self, centre: Centre, exponent: float) -> Centre:
        return Centre(
            self.spectrum,
            exponent,
            centre.n,
            pairs_radius(self.spectrum, exponent, centre.n, self.beta),
            self.relation,
            centre.calibration,
            noisy=centre.noisy,
            sampled=centre.sampled,
        )

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
