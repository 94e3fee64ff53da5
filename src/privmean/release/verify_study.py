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
from privmean.privacy import older_names
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
from privmean.release.stored_release import (
    SCHEMA,
    SCHEMAS,
    Malformed,
    Stored,
    items,
    mapped,
    number,
    numbers,
    text,
)

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
    before, read = len(look.problems), older_names.release(stored)
    schema, parts = stored.get("schema"), Parts(read)
    if type(schema) is not int or schema not in SCHEMAS:
        look.wrong(f"the schema number is {shown(schema)}; this version of privmean knows {SCHEMA}")
    elif contradiction := older_names.contradiction(stored, read, SCHEMA):
        look.wrong(contradiction)
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
        interval = parts.stated_interval(title)
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


STUDY_KIND = "study"
LOOK = "look"
UNPLACED = "The shared location query found no limits"  # how a question says that it asked nothing
STUDY_SCHEMA, STUDY_READ = 2, (1, 2)
ROUNDED = Fraction(2, 10**12)  # a guarantee counts its looks, rounded up to 12 decimals


def problems_of(
    values: Stored, promise: Guarantee, of_release: Callable[[Stored], Iterable[str]]
) -> Iterator[str]:
    """What is wrong with a study whose accounting was composed already; Malformed where a part has
    another form. of_release: what is wrong with one release."""
    schema, stored = values.get("schema"), older_names.study(values)
    if type(schema) is not int or schema not in STUDY_READ:
        yield f"the schema number is {shown(schema)}; this version knows {STUDY_SCHEMA}"
    elif contradiction := older_names.contradiction(values, stored, STUDY_SCHEMA):
        yield contradiction
    if stored.get("secure") is not True:
        yield "the noise was simulated: the study protects no person"
    yield from _said(stored, promise)
    questions = [mapped(item) for item in items(stored.get("questions"))]
    names = [text(question.get("name")) for question in questions]
    if not questions:
        yield "the questions are missing"
    if len(set(names)) != len(names):
        yield "two questions have one name"
    looks: dict[str, list[int]] = {}
    for look in map(mapped, items(stored.get("shared_locations", []))):
        column = text(look.get("column"))
        if column in looks:
            yield f"two shared location queries are of {column}"
        looks[column] = _lines(promise, f"{LOOK}: {column}", look.get("lines"))
        serves = [x["name"] for x in questions if column in items(x.get("shared_locations", []))]
        if look.get("serves") != serves:
            yield f"shared location of {column}: it serves other questions than name it"
    taken = [at for lines in looks.values() for at in lines]
    for question, name in zip(questions, names, strict=True):
        lines = _lines(promise, name, question.get("lines"))
        taken += lines
        shared = [text(item) for item in items(question.get("shared_locations", []))]
        if not set(shared) <= set(looks) or len(set(shared)) < len(shared):
            yield f"{name}: it names a shared location query that the study does not have"
            continue
        own = [promise.mechanisms[at] for at in lines]
        paid = [promise.mechanisms[at] for look in shared for at in looks[look]]
        for words in _question(question, own, paid, promise, stored, of_release):
            yield f"{name}: {words}"
    if sorted(taken) != list(range(len(promise.mechanisms))):
        yield "the accounting is not parted among the questions: a line has no question, or two"


def _lines(promise: Guarantee, name: str, stated: object) -> list[int]:
    """Which lines of the accounting have this name, as they are stated."""
    places, bill = items(stated), promise.mechanisms
    for at in places or [None]:
        if (
            type(at) is not int
            or not 0 <= at < len(bill)
            or not bill[at].name.startswith(f"{name}: ")
        ):
            raise Malformed(f"{name} has other lines of the accounting than those of its name")
    return places


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


def _said(stored: Stored, promise: Guarantee) -> Iterator[str]:
    """What is wrong with what a study says once for all questions."""
    level, plan = number(stored.get("level")), mapped(stored.get("plan", {}))
    if level is None or not 0 < level < 1:
        yield "the level does not lie between 0 and 1"
    if not isinstance(stored.get("simultaneous"), bool):
        yield "whether intervals hold together is not stated"
    if isinstance(plan.get("budget"), Mapping) and not _same_budget(plan["budget"], promise):
        yield "the plan's budget is not that of the guarantee"
    if plan.get("neighbors", promise.neighbors) != promise.neighbors:
        yield "the plan was made for other neighbors"


def _level_of(stored: Stored) -> object:
    """The level of one line: that of all lines together, by Bonferroni, where that was asked."""
    if stored.get("simultaneous") is not True:
        return stored.get("level")
    releases = [item["release"] for item in stored["questions"] if item["release"] is not None]
    lines = sum(len(items(mapped(release).get("rows"))) for release in releases)
    return 1 - (1 - stored["level"]) / max(lines, 1)


def _question(
    question: Stored,
    own: list[PrivacyEvent],
    paid: list[PrivacyEvent],
    promise: Guarantee,
    stored: Stored,
    of_release: Callable[[Stored], Iterable[str]],
) -> Iterator[str]:
    """What is wrong with one question: its release, whether that keeps its lines and those of the
    shared location queries that it works from, and what it says of the release again."""
    if question.get("release") is None:
        if read_status(str(question.get("status"))) != FAILED:
            yield "it has no release, and does not say that none was made"
        return
    release = mapped(question["release"])
    yield from of_release(release)
    try:
        made = Guarantee.from_dict(release.get("guarantee", {}))
    except PrivmeanError:
        return  # said above
    if made.neighbors != promise.neighbors or made.unit != promise.unit:
        yield "its release is for other neighbors or another unit than the study"
    # older ones did not say of which run they are
    if "shared_locations" in stored and not made.parent_run.endswith(f", run {stored.get('run')}"):
        yield "its release does not say that it is part of this run: it could be charged"
    if not _kept(made, own, paid, str(question["name"])):
        yield "its release has an accounting that its lines of the study do not cover"
    interval, budget = mapped(release.get("interval")), mapped(question.get("budget"))
    says = release if release.get("status") != OK else interval
    if any(question.get(name) != says.get(name) for name in ("status", "advice")):
        yield "its status is not that of its release"
    if interval.get("level") != _level_of(stored):
        yield "its release has another level than the study"
    delta = number(budget.get("delta", 0.0))
    same = all(budget.get(name) == getattr(made, name) for name in ("epsilon", "rho"))
    if not same or delta is None or not made.delta <= delta < 0.5:
        yield "its budget is not that of its release"
    weight, wanted = number(question.get("weight")), number(question.get("wanted_error"))
    if weight is None or weight <= 0:
        yield "its weight is no positive number"
    if wanted is not None and not wanted > 0:
        yield "its wanted error is no positive number"


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
