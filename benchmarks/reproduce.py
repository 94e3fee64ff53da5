"""Runs every benchmark, one after the other; each stores its tables in benchmarks/results/.

    python benchmarks/reproduce.py [--quick] [NAME ...]

NAME: only scripts whose file name contains it. A script that fails does not stop the others; the
exit status then is 1. Some read development tables from ../shared/data and say so when absent.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def scripts() -> list[Path]:
    """Every file here with a main program, this one apart."""
    return [
        path
        for path in sorted(FOLDER.glob("*.py"))
        if path.name != "reproduce.py"
        and "publish(" in path.read_text()
        and 'if __name__ == "__main__"' in path.read_text()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    failed = []
    for path in scripts():
        if arguments.names and not any(name in path.stem for name in arguments.names):
            continue
        print(f"== {path.name}", flush=True)
        start = time.monotonic()
        command = [sys.executable, str(path), *(["--quick"] if arguments.quick else [])]
        status = subprocess.run(command, check=False).returncode
        print(f"== {path.name}: exit {status}, {time.monotonic() - start:.0f} s", flush=True)
        if status:
            failed.append(path.name)
    if failed:
        print("failed:", ", ".join(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
