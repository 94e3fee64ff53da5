"""Compares golden releases with those that are made now, field by field.

    python tests/golden/compare.py                        # exit 1 if anything differs
    python tests/golden/compare.py --update               # stores what is made now
    python tests/golden/compare.py --only 'tables |'      # cases whose name holds this text
    python tests/golden/compare.py --ignore-texts         # words may change, numbers may not

Noisy answers and accounts are compared bit for bit, other floats to 1e-9, words exactly but in a
list of their own. Numbers inside words are compared as numbers. Codes (statuses, kinds) are values,
not words: `--ignore-texts` does not ignore them.

The last digits of logarithms and sums depend on the processor. On another machine than the one that
the releases were stored on, all floats are compared to 1e-9 and whole numbers to two steps, and
digests of long arrays are left out; of `unsteady` cases (an optimizer) the fields and words.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is imported

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from golden import golden_cases, golden_platform  # noqa: E402

FOLDER = Path(__file__).resolve().parent / "releases"
FRACTION = re.compile(r"-?\d+/\d+")
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
EXACT_PLACES = ("answers", "guarantee", "budget", "account")  # parts that hold bit for bit
# fields whose text is a code or an identifier, not words
CODES = {
    "status", "statuses", "kind", "mechanism", "relation", "target", "law", "columns", "term",
    "group", "unit", "name", "refused", "all", "first", "column",
}  # fmt: skip
WORDY = {"name": ("guarantee", "budget")}  # labels of the account's lines are words
NEAR, STEPS = 1e-9, 2
MISSING = "(missing)"


@dataclass(frozen=True)
class Difference:
    """One field that is not what it was; text: it differs in words alone."""

    path: str
    old: Any
    new: Any
    text: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.old)} -> {_short(self.new)}"


@dataclass(frozen=True)
class Rules:
    """same_machine: last digits must agree. numbers: any number must. texts: words count."""

    same_machine: bool = True
    numbers: bool = True
    texts: bool = True


def differences(old: Any, new: Any, rules: Rules, path: str = "") -> Iterator[Difference]:
    """Every field that differs, where `old` is the stored side."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _mappings(old, new, rules, path)
    elif isinstance(old, list) and isinstance(new, list):
        for k in range(max(len(old), len(new))):
            one = old[k] if k < len(old) else MISSING
            other = new[k] if k < len(new) else MISSING
            yield from differences(one, other, rules, f"{path}[{k}]")
    elif isinstance(old, str) and isinstance(new, str):
        yield from _texts(old, new, rules, path)
    elif _number(old) and _number(new):
        if rules.numbers and not _near(old, new, _exact(path), rules):
            yield Difference(path, old, new)
    elif type(old) is not type(new) or old != new:
        yield Difference(path, old, new)


def of_case(kept: Mapping[str, Any], rules: Rules) -> Rules:
    """The rules for one case."""
    return replace(rules, numbers=rules.same_machine or not kept.get("unsteady"))


def _mappings(
    old: Mapping[str, Any], new: Mapping[str, Any], rules: Rules, path: str
) -> Iterator[Difference]:
    digested = {"first", "length", "all"} <= old.keys()
    for name in [*old, *(name for name in new if name not in old)]:
        if name == "all" and digested and not rules.same_machine:
            continue
        place = f"{path}.{name}" if path else name
        one, other = old.get(name, MISSING), new.get(name, MISSING)
        yield from differences(one, other, rules, place)


def _texts(old: str, new: str, rules: Rules, path: str) -> Iterator[Difference]:
    if old == new:
        return
    if NUMBER.fullmatch(old) or FRACTION.fullmatch(old):
        yield Difference(path, old, new)  # a fraction of the account
        return
    if _code(path):
        yield Difference(path, old, new)
        return
    words, others = NUMBER.sub("#", old), NUMBER.sub("#", new)
    if words.split() != others.split():
        if rules.texts:
            yield Difference(path, *_apart(old, new), text=True)
        return
    for one, other in zip(NUMBER.findall(old), NUMBER.findall(new), strict=True):
        if one != other and not _printed(one, other, rules):
            yield Difference(path, *_apart(old, new))
            return


def _apart(old: str, new: str) -> tuple[str, str]:
    """The first lines of two texts that differ."""
    lines, others = old.splitlines(), new.splitlines()
    for one, other in zip(lines, others, strict=False):
        if one != other:
            return one, other
    return old, new


