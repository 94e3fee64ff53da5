"""Retired terms: what texts for users no longer say, with the standard term for each."""

from __future__ import annotations

import re
from collections.abc import Iterable

RETIRED = {
    r"\bpersons\b": "people",
    r"\bpromis(?:e|es|ed|ing)\b": "privacy guarantee",
    r"\bwhole person\b": "person-level privacy",
    r"\bwallets?\b|\bpurses?\b": "budget split",
    r"\bbill\b": "privacy accounting",
    r"\b(?:a|one|private|shared|of the) looks?\b": "shared location query",
    r"\bheaps?\b|\batoms?\b": "point mass",
    r"\bparts add up\b": "basic composition",
    r"\bcomposed by curves\b": "numerical composition",
    r"\bfixed by the caller\b": "public",
    r"\bown means?\b": "person mean",
    r"\bown coefficients?\b": "person-specific coefficients",
    r"\bvotes? each\b|\bone vote\b": "people weighted equally",
    r"\brelated people\b": "clustered people",
    r"\bunrelated\b": "independent",
    r"\bnoise alone\b": "noise-only interval",
    r"\beach for its line alone\b": "pointwise",
    r"\bunseen people\b|\bnot seen\b": "undetected outliers",
    r"\btail (?:seen|unchecked|allowance|too thick)\b|\bown tail\b": "outliers; a status code",
    r"\bfar values seen\b|\bat the limits\b|\bthin level\b": "a status code",
    r"\btold apart\b|\bnot resolved\b": "identified",
    r"\brests? on\b|\bresting on\b": "assumes",
    r"\binfluences\b": "score contributions",
    r"\bfailed privately\b": "no estimate",
    r"\b(?:nobody|somebody|everybody|whoever)\b": "the noun",
    r"\bneighbour\w*|\bcentre[sd]?\b|\bcolour\w*|\bbehaviour\w*|\bfavour\w*": "American spelling",
    r"\b(?:normal|random|minim|maxim|recogn|standard)is(?:e|es|ed|ing)\b": "American spelling",
}
PATTERNS = {re.compile(term, re.IGNORECASE): said for term, said in RETIRED.items()}


def retired_terms(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Each retired term in (name, text) pairs, with its place and what to write."""
    return [
        f"{name}: {match[0]!r} in {text[max(match.start() - 40, 0) : match.end() + 20]!r}: {said}"
        for name, text in texts
        for pattern, said in PATTERNS.items()
        for match in pattern.finditer(text)
    ]
