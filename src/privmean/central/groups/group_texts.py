"""What a release by group says of itself: unit, rule of the key, estimand, assumptions, advice."""

from __future__ import annotations

import math
from fractions import Fraction

from privmean.central.find_region import ATOM_ONLY, BEYOND, ClippingRegion, point_mass_value
from privmean.central.groups.group_stages import LEAST, PRECISE, GroupSettings
from privmean.central.groups.run_groups import GroupEstimates
from privmean.inference.interval import (
    GROUP_SHARE,
    INDEPENDENT,
    joined,
    no_undetected,
    values_within,
)

THICK = (
    "Nearly all other people may share a value, or groups may lie far apart. Ask about each group "
    "by itself, with the values of the others missing."
)
NORMAL = "sampling errors are normal"
OUTLIERS = "outliers of {} exceed its clipping bounds by at most twice what all outliers do"
HIDDEN = "Groups of fewer than about "
LEFT_OUT = "These groups hold about "
PART = 0.5  # of all people: fewer in the groups are said


def hidden_words(threshold: float) -> str:
    """Which private keys are no rows."""
    return f"{HIDDEN}{threshold:.0f} people are hidden; their number is not known."


def in_words_of(settings: GroupSettings, text: str) -> str:
    """A text about groups in the words of the question."""
    if settings.unit == "group":
        return text
    return text.replace("group", settings.unit).replace("keys", f"{settings.unit}s")


def notes_of(settings: GroupSettings) -> tuple[str, ...]:
    """The unit, the rule, what is estimated, and what follows from the list of keys."""
    k, split = settings.weights.max_groups, settings.weights.split
    if split and settings.unit != "group" and k >= settings.groups:
        return ()
    one, more = ("arm", ".") if settings.common else ("group", "; see max_groups.")
    if settings.public_groups and not split:
        rule = f"Each person counts in one {one}, the first key of its records{more}"
        listed = "who has records in which group is public; only the values are protected"
    elif not split:
        rule = f"Each person counts in one {one}, the most frequent{more}"
        listed = (
            "the most frequent group is the one with most usable records among the keys asked, "
            "ties to the first key in the order of texts; the rows depend on which keys are asked"
        )
    else:
        rule = (
            "Each person counts in every group, with a total weight of 1; see max_groups."
            if k == 1
            else f"Each person counts in at most {k} groups fully; see max_groups."
        )
        listed = (
            f"people in m > {k} groups count {k}/m in each, with a total weight of {k}, so rows "
            "are weighted means if the number of groups goes with the values; m counts the keys "
            "asked: another list of keys changes the rows"
        )
    clustering = (
        ("intervals of contrasts hold for any dependence within people, and are wide",)
        if split
        else ()
    )
    return rule, listed, *clustering


def left_out_words(counted: float, noise: float, persons: int | None) -> str:
    """What is said where the groups hold far fewer people than there are. counted: noisy weight of
    all groups; noise: the deviation of its noise; persons: their public number, None if unknown."""
    if persons is None or counted + 3 * noise > PART * persons:
        return ""
    return (
        f"{LEFT_OUT}{max(counted, 0.0):.0f} of {persons} people. The others have no usable record "
        "in any of them: check how the keys are written."
    )


def assumption_of(found: GroupEstimates, settings: GroupSettings) -> tuple[str, str]:
    """What the intervals depend on, and that in a few words ("" where it is short itself)."""
    if found.reading is None:
        return "", ""
    if found.place is None:
        inside = ""
        if settings.given and settings.bounds[0] is not None:
            inside = values_within(*settings.bounds[0])
        brief = joined((INDEPENDENT, inside)) if settings.unit != "group" else ""
        return joined((INDEPENDENT, inside, NORMAL)), brief
    if not settings.counted:
        return joined((INDEPENDENT, NORMAL)), ""
    unseen = 0.0 if found.beyond is None else found.beyond.doubt * found.n
    brief = joined((INDEPENDENT, GROUP_SHARE, no_undetected(unseen)))
    more = (
        OUTLIERS.format("a group"),
        "the noise of the histogram and the error of the variances are small",
        f"no row is imprecise (weight times epsilon below {PRECISE:g}, where it is not measured)",
    )
    return joined((brief, *more)), brief


def advice_of(found: GroupEstimates, settings: GroupSettings, epsilon: Fraction) -> str:
    """What to do about a table that was not found, or of which too much lies beyond the limits."""
    if found.reading is not None:
        return THICK if found.beyond is not None and found.beyond.thick else ""
    if found.hidden is not None:
        return (
            f"No group of more than about {found.hidden:.0f} people was found. Group by a coarser "
            "column, give keys= if the groups are public, or raise epsilon or delta."
        )
    return no_region_advice(found.place, settings, epsilon)


def no_region_advice(
    place: ClippingRegion | None, settings: GroupSettings, epsilon: Fraction
) -> str:
    """What to do where nothing was found. place: None where it was not looked for."""
    if place is None:
        needed = math.ceil(LEAST / settings.strength(epsilon))
        return (
            f"There are too few people to find the values: about {needed} with a value in a group "
            "are needed. Add people, raise epsilon, or check how the keys are written."
        )
    if place.outcome == ATOM_ONLY:
        value = point_mass_value(place)
        return (
            f"Nearly all people have the value {value}, so groups are not identified. Add people "
            "or raise epsilon; of 0 and 1, code the rare outcome as 1."
        )
    if place.outcome == BEYOND:
        return "Values reach beyond 2^39. Give them in a larger unit."
    return "No region was found privately. Raise epsilon or add people."
