"""MeanStream: what is enforced, what is released, what is promised."""

from fractions import Fraction

import numpy as np
import pytest
from continual_reference import BASE, Scripted, exact

from altered_noise import NoAddedNoise
from privmean.errors import ArgumentError, InfeasibleError, PrivmeanError
from privmean.mechanisms.private_location import RadiusSearch
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.privacy.compose import total_delta
from privmean.privacy.gdp import gaussian_delta
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger import Ledger
from privmean.streams import GroupMeanStream, MeanStream, WithholdRelease, plan
from privmean.streams.strategies import PrefixRoot


def stream(noise=None, **changes):
    settings = {**BASE, **changes}
    return MeanStream(noise=noise or NoAddedNoise(), **settings)


# --- the released mean ------------------------------------------------------------------------


def test_without_noise_it_is_the_running_mean():
    values = [3.0, 4.0, 8.0, 1.0]
    released = stream().extend("abcd", values)
    means = np.cumsum(values) / np.arange(1, 5)
    assert exact(released) == pytest.approx(means, abs=1e-4)
    assert [item.step for item in released] == [1, 2, 3, 4]
    assert [item.records for item in released] == [1, 2, 3, 4]


@pytest.mark.parametrize("changes", [{}, {"steps": 33}, {"period": "day", "n_per_period": 9}])
def test_groups_show_nothing_of_where_a_batch_ended(changes):
    """A reader of text ends a batch after so many bytes, which depend on values."""
    people = [f"u{i % 9}" for i in range(60)]
    more = {"times": [86400.0 * (i // 13) for i in range(60)]} if "period" in changes else {}
    seen = []
    for size in (1, 7, 60):
        running = GroupMeanStream(groups=3, noise=NoAddedNoise(), **{**BASE, **changes})
        released = []
        for at in range(0, 60, size):
            if running.finished:
                break
            part = slice(at, at + size)
            given = {name: times[part] for name, times in more.items()}
            groups = ["abc"[i % 3] if i < 50 else "late" for i in range(60)][part]
            released += running.extend(people[part], groups, [1.0] * len(groups), **given)
        shown = [item.to_dict() for item in released]
        seen.append((shown, running.arrivals, running.groups, list(running.releases()) == released))
    assert len(seen[0][0]) > 9
    assert seen[0] == seen[1] == seen[2]


def test_persons_wait_and_are_capped():
    running = stream(min_separation=3, max_participations=2)
    assert len(running.update("a", 1.0)) == 1
    assert running.update("a", 2.0) == []  # waits for two steps of others
    assert running.waiting == 1
    assert running.update("a", 3.0) == []  # third one: dropped
    assert running.waiting == 1
    assert len(running.update("b", 4.0)) == 1
    released = running.update("c", 5.0)
    assert [item.step for item in released] == [3, 4]  # c, then the waiting record of a
    assert exact(released)[-1] == pytest.approx((1 + 4 + 5 + 2) / 4, abs=1e-4)
    assert running.latest.records == 4


def test_fillers_let_time_go_on():
    running = stream(min_separation=4, filler=True)
    released = running.extend("aaaaa", [2.0, 4.0, 6.0, 8.0, 10.0])
    assert [item.step for item in released] == [1, 2, 3, 4, 5]
    assert [item.records for item in released] == [1, 1, 1, 1, 2]
    assert exact(released) == pytest.approx([2, 2, 2, 2, 3], abs=1e-4)
    # the noise of a filler step is real noise: the sums go on
    noisy = stream(Scripted(3), min_separation=4, filler=True)
    sds = [item.noise_sd for item in noisy.extend("aaaa", [1.0] * 4)]
    assert sds == sorted(sds)


def test_batches_are_one_step():
    running = stream(release_every=4, min_separation=1)
    released = running.extend("abcdabcd", [1, 2, 3, 4, 5, 6, 7, 8])
    assert [(item.step, item.arrivals, item.records) for item in released] == [(1, 4, 4), (2, 8, 8)]
    assert exact(released) == pytest.approx([2.5, 4.5], abs=1e-4)
    # a person is in a step once: the second record waits for the next one
    again = stream(release_every=4, min_separation=1).extend("aabb", [1.0, 9.0, 3.0, 5.0])
    assert [item.records for item in again] == [2, 4]
    assert exact(again) == pytest.approx([2.0, 4.5], abs=1e-4)


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        (None, 5.0),
        (float("nan"), 5.0),
        (float("inf"), 10.0),
        (float("-inf"), 0.0),
        ("not a number", 5.0),
        (10**400, 10.0),
        (-(10**400), 0.0),
        ([1.0, 2.0], 5.0),
        (1e150, 10.0),
        (-1e150, 0.0),
        (1e300, 10.0),
        ("7.5", 7.5),
        (True, 1.0),
    ],
)
def test_any_value_takes_its_step(value, mean):
    released = stream().update("a", value)
    assert len(released) == 1
    assert released[0].records == 1
    assert float(released[0]) == pytest.approx(mean, abs=1e-4)


def test_public_facts_never_depend_on_values():
    rng = np.random.default_rng(4)
    ids = rng.integers(0, 8, 120).tolist()
    hostile = [None, float("nan"), 1e308, -1e308, "x", [], float("-inf"), 10**5000]
    seen = []
    for values in (
        rng.normal(size=120).tolist(),
        [hostile[i % len(hostile)] for i in range(120)],
        [0.0] * 120,
    ):
        running = stream(Scripted(5), steps=100, filler=True)
        released = running.extend(ids, values)
        seen.append(
            [(r.step, r.arrivals, r.records, r.waiting, r.noise_sd, r.half_width) for r in released]
        )
        assert running.guarantee.verify()
    assert seen[0] == seen[1] == seen[2]


def test_rows_of_several_columns_are_clipped_to_a_ball():
    running = stream(bounds=None, clip_radius=5.0, center=[1.0, 1.0], dimension=2)
    released = running.extend("abc", [[1.0, 2.0], [31.0, 41.0], None])
    assert released[0].estimate == pytest.approx([1, 2], abs=1e-4)
    assert released[1].estimate * 2 == pytest.approx([1 + 4, 2 + 5], abs=1e-4)
    assert released[2].estimate * 3 == pytest.approx([1 + 4 + 1, 2 + 5 + 1], abs=1e-4)
    with pytest.raises(TypeError):
        float(released[0])
    assert "noise_radius" in released[0].to_dict()


def test_estimates_are_clamped_to_the_region():
    loud = stream(Scripted(6)).extend("abcdef", [5.0] * 6)
    free = stream(Scripted(6), clamp=False).extend("abcdef", [5.0] * 6)
    assert any(not 0 <= float(item) <= 10 for item in free)
    for a, b in zip(loud, free, strict=True):
        assert float(a) == pytest.approx(min(max(float(b), 0.0), 10.0), abs=1e-4)
        assert a.noise_sd == b.noise_sd  # a clamped estimate is not a precise one


def test_nothing_is_shown_too_early():
    running = stream(first_release=3)
    assert [item.step for item in running.extend("abcd", [1.0] * 4)] == [3, 4]
    assert stream(filler=True).extend([None, None], [1.0, 2.0]) == []
    running = stream(filler=True, release_every=2, max_participations=1)
    running.extend("aa", [4.0, 5.0])
    assert running.latest.records == 1


def test_missing_ids_do_not_count():
    running = stream()
    released = running.extend(["a", None, float("nan"), "b"], [1.0, 9.0, 9.0, 3.0])
    assert exact(released) == pytest.approx([1.0, 2.0], abs=1e-4)
    assert running.arrivals == 2
    # one person, however the id is written
    running = stream(max_participations=1)
    assert len(running.extend([5, 5.0, np.float64(5), "5", np.int64(5)], [1.0] * 5)) == 1


def test_the_horizon_ends_the_stream():
    running = stream(steps=3)
    assert len(running.extend("abcdef", [1.0] * 6)) == 3
    assert running.finished
    assert running.arrivals == 3
    with pytest.raises(InfeasibleError, match="horizon of 3 steps"):
        running.update("g", 1.0)


def test_what_may_raise_is_public():
    with pytest.raises(ArgumentError, match="values"):
        stream().extend("ab", [1.0])
    with pytest.raises(ArgumentError, match="rows of 1"):
        stream().extend("ab", np.ones((2, 3)))
    running = stream()
    running.close()
    assert running.update("a", 1.0)  # without a file there is nothing to close


# --- noise, bands and the bill ------------------------------------------------------------------


def test_zero_out_needs_half_the_noise():
    full, half = plan(**BASE), plan(**BASE, neighbors="zero-out")
    assert half.noise_sd(9) == pytest.approx(full.noise_sd(9) / 2, rel=1e-4)
    assert half.guarantee.neighbors == "zero-out"
    assert half.mechanism.loss.mu == pytest.approx(full.mechanism.loss.mu, rel=1e-6)


def test_noise_is_proportional_to_any_radius():
    for radius in (0.3, 1.0, 40.0, 1e-5, 123456.789):
        p = plan(**{**BASE, "bounds": None, "clip_radius": radius})
        assert p.ball().steps == 1 << p.lattice.row_bits
        expected = plan(**{**BASE, "bounds": None, "clip_radius": 1.0}).noise_sd(7) * radius
        assert p.noise_sd(7) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}, {"epsilon": 0.05, "delta": 1e-9}]
)
@pytest.mark.parametrize("bounds", [(0.0, 10.0), None])
def test_the_bill_composes_to_the_budget(budget, bounds):
    settings = {**BASE, "epsilon": None, "delta": 0.0, **budget, "bounds": bounds}
    p = plan(**settings)
    guarantee = p.guarantee
    assert guarantee.verify()
    assert Guarantee.from_dict(guarantee.to_dict()).verify()
    limit = Budget(**budget)
    spent = guarantee.spent()
    allowed = limit.epsilon if limit.rho is None else limit.rho
    assert 0.85 * allowed <= spent <= allowed * (1 + 1e-9)
    if bounds is not None and limit.rho is None:
        # independently: the analytic Gaussian of the ratio of sensitivity to scale
        loss = p.mechanism.loss
        delta = gaussian_delta(loss.sensitivity / loss.scale, limit.epsilon)
        assert delta == pytest.approx(limit.delta, rel=1e-4)
        assert total_delta(guarantee.mechanisms, limit.epsilon) <= limit.delta * (1 + 1e-12)
    assert "participation" not in guarantee.public
    assert "fixed public times" in guarantee.note


