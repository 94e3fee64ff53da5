"""Privacy losses measured on pairs of tables.

Whether two values are the same for everybody who can see them: NaN equals NaN, bit for bit.

Whether a choice that is drawn by rejection is sharper than the accounting says.

The words that a draw is decided by are given, one after the other: how many of them give an answer
is its probability. No formula of a draw is used.

Draws tried with fixed noise: what a mechanism does, whatever self-declared.

Trials of recorded answers, none of which uses `moved`:

* the same noise gives the same answer: no randomness but that of the source it was given;
* noise of any size is asked for equally often: no draw is tried again until it suits;
* every draw of a simple answer has the billed scale at least;
* a threshold keeps a cell, or a key, of one person hidden but for the billed delta.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privmean.auditing.fixed_noise import ADDITIVE, Added, Answer, Endless, Fixed, Request, drawn
from privmean.bisection import smallest_int
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ColumnCounts
from privmean.mechanisms.choices import Exponential, FirstBelow, HitsAbove
from privmean.mechanisms.curator import EachColumn, Mechanism
from privmean.mechanisms.filtered_mean import FilteredMean
from privmean.mechanisms.group_cells import KeyCells
from privmean.mechanisms.histograms import LocationSearch, laplace_tail
from privmean.mechanisms.noisy_counts import NoisyQuantile
from privmean.mechanisms.private_location import CANDIDATES, PLATEAU, PrivateCenter, PrivateLimits
from privmean.mechanisms.weighted_sums import JointSums
from privmean.noise.noise_source import Noise, SimulatedNoise
from privmean.privacy.amplification import gaussian_tail
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian, Laplace, Threshold
from privmean.privacy.profile_events import ThresholdOfSum, three_laplace_tail

ATOMS = (int, bool, bytes, type(None))
# times, digests of them and names of runs differ from call to call, whatever the records; a number,
# however many digits it has, is compared
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d+:Z]*"
_DIGEST = r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{16,}"
CHANGING = re.compile(f"{_TIME}|{_DIGEST}")


def same(a: object, b: object) -> bool:
    """Values of mechanisms, questions and outcomes. Functions are the same by their place in the
    code: what they do with private values shows in what they give."""
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        equal = a == b and math.copysign(1, a) == math.copysign(1, b)
        return equal or (math.isnan(a) and math.isnan(b))
    if type(a) is not type(b):
        return False
    if isinstance(a, str) and isinstance(b, str):
        return a == b or steady(a) == steady(b)
    if isinstance(a, ATOMS):
        return a == b
    if isinstance(a, np.ndarray):
        return _arrays(a, np.asarray(b))
    others: Any = b
    if isinstance(a, Mapping):
        # order included: it is seen where a mapping is printed
        return list(a) == list(others) and all(same(a[key], others[key]) for key in a)
    if isinstance(a, Sequence):
        return len(a) == len(others) and all(map(same, a, others))
    if isinstance(a, ColumnCounts) and isinstance(b, ColumnCounts):
        return same(a.distribution(), b.distribution())
    if is_dataclass(a):
        names = [item.name for item in fields(a) if item.compare]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    if callable(a):
        return _place(a) == _place(b)
    return bool(a == b)


def steady(text: str) -> str:
    """The text without what changes from call to call."""
    return CHANGING.sub("*", text)


def _arrays(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _place(function: object) -> tuple[Any, ...]:
    function = getattr(function, "func", function)  # of a partial
    function = getattr(function, "__func__", function)  # of a bound method
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


Weighted: TypeAlias = PrivateCenter | PrivateLimits
Choice: TypeAlias = Exponential | Weighted
CHOICES = (Exponential, PrivateCenter, PrivateLimits)
SHARP = "a choice is sharper than the accounting says"
ROUNDING = Fraction(1, 10**6)
NATS = 5  # between the scores of two answers, about
MOST_EPSILON = 18  # beyond it a worse answer has too few of the words to be measured
NEARLY = 2**64 - 2**54  # a word that refuses an item, unless it is accepted nearly always
PARTS = 7  # of the probability of all others, at whose ends they are looked at
ONE_DRAW = 8  # requests before an item is proposed again, at least


def too_sharp(step: Choice) -> Iterator[str]:
    """What is wrong with the probabilities of a choice, in words."""
    if not step.events or not measurable(step):
        return
    gap, words = accepted(step)
    if 2**64 * math.exp(-float(_unit(step)) * gap * (1 + ROUNDING)) > words:
        yield SHARP


def _unit(step: Choice) -> Fraction:
    """Nats that scores may move a choice by, a step of 1, as the accounting says."""
    if isinstance(step, Exponential):
        return step.epsilon / step.change
    one_way = isinstance(step, PrivateCenter) and step.relation != REPLACE_ONE
    whole = step.whole if isinstance(step, PrivateCenter) else 1
    return step.events[0].pure / ((1 if one_way else 2) * whole)


def measurable(step: Choice) -> bool:
    return isinstance(step, Exponential) or step.epsilon <= MOST_EPSILON


def accepted(step: Choice) -> tuple[int, int]:
    """A gap of scores, and how many of 2^64 times an answer is given that is so much worse; where
    answers have weights: where it becomes so much worse than all others, of the times before."""
    if isinstance(step, Exponential):
        return _accepted(step)
    gap, answer, one, two = _extremes(step)
    first, second = (_against_others(step, exact, answer) for exact in (one, two))
    if first is None or second is None:
        return gap, 0
    alike = sum(map(same, first[1], second[1]))
    if alike < PARTS // 2:  # at an end by chance another one is next: in one or two of them
        return gap, 0
    return gap, int(2**64 * math.exp(-abs(first[0] - second[0])))


# --- one of two items -----------------------------------------------------------------------------
def _accepted(step: Exponential) -> tuple[int, int]:
    """By the first word that refuses an item."""
    gap = max(1, int(step.change * min(1.0, NATS / float(step.epsilon))))
    scores = np.array([0, gap])

    def refused(word: int) -> bool:
        return int(step.draw(scores, _Proposing(word))) != 0

    return gap, least(refused, 2**64 - 1)


def least(enough: Callable[[int], bool], most: int) -> int:
    """The smallest whole number that is enough, or `most`."""
    found = smallest_int(enough, 0, most=most)
    return most if found is None else found


class _Proposing(Fixed):
    """The first item is proposed first, with this word; then the second, for ever."""

    def __init__(self, word: int) -> None:
        super().__init__()
        self._word = word

    def below(self, size: int, bound: int) -> Added:
        return np.minimum(np.arange(size), 1)

    def bits64(self, size: int) -> Added:
        return np.full(size, self._word, dtype=np.uint64)


# --- one of many items with weights ---------------------------------------------------------------
def _extremes(step: Weighted) -> tuple[int, Answer, Answer, Answer]:
    """An answer that is proposed first or last, and two exact answers: between them all others'
    scores move alike, and apart from its own by so many people (which come first)."""
    if isinstance(step, PrivateCenter):  # people at 0, or above all candidates
        people = math.ceil(NATS / step.unit)
        tables = [ArrayPersonTable(np.full((people, 1), x), ("x",)) for x in (0.0, 1e300)]
        one, two = (table.column_counts(0) for table in tables)
        return people, (0.0, 0.0), one, two
    nobody = np.zeros(CANDIDATES, dtype=np.int64)
    # beyond all limits, at most as many as a limit other than the center misses within
    people = max(1, int(PLATEAU / step.unit))
    all_out = np.full(CANDIDATES, people)
    return people, (0, 0), (nobody, nobody), (all_out, all_out)


def _against_others(
    step: Weighted, exact: Answer, answer: Answer
) -> tuple[float, list[Answer]] | None:
    """The logarithm of the odds of `answer` against all others, by what is proposed, and some of
    the others, at parts of their probability; None where one side is not given, or refused."""

    def given(place: int, word: int = 0) -> Answer:
        return _placed(step, exact, place, word)[0]

    bound = _placed(step, exact, 0, 0)[1]
    first = given(0) == answer
    if not bound or first == (given(bound - 1) == answer):
        return None
    low, high = 0, bound - 1  # between them the answer changes
    while high - low > max(1, min(low, bound - high) >> 32):
        middle = (low + high) // 2
        low, high = (middle, high) if (given(middle) == answer) == first else (low, middle)
    start, end = (high, bound) if first else (0, high)
    others = [given(start + (end - start) * part // PARTS) for part in range(1, PARTS)]
    if None in (given(low // 2, NEARLY), given((high + bound) // 2, NEARLY)):
        return None
    return math.log(high / (bound - high)) * (1 if first else -1), others


def _placed(step: Weighted, exact: Answer, place: int, word: int) -> tuple[Answer, int]:
    """The answer if this place is proposed, with this word (None: refused), and how many places
    there are (0: none)."""
    noise = _Placing(place, word)
    try:
        return drawn(step, exact, noise, ONE_DRAW)[0], noise.bound
    except Endless:
        return None, noise.bound


class _Placing(Fixed):
    """One item is proposed, with one word, again and again."""

    def __init__(self, place: int, word: int) -> None:
        super().__init__()
        self._place, self._word, self.bound = place, word, 0

    def below(self, size: int, bound: int) -> Added:
        self.bound = self.bound or bound
        return np.full(size, min(self._place, bound - 1), dtype=np.int64)

    def bits64(self, size: int) -> Added:
        return np.full(size, self._word, dtype=np.uint64)


# several draws whose losses are known together; their answers are no plain numbers
PROCEDURES = (FilteredMean, LocationSearch, NoisyQuantile, PrivateCenter)
SIZES = (0.0, 200.0, -200.0)
SEEDS = 6


def troubles(mechanism: Mechanism[Any, Any], exact: object) -> Iterator[str]:
    """What is wrong with the draws of one recorded answer, in words."""
    step = step_of(mechanism)
    simple = not isinstance(step, PROCEDURES)
    try:
        _, requests = drawn(mechanism, exact, SimulatedNoise(1))
        for answers in (exact, flat(exact)) if simple else (exact,):
            made = [drawn(mechanism, answers, SimulatedNoise(1)) for _ in range(2)]
            if not same(made[0], made[1]):
                yield "the same noise gives another answer: it draws from elsewhere"
            if simple and _tries_again(mechanism, answers, made[0][1]):
                yield "how much noise is drawn depends on the noise"
    except Endless:
        yield "a draw is tried again until it suits"
        return
    if not requests and any(numbers(exact)):
        yield "nothing is drawn from the noise that was given"
    laws = {item.law for item in requests}
    billed = any(isinstance(loss, Laplace | Gaussian) for loss in mechanism.events)
    if billed and laws - set(ADDITIVE):
        yield "noise is made of words, where the accounting says Laplace or Gaussian"
    yield from _narrow(mechanism, requests)
    # cells, whose number may be the same whatever the noise
    hidden = not isinstance(step, FilteredMean) and any(x.added_delta for x in mechanism.events)
    hidden |= isinstance(step, PrivateCenter | PrivateLimits)  # whose probabilities are measured
    if laws - {*ADDITIVE, "argmax"} and not hidden:
        yield from _constant(mechanism, flat(exact) if simple else exact)
    if any(isinstance(loss, Threshold | ThresholdOfSum) for loss in mechanism.events):
        yield from _shown(mechanism, exact)
    if isinstance(step, CHOICES):
        yield from too_sharp(step)


def _constant(mechanism: Mechanism[Any, Any], exact: object) -> Iterator[str]:
    """Whether a number of an answer made of words is the same whatever the noise."""
    seeds = range(2, 2 + 2 * SEEDS)
    found = [list(numbers(drawn(mechanism, exact, SimulatedNoise(seed))[0])) for seed in seeds]
    if found[0] and len({len(item) for item in found}) == 1:
        # of one item there is one choice
        several = len(found[0]) > 1 or len(list(numbers(exact))) > SEEDS
        if several and any(len({*column}) == 1 for column in zip(*found, strict=True)):
            yield "a number of the answer does not hang on the noise"


def _tries_again(mechanism: Mechanism[Any, Any], exact: object, requests: list[Request]) -> bool:
    """Whether other noise is asked for otherwise. Mechanisms that end early, and those that draw by
    rejection, may."""
    laws = {item.law for item in requests}
    if isinstance(step_of(mechanism), FirstBelow | HitsAbove) or not (
        laws <= set(ADDITIVE) or laws <= {"argmax"}
    ):
        return False
    tried: list[Noise] = [Fixed(times) for times in SIZES]
    tried += [SimulatedNoise(seed) for seed in range(2, 2 + SEEDS)]
    most = len(requests) + 1
    return any(drawn(mechanism, exact, noise, most)[1] != requests for noise in tried)


def step_of(mechanism: Mechanism[Any, Any]) -> Mechanism[Any, Any]:
    """The mechanism, or the one that it asks for each column."""
    return mechanism.step if isinstance(mechanism, EachColumn) else mechanism


def _narrow(mechanism: Mechanism[Any, Any], requests: Sequence[Request]) -> Iterator[str]:
    """Whether noise of one scale for all answers has the scale in the accounting."""
    losses, step = mechanism.events, step_of(mechanism)
    added = [item for item in requests if item.law in ADDITIVE]
    least = Fraction(0)
    if isinstance(step, FirstBelow) and losses:
        least = 2 / losses[0].pure
    elif isinstance(step, FilteredMean):
        first, *rest = added or [Request("gaussian", 0)]
        for loss in losses:
            pairs = [(first, getattr(loss, "count_scale", 0))]
            pairs += [(item, getattr(loss, "mean_scale", 0)) for item in rest]
            if any(item.scale < scale for item, scale in pairs if item.size):
                yield "the noise is narrower than the accounting says"
        return
    elif isinstance(step, JointSums) and step.law == "k-norm":
        added, least = [item for item in added if item.size > 1], step.coordinate_scale
    else:
        scales = {
            Fraction(loss.scale)
            for loss in losses
            if isinstance(loss, Gaussian) or (isinstance(loss, Laplace) and not loss.joint)
        }
        if len(scales) == 1 and len({item.scale for item in added}) == 1:
            (least,) = scales
    if any(item.scale < least for item in added):
        yield "the noise is narrower than the accounting says"


def numbers(value: object) -> Iterator[Fraction]:
    """The finite numbers of an answer, in order."""
    if isinstance(value, ColumnCounts):
        value = value.distribution()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    items: Iterable[Any] = ()
    if isinstance(value, Mapping):
        items = value.values()
    elif isinstance(value, tuple | list):
        items = value
    elif is_dataclass(value):
        items = (getattr(value, field.name) for field in fields(value))
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        yield Fraction(value)
    for item in items:
        yield from numbers(item)


def flat(exact: object) -> Added:
    """Answers of the same shape that tell nothing, so that only the noise decides."""
    if isinstance(exact, np.ndarray):
        return np.zeros_like(exact)
    if isinstance(exact, Mapping):
        return {key: 1 if isinstance(item, int) else flat(item) for key, item in exact.items()}
    if isinstance(exact, list | tuple):
        return type(exact)(flat(item) for item in exact)
    if isinstance(exact, int):
        return 0
    if is_dataclass(exact) and not isinstance(exact, type):
        return replace(
            exact, **{item.name: flat(getattr(exact, item.name)) for item in fields(exact)}
        )
    return exact


def _shown(mechanism: Mechanism[Any, Any], exact: Answer) -> Iterator[str]:
    """Whether one person alone, in a cell or with a key, stays hidden with all but the billed
    probability: the least noise that shows the person, in steps, tells."""
    step = step_of(mechanism)
    if not isinstance(exact if step is mechanism else exact[0], Mapping):
        return
    alone: Any = {0: 1}
    if isinstance(step, KeyCells):
        step, alone = replace(step, shown=()), {("a",): (step.unit, 0, 0)}
    _, requests = drawn(step, alone, Fixed())
    if len(requests) != 1:
        yield "a cell of one person is not drawn once"
    if len(requests) != 1 or requests[0].law not in ADDITIVE:
        return
    law, scale = requests[0].law, requests[0].scale
    low = least(lambda steps: step.draw(alone, Fixed(steps=steps)) not in (None, {}), 2**62)
    for loss in mechanism.events:
        tail: Fraction | float = laplace_tail(low, scale) if law == "laplace" else 0.0
        if isinstance(loss, ThresholdOfSum):  # three noises of so many steps each
            scales = float(3 * low / scale)
            tail = three_laplace_tail(scales)
            if scales > (1 + ROUNDING) * (loss.threshold - 1) / float(loss.scale):
                yield "the noise is narrower than the accounting says"
        elif not isinstance(loss, Threshold):
            continue
        elif law == "gaussian":
            tail = gaussian_tail(low, float(scale))
        if Fraction(tail) * loss.cells > loss.delta:
            yield "a person alone is shown more often than the accounting says"
