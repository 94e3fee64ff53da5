"""One answer in words, for readers who are no analysts: a board, a council, a newspaper.

Every sentence names the quantity, its estimate, its confidence interval and what the interval is
for. Numbers have three significant digits, or as many as the interval needs to have two ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import NormalDist

from privmean.inference.status import (
    EXTREME_OUTLIERS,
    MODIFIED_TARGET,
    OUTLIERS_UNCHECKED,
    find_status,
)
from privmean.output import percent
from privmean.release.formatting import capital, code, is_public, is_wider, title
from privmean.release.result_numbers import ResultNumbers
from privmean.release.stored_release import Row, is_comparison

FEW = 2  # estimates that one sentence tells
DIGITS = 3
MOST_DECIMALS = 6
LARGEST = 1e12
PARTS = {0.25: "a quarter", 0.5: "half", 0.75: "three quarters"}
REST = {"rest": "in the other groups", "overall": "in all groups together"}
WIDER = " The interval also allows for clipped outliers."
RANDOMIZED = "It is an effect of the arms only if people were assigned to them at random."


def sentence(release: ResultNumbers, label: str = "", unit: str = "") -> str:
    """See `Release.sentence`."""
    said = _Wording(release, label, unit)
    if not release.answered:
        return f"There is no estimate of the {said.quantity}."
    return capital(_SENTENCES[release.question_kind](said))


@dataclass(frozen=True)
class _Wording:
    """A release with the words of its reader."""

    release: ResultNumbers
    label: str
    unit: str

    @property
    def rows(self) -> list[Row]:
        """The rows with an estimate."""
        return [row for row in self.release.rows() if math.isfinite(row.estimate)]

    @property
    def quantity(self) -> str:
        """What is estimated, in the middle of a sentence."""
        return title(self.release)[:1].lower() + title(self.release)[1:]

    def named(self, column: str) -> str:
        return self.label or column

    def amount(self, value: float, places: int) -> str:
        return f"{written(value, places)}{f' {self.unit}' if self.unit else ''}"

    def brackets(self, row: Row, places: int, more: str = "") -> str:
        """The interval of a row, and whether it holds."""
        return f"({self._ends(row.lower, row.upper, places, code(row))}{more})"

    def _ends(self, low: float, high: float, places: int, status: str) -> str:
        name = f"{percent(self.release.level)} CI"
        if find_status(status).interval == "no" or math.isnan(low) or math.isnan(high):
            return "no confidence interval holds"
        if math.isinf(low) and math.isinf(high):
            return f"{name} unlimited"
        if math.isinf(high):
            ends = f"from {written(low, places)}"
        elif math.isinf(low):
            ends = f"up to {written(high, places)}"
        else:
            ends = f"{written(low, places)} to {written(high, places)}"
        return f"{name} {ends}{self._hedge(status)}"

    def _hedge(self, status: str) -> str:
        return {
            EXTREME_OUTLIERS: ", in doubt",
            OUTLIERS_UNCHECKED: ", if there are no outliers",
            MODIFIED_TARGET: f", for the {self.release.interval().target}",
        }.get(status, "")

    def estimate(self, row: Row, more: str = "") -> str:
        places = places_of(row)
        return f"{self.amount(row.estimate, places)} {self.brackets(row, places, more)}"

    def difference(self, row: Row) -> tuple[str, str]:
        """How much higher or lower, and the interval in the same direction."""
        places, down = places_of(row), row.estimate < 0
        low, high = (-row.upper, -row.lower) if down else (row.lower, row.upper)
        way, other = ("lower", "higher") if down else ("higher", "lower")
        ends = self._ends(low, high, places, code(row))
        if low < 0 < high and ends.count(" to ") == 1:
            ends = ends.replace(
                f"{written(low, places)} to {written(high, places)}",
                f"{written(-low, places)} {other} to {written(high, places)} {way}, so it may be 0",
            )
        return f"{self.amount(abs(row.estimate), places)} {way}", f"({ends})"


def places_of(row: Row) -> int:
    """Decimals that show three significant digits, and one of the width of the interval; below 0:
    zeros before the decimal point."""
    widths = ((row.upper - row.lower) / 2, row.std_error)
    half = next((x for x in widths if 0 < x < math.inf), 0.0)
    largest = max(abs(row.estimate), half)
    if not 0 < largest < math.inf:
        return 0
    wanted = DIGITS - 1 - math.floor(math.log10(largest))
    if half:
        wanted = max(wanted, -math.floor(math.log10(half)))
    return min(wanted, MOST_DECIMALS)


def written(value: float, places: int) -> str:
    """A number of a sentence; commas part thousands."""
    if abs(value) >= LARGEST or 0 < abs(value) < 10.0**-MOST_DECIMALS:
        return f"{value:.{DIGITS}g}"
    plain = f"{round(value, places):,.{max(places, 0)}f}"
    return plain.removeprefix("-") if float(plain.replace(",", "")) == 0 else plain


def _listed(items: Sequence[str], number: int) -> str:
    """The first of so many items, as one sentence."""
    left = number - len(items)
    return f"{'; '.join(items)}{f' (the table has {left} more)' if left else ''}."


# --- one function per kind of question ------------------------------------------------------------
def _mean(said: _Wording) -> str:
    rows, noun = said.rows, said.quantity.partition(" of ")[0]
    alone = len(said.release.columns) == 1
    if not alone:
        each = [f"{row.term} {said.estimate(row)}" for row in rows[:FEW]]
        return f"The {noun} are {_listed(each, len(rows))}"
    row, release = rows[0], said.release
    known = "n = " if is_public(release) else "n about "
    more = "" if release.n is None else f"; {known}{release.n:,}"
    text = f"The {noun} of {said.named(row.term)} is {said.estimate(row, more)}."
    sampling = release.interval().half_widths.get("sampling", ())
    if not sampling or find_status(code(row)).interval == "no":
        return text
    without = sampling[0] / NormalDist().inv_cdf((1 + release.level) / 2)
    if not 0 < without <= row.std_error < math.inf:
        return text
    numbers = [written(x, 1 - math.floor(math.log10(x))) for x in (row.std_error, without)]
    return (
        f"{text} The standard error is {numbers[0]}; without privacy noise it would be about "
        f"{numbers[1]}.{WIDER if is_wider(release) else ''}"
    )


def _groups(said: _Wording) -> str:
    columns = set(said.release.columns)
    compared = [row for row in said.rows if is_comparison(row, columns)]
    if compared:
        each = [_compared(said, row) for row in compared[:FEW]]
        again = f"the mean of {_value(said, compared[0])} is "
        each[1:] = [text.removeprefix(again) for text in each[1:]]
        return _listed(each, len(compared))
    found = said.rows
    low, high = (pick(found, key=attrgetter("estimate")) for pick in (min, max))
    if len(found) == 1:
        return f"The mean of {_value(said, low)} is {said.estimate(low)} {_place(said, low.group)}."
    few = "" if len(found) == 2 else f" Of {len(found)} groups, these have the extreme estimates."
    return (
        f"The mean of {_value(said, low)} is lowest {_place(said, low.group)}, "
        f"{said.estimate(low)}, and highest {_place(said, high.group)}, {said.estimate(high)}.{few}"
    )


def _value(said: _Wording, row: Row) -> str:
    """What is averaged: a label is of the only value."""
    several = len({item.term for item in said.release.rows()}) > 1
    return row.term if several else said.named(row.term)


def _place(said: _Wording, key: str) -> str:
    """A group in words; numbers and truth values say nothing without their column."""
    by = said.release.grouped_by
    bare = key.lower() in ("true", "false") or not key[:1].isalpha()
    if key in REST and key not in said.release.columns:
        return REST[key]
    return f"where {by[0]} is {key}" if bare and len(by) == 1 else f"in {key}"


def _compared(said: _Wording, row: Row) -> str:
    """A difference or ratio of two groups; another comparison by its own text."""
    value = _value(said, row)
    for sign in (" - ", " / "):
        for at in (i for i in range(len(row.group)) if row.group.startswith(sign, i)):
            one, two = row.group[:at], row.group[at + len(sign) :]
            known = {*said.release.columns, *REST}
            if not {one, two} <= known | {x.partition(": ")[2] for x in said.release.columns}:
                continue
            if sign == " / ":
                places = places_of(row)
                ratio = f"{written(row.estimate, places)} times that {_place(said, two)}"
                ends = said.brackets(row, places)
                return f"the mean of {value} {_place(said, one)} is {ratio} {ends}"
            shown, ends = said.difference(row)
            where = f"{_place(said, one)} than {_place(said, two)}"
            return f"the mean of {value} is {shown} {where} {ends}"
    return f"the comparison {row.group} of the mean of {value} is {said.estimate(row)}"


def _compare(said: _Wording) -> str:
    return f"{_groups(said)} {RANDOMIZED}"


def _effect(said: _Wording) -> str:
    row = said.rows[0]
    shown, ends = said.difference(row)
    value, _, pair = row.term.rpartition(": ")
    one, _, two = pair.partition(" - ")
    by = said.release.estimand.partition(", people ")[0].rpartition(" by ")[2]
    where = f"where {by} is {one} than where it is {two}" if two else f"({pair})"
    return f"For the same people, the mean of {said.named(value)} is {shown} {where} {ends}."


def _curve(said: _Wording) -> str:
    words = said.release.estimand.partition(", people ")[0]
    first, last = said.rows[0], said.rows[-1]
    noun = "difference of the mean" if words.startswith("difference") else "mean"
    arms = f", {words.partition(', ')[2]}," if ", " in words else ""
    value = said.named(words.partition("mean of ")[2].partition(" by ")[0])
    start = f"The {noun} of {value}{arms} is {said.estimate(first)} {_time(first.term)}"
    if first is last:
        return f"{start}."
    return f"{start} and {said.estimate(last)} {_time(last.term)}."


def _time(name: str) -> str:
    """A bin or a point of time in words."""
    low, comma, high = name.strip("[)").partition(", ")
    return f"from {low} to before {high}" if comma else f"at {name}"


def _quantile(said: _Wording) -> str:
    found = []
    column = said.release.columns[0].rpartition(" at ")[0]
    for label, row in zip(said.release.labels(), said.release.rows(), strict=True):
        if math.isfinite(row.estimate):
            part = PARTS.get(float(label.rstrip("%")) / 100, label)
            found.append((part, row))
    each = [f"{part} below {said.estimate(row)}" for part, row in found[:FEW]]
    people = f"of the people have a mean {said.named(column)}"
    first, *others = each
    part, _, rest = first.partition(" below ")
    text = [f"{part} {people} below {rest}", *others]
    return _listed(text, len(found))


def _variance(said: _Wording) -> str:
    row = said.rows[-1]
    value = said.release.estimand.removeprefix("variance of ").removesuffix(" between people")
    noun = "standard deviation of the mean"
    return f"The {noun} of {said.named(value)} between people is {said.estimate(row)}."


def _regression(said: _Wording) -> str:
    rows = [row for row in said.rows if row.term != "Intercept"]
    if not rows:
        return "No coefficient but the intercept has an estimate."
    model = said.release.estimand
    value = said.named(model.partition(": ")[2].partition(" ~ ")[0])
    kind = model.partition(" ")[0].lower()
    inside = {"within-person": "within one person, ", "mean": "on average over people, "}.get(
        kind, ""
    )
    each = []
    rows.sort(key=lambda row: row.lower <= 0 <= row.upper)  # first what differs from 0
    for row in rows[:FEW]:
        shown, ends = said.difference(row)
        each.append(f"{shown} for {_step(row.term)} {ends}")
    start = f"{inside}other terms held constant, the mean of {value} is"
    return f"{start} {_listed(each, len(rows))}"


def _step(term: str) -> str:
    """One more unit of a column, or a level instead of the reference level."""
    name, bracket, level = term.partition("[")
    if bracket and level.endswith("]"):
        return f"{name} {level[:-1]} instead of the reference level"
    return f"one more unit of {term}"


_SENTENCES: dict[str, Callable[[_Wording], str]] = {
    "mean": _mean,
    "groups": _groups,
    "compare": _compare,
    "effect": _effect,
    "curve": _curve,
    "quantile": _quantile,
    "variance": _variance,
    "regression": _regression,
}
