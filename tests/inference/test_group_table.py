"""Rows, contrasts and ratios from released numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privmean.errors import ArgumentError
from privmean.inference.contrasts import contrast_lines, contrasts_of, ratio_line
from privmean.inference.group_table import GroupTable
from privmean.inference.laplace_normal import sum_quantile, sum_tail
from privmean.inference.status import LOW_PRECISION
from statistics_kit import assert_rate, bounded_quantile, combined


def table(estimate, sampling=0.1, scale=0.05, **more):
    groups = len(estimate)
    zero, never = np.zeros(groups), np.zeros(groups, dtype=bool)
    known = {
        "keys": tuple("abcdefgh"[:groups]), "estimate": np.array(estimate, float),
        "sampling": np.full(groups, sampling),
        "scales": np.full((groups, 3), scale) * [1.1, 0.2, 0.9],
        "normal": zero, "above": zero, "below": zero, "corrected": zero, "open_above": never,
        "open_below": never,
        "weight": np.full(groups, 100.0), "weight_sd": 2.0, "divisor": np.full(groups, 100.0),
        "cell": 1.0, "lower": zero - 9, "upper": zero + 9, "status": ("ok",) * groups,
    }  # fmt: skip
    return GroupTable(**known | more)


def test_texts_mean_one_comparison():
    keys = ("north", "south", "east - x", "x", "east", "rest of it")
    found = contrasts_of(
        ["north - south", "north / x", "south - rest", {"x": 0.5, "north": -1}], keys
    )
    assert [item.text for item in found] == [
        "north - south", "north / x", "south - rest", "0.5 x - 1 north",
    ]  # fmt: skip
    assert found[1].ratio
    assert len(contrasts_of(["all pairs", "north - south"], keys)) == 15
    assert len(contrasts_of(["each - rest", "each - overall"], keys)) == 12
    for wrong in (
        "north", "north - nobody", "north -south", "x - x", "all", 3, {"nobody": 1}, {"x": 0},
        "east - x - x - north", "x / rest",
    ):  # fmt: skip
        with pytest.raises(ArgumentError):
            contrasts_of([wrong], keys)
    # "a - b - c" is "a - b" less c, or a less "b - c": refused, since it could be either
    with pytest.raises(ArgumentError, match="two meanings"):
        contrasts_of(["a - b - c"], ("a", "b - c", "a - b", "c"))
    assert contrasts_of(["all pairs"], ("all pairs - b", "b"))[0].text == "all pairs - b - b"


def test_an_interval_covers_sampling_and_noise():
    rng = np.random.default_rng(1)
    t = table([0.0, 0.0, 0.0])
    weights = np.array([1.0, -1.0, 0.0])
    line = combined(t, weights, 0.9)
    draws = 40_000
    noise = sum(
        rng.laplace(0, s, draws) * w for w, row in zip(weights, t.scales, strict=True) for s in row
    )
    error = noise + 0.1 * math.sqrt(2) * rng.standard_normal(draws)
    assert_rate(int((np.abs(error) > line.upper).sum()), draws, 0.1)
    assert_rate(int((np.abs(noise) > line.noise_upper).sum()), draws, 0.1)
    assert line.std_error == pytest.approx(error.std(), rel=0.02)


def test_groups_that_share_persons_are_compared_in_the_worst_way():
    apart, shared = table([1.0, 2.0]), table([1.0, 2.0], clustering=True)
    weights = np.array([1.0, -1.0])
    wide, usual = combined(shared, weights, 0.95), combined(apart, weights, 0.95)
    assert wide.std_error**2 - usual.std_error**2 == pytest.approx(0.2**2 - 0.02)
    assert combined(shared, weights, 0.95, independent=True) == usual
    # errors of sampling that are exactly opposite are covered at the level
    tail = stats.norm.sf(wide.upper + 1, scale=0.2)
    assert tail < 0.025


def test_allowances_go_to_their_own_sides():
    above, below = np.array([0.3, 0.1]), np.array([0.0, 0.2])
    t, plain = table([1.0, 2.0], above=above, below=below), table([1.0, 2.0])
    for weights, up, down in (([1, 0], 0.3, 0.0), ([1, -1], 0.5, 0.1), ([-2, 0], 0.0, 0.6)):
        one, two = (
            combined(t, np.array(weights, float), 0.95),
            combined(plain, np.array(weights, float), 0.95),
        )
        assert (one.upper - one.estimate) - (one.estimate - one.lower) == pytest.approx(up - down)
        assert one.upper - one.lower < two.upper - two.lower + up + down
        assert combined(t, np.array(weights, float), 0.95, clipped=True) == two


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("scales", [[0.1], [0.05] * 6])
def test_a_bias_within_the_allowance_is_covered_at_the_level_and_no_more_at_its_ends(scales, level):
    """The exact chance of a miss, for every bias that the allowances leave room for."""
    for above, below in ((0.0, 0.0), (0.05, 0.01), (0.4, 0.1), (30.0, 0.0), (math.inf, 0.2)):
        room = above + below
        q = bounded_quantile(level, room, scales, 0.2)
        ends = [-below, above] if math.isfinite(above) else [-below]
        for bias in [*ends, *np.linspace(-below, min(above, 1.0), 7)]:
            # missed where the error passes what is left on one side
            missed = sum_tail(q + below + bias, scales, 0.2)
            if math.isfinite(above):
                missed += sum_tail(q + above - bias, scales, 0.2)
            assert missed <= 1 - level + 1e-8
            if bias in ends:
                assert missed == pytest.approx(1 - level, abs=1e-6)
        # twice what is left out on one side alone would be too long where there is room
        assert q <= sum_quantile((1 - level) / 2, scales, 0.2) * (1 + 1e-9)
        assert room == 0 or q < sum_quantile((1 - level) / 2, scales, 0.2)


def test_what_was_added_for_the_tail_is_no_part_of_a_clipped_mean():
    added = np.array([0.3, 0.0])
    t, plain = table([1.3, 2.0], corrected=added), table([1.0, 2.0])
    weights = np.array([1.0, -1.0])
    assert combined(t, weights, 0.95, clipped=True).lower == pytest.approx(
        combined(plain, weights, 0.95).lower
    )
    assert t.p_value(weights) == pytest.approx(plain.p_value(weights))
    assert t.noise_interval(0.95).lower == pytest.approx(plain.noise_interval(0.95).lower)


def test_an_open_side_stays_open():
    t = table([1.0, 2.0, 3.0], open_above=np.array([False, True, False]),
              status=("ok", "at_bound", "low_precision"))  # fmt: skip
    assert t.rows(0.95)[1].upper == math.inf
    assert combined(t, np.array([1.0, -1.0, 0.0]), 0.95).lower == -math.inf
    assert combined(t, np.array([1.0, -1.0, 0.0]), 0.95).status == "at_bound"
    rest = contrast_lines(t, contrasts_of(["a - rest"], t.keys), 0.95)[0]
    assert (rest.estimate, math.isfinite(rest.lower), rest.status) == (-2.0, True, "low_precision")
    assert contrast_lines(t, contrasts_of(["a - overall"], t.keys), 0.95)[0].estimate == -1.0


def test_a_row_without_an_estimate_has_no_numbers():
    t = table([math.nan, 2.0], status=("suppressed", "ok"))
    assert math.isnan(t.rows(0.95)[0].upper)
    for text in ("a - b", "a / b"):
        (item,) = contrasts_of([text], t.keys)
        line = contrast_lines(t, [item], 0.95)[0]
        assert (math.isnan(line.estimate), line.status) == (True, "suppressed")


def test_rows_hold_together_where_that_is_asked():
    rng = np.random.default_rng(2)
    t = table([0.0] * 6, simultaneous=True)
    ends = np.array([t.rows(0.9)[g].upper for g in range(6)])
    draws = 20_000
    noise = sum(rng.laplace(0, t.scales[0, i], (draws, 6)) for i in range(3))
    error = noise + 0.1 * rng.standard_normal((draws, 6))
    assert_rate(int((np.abs(error) <= ends).all(axis=1).sum()), draws, 0.9)
    # rows that are not shown, or open, are not counted
    fewer = replace(
        t, estimate=np.array([0.0, *[math.nan] * 4, 0.0]), open_below=np.eye(6, dtype=bool)[5]
    )
    assert fewer.rows(0.9)[0].upper == table([0.0]).rows(0.9)[0].upper


@pytest.mark.slow
def test_ratios_are_intervals_rays_or_everything():
    def ratio(a, b, **more):
        t = table([a, b], **more)
        return ratio_line(t, contrasts_of(["a / b"], t.keys)[0], 0.95)

    far = ratio(4.0, 2.0)
    assert far.status == "ok"
    assert far.lower < far.noise_lower < 2 < far.noise_upper < far.upper
    # for a denominator far from 0 the delta method is near
    t = table([4.0, 2.0])
    unit = combined(t, np.array([1.0, -2.0]), 0.95)
    assert far.upper - far.lower == pytest.approx((unit.upper - unit.lower) / 2, rel=0.1)
    # ends are where the sum's own interval ends at 0
    line = combined(t, np.array([1.0, -far.upper]), 0.95)
    assert line.upper == pytest.approx(0.0, abs=1e-6)
    rays = ratio(4.0, 0.1)
    assert rays.status == LOW_PRECISION
    assert (rays.lower, rays.upper) == (-math.inf, math.inf)
    assert ratio(0.0, 0.01).status == LOW_PRECISION
    assert ratio(-4.0, 2.0).upper < 0 < ratio(-4.0, -2.0).lower
    above = np.array([0.5, 0.0])
    assert ratio(4.0, 2.0, above=above).upper > far.upper + 0.2


@pytest.mark.slow
def test_the_set_of_a_ratio_is_where_sums_do_not_rule_out_zero():
    # so it covers as sums do, whatever its shape
    for x in ([1.0, 0.5], [0.2, 0.25], [0.1, -0.05], [-1.0, 0.3]):
        t = table(x)
        found = ratio_line(t, contrasts_of(["a / b"], t.keys)[0], 0.9)
        for r in (-30.0, -3.0, -0.5, 0.0, 0.7, 2.0, 5.0, 40.0):
            line = combined(t, np.array([1.0, -r]), 0.9)
            inside = found.lower <= r <= found.upper
            within = line.lower <= 0 <= line.upper
            # the whole line stands for two rays
            assert inside >= within if found.status == LOW_PRECISION else inside == within
