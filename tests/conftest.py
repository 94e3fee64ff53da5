"""What holds for every test: one thread of linear algebra, and how examples are drawn.

Two workers with as many threads each as there are cores wait for each other: matrices here are
small, and a second thread costs as much time as it saves. Commands that tests start inherit it.

Hypothesis draws its examples in two ways.

`make test` draws the same ones each run; `make fuzz` (HYPOTHESIS_PROFILE=fuzz) draws fresh ones,
and keeps what failed in .hypothesis/ until it is written down as an `@example`. A test's own
`@settings` name neither `derandomize` nor `database`, or `make fuzz` could not explore it.

Fifteen thousand tests are collected before the first runs, and all of them live until the end: the
garbage collector need not look through them again and again.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Generator

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before NumPy is imported

# witnesses of the logs of a run, of commands that it starts, too; with a new run they are gone
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="privmean-witnesses-")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

settings.register_profile("test", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "fuzz", derandomize=False, deadline=None, max_examples=1000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # engines count what is left over when the interpreter ends
