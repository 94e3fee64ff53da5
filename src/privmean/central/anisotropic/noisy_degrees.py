"""The noisy-degree filter: Gaussian noise on every degree and one hard threshold.

A filter in the manner of FriendlyCore's zCDP variant (Tsfadia and others 2022) for a large public
number of people; constants derived in docs/proofs/anisotropic.md, step 6.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from privmean.central.anisotropic.calibrate_filter import (
    count_lattice,
    infeasible,
    tight_count,
)
from privmean.mechanisms.filtered_mean import MEAN_STEPS, FilterCalibration, NoisyDegrees
from privmean.mechanisms.row_sums import root_above
from privmean.privacy.amplification import gaussian_tail, tail_threshold
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent, Threshold


def calibrate_noisy_degrees(
    mu: float, slip: float, bad: float, persons: int, *, dimension: int, filter_share: float
) -> tuple[NoisyDegrees, FilterCalibration]:
    """The noisy-degree filter and what runs behind it, as Gaussian mechanisms of total `mu`.

    Replace-one only (people is read). filter_share: share of mu^2 for the degrees; slip: chance
    that a person below half the degrees is kept; bad: chance that the count is too large.
    """
    filter_mu = mu * math.sqrt(filter_share)
    behind = tight_count(mu * math.sqrt(1 - filter_share), bad, persons)
    deviation = math.sqrt(persons - 1) / filter_mu
    steps = int(2 ** max(0, math.ceil(math.log2(MEAN_STEPS / deviation))))
    scale = steps * deviation
    margin = tail_threshold(slip / persons, scale)
    # keep if deg + noise >= (n+1)/2 + margin; twice the degrees, so that halves stay integers
    threshold = -(-(persons + 1) * steps // 2) + margin
    noisy = NoisyDegrees(steps, scale, threshold)
    if behind is None:
        raise infeasible(persons, mu, "replace-one")
    count_steps = count_lattice(1 / behind.count_mu)
    count_scale = count_steps / behind.count_mu
    offset = tail_threshold(bad, count_scale)
    mean_mu = 1 / behind.multiplier
    multiplier = 1 / (mean_mu - math.sqrt(dimension) / MEAN_STEPS)
    losses: tuple[PrivacyEvent, ...] = (
        Gaussian(
            "degrees",
            root_above(persons - 1) * steps,
            scale,
            persons - 1,
            neighbors=REPLACE_ONE,
        ),
        Threshold(
            "degrees below half",
            persons * gaussian_tail(margin, scale),
            margin / steps,
            neighbors=REPLACE_ONE,
            sensitivity_text="a person below half the degrees, from dropped to kept",
        ),
        Gaussian("people kept", float(count_steps), count_scale, 1, neighbors=REPLACE_ONE),
        Threshold(
            "count too large",
            gaussian_tail(offset, count_scale),
            offset / count_steps,
            neighbors=REPLACE_ONE,
            sensitivity_text="the noisy count, from below the number kept to above it",
        ),
        Gaussian(
            "mean of people kept",
            mean_mu * MEAN_STEPS,
            MEAN_STEPS,
            dimension,
            neighbors=REPLACE_ONE,
        ),
    )
    return noisy, FilterCalibration(count_steps, count_scale, offset, multiplier, losses)


def kept_degree(noisy: NoisyDegrees, persons: int, beta: float) -> float:
    """The degree that passes the noisy filter with all people at once w.p. 1 - beta."""
    return (noisy.threshold + noisy.scale * -float(ndtri(beta / persons))) / noisy.steps
