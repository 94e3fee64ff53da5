"""What a ledger charges for a cost: in its currency, for its neighbors and its unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction

from privmean.errors import UNCHARGED, ArgumentError
from privmean.privacy.budget import Budget, exact_fraction, relation_of
from privmean.privacy.compose import pure_epsilon, total_rho
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger_entry import NOTHING, LedgerAmount, LedgerEntry
from privmean.privacy.neighbor_relations import holds_under, stated
from privmean.privacy.privacy_events import PrivacyEvent


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
        mechanisms = () if isinstance(cost, Budget) else tuple(cost)
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


def amount_of(
    total: Budget,
    cost: Guarantee | Budget | Sequence[PrivacyEvent],
    mechanisms: tuple[PrivacyEvent, ...],
) -> LedgerAmount:
    """What such a ledger charges for a cost, in its own currency."""
    promise = cost.budget() if isinstance(cost, Guarantee) else cost
    if total.is_zcdp:
        if isinstance(promise, Budget) and promise.rho is not None:
            return LedgerAmount(rho=exact_fraction(promise.rho))
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
        return LedgerAmount(promise.pure_epsilon(), exact_fraction(promise.delta))
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
