"""What every call may say, whatever it asks: the budget, the neighbours, the ledger, the noise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict

from privmean import validate
from privmean.errors import ArgumentError
from privmean.privacy.budget import ADD_REMOVE, Budget, Neighbors, relation_of

if TYPE_CHECKING:
    from privmean.noise.base import Noise
    from privmean.privacy.ledger import Ledger


class Terms(TypedDict, total=False):
    """epsilon, delta | rho: the budget of the whole call; there is no default. neighbors:
    "replace-one" (the roster, hence n, is public) or "add-remove" (n is private; n_design is a
    public guess of it where a method needs one). level: of the interval that is printed. ledger:
    charged before any noise is drawn: a `Ledger`, or the path of one. label, analyst: for its
    entry. noise: only for tests and studies; the release is then marked
    unsafe."""

    epsilon: float
    delta: float
    rho: float
    neighbors: Neighbors
    n_design: int
    level: float
    ledger: Ledger | str | os.PathLike[str] | None
    label: str
    analyst: str
    noise: Noise | None


@dataclass(frozen=True)
class Settled:
    """The terms of one call, checked."""

    budget: Budget
    n_design: int | None
    level: float
    ledger: Ledger | None
    noise: Noise | None
    label: str | None = None
    analyst: str = ""


def settled(terms: Mapping[str, Any], function: str, moved: Mapping[str, str]) -> Settled:
    """The terms that a call gave, checked before anything is read.

    function, moved: its name, and where keywords that it once had are said now.
    """
    known = Terms.__annotations__
    for name, value in terms.items():
        if name in known:
            continue
        if name in moved:
            raise ArgumentError(name, value, f"is no longer said in {function}", moved[name])
        near = get_close_matches(name, [*known, *moved], n=1)
        remedy = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
        raise ArgumentError(name, value, f"is no word of {function}", remedy)
    relation = relation_of(terms.get("neighbors", "replace-one"))
    budget = Budget(
        epsilon=terms.get("epsilon"),
        delta=terms.get("delta", 0.0),
        rho=terms.get("rho"),
        neighbors=relation,
    )
    guess = terms.get("n_design")
    if guess is not None:
        if relation != ADD_REMOVE:
            raise ArgumentError(
                "n_design", guess, "goes with neighbors='add-remove'", "leave it out: n is public"
            )
        guess = validate.whole("n_design", guess, least=1)
    return Settled(
        budget,
        guess,
        validate.level("level", terms.get("level", 0.95)),
        ledger_of(terms.get("ledger")),
        terms.get("noise"),
        terms.get("label"),
        str(terms.get("analyst") or ""),
    )


def ledger_of(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """A ledger as it is, or the one at a path, which must be there."""
    from privmean.privacy.ledger import Ledger

    if given is None or isinstance(given, Ledger):
        return given
    if isinstance(given, str | os.PathLike):
        return Ledger.open(given)
    raise ArgumentError(
        "ledger", given, "is no ledger", "give pm.Ledger(...) or the path of its file"
    )
