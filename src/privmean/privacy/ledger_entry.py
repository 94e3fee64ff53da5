"""One charge on a ledger: an exact amount of privacy loss and what it was for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

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
