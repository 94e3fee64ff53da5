"""What can be checked of a stored study, and of the numbers of a stored release.

Of a study besides each of its releases: one accounting, parted among the questions without a rest,
each question within its part. Of a release: its parts speak of the same thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from privmean.errors import PrivmeanError, shown
from privmean.inference.status import FAILED, OK, read_status
from privmean.output import count_noun, count_phrase
from privmean.privacy.budget import REPLACE_ONE, exact_fraction
from privmean.privacy.compose import (
    DIGITS,
    all_dominated,
    delta_within,
    pure_epsilon,
    total_rho,
    unpaid_events,
)
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Approximate, Concentrated, PrivacyEvent, Pure, bounded
from privmean.release.agreement import (
    AGREEMENTS,
    ENDS,
    Parts,
    not_compared,
    outside,
    plan_account,
    row_name,
)
from privmean.release.noise_account import error_parts, group_noise, least_noise, recomputed_noise
from privmean.release.stored_release import SCHEMA, SCHEMAS, Malformed, numbers

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
    schema, parts = stored.get("schema"), Parts(stored)
    if type(schema) is not int or schema not in SCHEMAS:
        look.wrong(f"the schema number is {shown(schema)}; this version of privmean knows {SCHEMA}")
    if schema == 2 and "rows" in stored:
        look.wrong("it has rows, which releases of its schema number have not")
    if stored.get("kind") != KIND and (schema != 2 or "kind" in stored):
        look.wrong(f"the kind is {shown(stored.get('kind'))}, not {KIND!r}")
    if stored.get("secure") is not True:
        look.wrong(
            "the noise was simulated: the release protects no person"
            if stored.get("secure") is False
            else "whether the noise was real is not stated"
        )
    tried("what every release states", lambda: _stated(parts, guarantee), look)
    if len(look.problems) > before:
        return
    look.right("estimate, columns, n, intervals, budget and the kind of noise are stated")
    if schema != 2:
        _agreement(parts, guarantee, look)
    else:
        look.left.append("rows: an older privmean stored none")


def _stated(parts: Parts, guarantee: Guarantee | None) -> Iterator[str]:
    """Columns, estimates, people, intervals and the budget."""
    stored, columns, persons = parts.stored, parts.columns, parts.stored.get("n")
    plan = stored["plan"] if isinstance(stored.get("plan"), Mapping) else {}
    if not columns and (stored.get("groups") != [] or stored.get("status") == OK):
        yield "no columns are named"
    if len(columns) != len(parts.estimates):
        yield (
            f"{count_phrase(len(parts.estimates), 'estimate', 'stands', 'stand')} beside "
            f"{count_noun(len(columns), 'column')}"
        )
    if persons is not None and (type(persons) is not int or persons < 0):
        yield f"n={shown(persons)} is not a number of people"
    for _, _, title in ENDS:
        interval = parts.interval(title)
        lower, upper = numbers(interval.get("lower")), numbers(interval.get("upper"))
        if not len(lower) == len(upper) == len(columns):
            yield f"the {title} has not one pair of ends a column"
        for low, high in zip(lower, upper, strict=False):
            yield from outside(f"the {title} ends before it begins", low, None, high)
        if interval.get("secure") is not stored.get("secure"):
            yield f"the {title} does not say of its noise what the release says"
    if guarantee is None:
        return
    # one who counts in part is no person
    weighted = type(plan.get("n")) is int and "groups" not in stored
    if guarantee.neighbors == REPLACE_ONE and persons is None and not weighted:
        yield "n, which is public under replace-one, is not stated"
    if isinstance(plan.get("budget"), Mapping) and not _same_budget(plan["budget"], guarantee):
        yield "the plan's budget is not that of the guarantee"


def _same_budget(planned: Mapping[str, object], guarantee: Guarantee) -> bool:
    """Whether a plan was made for the budget of a guarantee; pure parts leave its delta unused."""
    kept = guarantee.budget().to_dict()
    return all(planned.get(name) == value for name, value in kept.items() if name != "delta")


def _agreement(parts: Parts, guarantee: Guarantee | None, look: NumberChecks) -> None:
    """Whether what is stated twice agrees, and the noise with the account."""
    before, compared = len(look.problems), []
    for check, part, words in AGREEMENTS:
        if part in parts.stored or not part:
            tried(words, partial(check, parts), look)
            compared.append(words)
    tried("the plan", lambda: plan_account(parts, guarantee), look)
    if len(look.problems) > before:
        return
    look.right(f"these agree: {'; '.join(dict.fromkeys(compared))}")
    look.left += not_compared(parts.stored)
    if guarantee is not None:
        _noise(parts, guarantee, look)


def tried(words: str, problems: Callable[[], Iterable[str]], look: NumberChecks) -> None:
    """What one check finds; a part in another form than that of a release is a finding too."""
    try:
        for problem in problems():
            look.wrong(problem)
    except OTHER_FORM as error:
        reason = f": {error}" if isinstance(error, Malformed) else ""
        look.wrong(f"cannot be read: {words}{reason}")


def _noise(parts: Parts, guarantee: Guarantee, look: NumberChecks) -> None:
    """The noise intervals against the account."""
    named: dict[str, list[str]] = {title: [] for title in NOISE}
    for title, check in NOISE.items():
        before = len(look.problems)
        try:
            for name, problem in check(parts, guarantee):
                named[title] += [name] if name else []
                if problem:
                    look.wrong(problem)
        except OTHER_FORM:
            look.wrong(f"cannot be read: what {title} are compared with")
        if named[title] and len(look.problems) == before:
            look.right(f"{title}: {_several(named[title])}")
    rows = [row_name(row) for row in parts.own]
    near = {*named[EXACT], *named[ABOUT]}
    least = [name for name in rows if name not in near and name in named[LEAST]]
    none = [name for name in rows if name not in near and name not in least]
    if least:
        look.left.append(f"that noise intervals are as long as the account says: {_several(least)}")
    if none:
        look.left.append(f"the noise intervals against the account: {_several(none)}")
    if not named[PARTS]:
        look.left.append("standard errors against noise and sampling")


def _several(names: Sequence[str]) -> str:
    """Some names, and how many there are besides."""
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


STUDY_KIND = "study"
LOOK = "look"
UNPLACED = "The shared location query found no limits"  # how a question says that it asked nothing
STUDY_SCHEMA, STUDY_READ = 2, (1, 2)
ROUNDED = Fraction(2, 10**12)  # a guarantee counts its looks, rounded up to 12 decimals
Problems = Callable[[Mapping[str, Any]], Sequence[str]]


def problems_of(stored: Mapping[str, Any], promise: Guarantee, of_release: Problems) -> list[str]:
    """What is wrong with a study whose accounting was composed already. of_release: what is wrong
    with one release."""
    found: list[str] = []
    if stored.get("schema") not in STUDY_READ:
        found.append(
            f"the schema number is {shown(stored.get('schema'))}; this version knows {STUDY_SCHEMA}"
        )
    if stored.get("secure") is not True:
        found.append("the noise was simulated: the study protects no person")
    found += _said(stored, promise)
    questions = stored.get("questions")
    if not isinstance(questions, list) or not questions:
        return [*found, "the questions are missing"]
    taken: list[int] = []
    names = []
    looks, words = _looks(stored.get("shared_locations", []), questions, promise)
    found += words
    taken += [at for lines in looks.values() for at in lines]
    for question in questions:
        if not isinstance(question, Mapping) or not isinstance(question.get("name"), str):
            found.append("a question has no name")
            continue
        name = question["name"]
        names.append(name)
        lines = question.get("lines")
        run = (
            stored.get("run") if "shared_locations" in stored else None
        )  # older ones did not say it
        own, shared = (
            _own(promise, name, lines),
            _shared(question.get("shared_locations", []), looks),
        )
        if own is None:
            found.append(f"{name}: its lines are not lines of the accounting with its name")
            continue
        if shared is None:
            found.append(f"{name}: it names a shared location query that the study does not have")
            continue
        paid = [promise.mechanisms[at] for at in shared]
        assert isinstance(lines, list)
        taken += lines
        found += [
            f"{name}: {word}"
            for word in (
                *_question(question, own, paid, promise, run, of_release),
                *_again(question, stored),
            )
        ]
    if len(set(names)) != len(names):
        found.append("two questions have one name")
    if sorted(taken) != list(range(len(promise.mechanisms))):
        found.append(
            "the accounting is not parted among the questions: a line has no question, or two"
        )
    return found


def asked_events(stored: Mapping[str, Any], promise: Guarantee) -> list[PrivacyEvent]:
    """What a study that is in order has asked at least: its looks, and of each question what its
    release adds to them. A question without a release is taken to have asked all of its lines,
    unless it says that its looks found nothing."""
    lines = promise.mechanisms
    looks = {item["column"]: item["lines"] for item in stored.get("shared_locations", [])}
    found = [lines[at] for own in looks.values() for at in own]
    for question in stored["questions"]:
        release = question["release"]
        if release is not None:
            own = Guarantee.from_dict(release["guarantee"]).mechanisms
            paid = [
                lines[at] for name in question.get("shared_locations", []) for at in looks[name]
            ]
            found += unpaid_events(own, paid) or ()
        elif not str(question["advice"]).startswith(UNPLACED):
            found += [lines[at] for at in question["lines"]]
    return found


def _said(stored: Mapping[str, Any], promise: Guarantee) -> list[str]:
    """What is wrong with what a study says once for all questions."""
    found = []
    level = stored.get("level")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        found.append("the level does not lie between 0 and 1")
    if not isinstance(stored.get("simultaneous"), bool):
        found.append("whether intervals hold together is not stated")
    plan = stored.get("plan")
    plan = plan if isinstance(plan, Mapping) else {}
    allowed, kept = plan.get("budget"), promise.budget().to_dict()
    if isinstance(allowed, Mapping) and any(  # pure parts leave its delta unused
        allowed.get(name) != value for name, value in kept.items() if name != "delta"
    ):
        found.append("the plan's budget is not that of the guarantee")
    if plan.get("neighbors", promise.neighbors) != promise.neighbors:
        found.append("the plan was made for other neighbors")
    return found


def _level_of(stored: Mapping[str, Any]) -> object:
    """The level of one line: that of all lines together, by Bonferroni, where that was asked."""
    level = stored.get("level")
    if stored.get("simultaneous") is not True or not isinstance(level, float):
        return level
    releases = (item.get("release") for item in stored["questions"] if isinstance(item, Mapping))
    rows = (item.get("rows") for item in releases if isinstance(item, Mapping))
    lines = sum(len(item) for item in rows if isinstance(item, list))
    return 1 - (1 - level) / max(lines, 1)


def _again(question: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """What a question says of its release otherwise than the release."""
    release = question.get("release")
    if not isinstance(release, Mapping):
        return []
    found = []
    interval, promise = release.get("interval"), release.get("guarantee")
    interval = interval if isinstance(interval, Mapping) else {}
    own = release if release.get("status") != OK else interval
    if any(question.get(name) != own.get(name) for name in ("status", "advice")):
        found.append("its status is not that of its release")
    if interval.get("level") != _level_of(stored):
        found.append("its release has another level than the study")
    budget = question.get("budget")
    if isinstance(budget, Mapping) and isinstance(promise, Mapping):
        kept = [name for name in ("epsilon", "rho") if budget.get(name) != promise.get(name)]
        more = [promise.get("delta", 0.0), budget.get("delta", 0.0)]
        numbers = all(isinstance(item, int | float) for item in more)
        if kept or not numbers or not more[0] <= more[1] < 0.5:
            found.append("its budget is not that of its release")
    else:
        found.append("its budget is missing")
    weight = question.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight <= 0:
        found.append("its weight is no positive number")
    wanted = question.get("wanted_error")
    if wanted is not None and (not isinstance(wanted, int | float) or not wanted > 0):
        found.append("its wanted error is no positive number")
    return found


def _looks(
    stored: object, questions: Sequence[Any], promise: Guarantee
) -> tuple[dict[str, list[int]], list[str]]:
    """The lines of each look by its column, and what is wrong with them."""
    lines: dict[str, list[int]] = {}
    if not isinstance(stored, list):
        return lines, ["the looks are no list"]
    for look in stored:
        column = look.get("column") if isinstance(look, Mapping) else None
        at = look.get("lines") if isinstance(look, Mapping) else None
        if not isinstance(column, str) or column in lines:
            return lines, ["a shared location query has no column, or two have one"]
        if _own(promise, f"{LOOK}: {column}", at) is None:
            return lines, [
                f"shared location of {column}: its calls are not in the accounting under its name"
            ]
        assert isinstance(at, list)
        assert isinstance(look, Mapping)
        if look.get("serves") != [
            item.get("name")
            for item in questions
            if isinstance(item, Mapping) and column in _list(item.get("shared_locations"))
        ]:
            return lines, [f"shared location of {column}: it serves other questions than name it"]
        lines[column] = at
    return lines, []


def _shared(named: object, looks: Mapping[str, list[int]]) -> list[int] | None:
    """The mechanism calls of the shared location queries that a question names; None for one that
    there is not."""
    if not isinstance(named, list) or not all(isinstance(item, str) for item in named):
        return None
    if any(item not in looks for item in named) or len(set(named)) < len(named):
        return None
    return [at for item in named for at in looks[item]]


def _own(promise: Guarantee, name: str, lines: object) -> list[PrivacyEvent] | None:
    """The lines of one question; None where they are not its own."""
    bill = promise.mechanisms
    if not isinstance(lines, list) or not lines:
        return None
    if not all(type(at) is int and 0 <= at < len(bill) for at in lines):
        return None
    own = [bill[at] for at in lines]
    return own if all(item.name.startswith(f"{name}: ") for item in own) else None


def _question(
    question: Mapping[str, Any],
    own: list[PrivacyEvent],
    paid: list[PrivacyEvent],
    promise: Guarantee,
    run: object,
    of_release: Problems,
) -> list[str]:
    """What is wrong with one question: its release, and whether that keeps its lines and those of
    the shared location queries that it works from."""
    release = question.get("release")
    if release is None:
        lost = read_status(str(question.get("status"))) == FAILED
        return [] if lost else ["it has no release, and does not say that none was made"]
    if not isinstance(release, Mapping):
        return ["its release is no release"]
    found = list(of_release(release))
    try:
        made = Guarantee.from_dict(release.get("guarantee", {}))
    except PrivmeanError:
        return found  # said above
    if made.neighbors != promise.neighbors or made.unit != promise.unit:
        found.append("its release is for other neighbors or another unit than the study")
    whole = f", run {run}"
    if run is not None and not made.parent_run.endswith(whole):
        found.append("its release does not say that it is part of this run: it could be charged")
    if not _kept(made, own, paid, str(question["name"])):
        found.append("its release has an accounting that its lines of the study do not cover")
    return found


def _kept(made: Guarantee, own: list[PrivacyEvent], paid: list[PrivacyEvent], name: str) -> bool:
    """Whether a release's guarantee, or its accounting entry by entry, is covered by its lines."""
    (first, *rest) = own
    if not rest and first.name == f"{name}: whole":
        return _within_whole(made, first, paid)
    # a release states the looks that it works from in full: its own guarantee counts them
    return all_dominated(paid, made.mechanisms) and all_dominated(made.mechanisms, [*own, *paid])


