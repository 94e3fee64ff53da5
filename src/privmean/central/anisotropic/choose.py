"""Candidate plans for a known covariance, and the one with the least predicted error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from privmean.central.anisotropic.calibration import (
    SAFETY,
    FilterCalibration,
    PublishedConstants,
    calibrate,
    calibrate_noisy_degrees,
    count_lattice,
    gaussian_after,
    infeasible,
    lattice_room,
    kept_degree,
)
from privmean.central.anisotropic.centre import Centre, Sampled
from privmean.central.anisotropic.filter import sampled_influence, sampled_threshold
from privmean.central.anisotropic.known import ClipNoise, KnownPlan
from privmean.central.anisotropic.spectrum import (
    Spectrum,
    pair_radius,
    published_radius,
)
from privmean.errors import Infeasible
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.loss import Approximate, Curve

EXPONENTS = (1.0, 1.25, 1.5, 1.75, 2.0)
CENTRE_SHARES = (0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FILTER_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
PERSONS_SHARE = 0.02  # of mu^2 of the clipped sum, for the count under add-remove
LARGEST_PUBLISHED = 10.0  # the published amplification assumes epsilon/21 at most 1/2
SLIP_SHARE = 0.1  # of delta, for a filter that can slip


def pairs_radius(spectrum: Spectrum, exponent: float, n_design: int, beta: float) -> float:
    """The friendship radius in the metric of Sigma^(-exponent/4)."""
    return pair_radius(spectrum.deviations ** (2 - exponent), n_design, beta)


class Candidates:
    """Plans for one budget, spectrum and public shape."""

    def __init__(
        self,
        budget: Budget,
        spectrum: Spectrum,
        relation: Relation,
        n_design: int,
        beta: float,
        sampled_draws: int | None = None,
    ) -> None:
        assert budget.epsilon is not None
        self.budget, self.epsilon, self.delta = budget, budget.epsilon, budget.delta
        self.spectrum, self.relation, self.beta = spectrum, relation, beta
        self.n_design = n_design
        self.persons = n_design if relation == REPLACE_ONE else None
        self.draws = sampled_draws

    def centre(self, epsilon: float, delta: float, exponent: float) -> Centre:
        """A centre behind the basic filter (or the sampled one), within (epsilon, delta)."""
        radius = pairs_radius(self.spectrum, exponent, self.n_design, self.beta)
        dimension = self.spectrum.dimension
        sampled: Sampled | None = None
        if self.draws is None:
            calibration = calibrate(
                epsilon, delta, self.n_design, self.relation, dimension=dimension
            )
        else:
            slip = SLIP_SHARE * delta / (1 + math.exp(epsilon))
            influence = sampled_influence(self.n_design, self.draws, slip)
            if math.isinf(influence):
                raise Infeasible(
                    f"{self.draws} sampled friends a person are too few for delta={delta:g}",
                    "sample more, or leave sampled_degrees out",
                )
            calibration = calibrate(
                epsilon,
                delta,
                self.n_design,
                self.relation,
                dimension=dimension,
                influence=influence,
                slip=slip,
            )
            sampled = Sampled(self.draws, sampled_threshold(self.n_design, self.draws, slip))
        return Centre(self.spectrum, exponent, radius, self.relation, calibration, sampled=sampled)

    def average(self) -> KnownPlan:
        """The filtered mean alone."""
        return self._plan(self.centre(self.epsilon, self.delta, 1.0))

    def published(self) -> KnownPlan:
        """The published algorithm with its constants (add-remove only), for study."""
        if self.relation == REPLACE_ONE or self.epsilon > LARGEST_PUBLISHED:
            raise Infeasible(
                "the published constants are proved for add-remove neighbours and epsilon up to "
                f"{LARGEST_PUBLISHED:g}",
                "use another method",
            )
        constants = PublishedConstants(self.epsilon, self.delta)
        steps = count_lattice(1 / float(constants.e))
        calibration = FilterCalibration(
            steps,
            float(steps / constants.e),
            math.ceil(constants.offset * steps),
            constants.multiplier * (1 + SAFETY),
            (Approximate("published filtered mean", Fraction(self.epsilon), self.delta),),
            law="laplace",
        )
        sigma = self.spectrum.deviations
        radius = published_radius(sigma, self.n_design, self.beta)
        return self._plan(Centre(self.spectrum, 1.0, radius, self.relation, calibration))

    def two_phase(self) -> Iterator[KnownPlan]:
        """A filtered centre, then the clipped sum with all that the composition leaves."""
        whole = gaussian_mu(self.epsilon, self.delta)
        for share in CENTRE_SHARES:
            try:
                first = self.centre(share * self.epsilon, self.delta / 2, 1.0)
            except Infeasible:
                continue
            (curve,) = first.losses
            assert isinstance(curve, Curve)
            mu = gaussian_after(curve, self.epsilon, self.delta, self.spectrum.dimension)
            clip = self._clip(mu)
            if clip is None:
                continue
            for exponent in EXPONENTS:
                yield self._plan(self._reshaped(first, exponent), clip, 1 - (mu / whole) ** 2)

    def noisy(self) -> Iterator[KnownPlan]:
        """The noisy-degree filter where n is public and large enough for it, in both forms."""
        if self.relation != REPLACE_ONE or self.draws is not None:
            return
        slip, bad = 0.05 * self.delta, 0.05 * self.delta
        room = lattice_room(20.0, 2.0**20, self.n_design + self.spectrum.dimension)
        if room > 0.01 * self.epsilon:
            return
        mu = gaussian_mu(self.epsilon - room, 0.9 * self.delta * (1 - room)) * (1 - SAFETY)
        for share in (1.0, *CENTRE_SHARES):
            clip = None if share == 1.0 else self._clip(mu * math.sqrt(1 - share))
            for part in FILTER_SHARES:
                try:
                    noisy, calibration = calibrate_noisy_degrees(
                        mu * math.sqrt(share),
                        slip,
                        bad,
                        self.n_design,
                        dimension=self.spectrum.dimension,
                        filter_share=part,
                    )
                except Infeasible:
                    continue
                if kept_degree(noisy, self.n_design, self.beta) > 0.995 * self.n_design:
                    continue
                radius = pairs_radius(self.spectrum, 1.0, self.n_design, self.beta)
                first = Centre(self.spectrum, 1.0, radius, self.relation, calibration, noisy=noisy)
                if clip is None:
                    yield self._plan(first)
                    continue
                for exponent in EXPONENTS:
                    yield self._plan(self._reshaped(first, exponent), clip, share)

    def _reshaped(self, centre: Centre, exponent: float) -> Centre:
        return Centre(
            self.spectrum,
            exponent,
            pairs_radius(self.spectrum, exponent, self.n_design, self.beta),
            self.relation,
            centre.calibration,
            noisy=centre.noisy,
            sampled=centre.sampled,
        )

    def _clip(self, mu: float) -> ClipNoise | None:
        if mu <= 0:
            return None
        if self.relation == REPLACE_ONE:
            return ClipNoise(mu)
        count_mu = mu * math.sqrt(PERSONS_SHARE)
        mean_mu = mu * math.sqrt(1 - PERSONS_SHARE)
        return ClipNoise(mean_mu, count_mu, count_lattice(1 / count_mu))

    def _plan(self, centre: Centre, clip: ClipNoise | None = None, share: float = 1.0) -> KnownPlan:
        return KnownPlan(
            self.budget,
            self.spectrum,
            centre,
            self.relation,
            self.n_design,
            self.persons,
            self.beta,
            clip,
            share,
        )

    def best(self, plans: Iterable[KnownPlan]) -> KnownPlan:
        """The plan with the least predicted error; Infeasible if none can work."""
        working = [plan for plan in plans if math.isfinite(plan.error)]
        if not working:
            raise infeasible(self.n_design, self.epsilon, self.relation)
        return min(working, key=lambda plan: plan.error)
