"""What holds for every test of local rounds: fixed public seeds."""

from public_seeds import public_seeds

__all__ = ["public_seeds"]
