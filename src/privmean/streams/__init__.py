"""A running mean over a stream, protected per person, by matrix factorization."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privmean.streams.mean_stream import GroupMeanStream as GroupMeanStream
    from privmean.streams.mean_stream import MeanStream as MeanStream
    from privmean.streams.strategies import Banded as Banded
    from privmean.streams.strategies import Buffered as Buffered
    from privmean.streams.strategies import Identity as Identity
    from privmean.streams.strategies import MeanToeplitz as MeanToeplitz
    from privmean.streams.strategies import PrefixRoot as PrefixRoot
    from privmean.streams.strategies import ScaledBuffered as ScaledBuffered
    from privmean.streams.strategies import Toeplitz as Toeplitz
    from privmean.streams.strategy_error import ErrorGoal as ErrorGoal
    from privmean.streams.stream_plan import StreamPlan as StreamPlan
    from privmean.streams.stream_plan import plan as plan
    from privmean.streams.stream_release import StreamRelease as StreamRelease
    from privmean.streams.toeplitz_matrices import ColumnNorms as ColumnNorms
    from privmean.streams.toeplitz_matrices import Participation as Participation
    from privmean.streams.withhold_release import WithholdRelease as WithholdRelease
else:
    from privmean.lazy_imports import names

    __getattr__, __dir__, __all__ = names(__name__, "privmean.api.renamed_arguments")
