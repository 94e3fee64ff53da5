"""Releases at fixed seeds are what they were; golden_cases.py says how they are written again."""

from __future__ import annotations

import json

import pytest

from golden import golden_cases

STORED = json.loads(golden_cases.FILE.read_text())
RELEASES = STORED["releases"]
CASES = dict(golden_cases.cases())
SAME_MACHINE = STORED["platform"] == golden_cases.platform()


def test_the_file_holds_the_releases_that_are_made():
    assert list(RELEASES) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_what_it_was(name):
    found, before = golden_cases.kept(CASES[name]), RELEASES[name]
    bits, bits_before = found.pop("bits", None), before.pop("bits", None)
    assert found == before
    assert bits == bits_before or not SAME_MACHINE
