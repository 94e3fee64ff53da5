"""Means of values without a narrow range, in two rounds: find where they are, then measure there.

Some clients vote for a bin, the others report their value clipped to a window around the winning
bin (Roth and Avella-Medina 2025, Section 6, in the form of docs/proofs/local-rounds.md). The same
protocol serves person means, regression slopes and random effects; only what the client computes
before differs. The plan is public text, so that each step can be another process.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Flags, Floats
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import Tally
from privmean.local.round import AUTO, ClientSplit, Round
from privmean.local.round_builders import levels_of, mean_round, per_coordinate, vote_round
from privmean.local.vectorized import table_of, tally_many
from privmean.noise.noise_source import Noise
from privmean.plain_data import parsed

FORMAT, VERSION = "privmean two rounds", 1
MOST_BINS = 1 << 16
WINNER, RANGE = "winner", "range"


@dataclass(frozen=True)
class Location:
    """Where the vote found the values, a coordinate.

    centre: middle of the winning bin. share, radius: its estimated share of the voters and how far
    that may be off. clear: whether the share is above twice the radius, so that the bin truly
    holds a share of at least `radius`. voters: how many voted; levels: how many at each level.
    relation: what the vote says of epsilon and the values, in words.
    """

    centre: Floats
    share: Floats
    radius: Floats
    clear: Flags
    voters: int
    secure: bool = True
    levels: tuple[int, ...] = ()
    relation: str = ""


@dataclass(frozen=True, kw_only=True)
class WinsorizedRounds:
    """Two-round protocol for values that lie roughly in a public range.

    Parameters
    ----------
    lower, upper : tuple of float
        Public range, one bound per coordinate.
    tau : tuple of float
        Radius around a common point that holds every value, such as of `tau_sub_gaussian`. A small
        radius clips and a large one adds noise; privacy does not depend on it.
    epsilon : tuple of Fraction
        Levels.
    persons : int
        Planned number of people, public.
    half_width : tuple of float, optional
        Half width of a bin. Default: tau.
    reach : tuple of float, optional
        Half width of the window. Default: tau + 2 half_width.
    shares : (int, int) or None, default (20, 80)
        Parts of the clients that vote and that measure. None: each client does both, at half of its
        epsilon each.
    vote_mechanism, mean_mechanism : str, default "auto"
        Mechanisms of the two rounds.
    unclear : {"range", "winner"}, default "range"
        Where to measure without a clear winner.
    beta : float, default 0.05
        Failure probability of the radius.
    sigma : tuple of float, optional
        Public bound of the standard deviation of the values. Default: tau.
    seed : bytes, optional
        32 public random bytes. Default: system entropy.
    title : str, optional
        Title of both rounds.

    Notes
    -----
    Source: Roth and Avella-Medina (2025), Section 6; docs/proofs/local-rounds.md.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    tau: tuple[float, ...]
    epsilon: tuple[Fraction, ...]
    persons: int
    half_width: tuple[float, ...] = ()
    reach: tuple[float, ...] = ()
    shares: tuple[int, int] | None = (20, 80)
    vote_mechanism: str = AUTO
    mean_mechanism: str = AUTO
    unclear: str = RANGE
    beta: float = 0.05
    sigma: tuple[float, ...] = ()
    seed: bytes = field(default_factory=lambda: os.urandom(32))
    title: str = ""

    @classmethod
    def of(
        cls,
        lower: object,
        upper: object,
        *,
        tau: object,
        epsilon: object,
        persons: int,
        **options: Any,
    ) -> WinsorizedRounds:
        """The protocol from plain numbers: one bound and one tau, or one per coordinate."""
        for name in ("half_width", "reach", "sigma"):
            if name in options:
                options[name] = per_coordinate(name, options[name])
        return cls(
            lower=per_coordinate("lower", lower),
            upper=per_coordinate("upper", upper),
            tau=per_coordinate("tau", tau),
            epsilon=levels_of(epsilon),
            persons=persons,
            **options,
        )

    def __post_init__(self) -> None:
        size = len(self.lower)
        if size == 0 or len(self.upper) != size:
            raise ArgumentError("lower", self.lower, "must match upper", "give both bounds")
        validate.choice("unclear", self.unclear, [WINNER, RANGE])
        object.__setattr__(self, "persons", validate.whole("persons", self.persons, least=1))
        validate.keep(self, validate.fraction, "beta")
        spread = _each("tau", self.tau, size)
        object.__setattr__(self, "tau", spread)
        object.__setattr__(self, "sigma", _each("sigma", self.sigma or spread, size))
        half = _each("half_width", self.half_width or spread, size)
        object.__setattr__(self, "half_width", half)
        reach = self.reach or tuple(t + 2 * h for t, h in zip(spread, half, strict=True))
        object.__setattr__(self, "reach", _each("reach", reach, size))
        for low, high in zip(self.lower, self.upper, strict=True):
            validate.bounds("bounds", (low, high))
        if self.shares is not None:
            shares = [validate.whole("shares", x) for x in validate.listed("shares", self.shares)]
            if len(shares) != 2 or min(shares) < 1:
                raise ArgumentError(
                    "shares", shares, "must be two positive numbers", "use for example (20, 80)"
                )
            object.__setattr__(self, "shares", tuple(shares))
        if self._bins() > MOST_BINS:
            raise ArgumentError(
                "half_width",
                min(half),
                f"requires too many bins, {self._bins()}",
                "give a narrower range",
            )

    def _bins(self) -> int:
        """An odd number of bins, the same for every coordinate, that covers each range."""
        widest = max(
            (high - low) / 2 / half
            for low, high, half in zip(self.lower, self.upper, self.half_width, strict=True)
        )
        return max(3, 2 * max(0, math.ceil((widest - 1) / 2)) + 1)

    def _asked(self, index: int) -> dict[str, Any]:
        """Whom a round asks and at which levels: a part, or everybody at half of epsilon."""
        part, messages, persons = None, 2, self.persons
        if self.shares is not None:
            part, messages = ClientSplit(self.seed, self.shares, index), 1
            persons = max(1, round(self.persons * self.shares[index] / sum(self.shares)))
        return {
            "epsilon": [item / messages for item in self.epsilon],
            "persons": persons,
            "beta": self.beta / 3,
            "part": part,
            "messages": messages,
            "seed": self.seed,
            "title": self.title,
        }

    def vote(self) -> Round:
        """The first round, ready to be published. The end bins count all values outside."""
        number = self._bins()
        middle = [(low + high) / 2 for low, high in zip(self.lower, self.upper, strict=True)]
        return vote_round(
            [m - number * h for m, h in zip(middle, self.half_width, strict=True)],
            [m + number * h for m, h in zip(middle, self.half_width, strict=True)],
            number,
            mechanism=self.vote_mechanism,
            **self._asked(0),
        )

    def locate(self, votes: Tally) -> Location:
        """The winning bins. Ties go to the lower bin; the reports are private already."""
        round_ = votes.round
        found = estimate(votes, project=False)
        raw = found.raw.reshape(len(self.lower), -1)
        radii = found.radii.reshape(raw.shape)
        best = raw.argmax(axis=1)
        rows = np.arange(len(best))
        low, high = np.array(round_.lower), np.array(round_.upper)
        centre = low + (high - low) * (best + 0.5) / raw.shape[1]
        share, radius = raw[rows, best], radii[rows, best]
        return Location(
            centre,
            share,
            radius,
            share > 2 * radius,
            votes.reports,
            votes.secure,
            tuple(votes.by_level().tolist()),
            found.relation,
        )

    def mean(self, location: Location) -> Round:
        """The second round: values clipped to the window around each winning bin.

        The privacy guarantee of the clients is the same for any location, right, wrong or hostile.
        """
        lower, upper = [], []
        for j, reach in enumerate(self.reach):
            if self.unclear == WINNER or location.clear[j]:
                lower.append(float(location.centre[j]) - reach)
                upper.append(float(location.centre[j]) + reach)
            else:
                lower.append(self.lower[j])
                upper.append(self.upper[j])
        return mean_round(
            lower, upper, mechanism=self.mean_mechanism, sigma=self.sigma, **self._asked(1)
        )

    def answer(self, location: Location, means: Tally, **options: Any) -> Estimate:
        """The estimate of the second round, saying what the first one found.

        The radius holds for the mean clipped to the window with probability 1 - beta/3; for the
        mean itself with 1 - beta if tau holds all values with probability 1 - beta/3 and the
        winner is right.
        """
        found = estimate(means, **options)
        notes = [
            f"two rounds: {location.voters} clients voted, {found.reports} reported around "
            f"{np.round(location.centre, 6).tolist()}"
        ]
        if not location.clear.all():
            what = "the whole range was used" if self.unclear == RANGE else "the winner was used"
            notes.append(f"the vote was not clear: {what}")
        if location.relation:
            notes.append(f"in the vote, {location.relation}")
        return replace(
            found,
            target="mean of the values clipped to the window around the winning bin",
            secure=found.secure and location.secure,
            persons=self._spending(location, means),
            notes=(*found.notes, *notes),
            details={
                "centre": location.centre.tolist(),
                "share": location.share.tolist(),
                "clear": location.clear.tolist(),
                "voters": location.voters,
            },
        )

    def _spending(self, location: Location, means: Tally) -> dict[str, int]:
        """How many people spent which epsilon in both rounds together.

        With parts each person sent one report. Without, each sent two at half of its level; who
        sent only one has spent less than is said.
        """
        second = means.by_level().tolist()
        first = list(location.levels) or [0] * len(second)
        pairs = zip(self.epsilon, first, second, strict=True)
        if self.shares is None:
            return {f"{float(e):g}": max(a, b) for e, a, b in pairs}
        return {f"{float(e):g}": a + b for e, a, b in pairs}

    def run(
        self,
        values: Collection[object],
        *,
        epsilon: object,
        identities: Sequence[str] | None = None,
        noise: Noise | None = None,
    ) -> Estimate:
        """Run both rounds over values of shape (n,) or (n, coordinates); missing is NaN.

        epsilon: what each client allows for all its reports, one number or shape (n,). identities:
        public names that the split reads, one per person (by default the row numbers).
        """
        table = table_of(values, len(values), len(self.lower))
        own = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (len(table),))
        if identities is not None and not len(table) == len(identities) == len(set(identities)):
            raise ArgumentError(
                "identities",
                len(identities),
                "must be one distinct name per row",
                "give each person one row",
            )
        votes = self.vote()
        voting = measuring = np.ones(len(table), dtype=bool)
        if votes.part is not None:
            names = [str(k) for k in range(len(table))] if identities is None else identities
            voting = np.array([votes.part.chosen(name) for name in names], dtype=bool)
            measuring = ~voting
        counted = tally_many(votes, table[voting], epsilon=own[voting], noise=noise)
        location = self.locate(counted)
        means = tally_many(
            self.mean(location), table[measuring], epsilon=own[measuring], noise=noise
        )
        return self.answer(location, means)

    def to_json(self) -> str:
        """The protocol as public text; the same text gives the same rounds everywhere."""
        values = {item.name: _plain(getattr(self, item.name)) for item in fields(self)}
        return json.dumps({"format": FORMAT, "version": VERSION, **values}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> WinsorizedRounds:
        """The protocol of `to_json`."""
        try:
            given = parsed(text)
            if given.pop("format") != FORMAT or given.pop("version") != VERSION:
                raise ValueError
            values: dict[str, Any] = {
                key: tuple(x) if isinstance(x, list) else x for key, x in given.items()
            }
            values["epsilon"] = tuple(Fraction(item) for item in given["epsilon"])
            values["seed"] = bytes.fromhex(given["seed"])
            return cls(**values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                "plan", "...", "is not a plan of two rounds in this version", "make it again"
            ) from None


def _each(name: str, values: tuple[float, ...], size: int) -> tuple[float, ...]:
    """One positive number a coordinate, from one or from all."""
    checked = tuple(validate.positive(name, item) for item in values)
    if len(checked) == 1:
        return checked * size
    if len(checked) != size:
        raise ArgumentError(name, values, "must match the bounds", "give one per coordinate")
    return checked


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Fraction):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value
