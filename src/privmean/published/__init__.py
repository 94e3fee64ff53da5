"""The algorithms exactly as published, for study: what the papers print, with its constants.

WARNING: they are here to be compared with. Each is private (where the printed form is not, the
corrected one runs and the release says so), and each is worse in every respect than the estimator
of its kind: `WinsorizedMean`, `Variance`, `AnisotropicMean`. Releases carry "for study" in their
names. Nothing else in privmean imports this room.
"""

from __future__ import annotations

from privmean.published.anisotropic import AnisotropicAsPublished
from privmean.published.continual import (
    BandedInverse,
    Decaying,
    running_means,
)
from privmean.published.heterogeneous_local import (
    ball_mean,
    item_shares,
    laplace_mean,
    randomized_response_mean,
    split_clients_as_printed,
)
from privmean.published.variance import VarianceAsPublished
from privmean.published.winsorized import AsPublished

__all__ = [
    "AnisotropicAsPublished",
    "AsPublished",
    "BandedInverse",
    "Decaying",
    "VarianceAsPublished",
    "ball_mean",
    "item_shares",
    "laplace_mean",
    "randomized_response_mean",
    "running_means",
    "split_clients_as_printed",
]
