"""The seed papers' own algorithms, as printed, one module per paper.

WARNING: they are here to be compared with. Each is private: where the printed form is not, the
corrected one runs, and its docstring says so. Each takes people and a budget, and gives an estimate
with its guarantee; privmean's own estimator of its kind is better. Releases carry "for study" in
their names. Nothing else in privmean imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privmean.lazy_imports import names

if TYPE_CHECKING:
    from privmean.published.anisotropic import AnisotropicAsPublished as AnisotropicAsPublished
    from privmean.published.continual import BandedInverse as BandedInverse
    from privmean.published.continual import Decaying as Decaying
    from privmean.published.continual import running_means as running_means
    from privmean.published.dependent import PriestleyChao as PriestleyChao
    from privmean.published.dependent import VarianceAsPublished as VarianceAsPublished
    from privmean.published.dependent import WinsorizedAsPublished as WinsorizedAsPublished
    from privmean.published.dependent import vote_radius_dependent as vote_radius_dependent
    from privmean.published.heterogeneous_local import ball_mean as ball_mean
    from privmean.published.heterogeneous_local import item_shares as item_shares
    from privmean.published.heterogeneous_local import laplace_mean as laplace_mean
    from privmean.published.heterogeneous_local import (
        randomized_response_mean as randomized_response_mean,
    )
    from privmean.published.heterogeneous_local import (
        split_clients_as_printed as split_clients_as_printed,
    )
    from privmean.published.person_level import PureCover as PureCover
    from privmean.published.person_level import ThreadedMean as ThreadedMean

__getattr__, __dir__, __all__ = names(__name__, "privmean.api.renamed_arguments")
