"""Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024)."""

import numpy as np
from published_case import Case, Reference, table

from privmean.auditing.audit import audit
from privmean.data.schema import PublicShape
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.published import AnisotropicAsPublished

SPIKE = np.r_[np.ones(5), np.full(95, 0.01)]  # deviations, of which five are large


def normal(sigma):
    """Normal rows about 0 with these deviations."""

    def made(rng, n):
        return table(rng.standard_normal((n, len(sigma))) * sigma), np.zeros(len(sigma))

    return made


def l2_error(release, plan, truth):
    return float(np.linalg.norm(release.estimate - truth))


class Known(Case):
    """Under add-remove, where n is a guess."""

    def plan(self, n, budget, dimension):
        private = Budget(**budget, neighbors=ADD_REMOVE)
        return self.build().plan(private, PublicShape.of(dimension, None, n))

    def audit(self):
        people, _ = self.people(np.random.default_rng(1), self.audited)
        return audit(self.build(), people, runs=40, neighbors=ADD_REMOVE, **self.replayed)


CASES = [
    Known("filtered mean (Algorithm 1)", lambda: AnisotropicAsPublished(SPIKE**2), normal(SPIKE),
        Reference(5.95, 0.30, l2_error, 40), n=2000, audited=200,
        replayed={"epsilon": 10.0, "delta": 1e-4}),
    Case("unknown covariance (Algorithms 2 to 7)", AnisotropicAsPublished,
        normal(np.array([1.0, 1.0, 0.01])), n=20_000, audited=2000,
        budget={"epsilon": 8.0, "delta": 1e-6}, replayed={"epsilon": 40.0, "delta": 1e-3}),
]  # fmt: skip
