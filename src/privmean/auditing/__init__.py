"""Audit by record and replay: what neighbours change, against what the bill declares.

`tape` records a run and replays it on a neighbour; `hostile` makes neighbours; `subjects` lists
what is audited; `drawing` tries the draws themselves; `local` and `streams` audit what has no
curator.
"""
