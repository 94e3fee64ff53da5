"""The command withhold: what its JSON says is what the events are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli_runner import shell
from privmean.streams import record_sources as sources
from privmean.streams.strategies import Buffered
from privmean.streams.withhold_release import plan_levels

QUICK = Buffered((0.25, 0.07), (0.6, 0.96))


@pytest.mark.slow
def test_the_lines_of_withhold_are_means_of_what_is_not_withheld(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 12, 120).tolist()
    values = rng.uniform(0, 10, 120)
    path = tmp_path / "events.jsonl"
    path.write_text(
        "".join(json.dumps({"p": f"u{i}", "v": x}) + "\n" for i, x in zip(ids, values, strict=True))
    )
    arguments = [
        "withhold", "--person", "p", "--value", "v", "--bounds", "0:10", "--max-records", "16",
        "--epsilon", "100", "--delta", "1e-6", "--seed", "1",
    ]  # fmt: skip
    with path.open("rb") as file:
        monkeypatch.setattr(sources, "stdin", file.fileno)
        result = shell(*arguments)
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["arrivals"] for line in lines] == list(range(1, 121))
    taken, own, waiting = [], {}, 0
    for i, x, line in zip(ids, values, lines, strict=True):
        mine = own.setdefault(i, [])
        mine.append(x)
        count = len(mine)
        if count <= 16:
            waiting += 1
        if count <= 16 and count & (count - 1) == 0:
            block = mine[count // 2 :] if count > 1 else mine
            taken += block
            waiting -= len(block)
        assert line["records"] == len(taken)
        assert line["waiting"] == waiting
        estimate = line["estimate"][0]
        assert abs(estimate - np.mean(taken)) < 6 * line["noise_sd"]
        (low,), (high,) = line["noise_interval"]["lower"], line["noise_interval"]["upper"]
        assert low < estimate < high
    assert lines[-1]["secure"] is False


@pytest.mark.slow
def test_a_spread_that_few_persons_cannot_pay_for(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps({"p": f"u{i % 5}", "v": 2}) + "\n" for i in range(20)))
    arguments = [
        "withhold", "--person", "p", "--value", "v", "--bounds", "0:5", "--max-records", "4",
        "--epsilon", "1", "--delta", "1e-6", "--spread", "0.05",
    ]  # fmt: skip

    def withheld(*more):
        with path.open("rb") as file:
            monkeypatch.setattr(sources, "stdin", file.fileno)
            result = shell(*arguments, *more)
        assert result.exit_code == 0, result.stderr
        return len(result.stdout.splitlines()), " ".join(result.stderr.split())

    lines, said = withheld("--n", "5")
    assert lines == 20
    assert "3 of them use the public bounds, because 5 people are too few" in said
    lines, said = withheld()
    assert lines == 0
    assert "No release yet: of blocks of 1, 1, 2 records" in said
    needed = plan_levels(
        max_records=4, bounds=(0, 5), epsilon=1, delta=1e-6, sd=0.05, strategy=QUICK
    ).levels[0]
    assert f"needs {needed.averages:,} averages, at most one per person" in said
    assert "5 people have come" in said
    assert "give --n, or leave out --spread" in said
