"""The command line: thin commands over the public functions.

Exit status: 0 for a release, 1 for an unexpected error (its words are withheld, they may quote
records), 2 for wrong arguments (nothing was spent), 3 when the release failed privately (the budget
is spent; the message says what to change). `verify` exits with 1 where something is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    from privmean.cli.app import run

    sys.exit(run(argv))
