"""Random rounds, values and coins in the form of the vectors: two implementations must agree."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction
from typing import Any

from wire_vectors import answered, drawn_below, thresholds_of

from privmean.errors import ArgumentError
from privmean.local.round import (
    BALLS,
    CHOSEN,
    CLOSEST,
    CODES,
    HADAMARD,
    SCALARS,
    SKETCH,
    ClientSplit,
    Round,
)

MECHANISMS = list(CODES)


class Dice:
    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def double(self) -> float:
        """Any finite double up to 1e120, often a short one."""
        kind = self.random.randrange(5)
        if kind == 0:
            return float(self.random.randrange(-20, 21))
        if kind == 1:
            return round(self.random.uniform(-100, 100), self.random.randrange(6))
        if kind == 2:
            return self.random.choice([0.0, -0.0, 5e-324, 1e16, 1e15, 1e-4, 1e-5, 123456789.0**2])
        if kind == 3:
            return self.random.gauss(0, 1) * 10.0 ** self.random.randrange(-30, 30)
        (x,) = struct.unpack("<d", self.random.randbytes(8))
        return x if abs(x) < 1e120 else self.random.random()

    def bounds(self) -> tuple[float, float]:
        while True:
            low, high = sorted((self.double(), self.double()))
            if high - low > 1e-140:
                return low, high

    def epsilon(self) -> Fraction:
        kind = self.random.randrange(4)
        if kind == 0:
            return Fraction(self.random.randrange(1, 16001), 1000)
        if kind == 1:
            return Fraction(str(round(self.random.uniform(0.001, 16), 12)))
        if kind == 2:
            bottom = self.random.randrange(1, 10**18)
            return Fraction(self.random.randrange(bottom // 900 + 1, 15 * bottom + 1), bottom)
        return Fraction(self.random.choice(["16", "0.001", "1/3", "1", "0.61", "61/100"]))

    def text(self) -> str:
        signs = 'aZ "\\\n\x00\x7fé\u2028\U0001f600\udc00'
        return "".join(self.random.choices(signs, k=self.random.randrange(8)))

    def round(self) -> Round:
        while True:
            try:
                return Round(**self._fields())
            except ArgumentError:
                continue  # two levels the same, say

    def _fields(self) -> dict[str, Any]:
        pick = self.random
        name = pick.choice(MECHANISMS)
        fields: dict[str, Any] = {
            "mechanism": name,
            "menu": tuple(sorted({self.epsilon() for _ in range(pick.randrange(1, 5))})),
            "persons": pick.choice([1, 1000, 2**30]),
            "seed": pick.randbytes(32),
            "title": self.text(),
            "messages": pick.choice([1, 1, 1, 2]),
            "issued": False,
        }
        if pick.random() < 0.3:
            fields["beta"] = pick.uniform(1e-9, 0.5)
        if pick.random() < 0.3:
            fields["closes"] = pick.randrange(2**53)
        if pick.random() < 0.2:
            shares = tuple(pick.randrange(1, 2**40) for _ in range(pick.randrange(1, 4)))
            fields["part"] = ClientSplit(pick.randbytes(32), shares, pick.randrange(len(shares)))
        pairs = [self.bounds() for _ in range(pick.choice([1, 1, 2, 5]))]
        limits = {"lower": tuple(a for a, _ in pairs), "upper": tuple(b for _, b in pairs)}
        if name in SCALARS:
            fields |= limits
            if len(pairs) == 1 and pick.random() < 0.3:
                fields["points"] = tuple(sorted({self.double() + 0.0 for _ in range(4)}))
            if pick.random() < 0.2:
                low, step = Fraction(pick.randrange(1, 50), 10), Fraction(pick.randrange(1, 9), 100)
                fields |= {"menu": (low, low + step * pick.randrange(1, 60)), "step": step}
                fields["sigma"] = tuple(abs(self.double()) + 1e-9 for _ in pairs)
        elif name in BALLS:
            fields |= {"dimension": pick.randrange(2, 9), "radius": abs(self.double()) + 1e-100}
            if name == CLOSEST:
                number = 1 << pick.randrange(1, 6)
                sizes = tuple(pick.randrange(1, number // 2 + 1) for _ in fields["menu"])
                fields |= {"candidates": number, "favoured": sizes}
        else:
            items = pick.choice([2, 3, 9, 40])
            if pick.random() < 0.3:
                fields |= {**limits, "bins": items}
            else:
                fields["items"] = items if name != SKETCH else pick.choice([items, 2**52])
                if pick.random() < 0.3:
                    fields["other"] = pick.randrange(items)
            if name in (SKETCH, HADAMARD):
                fields["rows"] = 1 << pick.randrange(6, 12)
                if pick.random() < 0.3:
                    fields["row_choice"] = CHOSEN
        return fields

    def value(self, round_: Round) -> object:
        if self.random.random() < 0.15:
            return self.random.choice([None, math.nan, math.inf, -math.inf, "x", 10**500, [], [[]]])
        if round_.items is not None and round_.bins is None:
            return self.random.randrange(-1, round_.items + 1)
        size = round_.dimension or round_.coordinates
        point = [self.double() for _ in range(size)]
        if round_.lower:  # inside more often than not
            spans = zip(round_.lower, round_.upper, strict=True)
            point = [low + (high - low) * self.random.random() for low, high in spans]
        elif self.random.random() < 0.5:
            point = [(round_.radius or 1.0) * self.random.gauss(0, 0.5) for _ in range(size)]
        return point if size > 1 or self.random.random() < 0.5 else point[0]


def random_vectors(seed: str, count: int) -> dict[str, Any]:
    """`count` rounds, each answered three times, and thresholds and draws of as many epsilons."""
    dice = Dice(seed)
    result: dict[str, Any] = {
        name: [] for name in ("hashes", "rounds_refused", "parts", "assigned", "judged", "streams")
    } | {"rounds": [], "reports": [], "thresholds": [], "integers": []}
    for k in range(count):
        round_ = dice.round()
        name = f"{seed} {k}"
        text, digest = round_.to_json(), round_.digest.hex()
        result["rounds"].append({"name": name, "text": text, "digest": digest})
        for j in range(3):
            level = dice.random.randrange(len(round_.menu))
            if round_.menu[level] * round_.messages > 16:
                continue
            value = dice.value(round_)
            point = dice.random.randrange(len(round_.points)) if round_.points else None
            result["reports"].append(answered(name, round_, value, level, f"{name} {j}", point))
        result["thresholds"].append(_thresholds(dice))
        result["integers"].append(_integers(dice, f"{name} integers"))
    return result


def _thresholds(dice: Dice) -> dict[str, Any]:
    epsilon = dice.epsilon()
    odds = [(dice.random.randrange(1, 2**30), dice.random.randrange(1, 2**30))]
    x = min(max(dice.double(), -1.0), 1.0)
    items = dice.random.randrange(2, 2**24)
    return thresholds_of(epsilon, str(epsilon), odds, [items], [x])


def _integers(dice: Dice, coins: str) -> dict[str, Any]:
    bound = dice.random.randrange(1, 2 ** dice.random.randrange(1, 200))
    return drawn_below(bound, coins, 5)
