"""Everything about a stream that is decided before the first record arrives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from privmean import validate
from privmean.errors import ArgumentError, InfeasibleError
from privmean.mechanisms.stream_radius import RadiusSearch
from privmean.privacy.budget import REPLACE_ONE, ZERO_OUT, Budget, Relation
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent
from privmean.streams.averaging_targets import RUNNING, AveragingTarget
from privmean.streams.calibrate_noise import largest_mu
from privmean.streams.clamped_error import LAST_WITHIN, ClampedError
from privmean.streams.integer_strategy import Lattice, on_lattice
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.periods import PERIODS
from privmean.streams.power_series import LONGEST
from privmean.streams.prefix_sums import PrefixMechanism
from privmean.streams.strategies import LowerToeplitz, Strategy
from privmean.streams.strategy_candidates import Candidate, candidates, choose, is_loaded
from privmean.streams.strategy_error import ErrorGoal
from privmean.streams.stream_plan import StreamPlan, bill_of

SEARCH_SHARE = Fraction(1, 10)  # of epsilon, when the clipping radius has to be found
DESIGN_STEPS = 1000
SLACK = 0.003
MEMORY = 256
MOST_A_PERIOD = 1 << 16
PERSONS_A_PERIOD = 100


def survey(
    *,
    max_participations: int,
    min_separation: int,
    steps: int,
    goal: str = "rmse",
    from_step: int = 1,
    times: Sequence[int] = (),
    shown: ClampedError | None = None,
    target: AveragingTarget = RUNNING,
    watch: Callable[[str], None] | None = None,
) -> list[Candidate]:
    """Every strategy with its errors, best first; needs no budget but for the goal "shown".

    watch is told each strategy's name before it is evaluated (a million steps take seconds).

    rmse of a candidate is sensitivity times ||B||_F/sqrt(n): multiply by clip_radius * sigma
    (* 2 for "replace-one", * sqrt(dimension) for the l2 error) for real units.
    """
    return candidates(
        Participation(max_participations, min_separation),
        validate.whole("steps", steps, least=1, most=LONGEST),
        ErrorGoal.of(goal, from_step=from_step, times=times, shown=shown),
        watch=watch,
        target=target,
    )


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
    relation = _relation(neighbors)
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    if budget.is_pure:
        raise ArgumentError(
            "delta",
            delta,
            "must be above 0, because a stream uses Gaussian noise",
            "give delta > 0 (such as 1e-6) or rho",
        )
    middle, radius = _region(bounds, clip_radius, center, d)
    search = None
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
    if radius is None:
        price = _search_price(budget)
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
        best = choose(
            found,
            endless=steps is None,
            memory=memory,
            within=last_within if judged else math.inf,
            slack=0.0 if judged and target.running else SLACK,
        )
        strategy = best.strategy
        least = "the least" if judged else "with the least memory, within 0.3 % of the least"
        why = f"{strategy.name}: {least} predicted error of {wanted.describe()} of {design}"
    elif not isinstance(strategy, Strategy):
        raise ArgumentError("strategy", strategy, "is not a strategy", "remove it")
    elif groups is not None and is_loaded(strategy):
        raise ArgumentError(
            "strategy",
            strategy.name,
            "cannot be used for groups",
            "use a strategy with equal column norms",
        )
    elif not target.running and not isinstance(strategy, LowerToeplitz):
        raise ArgumentError(
            "strategy",
            strategy.name,
            f"is not for a {target.describe()}",
            "use a Toeplitz strategy",
        )
    else:
        why = f"{strategy.name}: chosen by the caller"
    limit = max(MOST_A_PERIOD, 8 * every) if kind else every
    lattice = on_lattice(
        strategy,
        participation,
        steps,
        rows_a_step=limit,
        mu=mu,
        movement=movement,
        delta=None if budget.rho is not None else budget.delta,
    )
    mechanism = _mechanism(lattice, budget, relation, d, search)
    return StreamPlan(
        mechanism,
        budget,
        relation,
        middle,
        radius,
        search,
        bill_of(mechanism, search, relation),
        every,
        bool(filler),
        why,
        design,
        target,
        kind,
        limit,
        groups or 0,
        horizon,
        tuple(found),
    )


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


def _mechanism(
    lattice: Lattice,
    budget: Budget,
    relation: Relation,
    dimension: int,
    search: RadiusSearch | None,
) -> PrefixMechanism:
    """The noise that spends the whole budget."""
    movement = (1 if relation == ZERO_OUT else 2) << lattice.row_bits
    sensitivity = lattice.sensitivity(movement, dimension)
    answers = lattice.answers(dimension)

    def noisy(mu: float) -> list[PrivacyEvent]:
        return [Gaussian("noise", sensitivity, sensitivity / mu, answers)]

    mu = largest_mu(noisy, [] if search is None else [search.loss], budget)
    return PrefixMechanism(lattice, dimension, movement, sensitivity / mu)


def _remaining(budget: Budget, search: RadiusSearch | None) -> Budget:
    if search is None:
        return budget
    if budget.rho is not None:
        return Budget(rho=budget.rho - float(search.epsilon) ** 2 / 2)
    assert budget.epsilon is not None
    return Budget(epsilon=budget.epsilon - float(search.epsilon), delta=budget.delta)


def _search_price(budget: Budget) -> Fraction:
    """Epsilon of the radius search: a tenth of epsilon, or of the root of 2 rho."""
    return Fraction(budget.pure_epsilon() * SEARCH_SHARE).limit_denominator(10**6)


def _relation(neighbors: str) -> Relation:
    validate.choice("neighbors", neighbors, [REPLACE_ONE, ZERO_OUT])
    return ZERO_OUT if neighbors == ZERO_OUT else REPLACE_ONE


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
