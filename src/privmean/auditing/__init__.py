"""Audit by record and replay: what neighbors change, against what the losses declare.

`calls` makes whole calls, `replay` records and replays them and measures a pair of neighbors.
`call_list` and `findings` list what is asked. `measure_loss` tries the draws themselves, also those
by rejection; `audit_local` audits local reports and streams, which have no curator.
"""
