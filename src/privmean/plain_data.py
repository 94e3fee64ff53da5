"""Numbers and what holds them as plain data, ready for JSON.

JSON as it is read: one text has one value, whoever reads it.

One text for one value, and its digest: what a stored accounting or release is bound by.

The text is JSON with sorted keys, no spaces, ASCII only, integers in full and doubles by their
shortest decimal (`repr`), so that a value read back from its own JSON has the same text, bit for
bit. 1 and 1.0 are different texts. A digest binds, it does not prove: whoever changes a value can
compute the digest again (`privmean.release.signing` proves).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, SupportsFloat, cast


def plain(value: object) -> bool | str | int | float | None:
    """One value; a number that is not finite becomes None."""
    import numpy as np  # here, since clients of local rounds read JSON without it

    if isinstance(value, bool | str | int) or value is None:
        return value
    number = float(cast(SupportsFloat, value))
    if not math.isfinite(number):
        return None
    return int(value) if isinstance(value, int | np.integer) else number


def plain_tree(value: object) -> Any:
    """Mappings and sequences of such values, as dictionaries and lists."""
    kind = type(value)  # most values are of these types themselves, which is quick to see
    if kind is float:
        return value if math.isfinite(cast(float, value)) else None
    if kind is str or kind is int or kind is bool or value is None:
        return value
    import numpy as np

    if isinstance(value, Mapping):
        return {str(key): plain_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain_tree(item) for item in value]
    if isinstance(value, bool | str | int | float | np.floating | np.integer) or value is None:
        return plain(value)
    return str(value)


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError where readers could disagree about its value.

    That is: a name twice in one object, numbers that are not finite, a byte-order mark, another
    encoding than UTF-8.
    """
    try:
        return json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=_once,
            parse_constant=_refused,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return result


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text[:40]} is larger than any double")
    return number


def canonical(value: object) -> str:
    """The text of plain data. Raises ValueError for what JSON cannot hold (NaN, infinities)."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def digest(purpose: str, value: object) -> str:
    """SHA-256 over the purpose, a line end and the text: "sha256:" and 64 hexadecimal digits."""
    import hashlib  # loads OpenSSL, which short commands have no use for

    return "sha256:" + hashlib.sha256(f"{purpose}\n{canonical(value)}".encode()).hexdigest()
