"""Two ways to draw the examples of Hypothesis.

`make test` draws the same ones each run; `make fuzz` (HYPOTHESIS_PROFILE=fuzz) draws fresh ones,
and keeps what failed in .hypothesis/ until it is written down as an `@example`. A test's own
`@settings` name neither `derandomize` nor `database`, or `make fuzz` could not explore it.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("test", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "fuzz", derandomize=False, deadline=None, max_examples=1000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))
