"""Means by group under one budget: counts, one pooled location, limits by size, one release."""
