"""Forks: two processes never use the same noise, nor one stream."""

import copy
import json
import os
import pickle

import numpy as np
import pytest

from forked_process import forked
from privmean.errors import PrivmeanError
from privmean.mechanisms.row_sums import BLOCK, DrawAhead
from privmean.noise.noise_source import ExactNoise
from privmean.streams import MeanStream, WithholdRelease
from privmean.streams.strategies import Buffered

MEAN = {
    "epsilon": 1.0, "delta": 1e-6, "max_participations": 5, "min_separation": 1,
    "bounds": (0.0, 10.0), "strategy": Buffered((0.25, 0.07), (0.6, 0.96)), "design_steps": 100,
}  # fmt: skip
WITHHOLD = {"max_records": 4, "bounds": (0.0, 1.0), "epsilon": 1.0, "delta": 1e-6}


def in_fork(work):
    """What `work` returns in a forked process (plain data)."""
    ends = os.pipe()

    def child():
        os.write(ends[1], json.dumps(work()).encode())
        os.close(ends[1])

    with forked(child):
        os.close(ends[1])
        data = b""
        while part := os.read(ends[0], 1 << 16):
            data += part
        os.close(ends[0])
    return json.loads(data)


def test_noise_drawn_ahead_is_not_used_by_two_processes():
    ahead = DrawAhead(ExactNoise(), 2.0**40)
    ahead.draw(3)
    assert len(ahead._ready) == BLOCK - 3  # there is something to share
    theirs = [in_fork(lambda: ahead.draw(20).tolist()) for _ in range(2)]
    ours = [ahead.draw(20).tolist() for _ in range(2)]
    everything = [draw for part in theirs + ours for draw in part]
    assert len(set(everything)) == 80  # equal by chance: below 1e-8


def test_a_fork_of_a_fork_draws_its_own():
    ahead = DrawAhead(ExactNoise(), 2.0**40)
    ahead.draw(3)

    def middle():
        mine = ahead.draw(5).tolist()
        return [*mine, *in_fork(lambda: ahead.draw(5).tolist()), *ahead.draw(5).tolist()]

    everything = [*in_fork(middle), *ahead.draw(5).tolist()]
    assert len(set(everything)) == 20


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))]
)
def test_a_copy_draws_its_own(copied):
    ahead = DrawAhead(ExactNoise(), 2.0**40)
    ahead.draw(3)
    other = copied(ahead)
    everything = [*ahead.draw(20).tolist(), *other.draw(20).tolist()]
    assert len(set(everything)) == 40  # equal by chance: below 1e-9


def test_draws_are_handed_out_once_in_order_and_none_is_lost():
    class Counting(ExactNoise):
        def __init__(self):
            self.drawn = []

        def gaussian(self, size, scale):
            self.drawn.append(super().gaussian(size, scale))
            return self.drawn[-1]

    noise = Counting()
    ahead = DrawAhead(noise, 2.0**40)
    taken = np.concatenate([ahead.draw(5000), ahead.draw(3000), ahead.draw(300), ahead.draw(1)])
    assert np.array_equal(taken, np.concatenate(noise.drawn)[: len(taken)])
    assert len(ahead.draw(BLOCK)) == BLOCK  # at once: what is ready stays
    assert np.array_equal(ahead.draw(10), np.concatenate(noise.drawn[:2])[8301:8311])


def test_samplers_and_entropy_start_anew_in_a_fork():
    from fractions import Fraction

    noise = ExactNoise()

    def best():
        """Four of 1024 equal scores: the places of the best are uniform."""
        scores = np.zeros(1024, dtype=np.int64)
        return [noise.argmax(scores, Fraction(1)) for _ in range(4)]

    def draws():
        return [
            *noise.gaussian(4, 2.0**40).tolist(),
            *noise.laplace(4, Fraction(2**40)).tolist(),
            *noise.gaussian(1000, 2.0**40)[:4].tolist(),
            *noise.laplace(1000, Fraction(2**40))[:4].tolist(),
            *(noise.bits64(4) >> np.uint64(1)).tolist(),
            *noise.below(4, 2**60).tolist(),
            tuple(best()),
        ]

    draws()
    everything = [*in_fork(draws), *in_fork(draws), *json.loads(json.dumps(draws()))]
    assert len({str(draw) for draw in everything}) == 3 * 25


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("kind", ["mean", "withhold"])
def test_a_stream_belongs_to_the_process_that_made_it(tmp_path, kept, kind):
    make = {
        "mean": lambda **how: MeanStream(**MEAN, **how),
        "withhold": lambda **how: WithholdRelease(**WITHHOLD, **how),
    }[kind]
    how = {"state": tmp_path / "s"} if kept else {}
    stream = make(**how)
    stream.update("a", 0.5)

    def child():
        with pytest.raises(PrivmeanError, match="fork"):
            stream.update("b", 0.5)
        if kind == "mean":
            with pytest.raises(PrivmeanError, match="fork"):
                stream.mark = {"read": 1}

    with forked(child):
        pass
    assert stream.arrivals == 1
    assert len(stream.update("b", 0.5)) == 1
    stream.close()
    if kept:
        with_two = make(**how)
        assert with_two.arrivals == 2
        with_two.close()
