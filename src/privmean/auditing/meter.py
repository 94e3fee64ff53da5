"""Draws tried with fixed noise: what a mechanism does, whatever it says of itself.

Four trials of every recorded answer, none of which uses `moved`:

* the same noise gives the same answer: no randomness but that of the source it was given;
* noise of any size is asked for equally often: no draw is tried again until it suits;
* every draw of a simple answer has the billed scale at least;
* the shift: noise moved by s makes the answer from one exact value that of another. For additive
  noise s is found from the answers to unit steps of noise, and sum |s|/scale (or its squares) is
  what the pair costs. This is the loss by definition, with no formula of ours in between.
* a threshold keeps a cell of one person hidden but for the billed delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.auditing.drawing import Draws, Endless, Fixed, Request
from privmean.auditing.same import same
from privmean.mechanisms.columns import EachColumn
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.gaussian import tail_above
from privmean.mechanisms.stable_histogram import laplace_tail
from privmean.noise.base import Noise
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.loss import Gaussian, Laplace, Selection, Threshold

ADDITIVE = {"laplace", "gaussian"}
MOST_SHIFTED = 24  # answers of one mechanism that are told apart step by step
ROUNDING = 1e-6
SIZES = (0.0, 50.0, -50.0)


def drawn(mechanism: Mechanism[Any, Any], exact: Any, noise: Noise) -> tuple[Any, list[Request]]:
    draws = Draws(noise)
    return mechanism.draw(exact, draws), draws.requests


def troubles(mechanism: Mechanism[Any, Any], exact: Any) -> Iterator[str]:
    """What is wrong with the draws of one recorded answer, in words."""
    try:
        first, requests = drawn(mechanism, exact, SimulatedNoise(1))
        again, _ = drawn(mechanism, exact, SimulatedNoise(1))
        if not same(first, again):
            yield "the same noise gives another answer: it draws from elsewhere"
        chosen = any(isinstance(loss, Selection) for loss in mechanism.losses)
        if {item.law for item in requests} <= ADDITIVE and not chosen:
            for times in SIZES:
                _, others = drawn(mechanism, exact, Fixed(times))
                if others != requests:
                    yield "how much noise is drawn depends on the noise"
                    break
    except Endless:
        yield "a draw is tried again until it suits"
        return
    yield from _narrow(mechanism, requests)
    if any(isinstance(loss, Threshold) for loss in mechanism.losses):
        yield from _threshold(mechanism, exact)


def _narrow(mechanism: Mechanism[Any, Any], requests: Sequence[Request]) -> Iterator[str]:
    """Whether noise of one scale for all answers has the scale on the bill."""
    simple = [
        loss
        for loss in mechanism.losses
        if isinstance(loss, Gaussian) or (isinstance(loss, Laplace) and not loss.joint)
    ]
    if len(simple) != 1 or len({item.scale for item in requests}) != 1:
        return
    law = "gaussian" if isinstance(simple[0], Gaussian) else "laplace"
    if any(item.law == law and item.scale < Fraction(simple[0].scale) for item in requests):
        yield "the noise is narrower than the bill says"


def shift(mechanism: Mechanism[Any, Any], exact: Any, other: Any) -> float | None:
    """What the pair costs over what is declared, from the draws alone; None where the noise is not
    added to numbers, or there are too many of them. Right to about 1e-9: answers are doubles."""
    try:
        start, requests = drawn(mechanism, exact, Fixed())
    except Endless:
        return None
    laws = {item.law for item in requests}
    total = sum(item.size for item in requests)
    losses = mechanism.losses
    if len(laws) != 1 or not laws <= ADDITIVE or not 0 < total <= MOST_SHIFTED or not losses:
        return None
    if any(isinstance(loss, Selection | Threshold) for loss in losses):
        return None
    first = list(numbers(start))
    if not first:
        return None
    second = list(numbers(mechanism.draw(other, Fixed())))
    if len(first) != len(second):
        return float("inf")
    steps = [list(numbers(mechanism.draw(exact, Fixed(step=k)))) for k in range(total)]
    # a number that no step of noise moves must not differ at all
    columns = [[b - a for a, b in zip(first, moved, strict=True)] for moved in steps]
    gap = [b - a for a, b in zip(first, second, strict=True)]
    matrix = np.array([[float(x) for x in column] for column in columns]).T
    alive = np.abs(matrix).max(axis=0) > 0
    if not alive.all():
        return None  # a choice or a rounding: single steps do not show
    scale = np.abs(matrix).max(axis=1)
    if any(value for value, size in zip(gap, scale, strict=True) if not size):
        return float("inf")  # an answer without any noise
    rows = scale > 0
    weighted = matrix[rows] / scale[rows, None]
    wanted = np.array([float(x) for x in gap])[rows] / scale[rows]
    unit = np.abs(weighted).max(axis=0)
    solved, *_ = np.linalg.lstsq(weighted / unit, wanted, rcond=None)
    scales = [float(item.scale) for item in requests for _ in range(item.size)]
    steps_of = np.array([float(max(1, round(Fraction(scale)))) for scale in scales])
    shares = np.abs(solved / unit) * steps_of / np.array(scales)
    if laws == {"gaussian"}:
        return float(shares @ shares / sum(loss.mu**2 for loss in losses))
    return float(shares.sum() / float(sum((loss.pure for loss in losses), Fraction(0))))


def numbers(value: Any) -> Iterator[Fraction]:
    """The finite numbers of an answer, in order."""
    if isinstance(value, bool | str) or value is None:
        return
    if isinstance(value, int | float | np.integer | np.floating):
        yield Fraction(value.item() if isinstance(value, np.generic) else value)
    elif isinstance(value, np.ndarray):
        for item in value.ravel().tolist():
            yield Fraction(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from numbers(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from numbers(getattr(value, field.name))


def _threshold(mechanism: Mechanism[Any, Any], exact: Any) -> Iterator[str]:
    """Whether one person alone in a cell stays hidden with all but the billed probability."""
    bill = next(loss for loss in mechanism.losses if isinstance(loss, Threshold))
    step = mechanism.step if isinstance(mechanism, EachColumn) else mechanism
    if not isinstance(exact if step is mechanism else exact[0], Mapping):
        return
    _, requests = drawn(step, {0: 1}, Fixed())
    (request,) = requests
    low, high = 0, 2**62

    def kept(steps: int) -> bool:
        return bool(step.draw({0: 1}, _Steps(steps)))

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle + 1, high)
    if request.law == "laplace":
        tail = laplace_tail(low, request.scale)
    else:
        tail = Fraction(tail_above(low, float(request.scale)))
    if tail * bill.cells > Fraction(bill.delta):
        yield "a cell of one person is shown more often than the bill says"


class _Steps(Fixed):
    """Noise of a given number of lattice steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps

    def laplace(self, size: int, scale: Fraction) -> Any:
        return np.full(size, self._steps, dtype=np.int64)

    def gaussian(self, size: int, scale: float) -> Any:
        return np.full(size, self._steps, dtype=np.int64)
