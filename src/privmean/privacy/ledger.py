"""The ledger: what one group of people has already lost, and what may still be spent.

Budgets of successive releases are chosen along the way, by someone who has seen the earlier
answers. Only sums that hold then are used (docs/proofs/composition.md, "Budgets chosen along the
way"): epsilons and deltas add, or rhos add. The tighter curves that hold inside one release, whose
parts are fixed beforehand, do not hold across releases.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from privmean.errors import ArgumentError, BudgetExceededError, PrivmeanWarning
from privmean.privacy.budget import Budget, exact_fraction
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger_entry import NOTHING, LedgerAmount, LedgerEntry
from privmean.privacy.ledger_log import Journal, JournalDamaged, chained
from privmean.privacy.ledger_price import agree, amount_of, entry_of
from privmean.privacy.policies import Policy
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.sql_ledger_log import SqlJournal, is_database

SCHEMA = "privmean-ledger-2"
WITH_POLICIES = "privmean-ledger-3"
OLDER = ("privmean-ledger-1",)  # lines without their lengths, entries without neighbors


class Ledger:
    """A budget for all releases about the same people, in memory or in a file.

    Parameters
    ----------
    path : path or str, optional
        File of JSON lines, created if missing, or a database such as "sqlite:///team.db#name" or
        "postgresql://...#name" (privmean[ledger]). Several processes may share it, if the file
        locks of the system work. Default: in memory.
    epsilon, delta, rho : float
        The total: (epsilon, delta) or rho. Optional for an existing file, with which it must agree.
    policies : list of Policy, optional
        Limits below the total, kept with the ledger.

    Raises
    ------
    ArgumentError
        If the total disagrees with the file, or an existing file is empty.
    JournalDamaged
        If the file was changed.

    Privacy
    -------
    All charged releases together are (epsilon, delta)-DP, or rho-zCDP, also if each budget is
    chosen after earlier answers. Every release about these people must be charged here. Charges are
    made before any noise is drawn and are never returned. An older copy of the file forgets
    charges. The first charge fixes the neighbors and the privacy unit.

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
        self._journal: Journal | SqlJournal | None = None
        self._told_of = ""  # the line after which a cut one was told of
        if path is not None:
            self._journal = journal_at(path)
        self._policies = tuple(policies)
        if given is not None:
            _fits(self._policies, given)
        self._thread = threading.Lock()
        self._entries: list[LedgerEntry] = []
        if self._journal is None:
            if given is None:
                raise ArgumentError("epsilon", None, "is required", "give epsilon or rho")
            self._total = given
            return
        if not self._journal.exists():
            if given is None:
                raise ArgumentError(
                    "epsilon", None, "is required for a new ledger", "give epsilon or rho"
                )
            self._journal.create(_first(given, self._policies))
        with self._journal.locked() as session:
            self._total = self._opened(session.entries[0])
            held = tuple(Policy.from_dict(x) for x in session.entries[0].get("policies", ()))
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
        _ = self.entries  # a file that cannot be read is refused here, not at the first charge

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger of a file that exists; ArgumentError if there is none."""
        if not journal_at(path).exists():
            raise ArgumentError(
                "ledger",
                str(path),
                "does not exist",
                "make it once with Ledger(path, epsilon=...) or `privmean ledger create`",
            )
        return cls(path)

    def close(self) -> None:
        """Nothing to do: the file is open only while it is read or written."""

    def _opened(self, first: dict[str, Any]) -> Budget:
        if first.get("schema") not in (SCHEMA, WITH_POLICIES, *OLDER):
            raise JournalDamaged("the file is not a ledger that this version of privmean knows")
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
        with self._open() as (entries, _):
            return tuple(entries)

    @property
    def cut_off(self) -> int:
        """Bytes of an incomplete last entry, 0 for none. It does not count.

        A process that stops during a charge leaves it, and nothing was released for it. A file that
        was truncated later cannot be distinguished. A `PrivmeanWarning` reports it, and the next
        charge removes it.
        """
        if self._journal is None:
            return 0
        with self._journal.locked() as session:
            return session.cut

    def spent(self) -> LedgerAmount:
        """The sum of all charges."""
        return self._sum(self.entries)

    def left(self) -> LedgerAmount:
        """The budget left."""
        return self._limit - self.spent()

    def charge(
        self,
        cost: Guarantee | Budget | Sequence[PrivacyEvent],
        neighbors: str | None = None,
        *,
        label: str = "",
        unit: str | None = None,
        about: Mapping[str, str] | None = None,
    ) -> LedgerEntry:
        """Charge `cost` or raise; call it before any noise is drawn.

        cost: the guarantee of a planned release (its stated loss is charged, its events are kept),
        a budget, or events. With events `neighbors` is required, and parts with Gaussian noise need
        a guarantee or a rho ledger. unit: default that of the guarantee, or "person". about:
        analyst, label and run (see `LedgerEntry`). A run that was charged before, at the same price
        and plan, gets its entry back and is not charged again. The entry is on disk when the call
        returns.

        Raises BudgetExceededError if the budget left is too small, and ArgumentError if neighbors,
        unit or kind of budget do not fit this ledger; then nothing is charged. PrivmeanError if the
        disk fails; its text says whether the charge counts.
        """
        entry = entry_of(self._total, cost, neighbors, label, unit)
        entry = replace(entry, about=dict(about or {}))
        with self._open() as (entries, write):
            for before in entries:
                if entry.about.get("run") and before.about.get("run") == entry.about["run"]:
                    return _same(before, entry)
            if entries:
                agree("neighbors", entry.relation, entries[0].relation)
                agree("unit", entry.unit, entries[0].unit)
            left = self._limit - self._sum(entries)
            if not left.covers(entry.amount):
                raise BudgetExceededError(entry.amount.describe(), left.describe())
            for policy in self._policies:
                policy.require(entries, entry)
            _told_of_another_table(entries, entry)
            made: LedgerEntry = write(entry)
            return made

    def price(self, guarantee: Guarantee) -> LedgerAmount:
        """What this ledger charges for a guarantee; ArgumentError if it holds no such guarantee."""
        return amount_of(self._total, guarantee, guarantee.mechanisms)

    def price_of(self, budget: Budget) -> LedgerAmount:
        """What this ledger would charge for a budget."""
        return amount_of(self._total, budget, ())

    def __repr__(self) -> str:
        where = "in memory" if self._journal is None else str(self._journal.path)
        left, entries = self.left().describe(), len(self.entries)
        return f"Ledger({where}: total {self._total.describe()}, {entries} charges, left {left})"

    @property
    def _limit(self) -> LedgerAmount:
        if self._total.rho is not None:
            return LedgerAmount(rho=exact_fraction(self._total.rho))
        assert self._total.epsilon is not None
        return LedgerAmount(exact_fraction(self._total.epsilon), exact_fraction(self._total.delta))

    def _sum(self, entries: Sequence[LedgerEntry]) -> LedgerAmount:
        nothing = LedgerAmount(rho=NOTHING) if self._total.is_zcdp else LedgerAmount()
        return sum((entry.amount for entry in entries), nothing)

    @contextmanager
    def _open(self) -> Iterator[tuple[list[LedgerEntry], Callable[[LedgerEntry], LedgerEntry]]]:
        """The entries and a function that writes one more, closed to everyone else meanwhile."""
        if self._journal is None:
            with self._thread:
                yield self._entries, self._remember
            return
        with self._journal.locked() as session:
            if self._opened(session.entries[0]) != self._total:
                raise JournalDamaged(f"{self._journal.path}: the ledger was replaced")
            if session.cut and self._told_of != session.digests[-1]:
                self._told_of = session.digests[-1]
                _told_of_a_cut(str(self._journal.path), len(session.entries) + 1, session.cut)
            lines = enumerate(zip(session.entries, session.digests, strict=True))
            entries = [
                replace(LedgerEntry.from_dict(item), number=number, digest=digest)
                for number, (item, digest) in lines
                if number
            ]
            yield (
                entries,
                lambda entry: replace(
                    entry, number=len(session.entries), digest=session.append(entry.to_dict())
                ),
            )

    def _remember(self, entry: LedgerEntry) -> LedgerEntry:
        """One more charge in memory, chained as in a file."""
        before = (
            self._entries[-1].digest
            if self._entries
            else chained(None, 0, _first(self.total, self._policies))
        )
        number = len(self._entries) + 1
        made = replace(entry, number=number, digest=chained(before, number, entry.to_dict()))
        self._entries.append(made)
        return made


def journal_at(path: str | os.PathLike[str]) -> Journal | SqlJournal:
    """Where a ledger of this name is kept: in a file or in a database."""
    return SqlJournal(str(path)) if is_database(path) else Journal(os.path.expanduser(path))


def _first(total: Budget, policies: Sequence[Policy] = ()) -> dict[str, Any]:
    if not policies:
        return {"schema": SCHEMA, "total": total.to_dict()}
    # older versions would not keep the policies, and do not know this schema
    limits = [policy.to_dict() for policy in policies]
    return {"schema": WITH_POLICIES, "total": total.to_dict(), "policies": limits}


def _fits(policies: Sequence[Policy], total: Budget) -> None:
    for policy in policies:
        if (policy.rho is None) != (total.rho is None):
            raise ArgumentError(
                "policies",
                policy.describe(),
                "must use the currency of the ledger",
                "use epsilon and delta, or rho, as the ledger does",
            )


def _told_of_a_cut(path: str, line: int, size: int) -> None:
    """A crash and a cut made later leave the same file: silence would give budget back."""
    warnings.warn(
        f"{path}: line {line}, the last entry, is cut off after {size} bytes and does not count. "
        "A crash while a charge is written leaves this, and nothing was released for that charge. "
        "If the file was cut later (a copy that is not whole), charges that count are missing: put "
        "the whole file back before the next charge, which removes what is left of this one",
        PrivmeanWarning,
        stacklevel=4,
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


def _same(before: LedgerEntry, entry: LedgerEntry) -> LedgerEntry:
    """The charge of a run that was charged before."""
    if before.amount != entry.amount or before.about.get("plan") != entry.about.get("plan"):
        raise ArgumentError(
            "run", entry.about["run"], "was charged for another plan", "begin a new run"
        )
    return before
