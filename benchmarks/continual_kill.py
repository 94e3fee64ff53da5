"""kill -9 a running stream at random moments, again and again, and compare what it published.

Most runs are forks of this process that execute the command's own loop (no start-up to wait for),
some are the real command. All read the same events from a pipe that new events trickle into, and
share one state file. What was published for a step must never differ from what was published
before; at the end every step is there once and every participation is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from privmean.continual.events import Reader, run
from privmean.continual.stream import MeanStream
from report import publish

MOUNT = (
    "import typer\nfrom privmean.cli.stream import register\napp = typer.Typer()\n"
    "@app.command()\ndef other() -> None: ...\nregister(app)\napp()"
)
MOST, APART = 16, 64
COMMAND = [
    sys.executable, "-c", MOUNT, "stream", "--person", "p", "--value", "v", "--epsilon", "1",
    "--delta", "1e-6", "--max-participations", str(MOST), "--min-separation", str(APART),
    "--clip", "50", "--quiet", "--state",
]  # fmt: skip


def fork(state: Path) -> tuple[int, int, int]:
    """(process id, write end of its input, read end of its output); `state` exists already."""
    to_child, from_child = os.pipe(), os.pipe()
    child = os.fork()
    if child:
        os.close(to_child[0])
        os.close(from_child[1])
        return child, to_child[1], from_child[0]
    try:
        os.close(to_child[1])
        sys.stdin = os.fdopen(to_child[0], "rb")
        sys.stdout = os.fdopen(from_child[1], "w")
        with MeanStream.resume(state) as stream:
            run(stream, Reader("p", ("v",)), append=False, replay=True)
        sys.stdout.flush()
    finally:
        os._exit(0)


def command(state: Path) -> tuple[int, int, int]:
    process = subprocess.Popen(
        [*COMMAND, str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    ends = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    process.stdin.close()
    process.stdout.close()
    return process.pid, *ends


def feed(pipe: int, lines: list[bytes], known: int, dead: threading.Event) -> None:
    """What was read before at once, then a few events at a time; then wait for the kill."""
    try:
        with os.fdopen(pipe, "wb") as file:
            file.write(b"".join(lines[:known]))
            for start in range(known, len(lines), 7):
                file.write(b"".join(lines[start : start + 7]))
                file.flush()
                time.sleep(0.003)
            dead.wait()
    except OSError:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kills", type=int, default=240)
    arguments = parser.parse_args()
    wanted = 25 if arguments.quick else arguments.kills
    rng = random.Random(0)
    events = [{"p": f"u{rng.randrange(2000)}", "v": rng.gauss(20, 5)} for _ in range(60 * wanted)]
    lines = [(json.dumps(row) + "\n").encode() for row in events]
    seen: dict[int, bytes] = {}
    kills = real = advanced = 0
    known = 0
    with MeanStream(
        epsilon=1.0, delta=1e-6, max_participations=2, min_separation=1, clip_radius=1.0
    ) as warm:
        warm.extend(["a", "b"], [0.0, 1.0])  # whatever is loaded late is loaded before forking
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        while True:
            as_command = kills % 40 == 0
            child, entry, output = (command if as_command else fork)(state)
            last = kills >= wanted or known >= len(lines) - 15
            dead = threading.Event()
            if last:
                dead.set()
            upto = len(lines) if last else min(len(lines), known + rng.randrange(15, 100))
            threading.Thread(
                target=feed, args=(entry, lines[:upto], known, dead), daemon=True
            ).start()
            written: list[bytes] = []
            before, killer = len(seen), None
            with os.fdopen(output, "rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    item = json.loads(line)
                    if seen.setdefault(item["step"], line) != line:
                        raise SystemExit(f"step {item['step']} was published with two values")
                    written.append(line)
                    known = max(known, item["arrivals"])
                    if killer is None and not last and len(seen) > before:
                        delay = rng.uniform(0.0, 0.1)
                        killer = threading.Timer(delay, os.kill, (child, signal.SIGKILL))
                        killer.start()
            if killer is not None:
                killer.join()  # before the child is reaped, so that its number is still its own
            _, status = os.waitpid(child, 0)
            dead.set()
            if not os.WIFSIGNALED(status):
                break
            kills += 1
            real += as_command
            advanced += len(seen) > before
    seconds = time.perf_counter() - start
    final = [json.loads(line) for line in written]
    steps = [item["step"] for item in final]
    assert steps == list(range(1, len(steps) + 1)) == sorted(seen)
    counts = Counter(row["p"] for row in events)
    accepted = sum(min(MOST, count) for count in counts.values())
    assert final[-1]["records"] + final[-1]["waiting"] == accepted
    publish(
        "continual-kill",
        "Running means: killed at random",
        f"{len(events):,} events; {kills} times kill -9 ({real} of the real command, the others of "
        f"forks running its loop; {advanced} while new steps were being published), "
        f"{seconds:.0f} s. {len(seen):,} steps: none published with two values, none missing; all "
        f"{accepted:,} participations counted.",
        command="python benchmarks/continual_kill.py",
    )


if __name__ == "__main__":
    main()
