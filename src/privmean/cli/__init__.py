"""The command line: thin commands over the public functions.

Exit status: 0 for a release, 1 for an unexpected error (its words are withheld, they may quote
records), 130 after Ctrl-C, 2 for wrong arguments (nothing was spent), 3 when nothing that was asked
has an estimate (the message says what was charged and what to change). `verify` exits with 1 where
something is wrong, `ledger plan` with 3 where a budget would not fit.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from privmean._version import __version__


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:  # needs nothing that answers questions, nor reads options
        print(f"privmean {__version__}")
        sys.exit(0)
    # read when NumPy and SciPy are loaded: threads of OpenBLAS that have nothing to do go to sleep
    # instead of turning for 2^26 ticks, which a short command pays for
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # modules and classes stay: looking among them for garbage at every 700 objects takes a tenth
    # of a short command; loading them makes some 120,000 objects
    gc.set_threshold(300_000, 50, 50)
    try:
        from privmean.cli.app import run

        status = run(arguments)
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def console() -> None:
    """The command line as a process of its own. Taking modules and classes apart, one by one, is a
    sixth of a short command: its memory goes at once, after whatever is registered for the end.
    Connections that end where their objects do, threads and tools that watch have the usual end."""
    import atexit
    import threading

    try:
        main()
    except SystemExit as stop:
        held = {"sqlite3", "sqlalchemy"} & sys.modules.keys() or threading.active_count() > 1
        watched = sys.getprofile() or sys.gettrace() or sys.flags.inspect
        if held or watched or not isinstance(stop.code, int):
            raise
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:  # the interpreter says it
            raise stop from None
        os._exit(stop.code)
