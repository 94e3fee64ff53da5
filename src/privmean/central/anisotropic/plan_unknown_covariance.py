"""The split of the variance stage's budget, decided from public numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from privmean.central.anisotropic.calibrate_filter import TooFewPeople, centre_parts, gaussian_after
from privmean.central.anisotropic.column_blocks import MOST_SUMS, Stage, mean_stages
from privmean.central.anisotropic.column_scales import WINDOW, ScaleNoise
from privmean.central.anisotropic.unknown_covariance import UnknownPlan
from privmean.errors import InfeasibleError
from privmean.mechanisms.noisy_quantile import FINE, WIDE, Counting
from privmean.plurals import count_phrase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_mu, rho_delta
from privmean.privacy.loss_distribution import PrivacyProfile

CHOICE_ERROR = 1.5  # octaves by which a chosen column may fall short of the best
COUNT_NOISE = 0.03  # of the pairs: the noise wanted in the counts that find the radii
MOST_COUNT_NOISE = 0.04  # of the pairs: beyond this a bisection can run away
UNIT_SHARE = 0.05  # of rho, for the unit if no range of scales is public
NOMINAL_SPREAD = 8.0  # tr W of the reference spectra, for choosing shares only
REFINEMENTS = (0.0, 0.05, 0.1, 0.2, 0.3)  # of the sums' mu^2, where the center has few people
ALL_NOISE = 4.0  # octaves of noise a column up to which every column gets a scale of its own


@lru_cache(maxsize=256)
def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which a rho-zCDP stage is (epsilon, delta)-DP."""
    low, high = 0.0, epsilon
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_delta(middle, epsilon) <= delta else (low, middle)
    return low


def plan_unknown(
    budget: Budget,
    persons: int,
    dimension: int,
    *,
    beta: float,
    scale_range: tuple[float, float] | None,
) -> UnknownPlan:
    """The plan for an unknown covariance. Raises InfeasibleError from public numbers."""
    if budget.neighbors != REPLACE_ONE:
        raise InfeasibleError(
            "an unknown covariance requires neighbors='replace-one'",
            "use neighbors='replace-one', or give a public covariance bound",
        )
    epsilon, delta = budget.epsilon, budget.delta
    assert epsilon is not None
    half = persons // 2
    parts = centre_parts(half, epsilon)
    stages = mean_stages(epsilon, delta, -(-half // parts), dimension)

    def made(stages: tuple[Stage, ...], epsilon: float, pooled: bool, blind: bool) -> UnknownPlan:
        half_delta = delta / 2 if pooled else delta
        rho = largest_rho(epsilon - 1e-9, half_delta * (1 - 1e-9)) * (1 - 1e-9)
        noise = scale_noise(rho, (persons - half) // 2, dimension, scale_range, beta, blind=blind)
        return UnknownPlan(
            budget, persons, dimension, noise, stages, scale_range, beta, pooled, parts
        )

    for blind in (False, True):  # scales of columns need more people than one radius for all
        best = made(stages, epsilon, False, blind)
        pooled = [(made((item,), item.epsilon, True, blind), item) for item in stages]
        # with what the center alone would leave, pooled plans look better than they are
        for plan, item in sorted(pooled, key=lambda found: nominal_noise(found[0])):
            if nominal_noise(plan) >= nominal_noise(best):
                break
            # the scales' curve may lie above the center's, so what may follow is found once more
            (curve, *_) = plan.events
            assert isinstance(curve, PrivacyProfile)
            mu = gaussian_after(curve, epsilon, delta, MOST_SUMS * dimension)
            share = 1 - (mu / gaussian_mu(epsilon, delta)) ** 2
            if mu > 0:
                found = replace(plan, stages=(replace(item, mu=mu, share=share),))
                best = min(best, found, key=nominal_noise)
        if math.isfinite(nominal_noise(best)):
            shares = REFINEMENTS if best.centre_parts > 1 else (0.0,)
            plans = (replace(best, refinement=share) for share in shares)
            return min(plans, key=lambda plan: plan.noise_share)
    raise TooFewPeople(
        f"{count_phrase(persons, 'person', 'is', 'are')} too few to find scales at "
        f"epsilon={epsilon:g}",
        "use more people, a larger epsilon, or give a public bound on the covariance",
    )


def nominal_noise(plan: UnknownPlan) -> float:
    """Noise of a plan in units of the people's reach, for a spectrum as in the examples.

    The center's inflation is taken as NOMINAL_SPREAD; noise in the scales of all columns costs
    exp((octaves ln 2)^2/4), knowing few or none a rule of thumb that grows with the dimension.
    """

    def stage_noise(stage: Stage) -> float:
        s = stage.calibration.expected_multiplier(plan.centred) / plan.centred
        return math.sqrt(1 + 8 * NOMINAL_SPREAD * s**2) / stage.mu

    stage = plan.scale_noise
    counts = [item for item in (stage.centre, stage.clip, stage.rest) if item is not None]
    if max(item.deviation for item in counts) > MOST_COUNT_NOISE * max(stage.pairs, 1):
        return math.inf
    octaves = stage.value_deviation * math.log(2)
    blind = math.exp(octaves**2 / 4)
    if stage.top < plan.dimension:
        blind = (1 if stage.top else 2) * math.exp(1.0) * plan.dimension**0.25
    return min(stage_noise(item) for item in plan.stages) * blind / plan.summed


def scale_noise(
    rho: float,
    pairs: int,
    dimension: int,
    scale_range: tuple[float, float] | None,
    beta: float,
    *,
    blind: bool = False,
) -> ScaleNoise:
    """Shares of rho: what the radii need, then values (and the choice, if columns are chosen).

    blind: no column gets a scale of its own, and all of rho goes to one radius.
    """
    unit = None
    if scale_range is None:
        unit = Counting(UNIT_SHARE * rho, WIDE)
        window = WINDOW + math.log2(math.sqrt(dimension)) + 1.5
        rho *= 1 - UNIT_SHARE
    else:
        window = math.log2(scale_range[1] / scale_range[0])
    need = FINE.rounds / (2 * (COUNT_NOISE * max(pairs, 1)) ** 2) / rho
    radius = min(max(need, 0.04), 0.3)
    move = window / pairs if pairs else math.inf
    everybody = move * math.sqrt(dimension / (2 * (1 - 2.25 * radius) * rho))
    if everybody <= ALL_NOISE and not blind:
        top, values, choice, rest = dimension, (1 - 2.25 * radius) * rho, 0.0, None
    else:
        radius = min(radius, 0.2)
        left = (1 - 3.25 * radius) * rho
        choice, values = 0.7 * left, 0.3 * left
        top = 0 if blind else choices(move, choice, dimension, beta)
        rest = Counting(radius * rho if top else rho)
    own = Counting(radius * rho) if top else None
    middle = Counting(radius / 4 * rho) if top else None  # a median may be twice as noisy
    return ScaleNoise(dimension, pairs, window, top, values, choice, own, own, middle, rest, unit)


def choices(move: float, rho: float, dimension: int, beta: float) -> int:
    """The most columns, below all, whose choice is right within CHOICE_ERROR octaves."""
    k = 0
    while k < dimension - 1:
        error = 2 * move * math.sqrt((k + 1) / (8 * rho)) * math.log(dimension * (k + 1) / beta)
        if error > CHOICE_ERROR:
            break
        k += 1
    return k
