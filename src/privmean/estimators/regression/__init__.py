"""Regressions: one for all people, within people, or one a person."""
