"""Plans for a known covariance: the filtered mean alone, or as the centre of a clipped sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean.central.anisotropic.box import GaussianBox
from privmean.central.anisotropic.centre import Centre, Found
from privmean.central.anisotropic.degrees import Progress
from privmean.central.anisotropic.ellipsoid import STEPS, clipped_sums
from privmean.central.anisotropic.lattice import rotate
from privmean.central.anisotropic.spectrum import Spectrum, clip_radius
from privmean.errors import ArgumentError
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.reductions import Floats, People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Gaussian, Loss
from privmean.release import FAILED, OK, Release

BOUND = "the covariance bound holds, so that nearly nobody is filtered out or clipped"
TAILS = "persons are sub-Gaussian with the given covariance"


@dataclass(frozen=True)
class ClipNoise:
    """Noise of the clipped sum: mu of the sum, and for a private n of the count (else 0).

    count_steps: lattice steps a person in the count.
    """

    mean_mu: float
    count_mu: float = 0.0
    count_steps: int = 0

    def losses(self, dimension: int, relation: Relation) -> tuple[Loss, ...]:
        """The bill. One person moves the sum by STEPS, or by 2 STEPS if replaced."""
        moved = float(2 * STEPS if relation == REPLACE_ONE else STEPS)
        bill: list[Loss] = [Gaussian("clipped sum", moved, moved / self.mean_mu, dimension)]
        if self.count_mu:
            steps = float(self.count_steps)
            bill.append(Gaussian("persons", steps, steps / self.count_mu, 1))
        return tuple(bill)

    def scale(self, relation: Relation) -> float:
        """Noise of the sum, in lattice steps."""
        return (2 if relation == REPLACE_ONE else 1) * STEPS / self.mean_mu


@dataclass(frozen=True, eq=False)
class KnownPlan:
    """A filtered mean (`clip` None), or two phases: a filtered centre, then a clipped sum.

    persons: n, public, under replace-one; n_design: the public number that radii and scales use.
    """

    budget: Budget
    spectrum: Spectrum
    centre: Centre
    relation: Relation
    n_design: int
    persons: int | None
    beta: float
    clip: ClipNoise | None = None
    centre_share: float = 1.0
    why: str = ""
    estimator: str = "anisotropic"

    @property
    def dimension(self) -> int:
        return self.spectrum.dimension

    @property
    def method(self) -> str:
        return "average" if self.clip is None else "two-phase"

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The worst-case bill."""
        if self.clip is None:
            return self.centre.losses
        return self.centre.losses + self.clip.losses(self.dimension, self.relation)

    @property
    def noise_error(self) -> float:
        """Predicted root mean square l2 norm of the privacy noise, if nobody is dropped."""
        sigma = self.spectrum.deviations
        if self.clip is None:
            scale = self.centre.expected_noise(self.n_design)
            return scale * math.sqrt(float((sigma**self.centre.exponent).sum()))
        scale = self.clip.scale(self.relation) / STEPS * self.clip_radius(self.n_design)
        return scale * math.sqrt(float(sigma.sum())) / self.n_design

    @property
    def error(self) -> float:
        """Predicted root mean square l2 error at n_design persons, sampling included."""
        sampling = float((self.spectrum.deviations**2).sum()) / self.n_design
        return math.sqrt(sampling + self.noise_error**2)

    def clip_radius(self, persons: float, count: float | None = None) -> float:
        """The clipping radius: expected at `persons`, or as it will be at a released count."""
        noise = self.centre.expected_noise(persons) if count is None else self.centre.noise(count)
        return (
            math.inf
            if math.isinf(noise)
            else clip_radius(
                self.spectrum.deviations, self.centre.exponent, noise, self.n_design, self.beta
            )
        )

    def describe(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "method": self.method,
            "filter": self.centre.filter_name,
            "covariance": "public bound",
            "dimension": self.dimension,
            "n_design": self.n_design,
            "friend radius": self.centre.radius,
            "centre exponent": self.centre.exponent,
            "multiplier": self.centre.calibration.multiplier,
            "count offset": self.centre.calibration.offset,
            "centre share of precision": self.centre_share,
            "predicted error": self.error,
            "predicted noise": self.noise_error,
        }
        if self.clip is not None:
            result["expected clip radius"] = self.clip_radius(self.n_design)
        return result

    def release(
        self, people: People, noise: Noise | None = None, progress: Progress | None = None
    ) -> Release:
        """Run the plan on people. A filter that finds no centre gives a release that failed."""
        source = ExactNoise() if noise is None else noise
        check_people(people, self.dimension, self.persons)
        x = people.matrix()
        if self.spectrum.axes is not None:
            x = rotate(x, self.spectrum.axes, self.spectrum.step)
        found = self.centre.run(x, source, progress)
        if found is None:
            return self._failure(people.columns, source.secure)
        if self.clip is None:
            n = self.persons or max(found.count + self.centre.calibration.offset, 1.0)
            return self._success(people.columns, source.secure, found, n)
        radius = self.clip_radius(self.n_design, found.count)
        step = radius / STEPS * np.sqrt(self.spectrum.deviations)
        sums = clipped_sums(x, found.values, 1 / step)
        drawn = source.gaussian(self.dimension, self.clip.scale(self.relation))
        total = (sums + drawn).astype(np.float64) * step
        n = float(self.persons or 0)
        count_noise = 0.0
        if self.clip.count_mu:
            steps = self.clip.count_steps
            counted = len(x) * steps + int(source.gaussian(1, steps / self.clip.count_mu)[0])
            n, count_noise = max(counted / steps, 1.0), 1 / self.clip.count_mu
        shift = total / n
        scale = self.clip.scale(self.relation) / n
        final = Found(found.values + shift, np.hypot(scale * step, shift * count_noise / n), n)
        return self._success(people.columns, source.secure, final, n)

    def _success(self, columns: tuple[str, ...], secure: bool, found: Found, n: float) -> Release:
        axes = self.spectrum
        sampling = np.sqrt(axes.column_variances(axes.deviations**2) / n)
        noise = np.sqrt(axes.column_variances(found.deviations**2))
        target = "mean of the persons kept" if self.clip is None else "mean clipped to an ellipsoid"
        estimate = axes.columns(found.values)
        return Release(
            estimate=estimate,
            columns=columns,
            estimator=self.estimator,
            guarantee=self._guarantee(self.losses),
            intervals=GaussianBox(estimate, noise, sampling, BOUND, target),
            plan=self,
            persons=self.persons if self.persons is not None else round(n),
            status=OK,
            assumptions=(TAILS,),
            shares=self._shares(),
            secure=secure,
        )

    def _failure(self, columns: tuple[str, ...], secure: bool) -> Release:
        nothing = np.full(self.dimension, np.nan)
        return Release(
            estimate=nothing,
            columns=columns,
            estimator=self.estimator,
            guarantee=self._guarantee(self.centre.losses),
            intervals=GaussianBox(nothing, nothing, nothing, BOUND, "mean", failed=True),
            plan=self,
            persons=self.persons,
            status=FAILED,
            advice=(
                "too few persons lie close together for the given covariance; the covariance may "
                "be too small or in other units, or the persons too few"
            ),
            assumptions=(TAILS,),
            shares=self._shares(),
            secure=secure,
        )

    def _shares(self) -> dict[str, float]:
        if self.clip is None:
            return {"filtered mean": 1.0}
        return {"centre": self.centre_share, "clipped sum": 1 - self.centre_share}

    def _guarantee(self, losses: tuple[Loss, ...]) -> Guarantee:
        public = ("columns", "covariance bound", "n_design")
        if self.relation == REPLACE_ONE:
            public = ("persons", "columns", "covariance bound")
        return Guarantee.of(self.budget, self.relation, losses, public=public).require()


def check_people(people: People, dimension: int, persons: int | None) -> None:
    """The public shape the plan was made for."""
    if len(people.columns) != dimension:
        raise ArgumentError(
            "people",
            f"{len(people.columns)} columns",
            f"the plan is for {dimension}",
            "plan with dimension=the number of columns",
        )
    if people.cap is not None:
        raise ArgumentError(
            "people",
            f"cap={people.cap}",
            "this estimator weighs persons alike",
            "use the estimand over persons",
        )
    if persons is not None and people.size() != persons:
        raise ArgumentError(
            "people",
            f"{people.size()} persons",
            f"the plan is for {persons}",
            "plan with persons=the number in the roster",
        )
