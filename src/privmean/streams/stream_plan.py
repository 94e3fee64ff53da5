"""The plan of one stream: strategy, noise, accounting and predicted error."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.data.person_table import L2Ball
from privmean.mechanisms.stream_radius import RadiusSearch
from privmean.privacy.budget import Budget, Relation
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.neighbor_relations import stated
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.streams.averaging_targets import RUNNING, AveragingTarget
from privmean.streams.clamped_error import clamped_square, first_usable
from privmean.streams.integer_strategy import Lattice
from privmean.streams.power_series import Floats
from privmean.streams.prefix_sums import PrefixMechanism
from privmean.streams.strategies import Strategy
from privmean.streams.strategy_candidates import Candidate, evaluate, norms_of
from privmean.streams.strategy_error import RMSE

PUBLIC = (
    "who arrives when: person ids, their order and number",
    "the number of steps, of records in the mean and of records that wait",
    "the clipping region (unless the accounting has it)",
)
NOTE = (
    "protects the values of one person's records at fixed public times; it does not hide that, "
    "when or how often a person took part"
)


@dataclass(frozen=True)
class StreamForecast:
    """What a run of `steps` steps will look like; noise in the unit of the values.

    shown_rmse: root mean squared error over all steps of releases clamped to the region, for a
    truth at its center. last_sd: deviation of the noise at the last step. small_from: the first
    step from which on the noise stays below a tenth of the region's width; None: not in this run.
    in_radii: the clipping radius is not known yet, and is the unit.
    """

    steps: int
    shown_rmse: float
    last_sd: float
    small_from: int | None
    in_radii: bool = False

    def __str__(self) -> str:
        unit = " clip radii" if self.in_radii else ""
        small = (
            f"noise stays above 10% of the region in all {self.steps:,} steps"
            if self.small_from is None
            else f"noise is below 10% of the region from step {self.small_from:,} on"
        )
        return (
            f"{small}; root mean squared error over {self.steps:,} steps "
            f"{self.shown_rmse:.4g}{unit}, noise sd at the last step {self.last_sd:.4g}{unit}"
        )


@dataclass(frozen=True)
class StreamPlan:
    """All that is fixed before the first record of a stream; reads no data.

    Attributes
    ----------
    mechanism : PrefixMechanism
        Strategy and noise scale.
    budget : Budget
        Budget of all releases together.
    relation : {"replace-one", "zero-out"}
        Neighbors.
    center : tuple of float
        Center of the clipping bounds.
    clip_radius : float, optional
        L2 clipping radius; None if it is found privately.
    search : RadiusSearch, optional
        The private search for the radius.
    events : tuple of PrivacyEvent
        The mechanism calls.
    every : int
        Arrivals per step.
    filler : bool
        Whether a step without a row is taken if nobody may pass.
    rationale : str
        Why the strategy was chosen.
    design_steps : int
        Steps for which the strategy was chosen.
    target : AveragingTarget
        What is averaged: all rows, a window, or with decay.
    period : str
        Calendar period of a step.
    most_a_step : int
        The most rows of a step.
    groups : int
        Public guess of the number of groups; 0 for none.
    horizon : int, optional
        The most steps of all groups together.
    found : tuple of Candidate
        The strategies that were compared.

    Privacy
    -------
    The unit is one person with all records. Neighbors have the same arrivals (ids, order, number);
    the values of one person are replaced by any others ("replace-one") or by the center
    ("zero-out"). All releases together are within the budget, for any values, also if later records
    depend on earlier releases.
    """

    mechanism: PrefixMechanism
    budget: Budget
    relation: Relation
    center: tuple[float, ...]
    clip_radius: float | None
    search: RadiusSearch | None
    events: tuple[PrivacyEvent, ...]
    every: int
    filler: bool
    rationale: str
    design_steps: int
    target: AveragingTarget = RUNNING
    period: str = ""
    most_a_step: int = 1
    groups: int = 0
    horizon: int | None = None
    found: tuple[Candidate, ...] = field(default=(), repr=False, compare=False)

    @property
    def estimator(self) -> str:
        return f"{self.target.describe()} by matrix factorization"

    @property
    def lattice(self) -> Lattice:
        return self.mechanism.lattice

    @property
    def strategy(self) -> Strategy:
        """The strategy as it runs, after rounding to the lattice."""
        return self.lattice.strategy

    @property
    def dimension(self) -> int:
        return self.mechanism.dimension

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of all releases of the stream together."""
        return Guarantee.of(
            self.budget, self.relation, self.events, public=self.public, note=NOTE
        ).require()

    @property
    def public(self) -> tuple[str, ...]:
        """What is not protected."""
        times = ("the time of each arrival",) if self.period else ()
        groups = ("the group of each arrival",) if self.groups else ()
        return (*PUBLIC, *times, *groups)

    def ball(self, radius: float | None = None) -> L2Ball:
        """The clipping ball on the lattice; the radius is needed when it was found privately."""
        size = self.clip_radius if radius is None else radius
        assert size is not None
        return L2Ball(self.center, size, ball_step(size, self.lattice.row_bits))

    def noise_sd(self, steps: int) -> Floats:
        """Standard deviation of the noise of one coordinate at steps 1..n, shape (n,).

        In units of the values; of the clipping radius if that is found privately. Every step is
        taken to hold `every` records.
        """
        size = self.clip_radius or 1.0
        unit = self.mechanism.noise_step * ball_step(size, self.lattice.row_bits)
        profile: Floats = norms_of(self.strategy, steps, self.target) * unit / self.every
        return profile

    @property
    def outlook(self) -> StreamForecast:
        """What the run, or the first steps of an endless one, will look like."""
        steps = self.lattice.steps or self.design_steps
        size = self.clip_radius or 1.0
        sds = self.noise_sd(steps)
        mean = float(np.mean(clamped_square(sds / size, self.dimension)))
        return StreamForecast(
            steps,
            size * math.sqrt(mean),
            float(sds[-1]),
            first_usable(sds, size, self.dimension),
            self.clip_radius is None,
        )

    def describe(self) -> dict[str, Any]:
        """Public facts of the plan."""
        steps = self.lattice.steps or self.design_steps
        pattern = self.lattice.participation
        errors = evaluate(self.strategy, pattern, steps, RMSE, self.target)
        return {
            "estimator": self.estimator,
            "strategy": errors.to_dict(),
            "outlook": asdict(self.outlook),
            "max_participations": self.lattice.participation.most,
            "min_separation": self.lattice.participation.separation,
            "steps": self.lattice.steps,
            "dimension": self.dimension,
            "center": list(self.center),
            "clip_radius": self.clip_radius,
            "release_every": self.every,
            "target": self.target.describe(),
            "period": self.period or None,
            "groups": self.groups or None,
            "filler": self.filler,
            "lattice_bits": self.lattice.bits,
            "noise_scale": self.mechanism.scale,
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything a stopped stream needs to go on, as plain data."""
        search = self.search
        further: dict[str, Any] = {}
        if not self.target.running:
            further["target"] = self.target.to_dict()
        if self.period:
            further["period"] = [self.period, self.most_a_step]
        if self.groups:
            further["groups"] = [self.groups, self.horizon]
        return {
            **further,
            "lattice": self.lattice.to_dict(),
            "dimension": self.dimension,
            "movement": self.mechanism.movement,
            "scale": self.mechanism.scale,
            "budget": self.budget.to_dict(),
            "relation": self.relation,
            "center": list(self.center),
            "clip_radius": self.clip_radius,
            "search": None if search is None else [search.n, str(search.epsilon)],
            "every": self.every,
            "filler": self.filler,
            "why": self.rationale,
            "design_steps": self.design_steps,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> StreamPlan:
        """The plan stored by `to_dict`; its accounting is rebuilt and checked."""
        mechanism = PrefixMechanism(
            Lattice.from_dict(values["lattice"]),
            values["dimension"],
            values["movement"],
            values["scale"],
        )
        search = values["search"]
        found = None if search is None else RadiusSearch(search[0], Fraction(search[1]))
        plan = cls(
            mechanism,
            Budget(**values["budget"]),
            values["relation"],
            tuple(values["center"]),
            values["clip_radius"],
            found,
            bill_of(mechanism, found, values["relation"]),
            values["every"],
            values["filler"],
            values["why"],
            values["design_steps"],
            AveragingTarget(**values.get("target", {})),
            *values.get("period", ("", values["every"])),
            *values.get("groups", (0, None)),
        )
        assert plan.guarantee
        return plan


def ball_step(radius: float, row_bits: int) -> float:
    """The lattice step of rows: the radius is exactly 2^row_bits of them."""
    return math.ldexp(radius, -row_bits)


def bill_of(
    mechanism: PrefixMechanism, search: RadiusSearch | None, relation: Relation
) -> tuple[PrivacyEvent, ...]:
    """The mechanism calls of a stream, in their order."""
    calls = (mechanism.loss,) if search is None else (search.loss, mechanism.loss)
    return stated(calls, relation)
