"""A guarantee, its accounting and its words.

What a release guaranteed: unit, neighbors, the accounting, and the loss composed from it.

What a guarantee means to one person, by numbers: how good a guess about them can become.

Someone who knows all but one thing about a person tosses a fair coin between two tables of records,
sees the release of one of them and guesses which it was. Without the release half of the guesses
are right; with it at most the share given here, whatever else is known.

For two tables that are neighbors the share is at most (e^epsilon + delta)/(1 + e^epsilon) under
(epsilon, delta): the two errors of any test satisfy a + e^epsilon b >= 1 - delta both ways
(Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015), so that
a + b >= 2 (1 - delta)/(1 + e^epsilon). Under rho-zCDP it is at most (1 + t)/2 with t the total
variation, for which three bounds hold: Pinsker's sqrt(rho/2) and Bretagnolle and Huber's
sqrt(1 - e^-rho), since the Kullback-Leibler divergence is at most rho (the limit of order 1), and
that of the (epsilon, delta) to which rho converts, at any epsilon.

Two tables that differ in a person's values are neighbors under replace-one. Under add-remove and
zero-out they are two steps apart, one to the table without the person (or with the values zeroed)
and one back, so that a guess about values has the loss of two steps: 2 epsilon with
(1 + e^epsilon) delta, or 4 rho (Bun and Steinke 2016, Proposition 27).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError, PrivmeanError, PrivmeanWarning
from privmean.plain_data import digest
from privmean.privacy import older_names
from privmean.privacy.budget import (
    ADD_REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    Budget,
    Relation,
    describe_neighbors,
)
from privmean.privacy.compose import (
    holds_under,
    pure_epsilon,
    total_epsilon,
    total_rho,
    unstated,
    within,
)
from privmean.privacy.gdp import rho_delta
from privmean.privacy.privacy_events import PrivacyEvent

# of a stored guarantee; 2 had other keys; 1 had no number, no digest, entries without a relation
SCHEMA = 3
PURPOSE = "privmean guarantee"
UNITS = ("person", "response")

MEMBERSHIP = "who has records in which group"  # among what a guarantee treats as public
RELATION_WORDS = {
    "replace-one": (
        "neighbors have the same people; all records of one person are replaced by any others"
    ),
    "add-remove": "neighbors differ by one person, who is there with all records or not at all",
    "zero-out": (
        "neighbors have the same people and times; all values of one person are replaced by the "
        "center of the clipping region"
    ),
}


@dataclass(frozen=True)
class Guarantee:
    """Privacy guarantee of one release about one person with all records.

    Attributes
    ----------
    neighbors : {"replace-one", "add-remove", "zero-out"}
        Neighboring datasets.
    mechanisms : tuple of PrivacyEvent
        Every mechanism call that touched data, failed attempts included, with its neighbors.
    epsilon, delta, rho : float
        The allowed loss: (epsilon, delta) or rho.
    unit : str
        Privacy unit, usually "person".
    public : tuple of str
        What the guarantee treats as public.
    note : str
        What the guarantee does not cover.
    parent_run : str
        Run of the study whose charge covers this release, which no ledger charges again.
    stored_problems : tuple of str
        What `from_dict` found wrong with a stored guarantee.

    Notes
    -----
    `verify` recomposes the mechanism calls and checks that their loss is within the allowed loss;
    `problems` says what is wrong.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    guarantee = pm.mean(people, epsilon=1.0).guarantee
    assert guarantee.verify() and not guarantee.problems()
    print(guarantee.describe())
    """

    neighbors: Relation
    mechanisms: tuple[PrivacyEvent, ...]
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    unit: str = "person"
    public: tuple[str, ...] = ()
    note: str = ""
    parent_run: str = ""
    stored_problems: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        validate.choice("neighbors", self.neighbors, list(RELATION_WORDS))
        if not (isinstance(self.unit, str) and self.unit):
            raise ArgumentError(
                "unit", self.unit, "is not a word", "give the protected unit, such as 'person'"
            )
        for name in ("epsilon", "delta", "rho"):
            value = getattr(self, name)
            if isinstance(value, str | bytes):
                raise ArgumentError(name, value, "must be a number", "give a number")
        # refuses a guarantee of nothing, or of two things; numbers become doubles
        promise = Budget(self.epsilon, self.delta, self.rho)
        object.__setattr__(self, "epsilon", promise.epsilon)
        object.__setattr__(self, "delta", float(promise.delta))
        object.__setattr__(self, "rho", promise.rho)
        words: tuple[object, ...] = (*self.public, self.note, self.parent_run)
        if not all(isinstance(item, str) for item in words):
            raise ArgumentError("public", words, "must be text", "give text")
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))

    @staticmethod
    def of(
        budget: Budget,
        relation: Relation,
        mechanisms: tuple[PrivacyEvent, ...],
        *,
        public: tuple[str, ...] = (),
        note: str = "",
        unit: str = "person",
    ) -> Guarantee:
        """The guarantee of a release made within `budget`.

        delta is the one the mechanisms use: pure events have delta = 0 even when the
        caller allowed more. Kept for equal arguments, with what a check of it found.
        """
        return _of(budget, relation, mechanisms, public, note, unit)

    def budget(self) -> Budget:
        if self.rho is not None:
            return Budget(rho=self.rho)
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def spent(self) -> float:
        """The loss composed from the events: epsilon at the stated delta, or rho.

        The loss of a run that stopped early (a private failure) can be below the stated one; a
        ledger gets the difference back (`Ledger.settle`).
        """
        if self.rho is not None:
            return total_rho(self.mechanisms)
        pure = pure_epsilon(self.mechanisms)
        if pure is not None and pure <= self.budget().largest_pure_epsilon():
            return float(pure)
        return total_epsilon(self.mechanisms, self.delta)

    def verify(self) -> bool:
        """Whether the events compose to at most the stated loss, for the stated neighbors.

        False as well for no events, for an entry that does not say for which neighbors its
        sensitivity was counted, for a unit that privmean does not protect, and for a stored
        guarantee that was changed after it was written, as far as its digest shows (one who
        computes the digest again is found out by a signature alone). `problems` says why.
        """
        return not self.problems()

    def problems(self) -> tuple[str, ...]:
        """Why `verify` is false, in words; empty where it is true."""
        return self.stored_problems + self._found

    @cached_property
    def _found(self) -> tuple[str, ...]:
        """What is wrong with it as it is; what was found in a stored one is besides."""
        found, mechanisms = [], self.mechanisms
        if self.unit not in UNITS:
            found.append(f"the unit {self.unit!r} is none that privmean protects ({_list(UNITS)})")
        if not mechanisms:
            found.append("the accounting is empty: a number was released without a mechanism call")
        unsaid = unstated(mechanisms)
        if unsaid:
            found.append(f"no neighbors are named for {_list(dict.fromkeys(unsaid))}")
        if not holds_under(mechanisms, self.neighbors):
            found.append(f"the accounting does not hold for {self.neighbors} neighbors")
        if mechanisms and not within(mechanisms, self.budget()):
            found.append(f"the accounting composes to more than {self.describe()}")
        return tuple(found)

    def require(self) -> Guarantee:
        """This guarantee, after checking it; events above the stated loss are a bug, never
        silent."""
        problems = self.problems()
        if problems:
            raise PrivmeanError(f"internal: {'; '.join(problems)}; nothing was released")
        return self

    def describe(self) -> str:
        forms = "{rho:g}-zCDP", "({epsilon:g}, {delta:g})-DP", "{epsilon:g}-DP (pure)"
        return describe_neighbors(self.epsilon, self.delta, self.rho, *forms)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a schema number and a digest over all of it."""
        result: dict[str, Any] = {
            "schema": SCHEMA,
            "unit": self.unit,
            "neighbors": self.neighbors,
        }
        if self.rho is not None:
            result["rho"] = self.rho
        else:
            result["epsilon"] = self.epsilon
            result["delta"] = self.delta
        result["mechanisms"] = [loss.to_dict() for loss in self.mechanisms]
        result["public"] = list(self.public)
        if self.note:
            result["note"] = self.note
        if self.parent_run:
            result["parent_run"] = self.parent_run
        # one that was changed on the way gets no new digest: it would hide the change
        result["digest"] = None if self.stored_problems else digest(PURPOSE, result)
        return result

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Guarantee:
        """The guarantee stored by `to_dict`; its losses are recomputed, not read.

        Raises ArgumentError for a schema, neighbors, a loss or a kind of event that is not
        known, and for numbers that no mechanism can have. Whether the events compose to the stated
        loss and the digest fits is for `verify`. A guarantee stored before there was a schema
        number is read and composed as ever, but not verified: its entries name no neighbors.
        """
        from privmean.privacy.stored_events import (
            loss_from_dict,  # every kind of loss that there is
        )

        if not isinstance(values, dict) or not isinstance(values.get("mechanisms"), list):
            raise ArgumentError(
                "guarantee", values, "is not a stored guarantee", "give the result of `to_dict`"
            )
        schema = values.get("schema", 1)
        if type(schema) is not int or schema not in (1, 2, SCHEMA):
            raise ArgumentError(
                "schema", schema, "is not known to this version", "use a newer privmean"
            )
        public = values.get("public", [])
        if not isinstance(public, list | tuple):
            raise ArgumentError("public", public, "is not a list", "give a list of words")
        read = older_names.guarantee(values)
        made = cls(
            neighbors=read.get("neighbors", ""),
            mechanisms=tuple(loss_from_dict(item) for item in read["mechanisms"]),
            epsilon=values.get("epsilon"),
            delta=values.get("delta", 0.0),
            rho=values.get("rho"),
            unit=values.get("unit", "person"),
            public=tuple(public),
            note=values.get("note", ""),
            parent_run=read.get("parent_run", ""),
        )
        doubts = made._doubts(values, read)
        return replace(made, stored_problems=doubts) if doubts else made

    def _doubts(self, values: dict[str, Any], read: object) -> tuple[str, ...]:
        """What is wrong with `values`, from which this guarantee was read by the names of today."""
        from privmean.privacy.stored_events import says_its_loss

        if values.get("schema", 1) < 2:
            return (
                "the guarantee has no schema number: an older privmean stored it, or the number "
                "was removed; such an accounting does not say for which neighbors it holds",
            )
        rest = {name: value for name, value in values.items() if name != "digest"}
        try:
            fits = digest(PURPOSE, rest) == values.get("digest")
        except ValueError:
            fits = False
        if not fits:
            return (
                "the guarantee is not what was written: its digest does not fit (something in it "
                "was changed, added, removed or moved)",
            )
        if contradiction := older_names.contradiction(values, read, SCHEMA):
            return (f"of the guarantee {contradiction}",)
        if not all(map(says_its_loss, self.mechanisms, values["mechanisms"])):
            return (
                "an entry of the accounting states a loss or a change that does not follow from "
                "its numbers",
            )
        return ()


