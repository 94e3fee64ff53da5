"""The command withhold: what its JSON says is what the events are."""

from __future__ import annotations

import json

import numpy as np

from privmean.continual import sources
from shell import shell


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
