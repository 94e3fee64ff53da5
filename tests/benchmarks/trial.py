"""Runs scripts of benchmarks/ at their smallest settings, each in a fork of this process.

    python tests/benchmarks/trial.py FOLDER < JSON

JSON: a list of [script, arguments, seconds]; FOLDER: a copy of the repository's root, in which the
scripts may write. Prints a JSON object: script -> "" or what it said when it failed. A script with
seconds is left after so much processor time of its own, which is no failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
import warnings
from importlib import import_module
from pathlib import Path

# what most scripts import, once: none of it starts a thread
for module in (
    "scipy.optimize", "scipy.stats", "privmean.estimators.means.default_mean", "privmean.streams",
    "privmean.local", "privmean.noise.noise_source",
):  # fmt: skip
    import_module(module)


left: list[bool] = []  # whether the script of this process ran as long as it should


def leave(*_: object) -> None:
    """End the script: by what a person does who interrupts it."""
    left.append(True)
    raise KeyboardInterrupt


def inside(script: Path, arguments: list[str], seconds: float) -> int:
    """Run a script here; 0 where nothing went wrong."""
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    warnings.simplefilter("ignore")
    if seconds:
        signal.signal(signal.SIGPROF, leave)
        # again and again: where the first is raised in a callback, it is lost
        signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        return int(end.code not in (None, 0) and not left)
    except BaseException:
        if left:  # an engine may have made another error of it
            return 0
        traceback.print_exc()
        return 1
    return 0


def tried(script: Path, arguments: list[str], seconds: float) -> str:
    """What a script said in a fork of its own; "" where it ended well."""
    with tempfile.TemporaryFile() as told:
        child = os.fork()
        if not child:
            os.setsid()
            for stream in (1, 2):
                os.dup2(told.fileno(), stream)
            code = 1
            try:
                code = inside(script, arguments, seconds)
                signal.setitimer(signal.ITIMER_PROF, 0)
                sys.stdout.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # its own children, where it was left
        if status == 0:
            return ""
        told.seek(0)
        return told.read().decode(errors="replace")[-3000:] or f"status {status}"


def main() -> None:
    folder = Path(sys.argv[1])
    os.chdir(folder)
    sys.path.insert(0, str(folder / "tests"))
    print(
        json.dumps(
            {
                name: tried(folder / "benchmarks" / f"{name}.py", arguments, seconds)
                for name, arguments, seconds in json.load(sys.stdin)
            }
        )
    )


if __name__ == "__main__":
    main()
