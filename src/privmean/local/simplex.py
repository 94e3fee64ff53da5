"""Distributions from noisy frequencies."""

from __future__ import annotations

import numpy as np

from privmean.array_types import Floats


def project_to_simplex(raw: Floats) -> tuple[Floats, float]:
    """Return the nearest distribution in L2, max(raw - tau, 0) with sum 1, and tau.

    Parameters
    ----------
    raw : array (items,)
        Noisy frequencies.

    Returns
    -------
    array (items,), float
        The distribution, and tau.

    Notes
    -----
    If every entry of `raw` is within t of a distribution p, the projection is within t + |tau| of
    p, and |tau| <= t. The largest error can double: see docs/proofs/local-items.md.
    """
    raw = np.asarray(raw, dtype=float)
    falling = np.sort(raw)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1, len(raw) + 1)
    last = int(np.flatnonzero(falling > over)[-1])
    tau = float(over[last])
    return np.maximum(raw - tau, 0.0), tau
