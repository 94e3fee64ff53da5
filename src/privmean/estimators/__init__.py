"""Estimators for a trusted curator: how a column is located, and what is estimated from it."""
