"""Draws tried with fixed noise: what a mechanism does, whatever self-declared.

Trials of recorded answers, none of which uses `moved`:

* the same noise gives the same answer: no randomness but that of the source it was given;
* noise of any size is asked for equally often: no draw is tried again until it suits;
* every draw of a simple answer has the billed scale at least;
* a threshold keeps a cell, or a key, of one person hidden but for the billed delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.auditing.equality import same
from privmean.auditing.fixed_noise import (
    ADDITIVE,
    Added,
    Answer,
    Endless,
    Fixed,
    Request,
    drawn,
)
from privmean.auditing.sharp_choices import CHOICES, ROUNDING, least, too_sharp
from privmean.data.column_counts import ColumnCounts
from privmean.mechanisms.above_threshold import HitsAbove
from privmean.mechanisms.below_threshold import FirstBelow
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.filtered.filtered_mean import FilteredMean
from privmean.mechanisms.gaussian_sums import tail_above
from privmean.mechanisms.key_cells import KeyCells
from privmean.mechanisms.likeliest_bin import LikeliestBin
from privmean.mechanisms.location_search import LocationSearch
from privmean.mechanisms.noisy_quantile import NoisyQuantile
from privmean.mechanisms.per_column import EachColumn
from privmean.mechanisms.private_center import PrivateCenter
from privmean.mechanisms.private_limits import PrivateLimits
from privmean.mechanisms.stable_histogram import laplace_tail
from privmean.mechanisms.weighted_rows import JointSums
from privmean.noise.noise_source import Noise
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.privacy_events import Gaussian, Laplace, Threshold
from privmean.privacy.threshold_of_sum import ThresholdOfSum, three_laplace_tail

# several draws whose losses are known together; their answers are no plain numbers
PROCEDURES = (FilteredMean, LikeliestBin, LocationSearch, NoisyQuantile, PrivateCenter)
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
            if step.noisy is None and any(item.scale < scale for item, scale in pairs if item.size):
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
            tail = tail_above(low, float(scale))
        if Fraction(tail) * loss.cells > loss.delta:
            yield "a person alone is shown more often than the accounting says"
