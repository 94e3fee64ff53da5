"""Releases at fixed seeds are what they were; compare.py says how they are stored again."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from golden import compare, golden_cases, golden_platform
from golden.compare import Rules, differences
from privmean.mechanisms.noisy_counts import NoisyCounts

CASES = {
    f"{group} | {name}": case
    for group, cases in golden_cases.GROUPS.items()
    for name, case in cases()
}
STORED = {
    f"{group} | {name}": kept
    for group in golden_cases.GROUPS
    for name, kept in compare.stored(group)["releases"].items()
}
SAME = compare.stored("subjects")["platform"] == golden_platform.platform()


def test_the_files_hold_the_releases_that_are_made():
    assert list(STORED) == list(CASES)


def tiered(name):
    """One group of releases at every push, the others with the slow tests."""
    return name if name.startswith("calls |") else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [tiered(name) for name in CASES])
def test_a_release_is_what_it_was(name):
    new = compare.as_stored(golden_cases.kept(CASES[name]))
    found = differences(STORED[name], new, compare.of_case(new, Rules(same_machine=SAME)))
    assert [str(item) for item in found] == []


def test_the_stored_releases_take_a_few_megabytes():
    assert sum(path.stat().st_size for path in compare.FOLDER.iterdir()) < 5e6


# --- what the comparison sees ---------------------------------------------------------------------

RELEASE = {
    "answers": [[3, 1.5], {"first": [1], "length": 90, "all": "ab12"}],
    "stated": {
        "estimate": [1.25],
        "persons": 600,
        "status": "tail seen",
        "advice": "give bounds of 1.2500000001 at least",
        "guarantee": {"mechanisms": [{"scale": "3/2", "name": "the look", "delta": 1e-6}]},
    },
    "text": "mean 1.25\n95% 1.10 to 1.40",
}
CHANGES = {  # (where, what it becomes, whether it is a text)
    "answer": (("answers", 0, 0), 4, False),
    "answer, last digit": (("answers", 0, 1), 1.5000000000000002, False),
    "long answer": (("answers", 1, "all"), "ab13", False),
    "account, last digit": (("stated", "guarantee", "mechanisms", 0, "delta"), 1.0000001e-6, False),
    "account, fraction": (("stated", "guarantee", "mechanisms", 0, "scale"), "5/2", False),
    "label": (("stated", "guarantee", "mechanisms", 0, "name"), "the search", True),
    "printed number": (("stated", "estimate", 0), 1.25000001, False),
    "whole number": (("stated", "persons"), 601, False),
    "status": (("stated", "status"), "ok", False),
    "words": (("stated", "advice"), "say bounds of 1.2500000001 at least", True),
    "number in words": (("stated", "advice"), "give bounds of 1.2501 at least", False),
    "number in a print": (("text",), "mean 1.25\n95% 1.10 to 1.41", False),
    "kind": (("stated", "persons"), None, False),
}


def changed(place, value):
    found = json.loads(json.dumps(RELEASE))
    inner = found
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_field_is_named(name):
    place, value, text = CHANGES[name]
    (found,) = differences(RELEASE, changed(place, value), Rules())
    assert found.text is text
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    assert found.path == words.removeprefix(".")
    ignored = list(differences(RELEASE, changed(place, value), Rules(texts=False)))
    assert ignored == ([] if text else [found])


def test_rounding_and_order_are_no_difference():
    near = changed(("stated", "estimate", 0), 1.25 * (1 + 1e-12))
    near["stated"] = dict(reversed(near["stated"].items()))
    near["stated"]["advice"] = "give bounds of 1.25 at least"
    assert list(differences(RELEASE, near, Rules())) == []


def test_a_field_that_comes_or_goes_is_named():
    new = changed(("stated", "persons"), 600)
    del new["stated"]["persons"]
    new["stated"]["n"] = 600
    found = [str(item) for item in differences(RELEASE, new, Rules())]
    assert found == ["stated.persons: 600 -> (missing)", "stated.n: (missing) -> 600"]


def test_another_machine_may_differ_in_last_digits_alone():
    elsewhere = Rules(same_machine=False)
    for name in ("answer", "answer, last digit", "long answer"):
        place, value, _ = CHANGES[name]
        assert list(differences(RELEASE, changed(place, value), elsewhere)) == []
    for name in ("account, last digit", "account, fraction", "printed number", "status"):
        place, value, _ = CHANGES[name]
        assert list(differences(RELEASE, changed(place, value), elsewhere))
    assert list(differences(RELEASE, changed(("answers", 0, 0), 6), elsewhere))


def test_noise_of_another_scale_is_a_difference(monkeypatch, capsys):
    """A twin: every count with a thousandth of its noise."""
    scale = NoisyCounts.draw

    def narrow(self, exact, noise):
        class Narrow:
            def __getattr__(self, name):
                return getattr(noise, name)

            def laplace(self, size, width):
                return noise.laplace(size, Fraction(width) / 1000)

        return scale(self, exact, Narrow())

    monkeypatch.setattr(NoisyCounts, "draw", narrow)
    assert compare.main(["--only", "gaps | mean, bounds"]) == 0  # asks no counts
    assert compare.main(["--only", "gaps | quantile", "--ignore-texts"]) == 1
    told = capsys.readouterr().out
    assert "tables | gaps | quantile\n    answers[2]" in told
    assert "1 releases: 1 differ in values" in told


def test_update_stores_what_is_made(monkeypatch, tmp_path, capsys):
    cases = {"one": lambda: {"text": "a"}, "two": lambda: {"text": "b"}}
    monkeypatch.setattr(golden_cases, "GROUPS", {"few": lambda: iter(cases.items())})
    monkeypatch.setattr(compare, "FOLDER", tmp_path / "few")
    assert compare.main([]) == 1
    assert compare.main(["--update"]) == 0
    assert compare.main([]) == 0
    cases["one"] = lambda: {"text": "c"}
    assert compare.main([]) == 1
    assert compare.main(["--ignore-texts"]) == 0
    del cases["two"]
    capsys.readouterr()
    assert compare.main(["--ignore-texts"]) == 1
    assert "few | two\n    : (stored) -> (missing)" in capsys.readouterr().out.replace('"', "")
