"""python -m privmean: the command line."""

from privmean.cli import console

console()
