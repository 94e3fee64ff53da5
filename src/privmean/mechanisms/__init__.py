"""The only code that sees both data and noise: exact integers in, noisy integers out.

Each mechanism is a small frozen dataclass of public parameters. `losses` is its accounting, known
before data are read; `release` adds the noise. Proofs are in docs/proofs, one page a mechanism.
"""
