"""A piece of a test in a forked process."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def fork(work: Callable[[], None]) -> int:
    """The process id of a fork that does the work and ends with status 0, or 1 if it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


@contextmanager
def forked(work: Callable[[], None]) -> Iterator[None]:
    """Meanwhile a fork does `work`, which must not raise."""
    child = fork(work)
    try:
        yield
    except BaseException:  # the fork may wait for what will not happen any more
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
