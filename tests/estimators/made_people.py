"""Tables of people from arrays, and deviations of many columns."""

import numpy as np

from privmean.data.array_table import ArrayPersonTable


def people(x):
    """One column from a list of values, or several from rows."""
    values = np.asarray(x, dtype=float)
    rows = values[:, None] if values.ndim == 1 else values
    return ArrayPersonTable(rows, tuple(f"c{j}" for j in range(rows.shape[1])))


def spike(d):
    """Five columns of deviation 1, the others 1/d."""
    return np.r_[np.ones(5), np.full(d - 5, 1 / d)]