def test_bands():
    running = stream(Scripted(7), steps=20)
    released = running.extend(list(range(20)), [5.0] * 20)
    last = released[-1]
    assert last.half_width == pytest.approx(1.959964 * last.noise_sd)
    assert running.band(last) > last.half_width
    endless = stream(Scripted(7))
    later = endless.extend(list(range(20)), [5.0] * 20)[-1]
    assert endless.band(later, 0.99) > endless.band(later, 0.9) > later.half_width


# --- an unknown region ---------------------------------------------------------------------------


def test_the_radius_is_found_once_and_billed():
    running = stream(SimulatedNoise(9), bounds=None, search_persons=300, min_separation=1)
    assert running.region is None
    rng = np.random.default_rng(10)
    values = rng.normal(0, 20, 400)
    assert running.extend(list(range(299)), values[:299]) == []
    assert running.waiting == 299
    released = running.extend(list(range(299, 400)), values[299:])
    assert [item.step for item in released] == list(range(1, 401))
    assert 25 <= running.region.radius <= 90
    names = [loss.name for loss in running.guarantee.mechanisms]
    assert names == ["clipping radius", "noisy rows of the stream"]
    assert running.guarantee.verify()


def test_rows_after_the_radius_within_one_batch_are_clipped():
    one = stream(NoAddedNoise(), bounds=None, search_persons=40, min_separation=1)
    values = [1.0] * 40 + [1e9] * 3
    released = one.extend(list(range(43)), values)
    radius = one.region.radius
    assert float(released[-1]) == pytest.approx((40 * min(1, radius) + 3 * radius) / 43, rel=1e-3)


