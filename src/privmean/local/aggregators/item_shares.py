"""The estimate of the shares of items, from the tally of an item mechanism.

Proofs: docs/proofs/local-items.md.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.errors import ArgumentError
from privmean.local.aggregators import item_law as items
from privmean.local.aggregators.estimate_fields import common_fields, levels_alone
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.heterogeneity_test import cochran, worst
from privmean.local.aggregators.level_weights import FEW, Weighing, distance, freedom, unevenness
from privmean.local.aggregators.tally import Tally
from privmean.local.mechanisms import LARGEST_ITEMS
from privmean.local.round import Round
from privmean.local.simplex import project_to_simplex

SLACK = 2.0**-30  # of beta: for the rounding of the search for a radius, as in 0.2


def items_estimate(
    tally: Tally, beta: float, weights: str, cap: object | None, project: bool
) -> Estimate:
    round_ = tally.round
    assert round_.items is not None
    if round_.items > LARGEST_ITEMS:
        raise ArgumentError(
            "tally", round_.items, "has too many items to list", "ask `item_oracle` for single ones"
        )
    number, size = len(round_.menu), round_.coordinates
    weighing = Weighing.of(round_, weights, cap, range(number))
    variances = items.weight_variances(round_, weighing.epsilons)
    honest = items.weight_variances(round_, [float(item) for item in round_.menu])
    apart = 0.0
    share = beta / size - (0.0 if items.is_row(round_) else SLACK / size)
    shape = (size, round_.items)
    raw, value = np.zeros(shape), np.full(shape, 1 / round_.items)
    raw_radii, radii = np.full(shape, math.inf), np.ones(shape)
    spread, noise = np.full(shape, math.inf), np.full(shape, math.inf)
    laws = [items.item_law(round_, k) for k in range(number)]
    effective, influence, degrees = math.inf, 0.0, math.inf
    levels: list[list[Floats]] = [[] for _ in range(number)]
    tests = []
    all_weights = np.zeros((number, size))
    for j in range(size):
        counts = tally.counts.reshape(number, size)[:, j]
        n = counts.astype(float)
        w = weighing.weights(counts, variances)
        all_weights[:, j] = w
        v = float((n * w**2 * honest).sum())
        effective = min(effective, 1 / v if v > 0 else 0.0)
        alone = np.array([items.level_values(tally, k, j) for k in range(number)])
        for k in range(number):
            levels[k].append(alone[k])
        if v <= 0:
            influence = math.inf
            continue
        influence = max(influence, items.influence(round_, n, w))
        raw[j] = ((n * w)[n > 0, None] * alone[n > 0]).sum(axis=0)
        p = np.clip(raw[j], 0.0, 1.0)
        seen = np.array([laws[k].seen(p, n[k]) for k in range(number)])
        parts = (n * w**2)[:, None] * seen
        spread[j] = np.sqrt(parts.sum(axis=0))
        degrees = min(degrees, freedom(n, parts.max(axis=1)))
        apart = max(apart, float(distance(n, w, seen).max()))
        private = sum(n[k] * w[k] ** 2 * laws[k].noise(p) for k in range(number))
        noise[j] = np.sqrt(private + unevenness(n, w) * p * (1 - p))
        if items.is_row(round_):
            raw_radii[j] = items.row_radius(round_, n, w, share)
        else:
            raw_radii[j] = items.bit_radii(round_, n, w, raw[j], share)
        with np.errstate(divide="ignore"):
            tests.append(cochran(alone, seen / n[:, None], each=True))
        value[j], tau = project_to_simplex(raw[j]) if project else (raw[j], 0.0)
        radii[j] = np.minimum(raw_radii[j] + abs(tau), 1.0 if project else math.inf)
    radius, raw_radius = float(radii.max()), float(raw_radii.max())
    test = worst(tests)
    flat = slice(None) if round_.bins is not None and size > 1 else 0
    return Estimate(
        value=value[flat],
        radius=radius,
        norm="sup",
        target="shares of the items" if round_.bins is None else "shares of the bins",
        raw=raw[flat],
        raw_radius=raw_radius,
        radii=radii[flat],
        spread=spread[flat],
        noise=noise[flat],
        effective=effective,
        levels=levels_alone(
            tally, all_weights.mean(axis=1), [np.array(item)[flat] for item in levels]
        ),
        largest_influence=influence,
        heterogeneity=test,
        unseen=apart * test.reach,
        freedom=degrees if degrees < math.inf else FEW,
        trivial=radius >= 1,
        proved=partial(_proved_items, round_, tally.counts.reshape(number, size), all_weights, raw),
        **common_fields(tally, beta, weights),
    )


def _proved_items(
    round_: Round, counts: Integers, weights: Floats, raw: Floats, beta: float
) -> Floats:
    """The radius of each item alone."""
    result = np.full(raw.shape, math.inf)
    for j in range(len(raw)):
        n, w = counts[:, j].astype(float), weights[:, j]
        if not n.any():
            continue
        if items.is_row(round_):
            result[j] = items.row_radius(round_, n, w, beta, items=1)
        else:
            result[j] = items.bit_radii(round_, n, w, raw[j], beta - SLACK, items=1)
    return result if round_.bins is not None and len(raw) > 1 else result[0]
