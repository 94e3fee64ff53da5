"""Copies as anybody makes them."""

from __future__ import annotations

import shutil
import time


def copied(source, target):
    """A copy that is born later, as clocks of file systems tell it."""
    time.sleep(0.05)
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
