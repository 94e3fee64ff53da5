"""One charge on a ledger: an exact amount of privacy loss and what it was for.

What a ledger charges for a cost: in its currency, for its neighbors and its unit.

Limits inside a ledger's total: what one analyst, or everybody in one period, may spend.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

from privmean import validate
from privmean.errors import UNCHARGED, ArgumentError, BudgetExceededError
from privmean.privacy.budget import Budget, exact_fraction, relation_of
from privmean.privacy.compose import holds_under, pure_epsilon, stated, total_rho
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.stored_events import loss_from_dict

NOTHING = Fraction(0)


@dataclass(frozen=True)
class LedgerAmount:
    """An amount of privacy loss: epsilon and delta, or rho; exact."""

    epsilon: Fraction = NOTHING
    delta: Fraction = NOTHING
    rho: Fraction | None = None

    def __add__(self, other: LedgerAmount) -> LedgerAmount:
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        return LedgerAmount(self.epsilon + other.epsilon, self.delta + other.delta, rho)

    def __sub__(self, other: LedgerAmount) -> LedgerAmount:
        rho = None if self.rho is None or other.rho is None else self.rho - other.rho
        return LedgerAmount(self.epsilon - other.epsilon, self.delta - other.delta, rho)

    def covers(self, other: LedgerAmount) -> bool:
        """Whether `other`, in the same currency, can be taken from this."""
        rest = self - other
        if self.rho is not None:
            return rest.rho is not None and rest.rho >= 0
        return other.rho is None and rest.epsilon >= 0 and rest.delta >= 0

    def describe(self) -> str:
        if self.rho is not None:
            return f"rho={float(self.rho):g}"
        delta = f", delta={float(self.delta):g}" if self.delta else ""
        return f"epsilon={float(self.epsilon):g}{delta}"

    def to_dict(self) -> dict[str, str]:
        if self.rho is not None:
            return {"rho": str(self.rho)}
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def of(cls, budget: Budget) -> LedgerAmount:
        """What a budget allows, by the decimals that were written."""
        if budget.rho is not None:
            return cls(rho=exact_fraction(budget.rho))
        return cls(budget.pure_epsilon(), exact_fraction(budget.delta))

    @classmethod
    def from_dict(cls, values: dict[str, str]) -> LedgerAmount:
        if "rho" in values:
            return cls(rho=Fraction(values["rho"]))
        return cls(Fraction(values["epsilon"]), Fraction(values["delta"]))


@dataclass(frozen=True)
class LedgerEntry:
    """One charge: what it was for, what it cost, and the accounting it was made for (if given).

    amount: what was charged before any noise. settlement: of a run that asked for less, a line of
    its own, with what the run has cost. settles: in such a line, the number of the charge.

    about: who asked and what, as far as it was said: "analyst", "questions", "table" (its name and
    person column, never values), "plan" (its digest), "run".

    number, digest: its line in the ledger, from 1, and the digest that chains the line to all lines
    before; a release that was charged states them.
    """

    label: str
    amount: LedgerAmount
    relation: str
    unit: str
    when: str
    mechanisms: tuple[PrivacyEvent, ...] = ()
    number: int = 0
    digest: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    settles: int = 0
    settlement: LedgerEntry | None = None

    @property
    def counted(self) -> LedgerAmount:
        """What all sums count: the charge, or what the run was settled at."""
        return self.amount if self.settlement is None else self.settlement.amount

    @property
    def returned(self) -> LedgerAmount:
        """What came back."""
        return self.amount - self.counted

    def describe(self) -> str:
        """What was charged, and what it was settled at."""
        said = self.amount.describe()
        if self.settlement is None:
            return said
        return f"reserved {said}, settled {self.counted.describe()}"

    @property
    def analyst(self) -> str:
        """Who asked, "" if that was not said."""
        return self.about.get("analyst", "")

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"about": dict(self.about)} if self.about else {}
        if self.settles:
            told["settles"] = self.settles
        return {
            **told,
            "label": self.label,
            "spent": self.amount.to_dict(),
            "relation": self.relation,
            "unit": self.unit,
            "when": self.when,
            "mechanisms": [loss.to_dict() for loss in self.mechanisms],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> LedgerEntry:
        return cls(
            values["label"],
            LedgerAmount.from_dict(values["spent"]),
            values["relation"],
            values["unit"],
            values["when"],
            tuple(loss_from_dict(item) for item in values["mechanisms"]),
            about=values.get("about", {}),
            settles=values.get("settles", 0),
        )


def entry_of(
    total: Budget,
    cost: Guarantee | Budget | Sequence[PrivacyEvent],
    neighbors: str | None,
    label: str,
    unit: str | None,
) -> LedgerEntry:
    """The entry of a charge to a ledger of this total, without who asked and what."""
    if isinstance(cost, Guarantee):
        if neighbors is not None:
            agree("neighbors", neighbors, cost.neighbors)
        if unit is not None:
            agree("unit", unit, cost.unit)
        cost.require()
        if cost.parent_run:
            raise ArgumentError(
                "cost", f"part of {cost.parent_run}", "is already charged with its study",
                "charge the guarantee of the study, once",
            )  # fmt: skip
        relation, unit, mechanisms = cost.neighbors, cost.unit, cost.mechanisms
    else:
        if neighbors is None:
            raise ArgumentError(
                "neighbors",
                None,
                "is required for this charge",
                "use 'replace-one' or 'add-remove'",
            )
        relation = relation_of(neighbors)
        mechanisms = () if isinstance(cost, Budget) else events_of("cost", cost)
        if not isinstance(cost, Budget) and not mechanisms:
            raise ArgumentError("cost", cost, "is empty", "charge what the release will cost")
        if not holds_under(mechanisms, relation):
            raise ArgumentError(
                "neighbors",
                neighbors,
                "is not the relation of the losses",
                "use the relation of the losses",
            )
        mechanisms = stated(mechanisms, relation)  # the caller has just said so
        unit = "person" if unit is None else unit
    return LedgerEntry(
        str(label), amount_of(total, cost, mechanisms), relation, unit, now(), mechanisms
    )


def now() -> str:
    """The time of a line, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def events_of(name: str, events: object) -> tuple[PrivacyEvent, ...]:
    """A sequence of privacy events, and of nothing else."""
    listed = tuple(events) if isinstance(events, Iterable) else (events,)
    for event in listed:
        remedy = "give privacy events, such as the mechanisms of a guarantee"
        validate.instance(name, event, PrivacyEvent, remedy)
    return listed