def test_radius_search_holds_nearly_all_and_ignores_dirt():
    search = RadiusSearch.priced(Fraction(1), 200)
    rows = np.array([[1.0]] * 198 + [[float("nan")]] + [[float("inf")]])
    found = [search.choose(rows, SimulatedNoise(seed)) for seed in range(40)]
    assert (min(found), np.median(found)) == (1.0, 1.0)
    assert max(found) <= 4
    assert search.choose(rows * 1e30, SimulatedNoise(0)) == 2.0**40
    assert search.choose(np.zeros_like(rows), SimulatedNoise(0)) == 2.0**-40
    g = np.random.default_rng(3)
    for seed in range(40):
        radius = search.choose(g.normal(0, 20, (200, 1)), SimulatedNoise(seed))
        assert 20 < radius < 400


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"delta": 0.0}, "delta"),
        ({"epsilon": None}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"max_participations": 0}, "max_participations"),
        ({"min_separation": 0.5}, "min_separation"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"bounds": (0.0, 1.0), "clip_radius": 1.0}, "bounds"),
        ({"bounds": (0.0, 1.0), "dimension": 2}, "bounds"),
        ({"bounds": None, "clip_radius": -1.0}, "clip_radius"),
        ({"bounds": None, "clip_radius": 1e300}, "clip_radius"),
        ({"bounds": None, "center": 3.0}, "center"),
        ({"bounds": None, "clip_radius": 1.0, "center": [1.0, 2.0]}, "center"),
        ({"neighbors": "add-remove"}, "neighbors"),
        ({"steps": 0}, "steps"),
        ({"release_every": 0}, "release_every"),
        ({"goal": "speed"}, "goal"),
        ({"level": 1.0}, "level"),
        ({"first_release": 0}, "first_release"),
    ],
)
def test_arguments(changes, argument):
    with pytest.raises(ArgumentError) as problem:
        stream(**changes)
    assert problem.value.argument == argument


