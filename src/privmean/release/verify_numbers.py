"""What can be checked of the numbers of a stored release: its parts speak of the same thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from privmean.errors import shown
from privmean.inference.status import OK
from privmean.plurals import count_noun, count_phrase
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.guarantee import Guarantee
from privmean.release.agreement import AGREEMENTS, not_compared, own_rows, plan_account
from privmean.release.noise_account import error_parts, group_noise, least_noise, recomputed_noise
from privmean.release.provenance import READ, SCHEMA
from privmean.release.result_rows import NAMES
from privmean.release.stored_values import LARGEST, Malformed

KIND = "release"
MOST_NAMES = 6
# what reading a part raises that has not the form of a release: a finding, no error
OTHER_FORM = (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError)
EXACT = "noise intervals as long as the account makes them"
LEAST = "noise intervals not shorter than any release of this loss can have"
PARTS = "standard errors from noise and sampling"
ABOUT = "noise intervals about as long as the account and the noisy counts of people make them"
NOISE = {EXACT: recomputed_noise, ABOUT: group_noise, LEAST: least_noise, PARTS: error_parts}


class NumberChecks:
    """What one verification has found so far."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.problems: list[str] = []
        self.cannot: list[str] = []
        self.left: list[str] = []

    def right(self, words: str) -> None:
        self.found.append(words)

    def wrong(self, words: str) -> None:
        self.problems.append(words)


def check_numbers(
    stored: Mapping[str, object], guarantee: Guarantee | None, look: NumberChecks
) -> None:
    """Whether the parts of a release speak of the same thing."""
    before = len(look.problems)
    schema = stored.get("schema")
    if type(schema) is not int or schema not in READ:
        look.wrong(f"the schema number is {shown(schema)}; this version of privmean knows {SCHEMA}")
    if schema == 2 and "rows" in stored:
        look.wrong("it has rows, which releases of its schema number have not")
    if stored.get("kind") != KIND and (schema != 2 or "kind" in stored):
        look.wrong(f"the kind is {shown(stored.get('kind'))}, not {KIND!r}")
    columns, estimate = _list(stored.get("columns")), _numbers_of(stored.get("estimate"))
    hidden = not columns and stored.get("groups") == [] and stored.get("status") != OK
    if not (columns or hidden) or not all(isinstance(item, str) for item in columns):
        look.wrong("no columns are named")
    if estimate is None:
        look.wrong("the estimate is no list of numbers")
    elif len(columns) != len(estimate):
        look.wrong(
            f"{count_phrase(len(estimate), 'estimate', 'stands', 'stand')} beside "
            f"{count_noun(len(columns), 'column')}"
        )
    persons, plan = stored.get("n"), stored.get("plan")
    if persons is not None and (type(persons) is not int or persons < 0):
        look.wrong(f"n={shown(persons)} is not a number of people")
    planned = plan.get("n") if isinstance(plan, Mapping) else None
    weighted = (
        type(planned) is int and "groups" not in stored
    )  # one who counts in part is no person
    unsaid = persons is None and not weighted
    if guarantee is not None and guarantee.neighbors == REPLACE_ONE and unsaid:
        look.wrong("n, which is public under replace-one, is not stated")
    secure = stored.get("secure")
    if secure is not True:
        look.wrong(
            "the noise was simulated: the release protects no person"
            if secure is False
            else "whether the noise was real is not stated"
        )
    for name in ("interval", "noise_interval"):
        _interval(name, stored.get(name), len(columns), secure, look)
    if schema != 2:
        _rows(stored.get("rows"), _named(columns, estimate), look)
    allowed = plan.get("budget") if isinstance(plan, Mapping) else None
    if guarantee is not None and isinstance(allowed, Mapping):
        promise = guarantee.budget().to_dict()
        same = {name: allowed.get(name) for name in promise if name != "delta"}
        if same != {name: value for name, value in promise.items() if name != "delta"}:
            look.wrong(
                f"the plan's budget {shown(dict(allowed))} is not that of the guarantee {promise}"
            )
    if len(look.problems) > before:
        return
    look.right("estimate, columns, n, intervals, budget and the kind of noise are stated")
    if schema != 2:
        _agreement(stored, guarantee, look)
    else:
        look.left.append("rows: an older privmean stored none")


