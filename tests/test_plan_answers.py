"""Plans answer which epsilon and how many people: for every question, as table and picture."""

from __future__ import annotations

import contextlib
import json
import math
import re

import pytest

import privmean as pm
from cli_runner import shell
from privmean.output import WIDTH

SIZES = {"a": 2000, "b": 400}
BY = {"by": ("g",), "keys": tuple(SIZES)}
BINS = [0, 1, 2]
ASKED = {
    "mean": (pm.Mean("y"), {}),
    "within bounds": (pm.Mean("y", assume=(0, 10)), {}),
    "two columns": (pm.Mean(("y", "z")), {}),
    "concentration": (pm.Mean("y", assume=pm.SubGaussian(sd=1.0)), {"delta": 1e-6}),
    "groups": (pm.Mean("y", **BY), {"group_sizes": SIZES}),
    "usual group": (pm.Mean("y", **BY), {}),
    "arms": (pm.Compare("y", arms="arm"), {}),
    "quantile": (pm.Quantile("y"), {}),
    "variance": (pm.Variance("y"), {}),
    "curve": (pm.Curve("y", "t", bins=BINS), {}),
    "regression": (pm.Regression("y ~ x"), {"delta": 1e-6}),
}


def error_of(question, more, epsilon, n=4000):
    """The predicted error, from the plan itself."""
    delta = more.get("delta", 0.0)
    made = pm.plan(question, n=n, epsilon=epsilon, delta=delta)
    if "group_sizes" in more:
        return max(item.rmse for item in made.forecast(SIZES, 1.0))
    if question.kind == "compare":
        return made.difference(1.0, n)["rmse"]
    return made.predict(1.0)["rmse"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_the_required_epsilon_is_enough_and_hardly_more(name):
    question, more = ASKED[name]
    target = 1.2 * error_of(question, more, 50.0)
    found = pm.required_epsilon(question, n=4000, target_error=target, guess_sd=1.0, **more)
    assert error_of(question, more, found) <= target
    with contextlib.suppress(pm.InfeasibleError):
        assert error_of(question, more, found * 0.98) > target
    if found < 10:
        assert float(f"{found:.3g}") == found
    with pytest.raises(pm.ArgumentError, match="any epsilon"):
        pm.required_epsilon(question, n=4000, target_error=1e-9, guess_sd=1.0, **more)


def test_the_required_n_of_a_comparison_is_for_the_difference():
    question = pm.Compare("y", arms="arm")
    n = pm.required_n(question, target_error=0.1, guess_sd=1.0, epsilon=1.0)
    assert error_of(question, {}, 1.0, n) <= 0.1 < error_of(question, {}, 1.0, n - 2)


def test_what_is_missing_or_too_much_is_refused():
    with pytest.raises(pm.ArgumentError, match="n is required"):
        pm.required_epsilon(pm.Mean("y"), target_error=0.1, guess_sd=1.0)
    asked = {"n": 4000, "guess_sd": 1.0}
    with pytest.raises(pm.ArgumentError, match="against"):
        pm.predict_errors(pm.Mean("y"), epsilon=1.0, against="delta", **asked)
    with pytest.raises(pm.ArgumentError, match="has no epsilon"):
        pm.predict_errors(pm.Mean("y"), rho=1.0, **asked)
    for values in ([], [0.0], [-1], "1", 3, [math.nan]):
        with pytest.raises(pm.ArgumentError, match="values"):
            pm.predict_errors(pm.Mean("y"), epsilon=1.0, values=values, **asked)
    with pytest.raises(pm.ArgumentError, match="by group"):
        pm.predict_errors(pm.Mean("y"), epsilon=1.0, group_sizes=SIZES, **asked)
    with pytest.raises(pm.ArgumentError, match="cannot be combined"):
        pm.predict_errors(
            pm.Mean("y", **BY), epsilon=1.0, group_sizes=SIZES, against="n", **asked
        )  # fmt: skip


@pytest.mark.parametrize("against", ["epsilon", "n"])
@pytest.mark.parametrize("name", ["mean", "arms", "quantile", "curve"])
def test_errors_over_a_range_are_those_of_the_plans(name, against):
    question, more = ASKED[name]
    made = pm.predict_errors(
        question, n=4000, epsilon=1.0, guess_sd=1.0, against=against, values=None, **more
    )
    frame = made.to_frame("polars")
    assert frame.columns == [against, "error", "sampling", "noise"]
    for place, error, sampling, noise in frame.iter_rows():
        if math.isnan(error):  # too few people, or too small an epsilon
            continue
        at = {"epsilon": place} if against == "epsilon" else {"epsilon": 1.0, "n": int(place)}
        assert error == pytest.approx(error_of(question, more, **at))
        assert error == pytest.approx(math.hypot(sampling, noise))
    errors = [x for x in frame["error"] if not math.isnan(x)]
    assert errors == sorted(errors, reverse=True)
    assert len(errors) >= 5
    edge = {"epsilon": made.enough} if against == "epsilon" else {"n": int(made.enough)}
    near = pm.predict_errors(
        question, **{"n": 4000, "epsilon": 1.0} | edge, guess_sd=1.0, against=against,
        values=list(edge.values()), **more,
    )  # fmt: skip
    assert near.errors["rmse"][0] <= 1.1 * near.errors["sampling"][0]


def test_a_forecast_prints_a_table_and_draws_a_picture():
    made = pm.predict_errors(pm.Mean("y"), n=400, epsilon=0.5, guess_sd=1.0)
    text = str(made)
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert re.search(r"^0\.05 +- +- +-$", text, re.MULTILINE)  # this epsilon cannot work
    assert f"At epsilon = {made.enough:g} or more" in text
    html = made._repr_html_()
    assert html.count("<svg") == 1
    for word in ("error", "sampling", "noise"):
        assert f">{word}</text>" in html
    axes = made.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["error", "sampling", "noise"]
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize("name", ASKED)
def test_every_plan_prints_a_table(name):
    question, more = ASKED[name]
    made = pm.plan(question, n=4000, epsilon=1.0, delta=more.get("delta", 0.0))
    text = str(made)
    assert text.startswith("Plan: ")
    assert "Budget(" not in text
    heads = next(line.split() for line in text.splitlines() if "error" in line.split())
    assert heads[:3] == ["error", "sampling", "noise"] or heads == ["error", "noise"]
    assert "<table>" in made._repr_html_()


def test_a_plan_says_of_which_row_its_error_is():
    """Of one group or arm, and of the difference, which is what a comparison is about."""
    arms = pm.plan(pm.Compare("x", arms="a", levels=(1, 0)), n=5000, epsilon=1.0)
    shown = {line.split("  ")[0]: line for line in str(arms).splitlines()}
    assert f"{arms.predict(1.0)['rmse']:.4f}" in shown["one of 2 equal groups"]
    assert f"{arms.difference(1.0, 5000)['rmse']:.4f}" in shown["difference"]
    groups = pm.plan(pm.Mean("x", by="g", keys=("a", "b", "c")), n=5000, epsilon=1.0)
    assert "one of 3 equal groups" in str(groups)


def test_the_command_says_epsilon_and_n():
    known = ("plan", "--n", 4000, "--epsilon", 1, "--guess-sd", 0.5, "--target-error", 0.02)
    told = shell(*known, "--against", "epsilon")
    assert told.exit_code == 0
    epsilon = pm.required_epsilon(pm.Mean("y"), n=4000, target_error=0.02, guess_sd=0.5)
    n = pm.required_n(pm.Mean("y"), target_error=0.02, guess_sd=0.5, epsilon=1)
    assert f"An error of 0.02 needs n = {n:,}." in told.stdout
    assert f"An error of 0.02 needs epsilon = {epsilon:.3g}." in told.stdout
    assert "Predicted error of a mean against epsilon" in told.stdout
    stored = json.loads(shell(*known, "--against", "n", "--json").stdout)
    assert (stored["required_n"], stored["required_epsilon"]) == (n, epsilon)
    assert [row["n"] for row in stored["forecast"]["rows"]][3] == 4000
    for more in (("--arms", "arm"), ("--by", "g", "--keys", "a,b")):
        told = shell(*known, *more, "--against", "n")
        assert told.exit_code == 0, told.stderr
        assert "needs epsilon" in told.stdout
        assert "against n" in told.stdout
    assert shell(*known, "--against", "delta").exit_code == 2


def test_a_study_plan_has_a_frame_and_reasons():
    study = pm.Study(pm.example("wages"), person="id", epsilon=2.0)
    study.add("level", pm.Mean("ln_wage"), weight=2)
    study.add("hours", pm.Mean("hours", assume=(0, 100)), error=0.5, guess_sd=8)
    study.add("much", pm.Mean("hours", assume=(0, 100), method="auto"), error=0.3, guess_sd=8)
    plan = study.plan(4000)
    frame = plan.to_frame("polars")
    assert frame["question"].to_list() == ["level", "hours", "much"]
    assert frame["share"].sum() == pytest.approx(1.0) or plan.shared_locations
    for row, line in zip(frame.iter_rows(named=True), plan.lines(), strict=True):
        assert row["error"] == pytest.approx(math.hypot(row["sampling"], row["noise"]))
        assert row["reason"] == line.reason
        assert f"{line.name}: {line.reason}" in str(plan)
        assert line.reason in plan._repr_html_()
    level, hours, much = frame["reason"]
    ratio = frame["noise"][0] / frame["sampling"][0]
    assert level.startswith(f"weight 2; noise is {ratio:.0%} of the sampling error")
    assert (hours, much) == ("target error 0.5", "target error 0.3")
    assert [item["reason"] for item in plan.describe()["questions"]] == [level, hours, much]
