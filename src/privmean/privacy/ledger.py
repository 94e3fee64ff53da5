"""The ledger: what one group of people has already lost, and what may still be spent.

Budgets of successive releases are chosen along the way, by someone who has seen the earlier
answers. Only sums that hold then are used (docs/proofs/composition.md, "Budgets chosen along the
way"): epsilons and deltas add, or rhos add. The tighter curves that hold inside one release, whose
parts are fixed beforehand, do not hold across releases.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError, BudgetExceededError, PrivmeanWarning
from privmean.privacy.budget import Budget
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger_charges import (
    LedgerAmount,
    LedgerEntry,
    Policy,
    agree,
    amount_of,
    entry_of,
    events_of,
    now,
    spent_of,
)
from privmean.privacy.ledger_log import LedgerFile, LedgerMemory, SqlLedger, Turn, is_database
from privmean.privacy.privacy_events import PrivacyEvent

SCHEMA = "privmean-ledger-4"
OLDER = (  # their charges are never settled: the versions that made them would not know of it
    "privmean-ledger-1",  # lines without their lengths, entries without neighbors
    "privmean-ledger-2",
    "privmean-ledger-3",  # with policies
)


class Ledger:
    """A budget for all releases about the same people, in memory or in a file.

    Parameters
    ----------
    path : path or str, optional
        An SQLite file, created if missing, or a database such as "sqlite:///team.db#name" or
        "postgresql://...#name" (privmean[ledger]). Several processes of one machine may share a
        file. For several machines use PostgreSQL. Default: in memory.
    epsilon, delta, rho : float
        The total: (epsilon, delta) or rho. Optional for an existing file, with which it must agree.
    policies : list of Policy, optional
        Limits below the total, kept with the ledger.

    Raises
    ------
    ArgumentError
        If the total disagrees with the file, or if the file is empty, damaged, changed or older
        than one that was used here.

    Privacy
    -------
    All charged releases together are (epsilon, delta)-DP, or rho-zCDP, also if each budget is
    chosen after earlier answers. Every release about these people must be charged here. Charges are
    made before any noise is drawn; what a run did not ask comes back when it has ended (`settle`).
    An older copy forgets charges. It is
    refused by a witness in `$XDG_STATE_HOME/privmean`, outside of the file's folder. Not noticed
    are a snapshot of the whole machine, and an older copy that a user or machine without a witness
    opens first. The first charge fixes the neighbors and the privacy unit.

    Notes
    -----
    Source: basic composition as a filter (Rogers, Roth, Ullman and Vadhan 2016); rho as a filter
    (Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023).

    Examples
    --------
    ledger = pm.Ledger("team.ledger", epsilon=2.0, delta=1e-6)
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, epsilon=1.5, ledger=ledger, label="level", analyst="ann")
    assert ledger.left().epsilon == 0.5
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        bare = epsilon is None and rho is None and not delta
        given = None if bare else Budget(epsilon, delta, rho)
        self._policies = _limits(policies)
        if given is not None:
            _fits(self._policies, given)
        self._home: LedgerMemory | LedgerFile | SqlLedger
        if path is None:
            if given is None:
                raise ArgumentError("epsilon", None, "is required", "give epsilon or rho")
            self._total = given
            self._home = LedgerMemory(_first(given, self._policies))
            return
        self._home = home = home_of(path)
        if not home.exists():
            if given is None:
                raise ArgumentError(
                    "epsilon", None, "is required for a new ledger", "give epsilon or rho"
                )
            home.create(_first(given, self._policies))
        with home.locked() as turn:
            self._total = self._known(turn.first)
            held = tuple(Policy.from_dict(x) for x in turn.first.get("policies", ()))
        if policies and self._policies != held:
            raise ArgumentError(
                "policies", "given", "must match the policies of the ledger", "remove them"
            )
        self._policies = held
        if given is not None and given != self._total:
            raise ArgumentError(
                "epsilon",
                given.describe(),
                f"must match the total of the ledger, {self._total.describe()}",
                "remove the total, or use another file",
            )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger of a file that exists; ArgumentError if there is none."""
        if not home_of(path).exists():
            raise ArgumentError(
                "ledger",
                str(path),
                "does not exist",
                "make it once with Ledger(path, epsilon=...) or `privmean ledger create`",
            )
        return cls(path)

    def close(self) -> None:
        """Let go of the file. It is opened again when it is needed."""
        self._home.close()

    def _known(self, first: dict[str, Any]) -> Budget:
        if first.get("schema") not in (SCHEMA, *OLDER):
            raise ArgumentError(
                "ledger", str(self._home.path), "is of a newer version", "update privmean"
            )
        return Budget(**first["total"])

    @property
    def total(self) -> Budget:
        """The budget for everything."""
        return self._total

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Limits below the total."""
        return self._policies

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All charges so far, the oldest first, those of other processes included."""
        with self._open() as turn:
            return tuple(turn.entries)

    def spent(self) -> LedgerAmount:
        """The sum of all charges, of settled runs what they have cost."""
        return LedgerAmount.of(self._total) - self.left()

    def left(self) -> LedgerAmount:
        """The budget left."""
        return self._left(self.entries)

    def charge(
        self,
        cost: Guarantee | Budget | Sequence[PrivacyEvent],
        neighbors: str | None = None,
        *,
        label: str = "",
        unit: str | None = None,
        about: Mapping[str, str] | None = None,
        replay: bool = False,
    ) -> LedgerEntry:
        """Charge `cost` or raise; call it before any noise is drawn.

        cost: the guarantee of a planned release (its stated loss is charged, its events are kept),
        a budget, or events. With events `neighbors` is required, and parts with Gaussian noise need
        a guarantee or a rho ledger. unit: default that of the guarantee, or "person". about:
        analyst, label and run (see `LedgerEntry`). A run that was charged before, at the same price
        and plan, gets its entry back and is not charged again; one that was settled is refused but
        for replay, by who draws no noise any more. The entry is on disk when the call returns.

        Raises BudgetExceededError if the budget left is too small, and ArgumentError if neighbors,
        unit or kind of budget do not fit this ledger; then nothing is charged. PrivmeanError if the
        disk fails; its text says whether the charge counts.
        """
        entry = entry_of(self._total, cost, neighbors, label, unit)
        if not isinstance(about, Mapping | None):
            raise ArgumentError("about", about, "is not a mapping", "give texts by name")
        entry = replace(entry, about=dict(about or {}))
        with self._open() as turn:
            entries = turn.entries
            for before in entries:
                if entry.about.get("run") and before.about.get("run") == entry.about["run"]:
                    return _same(before, entry, replay=replay)
            if entries:
                agree("neighbors", entry.relation, entries[0].relation)
                agree("unit", entry.unit, entries[0].unit)
            left = self._left(entries)
            if not left.covers(entry.amount):
                raise BudgetExceededError(entry.amount.describe(), left.describe())
            for policy in self._policies:
                policy.require(entries, entry)
            _told_of_another_table(entries, entry)
            return turn.append(entry)

    def settle(self, entry: LedgerEntry, asked: Sequence[PrivacyEvent]) -> LedgerEntry:
        """Give back what a run that has ended did not ask; its entry as it counts from now on.

        entry: of its charge. asked: every mechanism call of the run. In a ledger of epsilon or rho
        the run counts with the sum of its calls. In one with delta it does so only if all are pure
        and no other run was charged since, and its delta stays charged. Else nothing comes back;
        nor does it in a ledger that an older version made.

        Owed by the caller: the run draws no more noise, and which calls it asked follows from noisy
        answers alone, never from an error, a time or a record.

        Raises ArgumentError for a charge that is not in this ledger, or was settled at another sum.
        """
        validate.instance("entry", entry, LedgerEntry, "give that of `charge`")
        asked = events_of("asked", asked)
        most = spent_of(self._total, entry, asked, alone=True)
        if entry.settlement is None and most in (None, entry.amount):
            return entry
        with self._open() as turn:
            place = entry.number, entry.digest
            held = [item for item in turn.entries if (item.number, item.digest) == place]
            if not held:
                raise ArgumentError(
                    "entry", entry.number, "is not an entry of this ledger", "give that of `charge`"
                )
            (before,) = held
            alone = turn.entries[-1].number == before.number
            spent = spent_of(self._total, before, asked, alone=alone)
            if spent is None or spent == before.counted or turn.first["schema"] != SCHEMA:
                return before
            if before.settlement is not None:
                raise ArgumentError(
                    "entry", entry.number, "was settled at another sum", "begin a new run"
                )
            # an older version reads the line like any other, and then refuses the schema
            line = replace(before, amount=spent, when=now(), mechanisms=(), settles=before.number)
            return turn.append(line)

    def price(self, guarantee: Guarantee) -> LedgerAmount:
        """What this ledger charges for a guarantee; ArgumentError if it holds no such guarantee."""
        remedy = "give the guarantee of a plan or a release"
        held = validate.instance("guarantee", guarantee, Guarantee, remedy)
        return amount_of(self._total, held, held.mechanisms)

    def price_of(self, budget: Budget) -> LedgerAmount:
        """What this ledger would charge for a budget."""
        remedy = "give a pm.Budget"
        return amount_of(self._total, validate.instance("budget", budget, Budget, remedy), ())

    def __repr__(self) -> str:
        where, total, left = self._home.path, self._total.describe(), self.left().describe()
        return f"Ledger({where}: total {total}, {len(self.entries)} charges, left {left})"

    def _left(self, entries: Sequence[LedgerEntry]) -> LedgerAmount:
        left = LedgerAmount.of(self._total)
        for entry in entries:
            left -= entry.counted
        return left

    @contextmanager
    def _open(self) -> Iterator[Turn]:
        """The charges, closed to everyone else meanwhile."""
        with self._home.locked() as turn:
            if self._known(turn.first) != self._total:
                raise ArgumentError(
                    "ledger", str(self._home.path), "was replaced by another ledger",
                    "put the right one back",
                )  # fmt: skip
            yield turn


def home_of(path: str | os.PathLike[str]) -> LedgerFile | SqlLedger:
    """Where a ledger of this name is kept: in a file or in a database."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError("ledger", path, "is not a path", "name a file or a database")
    return SqlLedger(str(path)) if is_database(path) else LedgerFile(os.path.expanduser(path))


