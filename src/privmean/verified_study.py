"""What can be checked of a stored study besides each of its releases: one bill, parted among the
questions without a rest, each question within its part."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from privmean.errors import PrivmeanError
from privmean.privacy.budget import as_written
from privmean.privacy.calibrate import delta_within
from privmean.privacy.compose import DIGITS, pure_epsilon, total_rho
from privmean.privacy.covering import covered, without
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Approximate, Concentrated, Loss, Pure, bounded

KIND = "study"
LOOK = "look"
SCHEMA = 1
ROUNDED = Fraction(2, 10**12)  # a promise counts its looks, rounded up to 12 decimals
Problems = Callable[[Mapping[str, Any]], Sequence[str]]


def problems_of(stored: Mapping[str, Any], promise: Guarantee, of_release: Problems) -> list[str]:
    """What is wrong with a study whose bill was composed already. of_release: what is wrong with
    one release."""
    found: list[str] = []
    if stored.get("schema") != SCHEMA:
        found.append(f"the schema number is {stored.get('schema')!r}; this version knows {SCHEMA}")
    if stored.get("secure") is not True:
        found.append("the noise was simulated: the study is private for nobody")
    questions = stored.get("questions")
    if not isinstance(questions, list) or not questions:
        return [*found, "the questions are missing"]
    taken: list[int] = []
    names = []
    looks, words = _looks(stored.get("looks", []), promise)
    found += words
    taken += [at for lines in looks.values() for at in lines]
    for question in questions:
        if not isinstance(question, Mapping) or not isinstance(question.get("name"), str):
            found.append("a question has no name")
            continue
        name = question["name"]
        names.append(name)
        lines = question.get("lines")
        run = stored.get("run") if "looks" in stored else None  # older ones did not say it
        own, shared = _own(promise, name, lines), _shared(question.get("looks", []), looks)
        if own is None:
            found.append(f"{name}: its lines are not lines of the bill with its name")
            continue
        if shared is None:
            found.append(f"{name}: it names a look that the study does not have")
            continue
        paid = [promise.mechanisms[at] for at in shared]
        assert isinstance(lines, list)
        taken += lines
        found += [
            f"{name}: {word}" for word in _question(question, own, paid, promise, run, of_release)
        ]
    if len(set(names)) != len(names):
        found.append("two questions have one name")
    if sorted(taken) != list(range(len(promise.mechanisms))):
        found.append("the bill is not parted among the questions: a line has no question, or two")
    return found


def _looks(stored: object, promise: Guarantee) -> tuple[dict[str, list[int]], list[str]]:
    """The lines of each look by its column, and what is wrong with them."""
    lines: dict[str, list[int]] = {}
    if not isinstance(stored, list):
        return lines, ["the looks are no list"]
    for look in stored:
        column = look.get("column") if isinstance(look, Mapping) else None
        at = look.get("lines") if isinstance(look, Mapping) else None
        if not isinstance(column, str) or column in lines:
            return lines, ["a look has no column, or two have one"]
        if _own(promise, f"{LOOK}: {column}", at) is None:
            return lines, [f"look at {column}: its lines are not lines of the bill with its name"]
        assert isinstance(at, list)
        lines[column] = at
    return lines, []


def _shared(named: object, looks: Mapping[str, list[int]]) -> list[int] | None:
    """The lines of the looks that a question names; None for one that there is not."""
    if not isinstance(named, list) or not all(isinstance(item, str) for item in named):
        return None
    if any(item not in looks for item in named) or len(set(named)) < len(named):
        return None
    return [at for item in named for at in looks[item]]


def _own(promise: Guarantee, name: str, lines: object) -> list[Loss] | None:
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
    own: list[Loss],
    paid: list[Loss],
    promise: Guarantee,
    run: object,
    of_release: Problems,
) -> list[str]:
    """What is wrong with one question: its release, and whether that keeps its lines and those of
    the looks that it works from."""
    release = question.get("release")
    if release is None:
        answered = question.get("status") == "not answered"
        return [] if answered else ["it has no release, and does not say that none was made"]
    if not isinstance(release, Mapping):
        return ["its release is no release"]
    found = list(of_release(release))
    try:
        made = Guarantee.from_dict(release.get("guarantee", {}))
    except PrivmeanError:
        return found  # said above
    if made.relation != promise.relation or made.unit != promise.unit:
        found.append("its release is for other neighbours or another unit than the study")
    whole = f", run {run}"
    if run is not None and not made.part_of.endswith(whole):
        found.append("its release does not say that it is part of this run: it could be charged")
    if not _kept(made, own, paid, str(question["name"])):
        found.append("its release has a bill that its lines of the study do not cover")
    return found


def _kept(made: Guarantee, own: list[Loss], paid: list[Loss], name: str) -> bool:
    """Whether a release's promise, or its bill entry by entry, is covered by its lines."""
    (first, *rest) = own
    if not rest and first.name == f"{name}: whole":
        return _within_whole(made, first, paid)
    # a release states the looks that it works from in full: its own promise counts them
    return covered(paid, made.mechanisms) and covered(made.mechanisms, [*own, *paid])


def _within_whole(made: Guarantee, whole: Loss, paid: list[Loss]) -> bool:
    """Whether a question that has one line keeps it, beside the looks that it works from: both what
    it ran besides them and what its promise leaves besides them (on other paths it may run more).
    """
    besides = without(made.mechanisms, paid)
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
    if as_written(promise.epsilon) - looks - room > whole.pure or promise.delta > delta:
        return False
    spent, limit = pure_epsilon(besides), bounded(whole.pure)
    if spent is not None and spent <= max(whole.pure, Fraction(limit)):
        return True
    return delta > 0 and delta_within(besides, limit, delta) is not None
