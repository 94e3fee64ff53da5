"""The plan of a two-round protocol as public text, so that each step can be another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from privmean.errors import ArgumentError
from privmean.local.aggregators.tally import Tally
from privmean.local.round import Round
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.strict_json import parsed

FORMAT, VERSION = "privmean two rounds", 1


@dataclass(frozen=True)
class TwoRounds:
    """A protocol and what people are asked: the same text gives the same rounds everywhere.

    Everything in it is public. Its second round follows from the first one's tally alone.
    """

    plan: WinsorizedRounds
    title: str = ""

    def vote(self) -> Round:
        """The first round."""
        return replace(self.plan.vote(), title=self.title)

    def mean(self, votes: Tally) -> Round:
        """The second round, around where the votes of the first lie."""
        return replace(self.plan.mean(self.plan.locate(votes)), title=self.title)

    def to_json(self) -> str:
        values: dict[str, Any] = {"format": FORMAT, "version": VERSION, "title": self.title}
        for item in fields(self.plan):
            values[item.name] = _plain(getattr(self.plan, item.name))
        return json.dumps(values, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> TwoRounds:
        """The plan of `to_json`."""
        try:
            given = parsed(text)
            if given.pop("format") != FORMAT or given.pop("version") != VERSION:
                raise ValueError
            return cls(title=str(given.pop("title")), plan=_plan(given))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                "plan", "...", "is not a plan of two rounds in this version", "make it again"
            ) from None


def _plan(given: Mapping[str, Any]) -> WinsorizedRounds:
    values: dict[str, Any] = {
        key: tuple(x) if isinstance(x, list) else x for key, x in given.items()
    }
    values["epsilon"] = tuple(Fraction(item) for item in given["epsilon"])
    values["seed"] = bytes.fromhex(given["seed"])
    return WinsorizedRounds(**values)


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Fraction):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value
