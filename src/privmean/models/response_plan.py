"""What plans for responses at public times have in common: one response is one unit.

The people of the road are the responses here, one row each, in the order of the times; the release
is a curve at public points.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privmean.data.array_table import ArrayPersonTable
from privmean.data.list_columns import doubles
from privmean.data.person_table import Floats
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.models.curve_release import CurveRelease, SmoothedIntervals
from privmean.noise.noise_source import Noise
from privmean.pipeline import Plan, PlanBase, execute
from privmean.privacy.budget import Budget
from privmean.privacy.ledger import Ledger
from privmean.release.outcome import Outcome
from privmean.release.release import Release


class ResponsePlanFields(Plan, Protocol):
    """A plan of a curve, as its release reads it."""

    @property
    def points(self) -> Floats: ...

    @property
    def responses(self) -> int: ...


class ResponsePlan(PlanBase):
    """A plan whose unit is a response. points: where the curve is read, public."""

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

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Root mean square error over the points by privacy noise, whatever the responses."""
        noise = float(np.sqrt((self.noise**2).mean()))
        return {"rmse": noise, "noise": noise}

    def told(self, estimate: Floats, intervals: SmoothedIntervals, share: str) -> Outcome:
        """The outcome in the words of responses."""
        return Outcome(
            estimate,
            intervals,
            n=self.responses,
            assumptions=("responses are independent", "times are public and fixed"),
            shares={share: 1.0},
            estimand="mean response by time",
            follows_from_answers=True,
        )

    def release(  # type: ignore[override]
        self: ResponsePlanFields,
        responses: npt.ArrayLike,
        noise: Noise | None = None,
        *,
        ledger: Ledger | None = None,
        level: float = 0.95,
    ) -> CurveRelease:
        """Charge the ledger, if one is given, and release the curve.

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
        made = execute(self, people, noise=noise, ledger=ledger, label="fixed design", level=level)
        kept = {item.name: getattr(made, item.name) for item in fields(Release)}
        names = tuple(f"{x:.6g}" for x in self.points)
        return CurveRelease(**kept | {"columns": names}, at=tuple(self.points.tolist()))