def _printed(old: str, new: str, rules: Rules) -> bool:
    """Whether two printed numbers are near; on another machine also one unit of the last digit."""
    one, other = (float(text.replace(",", "")) for text in (old, new))
    if not rules.numbers or _near(one, other, False, rules):
        return True
    digits, _, power = old.lower().partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return not rules.same_machine and abs(one - other) <= 1.01 * unit


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _near(old: float, new: float, exact: bool, rules: Rules) -> bool:
    whole = isinstance(old, int) and isinstance(new, int)
    if old == new and type(old) is type(new):
        return True
    if rules.same_machine and (exact or whole):
        return False
    if whole and abs(old - new) <= STEPS:
        return True
    return math.isclose(old, new, rel_tol=NEAR, abs_tol=0.0 if exact else NEAR * 1e-3)


def _exact(path: str) -> bool:
    return bool(set(re.split(r"[.\[]", path)) & set(EXACT_PLACES))


def _code(path: str) -> bool:
    parts = re.sub(r"\[\d+\]", "", path).split(".")
    return parts[-1] in CODES and not set(WORDY.get(parts[-1], ())) & set(parts)


def _short(value: Any) -> str:
    shown = value if value == MISSING else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 160 else shown[:157] + "..."


# --- what is stored -------------------------------------------------------------------------------


def stored(group: str) -> dict[str, Any]:
    path = FOLDER / f"{group}.json"
    return json.loads(path.read_text()) if path.exists() else {"platform": None, "releases": {}}


def store(group: str, releases: Mapping[str, Any]) -> None:
    """One line per release."""
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: "
        + json.dumps(kept, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        for name, kept in releases.items()
    ]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{group}.json").write_text(
        '{\n"platform": ' + json.dumps(golden_platform.platform()) + ',\n"releases": {\n'
        + ",\n".join(lines) + "\n}\n}\n"
    )  # fmt: skip


def as_stored(kept: Any) -> Any:
    """As it would be read back."""
    return json.loads(json.dumps(kept))


# --- the command ----------------------------------------------------------------------------------


def compared(only: str, texts: bool) -> Iterator[tuple[str, str, list[Difference]]]:
    """(group, name, differences) of every case, and of those that are gone."""
    for group, cases in golden_cases.GROUPS.items():
        before = stored(group)
        known = dict(before["releases"])
        same = before["platform"] == golden_platform.platform()
        now = Rules(same, texts=texts)
        for name, case in cases():
            old = known.pop(name, None)
            if only not in f"{group} | {name}":
                continue
            new = as_stored(golden_cases.kept(case))
            found = (
                [Difference("", MISSING, "(new)")] if old is None
                else list(differences(old, new, of_case(new, now)))
            )  # fmt: skip
            yield group, name, found
        for name in known:
            if only in f"{group} | {name}":
                yield group, name, [Difference("", "(stored)", MISSING)]


def update(only: str) -> int:
    changed = 0
    for group, cases in golden_cases.GROUPS.items():
        before = stored(group)["releases"]
        made = {}
        for name, case in cases():
            if only in f"{group} | {name}" or name not in before:
                made[name] = as_stored(golden_cases.kept(case))
                changed += made[name] != before.get(name)
            else:
                made[name] = before[name]
        changed += len(before.keys() - made.keys())
        store(group, made)
    print(f"{changed} releases changed; say in the commit what changed and why")
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description="Compare golden releases, field by field.")
    options.add_argument("--update", action="store_true", help="store what is made now")
    options.add_argument("--only", default="", help="cases whose name holds this text")
    options.add_argument("--ignore-texts", action="store_true", help="words may change")
    options.add_argument("--shown", type=int, default=8, help="differences shown per release")
    asked = options.parse_args(arguments)
    if asked.update:
        return update(asked.only)
    cases = numbers = texts = 0
    worded: list[tuple[str, Difference]] = []
    for group, name, found in compared(asked.only, not asked.ignore_texts):
        cases += 1
        counted = [item for item in found if not item.text]
        worded += [(f"{group} | {name}", item) for item in found if item.text]
        texts += any(item.text for item in found)
        numbers += bool(counted)
        if counted:
            print(f"{group} | {name}")
            for item in counted[: asked.shown]:
                print(f"    {item}")
            if len(counted) > asked.shown:
                print(f"    and {len(counted) - asked.shown} more")
    if worded:
        print("texts:")
        # a text that changed everywhere is shown once
        listed: dict[tuple[str, str], list[str]] = {}
        for name, item in worded:
            listed.setdefault((str(item.old), str(item.new)), []).append(f"{name}: {item.path}")
        for (old, new), places in listed.items():
            print(f"    {_short(old)} -> {_short(new)}\n        {places[0]}, {len(places)} in all")
    print(
        f"{cases} releases: {numbers} differ in values, {texts} in texts"
        + (" (texts ignored)" if asked.ignore_texts else "")
    )
    return 1 if numbers or texts else 0


if __name__ == "__main__":
    sys.exit(main())
