"""Levels of joint intervals, and design effects."""

from __future__ import annotations

import pytest

from privmean.errors import ArgumentError
from privmean.inference.interval import grouped_design_effect
from privmean.inference.row_intervals import sidak_level


def test_sidak_level():
    assert sidak_level(0.95, 1) == pytest.approx(0.95)
    assert sidak_level(0.95, 4) ** 4 == pytest.approx(0.95)
    assert sidak_level(0.95, 50) > 1 - 0.05 / 40


def test_public_design_effects():
    assert grouped_design_effect([1] * 10, 0.7) == 1
    assert grouped_design_effect([50] * 100, 0.05) == pytest.approx(3.45)
    for bad in (1.2, -0.1):
        with pytest.raises(ArgumentError):
            grouped_design_effect([5, 5], bad)
    with pytest.raises(ArgumentError):
        grouped_design_effect([], 0.5)