MAKERS = {
    "streams.MeanStream()": lambda **wrong: MeanStream(**BASE, **wrong),
    "streams.MeanStream.from_plan()": lambda **wrong: MeanStream.from_plan(plan(**BASE), **wrong),
    "streams.MeanStream.resume()": lambda **wrong: MeanStream.resume("nowhere", **wrong),
    "streams.GroupMeanStream()": lambda **wrong: GroupMeanStream(groups=2, **BASE, **wrong),
    "streams.GroupMeanStream.from_plan()": lambda **wrong: GroupMeanStream.from_plan(
        plan(groups=2, **BASE), **wrong
    ),
    "streams.WithholdRelease()": lambda **wrong: WithholdRelease(
        epsilon=1, delta=1e-6, max_records=2, bounds=(0, 1), **wrong
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_an_unknown_argument_is_refused_with_the_name_of_what_was_called(maker):
    with pytest.raises(ArgumentError) as caught:
        MAKERS[maker](histroy=True)
    assert str(caught.value).startswith(f"{maker} has no argument 'histroy'.")


def test_endless_strategies_only_without_a_horizon():
    with pytest.raises(InfeasibleError):
        stream(strategy=PrefixRoot())
    assert stream(strategy=PrefixRoot(), steps=50).plan.lattice.taps
    chosen = plan(**{**BASE, "strategy": None})
    assert chosen.lattice.most_steps is None or chosen.lattice.most_steps == 2**32
    assert "least predicted error" in chosen.rationale


def test_a_failed_batch_closes_the_stream():
    class Broken(NoAddedNoise):
        def gaussian(self, size, scale):
            raise OSError("no entropy")

    running = stream(Broken())
    with pytest.raises(OSError, match="entropy"):
        running.update("a", 1.0)
    with pytest.raises(PrivmeanError, match="stopped within a batch"):
        running.update("b", 1.0)


NO_STREAM = {
    "noise": ["x", 1], "state": [7, b"x", "", "\ud800", "a\0b", []], "strategy": ["identity", 1],
    "goal": [np.array(["rmse", "final"])], "center": [np.ones(2)],
}  # fmt: skip


@pytest.mark.parametrize("name", NO_STREAM)
def test_what_makes_no_stream_is_refused_by_name(name):
    given = {"epsilon": 1, "delta": 1e-6, "max_participations": 2, "min_separation": 2}
    for wrong in NO_STREAM[name]:
        with pytest.raises(ArgumentError, match=name if name != "center" else "bounds"):
            MeanStream(**given, steps=8, bounds=(0, 1), **{name: wrong})
        if name in ("noise", "state"):
            with pytest.raises(ArgumentError, match=name):
                WithholdRelease(
                    epsilon=1, delta=1e-6, max_records=2, bounds=(0, 1), **{name: wrong}
                )


def test_what_is_no_list_of_events_is_refused_without_showing_it(tmp_path):
    given = {"epsilon": 1, "delta": 1e-6, "max_participations": 2, "min_separation": 2}
    stream = MeanStream(**given, steps=8, bounds=(0, 1))
    for ids, values in ((["a"], 0.123), (7, [0.5])):
        with pytest.raises(ArgumentError, match="is not a list") as refused:
            stream.extend(ids, values)
        assert "0.123" not in str(refused.value)
    for ledger in (None, 7, tmp_path / "none"):
        with pytest.raises(ArgumentError, match="ledger"):
            stream.charge(ledger)
    book = Ledger(tmp_path / "book", epsilon=1, delta=1e-6)
    stream.charge(tmp_path / "book", label="by its path")
    assert [entry.label for entry in book.entries] == ["by its path"]
    for wrong in (None, 5, True):
        with pytest.raises(ArgumentError, match="bounds"):
            WithholdRelease(epsilon=1, delta=1e-6, max_records=2, bounds=wrong)


def test_a_first_release_beyond_the_last_step_is_refused(tmp_path):
    """Else the whole budget goes into a stream that never shows anything."""
    how = {
        "epsilon": 1, "delta": 1e-6, "max_participations": 1, "min_separation": 1, "bounds": (0, 1),
        "steps": 8,
    }  # fmt: skip
    for make in (MeanStream, lambda **more: GroupMeanStream(groups=2, **more)):
        with pytest.raises(ArgumentError, match="first_release=9: must lie within the 8 steps"):
            make(**how, first_release=9, state=tmp_path / "s")
        assert not (tmp_path / "s").exists()
    MeanStream(**how, first_release=8, state=tmp_path / "s").close()
    for _ in range(2):  # the refused one has let go of the state
        with pytest.raises(ArgumentError, match="first_release"):
            MeanStream.resume(tmp_path / "s", first_release=9)
