"""python -m privmean: the command line."""

from privmean.cli import main

main()
