"""The law of permute-and-flip, by enumeration."""

import itertools
import math


def permute_and_flip(scores, scale):
    """P(choice): visit items in a uniform random order, take i with probability e^(-gap/scale)."""
    accept = [math.exp(-(max(scores) - s) / float(scale)) for s in scores]
    total = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for item in order:
            total[item] += reached * accept[item] / len(orders)
            reached *= 1 - accept[item]
    return total
