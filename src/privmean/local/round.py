"""The public description of a round: what clients are asked, and at which levels of epsilon.

A `Round` is immutable; its identifier is a hash of its canonical text, and every report carries it.
Before it stand the names of the mechanisms, their numbers on the wire, and the limits of their
parameters. Pure Python: clients and servers import it.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.exact_coins import exact_epsilon
from privmean.noise.exact_arithmetic import plain_context
from privmean.plain_data import parsed
from privmean.validate import keyword_hint, known_keywords

ONE_BIT, PIECEWISE, HYBRID = "one-bit", "piecewise", "hybrid"
BALL_BIT, CLOSEST = "ball-bit", "closest"
SKETCH, HADAMARD, SUBSET = "sketch", "hadamard", "subset"

# The number that stands for the mechanism in a binary report.
CODES: dict[str, int] = {
    ONE_BIT: 1,
    BALL_BIT: 4,
    SKETCH: 5,
    HADAMARD: 6,
    PIECEWISE: 8,
    SUBSET: 10,
    HYBRID: 12,
    CLOSEST: 13,
}
# Reserved: numbers of mechanisms that version 0.2 had. Their reports and rounds are refused.
RETIRED: dict[str, int] = {"laplace": 2, "ball": 3, "unary": 7, "priv-unit": 9, "histogram": 11}
SCALARS = (ONE_BIT, PIECEWISE, HYBRID)
BALLS = (BALL_BIT, CLOSEST)
ITEMS = (SKETCH, HADAMARD, SUBSET)
# What the builders choose from, by the kind of question.
KINDS: dict[str, tuple[str, ...]] = {
    "numbers": (ONE_BIT, HYBRID, PIECEWISE),
    "vectors": (BALL_BIT, CLOSEST),
    "items": (HADAMARD, SUBSET),
}

BOUNDS, BALL_FIELDS, ITEM_FIELDS = (
    ("lower", "upper"), ("radius", "dimension"), ("items", "other", "bins")
)  # fmt: skip
# The fields of a round that say what is asked: those of each mechanism.
OWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SCALARS, (*BOUNDS, "sigma", "points")),
    **dict.fromkeys(BALLS, BALL_FIELDS),
    CLOSEST: (*BALL_FIELDS, "candidates", "favoured"),
    **dict.fromkeys(ITEMS, ITEM_FIELDS),
    **dict.fromkeys((SKETCH, HADAMARD), (*ITEM_FIELDS, "rows")),
}
ASKED = sorted({name for names in OWN.values() for name in names})


def foreign(mechanism: str, *, votes: bool) -> list[str]:
    """The fields that a mechanism would pass over. votes: its items are bins between bounds."""
    own = OWN[mechanism] + (BOUNDS if votes else ())
    return [name for name in ASKED if name not in own]


LARGEST_ROWS = 2**31
LARGEST_ITEMS = 2**24
LARGEST_SKETCHED = 2**53  # items are read as floats
LARGEST_MENU = 1024
LARGEST_LADDER = 2**14  # levels that a step makes
LARGEST_CANDIDATES = 2**10
LARGEST_MESSAGES = 64
LARGEST_TALLY = 2**28  # integers that a server keeps: two gigabytes
LARGEST_DIMENSION = 2**16
LARGEST_POINTS = 2**16

ASSIGNED, CHOSEN = "assigned", "chosen"

# The builders choose: see `choosing`.
AUTO = "auto"


@dataclass(frozen=True)
class ClientSplit:
    """The clients that answer a round: those whose public hash falls into one share.

    Parameters
    ----------
    seed : bytes
        Public seed; rounds of one protocol have the same seed and shares.
    shares : tuple of int
        Parts of the clients, such as (20, 80).
    index : int
        The share that answers this round.
    """

    seed: bytes
    shares: tuple[int, ...]
    index: int

    def __post_init__(self) -> None:
        _check_seed(self.seed)
        listed = validate.listed("shares", self.shares)
        shares = tuple(validate.whole("shares", x, least=1, remedy="try (20, 80)") for x in listed)
        if not shares:
            raise ArgumentError("shares", shares, "is empty", "try (20, 80)")
        index = validate.whole("index", self.index, most=len(shares) - 1, remedy="count from 0")
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "index", index)

    def chosen(self, identity: str) -> bool:
        """Whether the client with this public identity answers. Never depends on its data."""
        validate.instance("identity", identity, str, "give the public name as text")
        digest = hashlib.blake2b(
            identity.encode(errors="surrogatepass"),
            digest_size=16,
            key=self.seed,
            person=b"privmean-part",
        ).digest()
        place = int.from_bytes(digest, "little") % sum(self.shares)
        low = sum(self.shares[: self.index])
        return low <= place < low + self.shares[self.index]


def _check_seed(seed: object) -> None:
    if not isinstance(seed, bytes) or len(seed) != 32:
        raise ArgumentError("seed", seed, "is not 32 bytes", "draw 32 random bytes")


_CONTEXT = plain_context(28)


def level_text(epsilon: Fraction) -> str:
    """The shortest exact text: a decimal where there is one.

    In a context of its own: the caller's decimals must not change what a round hashes to.
    """
    text = str(_CONTEXT.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    return text if Fraction(text) == epsilon else str(epsilon)


NUMBERS = ("lower", "upper", "sigma", "points")  # fields that hold lists of numbers
LISTS = (*NUMBERS, "favoured")


VERSION = 1


@partial(known_keywords, face="local.")
@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of locally private reports; usually made by `mean_round` and the like.

    Parameters
    ----------
    mechanism : str
        One of `CODES`.
    menu : tuple of Fraction
        Public epsilon levels, increasing.
    persons : int
        Planned number of reports, public.
    seed : bytes
        32 public random bytes, drawn before the data.
    title : str, optional
        Title of the round.
    beta : float, default 0.05
        Failure probability of the radius.
    lower, upper : tuple of float, optional
        Bounds, one per coordinate; with several, the nonce chooses the coordinate a client reports.
    radius, dimension : float and int, optional
        L2 ball of the vectors.
    items : int, optional
        Items 0 to items-1.
    other : int, optional
        The item that stands for everything unknown.
    bins : int, optional
        With `lower` and `upper`: the item is the bin of a real value.
    rows : int, optional
        Rows of Sketch and Hadamard, a power of two.
    row_choice : {"assigned", "chosen"}, default "assigned"
        Whether the nonce or the client chooses the row; "assigned" if nonces are issued.
    sigma : tuple of float, optional
        Public standard deviation of the values, one per coordinate, which sets weights.
    step : Fraction, optional
        The menu is a ladder of this step: clients use their own epsilon, up to a step.
    candidates, favoured : int and tuple of int, optional
        Public directions of "closest" per report, and how many are favored at each level.
    issued : bool, default False
        Whether nonces are tickets of the server; reports then carry a 32-byte code.
    closes : int, optional
        Deadline, in seconds since 1970.
    part : ClientSplit, optional
        The clients that answer.
    messages : int, default 1
        Rounds of one protocol that the same client answers; each may cost that share of its
        epsilon.
    points : tuple of float, optional
        For a curve: public design points, increasing. Each report names its point in public.
    """

    mechanism: str
    menu: tuple[Fraction, ...]
    persons: int
    seed: bytes
    title: str = ""
    beta: float = 0.05
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    radius: float | None = None
    dimension: int | None = None
    items: int | None = None
    other: int | None = None
    bins: int | None = None
    rows: int | None = None
    row_choice: str = ASSIGNED
    sigma: tuple[float, ...] = ()
    step: Fraction | None = None
    candidates: int | None = None
    favoured: tuple[int, ...] = ()
    issued: bool = False
    closes: int | None = None
    part: ClientSplit | None = None
    messages: int = 1
    points: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        validate.choice("mechanism", self.mechanism, list(CODES))
        for name in foreign(self.mechanism, votes=self.bins is not None):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, tuple) and not value):
                raise ArgumentError(name, value, f"is not used by {self.mechanism}", "remove it")
        for name in ("menu", *LISTS):
            object.__setattr__(self, name, validate.listed(name, getattr(self, name)))
        self._check_common()
        if self.mechanism in SCALARS:
            self._check_bounds()
            self._check_sigma()
        elif self.mechanism in BALLS:
            self._check_ball()
        else:
            self._check_items()
        if self.cells * self.width > LARGEST_TALLY:
            raise ArgumentError(
                "round",
                self.cells * self.width,
                f"must keep at most {LARGEST_TALLY} numbers on a server",
                "use fewer levels, coordinates, items or rows",
            )

    def _whole(
        self, name: str, *, least: int = 0, most: int = LARGEST_SKETCHED, remedy: str | None = None
    ) -> int:
        """The field as an int; equal rounds then have equal texts."""
        value = getattr(self, name)
        result = validate.whole(name, value, least=least, most=most, remedy=remedy)
        object.__setattr__(self, name, result)
        return result

    def _check_common(self) -> None:
        self._check_menu()
        self._whole("persons", least=1, most=2**30)
        if not 1e-12 <= validate.fraction("beta", self.beta) <= 0.5:
            raise ArgumentError("beta", self.beta, "must lie between 1e-12 and 0.5", "try 0.05")
        object.__setattr__(self, "beta", float(self.beta))
        _check_seed(self.seed)
        validate.instance("title", self.title, str, "correct the round")
        validate.instance("issued", self.issued, bool, "correct the round")
        if self.closes is not None:
            self._whole("closes")
        self._whole("messages", least=1, most=LARGEST_MESSAGES)
        validate.choice("row_choice", self.row_choice, [ASSIGNED, CHOSEN])
        if self.issued and self.row_choice == CHOSEN:
            problem = "must be assigned where tickets are issued"
            raise ArgumentError("row_choice", self.row_choice, problem, 'use "assigned"')
        if self.points:
            self._check_points()

    def _check_menu(self) -> None:
        """The levels, rising. With a step the least and the most one (or the whole ladder already)
        become the ladder."""
        if len(self.menu) > (LARGEST_MENU if self.step is None else LARGEST_LADDER):
            remedy = f"give at most {LARGEST_MENU} levels"
            raise ArgumentError("menu", len(self.menu), "must hold fewer levels", remedy)
        levels = tuple(exact_epsilon("menu", item) for item in self.menu)
        if not levels or list(levels) != sorted(set(levels)):
            raise ArgumentError(
                "menu", self.menu, "must hold increasing levels", "sort the epsilon levels"
            )
        object.__setattr__(self, "menu", levels)
        if self.step is None:
            return
        step = exact_epsilon("step", self.step)
        steps = (levels[-1] - levels[0]) / step
        if self.mechanism not in SCALARS:
            remedy = "remove it; a ladder is for means of numbers"
            raise ArgumentError("step", str(step), f"is not for {self.mechanism}", remedy)
        if len(levels) < 2 or steps.denominator != 1 or steps >= LARGEST_LADDER:
            raise ArgumentError(
                "step",
                str(step),
                "must lead from the lowest to the highest level",
                f"give two levels a whole number of steps apart, below {LARGEST_LADDER}",
            )
        ladder = tuple(levels[0] + k * step for k in range(int(steps) + 1))
        if len(levels) > 2 and levels != ladder:
            raise ArgumentError(
                "menu", len(levels), "is not a ladder of the round", "give the ends"
            )
        object.__setattr__(self, "menu", ladder)
        object.__setattr__(self, "step", step)

    def _check_points(self) -> None:
        number = len(self.points)
        if self.mechanism not in SCALARS or len(self.lower) != 1 or number > LARGEST_POINTS:
            remedy = f"give at most {LARGEST_POINTS} points and one pair of bounds"
            raise ArgumentError("points", number, "must match the round", remedy)
        points = tuple(validate.number("points", item) for item in self.points)
        if any(a >= b for a, b in pairwise(points)):
            raise ArgumentError("points", number, "must increase", "sort them, each once")
        object.__setattr__(self, "points", points)

    def _check_bounds(self) -> None:
        if not self.lower or len(self.lower) != len(self.upper):
            raise ArgumentError(
                "lower", self.lower, "must match upper", "give both bounds for each coordinate"
            )
        for low, high in zip(self.lower, self.upper, strict=True):
            validate.bounds("bounds", (low, high))
        for name in ("lower", "upper"):  # adding 0: minus zero is zero, and has its text
            object.__setattr__(self, name, tuple(float(x) + 0.0 for x in getattr(self, name)))

    def _check_sigma(self) -> None:
        sigma = tuple(validate.positive("sigma", item) for item in self.sigma)
        if sigma and len(sigma) != self.coordinates:
            raise ArgumentError("sigma", sigma, "must match the bounds", "give one per coordinate")
        object.__setattr__(self, "sigma", sigma)

    def _check_ball(self) -> None:
        object.__setattr__(self, "radius", validate.positive("radius", self.radius))
        least = 2 if self.mechanism == CLOSEST else 1
        self._whole("dimension", least=least, most=LARGEST_DIMENSION)
        if self.mechanism == CLOSEST:
            number = self._whole("candidates", least=2)
            if number & (number - 1) or number > LARGEST_CANDIDATES:
                problem = f"must be a power of two of at most {LARGEST_CANDIDATES}"
                raise ArgumentError("candidates", number, problem, "try 128")
            sets = tuple(validate.whole("favoured", item, least=1) for item in self.favoured)
            if len(sets) != len(self.menu) or max(sets) > number // 2:
                raise ArgumentError(
                    "favoured", sets, "must hold 1 to candidates/2 per level", "use ball_round"
                )
            object.__setattr__(self, "favoured", sets)

    def _check_items(self) -> None:
        if self.bins is not None:
            self._check_bounds()
            object.__setattr__(self, "items", self._whole("bins", least=2))
        most = LARGEST_SKETCHED if self.mechanism == SKETCH else LARGEST_ITEMS
        items = self._whole("items", least=2, most=most, remedy="number them densely, or sketch")
        if self.other is not None:
            self._whole("other", most=items - 1, remedy=f"choose 0 to {items - 1}")
        if self.mechanism not in (SKETCH, HADAMARD):
            return
        rows = self._whole("rows", least=1)
        if rows & (rows - 1) or rows > LARGEST_ROWS:
            problem = "must be a power of two of at most 2^31"
            raise ArgumentError("rows", rows, problem, "round it up")
        if self.mechanism == HADAMARD and rows < items:
            problem = "must be at least the number of items"
            raise ArgumentError("rows", rows, problem, "round items up")

    # -- derived public numbers

    @property
    def code(self) -> int:
        return CODES[self.mechanism]

    @property
    def coordinates(self) -> int:
        """How many coordinates a value has, of which every client reports one."""
        return max(1, len(self.lower))

    @property
    def sites(self) -> int:
        """Number of means a round asks for: one per coordinate or design point."""
        return len(self.points) or self.coordinates

    @property
    def cells(self) -> int:
        """Levels times coordinates (or points) times branches: what a tally keeps apart."""
        return len(self.menu) * self.sites * (2 if self.mechanism == HYBRID else 1)

    @property
    def width(self) -> int:
        """The number of integers that a tally keeps for each cell."""
        if self.mechanism in SCALARS:
            return 1
        if self.mechanism in BALLS:
            return self.dimension or 1
        return (self.rows if self.mechanism in (SKETCH, HADAMARD) else self.items) or 1

    @cached_property
    def _seed_words(self) -> tuple[int, int]:
        return (
            int.from_bytes(self.seed[0:8], "little"),
            int.from_bytes(self.seed[8:16], "little"),
        )

    def row(self, nonce: bytes) -> int:
        """The row that a nonce assigns."""
        assert self.rows is not None
        return (int.from_bytes(nonce[0:8], "little") ^ self._seed_words[0]) & (self.rows - 1)

    def selector(self, nonce: bytes) -> int:
        """64 public bits a nonce: the coordinate and the branch of the hybrid mechanism."""
        return int.from_bytes(nonce[8:16], "little") ^ self._seed_words[1]

    def coordinate(self, nonce: bytes) -> int:
        """The coordinate that a nonce assigns."""
        return (self.selector(nonce) & 0xFFFFFFFF) % self.coordinates

    def level(self, epsilon: object) -> int:
        """The largest level of the menu for a client that allows `epsilon`.

        epsilon: for all reports of the client in the protocol of this round. With several messages
        a level is at most epsilon/messages.
        """
        allowed = exact_epsilon("epsilon", epsilon) / self.messages
        fitting = bisect_right(self.menu, allowed)
        if not fitting:
            raise ArgumentError(
                "epsilon",
                float(allowed * self.messages),
                f"is below the smallest level of this round, {float(self.menu[0]):g}"
                + (f", in each of {self.messages} messages" if self.messages > 1 else ""),
                "do not answer this round",
            )
        return fitting - 1

    # -- the public text and its hash

    def to_dict(self) -> dict[str, Any]:
        """Plain values of the fields that differ from their defaults."""
        result = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if getattr(self, item.name) != item.default
        }
        menu = self.menu
        if self.step is not None:  # of a ladder the two ends
            menu, result["step"] = (menu[0], menu[-1]), level_text(self.step)
        result["menu"] = [level_text(item) for item in menu]
        result["seed"] = self.seed.hex()
        for name in LISTS:
            if name in result:
                result[name] = list(result[name])
        if self.bins is not None:
            del result["items"]
        if self.part is not None:
            part = self.part
            result["part"] = {
                "seed": part.seed.hex(),
                "shares": list(part.shares),
                "index": part.index,
            }
        return {"format": "privmean round", "version": VERSION, **result}

    def to_json(self) -> str:
        """The canonical text; equal rounds have equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that bind every field. Publish it where clients can compare it."""
        return hashlib.blake2b(
            self.to_json().encode(), digest_size=32, person=b"privmean-round"
        ).digest()

    @property
    def identifier(self) -> bytes:
        """The 8 bytes that every report carries."""
        return self.digest[:8]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Round:
        """The round of `to_dict`; unknown fields are refused."""
        given = dict(values)
        if given.pop("format", None) != "privmean round" or given.pop("version", None) != VERSION:
            raise ArgumentError(
                "round", values.get("version"), "is not a round of this version", "update privmean"
            )
        validate.choice("mechanism", given.get("mechanism"), list(CODES))
        known = {item.name for item in fields(cls)}
        for name in sorted(set(given) - known):
            hint = keyword_hint(name, given[name], known, "update privmean")
            raise ArgumentError("round", name, "is an unknown field", hint)
        try:
            given["seed"] = bytes.fromhex(given["seed"])
            for name in ("menu", *LISTS):
                if name in given:
                    if not isinstance(given[name], list | tuple):
                        raise TypeError
                    given[name] = tuple(given[name])
            for name in NUMBERS:
                if name in given:
                    given[name] = tuple(validate.number(name, x) for x in given[name])
            if given.get("part") is not None:
                part = given["part"]
                seed, shares = bytes.fromhex(part["seed"]), tuple(part["shares"])
                given["part"] = ClientSplit(seed, shares, part["index"])
            return cls(**given)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                "round", type(error).__name__, "cannot be read", "ask for the round again"
            ) from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Round:
        """The round of `to_json`."""
        try:
            values = parsed(text)
        except (ValueError, TypeError):
            values = None
        if not isinstance(values, dict):
            raise ArgumentError("round", "text", "is not a JSON object", "ask for the round again")
        return cls.from_dict(values)
