"""What a release promised: unit, neighbours, the bill, and the loss composed from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError, PrivmeanError
from privmean.privacy.budget import Budget, Relation
from privmean.privacy.calibrate import within
from privmean.privacy.compose import pure_epsilon, total_epsilon, total_rho
from privmean.privacy.loss import Loss, loss_from_dict
from privmean.privacy.relations import holds_under

RELATION_WORDS = {
    "replace-one": (
        "neighbours have the same persons; all records of one person are replaced by any others"
    ),
    "add-remove": "neighbours differ by one person, who is there with all records or not at all",
    "zero-out": (
        "neighbours have the same persons and times; all values of one person are replaced by the "
        "centre of the clipping region"
    ),
}


@dataclass(frozen=True)
class Guarantee:
    """The promise of one release about one person and all of that person's records.

    `mechanisms` lists every mechanism call that touched data, failed attempts included. The
    promised (epsilon, delta) or rho is the allowed loss; `verify` recomposes the bill and checks
    that it is no larger. `public` says what the promise treats as public, `note` what it does not
    cover.
    """

    relation: Relation
    mechanisms: tuple[Loss, ...]
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    unit: str = "person"
    public: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        validate.choice("relation", self.relation, list(RELATION_WORDS))
        if not (isinstance(self.unit, str) and self.unit):
            raise ArgumentError("unit", self.unit, "is not a word", "say who is protected")
        Budget(self.epsilon, self.delta, self.rho)  # refuses a promise of nothing, or of two things

    @classmethod
    def of(
        cls,
        budget: Budget,
        relation: Relation,
        mechanisms: tuple[Loss, ...],
        *,
        public: tuple[str, ...] = (),
        note: str = "",
        unit: str = "person",
    ) -> Guarantee:
        """The guarantee of a release made within `budget`.

        delta is the one the mechanisms use: a bill of pure parts promises delta = 0 even when the
        caller allowed more.
        """
        if budget.rho is not None:
            guarantee = cls(
                relation, mechanisms, rho=budget.rho, public=public, note=note, unit=unit
            )
        else:
            pure = pure_epsilon(mechanisms)
            allowed = budget.largest_pure_epsilon()
            delta = 0.0 if pure is not None and pure <= allowed else budget.delta
            guarantee = cls(
                relation,
                mechanisms,
                epsilon=budget.epsilon,
                delta=delta,
                public=public,
                note=note,
                unit=unit,
            )
        return guarantee

    def budget(self) -> Budget:
        if self.rho is not None:
            return Budget(rho=self.rho)
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def spent(self) -> float:
        """The loss composed from the bill: epsilon at the promised delta, or rho.

        The bill of a run that stopped early (a private failure) can be below the promise; the
        difference cannot be used again.
        """
        if self.rho is not None:
            return total_rho(self.mechanisms)
        pure = pure_epsilon(self.mechanisms)
        if pure is not None and pure <= self.budget().largest_pure_epsilon():
            return float(pure)
        return total_epsilon(self.mechanisms, self.delta)

    def verify(self) -> bool:
        """Whether the bill composes to at most the promise, for the promise's own neighbours."""
        return holds_under(self.mechanisms, self.relation) and within(
            self.mechanisms, self.budget()
        )

    def require(self) -> Guarantee:
        """This guarantee, after checking it; a bill above the promise is a bug, never silent."""
        if not holds_under(self.mechanisms, self.relation):
            raise PrivmeanError(
                f"internal: the bill does not hold for {self.relation} neighbours; nothing was "
                "released"
            )
        if not self.verify():
            raise PrivmeanError(
                f"internal: the bill composes to more than {self.describe()}; nothing was released"
            )
        return self

    def describe(self) -> str:
        if self.rho is not None:
            return f"{self.rho:g}-zCDP"
        if self.delta:
            return f"({self.epsilon:g}, {self.delta:g})-DP"
        return f"{self.epsilon:g}-DP (pure)"

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"unit": self.unit, "relation": self.relation}
        if self.rho is not None:
            result["rho"] = self.rho
        else:
            result["epsilon"] = self.epsilon
            result["delta"] = self.delta
        result["mechanisms"] = [loss.to_dict() for loss in self.mechanisms]
        result["public"] = list(self.public)
        if self.note:
            result["note"] = self.note
        return result

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Guarantee:
        """The guarantee stored by `to_dict`; its losses are recomputed, not read.

        Raises ArgumentError for a relation, a promise or a kind of loss that is not known, and for
        numbers that no mechanism can have. Whether the bill keeps the promise is for `verify`.
        """
        if not isinstance(values, dict) or not isinstance(values.get("mechanisms"), list):
            raise ArgumentError(
                "guarantee", values, "is not a stored guarantee", "give what `to_dict` returned"
            )
        return cls(
            relation=values.get("relation", ""),
            mechanisms=tuple(loss_from_dict(item) for item in values["mechanisms"]),
            epsilon=values.get("epsilon"),
            delta=values.get("delta", 0.0),
            rho=values.get("rho"),
            unit=values.get("unit", "person"),
            public=tuple(values.get("public", ())),
            note=values.get("note", ""),
        )
