"""Mean curves from responses at public times, one response a unit.

With cells, clipped responses are summed in disjoint cells of time at the full budget each (a
response is in one public cell), then smoothed, and the curve can be read anywhere. Without, the
whole budget goes to the points asked for: one weighted sum a point. Source: Roth and Avella-Medina,
"Differential Privacy with Dependent Data" (2025), Definitions 4.7-4.8, in the clipped form of
docs/proofs/longitudinal.md, section 5.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.array_table import ArrayPersonTable
from privmean.data.list_columns import doubles
from privmean.data.person_table import ClipInterval, collect_rows
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.curve_release import CurveRelease, SmoothedIntervals
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.weighted_sums import WeightedSums, whole_weights
from privmean.noise.noise_source import Noise
from privmean.pipeline import Plan, PlanBase, Step, execute
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.ledger import Ledger
from privmean.release.release import as_kind
from privmean.release.result_numbers import Outcome


@dataclass(frozen=True, eq=False)
class ResponsePlan(PlanBase):
    """A plan whose unit is a response. points: where the curve is read, public."""

    settings: FixedDesign
    budget: Budget
    points: Floats
    unit = "response"
    public = ("times", "number of responses", "settings")

    @property
    @abstractmethod
    def responses(self) -> int:
        """Their public number."""

    @property
    @abstractmethod
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point."""

    @property
    def shape(self) -> PublicShape:
        return PublicShape(("response",), self.responses)

    def details(self) -> dict[str, Any]:
        return {
            "responses": self.responses,
            "bounds": list(self.settings.bounds),
            "bandwidth": self.settings.bandwidth,
            "predicted_noise_sd": self.noise.tolist(),
        }

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Root mean square error over the points by privacy noise, whatever the responses."""
        noise = float(np.sqrt((self.noise**2).mean()))
        return {"rmse": noise, "noise": noise}

    @property
    def box(self) -> ClipInterval:
        return ClipInterval(*self.settings.bounds)

    @property
    def strength(self) -> dict[str, Any]:
        """The keyword of a mechanism of sums that has the whole budget."""
        if self.budget.rho is not None:
            return {"mu": self.budget.gaussian_mu() * (1 - 1e-9)}
        return {"epsilon": self.budget.pure_epsilon()}

    def told(self, estimate: Floats, weights: Floats, first: Floats, spread: Floats) -> Outcome:
        """The outcome in the words of responses; see `SmoothedIntervals`."""
        intervals = SmoothedIntervals(
            estimate, weights, first, spread, self.budget.rho is not None, self.settings.bounds,
            smoothed=bool(self.settings.bandwidth),
        )  # fmt: skip
        return Outcome(
            estimate,
            intervals,
            n=self.responses,
            assumptions=("responses are independent", "times are public and fixed"),
            shares=self.shares,
            estimand="mean response by time",
            follows_from_answers=True,
        )

    def release(  # type: ignore[override]
        self,
        responses: npt.ArrayLike,
        noise: Noise | None = None,
        *,
        ledger: Ledger | None = None,
        label: str | None = None,
        analyst: str = "",
        level: float = 0.95,
    ) -> CurveRelease:
        """Charge the ledger, if one is given, and release the curve. label, analyst: for its entry.

        responses: shape (n,), in the order of the times; NaN (missing) counts as the middle of the
        bounds, since times and numbers are public.
        """
        values = doubles(responses)
        if values.shape != (self.responses,):
            raise ArgumentError(
                "responses",
                values.shape,
                f"must be {self.responses} numbers",
                "give one response per time",
            )
        people = ArrayPersonTable(values[:, None], ("response",))
        made = execute(
            cast("Plan", self),
            people,
            noise=noise,
            ledger=ledger,
            label=label or "fixed design",
            about={"analyst": analyst} if analyst else None,
            level=level,
        )
        names = tuple(f"{x:.6g}" for x in self.points)
        return as_kind(made, CurveRelease, columns=names, at=tuple(self.points.tolist()))


@dataclass(frozen=True, eq=False)
class PointsPlan(ResponsePlan):
    """Weights and noise of a curve at a few points. whole: weights of the responses at every
    point, as whole numbers, shape (responses, points)."""

    whole: Integers
    estimator = "weighted means of clipped responses"

    rationale = "the whole budget goes to the points asked for, which are public"

    @cached_property
    def sums(self) -> WeightedSums:
        return WeightedSums("points", self.whole, self.box, **self.strength)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (Step("points", 1, (self.sums,)),)

    @property
    def weights(self) -> Floats:
        """Of every response at every point, shape (points, responses); rows add up to 1."""
        result: Floats = (self.whole / self.whole.sum(axis=0, keepdims=True)).T
        return result

    @property
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point."""
        scale = self.sums.noise[0] * (1.0 if self.sums.epsilon is None else np.sqrt(2))
        result: Floats = self.box.radius * scale / self.whole.sum(axis=0)
        return result

    @property
    def responses(self) -> int:
        return len(self.whole)

    def details(self) -> dict[str, Any]:
        return {"points": self.points.tolist(), **super().details()}

    def run(self, curator: Curator) -> Outcome:
        box = self.box
        values = collect_rows(curator.people, size_is_public=True)[:, 0]
        found = curator.ask(self.sums, self.sums.exact(values))
        z = np.clip([item.value for item in found], -1.0, 1.0)
        # the square has noise of its own; what it says is kept positive
        unit = [item.square + item.square_noise for item in found] - z * z
        spread = box.radius**2 * np.clip(unit, 0.0, 1.0) * (self.weights**2).sum(axis=1)
        estimate = box.middle + box.radius * z
        first = box.radius * np.array([item.value_noise for item in found])
        return self.told(estimate, np.eye(len(found)), first, spread)


