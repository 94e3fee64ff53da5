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

    __getattr__, __dir__, __all__ = names(
        __name__,
        """
        aggregators.aggregator  Aggregator
        clients.client          Client randomize
        aggregators.estimate    Estimate
        clients.ledger          Ledger
        clients.outbox          Outbox
        part                    Part
        reports                 Report ReportError Ticket
        descriptor              Round
        aggregators.tally       Tally merge_all
        rounds                  WinsorizedRounds
        aggregators.files       aggregate_files
        builders                ball_round items_round mean_round vote_round
        kernel                  bandwidth curve
        aggregators.estimates   estimate item_oracle
        limits                  lower_bound
        clients.summaries       person_mean slope
        planning                plan_round
        distribution            project_to_simplex
        many                    randomize_many tally_many
        radii                   tau_bounded_records tau_random_effects tau_sub_gaussian
        """,
    )
