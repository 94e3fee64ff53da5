"""The plan of a Winsorized mean: its public numbers, and the release that follows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.central.concentration import Bounded, Concentration, UnknownScale
from privmean.central.winsorized_run import Run
from privmean.central.winsorized_stages import PublicFacts, Stages
from privmean.data.public_shape import PublicShape
from privmean.estimators.means.clipped_mean import ClippedMeans
from privmean.inference.assumptions import dependence
from privmean.inference.ratio_with_missing import TOO_FEW
from privmean.inference.status import FAILED, OUTLIERS_UNCHECKED, release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_argmax import GaussianArgmax, NoisyArgmax
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome, estimand_of


@dataclass(frozen=True)
class WinsorizedPlan(PlanBase):
    """A Winsorized mean with everything public decided.

    losses: the worst-case accounting; noise: predicted standard deviation of the privacy noise a
    column (in units of the scale that is found, for `UnknownScale`).
    """

    budget: Budget
    facts: PublicFacts
    stages: Stages
    ranges: tuple[tuple[float, float], ...] | None
    concentration: Concentration
    fallback: float | tuple[float, ...] | None
    estimator = "Winsorized mean"

    @property
    def shape(self) -> PublicShape:
        known = self.facts.n if self.facts.relation == REPLACE_ONE else None
        return PublicShape.of(self.facts.columns, known, self.facts.n)

    @property
    def fixed(self) -> bool:
        """Whether every run bills these very lines, whatever it finds."""
        return isinstance(self.concentration, Bounded)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.stages.events

    @property
    def noise(self) -> tuple[float, ...]:
        return self.stages.noise

    @property
    def rationale(self) -> str:
        stages, d = self.stages, self.facts.columns
        law = "Laplace" if stages.kind == "laplace" else "Gaussian"
        if isinstance(self.concentration, Bounded):
            return f"known limits need no location step: one {law} release of the clipped sum"
        steps = []
        if stages.scale is not None:
            steps.append("scale from pairs of people")
        if stages.location is None:
            steps.append("clipping around the given range")
        elif isinstance(stages.location, NoisyArgmax | GaussianArgmax):
            steps.append("location by noisy argmax over the given range")
        else:
            steps.append("location by a stable histogram")
        if stages.recenter is not None:
            steps.append("recentring")
        across = "" if d == 1 else f" for {d} columns (the cheapest composition)"
        return f"{', '.join(steps)}, then clipped sums with {law} noise{across}"

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors at a guessed standard deviation between people, for planning."""
        guess = validate.positive("guess_sd", guess_sd)
        # the pair scale finds 0.93 to 1.86 standard deviations, 1.3 on geometric average
        unit = 1.3 * guess if isinstance(self.concentration, UnknownScale) else 1.0
        noise = unit * math.sqrt(sum(s * s for s in self.noise) / len(self.noise))
        sampling = guess * math.sqrt(self.facts.design_effect / self.facts.n)
        bias = unit * math.sqrt(sum(b * b for b in self.facts.radii.beyond) / len(self.noise))
        return {
            "rmse": math.hypot(noise, sampling, bias),
            "noise": noise,
            "sampling": sampling,
            "bias_at_most": bias,
            "failure_probability": self.stages.failure,
        }

    def describe(self) -> dict[str, Any]:
        facts, stages = self.facts, self.stages
        public = "n" if facts.relation == REPLACE_ONE else "n_guess"
        result: dict[str, Any] = {
            public: facts.n,
            "columns": facts.columns,
            "neighbors": facts.relation,
            "budget": self.budget.to_dict(),
            "noise": stages.kind,
            "tau": list(facts.radii.tau),
            "clip_radius": [a + b for a, b in zip(facts.radii.tau, stages.slack, strict=True)],
            "predicted_noise_sd": list(stages.noise),
            "predicted_failure": stages.failure,
            "clipping_bias_at_most": list(facts.radii.beyond),
            "mechanisms": [loss.to_dict() for loss in stages.events],
        }
        if stages.location is not None:
            result["bin_half_width"] = list(facts.radii.half)
        if stages.scale is not None:
            result["unit"] = "radii are multiples of the scale found"
        if stages.location is not None and hasattr(stages.location, "threshold"):
            result["threshold"] = stages.location.threshold / 2 ** getattr(
                stages.location, "bits", 0
            )
        return result

    def run(self, curator: Curator) -> Outcome:
        people = curator.people
        run = Run(self.facts, self.stages, self.ranges, self.limits, self.fallback)
        units = run.units(curator)
        centers, found = run.locate(curator, units)
        last = run.clip(curator, centers, units)
        relation = self.facts.relation
        means = ClippedMeans(
            tuple(last),
            None if relation != REPLACE_ONE else self.facts.n,
            self.facts.design_effect,
            "mean" if self.limits is None else "mean within bounds",
            self.concentration.words,
            self.limits,
            tuple(b * u for b, u in zip(self.facts.radii.beyond, units, strict=False)),
            isinstance(self.concentration, Bounded) and self.concentration.declared,
            tuple(found),
        )
        unplaced = any(item is None for item in last)
        diagnostics: dict[str, Any] = {
            "center": [math.nan if c is None else c for c in centers],
            "weight": [math.nan if m is None else m.present for m in last],
        }
        if self.stages.scale is not None:
            diagnostics["scale"] = units
        return Outcome(
            means.estimate,
            means,
            n=means.n,
            status=release_status(means.statuses),
            statuses=means.statuses,
            advice=self._advice(means.statuses, unplaced, means.bound_advice(people.columns)),
            assumptions=(dependence(self.facts.design_effect), self.concentration.words),
            shares=dict(self.stages.shares),
            diagnostics=diagnostics,
            estimand=estimand_of(people.max_records),
            follows_from_answers=True,
        )

    # --- words ------------------------------------------------------------------------------------
    @property
    def limits(self) -> tuple[tuple[float, float], ...] | None:
        """The known limits of each column's values, under `Bounded`."""
        concentration = self.concentration
        if isinstance(concentration, Bounded):
            return concentration.limits(self.facts.columns)
        return None

    @property
    def public(self) -> tuple[str, ...]:
        shape = "n" if self.facts.relation == REPLACE_ONE else "design number"
        return ("columns", shape, "settings and assumption")

    @staticmethod
    def _advice(statuses: Sequence[str], unplaced: bool, at_bound: Sequence[str]) -> str:
        if FAILED not in statuses:
            fallback = OUTLIERS_UNCHECKED in statuses
            said = "No location was found for some column; the given fallback center was used."
            return " ".join([*at_bound, *([said] if fallback else [])])
        if not unplaced:
            return TOO_FEW
        return (
            "No bin of the histogram stood out. Give a range, raise epsilon or add people. A "
            "second try is a second charge."
        )
