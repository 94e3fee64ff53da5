"""Means of heavy-tailed data under a bounded moment, by clipping and noise."""

from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.estimators.heavy_tailed.heavy_tailed_mean import HeavyTailedMean
from privmean.estimators.heavy_tailed.heavy_tailed_plan import RecordWeights

__all__ = ["BoundedMoment", "HeavyTailedMean", "RecordWeights"]
