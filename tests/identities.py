"""The identity of a file by its name."""

from __future__ import annotations

import os

from privmean.identity import Identity


def identity_of(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        return Identity.of(handle)
    finally:
        os.close(handle)
