"""The suite against other packages: its baselines obey their laws, privmean's rows know nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import privmean as pm
from peers import accuracy, answers, baselines, environments, ours
from peers.tables import Table
from peers.wire import Records, Task


class Quiet:
    """A generator whose noise is nothing; it remembers the scales that were asked for."""

    def __init__(self):
        self.scales = []

    def laplace(self, _, scale):
        self.scales.append(scale)
        return 0.0

    def normal(self, _, scale, size):
        self.scales.append(scale)
        return np.zeros(size)


def test_clipped_laplace_pays_for_replacing_one_person():
    # dyadic numbers: the sums are exact
    noise, means, epsilon = Quiet(), np.array([-8.0, 0.5, 1.5, 2.0]), 0.5
    answer = baselines.clipped_laplace(means, -1.0, 3.0, epsilon, noise)
    assert answer == (-1 + 0.5 + 1.5 + 2) / 4
    worst = max(
        abs(
            baselines.clipped_laplace(np.array([new, *means[1:]]), -1.0, 3.0, epsilon, Quiet())
            - baselines.clipped_laplace(np.array([old, *means[1:]]), -1.0, 3.0, epsilon, Quiet())
        )
        for new in (-100.0, 0.0, 100.0)
        for old in (-100.0, 0.0, 100.0)
    )
    assert Fraction(worst) / Fraction(noise.scales[0]) == Fraction(epsilon)


def test_group_privacy_pays_for_all_records_of_a_person():
    values, most, epsilon = np.array([0.0, 4.0, 8.0, 2.0, 2.0, 0.0, 0.0, 0.0]), 3, 1.0
    noise = Quiet()
    assert baselines.group_privacy(values, most, 0.0, 4.0, epsilon, noise) == 12 / 8
    low, high = values.copy(), values.copy()
    low[:most], high[:most] = -9.0, 9.0
    answers_of = [baselines.group_privacy(x, most, 0.0, 4.0, epsilon, Quiet()) for x in (low, high)]
    assert Fraction(answers_of[1] - answers_of[0]) / Fraction(noise.scales[0]) == Fraction(epsilon)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_coin_press_steps_compose_to_the_budget(steps):
    """GDP parameters compose as the root of squares, exactly; its curve gives delta back."""
    epsilon, delta = 0.7, 1e-5
    mu = math.sqrt(sum(part**2 for part in baselines.strengths(epsilon, delta, steps)))
    curve = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
        -mu / 2 - epsilon / mu
    )
    assert curve == pytest.approx(delta, rel=1e-6)
    assert len(baselines.strengths(epsilon, delta, steps)) == steps


@pytest.mark.parametrize("d", [1, 4])
def test_coin_press_pays_for_replacing_one_person(d):
    """In every step the clipped mean moves by at most the noise's deviation times that step's GDP
    parameter, whatever replaces a person; a far replacement comes close to it."""
    rows, n = np.random.default_rng(2).normal(size=(50, d)), 50
    other = rows.copy()
    rows[0], other[0] = 1e9, -1e9
    noise, radius, sd = Quiet(), 20.0, 1.0
    (mu,) = baselines.strengths(1.0, 1e-6, 1)
    start = np.zeros(d)
    moved = np.linalg.norm(
        baselines.coin_press(rows, start, radius, sd, 1.0, 1e-6, noise, steps=1)
        - baselines.coin_press(other, start, radius, sd, 1.0, 1e-6, Quiet(), steps=1)
    )
    assert moved == pytest.approx(noise.scales[0] * mu, rel=1e-12)
    surprise = math.log(1 / baselines.FAILURE)
    tail = math.sqrt(d + 2 * math.sqrt(d * surprise) + 2 * surprise)
    reach = min(radius + sd * tail, math.sqrt(radius**2 + 6 * sd * radius + (sd * tail) ** 2))
    assert noise.scales[0] * mu == pytest.approx(2 * reach / n, rel=1e-12)


def _table():
    person = np.repeat(np.arange(400), 3)
    value = np.random.default_rng(4).normal(50, 2, len(person))
    return Table("drawn", Records(person, value))


def test_privmean_rows_are_told_the_budget_alone(monkeypatch):
    """Whatever the suite asks of privmean names epsilon, delta and the neighbours, and gives no
    noise: the exact one is used."""
    asked = []
    real = pm.mean

    def watched(people, **arguments):
        asked.append(arguments)
        return real(people, **arguments)

    monkeypatch.setattr(pm, "mean", watched)
    table = _table()
    people = ours.people_of(table)
    rows = [row for row in accuracy.ROWS if row.peer == "privmean"]
    for row in rows:
        assert row.told == accuracy.NOTHING
        for task in accuracy.tasks_of(row, [table], 2, (1.0, 0.5)):
            assert task.bounds == "generous"
            found = accuracy._privmean(row, task, people)
            assert found.shape == (2,)
    assert len(asked) == 2 * 2 * len(rows)
    assert all(set(item) == {"epsilon", "delta", "neighbors"} for item in asked)
    assert {item["epsilon"] for item in asked} == {1.0, 0.5}


def test_every_row_has_a_peer_and_every_peer_an_adapter():
    names = {peer.name for peer in environments.PEERS}
    assert {row.peer for row in accuracy.ROWS} == names | {"privmean", "baseline"}
    for peer in environments.PEERS:
        source = peer.adapter.read_text()
        for row in accuracy.ROWS:
            if row.peer == peer.name:
                assert f'"{row.route}"' in source


def test_answers_are_kept_and_refusals_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "ANSWERS", tmp_path)

    def answer(task):
        if task.table == "few":
            return ours.answers(np.zeros((4, 9)), 0.01, 0.0, "replace-one", 1)[:, 0]
        return [1.0, 2.0]

    tasks = [Task(name, "r", 1.0, "true", 0.0, 1.0, 2) for name in ("few", "many")]
    answers.answer_here("privmean", "accuracy", tasks, answer)
    kept = answers.load("privmean", "accuracy")
    assert kept[tasks[1].key]["estimates"] == [1.0, 2.0]
    assert "people" in kept[tasks[0].key]["error"]


def test_an_absent_peer_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "ANSWERS", tmp_path)
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    assert all("is not installed" in line for line in answers.problems("accuracy"))
    assert len(answers.problems("accuracy")) == len(environments.PEERS)
