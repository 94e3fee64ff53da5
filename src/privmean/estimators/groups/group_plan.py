"""The plan of means by group: prices of the stages, predicted errors, and the release.

Of several values people are counted once, and every value has its own limits. A pair of a person
and a group belongs to the table if any of the values is usable there, so that weights and masses
are shared, and the claims for one value hold for each (docs/proofs/groups.md, section 12).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from privmean import validate
from privmean.array_types import Floats
from privmean.data.grids import LOG_CELLS
from privmean.data.group_pairs import pairs_of
from privmean.data.key_text import key_text
from privmean.data.person_table import PersonTable
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.find_region import ATOM_ONLY, ClippingRegion
from privmean.estimators.groups.build_table import (
    advice_of,
    assumption_of,
    empty_table,
    hidden_words,
    left_out_words,
    notes_of,
    table_of,
    table_within,
)
from privmean.estimators.groups.group_stages import (
    BEYOND,
    COUNTS,
    FEW,
    FINAL,
    FIRM,
    LEAST,
    LOOK_LEAST,
    PRECISE,
    ROUGH,
    TOTAL,
    UNCHECKED,
    GroupRun,
    GroupSettings,
    Strength,
    steps_within,
)
from privmean.estimators.groups.run_groups import (
    GroupCounts,
    GroupEstimates,
    counted_groups,
    enough,
    price,
    run_groups,
    run_private,
    run_value,
)
from privmean.estimators.noise_budget import PureBudgetSpender
from privmean.inference.group_table import SeveralTables
from privmean.inference.status import (
    FAILED,
    LOW_PRECISION,
    OK,
    OUTLIERS_UNCHECKED,
    POINT_MASS,
    SUPPRESSED,
    release_status,
)
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.group_cells import GaussianCells, KeyCells
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget, floor_epsilon
from privmean.privacy.guarantee import MEMBERSHIP
from privmean.privacy.privacy_events import Laplace, PrivacyEvent
from privmean.release.result_numbers import PERSONS, Outcome, by_cause

# limits grow with the size of a group: what the noise of a mean is, in deviations inside groups
# times the noise of a weight over the weight, for a normal law (1.4 times that for exponential)
SPAN, LEAST_SPAN, MOST_SPAN = 2.7, 3.0, 10.0


@dataclass(frozen=True)
class GroupForecast:
    """What is expected of one group. persons: the guess; half_width: of the 95 % interval without
    its allowance; status: "ok", "low_precision", "outliers_unchecked" or "suppressed"."""

    key: str
    n: float
    rmse: float
    sampling: float
    privacy_noise: float
    half_width: float
    status: str


USUAL_STEPS = 2**19 + 1
USUAL_PERSONS = 2000  # with which a kind of noise is chosen


@dataclass(frozen=True)
class GroupPlan(PlanBase):
    """The stages and their prices; see `GroupMeans`. epsilon: what all stages cost together."""

    budget: Budget
    shape: PublicShape
    epsilon: Fraction
    settings: GroupSettings
    simultaneous: bool = False
    estimator = "means by group"
    locates = True  # whether it pays for the place of the values itself

    @property
    def rationale(self) -> str:
        return (
            "no bounds are needed: people are counted by group, limits are found from all people "
            "together and chosen by the size of each group, then all groups are released at once"
        )

    @property
    def public(self) -> tuple[str, ...]:
        if self.settings.public_groups:
            return (
                "roster of people", MEMBERSHIP, "column names",
                "keys of the groups", "number of groups a person counts in",
            )  # fmt: skip
        roster = ("n", "roster of people") if self.relation == REPLACE_ONE else ()
        keys = ("keys of the groups",) * self.settings.public_keys
        known = (*roster, "column names", *keys, "number of groups a person counts in")
        return tuple(map(self.settings.said, known))

    def check_table(self, people: PersonTable) -> None:
        """Refuse people that are no pairs of these groups; where membership is public also too
        few people in all, and a comparison with an empty group."""
        found, settings = pairs_of(people), self.settings
        other = settings.public_keys and found.keys != settings.keys
        if other or found.weights != settings.weights:
            raise ArgumentError(
                "people", len(found.keys), "must be read for the same groups", "plan for their keys"
            )
        if not settings.public_groups:
            return
        enough(found, settings, self.of_value)
        if settings.common and not all(found.group_weights()):
            raise InfeasibleError("a group has no people", "check the spelling of the keys")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.settings.labels

    @property
    def of_value(self) -> Fraction:
        """Of which the prices of one value are parts."""
        return self.epsilon

    @property
    def before(self) -> tuple[PrivacyEvent, ...]:
        """What steps before the counts cost."""
        return ()

    @property
    def located(self) -> ClippingRegion | None:
        """Where they are, if that is known before it runs."""
        return None

    @property
    def least_persons(self) -> int:
        """People with a pair below which no value is located, so that the table fails."""
        return math.ceil(LEAST / self.settings.strength(self.of_value))

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """An accounting of one path; every path composes to at most epsilon, exactly."""
        purse = self.settings.purse(self.epsilon)
        spent = (*self.before, *self.count_losses(purse))
        return spent + self.value_losses(
            purse, self.epsilon, lambda left, own: self.strength(left, (*spent, *own)), 0
        )

    def count_losses(self, purse: PureBudgetSpender) -> list[PrivacyEvent]:
        """What people by group and in all cost, taken from `purse`."""
        s, relation = self.settings, self.relation
        moved = Fraction(s.most * s.weights.parts * s.moves)
        bill: list[PrivacyEvent] = []
        if s.public_keys and not s.public_groups:
            counts = purse.spend(price(COUNTS, self.epsilon))
            bill.append(Laplace("group counts", moved, moved / counts, neighbors=relation))
        if (s.total or not s.public_keys) and not s.public_groups:
            total = purse.spend(price(TOTAL, self.epsilon))
            bill.append(Laplace("count of people", Fraction(1), 1 / total, neighbors=relation))
        return bill

    def value_losses(
        self, purse: PureBudgetSpender, epsilon: Fraction, strength: Strength, column: int
    ) -> tuple[PrivacyEvent, ...]:
        """What the other stages of one value cost. epsilon: of which prices are parts."""
        s, relation = self.settings, self.relation
        bill: list[PrivacyEvent] = []
        bounds = s.bounds_of(column)
        known = bounds is not None
        steps = USUAL_STEPS if bounds is None else steps_within(bounds, max(s.groups, 1))
        if (
            self.locates and not known
        ):  # the usual share; what is spent more on looking is spent less on the end
            look = purse.counts("location", purse.share(LOOK_LEAST), s.moves, spread=s.moves)
            bill.append(look.loss)
        if s.counted and not known:
            bill.append(purse.counts("count outside bounds", purse.share(BEYOND), 1).loss)
        for name, delta in zip(("coarse group sums", FINAL), self.deltas, strict=True):
            if known and name != FINAL:
                continue
            part = price(ROUGH, epsilon) if name != FINAL else purse.left
            if self.gaussian and name == FINAL:
                mu = strength(part, bill)
                last = GaussianCells(
                    name, relation, (steps,), s.weights.parts, s.most, s.affected, mu
                )
                bill += last.events
                continue
            if s.public_keys:
                cost = 1 / purse.spend(part)
                bill.append(Laplace(name, Fraction(1), cost, joint=True, neighbors=relation))
                continue
            keyed = KeyCells(
                name, relation, purse.spend(part), delta, (), steps, s.weights.parts, s.most,
                s.weights.kept,
            )  # fmt: skip
            bill += keyed.events
        return tuple(bill)

    @cached_property
    def gaussian(self) -> bool:
        """Whether the last stage has Gaussian noise: under a rho budget, and with a delta where
        that is less; from public numbers alone."""
        s = self.settings
        if not s.public_keys or s.public_groups:
            return False
        if self.budget.rho is not None:
            return True
        if self.budget.delta <= 0:
            return False
        k = s.most * s.moves
        left = Fraction(self.final_epsilon(USUAL_PERSONS))
        return math.sqrt(k) * float(left) < math.sqrt(2) * k * self.strength(left, ())

    def strength(self, left: Fraction, bill: Sequence[PrivacyEvent]) -> float:
        """mu of the last stage: what is left of rho, or the basic bound at what is left of epsilon
        with all of delta, which holds for prices that were chosen along the way."""
        if self.budget.rho is not None:
            return self.mu_of_rho(self.budget.rho, bill)
        return self.mu_of_epsilon(left, self.budget.delta)

    @staticmethod
    def mu_of_rho(rho: float, bill: Sequence[PrivacyEvent]) -> float:
        """From what an accounting leaves of rho."""
        return math.sqrt(2 * (rho - math.fsum(item.rho for item in bill))) * (1 - 1e-9)

    def mu_of_epsilon(self, left: Fraction, delta: float) -> float:
        """From what is left of epsilon, with this delta, by the basic bound."""
        part = Budget(epsilon=float(left) * (1 - 1e-12), delta=delta)
        return part.gaussian_mu(self.settings.affected) * (1 - 1e-9)

    @property
    def deltas(self) -> tuple[float, float]:
        """What the thresholds of private keys may cost, in the rough and in the last cells."""
        delta = 0.0 if self.settings.public_keys else self.budget.delta
        return (0.0, delta) if self.settings.bounds_of(0) is not None else (delta / 2, delta / 2)

    def final_epsilon(self, persons: int) -> float:
        """What the last stage gets where groups keep pooled limits and none is heavy."""
        s, whole = self.settings, float(self.epsilon)
        left = whole * (1 - COUNTS * s.public_keys - TOTAL * (s.total or not s.public_keys))
        if s.bounds_of(0) is not None:
            return left
        return self.value_epsilon(left, persons) - ROUGH * (whole - left)

    def value_epsilon(self, left: float, persons: int) -> float:
        """What of `left` the last stage of one value gets."""
        share = self.settings.look_share(persons, self.epsilon)
        rest = left * (1 - share * self.locates)
        return rest * (1 - BEYOND * self.settings.counted) - ROUGH * left

    @property
    def typical_sd(self) -> float:
        """A deviation between people where none is guessed: a quarter of public bounds."""
        bounds = self.settings.bounds_of(0)
        return 1.0 if bounds is None else (bounds[1] - bounds[0]) / 4

    def predict(self, guess_sd: float, persons: int | None = None) -> dict[str, float]:
        """Predicted root mean square error of a group of usual size, by cause."""
        count = persons if persons is not None else self.shape.number()
        return self.predicted(guess_sd, max(count / max(self.settings.groups, 1), 1.0), count)

    def expected(self) -> dict[str, dict[str, float]]:
        """Of a group, where all have the same size, and of the difference where there are two."""
        number = self.settings.groups
        if number < 2:
            return super().expected()
        found = {f"one of {number} equal groups": self.predict(1.0)}
        if number == 2:
            found["difference"] = self.difference(1.0, self.shape.number())
        return found

    def predicted(self, guess_sd: float, weight: float, persons: int) -> dict[str, float]:
        """Predicted error of a group of this weight among so many people, for a guess of the
        standard deviation of people inside a group."""
        sd = validate.positive("guess_sd", guess_sd)
        noise, sampling = self.noise_of(sd, weight, persons), sd / math.sqrt(weight)
        return by_cause(sampling, noise)

    def forecast(
        self, sizes: object, guess_sd: float, persons: int | None = None
    ) -> tuple[GroupForecast, ...]:
        """What to expect of every group, for public guesses of their sizes (a mapping, numbers in
        the order of the keys, or one number to share out). persons: in all, where they are not the
        sum of the sizes (in several groups each)."""
        known = self._sizes(sizes)
        whole = int(sum(known.values())) if persons is None else persons
        sd = validate.positive("guess_sd", guess_sd)
        return tuple(self._line(key, weight, sd, whole) for key, weight in known.items())

    def _sizes(self, sizes: object) -> dict[str, float]:
        """Guessed people (or weights) by key."""
        labels = self.labels
        if not labels:
            raise ArgumentError("sizes", sizes, "requires public keys", "name the public keys")
        if isinstance(sizes, Mapping):
            given = {key_text("sizes", key): value for key, value in sizes.items()}
            strange = [key for key in given if key not in labels]
            missing = [key for key in labels if key not in given]
            if strange or missing:
                raise ArgumentError(
                    "sizes",
                    (strange or missing)[0],
                    "is not a key with a size",
                    "give one for each key",
                )
            numbers = [given[key] for key in labels]
        elif isinstance(sizes, Sequence):
            numbers = list(sizes)
            if len(numbers) != len(labels):
                raise ArgumentError(
                    "sizes", len(numbers), f"must be {len(labels)} numbers", "give one for each key"
                )
        else:
            numbers = [validate.positive("sizes", sizes) / len(labels)] * len(labels)
        each = (validate.positive("sizes", item) for item in numbers)
        return dict(zip(labels, each, strict=True))

    def _line(self, key: str, weight: float, sd: float, persons: int) -> GroupForecast:
        s = self.settings
        noise, sampling = self.noise_of(sd, weight, persons), sd / math.sqrt(weight)
        final, located = self.final_epsilon(persons), s.bounds_of(0) is None
        found = persons * s.strength(self.epsilon) >= LEAST or not located
        precise = weight * s.strength(self.epsilon) / s.most >= PRECISE
        status = OK if precise else LOW_PRECISION
        # of the people beyond the pooled limits, where no group is heavy and one histogram locates
        count = BEYOND * ((final + ROUGH * float(self.epsilon)) / (1 - BEYOND))
        if s.counted and located and UNCHECKED * persons * count < FIRM:
            status = OUTLIERS_UNCHECKED
        if weight < FEW * 6**0.5 * (s.most * s.moves / final) or not found:
            status = SUPPRESSED
        rmse = math.hypot(noise, sampling)
        return GroupForecast(key, weight, rmse, sampling, noise, 1.96 * rmse, status)

    def noise_of(self, sd: float, weight: float, persons: int) -> float:
        """Predicted deviation of the noise of a group's mean, for values that are about normal."""
        s, bounds = self.settings, self.settings.bounds_of(0)
        signal = max(weight * s.strength(self.epsilon) / s.most, 2.0)
        width = min(max(SPAN * math.log10(signal), LEAST_SPAN), MOST_SPAN) * sd
        if bounds is not None:
            width = bounds[1] - bounds[0]
        return width * s.most * s.moves / (self.final_epsilon(persons) * weight)

    def difference(self, guess_sd: float, sizes: object) -> dict[str, float]:
        """Predicted error of the difference of the first two groups, by cause."""
        one, two = self.forecast(sizes, guess_sd)[:2]
        return {
            "rmse": math.hypot(one.rmse, two.rmse),
            "sampling": math.hypot(one.sampling, two.sampling),
            "privacy_noise": math.hypot(one.privacy_noise, two.privacy_noise),
        }

    def power(self, effect: float, sizes: object, guess_sd: float, level: float = 0.95) -> float:
        """The chance that an effect between the two groups of `difference` is told from 0, without
        the allowance for tails."""
        error = self.difference(guess_sd, sizes)["rmse"]
        distance = abs(validate.number("effect", effect)) / error
        limit = float(-ndtri((1 - validate.level("level", level)) / 2))
        return float(ndtr(distance - limit) + ndtr(-distance - limit))

    def describe(self) -> dict[str, Any]:
        s = self.settings
        facts = {
            "groups": s.groups,
            "groups a person counts fully in": s.weights.max_groups,
            "rule": "split" if s.weights.split else "most_frequent",
            "parts of a weight": s.weights.parts,
            "share of the counts": COUNTS + TOTAL * s.total,
            "share of the rough cells": ROUGH,
            "histogram cells": LOG_CELLS,
            "weight times epsilon of a precise row": PRECISE,
            "people needed in all": self.least_persons,
        }
        return s.named(facts)

    def run(self, curator: Curator) -> Outcome:
        with np.errstate(all="ignore"):  # a warning of NumPy could tell of values
            return self._run(curator)

    def _run(self, curator: Curator) -> Outcome:
        settings = self.settings
        if settings.public_keys:
            strength = self.strength if self.gaussian else None
            found = run_groups(curator, settings, self.epsilon, strength, self.located)
        else:
            found = run_private(curator, settings, self.epsilon, self.deltas)
            settings = replace(settings, keys=found.keys)
        notes = () if found.hidden is None else (hidden_words(found.hidden),)
        return self.outcome(found, settings, self.epsilon, notes)

    def outcome(
        self,
        found: GroupEstimates,
        settings: GroupSettings,
        epsilon: Fraction,
        notes: tuple[str, ...] = (),
        column: int = 0,
    ) -> Outcome:
        """What was found of one value, as a table. epsilon: of which its prices were parts."""
        shrunk, labels = None, settings.labels
        if found.reading is None:
            atom = found.place is not None and found.place.outcome == ATOM_ONLY
            status = POINT_MASS if atom else FAILED if found.place is not None else SUPPRESSED
            table = empty_table(labels, status, found.weight, found.weight_sd)
        elif found.place is None:
            table, shrunk = table_within(found, settings, epsilon, labels)
        else:
            table, shrunk = table_of(found, settings, epsilon, labels)
        words, brief = assumption_of(found, self.settings)
        said = settings.said
        table = replace(
            table, assumption=said(words), brief=said(brief), simultaneous=self.simultaneous,
            bounds=settings.bounds_of(column),
        )  # fmt: skip
        status = release_status(table.status) if table.status else FAILED
        if self.settings.public_keys:  # most people may be in none of the groups
            noise = found.weight_sd * math.sqrt(len(found.weight))
            words = left_out_words(float(found.weight.sum()), noise, self.shape.n)
            notes = (*notes, *filter(None, [words]))
        return Outcome(
            table.estimate,
            table,
            n=self._number(found),
            status=status,
            statuses=table.status,
            advice=said(
                advice_of(found, self.settings, epsilon)
                or ("The noise hides the people of every group." if status == FAILED else "")
            ),
            assumptions=tuple(map(said, (*notes_of(self.settings), *notes))),
            shares=settings.named(found.shares),
            diagnostics=settings.named(_facts(found, shrunk)),
            estimand=self._estimand(),
            follows_from_answers=True,
        )

    def _number(self, found: GroupEstimates) -> int | None:
        """The people with a pair, by noisy counts."""
        return max(int(found.n), 0)

    def _estimand(self) -> str:
        s = self.settings
        if not s.weights.split:
            return PERSONS
        if s.weights.max_groups == 1:
            return "mean, people weighted equally over all groups"
        return "mean, people weighted less if in more groups"


