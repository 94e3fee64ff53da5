"""The server half: reports in, an estimate with an honest radius out. Uses NumPy and SciPy."""

from __future__ import annotations

from privmean.late import names

__getattr__, __dir__, __all__ = names(
    __name__,
    """
    aggregator  Aggregator
    estimate    Estimate
    estimates   estimate item_oracle
    files       aggregate_files
    gate        Gate
    tally       Tally merge_all
    """,
)
