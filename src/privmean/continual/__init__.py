"""A running mean over a stream, protected per person, by matrix factorization."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privmean.continual.buffered import Buffered as Buffered
    from privmean.continual.error import Goal as Goal
    from privmean.continual.keyed import MeanStreams as MeanStreams
    from privmean.continual.loading import Loading as Loading
    from privmean.continual.planning import plan as plan
    from privmean.continual.release import StreamRelease as StreamRelease
    from privmean.continual.scaled import ScaledBuffered as ScaledBuffered
    from privmean.continual.sensitivity import Participation as Participation
    from privmean.continual.strategies import Banded as Banded
    from privmean.continual.strategies import BandedInverse as BandedInverse
    from privmean.continual.strategies import DampedToeplitz as DampedToeplitz
    from privmean.continual.strategies import Decaying as Decaying
    from privmean.continual.strategies import Identity as Identity
    from privmean.continual.strategies import MeanToeplitz as MeanToeplitz
    from privmean.continual.strategies import PrefixRoot as PrefixRoot
    from privmean.continual.strategies import Toeplitz as Toeplitz
    from privmean.continual.stream import MeanStream as MeanStream
    from privmean.continual.streamplan import StreamPlan as StreamPlan
    from privmean.continual.withhold_release import WithholdRelease as WithholdRelease
else:
    from privmean.late import names

    __getattr__, __dir__, __all__ = names(
        __name__,
        """
        planning          plan
        streamplan        StreamPlan
        stream            MeanStream
        keyed             MeanStreams
        release           StreamRelease
        withhold_release  WithholdRelease
        strategies        Identity PrefixRoot MeanToeplitz DampedToeplitz Decaying Toeplitz
        strategies        Banded BandedInverse
        buffered          Buffered
        scaled            ScaledBuffered
        loading           Loading
        error             Goal
        sensitivity       Participation
        """,
    )
