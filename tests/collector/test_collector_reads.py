"""What is read of a collector: cut where it is very long, read on and never anew."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql

from privmean.collector.collector_parts import Housekeeper, Log, Retention, RoundCatalog
from privmean.collector.sqlite import REPORTS, WRITERS
from privmean.collector.store import Answers, Offer, Store
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_result import cochran
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import tally
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many


def reports_of(round_, n, items=10):
    return randomize_many(round_, np.arange(n) % items, epsilon=1)


class Questions:
    """Counts what a database is asked, by the table of the reports."""

    def __init__(self, store):
        self.all, self.reports = 0, 0
        sql.event.listen(store.engine, "before_cursor_execute", self.note)

    def note(self, _link, _cursor, statement, *_):
        self.all += 1
        self.reports += REPORTS.name in statement

    def since(self):
        found, self.all, self.reports = (self.all, self.reports), 0, 0
        return found


@pytest.mark.parametrize("mechanism", ["hadamard", "subset"])
def test_of_very_many_numbers_the_largest_are_listed(tmp_path, mechanism):
    round_ = items_round(5000, epsilon=[1, 2], persons=4000, mechanism=mechanism)
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_])
    own = np.where(np.arange(400) % 2, 1.0, 2.0)
    batch = randomize_many(round_, np.arange(400) % 7 * 700, epsilon=own)
    store.write([Offer(batch)])
    answers = Answers(store)
    few = json.loads(answers.get(round_))
    every = json.loads(answers.get(round_, numbers="all"))
    found = estimate(tally(batch))
    assert len(every["value"]) == 5000
    assert (len(few["value"]), few["numbers"]) == (100, 5000)
    assert sorted(every["value"], reverse=True)[:100] == few["value"]
    half = found.interval(few["interval"]["level"])
    for k, place in enumerate(few["places"]):
        assert few["value"][k] == found.value[place]
        assert few["raw"][k] == found.raw[place]
        assert few["interval"]["lower"][k] == pytest.approx(half.lower[place])
        assert few["interval"]["upper"][k] == pytest.approx(half.upper[place])
    assert len(answers.get(round_)) < len(answers.get(round_, numbers="all")) / 20
    for name in ("radius", "reports", "levels", "relation", "largest_influence"):
        assert few[name] == every[name]
    with pytest.raises(ArgumentError, match="numbers"):
        answers.get(round_, numbers="some")
    store.close()


@pytest.mark.slow
def test_a_read_asks_only_for_what_is_new(database):
    """However many processes stored something before, and in a new process, too."""
    round_ = mean_round(0, 10, epsilon=1, persons=10_000)
    store = Store(database)
    store.register([round_])
    with store.transaction() as link:  # as after so many restarts
        link.execute(sql.insert(WRITERS), [{"started": 0.0} for _ in range(40)])
    for _ in range(40):
        store.writer += 1
        store.write([Offer(reports_of(round_, 5))])
    assert store.tally(round_).reports == 200
    asked = Questions(store)
    assert store.tally(round_).reports == 200
    assert asked.since() == (3, 0)
    store.write([Offer(reports_of(round_, 5))])
    asked.since()
    assert store.tally(round_).reports == 205
    assert asked.since() == (5, 2)  # what is new, and that there is no more
    assert store.tallies.behind(round_)
    store.catch_up(round_)
    assert not store.tallies.behind(round_)
    fresh = Store(database)
    asked = Questions(fresh)
    assert fresh.tally(round_).to_bytes() == store.tally(round_).to_bytes()
    assert asked.since() == (4, 0)  # one more: the snapshot
    store.close()
    fresh.close()


def test_the_history_grows_with_the_reports_and_outlives_the_process(tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=10_000)
    wide = items_round(200, epsilon=1, persons=10_000)
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_, wide])
    keeper = Housekeeper(RoundCatalog(store), store, Retention(), Log())
    for n in (100, 1, 1, 50, 1000):
        store.write([Offer(reports_of(round_, n)), Offer(reports_of(wide, n))])
        keeper.fresh |= {round_.identifier, wide.identifier}
        for key in (round_.identifier, wide.identifier):
            keeper.sample(key)
        assert keeper.fresh == set()
    rows = store.book.history(round_.identifier)
    assert [row[0] for row in rows] == [100, 102, 152, 1152]  # each two per cent
    assert store.book.history(wide.identifier) == []
    last = json.loads(rows[-1][2])
    assert last["value"] == json.loads(Answers(store).get(round_))["value"]
    again = Housekeeper(RoundCatalog(store), store, Retention(), Log())
    again.sample(round_.identifier)
    assert store.book.history(round_.identifier) == rows
    store.close()


def test_the_test_of_millions_of_items_is_the_same():
    """The least tail is found without making all of them."""
    from scipy import special

    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 3000))
    values[0, :900] = np.nan
    values[:2, 900:1500] = np.nan
    variances = rng.uniform(0.5, 2, size=values.shape)
    found = cochran(values, variances, each=True)
    tails = []
    for theta, v in zip(values.T, variances.T, strict=True):
        known = ~np.isnan(theta)
        w = 1 / v[known]
        centre = (w * theta[known]).sum() / w.sum()
        tails.append(special.chdtrc(known.sum() - 1, (w * (theta[known] - centre) ** 2).sum()))
    assert found.p_value == pytest.approx(min(1.0, 3000 * min(tails)), rel=1e-9)
    assert (found.degrees, found.numbers) == (3, 3000)


def test_a_long_menu_is_listed_by_its_ends(tmp_path):
    """A ladder of thousands of levels is answered in bands, and refused in few words."""
    from privmean.collector.collector_app import _levels

    round_ = mean_round(0, 10, epsilon=[0.1, 4], persons=1000, step="0.001")
    assert _levels(round_) == ["0.1", "4"]
    assert _levels(mean_round(0, 10, epsilon=[0.5, 1, 2], persons=9)) == ["0.5", "1", "2"]
    store = Store(f"sqlite:///{tmp_path}/r.db")
    store.register([round_])
    store.write(
        [Offer(randomize_many(round_, np.full(400, 7.0), epsilon=np.linspace(0.1, 4, 400)))]
    )
    answers = Answers(store)
    assert len(json.loads(answers.get(round_))["levels"]) < 20
    with pytest.raises(ArgumentError) as caught:
        answers.get(round_, cap="0.00005")
    assert len(str(caught.value)) < 1000
    store.close()