@lru_cache(maxsize=16)
def _of(
    budget: Budget, relation: Relation, mechanisms: tuple[PrivacyEvent, ...],
    public: tuple[str, ...], note: str, unit: str,
) -> Guarantee:  # fmt: skip
    delta = budget.delta
    if budget.rho is None:
        pure = pure_epsilon(mechanisms)
        if pure is not None and pure <= budget.largest_pure_epsilon():
            delta = 0.0
    return Guarantee(relation, mechanisms, budget.epsilon, delta, budget.rho, unit, public, note)


def _list(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in words)


@lru_cache(maxsize=64)
def guess_bound(epsilon: float | None, delta: float = 0.0, rho: float | None = None) -> float:
    """The largest share of right guesses between two neighbors, where half were right before."""
    if rho is None:
        assert epsilon is not None
        return _approximate(epsilon, delta)
    variation = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
    center = max(rho, 1e-9)
    points = (center * 1.15**k for k in range(-60, 61))
    curve = (_approximate(x, rho_delta(rho, x)) for x in points if x < 700)
    return min((1 + variation) / 2, *curve, 1.0)


def _approximate(epsilon: float, delta: float) -> float:
    odds = math.exp(-epsilon)
    return min(1.0, (1 + delta * odds) / (1 + odds))


def guess_right_of_values(promise: Guarantee) -> float:
    """The largest share of right guesses between two sets of values of one person."""
    if promise.neighbors == REPLACE_ONE:
        return guess_bound(promise.epsilon, promise.delta, promise.rho)
    if promise.rho is not None:
        return guess_bound(None, 0.0, 4 * promise.rho)
    assert promise.epsilon is not None
    return guess_bound(2 * promise.epsilon, (1 + math.exp(promise.epsilon)) * promise.delta)