@dataclass(frozen=True)
class FixedDesign:
    """Mean curve from responses at public times, with one response per privacy unit.

    Parameters
    ----------
    bounds : (float, float)
        Public bounds of a response; values outside are clipped.
    cells : int, optional
        Number of cells of equal width, from which the curve can be read anywhere. Without it the
        budget goes to the points `at`.
    bandwidth : float, default 0.0
        Bandwidth of the Gaussian smoother, in units of time; 0 for none.
    at : list of float, optional
        Points of the curve. Default: the middles of the cells.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    The unit is one response, under replace-one, for any responses. Times and roster are public. The
    loss is at most the budget given to `plan`. Not for times that belong to people.

    Examples
    --------
    times = np.linspace(0, 1, 2000)  # public
    responses = np.sin(6 * times) + np.random.default_rng(1).normal(0, 0.3, 2000)
    design = pm.FixedDesign(bounds=(-2, 2), cells=20, bandwidth=0.05)
    curve = design.plan(pm.Budget(epsilon=1.0), times=times).release(responses)
    curve.at, curve.estimate
    """

    bounds: tuple[float, float]
    cells: int | None = None
    bandwidth: float = 0.0
    at: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", validate.bounds("bounds", self.bounds))
        if self.cells is not None:
            object.__setattr__(self, "cells", validate.whole("cells", self.cells, least=1))
        elif self.at is None:
            raise ArgumentError(
                "cells", None, "or at is required", "use cells=20, or at=(0.3,) for one point"
            )
        validate.keep(self, validate.nonnegative, "bandwidth")
        if self.at is not None:
            points = tuple(validate.number("at", x) for x in validate.listed("at", self.at))
            if not points or not self.bandwidth:
                raise ArgumentError(
                    "at", self.at, "requires points and a bandwidth", "give bandwidth=0.1"
                )
            object.__setattr__(self, "at", points)

    def plan(self, budget: Budget, *, times: npt.ArrayLike) -> FixedDesignPlan | PointsPlan:
        """times: shape (n,), public. Everything but the responses is decided here."""
        moments = np.asarray(times, dtype=float)
        if moments.ndim != 1 or len(moments) == 0 or not np.isfinite(moments).all():
            raise ArgumentError(
                "times",
                moments.shape,
                "must be one finite number per response",
                "give one finite time per response",
            )
        if self.cells is None:
            points = np.array(self.at)
            raw = _kernel(moments, points, self.bandwidth)
            return PointsPlan(self, budget, points, whole_weights(raw))
        low, high = float(moments.min()), float(moments.max())
        width = (high - low) / self.cells or 1.0
        cell = np.clip(np.floor((moments - low) / width), 0, self.cells - 1).astype(np.int64)
        counts = np.bincount(cell, minlength=self.cells)
        used = np.flatnonzero(counts)
        middles: Floats = np.array([low + (k + 0.5) * width for k in used.tolist()])
        points = np.array(self.at) if self.at is not None else middles
        weights = _weights(points, middles, counts[used], self.bandwidth)
        return FixedDesignPlan(self, budget, points, cell, used, counts[used], weights)


