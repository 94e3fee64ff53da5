"""The plan of withhold-release: levels, their intervals, their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.mechanisms.histograms import LocationSearch
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import stated
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent
from privmean.streams.buffered_toeplitz import fit_scaled
from privmean.streams.fit_strategies import largest_mu
from privmean.streams.integer_strategy import Lattice, PrefixMechanism, on_lattice
from privmean.streams.strategies import Strategy
from privmean.streams.strategy_error import RMSE
from privmean.streams.toeplitz_matrices import Floats, Participation

ONCE = Participation(1, 1)
DESIGN_PERSONS = 1000

PUBLIC = (
    "who arrives when: person ids, their order and number",
    "when a level opens (it depends on counts of records alone)",
)
NOTE = (
    "protects the values of one person's records at fixed public times; it does not hide that, "
    "when or how often a person took part"
)


@dataclass(frozen=True)
class Level:
    """Level l releases the average of a person's records 2^(l-1)+1 .. 2^l, when the last is there.

    width: how many records that are. searches: a private interval a column, or () for the public
    region; averages: bin averages needed before the one attempt. radius: half the interval.
    """

    index: int
    width: int
    searches: tuple[LocationSearch, ...]
    averages: int
    radius: Floats
    mechanism: PrefixMechanism


@dataclass(frozen=True)
class WithholdPlan:
    """Everything about a withhold-release stream that is fixed before the first record.

    Guarantees
    ----------
    unit: one person with all records. neighbors: same arrivals; the values of one person replaced
    by any others. Each person adds one average to each level and one record set to at most one bin
    a level; all levels are billed together: Gaussian parts add mu^2. Each level has one paid
    attempt at an interval, whether or not it succeeds. Nothing is assumed about the values.

    unsearched: widths of the levels that a private interval would have helped, were there more
    people; decided from public numbers alone.
    """

    levels: tuple[Level, ...]
    dimension: int
    lower: Floats
    upper: Floats
    n: int | None
    budget: Budget
    events: tuple[PrivacyEvent, ...]
    unsearched: tuple[int, ...] = ()

    estimator = "withhold-release"

    @property
    def rationale(self) -> str:
        text = (
            f"{len(self.levels)} levels, billed together; no separation between the records of one "
            "person is needed"
        )
        if self.unsearched:
            text += (
                f"; {len(self.unsearched)} of them use the public bounds, because {self.n} "
                "people are too few for a private interval"
            )
        return text

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about all releases of the stream together."""
        return Guarantee.of(
            self.budget, REPLACE_ONE, self.events, public=PUBLIC, note=NOTE
        ).require()

    def describe(self) -> dict[str, Any]:
        """Public facts of the plan."""
        return {
            "estimator": self.estimator,
            "levels": [
                {
                    "records": level.width,
                    "radius": level.radius.tolist(),
                    "private_interval": bool(level.searches),
                    "averages_needed": level.averages,
                    "strategy": level.mechanism.lattice.name,
                }
                for level in self.levels
            ],
            "mechanisms": [loss.to_dict() for loss in self.events],
        }


def plan_levels(
    *,
    max_records: int,
    bounds: Sequence[tuple[float, float]] | tuple[float, float],
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    persons: int | None = None,
    sd: float | None = None,
    interval_share: float = 0.25,
    beta: float = 0.05,
    late: float = 0.0,
    strategy: Strategy | Lattice | None = None,
) -> WithholdPlan:
    """Plan a withhold-release stream.

    Parameters
    ----------
    max_records
        Records of one person that are used; the rest is ignored.
    bounds
        Public limits of the values: one pair, or one pair a column.
    people
        How many people can come; later ones are ignored. None: no known number.
    sd
        A sub-Gaussian parameter of single records around the mean: then levels whose averages
        concentrate well buy a private interval for `interval_share` of the budget, and release
        nothing before it is found; a level for which `persons` are too few uses the public bounds.
        None: the public bounds serve every level and the whole budget goes into the sums. Wrong
        values of `sd` cost accuracy, never privacy.
    beta
        Probability that an interval or a projection fails, all together.
    late
        Noise of the levels: sigma_l^2 proportional to width^-late; 0 favors early steps, 1 the
        end.
    strategy
        For the sums of each level, or its integer form that a plan has; by default the best found
        for one participation.

    Source: Kalinin, Najar, Roth and Lampert (2026), Algorithms 2 to 4, with joint accounting;
    proofs/continual-withhold-release.md.
    """
    most = validate.whole("max_records", max_records, least=1)
    pairs = _pairs(bounds)
    d = len(pairs)
    lower = np.array([pair[0] for pair in pairs])
    upper = np.array([pair[1] for pair in pairs])
    if persons is not None:
        persons = validate.whole("persons", persons, least=1)
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    if budget.is_pure:
        raise ArgumentError(
            "delta",
            delta,
            "must be above 0, because the sums use Gaussian noise",
            "give delta > 0 (such as 1e-6) or rho",
        )
    if not 0 <= validate.number("late", late) <= 1:
        raise ArgumentError(
            "late", late, "must lie in [0, 1]", "use 0 for early steps, 1 for late steps"
        )
    widths = [max(1, (1 << index) >> 1) for index in range(most.bit_length())]
    half = (upper - lower) / 2
    searches, radii, needed, unsearched = _intervals(
        widths, half, budget, sd=sd, share=interval_share, beta=beta, persons=persons
    )
    design = persons or DESIGN_PERSONS
    weights = [width**late for width in widths]
    shares = [math.sqrt(weight / sum(weights)) for weight in weights]  # mu_l/mu
    if isinstance(strategy, Lattice):
        lattice = strategy
    else:
        lattice = on_lattice(
            strategy or fit_scaled(ONCE, design, RMSE, buffers=3),
            ONCE,
            persons,
            rows_a_step=1,
            mu=budget.gaussian_mu() * min(shares) / (4 * math.sqrt(d)),
            movement=2,
            delta=None if budget.rho is not None else budget.delta,
        )
    fixed = [loss for group in searches for item in group for loss in item.events]
    mechanisms = _mechanisms(lattice, d, widths, shares=shares, budget=budget, fixed=fixed)
    levels = tuple(
        Level(index, width, searches[index], needed[index], radii[index], mechanisms[index])
        for index, width in enumerate(widths)
    )
    losses = stated((*fixed, *(item.loss for item in mechanisms)), REPLACE_ONE)
    return WithholdPlan(levels, d, lower, upper, persons, budget, losses, unsearched)


