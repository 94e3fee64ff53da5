"""The plan of a stream, made before the first record: strategy, noise, accounting, forecast."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from privmean import validate
from privmean.array_types import Floats
from privmean.data.person_table import L2Ball
from privmean.errors import ArgumentError, InfeasibleError
from privmean.mechanisms.private_location import RadiusSearch
from privmean.privacy.budget import REPLACE_ONE, ZERO_OUT, Budget, Relation
from privmean.privacy.compose import stated
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.streams.compare_strategies import (
    Candidate,
    StreamForecast,
    candidates,
    choose,
    is_loaded,
    norms_of,
    require_toeplitz,
)
from privmean.streams.integer_strategy import (
    Lattice,
    PrefixMechanism,
    budget_of,
    mechanisms_within,
    on_lattice,
)
from privmean.streams.participation import PERIODS
from privmean.streams.strategies import Strategy
from privmean.streams.strategy_error import (
    LAST_WITHIN,
    RUNNING,
    AveragingTarget,
    ClampedError,
    ErrorGoal,
)
from privmean.streams.toeplitz_matrices import LONGEST, Participation

PUBLIC = (
    "who arrives when: person ids, their order and number",
    "the number of steps, of records in the mean and of records that wait",
    "the clipping region (unless the accounting has it)",
)
NOTE = (
    "protects the values of one person's records at fixed public times; it does not hide that, "
    "when or how often a person took part"
)


class PlanFacts(ABC):
    """What plans of streams of every kind say."""

    budget: Budget
    relation: Relation
    events: tuple[PrivacyEvent, ...]

    @property
    @abstractmethod
    def estimator(self) -> str:
        """What is released, by which method."""

    @property
    @abstractmethod
    def public(self) -> tuple[str, ...]:
        """What is not protected."""

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of all releases of the stream together."""
        return Guarantee.of(
            self.budget, self.relation, self.events, public=self.public, note=NOTE
        ).require()


@dataclass(frozen=True)
class StreamPlan(PlanFacts):
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
    def public(self) -> tuple[str, ...]:
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
        return norms_of(self.strategy, steps, self.target) * unit / self.every

    @property
    def outlook(self) -> StreamForecast:
        """What the run, or the first steps of an endless one, will look like."""
        sds = self.noise_sd(self.lattice.steps or self.design_steps)
        return StreamForecast.of(sds, self.clip_radius, self.dimension)

    def to_dict(self) -> dict[str, Any]:
        """Everything a stopped stream needs to go on, as plain data."""
        search = self.search
        further: dict[str, Any] = {}
        if not self.target.running:
            further["target"] = asdict(self.target)
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
        search = None
        calls: list[PrivacyEvent] = [mechanism.loss]
        if values["search"] is not None:
            persons, price = values["search"]
            search = RadiusSearch(persons, Fraction(price))
            calls = [search.loss, mechanism.loss]
        same = ("relation", "clip_radius", "every", "filler", "design_steps")
        period, most = values.get("period", ("", values["every"]))
        groups, horizon = values.get("groups", (0, None))
        plan = cls(
            mechanism=mechanism,
            budget=Budget(**values["budget"]),
            center=tuple(values["center"]),
            search=search,
            events=stated(calls, values["relation"]),
            rationale=values["why"],
            target=AveragingTarget(**values.get("target", {})),
            period=period,
            most_a_step=most,
            groups=groups,
            horizon=horizon,
            **{name: values[name] for name in same},
        )
        assert plan.guarantee
        return plan


def ball_step(radius: float, row_bits: int) -> float:
    """The lattice step of rows: the radius is exactly 2^row_bits of them."""
    return math.ldexp(radius, -row_bits)


SEARCH_SHARE = Fraction(1, 10)  # of epsilon, when the clipping radius has to be found
DESIGN_STEPS = 1000
SLACK = 0.003
MEMORY = 256
MOST_A_PERIOD = 1 << 16
PERSONS_A_PERIOD = 100


