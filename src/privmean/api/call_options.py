"""What every call may say, whatever it asks: the budget, the neighbours, the ledger, the noise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict

from privmean import signatures as spelled
from privmean import validate
from privmean.errors import ArgumentError
from privmean.privacy.budget import ADD_REMOVE, Budget, Neighbors, relation_of

if TYPE_CHECKING:
    from privmean.noise.noise_source import Noise
    from privmean.privacy.ledger import Ledger
    from privmean.questions.base import Question


class CallOptions(TypedDict, total=False):
    """epsilon, delta | rho: the budget of the whole call; there is no default. neighbors:
    "replace-one" (the roster, hence n, is public) or "add-remove" (n is private; n_design is a
    public guess of it where a method needs one); not said: replace-one, but add-remove for means
    by group. level: of the interval that is printed. ledger:
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


# what a term is that is not said; a budget has no default
DEFAULTS: dict[str, Any] = {"delta": 0.0, "neighbors": "replace-one", "level": 0.95}
spelled_out = spelled.with_full_signature(CallOptions, DEFAULTS)  # for functions of **terms


@dataclass(frozen=True)
class CheckedOptions:
    """The terms of one call, checked."""

    budget: Budget
    n_design: int | None
    level: float
    ledger: Ledger | None
    noise: Noise | None
    label: str | None = None
    analyst: str = ""


def require_question(given: Question) -> Question:
    """The question, if it is one."""
    if not hasattr(type(given), "usual_neighbors"):
        remedy = "give one such as pm.Mean('wage') or pm.Quantile('wage')"
        raise ArgumentError("question", given, "is no question", remedy)
    return given


def check_options(
    terms: Mapping[str, Any],
    function: str,
    moved: Mapping[str, str],
    usual: Neighbors = "replace-one",
    own: Iterable[str] = (),
) -> CheckedOptions:
    """The terms that a call gave, checked before anything is read.

    function, moved: its name, and where keywords that it has not (or no more) are said. usual: the
    neighbours where none are named. own: the function's own words.
    """
    known = CallOptions.__annotations__
    for name, value in terms.items():
        if name in known:
            continue
        if name in moved:
            raise ArgumentError(name, value, f"is not said in {function}", moved[name])
        words = list(dict.fromkeys([*own, *known]))
        near = get_close_matches(name, [*words, *moved], n=1)
        remedy = f"did you mean {near[0]}?" if near else f"it takes {', '.join(words)}"
        raise ArgumentError(name, value, f"is no word of {function}", remedy)
    named = terms.get("neighbors")
    relation = relation_of(usual if named is None else named)
    terms = {**DEFAULTS, **terms}
    budget = Budget(
        epsilon=terms.get("epsilon"),
        delta=terms["delta"],
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
    noise = terms.get("noise")
    if not _does(noise, "laplace"):
        raise ArgumentError("noise", noise, "is no noise", "leave it out, outside of tests")
    return CheckedOptions(
        budget,
        guess,
        validate.level("level", terms["level"]),
        ledger_of(terms.get("ledger")),
        noise,
        in_words("label", terms.get("label")),
        in_words("analyst", terms.get("analyst")) or "",
    )


def in_words(name: str, given: object) -> str | None:
    """A word for a ledger's entry: text, or nothing."""
    if given is not None and not isinstance(given, str):
        raise ArgumentError(name, type(given).__name__, "is no text", "give text, or leave it out")
    return given


def ledger_of(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """A ledger as it is, or the one at a path, which must be there."""
    if isinstance(given, str | os.PathLike):
        from privmean.privacy.ledger import Ledger

        return Ledger.open(given)
    if not _does(given, "charge"):
        raise ArgumentError(
            "ledger", given, "is no ledger", "give pm.Ledger(...) or the path of its file"
        )
    return given


def _does(given: object, verb: str) -> bool:
    """Whether it is nothing, or an object that does this."""
    return given is None or (callable(getattr(given, verb, None)) and not isinstance(given, type))
