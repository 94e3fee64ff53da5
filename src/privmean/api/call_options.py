"""What every call may say, whatever it asks: the budget, the neighbors, the ledger, the noise."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict

from privmean import validate
from privmean.errors import ArgumentError
from privmean.privacy.budget import ADD_REMOVE, Budget, Neighbors, relation_of
from privmean.signatures import unknown_keyword, with_full_signature

if TYPE_CHECKING:
    from privmean.noise.noise_source import Noise
    from privmean.privacy.ledger import Ledger
    from privmean.questions.base import Question


class CallOptions(TypedDict, total=False):
    """epsilon, delta | rho: the budget of the whole call; there is no default. neighbors:
    "replace-one" (the roster, hence n, is public) or "add-remove" (n is private; n_guess is a
    public guess of it where a method needs one); not said: replace-one, but add-remove for means
    by group. level: of the interval that is printed. ledger:
    charged before any noise is drawn: a `Ledger`, or the path of one. label, analyst: for its
    entry. noise: only for tests and studies; the release is then marked
    unsafe."""

    epsilon: float
    delta: float
    rho: float
    neighbors: Neighbors
    n_guess: int
    level: float
    ledger: Ledger | str | os.PathLike[str] | None
    label: str
    analyst: str
    noise: Noise | None


# what a term is that is not said; a budget has no default
DEFAULTS: dict[str, Any] = {"delta": 0.0, "neighbors": "replace-one", "level": 0.95}
spelled_out = with_full_signature(CallOptions, DEFAULTS)  # for functions of **terms


@dataclass(frozen=True)
class CheckedOptions:
    """The terms of one call, checked."""

    budget: Budget
    n_guess: int | None
    level: float
    ledger: Ledger | None
    noise: Noise | None
    label: str | None = None
    analyst: str = ""


def require_question(given: Question) -> Question:
    """The question, if it is one."""
    if not hasattr(type(given), "default_neighbors"):
        remedy = "use pm.Mean('wage') or pm.Quantile('wage')"
        raise ArgumentError("question", given, "is not a question", remedy)
    return given


def check_options(
    terms: Mapping[str, Any],
    function: Callable[..., object],
    usual: Neighbors = "replace-one",
) -> CheckedOptions:
    """The terms that a call gave, checked before anything is read.

    function: which was called. usual: the neighbors where none are named.
    """
    for name, value in terms.items():
        if name not in CallOptions.__annotations__:
            raise unknown_keyword(function.__name__, name, value, signature(function).parameters)
    named = terms.get("neighbors")
    relation = relation_of(usual if named is None else named)
    terms = {**DEFAULTS, **terms}
    budget = Budget(
        epsilon=terms.get("epsilon"),
        delta=terms["delta"],
        rho=terms.get("rho"),
        neighbors=relation,
    )
    guess = terms.get("n_guess")
    if guess is not None:
        if relation != ADD_REMOVE:
            raise ArgumentError(
                "n_guess",
                guess,
                "is only for neighbors='add-remove'",
                "remove it; n is public here",
            )
        guess = validate.whole("n_guess", guess, least=1)
    noise = terms.get("noise")
    if not _does(noise, "laplace"):
        raise ArgumentError(
            "noise",
            noise,
            "is not a source of noise",
            "remove it; in tests pass noise=pm.SimulatedNoise(1)",
        )
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
        raise ArgumentError(name, type(given).__name__, "must be text", "give text, or remove it")
    return given


def ledger_of(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """A ledger as it is, or the one at a path, which must be there."""
    if isinstance(given, str | os.PathLike):
        from privmean.privacy.ledger import Ledger

        return Ledger.open(given)
    if not _does(given, "charge"):
        raise ArgumentError(
            "ledger", given, "is not a ledger", "use pm.Ledger(...) or the path of its file"
        )
    return given


def _does(given: object, verb: str) -> bool:
    """Whether it is nothing, or an object that does this."""
    return given is None or (callable(getattr(given, verb, None)) and not isinstance(given, type))