def plan(
    *,
    max_participations: int,
    min_separation: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    steps: int | None = None,
    design_steps: int | None = None,
    goal: str = "shown",
    from_step: int = 1,
    times: Sequence[int] = (),
    last_within: float = LAST_WITHIN,
    strategy: Strategy | None = None,
    dimension: int = 1,
    bounds: tuple[float, float] | None = None,
    clip_radius: float | None = None,
    center: float | Sequence[float] = 0.0,
    search_persons: int | None = None,
    neighbors: str = REPLACE_ONE,
    release_every: int = 1,
    filler: bool = False,
    memory: int = MEMORY,
    window: int | None = None,
    half_life: float | None = None,
    period: str | None = None,
    n_per_period: int | None = None,
    groups: int | None = None,
) -> StreamPlan:
    """Plan a private mean over a stream: running, windowed, decayed, or of calendar periods.

    Parameters
    ----------
    max_participations, min_separation : int
        The most steps of a person, and the smallest difference between two of them; enforced by the
        stream.
    epsilon, delta, rho : float
        Budget of all releases together: (epsilon, delta) with delta > 0, or zCDP rho.
    steps : int, optional
        Horizon, beyond which the stream refuses to run. Default: no known end.
    design_steps : int, optional
        Length of the run for which the strategy is chosen, if `steps` is not given.
    goal : {"shown", "rmse", "final", "times"}, default "shown"
        Error that matters: of clamped releases, of the noise, at the last step, or at `times`.
    from_step : int, default 1
        First step of "shown" and "rmse", which are root mean squares.
    times : list of int, optional
        The steps of "times".
    last_within : float, default 1.75
        With "shown": largest noise of the last step, relative to the least possible.
    strategy : Strategy, optional
        Default: the least predicted error.
    dimension : int, default 1
        Number of columns.
    bounds : (float, float), optional
        Public bounds of the values of one column, in their unit.
    clip_radius, center : float
        Public L2 ball of the rows, instead of bounds. The default center is 0.0.
    search_persons : int, optional
        Without bounds: a tenth of epsilon finds a radius from the first records of so many people,
        before any release.
    neighbors : {"replace-one", "zero-out"}, default "replace-one"
        Values replaced by any others, or by the center at half the noise.
    release_every : int, default 1
        Arrivals per release; the rows of one step are summed.
    filler : bool, default False
        Take a step without a row if nobody may pass, so that time goes on.
    memory : int, default 256
        The most numbers per coordinate that the strategy may keep.
    window : int, optional
        Release the mean of the last steps, so many, instead of all.
    half_life : float, optional
        Release a decayed mean; the weight of a row halves every so many steps.
    period : {"hour", "day", "week", "month"}, optional
        A step is one such period of public times, and is taken when the next one begins. The row of
        a person is the mean of the person's records in it.
    n_per_period : int, optional
        Public guess of n in a period. People beyond eight times that (at least 65,536) are
        excluded.
    groups : int, optional
        For `GroupMeanStream`: public guess of the number of groups; `steps` counts all groups.

    Returns
    -------
    StreamPlan
        Strategy, noise, predicted error and privacy guarantee.

    Raises
    ------
    ArgumentError, InfeasibleError
        Before anything is read.

    Privacy
    -------
    Reads no data and charges nothing.

    Notes
    -----
    Source: Kalinin, Najar, Roth and Lampert (2026), Algorithm 1; docs/proofs/continual.md.

    Examples
    --------
    from privmean.streams import plan

    budget = dict(epsilon=1, delta=1e-6)
    made = plan(max_participations=4, min_separation=8, bounds=(0, 5), steps=64, **budget)
    print(made.rationale)
    """
    participation = Participation(max_participations, min_separation)
    target, kind, every_guess = _aim(window, half_life, period, n_per_period)
    d = validate.whole("dimension", dimension, least=1, most=LONGEST)
    every = every_guess or validate.whole("release_every", release_every, least=1)
    if kind and (release_every != 1 or filler):
        raise ArgumentError(
            "period",
            period,
            "cannot be combined with release_every or filler",
            "remove release_every and filler",
        )
    memory = validate.whole("memory", memory, least=1)
    if steps is not None:
        steps = validate.whole("steps", steps, least=1, most=LONGEST)
    validate.choice("neighbors", neighbors, [REPLACE_ONE, ZERO_OUT])
    relation = ZERO_OUT if neighbors == ZERO_OUT else REPLACE_ONE
    budget = budget_of(epsilon, delta, rho)
    middle, radius = _region(bounds, clip_radius, center, d)
    if search_persons is not None:
        search_persons = validate.whole("search_persons", search_persons, least=1)
        if radius is not None:
            raise ArgumentError(
                "search_persons", search_persons, "requires a radius that is found privately",
                "remove it; bounds or clip_radius are public",
            )  # fmt: skip
    if radius is None and (kind or groups is not None):
        name, given = ("period", period) if kind else ("groups", str(groups))
        raise ArgumentError(name, given, "requires a public region", "give bounds or clip_radius")
    horizon = None
    if groups is not None:
        groups = validate.whole("groups", groups, least=1)
        horizon, steps = steps, None  # each group may begin at any time
        if horizon is not None and design_steps is None:
            design_steps = max(1, horizon // groups)
    search = None
    if radius is None:
        # a tenth of epsilon, or of the root of 2 rho
        price = Fraction(budget.pure_epsilon() * SEARCH_SHARE).limit_denominator(10**6)
        search = RadiusSearch.priced(price, search_persons)
    mu = _remaining(budget, search).gaussian_mu()
    if mu <= 0:
        raise InfeasibleError(
            f"no Gaussian noise keeps {budget.describe()}", "give a larger delta or another epsilon"
        )
    movement = 1 if relation == ZERO_OUT else 2
    shown = ClampedError(movement / mu / every, d, last_within)
    wanted = ErrorGoal.of(goal, from_step=from_step, times=times, shown=shown)
    design = steps or _design_steps(design_steps, participation, wanted, target)
    found: list[Candidate] = []
    if strategy is None:
        judged = wanted.shown is not None
        found = candidates(participation, design, wanted, thorough=not judged, target=target)
        if groups is not None:
            found = [item for item in found if not is_loaded(item.strategy)]
        strategy = choose(
            found,
            endless=steps is None,
            memory=memory,
            within=last_within if judged else math.inf,
            slack=0.0 if judged and target.running else SLACK,
        ).strategy
        least = "the least" if judged else "with the least memory, within 0.3 % of the least"
        why = f"{strategy.name}: {least} predicted error of {wanted.describe()} of {design}"
    else:
        _require_usable(strategy, target, by_group=groups is not None)
        why = f"{strategy.name}: chosen by the caller"
    limit = max(MOST_A_PERIOD, 8 * every) if kind else every
    lattice = on_lattice(
        strategy,
        participation,
        steps,
        rows_a_step=limit,
        mu=mu,
        movement=movement,
        budget=budget,
    )
    fixed = [] if search is None else [search.loss]
    rows = movement << lattice.row_bits
    (mechanism,) = mechanisms_within(budget, fixed, lattice, d, rows, relation=relation)
    return StreamPlan(
        mechanism=mechanism,
        budget=budget,
        relation=relation,
        center=middle,
        clip_radius=radius,
        search=search,
        events=stated([*fixed, mechanism.loss], relation),
        every=every,
        filler=bool(filler),
        rationale=why,
        design_steps=design,
        target=target,
        period=kind,
        most_a_step=limit,
        groups=groups or 0,
        horizon=horizon,
        found=tuple(found),
    )


def _require_usable(strategy: object, target: AveragingTarget, *, by_group: bool) -> None:
    """Refuse a strategy of the caller that does not fit."""
    if not isinstance(strategy, Strategy):
        raise ArgumentError("strategy", strategy, "is not a strategy", "remove it")
    if by_group and is_loaded(strategy):
        raise ArgumentError(
            "strategy",
            strategy.name,
            "cannot be used for groups",
            "use a strategy with equal column norms",
        )
    if not target.running:
        require_toeplitz(strategy, target)


def _aim(
    window: int | None, half_life: float | None, period: str | None, persons: int | None
) -> tuple[AveragingTarget, str, int]:
    """What is estimated, the kind of period, and how many people one is guessed to have."""
    target = AveragingTarget.of(window, half_life)
    if period is None:
        if persons is not None:
            raise ArgumentError("n_per_period", persons, "requires period", "remove it")
        return target, "", 0
    kind = validate.choice("period", period, PERIODS)
    guess = PERSONS_A_PERIOD if persons is None else persons
    return target, kind, validate.whole("n_per_period", guess, least=1)


def _remaining(budget: Budget, search: RadiusSearch | None) -> Budget:
    if search is None:
        return budget
    if budget.rho is not None:
        return Budget(rho=budget.rho - float(search.epsilon) ** 2 / 2)
    assert budget.epsilon is not None
    return Budget(epsilon=budget.epsilon - float(search.epsilon), delta=budget.delta)


def _design_steps(
    given: int | None, participation: Participation, goal: ErrorGoal, target: AveragingTarget
) -> int:
    if given is not None:
        return validate.whole("design_steps", given, least=1, most=LONGEST)
    latest = max(goal.times) if goal.times else 10 * goal.first
    latest = max(latest, 10 * min(target.reach, 10**5))
    return max(DESIGN_STEPS, min(participation.most * participation.separation, 10**6), latest)


def _region(
    bounds: tuple[float, float] | None,
    clip_radius: float | None,
    center: float | Sequence[float],
    dimension: int,
) -> tuple[tuple[float, ...], float | None]:
    if bounds is not None:
        if clip_radius is not None or not (isinstance(center, int | float) and center == 0):
            raise ArgumentError(
                "bounds",
                bounds,
                "cannot be combined with clip_radius",
                "give bounds or clip_radius",
            )
        if dimension != 1:
            raise ArgumentError(
                "bounds", bounds, "require exactly one column", "use clip_radius and center"
            )
        low, high = validate.bounds("bounds", bounds)
        middle = low + (high - low) / 2
        return (middle,), max(high - middle, middle - low)
    values = list(center) if isinstance(center, Iterable) else [center] * dimension
    if len(values) != dimension:
        raise ArgumentError(
            "center", center, f"must have {dimension} numbers", "give one per column"
        )
    middle_row = tuple(validate.number("center", item) for item in values)
    if clip_radius is None:
        if any(middle_row):
            raise ArgumentError("center", center, "requires a radius", "give clip_radius")
        return middle_row, None
    radius = validate.positive("clip_radius", clip_radius)
    if not 2.0**-900 < radius < 2.0**900:
        raise ArgumentError("clip_radius", clip_radius, "is out of range", "rescale the values")
    return middle_row, radius
