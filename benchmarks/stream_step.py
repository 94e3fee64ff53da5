"""Time of a durable step of a stream, beside another version of the code in the same run.

Both versions take turns at a stream with a state file, one record a batch. The witness reaches the
disk once a second; the last columns are those of one that reaches it with each step.

    git worktree add ../before COMMIT
    python benchmarks/stream_step.py --before ../before [--publish]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import few, publish, table

STEP = """
import statistics, sys, time
from privmean.streams import MeanStream
from privmean.streams.strategies import Buffered
place, steps, synced = sys.argv[1], *map(int, sys.argv[2:])
if synced:
    from privmean.storage import witness
    witness.EVERY = 0.0
stream = MeanStream(
    state=place, bounds=(0, 5), epsilon=1, delta=1e-6, max_participations=4, min_separation=50,
    design_steps=1000, strategy=Buffered((0.25, 0.07), (0.6, 0.96)),
)
for warm in range(20):
    stream.update(f"w{warm}", 2.0)
walls, cpu = [], time.process_time()
for step in range(steps):
    wall = time.perf_counter()
    stream.update(f"u{step}", 2.0)
    walls.append(time.perf_counter() - wall)
print((time.process_time() - cpu) / steps, statistics.median(walls))
"""


def timed(source: Path, steps: int, synced: bool) -> tuple[float, float]:
    """Milliseconds of a step: of the processor, and by the clock."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", STEP, f"{folder}/state", str(steps), str(int(synced))],
            env=os.environ | {"PYTHONPATH": str(source), "XDG_STATE_HOME": f"{folder}/witness"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    cpu, wall = (1000 * float(item) for item in done.stdout.split())
    return cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="checkout of the other version")
    parser.add_argument("--repeats", type=int, default=few(9))
    parser.add_argument("--steps", type=int, default=few(500))
    parser.add_argument("--publish", action="store_true", help="store the results")
    options = parser.parse_args()
    ours = Path(__file__).resolve().parent.parent / "src"
    sides = [(options.before / "src", False), (ours, False), (ours, True)]
    runs = [
        [timed(source, options.steps, synced) for source, synced in sides]
        for _ in range(options.repeats)
    ]
    rows: list[list[object]] = []
    for part, clock in ((1, "clock"), (0, "processor")):
        middle = [statistics.median(run[side][part] for run in runs) for side in range(3)]
        ratio = statistics.median(run[1][part] / run[0][part] for run in runs)
        before, now, synced = (f"{item:.2f}" for item in middle)
        rows.append([clock, before, now, f"{ratio:.2f}", synced])
    header = ["time", "before, ms", "now, ms", "ratio", "witness synced, ms"]
    text = (
        f"The median of {options.repeats} runs in turn of {options.steps} steps; load "
        f"{os.getloadavg()[0]:.1f}.\n\n" + table(header, rows)
    )
    if options.publish:
        title = "A durable step of a stream, beside the file before"
        command = "python benchmarks/stream_step.py --before BEFORE --publish"
        publish("stream-step", title, text, command=command)
    else:
        print(text)


if __name__ == "__main__":
    main()