def amount_of(
    total: Budget,
    cost: Guarantee | Budget | Sequence[PrivacyEvent],
    mechanisms: tuple[PrivacyEvent, ...],
) -> LedgerAmount:
    """What such a ledger charges for a cost, in its own currency."""
    promise = cost.budget() if isinstance(cost, Guarantee) else cost
    if total.is_zcdp:
        if isinstance(promise, Budget) and promise.rho is not None:
            return LedgerAmount.of(promise)
        if isinstance(promise, Budget) and promise.is_pure:
            return LedgerAmount(rho=promise.pure_epsilon() ** 2 / 2)
        rho = total_rho(mechanisms) if mechanisms else math.inf
        if math.isfinite(rho):
            return LedgerAmount(rho=Fraction(rho) * (1 + Fraction(1, 2**50)))
        problem = "of rho cannot be charged for a mechanism with its own delta"
        raise _unfit(total, problem, "rho or epsilon")
    if isinstance(promise, Budget):
        if promise.epsilon is None:
            raise ArgumentError(
                "rho", float(promise.rho or 0),
                "cannot be charged to a ledger of epsilon and delta",
                "give epsilon (and delta), or a ledger of rho",
            )  # fmt: skip
        return LedgerAmount.of(promise)
    # losses without a guarantee: parts with Gaussian noise have no delta of their own to charge
    if any(loss.mu or loss.lattice.epsilon for loss in mechanisms):
        raise _unfit(total, "requires a delta for Gaussian noise", "epsilon and delta")
    epsilon = sum((loss.pure for loss in mechanisms), NOTHING)
    return LedgerAmount(epsilon, sum((Fraction(loss.added_delta) for loss in mechanisms), NOTHING))


def spent_of(
    total: Budget, entry: LedgerEntry, asked: Sequence[PrivacyEvent], *, alone: bool
) -> LedgerAmount | None:
    """What a run that asked these lines has cost; None where it counts as it was charged.

    Sums alone, as for charges: of rho; of epsilons in a ledger without delta; and in one with a
    delta, of a run that stopped after pure lines, whose delta stays charged. alone: whether no
    other run was charged since. docs/proofs/composition.md, section 5.
    """
    if not asked or not (alone or total.is_zcdp or not total.delta):
        return None
    if total.is_zcdp:
        rho = total_rho(asked)
        spent = None if math.isinf(rho) else amount_of(total, asked, tuple(asked))
    else:
        pure = pure_epsilon(asked)
        spent = None if pure is None else LedgerAmount(pure, entry.amount.delta)
    return spent if spent is not None and entry.amount.covers(spent) else None


def _unfit(total: Budget, problem: str, remedy: str) -> ArgumentError:
    remedy = f"charge a release made with {remedy}"
    return ArgumentError("ledger", total.describe(), problem, remedy)


