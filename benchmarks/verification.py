"""What `privmean verify` takes and what it notices, by kind of release.

    python benchmarks/verification.py

Seconds of whole processes (the interpreter and all imports inside), of the processor and by the
clock, the least of five each, and over those of a process that does nothing but import
dp-accounting, which composes such bills too; and how many edits of one field (changed, removed,
doubled, swapped) of the stored release were tried, noticed. The study has eleven questions, whose
bill fits by privacy loss distributions alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

RUNS = 5
PLACES = 41


def seconds(*arguments: str) -> tuple[float, float]:
    """Seconds of a Python process: of the processor, by the clock."""
    taken, clock = [], []
    for _ in range(RUNS):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        clock.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(taken), min(clock)


def study() -> dict[str, object]:
    """A study whose lines add up to more than its epsilon."""
    import privmean as pm

    asked = pm.Study(pm.example("wages"), person="id", epsilon=6.0, delta=1e-6)
    asked.add("trend", pm.Curve("ln_wage", "year", bins=[1968, 1974, 1981, 1989]))
    asked.add("returns", pm.Regression("ln_wage ~ experience + tenure"))
    asked.add("median", pm.Quantile("ln_wage", bounds=(0, 6)))
    for k in range(8):
        asked.add(f"mean {k}", pm.Mean("ln_wage" if k % 2 else "hours"))
    return asked.release().to_dict()


def main() -> None:
    import leaf_edits
    from privmean.release.verification import verify

    other = seconds("-c", "import dp_accounting.pld.privacy_loss_distribution")

    def times(found: tuple[float, float]) -> list[object]:
        return [f"{found[0]:.2f}", f"{found[1]:.2f}", f"{found[0] / other[0]:.2f}"]

    rows: list[list[object]] = [
        ["an empty interpreter", "", *times(seconds("-c", "pass")), ""],
        ["importing dp-accounting alone", "", *times(other), ""],
    ]
    with tempfile.TemporaryDirectory() as folder:
        for kind in (*leaf_edits.RELEASES, "study"):
            file = Path(folder) / "release.json"
            values = json.loads(json.dumps(study())) if kind == "study" else leaf_edits.stored(kind)
            file.write_text(json.dumps(values))
            every = PLACES if kind == "study" else 1  # of a study every so many: it has thousands
            tried = [edit for *_, edit in leaf_edits.unsealed(values, every)]
            noticed = sum(not verify(edit) for edit in tried)
            rule = next(x for x in verify(values).checked if x.startswith("accounting"))
            rows.append(
                [
                    kind,
                    rule[rule.rindex("(") + 1 : -1],
                    *times(seconds("-m", "privmean", "verify", str(file))),
                    f"{noticed}/{len(tried)}",
                ]
            )
    publish(
        "verification",
        "Verification of a stored release",
        table(
            ["release", "composed by", "processor seconds", "by the clock", "ratio", "noticed"],
            rows,
        ),
        command="python benchmarks/verification.py",
    )


if __name__ == "__main__":
    main()
