"""What a run of groups reads of people: sums over pairs wherever they stand, masses as persons."""

from dataclasses import fields, replace

import numpy as np
import pytest

from altered_noise import NoAddedNoise
from estimators.made_groups import pairs_of, plan_for
from privmean.data.array_table import ArrayPersonTable
from privmean.data.group_pairs import ArrayPairTable, GroupPairTable, GroupWeights
from privmean.data.person_table import ColumnCounts
from privmean.mechanisms.curator import TrustedCurator
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

BY_PLACE = ("part", "few", "pair_counts", "matrix")  # questions that part persons by their place


def asked_of(pairs, relation, epsilon=2.0):
    """Exact answers of a run, in the order of asking, and its outcome."""
    seen = []

    class Curator(TrustedCurator):
        def ask(self, mechanism, exact):
            plain = exact.distribution() if isinstance(exact, ColumnCounts) else exact
            seen.append((mechanism, [np.asarray(item).tolist() for item in plain]))
            return super().ask(mechanism, exact)

    plan = plan_for(pairs, epsilon, relation)
    return seen, plan.run(Curator(pairs, NoAddedNoise(1)))


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize(
    ("weights", "most", "spread"), [(GroupWeights(), 1, 0.0), (GroupWeights(2, True), 3, 0.0),
                                    (GroupWeights(), 1, 40.0)],
)  # fmt: skip
def test_no_answer_depends_on_where_a_pair_stands(relation, weights, most, spread):
    """Another person's pairs would shift all that follow it, and so whom a part of them holds."""
    pairs = pairs_of(3000, weights=weights, spread=spread, most=most, start=3)
    order = np.random.default_rng(5).permutation(len(pairs.group))
    named = {x: getattr(pairs, x)[order] for x in ("group", "weight", "mass")}
    values = tuple(item[order] for item in pairs.values)
    moved = replace(pairs, **named, values=values, _cache={})
    assert asked_of(pairs, relation)[0] == asked_of(moved, relation)[0]


def test_pairs_answer_no_question_that_parts_persons_by_place():
    offered = {name for name in dir(GroupPairTable) if not name.startswith("_")}
    offered |= {item.name for item in fields(ArrayPairTable)} | set(dir(ArrayPairTable))
    assert not offered & set(BY_PLACE)
    assert any(
        hasattr(ArrayPersonTable, name) for name in BY_PLACE
    )  # as people of one row a person do


@pytest.mark.parametrize("persons", [40, 90, 300, 1500, 8000])
def test_masses_are_read_as_persons(persons):
    """With 1024 parts a person, thresholds are in persons: as few are too few, and the same limits
    are found."""
    found = []
    for weights in (GroupWeights(), GroupWeights(1, True)):
        _, outcome = asked_of(pairs_of(persons, weights=weights, start=3), ADD_REMOVE)
        found.append((outcome.status, outcome.diagnostics.get("pooled limits")))
    few = found[0][0] == "failed"  # the number of people was bought apart, where they are split
    assert found[0] == found[1] or (few and found[1][0] == "failed")
    assert few == (persons * 2.0 < 200)
