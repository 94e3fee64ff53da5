"""Means of heavy-tailed data under a bounded moment, by clipping and noise."""

from privmean.central.heavy_tailed.estimator import HeavyTailed, persons_for_error
from privmean.central.heavy_tailed.moment import BoundedMoment
from privmean.central.heavy_tailed.pure_cover import PureCover
from privmean.central.heavy_tailed.records import RecordWeights

__all__ = ["BoundedMoment", "HeavyTailed", "PureCover", "RecordWeights", "persons_for_error"]
