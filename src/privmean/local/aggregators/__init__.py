"""The server half: reports in, an estimate with an honest radius out. Uses NumPy and SciPy."""

from __future__ import annotations

from privmean.lazy_imports import names

__getattr__, __dir__, __all__ = names(
    __name__,
    """
    aggregator  Aggregator
    estimate_result  Estimate
    estimate   estimate item_oracle
    aggregator    aggregate_files
    report_validation        ReportValidator
    tally       Tally merge_all
    """,
)
