"""Audit by record and replay: what neighbors change, against what the losses declare.

`calls` makes whole calls, `transcript` records and replays them, `operands` measures a pair of
neighbors. `call_list` and `subjects` list what is asked. `measure_loss` tries the draws themselves,
also those by rejection; `audit_local`, `audit_streams` and `replay` audit what has no curator.
"""
