"""When two names of analysts are the same name."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# what shows nothing, though no category of Unicode says so: joiners, fillers, empty Braille
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
UNSEEN = ("Cc", "Cf", "Cs")
# variants of the sign before; what Unicode keeps for signs that show nothing
RANGES = ((0xFE00, 0xFE0F), (0x2065, 0x2065), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF))


@lru_cache(maxsize=4096)
def comparable(name: str) -> str:
    """The name as it is compared: in Unicode's composed form (NFC), with single blanks between
    words, none around them, and nothing that shows nothing. "" for a name of which nothing shows.

    Letters that look alike stay different, and so do capitals: a name is the caller's word.
    """
    shown = "".join(" " if sign.isspace() else sign for sign in name if not _unseen(sign))
    return " ".join(unicodedata.normalize("NFC", shown).split())


def _unseen(sign: str) -> bool:
    return not sign.isspace() and (
        sign in BLANK
        or unicodedata.category(sign) in UNSEEN
        or any(low <= ord(sign) <= high for low, high in RANGES)
    )