def _within_whole(made: Guarantee, whole: PrivacyEvent, paid: list[PrivacyEvent]) -> bool:
    """Whether a question that has one line keeps it, beside the looks that it works from: both what
    it ran besides them and what its guarantee leaves besides them (on other paths it may run more).
    """
    besides = unpaid_events(made.mechanisms, paid)
    promise, room = made.budget(), ROUNDED if paid else Fraction(0)
    if besides is None:
        return False  # a look is not there in full
    if isinstance(whole, Concentrated):
        most = math.fsum([whole.limit, *(line.rho for line in paid)]) * (1 + float(room))
        ran = total_rho(besides) <= whole.limit * (1 + DIGITS)
        return ran and promise.rho is not None and promise.rho <= most
    looks = pure_epsilon(paid)
    if promise.epsilon is None or looks is None or not isinstance(whole, Pure | Approximate):
        return False
    delta = whole.delta if isinstance(whole, Approximate) else 0.0
    if exact_fraction(promise.epsilon) - looks - room > whole.pure or promise.delta > delta:
        return False
    spent, limit = pure_epsilon(besides), bounded(whole.pure)
    if spent is not None and spent <= max(whole.pure, Fraction(limit)):
        return True
    return delta > 0 and delta_within(besides, limit, delta) is not None
