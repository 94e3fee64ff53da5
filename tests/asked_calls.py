"""Releases of the calls that the audit lists: every question, each of its fields with a value."""

from __future__ import annotations

from typing import Any

import privmean as pm
from privmean.auditing import call_list, calls

CALLS = [call for call in call_list.CALLS if call.rows is None]
KINDS = call_list.KINDS  # of tables: "normal", and odd ones


def released(call: call_list.Call, turn: int, kind: str, seed: int = 1, table: int = 0) -> Any:
    """The release of a call under the first terms, from those of this turn on, that allow it."""
    names, texts = call_list.NAMES, call_list.TEXTS
    source = calls.built(names, texts, kind, call_list.PERSONS, table, call.public).arrays()
    first = turn % len(call_list.TERMS)
    for said, relation in (*call_list.TERMS[first:], *call_list.TERMS[:first]):
        try:
            return call.ask(said, relation)(source, pm.SimulatedNoise(seed), None)
        except pm.PrivmeanError:
            continue  # the next terms
    raise pm.ArgumentError("terms", call.name, "are all refused", "give others")