def _pairs(bounds: Any) -> list[tuple[float, float]]:
    bounds = validate.listed("bounds", bounds, "give (lower, upper), or one pair a column")
    first = bounds[0] if len(bounds) else None
    if isinstance(first, int | float):
        return [validate.bounds("bounds", bounds)]
    if not len(bounds):
        raise ArgumentError("bounds", bounds, "is empty", "give one pair per column")
    return [validate.bounds("bounds", pair) for pair in bounds]


def _intervals(
    widths: list[int],
    half: Floats,
    budget: Budget,
    *,
    sd: float | None,
    share: float,
    beta: float,
    persons: int | None,
) -> tuple[list[tuple[LocationSearch, ...]], list[Floats], list[int], tuple[int, ...]]:
    """Searches, radii and averages needed a level, and the widths that lack people for a search.

    Only levels that gain by a search have one, and only those that can open.
    """
    plain: tuple[LocationSearch, ...] = ()
    if sd is None:
        return [plain] * len(widths), [half] * len(widths), [0] * len(widths), ()
    spread = validate.positive("sd", sd)
    validate.fraction("interval_share", share)
    validate.fraction("beta", beta)
    if budget.rho is not None:
        raise ArgumentError(
            "rho", budget.rho, "requires delta for private intervals", "give epsilon and delta"
        )
    assert budget.epsilon is not None
    d = len(half)
    parts = d * len(widths)
    factor = math.sqrt(2 * math.log(2 * (persons or DESIGN_PERSONS) * parts / beta))
    gaining = [w for w in widths if (3 * spread * factor / math.sqrt(w) < 0.9 * half).all()]
    whole = Fraction(share).limit_denominator(1000) * Fraction(budget.epsilon)

    def group(width: int, levels: int) -> tuple[LocationSearch, ...]:
        """The searches of one level, where so many levels have some."""
        tau, count = spread * factor / math.sqrt(width), d * levels
        price, delta = whole / count, budget.delta / 2 / count
        return (LocationSearch(f"interval of {width} records", tau, price, delta),) * d

    # A bin of a level takes the records that a person lends to one block, so that there are at
    # most as many averages as people. Fewer searches share the budget of all: each needs fewer
    # averages then, and the largest blocks gain most.
    kept = len(gaining)
    while kept and persons and group(1, kept)[0].averages_needed(beta / parts) > persons:
        kept -= 1
    first = len(widths) - kept  # what gains are the last levels: blocks grow
    searches = [group(w, kept) if k >= first else plain for k, w in enumerate(widths)]
    radii = [np.minimum(half, 3 * item[0].radius) if item else half for item in searches]
    needed = [item[0].averages_needed(beta / parts) if item else 0 for item in searches]
    return searches, radii, needed, tuple(gaining[: len(gaining) - kept])


def _mechanisms(
    lattice: Lattice,
    dimension: int,
    widths: list[int],
    *,
    shares: list[float],
    budget: Budget,
    fixed: Sequence[PrivacyEvent],
) -> list[PrefixMechanism]:
    """One noisy prefix sum a level, together with the searches within the budget.

    Values of each column are put on [-2^row_bits, 2^row_bits], so that a row moves by at most
    2 sqrt(d) 2^row_bits; with noise multipliers sigma_l the levels together are mu-GDP,
    mu^2 = sum of sigma_l^-2.
    """
    movement = math.isqrt(4 * dimension * 4**lattice.row_bits - 1) + 1
    sensitivity = lattice.sensitivity(movement, dimension)
    answers = lattice.answers(dimension)

    def noisy(mu: float) -> list[PrivacyEvent]:
        return [
            Gaussian(
                "noise", sensitivity, sensitivity / (mu * share), answers, neighbors=REPLACE_ONE
            )
            for share in shares
        ]

    mu = largest_mu(noisy, fixed, budget)
    return [
        PrefixMechanism(
            lattice,
            dimension,
            movement,
            sensitivity / (mu * share),
            name=f"noisy sums of {width} records a person",
        )
        for width, share in zip(widths, shares, strict=True)
    ]
