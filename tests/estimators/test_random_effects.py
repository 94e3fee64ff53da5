"""Random effects of public groups: radius, design effect and the interval it gives."""

import math

import numpy as np
import pytest

import privmean as pm
from privmean.errors import ArgumentError
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_mean, assert_rate_at_least


def draw(rng, sizes, effects):
    group = np.repeat(rng.normal(0, effects.group_sd, len(sizes)), sizes)
    own = rng.normal(0, effects.person_sd, sum(sizes))
    error = rng.normal(0, effects.within_sd / math.sqrt(effects.records), sum(sizes))
    return 10 + group + own + error


def test_the_radius_is_that_of_one_person():
    effects = pm.RandomEffects(0.5, 1.0, 10, (100,) * 20)
    assert effects.sd**2 == pytest.approx(0.35)
    n, gamma = 2000, 0.05
    tau = effects.radius(n, 1, gamma).tau[0]
    assert tau == pytest.approx(math.sqrt(2 * 0.35 * math.log(2 * n / gamma)))
    # the joint log-Sobolev constant over T that the paper uses for the radius is 25.1
    joint = (0.25 * 100 * 10 + 1) / 10
    assert joint == pytest.approx(25.1)
    assert math.sqrt(joint / 0.35) == pytest.approx(8.47, abs=0.01)


def test_the_design_effect_is_the_variance_of_the_mean():
    sizes = (1, 5, 20, 3, 11) * 4
    effects = pm.RandomEffects(0.7, 1.0, 4, sizes, person_sd=0.2)
    n = sum(sizes)
    exact = 0.49 * sum(s**2 for s in sizes) / n**2 + (0.04 + 0.25) / n
    assert effects.design_effect * effects.sd**2 / n == pytest.approx(exact)
    rng = np.random.default_rng(0)
    samples = [draw(rng, sizes, effects) for _ in range(3000)]
    assert_mean([(x.mean() - 10) ** 2 for x in samples], exact)
    # and the factor of the interval turns the sample variance into it
    assert_mean([effects.interval_factor * x.var() / n for x in samples], exact)


@pytest.mark.slow
def test_coverage_needs_the_design_effect():
    sizes = (40,) * 50
    effects = pm.RandomEffects(0.5, 1.0, 10, sizes)
    rng = np.random.default_rng(1)
    hits = naive = 0
    for seed in range(150):
        values = draw(rng, sizes, effects)
        release = pm.mean(
            values, clustering=effects, epsilon=1.0, delta=1e-6, noise=SimulatedNoise(seed)
        )
        low, high = release.interval().lower[0], release.interval().upper[0]
        hits += low < 10 < high
        plain = pm.mean(
            values, epsilon=1.0, delta=1e-6, concentration=pm.SubGaussian(sd=effects.sd),
            noise=SimulatedNoise(seed),
        ).interval()  # fmt: skip
        naive += plain.lower[0] < 10 < plain.upper[0]
    assert_rate_at_least(hits, 150, 0.93)
    assert naive < 120
    assert release.diagnostics["design_effect"] == pytest.approx(effects.design_effect)
    assert "design effect" in release.details()
    release.guarantee.require()


def test_one_group_is_said_to_be_too_few():
    effects = pm.RandomEffects(0.5, 1.0, 10, (500,))
    assert "too few" in effects.words
    assert effects.design_effect == pytest.approx(1 + 499 * effects.icc)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"clustering": pm.SubGaussian(sd=1)}, "clustering"),
        ({"clustering": pm.RandomEffects(1, 1, 1, (3, 4))}, "group_sizes"),
        ({"clustering": pm.RandomEffects(1, 1, 1, group="g")}, "source"),
        ({"bounds": (0, 1)}, "clustering"),
        ({"neighbors": "add-remove"}, "neighbors"),
    ],
)
def test_arguments_are_checked(arguments, name):
    kept = {"clustering": pm.RandomEffects(1, 1, 1, (3, 5)), **arguments}
    with pytest.raises(ArgumentError) as caught:
        pm.mean(np.zeros(8), epsilon=1.0, **kept)
    assert caught.value.argument == name


@pytest.mark.parametrize("sizes", [(), (0,), (1.5,)])
def test_sizes_are_checked(sizes):
    with pytest.raises(ArgumentError):
        pm.RandomEffects(1, 1, 1, sizes)
