"""JSON as it is read: one text has one value, whoever reads it."""

from __future__ import annotations

import json
from typing import Any, NoReturn


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