def _first(total: Budget, policies: Sequence[Policy] = ()) -> dict[str, Any]:
    limits = {"policies": [policy.to_dict() for policy in policies]} if policies else {}
    return {"schema": SCHEMA, "total": total.to_dict(), **limits}


def _limits(policies: object) -> tuple[Policy, ...]:
    listed = tuple(policies) if isinstance(policies, Iterable) else (policies,)
    for policy in listed:
        validate.instance("policies", policy, Policy, "give a list of pm.Policy")
    return listed


def _fits(policies: Sequence[Policy], total: Budget) -> None:
    for policy in policies:
        if (policy.rho is None) != (total.rho is None):
            raise ArgumentError(
                "policies",
                policy.describe(),
                "must use the currency of the ledger",
                "use epsilon and delta, or rho, as the ledger does",
            )


def _told_of_another_table(entries: Sequence[LedgerEntry], entry: LedgerEntry) -> None:
    """Say so where a ledger, which is for one group of people, is charged for another table."""
    table = entry.about.get("table", "")
    others = {item.about.get("table", "") for item in entries} - {table, ""}
    if table and others:
        warnings.warn(
            f"this ledger was charged for {', '.join(sorted(others))} before and now for {table}: "
            "a ledger adds up what the same people lose",
            PrivmeanWarning,
            stacklevel=4,
        )


def _same(before: LedgerEntry, entry: LedgerEntry, *, replay: bool) -> LedgerEntry:
    """The charge of a run that was charged before, at the amount that was reserved for it."""
    if before.amount != entry.amount or before.about.get("plan") != entry.about.get("plan"):
        raise ArgumentError(
            "run", entry.about["run"], "was charged for another plan", "begin a new run"
        )
    if before.settlement is not None and not replay:
        raise ArgumentError(
            "run", entry.about["run"], "has ended: what it did not ask came back", "begin a new run"
        )
    return before
