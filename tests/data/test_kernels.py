"""Passes in parallel: slices cover all rows, and a forked process has threads of its own."""

import multiprocessing
import os

import pytest

from privmean.data import array_kernels as kernels


def slices(rows):
    return kernels.in_parallel(lambda start, stop: (start, stop, os.getpid()), rows)


@pytest.fixture
def processors(monkeypatch):
    monkeypatch.setattr(kernels, "_processors", lambda: 4)


@pytest.mark.parametrize("rows", [0, 1, kernels.PARALLEL - 1, kernels.PARALLEL, 10**6 + 1, 10**7])
def test_slices_cover_all_rows_from_the_start_of_a_chunk(processors, rows):
    found = slices(rows)
    assert [start for start, _, _ in found] == [0, *(stop for _, stop, _ in found[:-1])]
    assert found[-1][1] == rows
    assert all(start % kernels.CHUNK == 0 for start, _, _ in found)
    assert len(found) == (1 if rows < kernels.PARALLEL else min(4, rows // (kernels.PARALLEL // 2)))


def test_an_error_in_a_thread_is_raised(processors):
    def task(start, stop):
        if start:
            raise MemoryError
        return stop

    with pytest.raises(MemoryError):
        kernels.in_parallel(task, 10**7)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_works_on_with_threads_of_its_own(processors):
    before = slices(10**7)
    assert len(before) == 4
    assert {process for _, _, process in before} == {os.getpid()}
    with multiprocessing.get_context("fork").Pool(1) as pool:
        after = pool.apply_async(slices, (10**7,)).get(timeout=20)
    assert [item[:2] for item in after] == [item[:2] for item in before]
    assert len({process for _, _, process in after} | {os.getpid()}) == 2