def risk_sentence(promise: Guarantee) -> str:
    """What a guess gains, in one sentence: about values under replace-one, about presence (or
    zeroed values) and about values under the other relations."""
    share = percent(guess_bound(promise.epsilon, promise.delta, promise.rho))
    unit = promise.unit
    about = {
        REPLACE_ONE: f"about one {unit}",
        ADD_REMOVE: f"whether one {unit} is in the data",
        ZERO_OUT: f"whether one {unit}'s values were replaced by the center",
    }[promise.neighbors]
    sentence = (
        f"a guess {about} that is right 50% of the time without this release is right at most "
        f"{share} of the time with it"
    )
    if promise.neighbors == REPLACE_ONE:
        return sentence
    most = percent(guess_right_of_values(promise))
    return f"{sentence}; a guess about a {unit}'s values, at most {most}"


def loss_text(promise: Guarantee) -> str:
    """The allowed loss in numbers, with its name."""
    if promise.rho is not None:
        return f"rho = {promise.rho:g} (zCDP)"
    if promise.delta:
        return f"epsilon = {promise.epsilon:g}, delta = {promise.delta:g} (approximate DP)"
    return f"epsilon = {promise.epsilon:g} (pure DP)"


def privacy_text(promise: Guarantee) -> str:
    """The whole guarantee: its numbers, unit and relation, and what they mean for a guess."""
    risk = risk_sentence(promise)
    loss = f"{loss_text(promise)}, {promise.unit} level, {promise.neighbors}"
    return f"{loss}. {risk[0].upper()}{risk[1:]}."


def warn_of_delta(promise: Guarantee, persons: int | None) -> None:
    """Say so where the guarantee leaves room for a release that shows one person outright.

    persons: their number where it is public, or a public guess of it. To publish the records of one
    person in a thousand keeps (0, 1/1000)-DP: a delta protects only far below 1/n.
    """
    if persons and promise.delta * persons >= 1:
        warnings.warn(
            f"delta={promise.delta:g} is not below 1/n (n={persons}). Publishing the records of "
            f"one {promise.unit} would satisfy this guarantee. Use a delta far below "
            f"{1 / persons:.2g}.",
            PrivmeanWarning,
            stacklevel=4,
        )


def percent(share: float) -> str:
    """A bound from 0.5 to 1 in per cent, rounded up, with as many digits as its distance to either
    end needs; "100%" is said of certainty alone."""
    gap = min(share - 0.5, 1 - share)
    if gap <= 0:
        return f"{100 * share:.3g}%" if share < 1 else "100%"
    digits = max(0, min(12, -math.floor(math.log10(100 * gap))))
    whole, rest = divmod(math.ceil(Fraction(repr(float(share))) * 10 ** (digits + 2)), 10**digits)
    return f"{whole}.{rest:0{digits}d}%" if digits else f"{whole}%"
