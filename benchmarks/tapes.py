"""Writes tapes of the audit as JSON that needs no privmean to be read.

    python benchmarks/tapes.py tapes/                     # one file per subject
    python clients/tape-checker/check.py tapes/*.json     # checks them; imports nothing of privmean

A tape holds one recorded run and its replays on neighbors: what each noise met, its law and scale,
the losses that are claimed, the account and the budget. Tables are the audit's own, made from a
seed: a tape of people would tell exact answers about them. docs/schemas/tape.schema.json says what
every field is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from privmean.auditing.call_list import CALLS, TERMS, CallCase, called
from privmean.auditing.calls import STRANGE, Called, edges, neighbour, seen
from privmean.auditing.findings import Findings
from privmean.auditing.fixed_noise import ADDITIVE, Draws, Fixed, Request
from privmean.auditing.measure_loss import CHOICES, accepted, measurable, same, step_of
from privmean.auditing.replay import (
    Answered,
    Compared,
    Parted,
    Replaying,
    Transcript,
    in_common,
    paid,
)
from privmean.mechanisms.choices import Exponential
from privmean.mechanisms.group_cells import KeyCells
from privmean.mechanisms.weighted_sums import JointSums
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.privacy_events import PrivacyEvent, Threshold
from privmean.privacy.profile_events import ThresholdOfSum

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from auditing.rows import (
    Case,
    Recorded,
    Recorder,
    Replayer,
    every_case,
    neighbours,
    planned,
)

FORMAT = "privmean:tape:2"
FEW = 8  # neighbors of a run


# --- runs -----------------------------------------------------------------------------------------


def tape_of_plan(case: Case, few: int = FEW, seed: int = 0) -> tuple[dict[str, Any], Findings]:
    """The tape of one case of the audit, and what the audit finds in the same runs."""
    plan, rows = planned(case, seed)
    found = Findings()
    recorded = Recorded.of(plan, rows, case.where, seed, found)
    near = neighbours(rows, case.relation, recorded.tape, seed)
    replays = []
    for _, item in zip(range(few), near, strict=False):
        recorded.replay(item, found)
        compared, difference = Compared(), ""
        replayer = Replayer(item.rows.people, recorded.tape, compared)
        try:
            outcome = plan.run(replayer)
            replayer.finish()
            if not same(outcome, recorded.outcome):
                difference = "the outcome is no function of the noisy answers"
        except Parted:
            pass
        replays.append((item.what, compared.difference or difference, compared.exact))
    curator = Recorder(
        rows.people, SimulatedNoise(seed), Transcript()
    )  # the same run, for its account
    plan.run(curator)
    answers, account = recorded.tape.answers, curator.events
    return written(case.where, case.said, case.relation, answers, account, replays), found


def tape_of_call(case: CallCase, few: int = FEW, seed: int = 0) -> tuple[dict[str, Any], Findings]:
    """The tape of a whole call: the account is that of the release."""
    made, found = called(case, seed), Findings()
    if not made.record(found):
        raise ValueError(made.shown["refused"])
    rng = np.random.default_rng(seed)
    numbers = [*STRANGE, *edges(made.tape)]
    replays = []
    for _ in range(few):
        other, what = neighbour(made.table, made.relation, numbers, rng)
        made.replay(other, what, found)
        replays.append((what, *_again(made, other)))
    account = made.made.guarantee.mechanisms
    return written(case.where, case.said, case.relation, made.tape.answers, account, replays), found


def _again(made: Called, other: Any) -> tuple[str, list[Any]]:
    """A replay of a call: what differed, and the exact answers."""
    compared = Compared()
    noise = Replaying(made.tape, compared)
    try:
        shown, _ = seen(made.ask, made.source(other), noise)
        noise.finish()
        if not compared.difference and shown != made.shown:
            compared.difference = "an outsider sees a difference"
    except Parted:
        pass
    return compared.difference, compared.exact


# --- as plain data --------------------------------------------------------------------------------


def written(
    subject: str,
    said: Iterable[tuple[str, float]],
    relation: str,
    answers: Sequence[Answered],
    account: Iterable[PrivacyEvent],
    replays: Iterable[tuple[str, str, Sequence[Any]]],
) -> dict[str, Any]:
    """The tape, ready for JSON."""
    words = dict(said)
    return {
        "format": FORMAT,
        "subject": subject,
        "budget": {
            "epsilon": words.get("epsilon"),
            "delta": words.get("delta", 0.0),
            "rho": words.get("rho"),
        },
        "relation": relation,
        "account": [_loss(line) for line in account],
        "answers": [_answer(item) for item in answers],
        "neighbors": [
            {
                "change": what,
                "difference": difference,
                "answers": [
                    {"answer": k, **_moved(item, exact)}
                    for k, (item, exact) in enumerate(zip(answers, exacts, strict=False))
                ],
            }
            for what, difference, exacts in replays
        ],
    }


def _loss(line: PrivacyEvent) -> dict[str, Any]:
    """The parameters of a claimed loss, without what follows from them."""
    made = line.to_dict()
    return {name: value for name, value in made.items() if name not in ("loss", "sensitivity_text")}


def _answer(item: Answered) -> dict[str, Any]:
    made: dict[str, Any] = {
        "mechanism": type(step_of(item.mechanism)).__name__,
        "branch": list(item.branch),
        "losses": [_loss(line) for line in item.mechanism.events],
        "draws": [_draw(request) for request in item.requests],
    }
    step: Any = step_of(item.mechanism)
    if isinstance(step, JointSums) and step.law == "k-norm":
        scale = str(step.pure_scales[0])
        made["vector"] = {"law": "k-norm", "dimension": step.dimension, "scale": scale}
    if isinstance(step, CHOICES) and measurable(step):
        gap, words = accepted(step)
        choices = getattr(step, "choices", 1)
        made["choice"] = {"gap": gap, "words": str(words), "choices": choices}
    border = _border(item)
    return made | ({"threshold": border} if border else {})


def _law(request: Request) -> dict[str, Any]:
    return {"law": request.law, "size": request.size, "scale": str(request.scale)}


def _draw(request: Request) -> dict[str, Any]:
    made = _law(request)
    if request.law == "argmax" or (request.law in ADDITIVE and request.met):
        made["operands"] = _packed(request.operands)
        made["sums"] = _packed(request.sums)
    return made


def _moved(item: Answered, exact: Any) -> dict[str, Any]:
    """What the noise meets on the neighbor, where it differs."""
    step: Any = step_of(item.mechanism)
    if isinstance(step, JointSums) and step.law == "k-norm":
        ours, theirs = ([*_whole(side[0]), int(side[1])] for side in (item.exact, exact))
        return {"vector": {"from": ours, "to": theirs}}
    if isinstance(step, Exponential):
        return {"choice": {"from": _whole(item.exact), "to": _whole(exact)}}
    if isinstance(step, CHOICES) and measurable(step):
        return {"choice": _by_change(*step.both_scores(item.exact, exact))}
    first: Sequence[Request] = item.requests
    more: dict[str, Any] = {}
    columns = step is not item.mechanism
    if isinstance(item.exact[0] if columns and item.exact else item.exact, Mapping):
        pairs = list(zip(item.exact, exact, strict=True)) if columns else [(item.exact, exact)]
        ours, exact = in_common(item.exact, exact, columns=columns)
        draws = Draws(SimulatedNoise(1))
        noisy = item.mechanism.draw(ours, draws)
        first = draws.requests
        more = {
            "alone": max(_alone(a, b) for a, b in pairs),
            "common": [_law(request) for request in first],
        }
        item = replace(item, exact=ours, noisy=noisy, requests=tuple(first))
    cost = paid(item, exact)
    if cost.trouble and not cost.requests:
        return {"difference": cost.trouble}
    if not cost.requests:
        return {"unmeasured": not same(item.exact, exact)}
    moves = [
        {"draw": j, "place": place, "count": count, "by": by}
        for j, (one, two) in enumerate(zip(first, cost.requests, strict=True))
        for place, count, by in _changes(one.operands, two.operands)
    ]
    return {"moves": moves, **more, **({"difference": cost.trouble} if cost.trouble else {})}


def _alone(one: Mapping[Any, Any], two: Mapping[Any, Any]) -> int:
    """Cells that only one side has something in: the most of either."""
    sides = ((one, two), (two, one))
    return max(sum(bool(a[key]) and not b.get(key) for key in a) for a, b in sides)


def _border(item: Answered) -> dict[str, Any] | None:
    """From how many steps of noise a cell of one person is shown: probed, by bisection."""
    step: Any = step_of(item.mechanism)
    for loss in item.mechanism.events:
        if isinstance(loss, ThresholdOfSum) and isinstance(step, KeyCells):
            alone: Any = {("\U0010ffff",): (step.unit, 0, 0)}
            answers, law = 3, "laplace"
        elif isinstance(loss, Threshold) and hasattr(step, "threshold"):
            alone, answers = {0: 1}, 1
        else:
            continue
        try:
            draws = Draws(Fixed())
            step.draw(alone, draws)
        except (TypeError, AttributeError):
            return None  # its answers are no cells
        if not draws.requests:
            return None
        law = draws.requests[-1].law
        low, high = 0, 2**62
        while low < high:
            middle = (low + high) // 2
            shown = step.draw(alone, Fixed(steps=middle))
            kept = shown not in (None, {}) and (answers == 1 or shown.keys() >= alone.keys())
            low, high = (low, middle) if kept else (middle + 1, high)
        return {
            "law": law, "scale": str(draws.requests[-1].scale), "noises": answers, "border": low,
            "cells": loss.cells, "delta": loss.delta,
        }  # fmt: skip
    return None


def _by_change(one: Any, two: Any) -> dict[str, Any]:
    """Scores of one candidate for each change, and how many candidates have that change."""
    _, first, count = np.unique(two - one, return_index=True, return_counts=True)
    return {"from": _whole(one[first]), "to": _whole(two[first]), "count": _whole(count)}


def _changes(one: Sequence[Any], two: Sequence[Any]) -> Iterator[tuple[int, int, int]]:
    """Runs of operands that are moved alike: the first place, how many, and by how much. An operand
    that only one side has meets nothing there: a comparison ended before it."""
    pairs = zip(one, two, strict=True)
    moved = [0 if None in pair else _plain(pair[1]) - _plain(pair[0]) for pair in pairs]
    place = 0
    for by, run in groupby(moved):
        count = sum(1 for _ in run)
        if by:
            yield place, count, by
        place += count


def _packed(values: Any) -> Any:
    """Whole numbers as they are, or as runs [value, count] where these are shorter."""
    items = _whole(values)
    runs = [[value, sum(1 for _ in run)] for value, run in groupby(items)]
    return {"runs": runs} if 4 * len(runs) < len(items) else items


def _whole(values: Any) -> list[Any]:
    return [_plain(item) for item in (values.tolist() if hasattr(values, "tolist") else values)]


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


# --- all of them ----------------------------------------------------------------------------------


def plans() -> Iterator[Case]:
    """Every subject with every budget and relation, at its first number of columns."""
    for case in every_case():
        if case.table == "normal" and case.dimension == case.of.dimensions[0]:
            yield case


def calls() -> Iterator[CallCase]:
    """Every question once, under the first terms that it takes."""
    for call in (call for call in CALLS if call.rows is None):
        for said, relation in TERMS:
            case = CallCase(call, said, relation, "normal")
            if called(case, 0).record(Findings()):
                yield case
                break


def main() -> int:
    options = argparse.ArgumentParser(description="Write tapes of the audit.")
    options.add_argument("folder", type=Path)
    options.add_argument("--neighbors", type=int, default=FEW)
    asked = options.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    made = [(tape_of_plan, case) for case in plans()] + [(tape_of_call, case) for case in calls()]
    size = 0
    for k, (write, case) in enumerate(made):
        tape, _ = write(case, asked.neighbors)  # type: ignore[operator]
        text = json.dumps(tape, separators=(",", ":"))
        (asked.folder / f"{k:04d}.json").write_text(text + "\n")
        size += len(text)
    print(f"{len(made)} tapes of {asked.neighbors} neighbors each, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