def _weights(
    points: Floats, middles: Floats, counts: npt.NDArray[np.int64], bandwidth: float
) -> Floats:
    """Public weights of the cells' means, shape (points, cells); rows add up to 1."""
    if not bandwidth:
        return np.eye(len(middles))
    raw = _kernel(middles, points, bandwidth).T * counts[None, :]
    result: Floats = raw / raw.sum(axis=1, keepdims=True)
    return result


def _kernel(places: Floats, points: Floats, bandwidth: float) -> Floats:
    """Gaussian weights, shape (places, points); the nearest place has weight 1, however far."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.minimum(((places[:, None] - points[None, :]) / bandwidth) ** 2, 1e300)
    result: Floats = np.exp(-0.5 * (square - np.min(square, axis=0, keepdims=True)))
    return result


@dataclass(frozen=True, eq=False)
class FixedDesignPlan(ResponsePlan):
    """Cells, weights and noise of a curve at public times. cell: of every response; used: cells
    that have responses, counts: how many; weights: of the cells' means at every point."""

    cell: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    weights: Floats
    rationale = (
        "every response is in one public cell, so that each cell is released at the full budget"
    )

    @property
    def estimator(self) -> str:
        return "clipped means of cells" + (", smoothed" if self.settings.bandwidth else "")

    @property
    def sums(self) -> ClippedSums:
        return ClippedSums("cell", REPLACE_ONE, 1, **self.strength)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Parallel composition: cells hold disjoint responses at public places, so that one
        response changes one cell, and the dearest cell is the accounting."""
        return (Step("each cell", 1, (self.sums,)),)

    def details(self) -> dict[str, Any]:
        return {"cells": len(self.used), **super().details()}

    @property
    def responses(self) -> int:
        return len(self.cell)

    @property
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point (all responses present)."""
        each = self.box.radius * self.sums.value_sd / self.counts
        result: Floats = np.sqrt((self.weights**2) @ (each**2))
        return result

    def run(self, curator: Curator) -> Outcome:
        values = collect_rows(curator.people, size_is_public=True)
        box, sums = self.box, self.sums
        over = sums.over([box])
        parts = [
            ArrayPersonTable(values[self.cell == place], curator.people.columns)
            for place in self.used
        ]
        cells = curator.parallel(
            "cells",
            parts,
            lines=len(sums.events),
            join=lambda bills: bills[0][0],  # every cell costs the same
        )
        means, spreads = [], []
        for one, count in zip(cells, self.counts.tolist(), strict=True):
            (noisy,) = one.ask(over, over.exact(one.people.interval_sums([box])))
            z = min(1.0, max(-1.0, noisy.value / count))
            means.append(box.middle + box.radius * z)
            # the square has noise of its own; what it says of one cell is kept positive
            unit = (noisy.square + noisy.square_noise) / count - z * z
            spreads.append(box.radius**2 * min(1.0, max(unit, 0.0)) / count)
        estimate = self.weights @ np.array(means)
        first = sums.noise()[0] * box.radius / self.counts
        return self.told(estimate, self.weights, first, np.array(spreads))