def agree(name: str, given: str, held: str) -> None:
    """Refuse what is not the one that the ledger's charges are for."""
    if given != held:
        remedy = f"use neighbors={held!r}" if name == "neighbors" else f"use one ledger per {name}"
        remedy = f"{remedy}, or another ledger. {UNCHARGED}"
        raise ArgumentError(name, given, f"is not {held!r}, which the ledger is for", remedy)


PERIODS = {"always": 0, "year": 4, "month": 7, "day": 10}  # letters of an ISO time that name it
EACH = "*"  # every analyst for themselves


# what shows nothing, though no category of Unicode says so: joiners, fillers, empty Braille
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
UNSEEN = ("Cc", "Cf", "Cs")
# variants of the sign before; what Unicode keeps for signs that show nothing
RANGES = ((0xFE00, 0xFE0F), (0x2065, 0x2065), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF))


@lru_cache(maxsize=4096)
def comparable(name: str) -> str:
    """The name as it is compared: in Unicode's composed form (NFC), with single blanks between
    words, none around them, and nothing that shows nothing. "" for a name of which nothing shows.

    Letters that look alike stay different, and so do capitals: a name is the caller's word.
    """
    shown = "".join(" " if sign.isspace() else sign for sign in name if not _unseen(sign))
    return " ".join(unicodedata.normalize("NFC", shown).split())


def _unseen(sign: str) -> bool:
    return not sign.isspace() and (
        sign in BLANK
        or unicodedata.category(sign) in UNSEEN
        or any(low <= ord(sign) <= high for low, high in RANGES)
    )


@dataclass(frozen=True)
class Policy:
    """A limit below the total of a ledger, by analyst and period.

    Parameters
    ----------
    epsilon, delta, rho : float
        What may be charged: (epsilon, delta) or rho. The default of delta is 0.0.
    analyst : str, optional
        A name, or "*" for each analyst alone. Default: all analysts together.
    period : {"always", "day", "month", "year"}, default "always"
        The period (UTC) in which the limit holds.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    A charge above the limit is refused before any noise is drawn. Analyst names are self-declared;
    blanks and invisible characters make no second name.

    Examples
    --------
    monthly = pm.Policy(epsilon=2.0, delta=1e-6, analyst="*", period="month")
    pm.Ledger("team.ledger", epsilon=10.0, delta=1e-5, policies=[monthly])
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    analyst: str | None = None
    period: str = "always"

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta, self.rho)
        validate.choice("period", self.period, list(PERIODS))
        if self.analyst is not None and not (
            isinstance(self.analyst, str) and comparable(self.analyst)
        ):
            raise ArgumentError("analyst", self.analyst, "is not a name", "give a name or '*'")

    @property
    def limit(self) -> LedgerAmount:
        return LedgerAmount.of(Budget(self.epsilon, self.delta, self.rho))

    def left(self, entries: Sequence[LedgerEntry], analyst: str, when: str) -> LedgerAmount:
        """The budget left for `analyst` at a time; the whole limit for analysts it does not name.

        Charges of later periods count too: a clock that is set back returns nothing.
        """
        letters = PERIODS[self.period]
        left = self.limit
        for entry in entries:
            if entry.when[:letters] >= when[:letters] and self._counts(entry.analyst, analyst):
                left -= entry.counted
        return left

    def _counts(self, spender: str, analyst: str) -> bool:
        if self.analyst is None:
            return True
        limited = analyst if comparable(self.analyst) == EACH else self.analyst
        return comparable(spender) == comparable(limited)

    def concerns(self, analyst: str) -> bool:
        """Whether charges of an analyst are limited by it."""
        if self.analyst is None:
            return True
        return comparable(self.analyst) in (EACH, comparable(analyst))

    def require(self, entries: Sequence[LedgerEntry], entry: LedgerEntry) -> None:
        """Raise BudgetExceededError if a charge would break it."""
        if not self.concerns(entry.analyst):
            return
        if self.analyst is not None and not comparable(entry.analyst):
            raise ArgumentError(
                "analyst",
                None,
                "is required: the ledger has a limit for each analyst",
                f"name an analyst. {UNCHARGED}",
            )
        left = self.left(entries, entry.analyst, entry.when)
        if not left.covers(entry.amount):
            raise BudgetExceededError(
                entry.amount.describe(), f"{left.describe()} ({self.describe()})"
            )

    def describe(self) -> str:
        """In words."""
        who = {None: "all together", EACH: "each analyst"}.get(self.analyst, self.analyst)
        when = "" if self.period == "always" else f" in a {self.period}"
        return f"{who}{when}: at most {self.limit.describe()}"

    def to_dict(self) -> dict[str, Any]:
        budget = {"rho": self.rho} if self.rho is not None else {
            "epsilon": self.epsilon, "delta": self.delta
        }  # fmt: skip
        return {**budget, "analyst": self.analyst, "period": self.period}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Policy:
        return cls(**values)
