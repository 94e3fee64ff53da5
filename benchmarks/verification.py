"""What `privmean verify` takes and what it notices, by kind of release.

    python benchmarks/verification.py

Processor seconds of whole processes (the interpreter and all imports inside), the least of five,
with those of an empty interpreter and of one that imports the command line alone; and how many
edits of one field (changed, removed, doubled, swapped) of the stored release were tried, noticed.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

RUNS = 5


def seconds(*arguments: str) -> float:
    """Processor seconds of a Python process."""
    taken = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(taken)


def main() -> None:
    import test_verification as kinds
    from privmean.verification import verify

    rows: list[list[object]] = [
        ["an empty interpreter", "", f"{seconds('-c', 'pass'):.2f}", ""],
        ["the command line alone", "", f"{seconds('-m', 'privmean', '--version'):.2f}", ""],
    ]
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds.KINDS:
            file = Path(folder) / "release.json"
            file.write_text(kinds.text(kind))
            values = kinds.stored(kind)
            tried = [edit for _, _, edit in kinds.edits(values) if not same(edit, values)]
            noticed = sum(not verify(edit) for edit in tried)
            rule = next(x for x in verify(values).checked if x.startswith("the bill"))
            rows.append(
                [
                    kind,
                    rule[rule.rindex("(") + 1 : -1],
                    f"{seconds('-m', 'privmean', 'verify', str(file)):.2f}",
                    f"{noticed}/{len(tried)}",
                ]
            )
    publish(
        "verification",
        "Verification of a stored release",
        table(["release", "composed by", "processor seconds", "edits noticed"], rows),
        command="python benchmarks/verification.py",
    )


def same(one: object, other: object) -> bool:
    from privmean.privacy.canonical import canonical

    return canonical(one) == canonical(other)


if __name__ == "__main__":
    main()