def _agreement(stored: Mapping[str, Any], guarantee: Guarantee | None, look: NumberChecks) -> None:
    """Whether what is stated twice agrees, and the noise with the account."""
    before, compared = len(look.problems), []
    for check, part, words in AGREEMENTS:
        if part in stored or not part:
            tried(words, partial(check, stored), look)
            compared.append(words)
    tried("the plan", lambda: plan_account(stored, guarantee), look)
    if len(look.problems) > before:
        return
    look.right(f"these agree: {'; '.join(dict.fromkeys(compared))}")
    tried("its parts", lambda: _leave(stored, look), look)
    if guarantee is not None:
        _noise(stored, guarantee, look)


def _leave(stored: Mapping[str, Any], look: NumberChecks) -> tuple[str, ...]:
    look.left += not_compared(stored)
    return ()


def tried(words: str, problems: Callable[[], Iterable[str]], look: NumberChecks) -> None:
    """What one check finds; a part in another form than that of a release is a finding too."""
    try:
        for problem in problems():
            look.wrong(problem)
    except OTHER_FORM as error:
        reason = f": {error}" if isinstance(error, Malformed) else ""
        look.wrong(f"cannot be read: {words}{reason}")


def _noise(stored: Mapping[str, Any], guarantee: Guarantee, look: NumberChecks) -> None:
    """The noise intervals against the account."""
    named: dict[str, list[str]] = {}
    for name, check in NOISE.items():
        try:
            found = check(stored, guarantee)
        except OTHER_FORM:
            look.wrong(f"cannot be read: what {name} are compared with")
            continue
        problems, names = found or ([], [])
        for problem in problems:
            look.wrong(problem)
        if names and not problems:
            look.right(f"{name}: {_several(names)}")
        named[name] = names
    rows = [f"{row['group']} {row['term']}".strip() for row in own_rows(stored)]
    near = {name for title in (EXACT, ABOUT) for name in named.get(title, ())}
    least = [name for name in rows if name not in near and name in named.get(LEAST, ())]
    none = [name for name in rows if name not in near and name not in least]
    if least:
        look.left.append(f"that noise intervals are as long as the account says: {_several(least)}")
    if none:
        look.left.append(f"the noise intervals against the account: {_several(none)}")
    if not named.get(PARTS):
        look.left.append("standard errors against noise and sampling")


def _several(names: Sequence[str]) -> str:
    """Some names, and how many there are besides."""
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _named(columns: list[object], estimate: list[float | None] | None) -> dict[str, float | None]:
    """Estimates by column, where both are as they should be."""
    names = [item if isinstance(item, str) else "" for item in columns]
    return dict(zip(names, estimate or (), strict=False))


def _rows(found: object, estimates: Mapping[str, float | None], look: NumberChecks) -> None:
    """The table of the release: whole, in order, and with the estimates that stand beside it."""
    if not isinstance(found, list) or (estimates and not found):
        look.wrong("the rows are missing")
        return
    for row in found:
        if not isinstance(row, Mapping) or set(row) != set(NAMES):
            look.wrong("a row has not the columns that rows have")
            return
        if not all(isinstance(row[name], str) for name in ("term", "group", "status")):
            look.wrong("a row's term, group or status is no text")
            return
        pairs = (("lower", "upper"), ("noise_lower", "noise_upper"))
        for pair in pairs:
            low, high = (row[name] for name in pair)
            if not all(item is None or _finite(item) for item in (low, high)):
                look.wrong(f"a row's {pair[0]} or {pair[1]} is no number")
            elif low is not None and high is not None and low > high:
                look.wrong("a row's interval ends before it begins")
        own = not row["group"] and row["term"] in estimates
        if own and row["estimate"] != estimates[row["term"]]:
            look.wrong(f"the row of {row['term']!r} has another estimate than the release")


def _interval(name: str, found: object, columns: int, secure: object, look: NumberChecks) -> None:
    if not isinstance(found, Mapping):
        look.wrong(f"the {name} is missing")
        return
    lower, upper = _numbers_of(found.get("lower")), _numbers_of(found.get("upper"))
    if lower is None or upper is None or not len(lower) == len(upper) == columns:
        look.wrong(f"the {name} has not one pair of ends a column")
    elif any(a is not None and b is not None and a > b for a, b in zip(lower, upper, strict=True)):
        look.wrong(f"the {name} ends before it begins")
    if found.get("secure") is not secure:
        look.wrong(f"the {name} does not say of its noise what the release says")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbers_of(value: Any) -> list[float | None] | None:
    """A list of numbers and nulls; None for anything else."""
    fits = isinstance(value, list) and all(item is None or _finite(item) for item in value)
    return value if fits else None


def _finite(value: object) -> bool:
    """A number that a release can have; not a whole number beyond every double."""
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= LARGEST
