"""One text for one value, and its digest: what a stored accounting or release is bound by.

The text is JSON with sorted keys, no spaces, ASCII only, integers in full and doubles by their
shortest decimal (`repr`), so that a value read back from its own JSON has the same text, bit for
bit. 1 and 1.0 are different texts. A digest binds, it does not prove: whoever changes a value can
compute the digest again (`privmean.release.signing` proves).
"""

from __future__ import annotations

import hashlib
import json


def canonical(value: object) -> str:
    """The text of plain data. Raises ValueError for what JSON cannot hold (NaN, infinities)."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def digest(purpose: str, value: object) -> str:
    """SHA-256 over the purpose, a line end and the text: "sha256:" and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(f"{purpose}\n{canonical(value)}".encode()).hexdigest()
