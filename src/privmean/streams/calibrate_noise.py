"""The noise that spends what a budget has left after fixed parts of the accounting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privmean.errors import InfeasibleError
from privmean.privacy.budget import Budget
from privmean.privacy.calibrate import calibrate
from privmean.privacy.privacy_events import PrivacyEvent


def largest_mu(
    noisy: Callable[[float], Sequence[PrivacyEvent]], fixed: Sequence[PrivacyEvent], budget: Budget
) -> float:
    """The largest mu for which the losses `fixed` and noisy(mu) are within the budget."""

    def bill(mu: float) -> Sequence[PrivacyEvent]:
        return [*fixed, *noisy(mu)]

    mu = calibrate(bill, budget, grid=False)
    if mu <= 0:
        raise InfeasibleError("the budget is too small for this stream", "give a larger budget")
    if fixed and budget.rho is None:
        # a loss distribution says what the closed forms leave; three figures are enough
        mu = max(
            mu,
            calibrate(bill, budget, smallest=mu, largest=2 * mu, tolerance=1e-3),
        )
    return mu
