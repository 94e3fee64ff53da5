"""The exact law of how many people a filter keeps, and of that number with Gaussian noise."""

import numpy as np
from scipy import stats

from privmean.mechanisms.filtered_mean import keep_odds


def kept_count_law(deg, relation):
    """The chances of 0, 1, ... persons kept, where they have so many friends."""
    numerators, denominator = keep_odds(np.asarray(deg), relation)
    law = np.ones(1)
    for item in numerators:
        p = int(item) / denominator
        law = np.convolve(law, [1 - p, p])
    return law


def noisy_density(law, mu, x):
    """The density of a number of this law with noise N(0, 1/mu^2), at the points x."""
    return sum(w * stats.norm.pdf(x, k, 1 / mu) for k, w in enumerate(law) if w > 1e-18)
