"""A mean under a public covariance: the filtered mean alone, or as the center of clipped sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.person_table import PersonTable, collect_rows
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.anisotropic.calibrate_filter import (
    ClipStep,
    Powers,
    clip_radius,
    clipped_sums,
    expected_chain,
    step_of,
)
from privmean.estimators.anisotropic.spectrum import NORMS, SAME, GaussianBox, Spectrum
from privmean.estimators.means.choose_vector_method import instead
from privmean.inference.interval import NoInterval
from privmean.inference.status import FAILED
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered_mean import (
    RADIUS,
    REACH,
    FilterCalibration,
    FilteredMean,
    KeptMean,
    Metric,
    Rows,
    to_lattice,
    usable_rows,
)
from privmean.mechanisms.noisy_vector import LatticeSums
from privmean.pipeline import PlanBase, Step
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome


@dataclass(frozen=True, eq=False)
class Found:
    """A released center along the axes: values, noise deviations, and the noisy count."""

    values: Floats
    deviations: Floats
    count: float


@dataclass(frozen=True)
class Centre:
    """A filtered mean in the metric of Sigma^(-exponent/4), all of it decided before data.

    persons: the public number that radius and noise are made for. radius: people closer than this
    are friends; calibration: noise and accounting.
    """

    spectrum: Spectrum
    exponent: float
    n: int
    radius: float
    relation: Relation
    calibration: FilterCalibration

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.calibration.events

    def noise(self, count: float) -> float:
        """Noise of the center in its metric, given the noisy count of kept people."""
        return 2 * self.radius * self.calibration.multiplier / count

    @property
    def expected_noise(self) -> float:
        """The same at the count expected if nobody is dropped; infinite if that count fails."""
        multiplier = self.calibration.expected_multiplier(self.n)
        return 2 * self.radius * multiplier / self.n

    def rows(self, x: Floats) -> Rows:
        """People (along the axes) on the lattice of this center."""
        steps = self._steps()
        return Rows((Metric(to_lattice(x, steps)),), usable_rows(x, steps))

    def mechanism(self, parts: int = 1, work: float | None = None) -> FilteredMean:
        """What is asked of `rows`; see `FilteredMean`."""
        return FilteredMean(self.calibration, self.relation, parts=parts, work=work)

    def found(self, noisy: KeptMean | None) -> Found | None:
        """The noisy center along the axes, or None (a paid outcome)."""
        if noisy is None:
            return None
        unit = 1 / self._steps()
        return Found(noisy.means[0] * unit, noisy.deviations[0] * unit, noisy.count)

    def _steps(self) -> Floats:
        return np.asarray(RADIUS / self.radius * self.spectrum.deviations ** (-self.exponent / 2))


BOUND = "the covariance bound holds, so that almost no one is filtered out or clipped"
TAILS = "people are sub-Gaussian with the given covariance"


@dataclass(frozen=True)
class KnownPlan(PlanBase):
    """A filtered mean (no `clips`), or two phases: a filtered center, then clipped sums around it.

    persons: n, public, under replace-one; n_guess: the public number that radii and scales use.
    centre_parts: the center is that of one in so many people, by roster position or, where that is
    private, by a secret coin of each person.
    """

    budget: Budget
    spectrum: Spectrum
    centre: Centre
    n_guess: int
    n: int | None
    beta: float
    clips: tuple[ClipStep, ...] = ()
    centre_share: float = 1.0
    centre_parts: int = 1
    nothing: float | None = None

    @property
    def estimator(self) -> str:
        return f"anisotropic (least l2 error {NORMS[self.spectrum.scales]})"

    @property
    def over_plain(self) -> float:
        """The predicted error over the sampling error of the plain mean, in the norm minimized."""
        return self.error / math.sqrt(self.powers.total(2.0) / self.n_guess)

    @property
    def dimension(self) -> int:
        return self.spectrum.dimension

    @property
    def method(self) -> str:
        return "two-phase" if self.clips else "average"

    @property
    def rationale(self) -> str:
        how = (
            "the mean of the people kept by a filter of close pairs"
            if not self.clips
            else f"a filtered center ({self.centre_share:.0%} of the precision), then "
            + ("a clipped sum" if len(self.clips) == 1 else f"{len(self.clips)} clipped sums")
        )
        sampling = math.sqrt(self.powers.total(2.0) / self.n_guess)
        return (
            f"known covariance: {how}, basic filter; predicted l2 error "
            f"{NORMS[self.spectrum.scales]} {self.error:.3g} (sampling {sampling:.3g}, privacy "
            f"noise {self.noise_error:.3g}){instead(self.nothing, self.error)}"
        )

    @property
    def deviations(self) -> tuple[float, ...]:
        """Of the columns, by the bound, in the units in which errors count."""
        axes = self.spectrum
        return tuple(np.sqrt(axes.scaled_variances(axes.deviations**2)).tolist())

    @property
    def steps(self) -> tuple[Step, ...]:
        if not self.clips:
            return (Step("filtered mean", 1, (self.centre,)),)
        left, one = 1 - self.centre_share, len(self.clips) == 1
        prices = [step.mean_mu**2 + step.count_mu**2 for step in self.clips]
        sums = [
            Step(
                "clipped sum" if one else f"clipped sum {k}",
                left * price / sum(prices),
                (self._sums(item),),
            )
            for k, (item, price) in enumerate(zip(self.clips, prices, strict=True), 1)
        ]
        return (Step("center", self.centre_share, (self.centre,)), *sums)

    def _sums(self, step: ClipStep) -> LatticeSums:
        return LatticeSums(step.events(self.dimension, self.relation))

    @cached_property
    def powers(self) -> Powers:
        return Powers(self.spectrum.deviations)

    @cached_property
    def noise_error(self) -> float:
        """Predicted root mean square l2 norm of the privacy noise, if nobody is dropped."""
        _, noise = self._chain()
        exponent = self.clips[-1].exponent if self.clips else self.centre.exponent
        return noise * math.sqrt(self.powers.total(exponent))

    def _chain(self) -> tuple[list[float], float]:
        first, exponent = self.centre.expected_noise, self.centre.exponent
        if math.isinf(first):
            return [math.inf] * len(self.clips), math.inf
        return expected_chain(
            self.powers, self.clips, first, exponent, self.relation, self.n_guess, self.beta
        )

    @property
    def error(self) -> float:
        """Predicted root mean square l2 error at n_guess people, sampling included."""
        sampling = self.powers.total(2.0) / self.n_guess
        return math.sqrt(sampling + self.noise_error**2)

    @property
    def error_share(self) -> float:
        """The same over the distance of one person's own row from the mean, by the bound."""
        return self.error / math.sqrt(self.powers.total(2.0))

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause, in the norm minimized: the covariance bound stands in for
        the guess, which is the unit where errors count in standard deviations."""
        unit = validate.positive("guess_sd", guess_sd)
        if self.spectrum.scales == SAME:
            unit = 1.0
        sampling = math.sqrt(self.powers.total(2.0) / self.n_guess)
        found = {"rmse": self.error, "sampling": sampling, "privacy_noise": self.noise_error}
        return {name: unit * value for name, value in found.items()}

    def describe(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "method": self.method,
            "filter": "basic",
            "covariance": "public bound",
            "norm": f"l2 error {NORMS[self.spectrum.scales]}",
            "dimension": self.dimension,
            "n_guess": self.n_guess,
            "friend radius": self.centre.radius,
            "center exponent": self.centre.exponent,
            "multiplier": self.centre.calibration.multiplier,
            "count offset": self.centre.calibration.offset,
            "center share of precision": self.centre_share,
            "predicted error": self.error,
            "predicted noise": self.noise_error,
            "predicted error, giving nothing": self.nothing,
        }
        if self.clips:
            result["expected clip radii"] = self._chain()[0]
            result["people of the center"] = self.centre.n
        return result

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(self.dimension, self.n, self.n_guess)

    @property
    def public(self) -> tuple[str, ...]:
        if self.relation == REPLACE_ONE:
            return ("n", "columns", "covariance bound")
        return ("columns", "covariance bound", "n_guess")

    def check_table(self, people: PersonTable) -> None:
        weighed_alike(people)

    def run(self, curator: Curator) -> Outcome:
        """A filter that finds no center gives a private failure."""
        x = collect_rows(curator.people, size_is_public=self.relation == REPLACE_ONE)
        x = self.spectrum.along(x)
        first = x[:: self.centre_parts] if self.relation == REPLACE_ONE else x
        # the center, of the people at some positions; where positions shift as a person comes or
        # goes, of those whom a secret coin of their own chooses
        parts, work = self.centre_parts, None
        if self.relation == REPLACE_ONE:
            parts, work = 1, float(self.centre.n) ** 2 * self.dimension
        asked = self.centre.mechanism(parts, work)
        found = self.centre.found(curator.ask(asked, self.centre.rows(first)))
        if found is None:
            return self._failure()
        if not self.clips:
            n = self.n or max(found.count + self.centre.calibration.offset, 1.0)
            return self._success(found, n)
        return self._clipped(curator, x, found)

    def _clipped(self, curator: Curator, x: Floats, found: Found) -> Outcome:
        """Clipped sums, each around the center that the one before released."""
        sigma, centre = self.spectrum.deviations, found.values
        noise, exponent = self.centre.noise(found.count), self.centre.exponent
        n, count_noise = float(self.n or 0), 0.0
        deviation = found.deviations
        for item in self.clips:
            radius = clip_radius(
                self.powers, noise, exponent, self.n_guess, self.beta, item.exponent
            )
            step = step_of(radius, sigma, item.exponent)
            sums = clipped_sums(x, centre, 1 / step)
            exact = [sums]
            if item.count_mu:  # the number of people is bought with this sum
                exact.append(np.array([len(x) * item.count_steps]))
            noisy, *counted = curator.ask(self._sums(item), exact)
            if item.count_mu:
                n, count_noise = max(int(counted[0][0]) / item.count_steps, 1.0), 1 / item.count_mu
            shift = noisy.astype(np.float64) * step / n
            centre = centre + shift
            noise, exponent = item.noise(radius, self.relation, n), item.exponent
            deviation = np.hypot(noise * sigma ** (exponent / 2), shift * count_noise / n)
        return self._success(Found(centre, deviation, n), n)

    def _success(self, found: Found, n: float) -> Outcome:
        axes = self.spectrum
        sampling = np.sqrt(axes.column_variances(axes.deviations**2) / n)
        noise = np.sqrt(axes.column_variances(found.deviations**2))
        target = "mean clipped to an ellipsoid" if self.clips else "mean of the people kept"
        estimate = axes.columns(found.values)
        return Outcome(
            estimate,
            GaussianBox(estimate, noise, sampling, BOUND, target),
            n=self.n if self.n is not None else round(n),
            assumptions=(TAILS,),
            shares=self.shares,
            follows_from_answers=True,
        )

    def _failure(self) -> Outcome:
        nothing = np.full(self.dimension, np.nan)
        return Outcome(
            nothing,
            NoInterval(self.dimension, assumption=BOUND),
            n=self.n,
            status=FAILED,
            advice=(
                "Too few people lie close together for the given covariance. The covariance may "
                "be too small or in other units, or the values may lie beyond the range of "
                f"{REACH / RADIUS:.0e} friend radii from 0: shift their origin."
            ),
            assumptions=(TAILS,),
            shares=self.shares,
            follows_from_answers=True,
        )


def weighed_alike(people: PersonTable) -> None:
    """Refuse the mean over records: people are weighed alike."""
    if people.max_records is not None:
        raise ArgumentError(
            "people",
            f"max_records={people.max_records}",
            "requires people weighted equally",
            "use estimand='people'",
        )
