"""Local differential privacy: clients that randomize, a server that only aggregates.

The public names, imported when first used: the client half needs no numerical library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privmean.local.aggregators.aggregator import Aggregator as Aggregator
    from privmean.local.aggregators.aggregator import aggregate_files as aggregate_files
    from privmean.local.aggregators.estimate_result import Estimate as Estimate
    from privmean.local.aggregators.estimate_round import estimate as estimate
    from privmean.local.aggregators.estimate_round import item_oracle as item_oracle
    from privmean.local.aggregators.item_law import project_to_simplex as project_to_simplex
    from privmean.local.aggregators.tally import Tally as Tally
    from privmean.local.clients.client import Client as Client
    from privmean.local.clients.client import Ledger as Ledger
    from privmean.local.clients.client import randomize as randomize
    from privmean.local.clients.randomizers import person_mean as person_mean
    from privmean.local.clients.randomizers import slope as slope
    from privmean.local.clients.send import Outbox as Outbox
    from privmean.local.kernel_regression import curve as curve
    from privmean.local.reports import Report as Report
    from privmean.local.reports import ReportError as ReportError
    from privmean.local.reports import Ticket as Ticket
    from privmean.local.round import ClientSplit as ClientSplit
    from privmean.local.round import Round as Round
    from privmean.local.round_builders import ball_round as ball_round
    from privmean.local.round_builders import items_round as items_round
    from privmean.local.round_builders import mean_round as mean_round
    from privmean.local.round_builders import tau_random_effects as tau_random_effects
    from privmean.local.round_builders import tau_sub_gaussian as tau_sub_gaussian
    from privmean.local.round_builders import vote_round as vote_round
    from privmean.local.round_plan import lower_bound as lower_bound
    from privmean.local.round_plan import plan_round as plan_round
    from privmean.local.two_round_mean import WinsorizedRounds as WinsorizedRounds
    from privmean.local.vectorized import randomize_many as randomize_many
    from privmean.local.vectorized import tally_many as tally_many
else:
    from privmean.lazy_imports import names

    __getattr__, __dir__, __all__ = names(__name__, "privmean.api.renamed_arguments")
