"""The main jobs for pytest-benchmark: a group a job, with and without privacy.

    pytest benchmarks/bench_speed.py -o addopts="" [-k "file or array"]

`make bench` runs it (benchmarks/speed.py) and publishes the ratios. PRIVMEAN_BENCH_PART divides the
sizes.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from speed_cases import CASES, PLAIN, PRIVATE, Job


@pytest.fixture(scope="module", params=CASES)
def jobs(request: Any, tmp_path_factory: Any) -> tuple[str, tuple[Job, Job]]:
    name = request.param
    size = CASES[name].size_of(int(os.environ.get("PRIVMEAN_BENCH_PART", "1")))
    made = CASES[name].make(size, tmp_path_factory.mktemp(name))
    for job in made:
        job()  # imports, file cache, the first draw of noise
    return name, made


@pytest.mark.parametrize("part", [PRIVATE, PLAIN])
def test_speed(jobs: tuple[str, tuple[Job, Job]], part: str, benchmark: Any) -> None:
    name, (private, plain) = jobs
    benchmark.group = name
    benchmark.extra_info.update(case=name, part=part)
    benchmark(private if part == PRIVATE else plain)
