"""Local differential privacy: clients that randomize, a server that only aggregates.

The public names, imported when first used: the client half needs no numerical library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privmean.local.aggregators.aggregator import Aggregator as Aggregator
    from privmean.local.aggregators.estimate import Estimate as Estimate
    from privmean.local.aggregators.estimates import estimate as estimate
    from privmean.local.aggregators.estimates import item_oracle as item_oracle
    from privmean.local.aggregators.files import aggregate_files as aggregate_files
    from privmean.local.aggregators.tally import Tally as Tally
    from privmean.local.aggregators.tally import merge_all as merge_all
    from privmean.local.builders import ball_round as ball_round
    from privmean.local.builders import items_round as items_round
    from privmean.local.builders import mean_round as mean_round
    from privmean.local.builders import vote_round as vote_round
    from privmean.local.clients.client import Client as Client
    from privmean.local.clients.client import randomize as randomize
    from privmean.local.clients.ledger import Ledger as Ledger
    from privmean.local.clients.outbox import Outbox as Outbox
    from privmean.local.clients.summaries import person_mean as person_mean
    from privmean.local.clients.summaries import slope as slope
    from privmean.local.descriptor import Round as Round
    from privmean.local.distribution import project_to_simplex as project_to_simplex
    from privmean.local.kernel import bandwidth as bandwidth
    from privmean.local.kernel import curve as curve
    from privmean.local.limits import lower_bound as lower_bound
    from privmean.local.many import randomize_many as randomize_many
    from privmean.local.many import tally_many as tally_many
    from privmean.local.part import Part as Part
    from privmean.local.planning import plan_round as plan_round
    from privmean.local.radii import tau_bounded_records as tau_bounded_records
    from privmean.local.radii import tau_random_effects as tau_random_effects
    from privmean.local.radii import tau_sub_gaussian as tau_sub_gaussian
    from privmean.local.reports import Report as Report
    from privmean.local.reports import ReportError as ReportError
    from privmean.local.reports import Ticket as Ticket
    from privmean.local.rounds import WinsorizedRounds as WinsorizedRounds
else:
    from privmean.late import names

    _HOMES = {
        "Aggregator": "privmean.local.aggregators.aggregator",
        "Client": "privmean.local.clients.client",
        "Estimate": "privmean.local.aggregators.estimate",
        "Ledger": "privmean.local.clients.ledger",
        "Outbox": "privmean.local.clients.outbox",
        "Part": "privmean.local.part",
        "Report": "privmean.local.reports",
        "ReportError": "privmean.local.reports",
        "Round": "privmean.local.descriptor",
        "Tally": "privmean.local.aggregators.tally",
        "Ticket": "privmean.local.reports",
        "WinsorizedRounds": "privmean.local.rounds",
        "aggregate_files": "privmean.local.aggregators.files",
        "ball_round": "privmean.local.builders",
        "bandwidth": "privmean.local.kernel",
        "curve": "privmean.local.kernel",
        "estimate": "privmean.local.aggregators.estimates",
        "item_oracle": "privmean.local.aggregators.estimates",
        "items_round": "privmean.local.builders",
        "lower_bound": "privmean.local.limits",
        "mean_round": "privmean.local.builders",
        "merge_all": "privmean.local.aggregators.tally",
        "person_mean": "privmean.local.clients.summaries",
        "plan_round": "privmean.local.planning",
        "project_to_simplex": "privmean.local.distribution",
        "randomize": "privmean.local.clients.client",
        "randomize_many": "privmean.local.many",
        "slope": "privmean.local.clients.summaries",
        "tally_many": "privmean.local.many",
        "tau_bounded_records": "privmean.local.radii",
        "tau_random_effects": "privmean.local.radii",
        "tau_sub_gaussian": "privmean.local.radii",
        "vote_round": "privmean.local.builders",
    }
    __getattr__, __dir__ = names(__name__, _HOMES)
    __all__ = [*_HOMES]  # noqa: PLE0604