@dataclass(frozen=True)
class ValuesPlan(GroupPlan):
    """The plan of several values, which share the counts; see `GroupMeans`."""

    @property
    def values(self) -> int:
        return self.shape.dimension

    @property
    def rationale(self) -> str:
        return f"{super().rationale}; people are counted once for all values"

    def _part(self, left: Fraction) -> Fraction:
        """Of which the prices of one value are parts: under a rho budget squares add up."""
        parts = math.sqrt(self.values) if self.budget.rho is not None else self.values
        return floor_epsilon(left / Fraction(parts))

    @property
    def of_value(self) -> Fraction:
        purse, _ = self._shared()
        return self._part(purse.left)

    def _shared(self) -> tuple[PureBudgetSpender, list[PrivacyEvent]]:
        purse = self.settings.purse(self.epsilon)
        return purse, self.count_losses(purse)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """An accounting of one path; every path composes to at most the budget."""
        purse, shared = self._shared()
        bill, part = list(shared), self._part(purse.left)
        for column in range(self.values):
            own = self.settings.purse(part)
            bill += self.value_losses(own, part, partial(self._strength, shared), column)
        return tuple(bill)

    def _strength(
        self, shared: Sequence[PrivacyEvent], left: Fraction, bill: Sequence[PrivacyEvent]
    ) -> float:
        """mu of the last stage of one value. shared: the counts; accounting: of this value
        alone."""
        if self.budget.rho is not None:
            rho = (self.budget.rho - math.fsum(item.rho for item in shared)) / self.values
            return self.mu_of_rho(rho * (1 - 1e-12), bill)
        return self.mu_of_epsilon(left, self.budget.delta / self.values)

    def final_epsilon(self, persons: int) -> float:
        s = self.settings
        left = self.epsilon * (1 - Fraction(COUNTS) - Fraction(TOTAL) * s.total)
        return self.value_epsilon(float(self._part(left)), persons)

    def _run(self, curator: Curator) -> Outcome:
        settings = self.settings
        asking = GroupRun.start(curator, settings, self.epsilon)
        every = counted_groups(asking, self.epsilon)
        asking.spender.label_next("group counts")
        counts = GroupCounts(every.weight, every.sd, every.n, every.doubt, alike=False)
        shared = curator.events
        part, made = self._part(asking.spender.left), []
        for column in range(self.values):
            own = settings.purse(part)
            start = len(curator.events)

            def strength(left: Fraction, bill: Sequence[PrivacyEvent], start: int = start) -> float:
                return self._strength(shared, left, bill[start:])

            found = run_value(
                GroupRun(curator, settings, own, column=column), part, counts,
                strength if self.gaussian else None,
            )  # fmt: skip
            made.append(self.outcome(found, settings, part, column=column))
        statuses = tuple(status for item in made for status in item.statuses)
        shares = asking.spender.shares | {
            f"{curator.people.columns[j]}: {name}": share * float(part / self.epsilon)
            for j, item in enumerate(made)
            for name, share in item.shares.items()
        }
        return Outcome(
            np.concatenate([item.estimate for item in made]),
            SeveralTables(tuple(item.intervals for item in made)),
            n=made[0].n,
            status=release_status(statuses),
            statuses=statuses,
            advice=" ".join(dict.fromkeys(item.advice for item in made if item.advice)),
            assumptions=made[0].assumptions,
            shares=shares,
            diagnostics={
                name: dict(item.diagnostics)
                for name, item in zip(curator.people.columns, made, strict=True)
            },
            estimand=made[0].estimand,
            follows_from_answers=True,
        )


def _facts(found: GroupEstimates, shrunk: Floats | None) -> dict[str, Any]:
    """Numbers that were paid for, beside the table."""
    facts: dict[str, Any] = dict(found.path)
    if found.place is not None:
        facts["pooled limits"] = [found.place.lower, found.place.upper]
    if found.between is not None:
        facts["deviation within groups"] = found.between.within**0.5
        facts["deviation between groups"] = found.between.between**0.5
    if found.beyond is not None:
        facts["share of people beyond the pooled limits"] = found.beyond.share
    if found.units is not None:
        facts["groups with limits of their own"] = int(found.units.known.sum())
    if shrunk is not None:
        facts["shrunk means"] = shrunk
    return facts
