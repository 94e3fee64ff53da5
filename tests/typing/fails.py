# ruff: noqa: B018
"""Mistakes that a type checker must see, each with the rule by which mypy and pyright name it."""

from __future__ import annotations

import privmean as pm

table = pm.Table("panel.csv", person="who")
pm.mean([1.0], epsilon="one")  # E: arg-type | reportArgumentType
pm.mean([1.0], epsilon=1.0, dleta=3)  # E: call-arg | reportCallIssue
pm.mean([1.0], epsilom=1.0)  # E: call-arg | reportCallIssue
pm.mean([1.0], epsilon=1.0, neighbors="bad")  # E: arg-type | reportArgumentType
pm.mean([1.0], epsilon=1.0, level="high")  # E: arg-type | reportArgumentType
pm.mean([1.0], epsilon=1.0, noise=1)  # E: arg-type | reportArgumentType
pm.mean([1.0], epsilon=1.0, ledger=3)  # E: arg-type | reportArgumentType
pm.mean(3, epsilon=1.0)  # E: arg-type | reportArgumentType
pm.mean(["wage"], epsilon=1.0)  # E: arg-type | reportArgumentType
pm.mean(table, 3, epsilon=1.0)  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, method="winsorised")  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, method=pm.WinsorizedMean)  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, bounds=(0, 8, 9))  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, assume="sub-gaussian")  # E: arg-type | reportArgumentType
pm.mean(table, "y", assume=pm.WorkingErrors(1.0), epsilon=1.0)  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, clustering="school")  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, estimand="person")  # E: arg-type | reportArgumentType
pm.mean(table, "wage", epsilon=1.0, target="mean")  # E: call-arg | reportCallIssue
pm.mean(epsilon=1.0)  # E: call-arg | reportCallIssue
pm.regress(table, epsilon=1.0)  # E: call-arg | reportCallIssue
pm.regress(table, "y ~ a", working="ar1", epsilon=1.0)  # E: arg-type | reportArgumentType
pm.regress(table, "y ~ a", threshold=0.1, epsilon=1.0)  # E: call-arg | reportCallIssue
pm.curve(table, "y", time="year", epsilon=1.0)  # E: call-arg | reportCallIssue
pm.curve(table, "y", time="year", bins="year", epsilon=1.0)  # E: arg-type | reportArgumentType
pm.curve(table, "y", time="t", bins=[0], moment=1, epsilon=1.0)  # E: call-arg | reportCallIssue
pm.variance(table, "y", clustering="g", epsilon=1.0)  # E: arg-type | reportArgumentType
pm.variance(table, "y", within=(1, 2), rho=1)  # E: call-arg | reportCallIssue
pm.quantile(table, "y", "median", epsilon=1.0)  # E: arg-type | reportArgumentType
pm.ask(table, "mean", epsilon=1.0)  # E: arg-type | reportArgumentType
pm.ask(table, pm.Mean("y"), epsilon="one")  # E: arg-type | reportArgumentType
pm.plan(pm.Mean("y"), epsilon=1.0)  # E: call-arg | reportCallIssue
pm.plan(pm.DefaultMean(), n=9, epsilon=1.0)  # E: arg-type | reportArgumentType
pm.required_n(pm.Mean(), target_error=0.1, epsilon=1.0)  # E: call-arg | reportCallIssue
pm.Mean("y", methode="auto")  # E: call-arg | reportCallIssue
pm.Mean("y", assume=3)  # E: arg-type | reportArgumentType
pm.Regression("y ~ a", working="ar1")  # E: arg-type | reportArgumentType
pm.SubGaussian()  # E: call-arg | reportCallIssue
pm.Table("panel.csv", person=3)  # E: arg-type | reportArgumentType
pm.read("panel.csv", person="who", estimand="both")  # E: arg-type | reportArgumentType
pm.mean([1.0], epsilon=1.0).nothing_like_this()  # E: attr-defined | reportAttributeAccessIssue
pm.mean([1.0], epsilon=1.0).at  # E: attr-defined | reportAttributeAccessIssue
pm.nothing_like_this  # E: attr-defined | reportAttributeAccessIssue
pm.plan_mean  # E: attr-defined | reportAttributeAccessIssue
