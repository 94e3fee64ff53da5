"""What `privmean verify` notices of releases with one leaf edited and both digests made anew.

    python benchmarks/verify_edits.py

Eleven releases (means, groups, a curve, quantiles, a variance, a regression, a study), every leaf
of them and every edit of `tests/leaf_edits.py`. A row a class of leaf: where it stands. An edit of
a class without a reason contradicts the account, the rows or itself, and must be refused; of the
others the table says why they may pass. `--every 10` tries every tenth edit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def tried(every: int) -> tuple[dict[str, dict[str, Any]], float]:
    """Edits, refused and accepted of every class of leaf, and the processor seconds of one."""
    import leaf_edits
    from privmean.release.verification import verify

    edits: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    start = time.process_time()
    for kind in leaf_edits.KINDS:
        values = leaf_edits.stored(kind)
        assert verify(values), kind
        for path, _, other in leaf_edits.edits(values, every):
            where = leaf_edits.place(path, values)
            edits[where] += 1
            accepted[where] += bool(verify(leaf_edits.edited(values, path, other)))
    taken = time.process_time() - start
    found = {
        where: {
            "edits": number,
            "refused": number - accepted[where],
            "accepted": accepted[where],
            "why": leaf_edits.reason(where) or "",
        }
        for where, number in sorted(edits.items())
    }
    return found, taken / edits.total()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--every", type=int, default=1)
    every = arguments.parse_args().every
    found, seconds = tried(every)
    strict = [item for item in found.values() if not item["why"]]
    loose = {where: item for where, item in found.items() if item["why"]}

    def total(items: Any, name: str) -> int:
        return sum(item[name] for item in items)

    def share(items: Any) -> str:
        return f"{total(items, 'refused') / max(total(items, 'edits'), 1):.1%}"

    rows: list[list[object]] = [
        [
            f"{len(strict)} classes of numbers and statuses that something else states",
            total(strict, "edits"), total(strict, "refused"), total(strict, "accepted"),
            share(strict), "must be refused",
        ],
        *(
            [f"`{where}`", item["edits"], item["refused"], item["accepted"], share([item]),
             item["why"]]
            for where, item in loose.items()
        ),
        [
            "all", total(found.values(), "edits"), total(found.values(), "refused"),
            total(found.values(), "accepted"), share(found.values()), "",
        ],
    ]  # fmt: skip
    result = {
        "every": every,
        "processor_seconds_an_edit": round(seconds, 5),
        "classes": found,
    }
    text = table(["leaf", "edits", "refused", "accepted", "refused share", "why it may pass"], rows)
    if every == 1:
        publish(
            "verify-edits",
            "Edits of stored releases whose digests were made anew",
            text,
            command="python benchmarks/verify_edits.py",
            data=result,
        )
    else:
        print(text)
    print(f"{seconds * 1000:.1f} ms of processor time an edit, {os.cpu_count()} cores")
    wrong = [where for where, item in found.items() if item["accepted"] and not item["why"]]
    if wrong:
        raise SystemExit(f"accepted: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
