"""Restore backups of stores with ordinary tools, at every step of their work, and go on.

After each piece of work the folder is backed up. Then the backup before it is put back with each
tool, and the store is asked to go on. Counted is what it does: refuse, or go on and give something
that was published another value. `snapshot` puts the witness back, too, as a machine's snapshot
does: nobody can notice that, and the last column shows that the restorer would see it.

    python benchmarks/restorer.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fault_machine import REFUSED, Work, worked, works
from report import publish, table

STEPS, FEW = 12, 3  # pieces of work, new results of each
TOOLS = {  # of a folder's files, one after the other; {} {}: from, to
    "cp": "cp {} {}",
    "cp -a": "cp -a {} {}",
    "cat >": "cat {} > {}",
    "rsync --inplace": "rsync -a --inplace --ignore-times {} {}",
    "tar x": "tar -C $(dirname {0}) -cf - $(basename {0}) | tar -C $(dirname {1}) -xf -",
    "mv": "cp -a {0} {0}.moved && mv {0}.moved {1}",
}
SNAPSHOT = "snapshot of the machine"
# what is done to a store's own newest file, and must be no reason to refuse
HARMLESS = {
    "chmod": "chmod 640 {}", "touch": "touch -d 2001-01-01 {}", "hard link": "ln -f {0} {0}.linked",
    "backup taken": "cp -a {0} {0}.backup",
}  # fmt: skip


def restored(work: Work, folder: Path, tool: str, steps: int) -> dict[str, int]:
    """What a store does of so many backups put back with this tool."""
    shutil.rmtree(folder, ignore_errors=True)
    witness, run = folder / "witness", folder / "run"
    run.mkdir(parents=True)
    os.environ["XDG_STATE_HOME"] = str(witness)
    place, published = run / "state", {}
    found = {"restores": 0, "refused": 0, "second": 0}
    _go_on(work, place, published)
    for _ in range(steps):
        backup, told = _kept(run, folder / "backup"), _kept(witness, folder / "told")
        _go_on(work, place, published)
        newest, known = _kept(run, folder / "newest"), _kept(witness, folder / "known")
        if tool == SNAPSHOT:
            _kept(backup, run)
            _kept(told, witness)
        else:
            _put(backup, run, tool)
        new, status = worked(work, place, published, enough=FEW)
        found["restores"] += 1
        found["refused"] += status == REFUSED
        found["second"] += any(published.get(key, item) != item for key, item in new.items())
        _kept(newest, run)
        _kept(known, witness)
    return found


def harmless(work: Work, folder: Path, steps: int) -> dict[str, int]:
    """How often a store goes on from its own newest file, and how often it refuses it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "run").mkdir(parents=True)
    os.environ["XDG_STATE_HOME"] = str(folder / "witness")
    place, published = folder / "run" / "state", {}
    found = {"changes": 0, "refused": 0}
    _go_on(work, place, published)
    for step in range(steps):
        command = list(HARMLESS.values())[step % len(HARMLESS)]
        for file in _files(folder / "run"):
            subprocess.run(command.format(file), shell=True, check=True)
        found["changes"] += 1
        _, status = worked(work, place, published, enough=FEW)
        found["refused"] += status == REFUSED
        if not status:
            published |= work.contents(place, False)
    return found


def _go_on(work: Work, place: Path, published: dict[str, str]) -> None:
    _, status = worked(work, place, published, enough=FEW)
    assert not status, "the work failed"
    published |= work.contents(place, False)


def _kept(folder: Path, copy: Path) -> Path:
    """A copy of a folder, and of nothing else."""
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder, copy))


def _put(backup: Path, folder: Path, tool: str) -> None:
    """Put the files of a backup back, over those that are there."""
    for file in _files(backup):
        to = folder / file.relative_to(backup)
        to.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(TOOLS[tool].format(file, to), shell=True, check=True)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    steps = 2 if parser.parse_args().quick else STEPS
    tools = [name for name in TOOLS if shutil.which(name.split()[0])]
    rows: list[list[object]] = []
    second = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for work in works(folder / "input"):
            work.warm(folder / f"warm {work.name}")
            for tool in (*tools, SNAPSHOT):
                found = restored(work, folder / "here", tool, steps)
                second += found["second"] if tool != SNAPSHOT else 0
                rows.append([work.name, tool, *found.values()])
                print(*rows[-1], sep=" | ", flush=True)
            found = harmless(work, folder / "here", steps)
            rows.append([work.name, "no restore: " + ", ".join(HARMLESS), *found.values(), 0])
            print(*rows[-1], sep=" | ", flush=True)
    head = ["store", "tool", "times", "refused", "second values"]
    publish(
        "restores",
        "Backups put back",
        f"Second values in silence, but for snapshots of the whole machine: {second}.\n\n"
        + table(head, rows),
        command="python benchmarks/restorer.py",
    )


if __name__ == "__main__":
    main()
