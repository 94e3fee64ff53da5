"""The names of the mechanisms, their numbers on the wire, and the limits of their parameters."""

from __future__ import annotations

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
