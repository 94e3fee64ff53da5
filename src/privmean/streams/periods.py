"""Calendar periods of public times: the steps of a stream that releases a number a day or month."""

from __future__ import annotations

import datetime as dt
import math

PERIODS = ("hour", "day", "week", "month")


def period_of(time: object, kind: str) -> str | None:
    """The label of the period of a public time; None if the time cannot be read.

    time: a datetime or date, an ISO 8601 text (its first characters decide, whatever the zone), or
    seconds since 1970 in UTC. Labels sort as the periods do: "2026-03-05T14", "2026-03-05",
    "2026-W10", "2026-03".
    """
    moment = _moment(time)
    if moment is None:
        return None
    if kind == "week":
        year, week, _ = moment.isocalendar()
        return f"{year:04d}-W{week:02d}"
    text = moment.isoformat()
    return text[: {"hour": 13, "day": 10, "month": 7}[kind]]


def _moment(time: object) -> dt.datetime | None:
    if isinstance(time, dt.datetime):
        return time.replace(tzinfo=None)
    if isinstance(time, dt.date):
        return dt.datetime(time.year, time.month, time.day)
    try:
        if isinstance(time, str):
            return _of_text(time.strip())
        seconds = float(time)  # type: ignore[arg-type]
        if not math.isfinite(seconds):
            return None
        return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _of_text(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return dt.datetime.fromtimestamp(float(text), dt.UTC).replace(tzinfo=None)
