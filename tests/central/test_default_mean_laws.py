"""What the default mean does over many releases: stage-wise privacy audits, accuracy, coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import statistics_kit
from privmean.central.default_mean import DefaultMean
from privmean.central.find_region import histogram
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import LOG_BINS, LOG_ZERO
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned


def people(x):
    return ArrayPersonTable(np.asarray(x, float)[:, None], ("value",))


class Half(SimulatedNoise):
    """A broken twin: half of the Laplace scale that was asked for."""

    def laplace(self, size, scale):
        return super().laplace(size, Fraction(scale) / 2)


def histogram_hits(x, event, noise, relation, epsilon, runs):
    data, hits = people(x), 0
    for _ in range(runs):
        moved = 2 if relation == REPLACE_ONE else 1
        cells = NoisyCounts.at("tails", epsilon, relation, moved, moved)
        seen = histogram(TrustedCurator(data, noise), 0, 0.0, cells)
        hits += event(seen)
    return hits


def test_histogram_stage_stays_below_its_own_epsilon_and_a_twin_does_not():
    epsilon, runs, n = Fraction(2), 12_000, 30
    one = np.zeros(n)
    other = np.append(np.zeros(n - 1), 1e9)
    cell = 80 + 59  # 2^29.5 <= 1e9 < 2^30

    def event(seen):
        return seen.zero >= n and seen.positive[cell] <= 0

    bounds = {}
    for name, source in (("right", SimulatedNoise), ("twin", Half)):
        hits = [
            histogram_hits(x, event, source(seed), REPLACE_ONE, epsilon, runs)
            for seed, x in enumerate((one, other))
        ]
        bounds[name] = statistics_kit.epsilon_lower_bound(*hits, runs)
    assert people(other).log_counts(0, 0.0)[cell] == 1
    assert people(one).log_counts(0, 0.0)[LOG_ZERO] == n
    assert bounds["right"] < float(epsilon)
    assert bounds["right"] > 0.8 * float(epsilon)  # the audit can see
    assert bounds["twin"] > float(epsilon)


def test_add_remove_histogram_stage():
    epsilon, runs = Fraction(2), 12_000
    fewer, more = np.full(20, 3.0), np.full(21, 3.0)
    cell = int(np.flatnonzero(people(more).log_counts(0, 0.0))[0])
    assert cell < LOG_BINS

    def event(seen):
        return seen.positive[cell] >= 21

    for source, caught in ((SimulatedNoise, False), (Half, True)):
        hits = [
            histogram_hits(x, event, source(seed), ADD_REMOVE, epsilon, runs)
            for seed, x in enumerate((more, fewer))
        ]
        assert (statistics_kit.epsilon_lower_bound(*hits, runs) > float(epsilon)) == caught


def test_last_stage_stays_below_its_own_epsilon_and_a_twin_does_not():
    epsilon, runs = Fraction(2), 12_000
    box = ClipInterval(-1.0, 1.0)
    neighbours = [
        people(np.append(np.zeros(9), value)).interval_sums([box])[0] for value in (1, -1)
    ]
    for source, caught in ((SimulatedNoise, False), (Half, True)):
        hits = []
        for seed, sums in enumerate(neighbours):
            noise = source(seed)
            last = ClippedSums("sums", REPLACE_ONE, epsilon=epsilon).over([box])
            exact = last.exact([sums])
            values = [last.draw(exact, noise)[0].value for _ in range(runs)]
            hits.append(int(np.sum(np.array(values) >= 1)))
        bound = statistics_kit.epsilon_lower_bound(*hits, runs)
        assert (bound > float(epsilon)) == caught
        assert bound > 0.8 * float(epsilon)


def test_whole_path_stays_below_epsilon():
    # half the persons decide whether anything is found: the outcome itself is an output
    epsilon, runs, n = 0.75, 2000, 200
    x = np.where(np.arange(n) < 100, 1.0, 1e6)
    y = x.copy()
    y[0] = -1e9
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), persons=n)
    found = []
    for seed, data in enumerate((people(x), people(y))):
        noise = SimulatedNoise(seed)
        found.append([plan.release(data, noise).estimate[0] for _ in range(runs)])
    a, b = (np.array(item) for item in found)
    for cut in (np.nanmedian(a), np.nanmedian(b), 1e5, 4e5):
        for first, second in ((a, b), (b, a)):
            high, other = int(np.sum(first > cut)), int(np.sum(second > cut))
            assert statistics_kit.epsilon_lower_bound(high, other, runs) < epsilon


def releases(draw, n, epsilon, runs, target=None, seed=0, **plan):
    g = np.random.default_rng(seed)
    made = planned(DefaultMean(target=target), Budget(epsilon=epsilon), persons=n, **plan)
    return [made.release(people(draw(g, n)), SimulatedNoise(g)) for _ in range(runs)]


def total_error(draw, truth, sd, n, epsilon, runs, **settings):
    found = releases(draw, n, epsilon, runs, **settings)
    errors = np.array([item.estimate[0] for item in found]) - truth
    return math.sqrt(np.mean(errors**2)) / (sd / math.sqrt(n)), errors


def test_total_error_is_near_the_sampling_error():
    runs = 300
    slack = 1 + 5 / math.sqrt(2 * runs)  # five deviations of a root mean square
    cases = (
        (lambda g, n: g.normal(0, 1, n), 0.0, 1.0, 4000, 1.0, 1.08),
        (lambda g, n: g.normal(100, 1, n), 100.0, 1.0, 4000, 1.0, 1.10),
        (lambda g, n: g.normal(1e6, 1, n), 1e6, 1.0, 4000, 1.0, 1.15),
        (lambda g, n: (g.random(n) < 0.3) * 1.0, 0.3, math.sqrt(0.21), 4000, 1.0, 1.06),
        (lambda g, n: g.normal(0, 1, n), 0.0, 1.0, 4000, 0.5, 1.35),
    )
    for draw, truth, sd, n, epsilon, expected in cases:
        ratio, errors = total_error(draw, truth, sd, n, epsilon, runs)
        assert ratio < expected * slack, (truth, epsilon, ratio)
        assert np.abs(errors).max() < 12 * sd / math.sqrt(n)


def test_privacy_error_falls_like_one_over_persons():
    """Noise-only error of fixed data: halved twice when persons grow fourfold."""
    ratios = []
    for n in (4000, 16000):
        x = np.sort(np.random.default_rng(3).normal(size=n))
        plan = planned(DefaultMean(target="clipped"), Budget(epsilon=1.0), persons=n)
        noise = SimulatedNoise(1)
        data = people(x)
        errors = [float(plan.release(data, noise)) - x.mean() for _ in range(300)]
        ratios.append(math.sqrt(np.mean(np.square(errors))))
    slope = math.log(ratios[1] / ratios[0]) / math.log(4)
    assert -1.35 < slope < -0.75


def test_default_beats_the_symmetric_wide_region_on_the_estimate():
    draw = lambda g, n: g.normal(0, 1, n)  # noqa: E731

    def noise(target):
        found = [item.noise_interval(0.95) for item in releases(draw, 2000, 0.6, 80, target)]
        return float(np.median([item.upper[0] - item.lower[0] for item in found]))

    assert noise(None) < 0.8 * noise("mean")


def coverage(draw, truth, n, epsilon, runs, target, **plan):
    found = releases(draw, n, epsilon, runs, target=target, **plan)
    hits = 0
    for item in found:
        interval = item.interval(0.95)
        hits += interval.lower[0] <= truth <= interval.upper[0]
    return hits


def test_intervals_cover_the_mean_end_to_end_where_the_assumption_holds():
    normal = lambda g, n: g.normal(7, 1, n)  # noqa: E731
    skewed = lambda g, n: np.exp(g.normal(size=n))  # noqa: E731
    zeros = lambda g, n: np.where(g.random(n) < 0.5, 0.0, np.exp(g.normal(size=n)))  # noqa: E731
    cases = (
        (normal, 7.0, None, REPLACE_ONE, 150),
        (skewed, math.exp(0.5), None, REPLACE_ONE, 150),
        (zeros, math.exp(0.5) / 2, None, REPLACE_ONE, 150),
        (skewed, math.exp(0.5), "mean", REPLACE_ONE, 150),
        (normal, 7.0, None, ADD_REMOVE, 60),
    )
    for draw, truth, target, relation, runs in cases:
        hits = coverage(draw, truth, 3000, 1.0, runs, target, relation=relation)
        statistics_kit.assert_rate_at_least(hits, runs, 0.93)


def test_a_clipped_interval_sold_for_the_mean_misses():
    runs = 200
    draw = lambda g, n: (1 - g.random(n)) ** (-1 / 1.6)  # noqa: E731
    truth = 1.6 / 0.6
    found = releases(draw, 3000, 1.0, runs, target="clipped")
    misses = 0
    for item in found:
        interval = item.interval(0.95)
        assert interval.target == "clipped mean"
        misses += not interval.lower[0] <= truth <= interval.upper[0]
    assert misses > 0.3 * runs


def test_a_heavy_tail_that_is_seen_is_named():
    runs = 100
    draw = lambda g, n: np.where(g.random(n) < 0.02, 40 * g.random(n) ** -0.8, g.normal(size=n))  # noqa: E731
    found = releases(draw, 4000, 1.0, runs)
    seen = ("extreme_outliers", "outliers_clipped", "modified_target")
    named = [item.interval().status in seen for item in found]
    assert np.mean(named) > 0.9
    # nobody is there: false alarms of the count far out, 0.5 exp(-1.3), and of the other, 0.05
    quiet = releases(lambda g, n: g.normal(size=n), 4000, 1.0, runs)
    statistics_kit.assert_rate_at_most(
        sum(item.interval().status != "ok" for item in quiet), runs, 0.19
    )


def test_runaways_stay_bounded():
    """Width over its own median is never above 128 (probability below 1e-3 a release)."""
    g = np.random.default_rng(5)
    data = people(np.exp(1.2 * g.normal(size=4000)))
    plan = planned(DefaultMean(), Budget(epsilon=0.5), persons=4000)
    noise = SimulatedNoise(2)
    widths = []
    for _ in range(1000):
        limits = plan.release(data, noise).diagnostics["limits"]
        widths.append(limits[1] - limits[0])
    assert max(widths) < 128 * np.median(widths)
