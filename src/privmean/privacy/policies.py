"""Limits inside a ledger's total: what one analyst, or everybody in one period, may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.errors import UNCHARGED, ArgumentError, BudgetExceededError
from privmean.privacy.budget import Budget, exact_fraction
from privmean.privacy.ledger_entry import NOTHING, LedgerAmount, LedgerEntry
from privmean.privacy.older_names import comparable

PERIODS = {"always": 0, "year": 4, "month": 7, "day": 10}  # letters of an ISO time that name it
EACH = "*"  # every analyst for themselves


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
        if self.rho is not None:
            return LedgerAmount(rho=exact_fraction(self.rho))
        assert self.epsilon is not None
        return LedgerAmount(exact_fraction(self.epsilon), exact_fraction(self.delta))

    def left(self, entries: Sequence[LedgerEntry], analyst: str, when: str) -> LedgerAmount:
        """The budget left for `analyst` at a time; the whole limit for analysts it does not name.

        Charges of later periods count too: a clock that is set back returns nothing.
        """
        letters = PERIODS[self.period]
        spent = [
            entry.counted
            for entry in entries
            if entry.when[:letters] >= when[:letters] and self._counts(entry.analyst, analyst)
        ]
        nothing = LedgerAmount(rho=NOTHING) if self.rho is not None else LedgerAmount()
        return self.limit - sum(spent, nothing)

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
